//! This node's Raft instance: starting it, calling it, and restarting it after an error of the disk.
//!
//! A failed write ends the instance, because the content of the control file is unknown from then on. The
//! next call opens and reads the file again, publishes the state that it holds, and starts a new instance.
//! Requests are served from the state in memory meanwhile.
//!
//! The calls return boxed futures. Every crate that awaits an `async fn` compiles its own copy of it, with
//! all that it awaits, and the code of `openraft` takes long to compile.

use super::demoted::{demoted_at, end_to_compare};
use super::file::ControlFile;
use super::link::ControlLink;
use super::log::Log;
use super::machine::{Machine, Published};
use super::network::RaftPeers;
use super::part_metrics::PartMetrics;
use super::types::{Raft, RaftId, TypeConfig};
use crate::change::Change;
use crate::change::Decision;
use crate::departure::Departure;
use crate::error::{ChangeError, StoreError};
use crate::state::State;
use crate::transport::BoxFuture;
use openraft::error::{CheckIsLeaderError, ClientWriteError, Fatal, RaftError};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use openraft::{Config, LogIdOptionExt as _, RaftMetrics, SnapshotPolicy};
use parking_lot::RwLock;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, RwLock as AsyncRwLock, oneshot};
use tokio::time::{Instant, timeout};

/// Interval between heartbeats of the leader, in milliseconds.
const HEARTBEAT_MS: u64 = 250;
/// Minimum election timeout, in milliseconds. A voter that hears nothing of a leader for a random time
/// between the minimum and the maximum becomes a candidate.
const ELECTION_MS_MIN: u64 = 1_000;
/// Maximum election timeout, in milliseconds.
pub(super) const ELECTION_MS_MAX: u64 = 2_000;
/// Minimum time between two starts of the instance after an error.
const RESTART_PAUSE: Duration = Duration::from_millis(200);
/// A node that has not heard from a leader for this long has no leader.
const LED_WITHIN: Duration = Duration::from_millis(ELECTION_MS_MAX);
/// Maximum time for sending one part of a snapshot, in milliseconds.
const SNAPSHOT_PART_MS: u64 = 5_000;
/// Size of one part of a snapshot, in bytes.
const SNAPSHOT_PART_BYTES: u64 = 256 << 10;
/// Number of entries of the log after which a snapshot is taken.
const SNAPSHOT_ENTRIES: u64 = 256;
/// Number of entries that stay in the log after a snapshot, for nodes that are slightly behind.
const KEPT_ENTRIES: u64 = 64;
/// Number of entries by which a node may lag before it gets a snapshot instead of entries.
const LAG_ENTRIES_MAX: u64 = 512;
/// Maximum number of entries in one request.
const APPEND_ENTRIES_MAX: u64 = 64;

/// Maximum time for one request to the leader.
pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason why the log did not accept a request.
#[derive(Clone, Debug)]
pub(crate) enum GroupError {
    /// This node does not lead, or the outcome of the request is not known.
    NotLeader,
    /// The node no longer takes part.
    Departed(Departure),
    /// The control file failed.
    Store(StoreError),
}

impl From<GroupError> for ChangeError {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::NotLeader => Self::NoLeader,
            GroupError::Departed(departure) => Self::Departed(departure),
            GroupError::Store(error) => Self::Store(error),
        }
    }
}

impl From<StoreError> for GroupError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A decision that is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommittedDecision {
    /// True if the changes were applied; false if the state had another revision by then.
    pub(crate) applied: bool,
    /// Index of the entry.
    pub(crate) index: u64,
}

/// This node's part in the Raft group.
pub(crate) struct Group {
    file: Arc<ControlFile>,
    published: Arc<Published>,
    link: ControlLink,
    gate: RwLock<Participation>,
    /// The Raft instance; `None` before the first start.
    raft: Mutex<Option<Raft>>,
    /// True after an error, until the control file was read again.
    is_suspect: AtomicBool,
    /// Metrics of the running instance.
    metrics: PartMetrics,
    /// Last time at which the node heard from a leader.
    led_at: RwLock<Option<Instant>>,
    /// Last time at which the node heard from a leader that a majority had answered recently.
    agreed_at: RwLock<Option<Instant>>,
    /// Last start of the instance.
    started_at: RwLock<Option<Instant>>,
    /// Changes that are valid for every state, with the channels of the calls that wait for them.
    told: parking_lot::Mutex<Vec<ChangesToMake>>,
    /// Held by the call that proposes those changes.
    telling: Mutex<()>,
    /// Locked for reading while entries of a leader are appended, and for writing while a candidate is
    /// answered, so that the end of the log does not change between comparing it and voting.
    log_end: AsyncRwLock<()>,
}

