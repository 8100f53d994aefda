//! Transfers: sending the records of a partition to the nodes that should have them.
//!
//! A node sends records for these reasons, in this order of urgency:
//!
//! 1. It becomes a primary of a partition, and the other primaries may lack what it stored before
//!    ([`TransferTask::Share`]).
//! 2. A new primary needs a complete copy of a partition, because the layout changed or because the node
//!    lost records ([`TransferTask::Copy`]).
//! 3. A bucket got a higher `n_val`, and the added primaries lack its older records ([`TransferTask::Fill`]).
//! 4. A primary missed writes, of which this node keeps hints ([`TransferTask::Hints`]).
//! 5. This node holds strays: records of which it is not a primary in any live layout
//!    ([`TransferTask::Strays`]).
//!
//! All five use [`crate::delivery`]: the sender offers a page of records by name and digest, and delivers
//! those that the receiver lacks. The receiver has all of them on its disk when it has answered. The
//! sender removes a stray, or counts a hint or a copy as done, only after these answers. So a failed or
//! interrupted task loses nothing: a later round runs it again, and records that were delivered before are
//! offered again but not sent.
//!
//! Tasks run in rounds, at most `transfer_limit` of them at a time. `docs/design/transfers.md` explains
//! why no change of layout loses an acknowledged write or lets a read miss one.

mod after_loss;
mod copies;
pub(crate) mod damage;
mod estimate;
mod fill;
mod hinted;
mod operators;
mod sources;
pub(crate) mod strays;

pub use estimate::{PlanEstimate, TransferEstimate};
pub use operators::NodeTransfers;

use crate::delivery::RecordDelivery;
use crate::delivery::hand::TransferError;
use crate::delivery::progress::{TransferStats, WaitingHints};
use crate::exchange::AntiEntropy;
use crate::hints::Hints;
use crate::local_node::LocalNode;
use crate::placement::{n_vals, primaries};
use crate::replica::Replica;
use crate::suspects::WalkResult;
use copies::{CopyStates, NewCopy};
use fill::Fills;
use parking_lot::Mutex;
use quoit_cluster::{NodeId, State};
use quoit_model::hash::Partition;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Time from the start of a round to the next one when the control plane's state does not change
/// meanwhile.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);
/// Shortest pause between two rounds.
const ROUND_PAUSE: Duration = Duration::from_millis(100);
/// Pause after each report of complete copies, so that one report covers many copies. Each report is
/// written to the disks of all members, and makes them all decide again by which layout they read.
const REPORT_PAUSE: Duration = Duration::from_millis(250);

/// The transfers of a node: decides which records this node has to send to which other nodes, and runs
/// the tasks that send them. Also reports to the control plane which of the node's own copies are
/// complete.
pub struct Transfers {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    hints: Arc<Hints>,
    pub(crate) delivery: Arc<RecordDelivery>,
    anti_entropy: Arc<AntiEntropy>,
    copies: Mutex<CopyStates>,
    fills: Mutex<Fills>,
    /// Wakes the task that reports to the control plane.
    wanted: Notify,
}

impl Transfers {
    pub(crate) fn new(delivery: &Arc<RecordDelivery>, anti_entropy: &Arc<AntiEntropy>) -> Self {
        Self {
            local: Arc::clone(&delivery.replica.local),
            replica: Arc::clone(&delivery.replica),
            hints: Arc::clone(&delivery.hints),
            delivery: Arc::clone(delivery),
            anti_entropy: Arc::clone(anti_entropy),
            copies: Mutex::default(),
            fills: Mutex::default(),
            wanted: Notify::new(),
        }
    }
}

/// A unit of work of a round. Tasks of a round start in the order of [`Transfers::tasks`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum TransferTask {
    /// Hand this node's records of a partition to one of its new primaries.
    Copy(NewCopy),
    /// Hand what this node already has in a partition that is newly its own to the partition's other
    /// primaries.
    Share(NewCopy),
    /// Hand records of a partition to the primaries that a raised `n_val` added.
    Fill(Partition),
    /// Deliver the writes that a node missed.
    Hints(NodeId),
    /// Walk through a partition, hand its strays to their primaries and remove them.
    Strays(Partition),
}

impl Transfers {
    /// Transfers that this node sends: those that are under way, those that wait, and sums since its
    /// start.
    #[must_use]
    pub fn stats(&self) -> TransferStats {
        let stray_partition_count = self.delivery.suspects.lock().all().len() as u64;
        let waiting = self.copies_waiting();
        let hints = self.hints.counts().into_iter().map(|(to, (record_count, partition_count))| {
            WaitingHints { to, record_count, partition_count }
        });
        let hints = hints.collect();
        let share = self.delivery.yielding.share();
        TransferStats {
            waiting,
            hints,
            stray_partition_count,
            share,
            ..self.delivery.active.stats()
        }
    }

