//! Ranges of the records that a check repairs, by bucket and time.

use super::report::{FullSyncReport, FullSyncState};
use super::settings::CheckKind;
use serde::{Deserialize, Serialize};

/// Maximum assumed difference between the clocks of nodes, in microseconds. A range is extended by it
/// on both sides.
const SLACK_US: u64 = 5_000_000;

/// The records that a check repairs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckRange {
    /// Bucket type and bucket, separated by a slash; `None` for all buckets.
    pub bucket: Option<String>,
    /// Time of modification before which records are left out, microseconds since 1970.
    pub modified_from_us: u64,
    /// Time of modification after which records are left out, microseconds since 1970.
    pub modified_until_us: u64,
}

impl CheckRange {
    /// All records.
    pub(super) const ALL: Self =
        Self { bucket: None, modified_from_us: 0, modified_until_us: u64::MAX };

    pub(super) const fn since(modified_from_us: u64) -> Self {
        Self { modified_from_us, ..Self::ALL }
    }

    /// True if a record of a bucket with this time of modification is repaired.
    pub(super) fn has(&self, bucket: &str, modified_us: u64) -> bool {
        (self.modified_from_us..=self.modified_until_us).contains(&modified_us)
            && self.bucket.as_deref().is_none_or(|wanted| wanted == bucket)
    }
}

/// Range of the next range check: set by an operator, or by the differences that the last check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct PlannedRange {
    pub(super) range: Option<CheckRange>,
    /// Time at which the last check that found both clusters in sync began, microseconds since 1970.
    in_sync_us: Option<u64>,
}

impl PlannedRange {
    /// The records that a check of a kind repairs if it begins now. A range check without a range
    /// repairs records that were modified since both clusters were last in sync.
    pub(super) fn of(&self, kind: CheckKind, now_us: u64) -> CheckRange {
        let ago = |secs: u64| CheckRange::since(now_us.saturating_sub(secs * 1_000_000));
        match kind {
            CheckKind::Day => ago(86_400),
            CheckKind::Hour => ago(3_600),
            CheckKind::Range => self.range.clone().unwrap_or_else(|| {
                let since_us = self.in_sync_us.unwrap_or(0);
                CheckRange::since(since_us.saturating_sub(SLACK_US))
            }),
            CheckKind::All | CheckKind::Auto | CheckKind::None => CheckRange::ALL,
        }
    }

    /// Plans the next range check by the result of a check.
    pub(super) fn note(&mut self, report: &FullSyncReport) {
        match report.state() {
            FullSyncState::InSync if report.kind != CheckKind::None => {
                *self = Self { range: None, in_sync_us: Some(report.began_us) };
            }
            FullSyncState::Repaired => {
                let mut buckets = report.buckets.keys();
                let bucket = buckets.next().filter(|_| report.buckets.len() == 1).cloned();
                self.range = report.modified_us.map(|(low_us, high_us)| CheckRange {
                    bucket,
                    modified_from_us: low_us.saturating_sub(SLACK_US),
                    modified_until_us: high_us.saturating_add(SLACK_US),
                });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: u64 = 1_000_000_000_000;

    fn report(source_ahead: u64, modified_us: Option<(u64, u64)>) -> FullSyncReport {
        let mut report = FullSyncReport::begun(CheckKind::All, None, NOW_US);
        (report.source_ahead, report.differing_arc_count) = (source_ahead, source_ahead);
        report.modified_us = modified_us;
        if source_ahead > 0 {
            report.buckets.insert("t/b".to_owned(), source_ahead);
        }
        report
    }

    #[test]
    fn a_range_check_repairs_where_the_last_check_has_found_something() {
        let mut planned = PlannedRange::default();
        planned.note(&report(2, Some((50_000_000, 60_000_000))));
        let range = planned.of(CheckKind::Range, NOW_US);
        assert!(range.has("t/b", 50_000_000) && range.has("t/b", 64_000_000));
        assert!(!range.has("t/other", 50_000_000) && !range.has("t/b", 70_000_000));
        assert_eq!(planned.of(CheckKind::All, NOW_US), CheckRange::ALL);
        // Once in sync, only later modifications are checked.
        planned.note(&report(0, None));
        let range = planned.of(CheckKind::Range, NOW_US);
        assert!(range.has("t/other", NOW_US) && !range.has("t/b", 50_000_000));
    }

    #[test]
    fn a_range_check_repairs_all_before_any_check_has_ended() {
        let planned = PlannedRange::default();
        assert!(planned.of(CheckKind::Range, NOW_US).has("t/b", 0));
        assert!(!planned.of(CheckKind::Hour, NOW_US).has("t/b", 0));
    }
}
