//! What is read and written while the node runs: the log, the ballot, applied changes.

use super::{
    BUCKET_PROPS, BUCKET_TYPES, ControlFile, KEY_APPLIED, KEY_BALLOT, KEY_ELECTORATE, KEY_PURGED,
    KEY_REVISION, KEY_VERSION, LOG, MEMBERS, RAFT, commit,
};
use crate::command::Change;
use crate::control::codec::{encode_member, encode_props, encode_type};
use crate::control::raft_codec::{
    decode_entry, decode_log_id, decode_stored_membership, decode_vote, encode_entry,
    encode_log_id, encode_stored_membership, encode_vote,
};
use crate::control::types::{Entry, LogId, StoredMembership, Vote};
use crate::error::StoreError;
use prost::Message;
use quoit_wire::internode::control::{Ballot, LogEntry, Position, StoredElectorate};
use redb::{Database, ReadableDatabase, ReadableTable, WriteTransaction};
use std::fmt;
use std::ops::RangeBounds;
use tokio::runtime::{Handle, RuntimeFlavor};

/// The file could not be read or written, or holds nonsense.
pub(crate) type CommitError = StoreError;

/// How far the log is applied.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) last: Option<LogId>,
    pub(crate) electorate: StoredMembership,
    pub(crate) version: u64,
    pub(crate) revision: u64,
}

impl ControlFile {
    fn error(&self, reason: &dyn fmt::Display) -> CommitError {
        StoreError { path: self.path().to_owned(), reason: reason.to_string() }
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, CommitError> {
        let database = self.database.lock();
        let done = match &*database {
            Some(database) => work(database),
            None => Err(redb::Error::DatabaseClosed),
        };
        done.map_err(|error| self.error(&error))
    }

    /// One durable transaction. Waits for the disk where the thread's other tasks are not held up by it;
    /// on a runtime of one thread, as in simulations, there are no others.
    pub(crate) fn commit(
        &self,
        fill: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), CommitError> {
        let write = || self.with(|database| commit(database, fill));
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(write),
            _ => write(),
        }
    }

    fn raft_value<M: Message + Default>(&self, key: &str) -> Result<Option<M>, CommitError> {
        let found = self.with(|database| {
            let table = database.begin_read()?.open_table(RAFT)?;
            Ok(table.get(key)?.map(|value| value.value().to_vec()))
        })?;
        let decode = |bytes: Vec<u8>| {
            M::decode(bytes.as_slice()).map_err(|error| self.error(&format!("{key}: {error}")))
        };
        found.map(decode).transpose()
    }

    fn number(&self, key: &str) -> Result<u64, CommitError> {
        let found = self.with(|database| {
            let table = database.begin_read()?.open_table(RAFT)?;
            Ok(table.get(key)?.and_then(|value| <[u8; 8]>::try_from(value.value()).ok()))
        })?;
        Ok(found.map_or(0, u64::from_be_bytes))
    }

    /// The vote that was given last.
    pub(crate) fn ballot(&self) -> Result<Option<Vote>, CommitError> {
        let stored: Option<Ballot> = self.raft_value(KEY_BALLOT)?;
        let decoded = stored.map(|ballot| decode_vote(Some(&ballot))).transpose();
        decoded.map_err(|reason| self.error(&reason))
    }

    pub(crate) fn put_ballot(&self, vote: &Vote) -> Result<(), CommitError> {
        let ballot = encode_vote(vote).encode_to_vec();
        self.commit(|transaction| {
            transaction.open_table(RAFT)?.insert(KEY_BALLOT, ballot.as_slice())?;
            Ok(())
        })
    }

    /// The last entry that was removed from the front of the log.
    pub(crate) fn purged(&self) -> Result<Option<LogId>, CommitError> {
        let stored: Option<Position> = self.raft_value(KEY_PURGED)?;
        let decoded = stored.as_ref().map(decode_log_id).transpose();
        decoded.map_err(|reason| self.error(&reason))
    }

