//! The universal scalability law, and its fit to measured clusters.
//!
//! X(N) = λN / (1 + σ(N - 1) + κN(N - 1)), where λ is the rate of one node, σ the share of work that is
//! serialized, and κ the cost of coordination between each pair of nodes (Gunther: "Guerrilla Capacity
//! Planning", Springer 2007, chapter 6). N/X is linear in 1/λ, σ/λ and κ/λ, so the least squares of the
//! relative deviations have one solution. Coefficients below 0 are meaningless, so the fit leaves such
//! terms out.

use crate::random::{Random, RandomKind, Seed};

/// Maximum size of a cluster that is considered.
const NODES_MAX: u32 = 10_000;
/// Number of fits to resampled deviations.
const RESAMPLE_COUNT: usize = 1000;
/// Share of the fits that an interval leaves out at each end.
const TAIL: f64 = 0.05;
/// Number of terms of the linear form: 1, N - 1, N(N - 1).
const TERMS: usize = 3;

/// A measured cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterPoint {
    /// Number of nodes, at least 1.
    pub nodes: u32,
    /// Operations per second of the whole cluster, above 0.
    pub rate_per_s: f64,
}

/// A law for the growth of a cluster's rate with its number of nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScalingLaw {
    /// Coefficients of the linear form, not below 0.
    terms: [f64; TERMS],
    /// Number of fitted terms.
    term_count: usize,
}

fn terms_of(nodes: f64) -> [f64; TERMS] {
    [1.0, nodes - 1.0, nodes * (nodes - 1.0)]
}

