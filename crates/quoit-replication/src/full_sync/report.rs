//! Reports of checks, and what is known of them in sum.

use super::range::CheckRange;
use super::settings::{CheckKind, FullSyncScope};
use crate::address::PeerAddress;
use quoit_core::VisitedCluster;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The shortest rest after a check.
const REST_MIN: Duration = Duration::from_secs(15);
/// The rest after a check that failed.
const REST_AFTER_FAULT: Duration = Duration::from_secs(60);

/// The outcome of the last check, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FullSyncState {
    /// No check has ended since the node was started.
    Never,
    /// A check is under way.
    Running,
    /// Both clusters had the same.
    InSync,
    /// They differed; what differs is queued.
    Repaired,
    /// They differed outside of what the check repairs.
    Differs,
    /// The check did not come to an end.
    Failed,
}

/// One check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FullSyncReport {
    /// Scope of the repair.
    pub kind: CheckKind,
    /// The other cluster's node.
    pub peer: Option<String>,
    /// The other cluster's id; `None` of a Riak, and before it has answered.
    #[serde(skip)]
    pub cluster: Option<VisitedCluster>,
    /// When it began, microseconds since 1970.
    pub began_us: u64,
    /// How long it took, microseconds.
    pub duration_us: u64,
    /// Arcs that were compared.
    pub arc_count: u64,
    /// Arcs that differed for longer than a moment.
    pub differing_arc_count: u64,
    /// Arcs of which one of the clusters had no complete copy to tell of.
    pub missing_arc_count: u64,
    /// Records that were looked at one by one.
    pub compared_count: u64,
    /// Records that are newer here, or only here.
    pub source_ahead: u64,
    /// Records that are newer there, or only there.
    pub sink_ahead: u64,
    /// Records that were deleted here, since only this cluster had them.
    pub deleted_here: u64,
    /// Records that were deleted there, since only the other cluster had them.
    pub deleted_there: u64,
    /// Bytes that went over the network, about.
    pub exchanged_bytes: u64,
    /// Repaired records by bucket type and bucket.
    pub buckets: BTreeMap<String, u64>,
    /// When the first and the last of these were modified, microseconds since 1970; `None` where that is not
    /// known.
    pub modified_us: Option<(u64, u64)>,
    /// Description of the fault.
    pub fault: Option<String>,
}

impl FullSyncReport {
    pub(super) fn begun(kind: CheckKind, peer: Option<&PeerAddress>, began_us: u64) -> Self {
        Self {
            kind,
            peer: peer.map(ToString::to_string),
            cluster: None,
            began_us,
            duration_us: 0,
            arc_count: 0,
            differing_arc_count: 0,
            missing_arc_count: 0,
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

    /// The outcome in a word.
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

    /// Whether anything was queued.
    #[must_use]
    pub const fn has_repaired(&self) -> bool {
        self.source_ahead + self.sink_ahead + self.deleted_here + self.deleted_there > 0
    }

    /// Whether a check of all records has found nothing that the other cluster lacks. One that has queued
    /// something says nothing about whether that has arrived.
    pub(super) const fn lacks_nothing_there(&self) -> bool {
        // Trees of a Riak say where records differ; not all of these are looked at.
        let is_whole = self.cluster.is_some() || self.differing_arc_count == 0;
        self.fault.is_none() && self.missing_arc_count == 0 && self.source_ahead == 0 && is_whole
    }

    /// The time until the next check may begin.
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

/// Sums of all checks since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Totals {
    /// Checks by kind: all, day, hour, range (auto checks count as those of all).
    pub all: u64,
    /// As above.
    pub day: u64,
    /// As above.
    pub hour: u64,
    /// As above.
    pub range: u64,
    /// Checks that found both clusters in sync.
    pub sync: u64,
    /// Checks that did not.
    pub nosync: u64,
    /// Checks that failed.
    pub fail: u64,
    /// The longest of these, microseconds.
    pub sync_us_max: u64,
    /// As above.
    pub nosync_us_max: u64,
    /// As above.
    pub fail_us_max: u64,
    /// Records that were newer here.
    pub source_ahead: u64,
    /// Records that were newer there.
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

/// Full-sync as operators see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FullSyncStatus {
    /// Scope of scheduled checks.
    pub scope: FullSyncScope,
    /// The other cluster's node.
    pub peer: Option<String>,
    /// The queue here for what is newer here.
    pub queue: String,
    /// The queue there for what is newer there.
    pub peer_queue: Option<String>,
    /// Whether scheduled checks rest.
    pub is_paused: bool,
    /// Whether a check is wanted beside the schedule.
    pub is_wanted: bool,
    /// Auto checks that will be left out.
    pub suppressed: u32,
    /// The records that the next range check repairs, where that was planned.
    pub range: Option<CheckRange>,
    /// The last outcome.
    pub state: FullSyncState,
    /// The last check.
    pub last: Option<FullSyncReport>,
    /// When the next check is due, seconds since 1970.
    pub next_at_secs: Option<u64>,
    /// Scope of the next repair.
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
        assert!(report().lacks_nothing_there());
        assert!(FullSyncReport { sink_ahead: 1, ..report() }.lacks_nothing_there());
        // Arcs differ by buckets that are not replicated.
        assert!(FullSyncReport { differing_arc_count: 1, ..report() }.lacks_nothing_there());
    }

    #[test]
    fn a_check_that_sends_something_fails_or_leaves_something_out_does_not_say_so() {
        let fault = Some("the other cluster does not answer".to_owned());
        for report in [
            FullSyncReport { source_ahead: 1, ..report() },
            FullSyncReport { missing_arc_count: 1, ..report() },
            FullSyncReport { fault, ..report() },
            FullSyncReport { cluster: None, differing_arc_count: 1, ..report() },
        ] {
            assert!(!report.lacks_nothing_there(), "{report:?}");
        }
    }
}
