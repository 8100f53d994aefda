//! The node's part in the group that agrees on the log: started, asked, and started again after the
//! disk has failed it.

use super::decision::Decision;
use super::file::ControlFile;
use super::log::Log;
use super::machine::{Machine, Published};
use super::network::Network;
use super::types::{Raft, RaftId};
use crate::error::StoreError;
use crate::state::State;
use openraft::error::{CheckIsLeaderError, ClientWriteError, Fatal, RaftError};
use openraft::{Config, LogIdOptionExt as _, SnapshotPolicy};
use std::fmt;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Time between signs of life of the leader, in milliseconds.
const HEARTBEAT_MS: u64 = 250;
/// A voter that heard nothing of a leader for a random time from this one on wants to be the leader, in
/// milliseconds.
const ELECTION_MS_MIN: u64 = 1_000;
/// The end of those times, in milliseconds.
const ELECTION_MS_MAX: u64 = 2_000;
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

/// Why the log did not take something.
#[derive(Debug)]
pub(crate) enum GroupError {
    /// Another node leads, or nobody.
    NotLeader,
    /// The control file failed.
    Store(StoreError),
}

/// What the log made of a decision.
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
    network: Network,
    /// `None` = not started yet.
    raft: Mutex<Option<Raft>>,
}

impl Group {
    pub(crate) fn new(file: Arc<ControlFile>, published: Arc<Published>, network: Network) -> Self {
        Self { file, published, network, raft: Mutex::new(None) }
    }

    /// The running part: started when it does not run, from what the control file has.
    pub(crate) async fn raft(&self) -> Result<Raft, StoreError> {
        let mut raft = self.raft.lock().await;
        if let Some(running) = &*raft {
            if running.with_raft_state(|_| ()).await.is_ok() {
                return Ok(running.clone());
            }
            self.reload()?;
            // What is left of it no longer writes.
            *raft = None;
        }
        let started = self.start().await?;
        *raft = Some(started.clone());
        Ok(started)
    }

    /// Reads again what the file holds: after a failure nobody else knows.
    fn reload(&self) -> Result<(), StoreError> {
        let error = |error: &dyn fmt::Display| StoreError {
            path: self.file.path().to_owned(),
            reason: error.to_string(),
        };
        self.file.reopen().map_err(|fault| error(&fault))?;
        let loaded = self.file.load().map_err(|fault| error(&fault))?;
        let now = self.published.state.load_full();
        let state = State::loaded(now.emptied(loaded.cluster_id, loaded.ring_size), &loaded);
        let index = self.file.applied()?.last.map_or(0, |last| last.index);
        self.published.publish(Arc::new(state), index);
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
        let log = Log { file: Arc::clone(&self.file) };
        let machine = Machine::new(Arc::clone(&self.file), Arc::clone(&self.published));
        let raft = Raft::new(own, Arc::new(config), self.network.clone(), log, machine).await;
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
        let raft = self.raft().await.map_err(GroupError::Store)?;
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
    pub(crate) async fn propose(&self, decision: Decision) -> Result<Agreed, GroupError> {
        let raft = self.raft().await.map_err(GroupError::Store)?;
        match raft.client_write(decision).await {
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

    /// Ends the node's part, so that nothing is written any more.
    pub(crate) async fn stop(&self) {
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
