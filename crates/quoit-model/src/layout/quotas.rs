//! Rounding of fair shares to whole partitions.

use super::shares::{FairShares, Share, sum};
use quoit_number::index;

/// A group of nodes whose shares are rounded together.
struct QuotaGroup<'a> {
    /// All nodes of the group.
    nodes: Vec<usize>,
    /// The groups that it consists of; empty for a single node.
    parts: Vec<QuotaGroup<'a>>,
    shares: &'a [Share],
}

impl<'a> QuotaGroup<'a> {
    fn node(node: usize, shares: &'a [Share]) -> Self {
        Self { nodes: vec![node], parts: Vec::new(), shares }
    }

    fn of(parts: Vec<QuotaGroup<'a>>, shares: &'a [Share]) -> Self {
        let nodes = parts.iter().flat_map(|part| part.nodes.iter().copied()).collect();
        Self { nodes, parts, shares }
    }

    /// Share of the whole group: the integer part, and the numerator of the rest.
    fn share(&self) -> (u64, u64) {
        let (numerator, denominator) = sum(&self.nodes, self.shares);
        (numerator / denominator, numerator % denominator)
    }

    /// True if more nodes would keep one more partition if their share were rounded up than are
    /// rounded up even if the group's share is rounded down.
    fn keeps_more(&self, held: &[u32]) -> bool {
        let wants = |node: &&usize| {
            let share = self.shares[**node];
            share.rest() > 0 && held[**node] > share.floor()
        };
        let wanting = self.nodes.iter().filter(wants).count() as u64;
        let floors: u64 = self.nodes.iter().map(|node| u64::from(self.shares[*node].floor())).sum();
        floors + wanting > self.share().0
    }

    /// Distributes `total` partitions, which is the group's share rounded down or up.
    fn round(&self, total: u64, held: &[u32], quotas: &mut [u32]) {
        if let ([node], []) = (&self.nodes[..], &self.parts[..]) {
            let share = self.shares[*node];
            let quota = u32::try_from(total).expect("a node holds a partition at most once");
            debug_assert!(
                (share.floor()..=share.ceil()).contains(&quota),
                "a quota is a share, rounded down or up"
            );
            quotas[*node] = quota;
            return;
        }
        let shares: Vec<(u64, u64)> = self.parts.iter().map(QuotaGroup::share).collect();
        let floors: u64 = shares.iter().map(|(floor, _)| floor).sum();
        let rest_count = shares.iter().filter(|(_, rest)| *rest > 0).count() as u64;
        debug_assert!(
            (floors..=floors + rest_count).contains(&total),
            "a group's total can be reached by rounding up some of its parts"
        );
        let mut by_wish: Vec<usize> =
            (0..self.parts.len()).filter(|part| shares[*part].1 > 0).collect();
        by_wish.sort_by_cached_key(|part| {
            let keeps_more = self.parts[*part].keeps_more(held);
            (std::cmp::Reverse((keeps_more, shares[*part].1)), *part)
        });
        let mut goes_up = vec![false; self.parts.len()];
        for part in by_wish.into_iter().take(index(total - floors)) {
            goes_up[part] = true;
        }
        for ((part, (floor, _)), goes_up) in self.parts.iter().zip(shares).zip(goes_up) {
            part.round(floor + u64::from(goes_up), held, quotas);
        }
    }
}

impl FairShares {
    /// Number of partitions that each node is to hold: its share rounded down or up, so that the
    /// sum is right. `held` is the number of partitions that each node holds now. Among the
    /// possible roundings this one takes as little as possible from the nodes.
    pub(super) fn quotas(&self, held: &[u32]) -> Vec<u32> {
        let shares = &self.shares[..];
        let mut quotas = vec![0; shares.len()];
        for block in &self.blocks {
            let location = |nodes: &Vec<usize>| {
                QuotaGroup::of(
                    nodes.iter().map(|node| QuotaGroup::node(*node, shares)).collect(),
                    shares,
                )
            };
            let section = |locations: &Vec<Vec<usize>>| {
                QuotaGroup::of(locations.iter().map(location).collect(), shares)
            };
            let whole = QuotaGroup::of(block.iter().map(section).collect(), shares);
            let (total, rest) = whole.share();
            assert_eq!(rest, 0, "a block's shares add up to a whole number");
            whole.round(total, held, &mut quotas);
        }
        quotas
    }
}