impl ScalingLaw {
    /// The law with the least squares of the relative deviations from the points; `None` without a point.
    /// With fewer than three sizes of clusters, terms are left out.
    #[must_use]
    pub fn fit(points: &[ClusterPoint]) -> Option<Self> {
        let candidates =
            [[true, true, true], [true, true, false], [true, false, true], [true, false, false]];
        let fits = candidates.into_iter().filter_map(|used| Self::fit_terms(points, used));
        fits.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, law)| law)
    }

    /// The best law with these terms, and its sum of squares. `None` if a coefficient would be below 0 or
    /// the points do not determine the law.
    fn fit_terms(points: &[ClusterPoint], used: [bool; TERMS]) -> Option<(f64, Self)> {
        let term_count = used.iter().filter(|is_used| **is_used).count();
        let mut sizes: Vec<u32> = points.iter().map(|point| point.nodes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() < term_count {
            return None;
        }
        let row = |point: &ClusterPoint| {
            let nodes = f64::from(point.nodes);
            let all = terms_of(nodes).into_iter().zip(used);
            let kept = all.filter(|(_, is_used)| *is_used);
            kept.map(|(term, _)| term * point.rate_per_s / nodes).collect::<Vec<f64>>()
        };
        let rows: Vec<Vec<f64>> = points.iter().map(row).collect();
        let solution = least_squares_of_ones(&rows)?;
        let has_no_rate = solution.first().is_none_or(|first| *first <= 0.0);
        if has_no_rate || solution.iter().any(|coefficient| *coefficient < 0.0) {
            return None;
        }
        let deviation = |row: &Vec<f64>| {
            let value: f64 = row.iter().zip(&solution).map(|(cell, factor)| cell * factor).sum();
            (value - 1.0).powi(2)
        };
        let squares = rows.iter().map(deviation).sum();
        let mut terms = [0.0; TERMS];
        let kept = terms.iter_mut().zip(used).filter(|(_, is_used)| *is_used);
        kept.zip(&solution).for_each(|((term, _), value)| *term = *value);
        Some((squares, Self { terms, term_count }))
    }

    /// Operations per second of a cluster of this size.
    #[must_use]
    pub fn rate_per_s(&self, nodes: u32) -> f64 {
        let nodes = f64::from(nodes);
        let cost: f64 =
            terms_of(nodes).iter().zip(&self.terms).map(|(term, factor)| term * factor).sum();
        nodes / cost
    }

    /// Operations per second of one node.
    #[must_use]
    pub fn rate_of_one(&self) -> f64 {
        1.0 / self.terms[0]
    }

    /// The share of work that is serialized (σ).
    #[must_use]
    pub fn contention(&self) -> f64 {
        self.terms[1] / self.terms[0]
    }

    /// The cost of coordination between each pair of nodes (κ).
    #[must_use]
    pub fn coherency(&self) -> f64 {
        self.terms[2] / self.terms[0]
    }

    /// Number of nodes beyond which the rate falls; `None` if it never does.
    #[must_use]
    pub fn nodes_at_peak(&self) -> Option<u32> {
        let (contention, coherency) = (self.contention(), self.coherency());
        (coherency > 0.0 && contention < 1.0)
            .then(|| quoit_number::rounded(((1.0 - contention) / coherency).sqrt()))
            .map(quoit_number::saturating_u32)
            .map(|nodes| nodes.max(1))
    }

    /// The smallest number of nodes with this rate; `None` if no cluster has it.
    #[must_use]
    pub fn nodes_for(&self, rate_per_s: f64) -> Option<u32> {
        let most = self.nodes_at_peak().unwrap_or(NODES_MAX).min(NODES_MAX);
        // Up to the peak the rate grows with the number of nodes, so a binary search finds the smallest.
        let (mut low, mut high) = (1, most);
        if self.rate_per_s(most) < rate_per_s {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.rate_per_s(middle) >= rate_per_s { high = middle } else { low = middle + 1 }
        }
        Some(low)
    }

    /// The interval of the number of nodes for this rate that contains 90 % of the laws fitted to points
    /// with resampled deviations. Its upper end is `None` if too many of these laws never reach the rate.
    /// `None` if too few points are left to estimate deviations.
    #[must_use]
    pub fn interval_for(
        &self,
        points: &[ClusterPoint],
        rate_per_s: f64,
    ) -> Option<(u32, Option<u32>)> {
        let spare = points.len().checked_sub(self.term_count).filter(|spare| *spare > 0)?;
        // The residuals of a fit are smaller than the deviations of its points, so widen them.
        let widened = (points.len() as f64 / spare as f64).sqrt();
        let deviation = |point: &ClusterPoint| {
            let ratio = point.rate_per_s / self.rate_per_s(point.nodes);
            1.0 + (ratio - 1.0) * widened
        };
        let deviations: Vec<f64> = points.iter().map(deviation).collect();
        let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), 0);
        let mut nodes: Vec<u32> = (0..RESAMPLE_COUNT)
            .filter_map(|_| {
                let mut resampled = points.to_vec();
                for point in &mut resampled {
                    let drawn = random.pick(&deviations).max(1e-3);
                    point.rate_per_s = self.rate_per_s(point.nodes) * drawn;
                }
                Some(Self::fit(&resampled)?.nodes_for(rate_per_s).unwrap_or(u32::MAX))
            })
            .collect();
        nodes.sort_unstable();
        let at = |share: f64| {
            let rank = quoit_number::rounded(share * (nodes.len() - 1) as f64);
            nodes.get(quoit_number::index(rank)).copied()
        };
        let (low, high) = (at(TAIL)?, at(1.0 - TAIL)?);
        (low < u32::MAX).then_some((low, Some(high).filter(|nodes| *nodes < u32::MAX)))
    }
}

