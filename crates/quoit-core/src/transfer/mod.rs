//! Moves records to where they belong: copies to new primaries, missed writes and strays to the primaries.
//!
//! It runs in rounds; what fails is tried again in a later one, and what was delivered before is not
//! delivered again. How records get to another node is the matter of [`crate::delivery`].
//!
//! `docs/design/transfers.md` tells why nothing is lost or read stale meanwhile.

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

use crate::delivery::Deliveries;
use crate::delivery::hand::TransferError;
use crate::delivery::progress::{TransferStats, WaitingHints};
use crate::exchange::AntiEntropy;
use crate::hints::Hints;
use crate::local_node::LocalNode;
use crate::placement::{n_vals, primaries};
use crate::replica::Replica;
use crate::suspects::Walked;
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

/// Pause between two rounds when nothing changes.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);
/// Pause between two rounds at least.
const ROUND_PAUSE: Duration = Duration::from_millis(100);
/// Complete copies are gathered for so long before they are reported: each report is written to the disks of
/// all members, and has all of them look at who serves what.
const REPORT_PAUSE: Duration = Duration::from_millis(250);

/// The transfers of a node: which partitions, and records of them, other nodes should get from it, and when.
pub struct Transfers {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    hints: Arc<Hints>,
    pub(crate) delivery: Arc<Deliveries>,
    anti_entropy: Arc<AntiEntropy>,
    copies: Mutex<CopyStates>,
    fills: Mutex<Fills>,
    /// Something has happened that a round should see to.
    wanted: Notify,
}

impl Transfers {
    pub(crate) fn new(delivery: &Arc<Deliveries>, anti_entropy: &Arc<AntiEntropy>) -> Self {
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

/// Something to do in a round.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Job {
    Copy(NewCopy),
    Share(NewCopy),
    /// Records that a raised number of replicas has given to others.
    Fill(Partition),
    /// Deliveries of the hints of a node.
    Hints(NodeId),
    Strays(Partition),
}

impl Transfers {
    /// Figures of what this node hands over to others.
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

    /// Hands over what belongs to others, and tells the cluster what this node has got, until the task is
    /// dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        let delivery = Arc::clone(&self.delivery).run();
        tokio::join!(biased; self.run_rounds(), self.run_reports(), delivery);
    }

    async fn run_rounds(self: &Arc<Self>) {
        let mut news = self.local.control.watch();
        let mut running = JoinSet::new();
        let mut running_jobs = BTreeSet::new();
        loop {
            news.mark_unchanged();
            let state = self.local.state();
            self.review(&state);
            let is_clear = self.delivery.suspects.lock().all().is_empty();
            // Of several layouts only the last one decides what belongs here.
            let settled = Some(state.layouts()).filter(|layouts| is_clear && !layouts.is_moving());
            self.local
                .control
                .set_clear_by(settled.map_or(0, |layouts| layouts.newest().version()));
            let fills = self.fills(&state).await;
            let mut jobs = self.jobs(&state, fills);
            jobs.retain(|job| !running_jobs.contains(job));
            let mut jobs = jobs.into_iter();
            let round_end = Instant::now() + ROUND_INTERVAL;
            loop {
                while self.may_begin(running.len()) {
                    let Some(job) = jobs.next() else { break };
                    let transfers = Arc::clone(self);
                    running_jobs.insert(job);
                    running.spawn(async move { transfers.run_job(job).await });
                }
                tokio::select! {
                    biased;
                    Some(done) = running.join_next() => match done {
                        Ok(job) => _ = running_jobs.remove(&job),
                        Err(fault) => std::panic::resume_unwind(fault.into_panic()),
                    },
                    _ = news.changed() => break,
                    () = sleep_until(round_end) => break,
                }
            }
            sleep(ROUND_PAUSE).await;
        }
    }

    /// Whether one more partition may be handed over beside those that are.
    fn may_begin(&self, running_count: usize) -> bool {
        let limits = self.limits();
        limits.outbound && running_count < limits.partition_count_max as usize
    }

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

    /// Jobs that could be done now, most urgent first.
    fn jobs(&self, state: &State, fills: Vec<Partition>) -> Vec<Job> {
        let shares = self.copies_to_share(state).into_iter().map(Job::Share);
        let copies = self.copies_to_hand(state).into_iter().map(Job::Copy);
        let fills = fills.into_iter().map(Job::Fill);
        let hints = self.hint_targets(state).into_iter().map(Job::Hints);
        let strays = self.stray_jobs().into_iter().map(Job::Strays);
        shares.chain(copies).chain(fills).chain(hints).chain(strays).collect()
    }

    async fn run_job(self: Arc<Self>, job: Job) -> Job {
        let done: Result<(), TransferError> = match job {
            Job::Copy(copy) => self.hand_copy(copy).await,
            Job::Share(copy) => self.share_copy(copy).await,
            Job::Fill(partition) => self.fill(partition).await,
            Job::Hints(to) => self.deliver_hints(to).await,
            Job::Strays(partition) => self.look_for_strays(partition).await,
        };
        if let Err(fault) = done {
            tracing::debug!(?job, %fault, "a transfer is put off");
        }
        job
    }

    async fn look_for_strays(self: &Arc<Self>, partition: Partition) -> Result<(), TransferError> {
        self.delivery.suspects.lock().begin(partition);
        let walked = match self.hand_strays(partition, false).await {
            // A removal that a power failure undoes would leave a stray that nobody looks for.
            Ok(Walked::Clean) => {
                self.delivery.all_synced().await.map(|()| Walked::Clean).map_err(Into::into)
            }
            walked => walked,
        };
        let (walked, done) = match walked {
            Ok(walked) => (walked, Ok(())),
            Err(fault) => (Walked::Unfinished, Err(fault)),
        };
        self.delivery.suspects.lock().end(partition, walked);
        done
    }

    /// Suspects all partitions in which there may be records that this node is no primary of, where it may
    /// have become primary of fewer.
    fn review(&self, state: &State) {
        // In one step: who is told of the newer state is told of what is suspected by it.
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

    /// Suspected partitions of which some stray may be handed over now.
    fn stray_jobs(&self) -> Vec<Partition> {
        self.delivery.suspects.lock().ready(|node| self.local.reachable(node).is_some())
    }
}
