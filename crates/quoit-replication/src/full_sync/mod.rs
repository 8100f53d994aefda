//! Full-sync with another Quoit cluster: compares digests of all records, and queues records that
//! differ.
//!
//! Both clusters answer the same questions: first for the digest of each arc of placements, then for
//! digests of ever smaller ranges within arcs that differ, and at last for the records in these ranges.
//! Records that are newer here, or exist only here, are queued here. Records that are newer there are
//! queued there, in a queue that this cluster consumes.
//!
//! A *check* is one such comparison with repair. Its kind selects the records that it repairs. After a
//! check that has repaired something, another one follows, until both clusters are in sync.

mod complete;
mod other_cluster;
mod range;
mod rebase;
mod report;
mod schedule;
mod settings;
#[cfg(test)]
mod tests;
mod walk;
mod with_riak;

pub use range::CheckRange;
pub use rebase::RebaseFrom;
pub use report::{FullSyncReport, FullSyncState, FullSyncStatus};
pub use settings::{CheckKind, CheckWindow, FullSyncChange, FullSyncScope, FullSyncSettings};
pub(crate) use walk::bucket_name;

use crate::address::{PeerAddress, Protocol};
use crate::dialer::PeerDialer;
use parking_lot::Mutex;
use quoit_core::ReplicatedStore;
use quoit_number::saturating_u64;
use range::PlannedRange;
use rebase::RebasePlan;
use schedule::{NodeOrdinal, ScheduledCheck};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::sleep;
use walk::{FullSyncError, RunningCheck};

/// Interval at which the schedule is checked.
const TICK: Duration = Duration::from_secs(1);
/// Time after the start of the node before the first scheduled check.
const REST_AT_START: Duration = Duration::from_secs(60);

/// Age of the youngest records that a rebase deletes, counted back from its beginning. Younger ones may
/// be on their way.
const RECENT_MAX: Duration = Duration::from_secs(10);
const NO_PEER: &str = "there is no peer: set ttaaefs_peerip and ttaaefs_peerport, or use quoit repl fullsync \
                       set --peer HOST:PORT:pb";

/// State of full-sync.
struct ScheduleState {
    /// Settings of checks. Commands change peer, queues and `n_val`s.
    compares: FullSyncSettings,
    /// True if a check is needed outside of the schedule, because the last one has repaired something
    /// or entries of queues were lost.
    is_wanted: bool,
    /// Number of auto checks to skip (`quoit repl fullsync suppress`).
    suppressed: u32,
    last: Option<FullSyncReport>,
    /// Records that the next range check repairs.
    planned: PlannedRange,
    /// The next check, with this node's place among the live nodes by which it was chosen.
    next: Option<(ScheduledCheck, NodeOrdinal)>,
    totals: report::Totals,
}

/// Full-sync of a node with one other cluster.
pub struct FullSync {
    store: Arc<ReplicatedStore>,
    settings: FullSyncSettings,
    dialer: PeerDialer,
    state: Mutex<ScheduleState>,
    /// Held during a check, so that only one runs.
    turn: AsyncMutex<()>,
}

impl FullSync {
    pub(crate) fn new(
        store: Arc<ReplicatedStore>,
        settings: FullSyncSettings,
        dialer: PeerDialer,
    ) -> Self {
        let state = ScheduleState {
            compares: settings.clone(),
            is_wanted: false,
            suppressed: 0,
            last: None,
            planned: PlannedRange::default(),
            next: None,
            totals: report::Totals::default(),
        };
        Self { store, settings, dialer, state: Mutex::new(state), turn: AsyncMutex::new(()) }
    }

    /// Runs checks by the schedule, and further ones when entries of queues were lost, until the task
    /// is dropped.
    pub(crate) async fn run(&self, is_paused: impl Fn() -> bool) {
        sleep(REST_AT_START.min(self.settings.rest_at_start)).await;
        let mut wants_more = self.store.source_queues().take_loss();
        loop {
            let now_secs = self.store.clock().unix_secs();
            let turn = self.next_turn(now_secs);
            let is_off = self.settings.scope == FullSyncScope::Disabled || is_paused();
            let is_due = turn.is_some_and(|turn| turn.at_secs <= now_secs);
            wants_more |= self.store.source_queues().take_loss();
            self.state.lock().is_wanted = wants_more;
            if !is_off && (wants_more || is_due) {
                let kind = if wants_more { CheckKind::All } else { self.kind_of(turn) };
                let report = self.check(kind).await;
                wants_more = self.wants_more_after(&report, wants_more);
                self.state.lock().next = None;
                sleep(report.rest()).await;
                continue;
            }
            sleep(TICK).await;
        }
    }