/// Changes that are valid for every state, and the channel of the call that waits for their outcome.
type ChangesToMake = (Vec<Change>, oneshot::Sender<Result<CommittedDecision, GroupError>>);

/// Whether the node may take part in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Participation {
    /// The node takes part.
    Open,
    /// The node waits until enough voters have confirmed that its data directory is not outdated.
    Waiting,
    /// The node no longer takes part, for good.
    Closed(Departure),
}

pub(crate) type Metrics = RaftMetrics<RaftId, ()>;

impl Group {
    pub(crate) fn new(
        file: Arc<ControlFile>,
        published: Arc<Published>,
        link: ControlLink,
        gate: Participation,
    ) -> Self {
        let (raft, metrics) = (Mutex::new(None), PartMetrics::default());
        let (gate, is_suspect) = (RwLock::new(gate), AtomicBool::new(false));
        let (led_at, agreed_at) = (RwLock::new(None), RwLock::new(None));
        let started_at = RwLock::new(None);
        let (told, telling, log_end) = Default::default();
        Self {
            file,
            published,
            link,
            gate,
            raft,
            is_suspect,
            metrics,
            led_at,
            agreed_at,
            started_at,
            told,
            telling,
            log_end,
        }
    }

    pub(crate) fn gate(&self) -> Participation {
        self.gate.read().clone()
    }

    pub(crate) fn set_gate(&self, gate: Participation) {
        *self.gate.write() = gate;
    }

