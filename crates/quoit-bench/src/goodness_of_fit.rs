//! Tests of drawn numbers against their intended distribution.
//!
//! Seeds are fixed, so a test always has the same outcome. The limits are those that a correct generator
//! would exceed with one seed in a thousand.

/// The seeds with which every generator is tested.
pub(crate) const SEEDS: [[i64; 3]; 3] = [[42, 23, 12], [1, 2, 3], [-7, 1 << 40, 99]];

/// The 99.9 % quantile of the normal distribution.
const NORMAL_POINT: f64 = 3.09;

/// The two-sided 99 % quantile of the normal distribution.
const MEAN_POINT: f64 = 2.576;

/// The 99.9 % quantile of Kolmogorov's distribution.
const KOLMOGOROV_POINT: f64 = 1.95;

/// Pearson's test of counts against the probabilities of their bins, which must sum to 1.
pub(crate) fn assert_chi_square(name: &str, counts: &[u64], probabilities: &[f64]) {
    assert_eq!(counts.len(), probabilities.len(), "{name}");
    let total: u64 = counts.iter().sum();
    let statistic: f64 = counts
        .iter()
        .zip(probabilities)
        .map(|(count, probability)| {
            let expected = probability * total as f64;
            assert!(expected >= 5.0, "{name}: a bin is too small for the test: {expected}");
            (*count as f64 - expected).powi(2) / expected
        })
        .sum();
    let freedom = (counts.len() - 1) as f64;
    // Wilson and Hilferty's approximation of the distribution's quantile.
    let share = 2.0 / (9.0 * freedom);
    let limit = freedom * (1.0 - share + NORMAL_POINT * share.sqrt()).powi(3);
    assert!(statistic < limit, "{name}: chi-square {statistic} is over {limit}: {counts:?}");
}

/// Pearson's test against bins of equal probability.
pub(crate) fn assert_even(name: &str, counts: &[u64]) {
    assert_chi_square(name, counts, &vec![1.0 / counts.len() as f64; counts.len()]);
}

/// The test of Kolmogorov and Smirnov, of numbers against their distribution function. If the numbers are
/// integers, the test is too lenient; the more distinct ones there are, the less so.
pub(crate) fn assert_distributed(name: &str, mut drawn: Vec<f64>, up_to: impl Fn(f64) -> f64) {
    drawn.sort_by(f64::total_cmp);
    let count = drawn.len() as f64;
    let mut distance = 0.0_f64;
    let mut index = 0;
    while index < drawn.len() {
        let number = drawn[index];
        let next = drawn.partition_point(|other| *other <= number);
        // The shares must agree after all draws of this number.
        distance = distance.max((next as f64 / count - up_to(number)).abs());
        index = next;
    }
    let statistic = distance * count.sqrt();
    assert!(statistic < KOLMOGOROV_POINT, "{name}: {statistic} is over {KOLMOGOROV_POINT}");
}

/// Checks the mean of times that are given as multiples of the intended mean. It must lie in the interval
/// that contains the mean of as many independent, exponentially distributed times with 99 % probability.
pub(crate) fn assert_mean(name: &str, times: &[f64]) {
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let reach = MEAN_POINT / (times.len() as f64).sqrt();
    assert!((mean - 1.0).abs() <= reach, "{name}: {mean} times the mean, wanted is 1 +- {reach}");
}

/// Checks that times, given as multiples of the intended mean, have this mean and an exponential
/// distribution.
pub(crate) fn assert_mean_and_distribution(name: &str, times: Vec<f64>) {
    assert_mean(name, &times);
    assert_distributed(name, times, |time| 1.0 - (-time).exp());
}

#[test]
fn the_tests_notice_what_they_should() {
    let fails =
        |test: &(dyn Fn() + std::panic::RefUnwindSafe)| std::panic::catch_unwind(test).is_err();
    assert_even("fair", &[1000, 1010, 990]);
    assert!(fails(&|| assert_even("biased", &[1000, 1120, 880])));
    let numbers = |scale: f64| (0..10_000).map(|n| f64::from(n) * scale / 1e4).collect::<Vec<_>>();
    assert_distributed("uniform", numbers(1.0), |x| x);
    assert!(fails(&|| assert_distributed("short", numbers(0.97), |x| x)));
    let exponential = |scale: f64| -> Vec<f64> {
        (0..10_000).map(|n| -((f64::from(n) + 0.5) / 1e4).ln() * scale).collect()
    };
    assert_mean_and_distribution("exponential", exponential(1.0));
    assert!(fails(&|| assert_mean("longer", &exponential(1.03))));
    assert!(fails(&|| assert_mean_and_distribution("even", vec![1.0; 10_000])));
}