    /// Settles losses if a check has shown that the other cluster lacks nothing, and returns true if
    /// another check has to follow. The check began after the losses had been taken.
    fn wants_more_after(&self, report: &FullSyncReport, was_wanted: bool) -> bool {
        self.settle_losses(report);
        match report.fault {
            // A needed check that failed is repeated.
            Some(_) => was_wanted && report.peer.is_some(),
            // Repairs are under way now. The next check shows whether they were all.
            None if report.has_repaired() => true,
            None => report.leaves_some() && self.store.source_queues().has_loss(),
        }
    }

    /// Settles losses if a check has shown that the other cluster lacks nothing. A check of one bucket
    /// says nothing about entries of the others.
    fn settle_losses(&self, report: &FullSyncReport) {
        if report.settles() {
            self.store.source_queues().settle_losses();
        }
    }

    /// True if all buckets have the `n_val` of those that a check with a Riak compares.
    fn has_one_n_val(&self, settings: &FullSyncSettings) -> bool {
        let n_vals = self.store.control().read().n_vals();
        n_vals.iter().all(|n_val| *n_val == settings.local_n_val)
    }

    fn kind_of(&self, turn: Option<ScheduledCheck>) -> CheckKind {
        let mut state = self.state.lock();
        match turn.map_or(CheckKind::Auto, |turn| turn.kind) {
            CheckKind::Auto if state.suppressed > 0 => {
                state.suppressed -= 1;
                CheckKind::None
            }
            kind => kind,
        }
    }

    fn next_turn(&self, now_secs: u64) -> Option<ScheduledCheck> {
        let (index, count) = self.store.replication().place_among_live_nodes();
        let place = NodeOrdinal { index, count };
        let mut state = self.state.lock();
        if state.next.is_none_or(|(_, known)| known != place) {
            let turn = schedule::next(&self.settings, now_secs, place);
            state.next = turn.map(|turn| (turn, place));
        }
        state.next.map(|(turn, _)| turn)
    }

    /// Compares with the other cluster now, and queues records that differ.
    pub async fn check(&self, kind: CheckKind) -> FullSyncReport {
        let _turn = self.turn.lock().await;
        let began_us = self.store.clock().unix_us();
        let (settings, range) = {
            let state = self.state.lock();
            (state.compares.clone(), state.planned.of(kind, began_us))
        };
        let peer = settings.peer.clone();
        let has_one_n_val = self.has_one_n_val(&settings);
        let number = self.announce(kind, &settings).await;
        let mut report = FullSyncReport::begun(kind, peer.as_ref(), began_us);
        report.queues_there = settings.peer_queue.is_some();
        match (kind, &peer) {
            (CheckKind::None, _) => {}
            (_, None) => report.fault = Some(NO_PEER.to_owned()),
            (kind, Some(peer)) => {
                let walk = RunningCheck::new(&self.store, &settings, &range, began_us);
                let walked = match peer.protocol {
                    Protocol::Http => Err(FullSyncError::NoQuoit),
                    Protocol::Pb => walk.run((&self.dialer, peer), &mut report).await,
                };
                let compared = match walked {
                    // The peer may be a Riak node, which speaks another protocol.
                    Err(FullSyncError::NoQuoit) => {
                        let at = (&self.dialer, peer);
                        with_riak::run(&self.store, &settings, (kind, &range), at, &mut report)
                            .await
                    }
                    walked => walked,
                };
                report.fault = compared.err().map(|fault| fault.to_string());
            }
        }
        // A Riak has no id. A bucket whose `n_val` has changed meanwhile may have been left out.
        let is_of_all = report.cluster.is_some() || has_one_n_val && self.has_one_n_val(&settings);
        report.compares_all = is_of_all && settings.compares_all(kind);
        if let Some(number) = number {
            self.conclude(number, &settings, &report).await;
        }
        self.finish(report)
    }

