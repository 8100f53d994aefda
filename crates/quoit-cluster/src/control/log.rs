//! Implements `openraft`'s storage of the log on the control file.

use super::file::{CommitError, ControlFile};
use super::types::{Entry, LogId, RaftId, StorageError, TypeConfig, Vote};
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{AnyError, ErrorSubject, ErrorVerb, OptionalSend, RaftLogReader, StorageIOError};
use std::fmt::Debug;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Maximum time for which the removal of entries waits for the snapshot that replaces them.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(30);

/// The log in the control file.
#[derive(Clone)]
pub(crate) struct Log {
    pub(crate) file: Arc<ControlFile>,
    /// Index of the last entry whose effect on the state is on disk. `None` for a log without a state
    /// beside it.
    pub(crate) applied_index: Option<watch::Receiver<u64>>,
}

impl Log {
    /// Waits until the state on disk includes all entries up to `up_to`.
    ///
    /// `openraft` removes the entries that a snapshot replaces while another task still writes the
    /// snapshot. After a loss of power in between, the node would have neither the entries nor the state:
    /// it could not start, and would have forgotten entries that it had acknowledged.
    async fn wait_for_state(&mut self, up_to: &LogId) -> Result<(), CommitError> {
        let Some(applied_index) = &mut self.applied_index else { return Ok(()) };
        let has_come = applied_index.wait_for(|applied| *applied >= up_to.index);
        match timeout(SNAPSHOT_TIMEOUT, has_come).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(CommitError {
                path: self.file.path().to_owned(),
                reason: format!("the snapshot up to entry {} was not written", up_to.index),
            }),
        }
    }
}

/// Converts an error for `openraft`. Any such error ends the Raft instance; the file is then opened again.
pub(crate) fn storage_error(
    subject: ErrorSubject<RaftId>,
    verb: ErrorVerb,
    error: &CommitError,
) -> StorageError {
    StorageIOError::new(subject, verb, AnyError::new(error)).into()
}

fn on_log(verb: ErrorVerb) -> impl Fn(CommitError) -> StorageError {
    move |error| storage_error(ErrorSubject::Logs, verb, &error)
}

impl RaftLogReader<TypeConfig> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, StorageError> {
        self.file.log_entries(range).map_err(on_log(ErrorVerb::Read))
    }
}

impl RaftLogStorage<TypeConfig> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError> {
        let read = || {
            let last_purged_log_id = self.file.purged()?;
            let last = self.file.last_log_entry()?.map(|entry| entry.log_id);
            Ok(LogState { last_purged_log_id, last_log_id: last.or(last_purged_log_id) })
        };
        read().map_err(on_log(ErrorVerb::Read))
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let saved = self.file.put_ballot(vote);
        saved.map_err(|error| storage_error(ErrorSubject::Vote, ErrorVerb::Write, &error))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        let read = self.file.ballot();
        read.map_err(|error| storage_error(ErrorSubject::Vote, ErrorVerb::Read, &error))
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TypeConfig>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        self.file.append(&entries).map_err(on_log(ErrorVerb::Write))?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        self.file.truncate(log_id.index).map_err(on_log(ErrorVerb::Delete))
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        self.wait_for_state(&log_id).await.map_err(on_log(ErrorVerb::Delete))?;
        self.file.purge(&log_id).map_err(on_log(ErrorVerb::Delete))
    }
}
