//! The node's part in the group that agrees on the log: started, asked, and started again after the
//! disk has failed it.

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

/// Time between signs of life of the leader, in milliseconds.
const HEARTBEAT_MS: u64 = 250;
/// A voter that heard nothing of a leader for a random time from this one on wants to be the leader, in
/// milliseconds.
const ELECTION_MS_MIN: u64 = 1_000;
/// The end of those times, in milliseconds.
pub(super) const ELECTION_MS_MAX: u64 = 2_000;
/// A part that has ended is started again no sooner than this after its last start.
const RESTART_PAUSE: Duration = Duration::from_millis(200);
/// A node that has heard nothing of a leader for so long has none.
const LED_WITHIN: Duration = Duration::from_millis(ELECTION_MS_MAX);
/// Time that sending a part of a snapshot may take, in milliseconds.
const SNAPSHOT_PART_MS: u64 = 5_000;
/// Bytes of a part of a snapshot.
const SNAPSHOT_PART_BYTES: u64 = 256 << 10;
/// Entries of the log between snapshots.
const SNAPSHOT_ENTRIES: u64 = 256;
/// Entries that are kept for nodes that are a little behind, beyond those that no snapshot has.
const KEPT_ENTRIES: u64 = 64;
/// Entries that a node may be behind before it is sent a snapshot.
const LAG_ENTRIES_MAX: u64 = 512;
/// Entries that are sent at once.
const APPEND_ENTRIES_MAX: u64 = 64;

/// Time that the leader may take for one step.
pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the log did not take something.
#[derive(Clone, Debug)]
pub(crate) enum GroupError {
    /// Another node leads, or none; or nobody knows what came of it.
    NotLeader,
    /// The node does not take part any more.
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

/// A decision that the log has agreed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    /// Whether the changes were made; false = the state was another one.
    pub(crate) applied: bool,
    /// Index of the entry.
    pub(crate) index: u64,
}

/// The node's part in the group.
pub(crate) struct Group {
    file: Arc<ControlFile>,
    published: Arc<Published>,
    link: ControlLink,
    gate: RwLock<Gate>,
    /// `None` = not started yet.
    raft: Mutex<Option<Raft>>,
    /// Whether a failure has left the control file in a state that has to be read again.
    is_suspect: AtomicBool,
    /// Metrics of the running part.
    metrics: PartMetrics,
    /// When a leader has last been heard of.
    led_at: RwLock<Option<Instant>>,
    /// When a leader has last been heard of that had the answers of a majority.
    agreed_at: RwLock<Option<Instant>>,
    /// When the running part was last started.
    started_at: RwLock<Option<Instant>>,
    /// Changes that hold on every state, and who waits for them.
    told: parking_lot::Mutex<Vec<ChangesToMake>>,
    /// Held by the task that has the log agree on such changes.
    telling: Mutex<()>,
    /// Shared while a leader's entries are taken: the log does not change between a look at its end and the
    /// answer to a candidate.
    log_end: AsyncRwLock<()>,
}

/// Changes that hold on every state, for the next entry.
type ChangesToMake = (Vec<Change>, oneshot::Sender<Result<Agreed, GroupError>>);

/// Whether the node may take part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Gate {
    /// It may.
    Open,
    /// Not before others have answered.
    Waiting,
    /// Never again.
    Closed(Departure),
}

pub(crate) type Metrics = RaftMetrics<RaftId, ()>;