    /// Compares with the other cluster, deletes records that only the wrong cluster has, and queues
    /// other records that differ. `queue` is the queue here; `peer` replaces the usual peer.
    pub(crate) async fn rebase(
        &self,
        queue: &str,
        from: RebaseFrom,
        peer: Option<PeerAddress>,
        is_dry_run: bool,
    ) -> FullSyncReport {
        let _turn = self.turn.lock().await;
        let began_us = self.store.clock().unix_us();
        let mut settings = self.state.lock().compares.clone();
        (settings.queue, settings.scope) = (queue.to_owned(), FullSyncScope::All);
        let peer = peer.or_else(|| settings.peer.clone());
        let mut report = FullSyncReport::begun(CheckKind::All, peer.as_ref(), began_us);
        report.queues_there = settings.peer_queue.is_some();
        let retention = self.store.source_queues().settings().retention;
        let recent_us = saturating_u64(RECENT_MAX.min(retention).as_micros());
        let modified_until_us = began_us.saturating_sub(recent_us);
        let plan = RebasePlan { from, modified_until_us, is_dry_run };
        match &peer {
            None => report.fault = Some(NO_PEER.to_owned()),
            Some(peer) => {
                let all = CheckRange::ALL;
                let walk = RunningCheck::new(&self.store, &settings, &all, began_us).rebasing(plan);
                let walked = walk.run((&self.dialer, peer), &mut report).await;
                report.fault = walked.err().map(|fault| fault.to_string());
            }
        }
        self.finish(report)
    }

    fn finish(&self, mut report: FullSyncReport) -> FullSyncReport {
        let now_us = self.store.clock().unix_us();
        report.duration_us = now_us.saturating_sub(report.began_us);
        report.log();
        let mut state = self.state.lock();
        state.totals.note(&report);
        state.planned.note(&report);
        state.last = Some(report.clone());
        report
    }

    /// Sets the peer of further checks. Queues and `n_val`s that are `None` in `scope` stay.
    pub(crate) fn set(&self, peer: PeerAddress, scope: FullSyncChange) {
        let mut state = self.state.lock();
        let compares = &mut state.compares;
        compares.peer = Some(peer);
        compares.local_n_val = scope.local_n_val.unwrap_or(compares.local_n_val);
        compares.remote_n_val = scope.remote_n_val.unwrap_or(compares.remote_n_val);
        compares.peer_queue = scope.peer_queue.or_else(|| compares.peer_queue.take());
        if let Some(queue) = scope.queue {
            compares.queue = queue;
        }
    }

    /// Sets the records that the next range check repairs; `None` for records that were modified since
    /// both clusters were in sync. A check that finds differences sets its own range.
    pub fn set_range(&self, range: Option<CheckRange>) {
        self.state.lock().planned.range = range;
    }

    /// Skips the next auto checks of the schedule.
    pub fn suppress(&self, count: u32) {
        self.state.lock().suppressed = count;
    }

    /// Figures of full-sync.
    #[must_use]
    pub(crate) fn status(&self, is_paused: bool) -> FullSyncStatus {
        let state = self.state.lock();
        FullSyncStatus {
            scope: self.settings.scope,
            peer: state.compares.peer.as_ref().map(ToString::to_string),
            queue: state.compares.queue.clone(),
            peer_queue: state.compares.peer_queue.clone(),
            is_paused,
            is_wanted: state.is_wanted,
            suppressed: state.suppressed,
            range: state.planned.range.clone(),
            // A check that was given up has released its turn as well.
            state: match (self.turn.try_lock().is_err(), &state.last) {
                (true, _) => FullSyncState::Running,
                (false, None) => FullSyncState::Never,
                (false, Some(last)) => last.state(),
            },
            last: state.last.clone(),
            next_at_secs: state.next.map(|(turn, _)| turn.at_secs),
            next_kind: state.next.map(|(turn, _)| turn.kind),
            totals: state.totals,
        }
    }
}