    /// Returns the Raft instance, after starting it from the control file if it does not run.
    pub(crate) fn raft(&self) -> BoxFuture<'_, Result<Raft, GroupError>> {
        Box::pin(async move {
            let mut raft = self.raft.lock().await;
            match &*self.gate.read() {
                Participation::Open => {}
                Participation::Waiting => return Err(GroupError::NotLeader),
                Participation::Closed(departure) => {
                    return Err(GroupError::Departed(departure.clone()));
                }
            }
            if let Some(running) = &*raft {
                if running.with_raft_state(|_| ()).await.is_ok() {
                    return Ok(running.clone());
                }
                self.metrics.set(None);
                self.is_suspect.store(true, Ordering::Relaxed);
            }
            if self.is_suspect.load(Ordering::Relaxed) {
                // With a full disk each new instance would fail at once, so restarts need a pause.
                let started_at = *self.started_at.read();
                if started_at.is_some_and(|at| at.elapsed() < RESTART_PAUSE) {
                    return Err(GroupError::NotLeader);
                }
                // Drop the failed instance first, so that its remaining tasks no longer write.
                *raft = None;
                self.reload()?;
                self.is_suspect.store(false, Ordering::Relaxed);
            }
            *self.started_at.write() = Some(Instant::now());
            let started = self.start().await;
            self.is_suspect.store(started.is_err(), Ordering::Relaxed);
            let started = started?;
            self.metrics.set(Some(started.metrics()));
            *raft = Some(started.clone());
            Ok(started)
        })
    }

    /// Returns the metrics of the instance; `None` if it does not run.
    pub(crate) fn metrics(&self) -> Option<Metrics> {
        self.metrics.now()
    }

    /// Returns the leader, as far as the node knows.
    pub(crate) fn leader(&self) -> Option<RaftId> {
        self.metrics.now().and_then(|metrics| metrics.current_leader)
    }

    /// Notes that the node has just heard from a leader of this group.
    pub(crate) fn note_leader_heard(&self) {
        *self.led_at.write() = Some(Instant::now());
    }

    /// Returns true if the node leads or has recently heard from its leader.
    pub(crate) fn has_leader(&self) -> bool {
        let led_at = *self.led_at.read();
        led_at.is_some_and(|at| at.elapsed() <= LED_WITHIN)
            || self.metrics().is_some_and(|metrics| metrics.state.is_leader())
    }

    /// Returns true if the node learns what a majority of the voters agrees on: it leads with recent
    /// answers of a majority, or it has recently heard from such a leader.
    pub(crate) fn reaches_majority(&self) -> bool {
        let agreed_at = *self.agreed_at.read();
        agreed_at.is_some_and(|at| at.elapsed() <= LED_WITHIN) || self.metrics.leads_majority()
    }

    /// Stops the instance, runs `change` on the control file, and reads the file again. The next
    /// call starts a new instance.
    pub(crate) async fn change_file(
        &self,
        change: impl FnOnce(&ControlFile) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut raft = self.raft.lock().await;
        self.metrics.set(None);
        if let Some(running) = raft.take() {
            // Fails only if the instance has ended already.
            let _ = running.shutdown().await;
        }
        self.is_suspect.store(true, Ordering::Relaxed);
        change(&self.file)?;
        self.reload()?;
        self.is_suspect.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Opens and reads the control file, and publishes the state that it holds.
    fn reload(&self) -> Result<(), StoreError> {
        self.file.reopen().map_err(|fault| self.error(&fault))?;
        let loaded = self.file.load().map_err(|fault| self.error(&fault))?;
        let state = State::restored(&self.published.state.load_full(), loaded.whole);
        self.published.publish(Arc::new(state), loaded.applied_index);
        Ok(())
    }

    async fn start(&self) -> Result<Raft, StoreError> {
        let state = self.published.state.load_full();
        let config = Config {
            cluster_name: state.cluster_id().to_string(),
            heartbeat_interval: HEARTBEAT_MS,
            election_timeout_min: ELECTION_MS_MIN,
            election_timeout_max: ELECTION_MS_MAX,
            install_snapshot_timeout: SNAPSHOT_PART_MS,
            snapshot_max_chunk_size: SNAPSHOT_PART_BYTES,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(SNAPSHOT_ENTRIES),
            max_in_snapshot_log_to_keep: KEPT_ENTRIES,
            replication_lag_threshold: LAG_ENTRIES_MAX,
            max_payload_entries: APPEND_ENTRIES_MAX,
            ..Config::default()
        };
        let own = RaftId(state.node_id());
        let applied_index = Some(self.published.applied_index.subscribe());
        let log = Log { file: Arc::clone(&self.file), applied_index };
        let peers = RaftPeers { link: self.link.clone(), metrics: self.metrics.clone() };
        let machine = Machine::new(Arc::clone(&self.file), Arc::clone(&self.published));
        let raft = Raft::new(own, Arc::new(config), peers, log, machine).await;
        let raft = raft.map_err(|fault| self.fatal(&fault))?;
        // A sole voter that does not lead elects itself at once instead of waiting for the election timeout.
        let elects_itself = raft.with_raft_state(move |state| {
            let electorate = state.membership_state.effective().membership();
            electorate.voter_ids().eq([own]) && !state.vote_ref().is_committed()
        });
        if elects_itself.await.map_err(|fault| self.fatal(&fault))? {
            raft.trigger().elect().await.map_err(|fault| self.fatal(&fault))?;
        }
        Ok(raft)
    }

    fn error(&self, fault: &dyn fmt::Display) -> StoreError {
        StoreError { path: self.file.path().to_owned(), reason: fault.to_string() }
    }

    fn failed(&self, fault: &RaftError<RaftId>) -> StoreError {
        match fault {
            RaftError::APIError(never) => match *never {},
            RaftError::Fatal(fault) => self.fatal(fault),
        }
    }

    fn fatal(&self, fault: &Fatal<RaftId>) -> StoreError {
        let reason = match fault {
            Fatal::StorageError(error) => error.to_string(),
            Fatal::Panicked | Fatal::Stopped => format!("the log has stopped: {fault}"),
        };
        StoreError { path: self.file.path().to_owned(), reason }
    }

    /// Returns the index up to which the log must be applied before a state includes everything that was
    /// committed before this call: Raft's read index. The node must lead.
    pub(crate) fn read_index(&self) -> BoxFuture<'_, Result<u64, GroupError>> {
        Box::pin(async move {
            let raft = self.raft().await?;
            match raft.get_read_log_id().await {
                Ok((read, _)) => Ok(read.index().unwrap_or_default()),
                Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(_))) => {
                    Err(GroupError::NotLeader)
                }
                Err(RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_))) => {
                    Err(GroupError::NotLeader)
                }
                Err(RaftError::Fatal(fault)) => Err(GroupError::Store(self.fatal(&fault))),
            }
        })
    }

    /// Proposes a decision and waits until it is committed. The node must lead.
    ///
    /// Changes that are valid for every state are batched: those that arrive while such an entry is being
    /// committed form the next one. After a commit of a layout all members report at the same time that they
    /// use it, and each entry costs each member two synced writes.
    pub(crate) fn propose(
        &self,
        decision: Decision,
    ) -> BoxFuture<'_, Result<CommittedDecision, GroupError>> {
        Box::pin(async move {
            if decision.base.is_some() {
                return self.append(decision).await;
            }
            let (answer, mut answered) = oneshot::channel();
            self.told.lock().push((decision.changes, answer));
            let _turn = self.telling.lock().await;
            match answered.try_recv() {
                Ok(agreed) => return agreed,
                // The call that took these changes was cancelled, so their outcome is not known.
                Err(oneshot::error::TryRecvError::Closed) => return Err(GroupError::NotLeader),
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            let (changes, waiting): (Vec<_>, Vec<_>) =
                std::mem::take(&mut *self.told.lock()).into_iter().unzip();
            let agreed = self.append(Decision { base: None, changes: changes.concat() }).await;
            for answer in waiting {
                // Fails only if the waiting call was cancelled.
                let _ = answer.send(agreed.clone());
            }
            agreed
        })
    }

    async fn append(&self, decision: Decision) -> Result<CommittedDecision, GroupError> {
        let raft = self.raft().await?;
        // If the node led and was cut off, `openraft` may never report the outcome of an entry.
        let written = timeout(STEP_TIMEOUT, raft.client_write(decision)).await;
        match written.map_err(|_| GroupError::NotLeader)? {
            Ok(written) => {
                Ok(CommittedDecision { applied: written.data.applied, index: written.log_id.index })
            }
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => {
                Err(GroupError::NotLeader)
            }
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(fault))) => {
                unreachable!("a decision changes no electorate: {fault}")
            }
            Err(RaftError::Fatal(fault)) => Err(GroupError::Store(self.fatal(&fault))),
        }
    }

    /// Handles entries from a leader. `has_majority` tells whether a majority has recently answered that
    /// leader.
    pub(crate) fn take(
        &self,
        request: AppendEntriesRequest<TypeConfig>,
        has_majority: bool,
    ) -> BoxFuture<'_, Result<AppendEntriesResponse<RaftId>, GroupError>> {
        Box::pin(async move {
            let raft = self.raft().await?;
            let _unchanged = self.log_end.read().await;
            let taken = raft.append_entries(request).await.map_err(|fault| self.failed(&fault))?;
            if !matches!(taken, AppendEntriesResponse::HigherVote(_)) {
                self.note_leader_heard();
                if has_majority {
                    *self.agreed_at.write() = Some(Instant::now());
                }
            }
            Ok(taken)
        })
    }

    /// Answers a candidate.
    pub(crate) fn vote(
        &self,
        mut request: VoteRequest<RaftId>,
    ) -> BoxFuture<'_, Result<VoteResponse<RaftId>, GroupError>> {
        Box::pin(async move {
            let raft = self.raft().await?;
            let _unchanged = self.log_end.write().await;
            let own = RaftId(self.published.state.load().node_id());
            let demoted = raft.with_raft_state(move |state| demoted_at(own, state)).await;
            if let Some(index) = demoted.map_err(|fault| self.fatal(&fault))? {
                request.last_log_id = end_to_compare(&self.file, index, request.last_log_id)?;
            }
            Ok(raft.vote(request).await.map_err(|fault| self.failed(&fault))?)
        })
    }

    /// Stops the instance and closes the control file, so that nothing is written any more.
    pub(crate) fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.metrics.set(None);
            let raft = self.raft.lock().await.take();
            if let Some(raft) = raft
                && let Err(fault) = raft.shutdown().await
            {
                tracing::warn!(%fault, "the control plane did not stop in good order");
            }
            self.file.close();
        })
    }
}

impl Drop for Group {
    /// Closes the file, so that another process can open it. Tasks that still run get errors.
    fn drop(&mut self) {
        self.file.close();
    }
}
