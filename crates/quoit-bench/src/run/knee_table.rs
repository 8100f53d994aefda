//! `knee.csv`: the table of a search for the knee.

/// Name of the table in the directory of the search.
pub(crate) const KNEE_FILE: &str = "knee.csv";

/// Heads of its columns.
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

/// A rate that was tried. Figures are medians of the samples that count: those that are not client-bound, or
/// all where the step is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KneeRow {
    /// Operations a second that were due.
    pub offered_per_s: f64,
    /// Successful operations a second.
    pub successful_per_s: f64,
    /// The 99th percentile of all operations together, in microseconds.
    pub p99_us: f64,
    /// Operations that failed, or were due and never started.
    pub undone: f64,
    /// The load generator had no processor time left.
    pub is_client_bound: bool,
    /// The 99th percentile is within the bound.
    pub is_within: bool,
    /// Samples that were taken.
    pub sample_count: u64,
    /// The least 99th percentile of a sample, in microseconds.
    pub p99_us_min: f64,
    /// The greatest 99th percentile of a sample, in microseconds.
    pub p99_us_max: f64,
}

impl KneeRow {
    /// The line of the table.
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