/// The solution x of rows · x = 1 with the least squares; `None` if the rows do not determine it.
#[expect(clippy::indexing_slicing, reason = "the matrix has one column more than lines")]
fn least_squares_of_ones(rows: &[Vec<f64>]) -> Option<Vec<f64>> {
    let count = rows.first()?.len();
    // The normal equations, with their right-hand side as the last column.
    let mut matrix = vec![vec![0.0; count + 1]; count];
    for row in rows {
        for (line, left) in matrix.iter_mut().zip(row) {
            for (cell, right) in line.iter_mut().zip(row.iter().chain([&1.0])) {
                *cell += left * right;
            }
        }
    }
    for column in 0..count {
        let pivot = (column..count)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        matrix.swap(column, pivot);
        let pivot_row = matrix[column].clone();
        if pivot_row[column].abs() < f64::MIN_POSITIVE {
            return None;
        }
        for (index, line) in matrix.iter_mut().enumerate().filter(|(index, _)| *index != column) {
            debug_assert_ne!(index, column);
            let factor = line[column] / pivot_row[column];
            line.iter_mut().zip(&pivot_row).for_each(|(cell, above)| *cell -= factor * above);
        }
    }
    Some((0..count).map(|index| matrix[index][count] / matrix[index][index]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Published operations per second of Riak clusters. The figure for five nodes is from another key
    /// distribution.
    const PUBLISHED: [(u32, f64); 5] =
        [(5, 6684.7), (8, 10_680.2), (10, 13_720.7), (12, 15_995.8), (14, 17_790.0)];

    fn points(of: &[(u32, f64)]) -> Vec<ClusterPoint> {
        of.iter()
            .map(|(nodes, rate_per_s)| ClusterPoint { nodes: *nodes, rate_per_s: *rate_per_s })
            .collect()
    }

    #[test]
    fn each_published_point_follows_from_the_others() {
        for left_out in 0..PUBLISHED.len() {
            let mut others = points(&PUBLISHED);
            let ClusterPoint { nodes, rate_per_s } = others.remove(left_out);
            let law = ScalingLaw::fit(&others).expect("a law");
            let error = law.rate_per_s(nodes) / rate_per_s - 1.0;
            assert!(error.abs() < 0.1, "{nodes} nodes: {:.1} %", error * 100.0);
        }
    }

    #[test]
    fn a_larger_cluster_than_measured_has_an_interval_with_the_published_one_in_it() {
        let smaller = points(&PUBLISHED[..4]);
        let law = ScalingLaw::fit(&smaller).expect("a law");
        let (low, high) = law.interval_for(&smaller, 17_790.0).expect("an interval");
        assert!(low <= 14 && high.is_none_or(|high| high >= 13), "{low} to {high:?}");
    }

    proptest! {
        #[test]
        fn a_law_is_found_again(
            rate in 10.0..1e6_f64,
            contention in 0.0..0.3_f64,
            coherency in 0.0..0.01_f64,
        ) {
            let of = |nodes: f64| {
                rate * nodes / (1.0 + contention * (nodes - 1.0) + coherency * nodes * (nodes - 1.0))
            };
            let measured: Vec<(u32, f64)> = [1, 2, 4, 8, 16].map(|n: u32| (n, of(f64::from(n)))).to_vec();
            let law = ScalingLaw::fit(&points(&measured)).expect("a law");
            for nodes in [1, 3, 8, 16, 30] {
                let expected = of(f64::from(nodes));
                prop_assert!((law.rate_per_s(nodes) / expected - 1.0).abs() < 1e-3, "{nodes}");
            }
        }

        #[test]
        fn the_fewest_nodes_are_as_a_search_through_all_finds_them(
            rate in 100.0..1000.0_f64,
            contention in 0.0..0.2_f64,
            coherency in 0.0..0.01_f64,
            wanted in 50.0..20_000.0_f64,
        ) {
            let terms = [1.0 / rate, contention / rate, coherency / rate];
            let law = ScalingLaw { terms, term_count: 3 };
            let most = law.nodes_at_peak().unwrap_or(NODES_MAX).min(NODES_MAX);
            let naive = (1..=most).find(|nodes| law.rate_per_s(*nodes) >= wanted);
            prop_assert_eq!(law.nodes_for(wanted), naive);
        }
    }

    #[test]
    fn few_points_leave_terms_out_and_have_no_interval() {
        let one = points(&[(3, 3000.0)]);
        let law = ScalingLaw::fit(&one).expect("a law");
        assert!((law.rate_per_s(6) - 6000.0).abs() < 1e-6);
        assert_eq!((law.nodes_at_peak(), law.interval_for(&one, 6000.0)), (None, None));
        let two = points(&[(1, 1000.0), (2, 1800.0)]);
        let law = ScalingLaw::fit(&two).expect("a law");
        assert!((law.rate_per_s(2) - 1800.0).abs() < 1e-6 && law.contention() > 0.0);
        assert_eq!(ScalingLaw::fit(&[]), None);
    }
}