    /// Runs transfers, and reports this node's complete copies to the control plane, until the task is
    /// dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        let delivery = Arc::clone(&self.delivery).run();
        tokio::join!(biased; self.run_rounds(), self.run_reports(), delivery);
    }

    /// Runs rounds of tasks. Tasks that take longer than a round continue beside the next ones.
    async fn run_rounds(self: &Arc<Self>) {
        let mut news = self.local.control.watch();
        let mut running = JoinSet::new();
        let mut running_tasks = BTreeSet::new();
        loop {
            news.mark_unchanged();
            let state = self.local.state();
            self.review(&state);
            let is_clear = self.delivery.suspects.lock().all().is_empty();
            // While several layouts are live, records that belong here only by an older one do not count
            // as strays yet, so this node can't say that it has none by the newest layout.
            let settled = Some(state.layouts()).filter(|layouts| is_clear && !layouts.is_moving());
            self.local
                .control
                .set_drained_by_layout(settled.map_or(0, |layouts| layouts.newest().version()));
            let fills = self.fills(&state).await;
            let mut tasks = self.tasks(&state, fills);
            tasks.retain(|task| !running_tasks.contains(task));
            let mut tasks = tasks.into_iter();
            let round_end = Instant::now() + ROUND_INTERVAL;
            loop {
                while self.may_begin(running.len()) {
                    let Some(task) = tasks.next() else { break };
                    let transfers = Arc::clone(self);
                    let is_new = running_tasks.insert(task);
                    debug_assert!(is_new, "a task runs once at a time");
                    running.spawn(async move { transfers.run_task(task).await });
                }
                tokio::select! {
                    biased;
                    Some(done) = running.join_next() => match done {
                        Ok(task) => _ = running_tasks.remove(&task),
                        Err(fault) => std::panic::resume_unwind(fault.into_panic()),
                    },
                    _ = news.changed() => break,
                    () = sleep_until(round_end) => break,
                }
            }
            sleep(ROUND_PAUSE).await;
        }
    }

    /// True if one more task may start beside those that run.
    fn may_begin(&self, running_count: usize) -> bool {
        let limits = self.limits();
        limits.outbound && running_count < limits.partition_count_max as usize
    }

    /// Reports complete copies and filled raises to the control plane, each time that one may have been
    /// completed.
    async fn run_reports(&self) {
        let mut news = self.local.control.watch();
        loop {
            news.mark_unchanged();
            let state = self.local.state();
            self.report_copies(&state).await;
            self.report_fills(&state).await;
            sleep(REPORT_PAUSE).await;
            let happened = async {
                tokio::select! {
                    biased;
                    _ = news.changed() => {}
                    () = self.wanted.notified() => {}
                }
            };
            let _ = timeout(ROUND_INTERVAL, happened).await;
        }
    }

    /// Returns the tasks that could run now, the most urgent first.
    fn tasks(&self, state: &State, fills: Vec<Partition>) -> Vec<TransferTask> {
        let shares = self.copies_to_share(state).into_iter().map(TransferTask::Share);
        let copies = self.copies_to_hand(state).into_iter().map(TransferTask::Copy);
        let fills = fills.into_iter().map(TransferTask::Fill);
        let hints = self.hint_targets(state).into_iter().map(TransferTask::Hints);
        let strays = self.stray_tasks().into_iter().map(TransferTask::Strays);
        shares.chain(copies).chain(fills).chain(hints).chain(strays).collect()
    }

    /// Runs a task, and returns it when it is done or has failed. A failed task is part of a later round
    /// again.
    async fn run_task(self: Arc<Self>, task: TransferTask) -> TransferTask {
        let done: Result<(), TransferError> = match task {
            TransferTask::Copy(copy) => self.hand_copy(copy).await,
            TransferTask::Share(copy) => self.share_copy(copy).await,
            TransferTask::Fill(partition) => self.fill(partition).await,
            TransferTask::Hints(to) => self.deliver_hints(to).await,
            TransferTask::Strays(partition) => self.look_for_strays(partition).await,
        };
        if let Err(fault) = done {
            tracing::debug!(job = ?task, %fault, "a transfer is put off");
        }
        task
    }

    /// Walks through a suspected partition for strays, and notes the result.
    async fn look_for_strays(self: &Arc<Self>, partition: Partition) -> Result<(), TransferError> {
        self.delivery.suspects.lock().begin(partition);
        let walked = match self.hand_strays(partition, false).await {
            // The removals are synced before the partition counts as clean: a power failure that undid
            // one would leave a stray that no walk looks for.
            Ok(WalkResult::Clean) => {
                self.delivery.all_synced().await.map(|()| WalkResult::Clean).map_err(Into::into)
            }
            walked => walked,
        };
        let (walked, done) = match walked {
            Ok(walked) => (walked, Ok(())),
            Err(fault) => (WalkResult::Unfinished, Err(fault)),
        };
        self.delivery.suspects.lock().end(partition, walked);
        done
    }

    /// After a change by which this node may be a primary of fewer records, suspects all partitions of
    /// which it is not a primary for the smallest `n_val` of any bucket.
    fn review(&self, state: &State) {
        // Under one lock: a member that is answered with the newer state's version must also get the
        // suspicions that follow from that state.
        let mut suspects = self.delivery.suspects.lock();
        if !suspects.review(state) {
            return;
        }
        let (n_val_min, _) = n_vals(state);
        let is_primary = |partition: &Partition| {
            primaries(state, *partition, n_val_min).contains(&state.node_id())
        };
        let partitions = state.layouts().newest().partitions();
        for partition in partitions.filter(|each| !is_primary(each)) {
            suspects.suspect(partition, BTreeSet::new());
        }
    }

    /// Returns the suspected partitions of which some strays may be handed over now.
    fn stray_tasks(&self) -> Vec<Partition> {
        self.delivery.suspects.lock().ready(|node| self.local.reachable(node).is_some())
    }
}