    /// Entries of the log.
    pub(crate) fn log_entries(
        &self,
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<Entry>, CommitError> {
        let stored = self.with(|database| {
            let table = database.begin_read()?.open_table(LOG)?;
            let mut stored = Vec::new();
            for entry in table.range(range)? {
                stored.push(entry?.1.value().to_vec());
            }
            Ok(stored)
        })?;
        stored.iter().map(|bytes| self.decode_entry(bytes)).collect()
    }

    /// The last entry of the log.
    pub(crate) fn last_log_entry(&self) -> Result<Option<Entry>, CommitError> {
        let stored = self.with(|database| {
            let table = database.begin_read()?.open_table(LOG)?;
            Ok(table.last()?.map(|(_, value)| value.value().to_vec()))
        })?;
        stored.map(|bytes| self.decode_entry(&bytes)).transpose()
    }

    fn decode_entry(&self, bytes: &[u8]) -> Result<Entry, CommitError> {
        let message = LogEntry::decode(bytes).map_err(|error| self.error(&error))?;
        decode_entry(&message).map_err(|reason| self.error(&reason))
    }

    pub(crate) fn append(&self, entries: &[Entry]) -> Result<(), CommitError> {
        self.commit(|transaction| {
            let mut table = transaction.open_table(LOG)?;
            for entry in entries {
                let bytes = encode_entry(entry).encode_to_vec();
                table.insert(entry.log_id.index, bytes.as_slice())?;
            }
            Ok(())
        })
    }

    /// Removes the end of the log, from this entry on.
    pub(crate) fn truncate(&self, from_index: u64) -> Result<(), CommitError> {
        self.commit(|transaction| {
            let mut table = transaction.open_table(LOG)?;
            table.retain_in(from_index.., |_, _| false)?;
            Ok(())
        })
    }

    /// Removes the front of the log, up to and with this entry.
    pub(crate) fn purge(&self, up_to: &LogId) -> Result<(), CommitError> {
        let position = encode_log_id(up_to).encode_to_vec();
        self.commit(|transaction| {
            let mut table = transaction.open_table(LOG)?;
            table.retain_in(..=up_to.index, |_, _| false)?;
            transaction.open_table(RAFT)?.insert(KEY_PURGED, position.as_slice())?;
            Ok(())
        })
    }

    /// How far the log is applied.
    pub(crate) fn applied(&self) -> Result<Applied, CommitError> {
        let last: Option<Position> = self.raft_value(KEY_APPLIED)?;
        let electorate: Option<StoredElectorate> = self.raft_value(KEY_ELECTORATE)?;
        let decode = || {
            let last = last.as_ref().map(decode_log_id).transpose()?;
            Ok((last, decode_stored_membership(electorate.as_ref())?))
        };
        let (last, electorate) = decode().map_err(|reason: String| self.error(&reason))?;
        let (version, revision) = (self.number(KEY_VERSION)?, self.number(KEY_REVISION)?);
        Ok(Applied { last, electorate, version, revision })
    }

    /// Makes changes durable together with the place in the log up to which they go. With `anew`
    /// everything else is forgotten.
    pub(crate) fn apply<'c>(
        &self,
        anew: bool,
        changes: impl Iterator<Item = &'c Change>,
        applied: &Applied,
    ) -> Result<(), CommitError> {
        self.commit(|transaction| {
            if anew {
                transaction.delete_table(BUCKET_TYPES)?;
                transaction.delete_table(BUCKET_PROPS)?;
                transaction.delete_table(MEMBERS)?;
            }
            for change in changes {
                put(transaction, change)?;
            }
            put_applied(transaction, applied)
        })
    }
}

fn put_applied(transaction: &WriteTransaction, applied: &Applied) -> Result<(), redb::Error> {
    let mut raft = transaction.open_table(RAFT)?;
    if let Some(last) = &applied.last {
        raft.insert(KEY_APPLIED, encode_log_id(last).encode_to_vec().as_slice())?;
    }
    let electorate = encode_stored_membership(&applied.electorate).encode_to_vec();
    raft.insert(KEY_ELECTORATE, electorate.as_slice())?;
    raft.insert(KEY_VERSION, applied.version.to_be_bytes().as_slice())?;
    raft.insert(KEY_REVISION, applied.revision.to_be_bytes().as_slice())?;
    Ok(())
}

fn put(transaction: &WriteTransaction, change: &Change) -> Result<(), redb::Error> {
    match change {
        Change::PutType { name, bucket_type } => {
            let value = encode_type(bucket_type);
            transaction.open_table(BUCKET_TYPES)?.insert(&**name, value.as_bytes())?;
        }
        Change::PutBucket { bucket_type, bucket, props } => {
            let value = encode_props(props);
            let key = bucket_key(bucket_type, bucket);
            transaction.open_table(BUCKET_PROPS)?.insert(key.as_slice(), value.as_bytes())?;
        }
        Change::RemoveBucket { bucket_type, bucket } => {
            let key = bucket_key(bucket_type, bucket);
            transaction.open_table(BUCKET_PROPS)?.remove(key.as_slice())?;
        }
        Change::PutMember(member) => {
            let value = encode_member(member).encode_to_vec();
            transaction.open_table(MEMBERS)?.insert(member.id.0.as_slice(), value.as_slice())?;
        }
    }
    Ok(())
}

/// Length of the type's name (16-bit big-endian), the type's name, the bucket's name.
fn bucket_key(bucket_type: &[u8], bucket: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + bucket_type.len() + bucket.len());
    key.extend_from_slice(&(bucket_type.len() as u16).to_be_bytes());
    key.extend_from_slice(bucket_type);
    key.extend_from_slice(bucket);
    key
}
