//! `knee.csv`: the steps of a search for the knee.

/// Name of the table in the directory of the search.
pub(crate) const KNEE_FILE: &str = "knee.csv";

/// Headers of its columns.
pub(crate) const KNEE_COLUMNS: [&str; 9] = [
    "offered",
    "successful",
    "99th",
    "undone",
    "client_bound",
    "within",
    "samples",
    "least_99th",
    "greatest_99th",
];

/// A rate that was tried. Figures are medians of the samples that count: the ones that are not
/// client-bound, or, if the verdict is client-bound, the ones that are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KneeRow {
    /// Operations per second that were due.
    pub offered_per_s: f64,
    /// Successful operations per second.
    pub successful_per_s: f64,
    /// The 99th percentile over all operations, in microseconds.
    pub p99_us: f64,
    /// Number of operations that failed, or were due and never started.
    pub undone: f64,
    /// True if the load generator was saturated.
    pub is_client_bound: bool,
    /// True if the 99th percentile is within the bound.
    pub is_within: bool,
    /// Number of samples that were measured.
    pub sample_count: u64,
    /// The lowest 99th percentile of a counted sample, in microseconds.
    pub p99_us_min: f64,
    /// The highest 99th percentile of a counted sample, in microseconds.
    pub p99_us_max: f64,
}

impl KneeRow {
    /// The line in the table.
    pub(super) fn text(&self) -> String {
        format!(
            "{:.1}, {:.1}, {:.0}, {:.0}, {}, {}, {}, {:.0}, {:.0}",
            self.offered_per_s,
            self.successful_per_s,
            self.p99_us,
            self.undone,
            self.is_client_bound,
            self.is_within,
            self.sample_count,
            self.p99_us_min,
            self.p99_us_max,
        )
    }
}
