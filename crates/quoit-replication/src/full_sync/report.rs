//! Reports of checks, and their sums.

use super::range::CheckRange;
use super::settings::{CheckKind, FullSyncScope};
use crate::address::PeerAddress;
use quoit_core::VisitedCluster;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Shortest pause after a check.
const REST_MIN: Duration = Duration::from_secs(15);
/// Pause after a check that failed.
const REST_AFTER_FAULT: Duration = Duration::from_secs(60);

/// Outcome of the last check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FullSyncState {
    /// No check has ended since the start of the node.
    Never,
    /// A check is under way.
    Running,
    /// Both clusters had equal records.
    InSync,
    /// The clusters differed; records that differ were queued.
    Repaired,
    /// The clusters differed only in records that the check does not repair.
    Differs,
    /// The check failed.
    Failed,
}

/// Report of a check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FullSyncReport {
    /// Kind of the check.
    pub kind: CheckKind,
    /// Node of the other cluster.
    pub peer: Option<String>,
    /// Id of the other cluster; `None` for a Riak cluster, and before its first answer.
    #[serde(skip)]
    pub cluster: Option<VisitedCluster>,
    /// True if the check compares the records of all buckets, of all times.
    #[serde(skip)]
    pub compares_all: bool,
    /// True if records that are newer there are queued there. Otherwise they are left to the other
    /// cluster's own checks.
    #[serde(skip)]
    pub queues_there: bool,
    /// Time of the beginning, microseconds since 1970.
    pub began_us: u64,
    /// Duration in microseconds.
    pub duration_us: u64,
    /// Number of arcs that were compared.
    pub arc_count: u64,
    /// Number of arcs that differed in both comparisons.
    pub differing_arc_count: u64,
    /// Number of arcs for which one of the clusters had no complete copy.
    pub missing_arc_count: u64,
    /// Number of ranges that differ and were left to the next check, because this one had queued as
    /// many records as it may.
    pub left_range_count: u64,
    /// Number of records that were compared one by one.
    pub compared_count: u64,
    /// Number of records that are newer here, or exist only here.
    pub source_ahead: u64,
    /// Number of records that are newer there, or exist only there.
    pub sink_ahead: u64,
    /// Number of records that were deleted here because only this cluster had them.
    pub deleted_here: u64,
    /// Number of records that were deleted there because only the other cluster had them.
    pub deleted_there: u64,
    /// Approximate number of bytes that went over the network.
    pub exchanged_bytes: u64,
    /// Number of repaired records by bucket type and bucket.
    pub buckets: BTreeMap<String, u64>,
    /// First and last time of modification of these records, microseconds since 1970; `None` if
    /// unknown.
    pub modified_us: Option<(u64, u64)>,
    /// Description of the fault, if the check failed.
    pub fault: Option<String>,
}

impl FullSyncReport {
    pub(super) fn begun(kind: CheckKind, peer: Option<&PeerAddress>, began_us: u64) -> Self {
        Self {
            kind,
            peer: peer.map(ToString::to_string),
            cluster: None,
            compares_all: false,
            queues_there: false,
            began_us,
            duration_us: 0,
            arc_count: 0,
            differing_arc_count: 0,
            missing_arc_count: 0,
            left_range_count: 0,
            compared_count: 0,
            source_ahead: 0,
            sink_ahead: 0,
            deleted_here: 0,
            deleted_there: 0,
            exchanged_bytes: 0,
            buckets: BTreeMap::new(),
            modified_us: None,
            fault: None,
        }
    }

    /// Outcome of the check.
    #[must_use]
    pub const fn state(&self) -> FullSyncState {
        if self.fault.is_some() {
            FullSyncState::Failed
        } else if self.differing_arc_count == 0 {
            FullSyncState::InSync
        } else if self.has_repaired() {
            FullSyncState::Repaired
        } else {
            FullSyncState::Differs
        }
    }

    /// True if records were queued or deleted.
    #[must_use]
    pub const fn has_repaired(&self) -> bool {
        let queued_there = if self.queues_there { self.sink_ahead } else { 0 };
        self.source_ahead + queued_there + self.deleted_here + self.deleted_there > 0
    }

    /// True if the check has found no record that the other cluster lacks. A check that has queued records
    /// does not count, because it is not known whether they have arrived.
    pub(super) const fn is_sink_complete(&self) -> bool {
        // Of a Riak's trees, not all segments that differ are compared.
        let is_whole = self.cluster.is_some() || self.differing_arc_count == 0;
        let left_count = self.missing_arc_count + self.left_range_count;
        self.fault.is_none() && left_count == 0 && self.source_ahead == 0 && is_whole
    }

    /// True if the check has found that the other cluster lacks no record of any bucket, so that losses
    /// and missed deletes are settled.
    pub(super) const fn settles(&self) -> bool {
        self.compares_all && self.is_sink_complete()
    }

    /// True if the check has left out records that another one could compare.
    pub(super) const fn leaves_some(&self) -> bool {
        // Of a Riak's trees, parts can differ for ever: those of buckets that are not replicated.
        self.compares_all && self.cluster.is_some() && !self.is_sink_complete()
    }

    /// Time until the next check may begin.
    pub(super) fn rest(&self) -> Duration {
        match self.fault {
            Some(_) => REST_AFTER_FAULT,
            None => REST_MIN.max(Duration::from_micros(self.duration_us) / 2),
        }
    }