impl Group {
    pub(crate) fn new(
        file: Arc<ControlFile>,
        published: Arc<Published>,
        link: ControlLink,
        gate: Gate,
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

    pub(crate) fn gate(&self) -> Gate {
        self.gate.read().clone()
    }

    pub(crate) fn set_gate(&self, gate: Gate) {
        *self.gate.write() = gate;
    }

    /// The running part: started when it does not run, from what the control file has.
    pub(crate) async fn raft(&self) -> Result<Raft, GroupError> {
        let mut raft = self.raft.lock().await;
        match &*self.gate.read() {
            Gate::Open => {}
            Gate::Waiting => return Err(GroupError::NotLeader),
            Gate::Closed(departure) => return Err(GroupError::Departed(departure.clone())),
        }
        if let Some(running) = &*raft {
            if running.with_raft_state(|_| ()).await.is_ok() {
                return Ok(running.clone());
            }
            self.metrics.set(None);
            self.is_suspect.store(true, Ordering::Relaxed);
        }
        if self.is_suspect.load(Ordering::Relaxed) {
            // One that ends as soon as it is started, because the disk is full, would be started without end.
            let started_at = *self.started_at.read();
            if started_at.is_some_and(|at| at.elapsed() < RESTART_PAUSE) {
                return Err(GroupError::NotLeader);
            }
            // Tasks that are left of the part that ended no longer write.
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
    }

    /// The metrics of the running part; `None` when it does not run.
    pub(crate) fn metrics(&self) -> Option<Metrics> {
        self.metrics.now()
    }

    /// The leader, as far as the node knows.
    pub(crate) fn leader(&self) -> Option<RaftId> {
        self.metrics.now().and_then(|metrics| metrics.current_leader)
    }

    /// A leader of this group has just been heard of.
    pub(crate) fn note_led(&self) {
        *self.led_at.write() = Some(Instant::now());
    }

    /// Whether the node leads, or has heard of its leader lately.
    pub(crate) fn is_led(&self) -> bool {
        let led_at = *self.led_at.read();
        led_at.is_some_and(|at| at.elapsed() <= LED_WITHIN)
            || self.metrics().is_some_and(|metrics| metrics.state.is_leader())
    }

    /// Whether the node learns of what a majority of the voters agrees on: lately it has heard of a leader
    /// that a majority had answered lately, or it is such a leader.
    pub(crate) fn reaches_majority(&self) -> bool {
        let agreed_at = *self.agreed_at.read();
        agreed_at.is_some_and(|at| at.elapsed() <= LED_WITHIN) || self.metrics.leads_majority()
    }

    /// Ends the running part, has the control file changed, and reads it again. The next call starts a new
    /// part.
    pub(crate) async fn change_file(
        &self,
        change: impl FnOnce(&ControlFile) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut raft = self.raft.lock().await;
        self.metrics.set(None);
        if let Some(running) = raft.take() {
            // Fails only if it has ended already.
            let _ = running.shutdown().await;
        }
        self.is_suspect.store(true, Ordering::Relaxed);
        change(&self.file)?;
        self.reload()?;
        self.is_suspect.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Reads again what the file holds: after a failure nobody else knows.
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

    /// Index up to which the log must be applied before a state tells everything that was agreed on
    /// before this call. The node must be the leader.
    pub(crate) async fn read_index(&self) -> Result<u64, GroupError> {
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
    }

    /// Has the log agree on a decision. The node must be the leader.
    ///
    /// Changes that hold on every state are gathered while an entry with such changes is agreed on, and
    /// become one entry: after a commit all members tell at once that they serve by the new layout, and each
    /// entry costs each of them two writes to its disk.
    pub(crate) async fn propose(&self, decision: Decision) -> Result<Agreed, GroupError> {
        if decision.base.is_some() {
            return self.append(decision).await;
        }
        let (answer, mut answered) = oneshot::channel();
        self.told.lock().push((decision.changes, answer));
        let _turn = self.telling.lock().await;
        match answered.try_recv() {
            Ok(agreed) => return agreed,
            // The call that took it along was given up: its outcome is not known.
            Err(oneshot::error::TryRecvError::Closed) => return Err(GroupError::NotLeader),
            Err(oneshot::error::TryRecvError::Empty) => {}
        }
        let (changes, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *self.told.lock()).into_iter().unzip();
        let agreed = self.append(Decision { base: None, changes: changes.concat() }).await;
        for answer in waiting {
            // Nobody waits any more: then nobody needs to know.
            let _ = answer.send(agreed.clone());
        }
        agreed
    }

    async fn append(&self, decision: Decision) -> Result<Agreed, GroupError> {
        let raft = self.raft().await?;
        // A node that led when it was cut off may never be told by the library what has become of an entry.
        let written = timeout(STEP_TIMEOUT, raft.client_write(decision)).await;
        match written.map_err(|_| GroupError::NotLeader)? {
            Ok(written) => {
                Ok(Agreed { applied: written.data.applied, index: written.log_id.index })
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

    /// Takes entries of a leader. `has_majority` says whether a majority has answered it lately.
    pub(crate) async fn take(
        &self,
        request: AppendEntriesRequest<TypeConfig>,
        has_majority: bool,
    ) -> Result<AppendEntriesResponse<RaftId>, GroupError> {
        let raft = self.raft().await?;
        let _unchanged = self.log_end.read().await;
        let taken = raft.append_entries(request).await.map_err(|fault| self.failed(&fault))?;
        if !matches!(taken, AppendEntriesResponse::HigherVote(_)) {
            self.note_led();
            if has_majority {
                *self.agreed_at.write() = Some(Instant::now());
            }
        }
        Ok(taken)
    }

    /// Answers a candidate.
    pub(crate) async fn vote(
        &self,
        mut request: VoteRequest<RaftId>,
    ) -> Result<VoteResponse<RaftId>, GroupError> {
        let raft = self.raft().await?;
        let _unchanged = self.log_end.write().await;
        let own = RaftId(self.published.state.load().node_id());
        let demoted = raft.with_raft_state(move |state| demoted_at(own, state)).await;
        if let Some(index) = demoted.map_err(|fault| self.fatal(&fault))? {
            request.last_log_id = end_to_compare(&self.file, index, request.last_log_id)?;
        }
        Ok(raft.vote(request).await.map_err(|fault| self.failed(&fault))?)
    }

    /// Ends the node's part, so that nothing is written any more.
    pub(crate) async fn stop(&self) {
        self.metrics.set(None);
        let raft = self.raft.lock().await.take();
        if let Some(raft) = raft
            && let Err(fault) = raft.shutdown().await
        {
            tracing::warn!(%fault, "the control plane did not stop in good order");
        }
        self.file.close();
    }
}

impl Drop for Group {
    /// Tasks that still run get errors, and another process may have the file.
    fn drop(&mut self) {
        self.file.close();
    }
}
