//! Local regression.

/// Share of the points that each local fit uses, as in R's `loess`.
const SPAN: f64 = 0.75;

/// Minimum number of points. With fewer, a local parabola would pass through the points themselves.
const POINT_COUNT_MIN: usize = 6;

/// A smooth line through points that are sorted by x, at `at_count` places (at least 2) with equal
/// distances from the first to the last x.
///
/// This is LOESS (Cleveland, "Robust Locally Weighted Regression and Smoothing Scatterplots", 1979): at
/// each place a parabola is fitted by least squares to the nearest three quarters of the points, with
/// weights `(1 - d³)³` by their distance. It omits the robustness iterations, as R's `loess` and ggplot2's
/// smoother do by default. Fewer than six points are joined by straight lines.
#[expect(clippy::indexing_slicing, reason = "the nearest points end before all points do")]
pub(crate) fn loess(points: &[(f64, f64)], at_count: usize) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    if points.len() < POINT_COUNT_MIN || last.0 <= first.0 {
        return points.to_vec();
    }
    let near_count = quoit_number::index(quoit_number::whole(points.len() as f64 * SPAN + 1e-5));
    let mut start = 0;
    (0..at_count)
        .map(|index| {
            let share = index as f64 / (at_count - 1) as f64;
            let x = first.0 + (last.0 - first.0) * share;
            // The nearest points are consecutive, and move to the right with x.
            while start + near_count < points.len()
                && points[start + near_count].0 - x < x - points[start].0
            {
                start += 1;
            }
            (x, local_fit(&points[start..start + near_count], x))
        })
        .collect()
}

/// The value at `x` of the parabola that is fitted to the points near it.
fn local_fit(near: &[(f64, f64)], x: f64) -> f64 {
    let reach = near.iter().map(|(at, _)| (at - x).abs()).fold(0.0, f64::max);
    let unit = if reach > 0.0 { reach } else { 1.0 };
    // Sums of w·uⁱ and of w·uⁱ·y, where u is the distance as a share of the reach.
    let (mut sums, mut products) = ([0.0; 5], [0.0; 3]);
    for (at, y) in near {
        let u = (at - x) / unit;
        let weight = (1.0 - u.abs().powi(3)).max(0.0).powi(3);
        let mut term = weight;
        for (power, sum) in sums.iter_mut().enumerate() {
            *sum += term;
            if let Some(product) = products.get_mut(power) {
                *product += term * y;
            }
            term *= u;
        }
    }
    let mean = products[0] / sums[0];
    parabola_at_zero(&sums, &products).filter(|value| value.is_finite()).unwrap_or(mean)
}

/// The constant term of the least-squares parabola, by Cramer's rule. `None` if the points have fewer than
/// three distinct places.
fn parabola_at_zero(s: &[f64; 5], p: &[f64; 3]) -> Option<f64> {
    let minors = [s[2] * s[4] - s[3] * s[3], s[1] * s[4] - s[2] * s[3], s[1] * s[3] - s[2] * s[2]];
    let determinant = s[0] * minors[0] - s[1] * minors[1] + s[2] * minors[2];
    let scale = s[0] * s[2] * s[4];
    (determinant.abs() > scale * 1e-10)
        .then(|| (p[0] * minors[0] - p[1] * minors[1] + p[2] * minors[2]) / determinant)
}
