//! The log as `openraft` sees it.

use super::file::{CommitError, ControlFile};
use super::types::{Entry, LogId, RaftId, StorageError, TypeConfig, Vote};
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{AnyError, ErrorSubject, ErrorVerb, OptionalSend, RaftLogReader, StorageIOError};
use std::fmt::Debug;
use std::ops::RangeBounds;
use std::sync::Arc;

/// The log in the control file.
#[derive(Clone)]
pub(crate) struct Log {
    pub(crate) file: Arc<ControlFile>,
}

/// The error as `openraft` wants it. It ends the node's part in the log until the file is opened again.
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
        self.file.purge(&log_id).map_err(on_log(ErrorVerb::Delete))
    }
}