    pub(super) fn log(&self) {
        let Self { kind, source_ahead, sink_ahead, compared_count, .. } = self;
        let duration_ms = self.duration_us / 1_000;
        let peer = self.peer.as_deref().unwrap_or("none");
        match (&self.fault, self.state()) {
            (Some(fault), _) => {
                let sync_state = "unknown";
                tracing::warn!(?kind, peer, duration_ms, sync_state, "full-sync failed: {fault}")
            }
            (None, state) => tracing::info!(
                ?kind,
                peer,
                duration_ms,
                source_ahead,
                sink_ahead,
                compared_count,
                sync_state = state == FullSyncState::InSync,
                outcome = ?state,
                "full-sync"
            ),
        }
        for (bucket, count) in &self.buckets {
            tracing::info!(bucket, count, "full-sync: records that differ");
        }
    }
}

/// Sums over all checks since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Totals {
    /// Number of checks of all records, including auto checks.
    pub all: u64,
    /// Number of checks of the last day.
    pub day: u64,
    /// Number of checks of the last hour.
    pub hour: u64,
    /// Number of range checks.
    pub range: u64,
    /// Number of checks that found both clusters in sync.
    pub sync: u64,
    /// Number of checks that found differences.
    pub nosync: u64,
    /// Number of checks that failed.
    pub fail: u64,
    /// Longest duration of a check that found both clusters in sync, in microseconds.
    pub sync_us_max: u64,
    /// Longest duration of a check that found differences, in microseconds.
    pub nosync_us_max: u64,
    /// Longest duration of a check that failed, in microseconds.
    pub fail_us_max: u64,
    /// Number of records that were newer here.
    pub source_ahead: u64,
    /// Number of records that were newer there.
    pub sink_ahead: u64,
}

impl Totals {
    pub(super) fn note(&mut self, report: &FullSyncReport) {
        match report.kind {
            CheckKind::All | CheckKind::Auto => self.all += 1,
            CheckKind::Day => self.day += 1,
            CheckKind::Hour => self.hour += 1,
            CheckKind::Range => self.range += 1,
            CheckKind::None => return,
        }
        let (count, longest) = match report.state() {
            FullSyncState::InSync => (&mut self.sync, &mut self.sync_us_max),
            FullSyncState::Failed => (&mut self.fail, &mut self.fail_us_max),
            _ => (&mut self.nosync, &mut self.nosync_us_max),
        };
        *count += 1;
        *longest = (*longest).max(report.duration_us);
        self.source_ahead += report.source_ahead;
        self.sink_ahead += report.sink_ahead;
    }
}

/// State of full-sync, for operators.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FullSyncStatus {
    /// Scope of scheduled checks.
    pub scope: FullSyncScope,
    /// Node of the other cluster.
    pub peer: Option<String>,
    /// Queue here for records that are newer here.
    pub queue: String,
    /// Queue there for records that are newer there.
    pub peer_queue: Option<String>,
    /// True if scheduled checks are paused.
    pub is_paused: bool,
    /// True if a check is needed outside of the schedule.
    pub is_wanted: bool,
    /// Number of auto checks that will be skipped.
    pub suppressed: u32,
    /// Records that the next range check repairs, if that was planned.
    pub range: Option<CheckRange>,
    /// Outcome of the last check.
    pub state: FullSyncState,
    /// The last check.
    pub last: Option<FullSyncReport>,
    /// Time at which the next check is due, seconds since 1970.
    pub next_at_secs: Option<u64>,
    /// Kind of the next check.
    pub next_kind: Option<CheckKind>,
    /// Sums since the start.
    pub totals: Totals,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> FullSyncReport {
        FullSyncReport { cluster: Some([1; 16]), ..FullSyncReport::begun(CheckKind::All, None, 1) }
    }

    #[test]
    fn a_check_that_has_seen_all_and_sends_nothing_says_that_the_other_cluster_lacks_nothing() {
        assert!(report().is_sink_complete());
        assert!(FullSyncReport { sink_ahead: 1, ..report() }.is_sink_complete());
        // Arcs may differ by buckets that are not replicated.
        assert!(FullSyncReport { differing_arc_count: 1, ..report() }.is_sink_complete());
    }

    #[test]
    fn a_check_that_sends_something_fails_or_leaves_something_out_does_not_say_so() {
        let fault = Some("the other cluster does not answer".to_owned());
        for report in [
            FullSyncReport { source_ahead: 1, ..report() },
            FullSyncReport { missing_arc_count: 1, ..report() },
            FullSyncReport { sink_ahead: 9, left_range_count: 1, ..report() },
            FullSyncReport { fault, ..report() },
            FullSyncReport { cluster: None, differing_arc_count: 1, ..report() },
        ] {
            assert!(!report.is_sink_complete(), "{report:?}");
        }
    }

    #[test]
    fn only_a_check_of_all_buckets_settles_anything() {
        assert!(FullSyncReport { compares_all: true, ..report() }.settles());
        assert!(!report().settles());
    }

    #[test]
    fn records_that_are_newer_there_are_repaired_only_if_they_are_queued_there() {
        let found = FullSyncReport { sink_ahead: 1, differing_arc_count: 1, ..report() };
        assert_eq!(found.state(), FullSyncState::Differs);
        let queued = FullSyncReport { queues_there: true, ..found };
        assert_eq!(queued.state(), FullSyncState::Repaired);
    }
}
