//! Rows that a running node reads and writes: the log, the vote, the applied changes, starts and openings.

use super::{
    BUCKET_PROPS, BUCKET_TYPES, ControlFile, FORMAT, FORMAT_WITH_RULES, KEY_APPLIED, KEY_BALLOT,
    KEY_CLUSTER, KEY_CLUSTER_ID, KEY_ELECTORATE, KEY_FORMAT, KEY_PURGED, KEY_REVISION, KEY_STARTS,
    KEY_TIME, KEY_VERSION, LAYOUTS, LOG, MEMBERS, NODE, RAFT, RULES, STARTS, STORES, commit,
};
use crate::NodeId;
use crate::change::Change;
use crate::control::codec::{encode_member, encode_props, encode_type};
use crate::control::raft_codec::{
    decode_entry, decode_log_id, decode_stored_membership, decode_vote, encode_entry,
    encode_log_id, encode_stored_membership, encode_vote,
};
use crate::control::types::{Entry, LogId, StoredMembership, Vote};
use crate::error::StoreError;
use crate::members::Members;
use crate::state::State;
use openraft::entry::RaftPayload as _;
use prost::Message;
use quoit_model::key::BucketRef;
use quoit_model::store_opening::{LastOpening, StoreId};
use quoit_planted::planted;
use quoit_wire::internode::control::{
    Ballot, ClusterMessage, LogEntry, Position, Started, StoredElectorate,
};
use redb::{Database, ReadableDatabase, ReadableTable, WriteTransaction};
use std::fmt;
use std::ops::RangeBounds;
use tokio::runtime::{Handle, RuntimeFlavor};

/// The file could not be read or written, or a value in it could not be decoded.
pub(crate) type CommitError = StoreError;

/// Position up to which the log is applied to the state.
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
        let database = self.database.read();
        let done = match &*database {
            Some(database) => work(database),
            None => Err(redb::Error::DatabaseClosed),
        };
        done.map_err(|error| self.error(&error))
    }

    /// Runs one durable transaction. On a multi-threaded runtime the other tasks of the thread
    /// move to another thread while it waits for the disk. A single-threaded runtime, as in
    /// simulations, simply blocks.
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

    /// Returns the number of times that the node was started with this file.
    pub(crate) fn starts(&self) -> Result<u64, CommitError> {
        let found = self.with(|database| {
            let table = database.begin_read()?.open_table(NODE)?;
            Ok(table.get(KEY_STARTS)?.and_then(|value| <[u8; 8]>::try_from(value.value()).ok()))
        })?;
        Ok(found.map_or(0, u64::from_be_bytes))
    }

    /// Returns the last recorded time of the node's clock, microseconds since 1970.
    pub(crate) fn time_us(&self) -> Result<Option<u64>, CommitError> {
        let found = self.with(|database| {
            let table = database.begin_read()?.open_table(NODE)?;
            Ok(table.get(KEY_TIME)?.and_then(|value| <[u8; 8]>::try_from(value.value()).ok()))
        })?;
        Ok(found.map(u64::from_be_bytes))
    }

    /// Records the time of the node's clock, microseconds since 1970.
    pub(crate) fn note_time(&self, unix_us: u64) -> Result<(), CommitError> {
        self.commit(|transaction| {
            transaction.open_table(NODE)?.insert(KEY_TIME, unix_us.to_be_bytes().as_slice())?;
            Ok(())
        })
    }

    /// Returns the last recorded opening of a store of this node.
    pub(crate) fn store_opening(&self, name: &str) -> Result<Option<LastOpening>, CommitError> {
        let noted = self.with(|database| {
            let transaction = database.begin_read()?;
            match transaction.open_table(STORES) {
                Ok(table) => Ok(table.get(name)?.map(|noted| noted.value())),
                Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })?;
        Ok(noted.map(|(store_id, mark, incarnation)| LastOpening {
            store_id: StoreId(store_id),
            mark,
            incarnation,
        }))
    }

    /// Records an opening of a store of this node.
    pub(crate) fn note_store_opening(
        &self,
        name: &str,
        opening: LastOpening,
    ) -> Result<(), CommitError> {
        let LastOpening { store_id, mark, incarnation } = opening;
        self.commit(|transaction| {
            transaction.open_table(STORES)?.insert(name, (store_id.0, mark, incarnation))?;
            Ok(())
        })
    }

    /// Records a start of another node, unless a later start is known. Returns whether this start is the
    /// latest known one, and the number of the latest known one. Of two starts with the same number but
    /// different boot ids, the first one recorded counts as the latest.
    pub(crate) fn note_start(
        &self,
        node: NodeId,
        started: Started,
    ) -> Result<(bool, u64), CommitError> {
        let Started { starts, boot_id } = started;
        let known = self.with(|database| {
            let transaction = database.begin_read()?;
            match transaction.open_table(STARTS) {
                Ok(table) => Ok(table.get(node.0.as_slice())?.map(|known| known.value())),
                Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })?;
        match known {
            Some(known) if known == (starts, boot_id) => Ok((true, starts)),
            Some((known, _)) if known >= starts => Ok((false, known)),
            _ => {
                self.commit(|transaction| {
                    let mut table = transaction.open_table(STARTS)?;
                    table.insert(node.0.as_slice(), (starts, boot_id))?;
                    Ok(())
                })?;
                Ok((true, starts))
            }
        }
    }

    /// Returns the last vote of this node.
    pub(crate) fn ballot(&self) -> Result<Option<Vote>, CommitError> {
        let stored: Option<Ballot> = self.raft_value(KEY_BALLOT)?;
        let decoded = stored.map(|ballot| decode_vote(Some(&ballot))).transpose();
        decoded.map_err(|reason| self.error(&reason))
    }

    pub(crate) fn put_ballot(&self, vote: &Vote) -> Result<(), CommitError> {
        if planted!(ForgetsVotes) {
            return Ok(());
        }
        let ballot = encode_vote(vote).encode_to_vec();
        self.commit(|transaction| {
            transaction.open_table(RAFT)?.insert(KEY_BALLOT, ballot.as_slice())?;
            Ok(())
        })
    }

    /// Returns the position of the last entry that was purged from the front of the log.
    pub(crate) fn purged(&self) -> Result<Option<LogId>, CommitError> {
        let stored: Option<Position> = self.raft_value(KEY_PURGED)?;
        let decoded = stored.as_ref().map(decode_log_id).transpose();
        decoded.map_err(|reason| self.error(&reason))
    }

    /// Returns the entries of the log with these indexes.
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

    /// Returns the last entry of the log.
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
        self.commit(|transaction| put_entries(transaction, entries))
    }

    /// Appends entries and stores `vote`, in one transaction.
    pub(crate) fn append_as(&self, vote: &Vote, entries: &[Entry]) -> Result<(), CommitError> {
        let ballot = encode_vote(vote).encode_to_vec();
        self.commit(|transaction| {
            transaction.open_table(RAFT)?.insert(KEY_BALLOT, ballot.as_slice())?;
            put_entries(transaction, entries)
        })
    }

    /// Removes the entries from index `from_index` to the end of the log.
    pub(crate) fn truncate(&self, from_index: u64) -> Result<(), CommitError> {
        self.commit(|transaction| {
            let mut table = transaction.open_table(LOG)?;
            table.retain_in(from_index.., |_, _| false)?;
            Ok(())
        })
    }

    /// Removes the entries from the front of the log up to and including `up_to`.
    pub(crate) fn purge(&self, up_to: &LogId) -> Result<(), CommitError> {
        let position = encode_log_id(up_to).encode_to_vec();
        self.commit(|transaction| {
            let mut table = transaction.open_table(LOG)?;
            table.retain_in(..=up_to.index, |_, _| false)?;
            transaction.open_table(RAFT)?.insert(KEY_PURGED, position.as_slice())?;
            Ok(())
        })
    }

    /// Returns the position up to which the log is applied.
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

    /// Returns the part of the state that is not in the tables of members, layouts and buckets.
    pub(super) fn cluster(&self) -> Result<Option<ClusterMessage>, CommitError> {
        self.raft_value(KEY_CLUSTER)
    }

    /// Returns the voters according to the last entry about voters in the log, applied or not.
    pub(crate) fn electorate(&self) -> Result<StoredMembership, CommitError> {
        let applied = self.applied()?;
        let next = applied.last.map_or(0, |last| last.index + 1);
        let last = self.log_entries(next..)?.into_iter().rev().find_map(|entry| {
            let membership = entry.get_membership().cloned()?;
            Some(StoredMembership::new(Some(entry.log_id), membership))
        });
        Ok(last.unwrap_or(applied.electorate))
    }

    /// Writes the changes from one state to the next, together with the position in the log that they lead
    /// to.
    pub(crate) fn apply(
        &self,
        changes: &[Change],
        before: &State,
        after: &State,
        applied: &Applied,
    ) -> Result<(), CommitError> {
        self.commit(|transaction| {
            for change in changes {
                put_bucket(transaction, change)?;
            }
            put_members(transaction, before.members(), after.members())?;
            if !before.same_cluster(after) {
                put_cluster(transaction, after)?;
            }
            put_applied(transaction, applied)
        })
    }

    /// Replaces the whole stored state by another one, as after a snapshot.
    pub(crate) fn replace(&self, state: &State, applied: &Applied) -> Result<(), CommitError> {
        self.commit(|transaction| {
            transaction.delete_table(BUCKET_TYPES)?;
            transaction.delete_table(BUCKET_PROPS)?;
            transaction.delete_table(MEMBERS)?;
            transaction.delete_table(LAYOUTS)?;
            transaction.delete_table(RULES)?;
            for change in state.changes() {
                put_bucket(transaction, &change)?;
            }
            put_members(transaction, &Members::default(), state.members())?;
            put_cluster(transaction, state)?;
            if state.security().is_untouched() {
                let format = FORMAT.to_be_bytes();
                transaction.open_table(NODE)?.insert(KEY_FORMAT, format.as_slice())?;
            }
            let mut node = transaction.open_table(NODE)?;
            node.insert(KEY_CLUSTER_ID, state.cluster_id().0.as_slice())?;
            put_applied(transaction, applied)
        })
    }
}

/// Writes the members that differ.
fn put_members(
    transaction: &WriteTransaction,
    before: &Members,
    after: &Members,
) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(MEMBERS)?;
    for member in before.iter().filter(|member| after.get(member.id).is_none()) {
        table.remove(member.id.0.as_slice())?;
    }
    for member in after.iter().filter(|member| before.get(member.id) != Some(*member)) {
        let value = encode_member(member).encode_to_vec();
        table.insert(member.id.0.as_slice(), value.as_slice())?;
    }
    Ok(())
}

/// Writes the layouts, and the rest of the cluster's state, such as staged changes and removed nodes.
fn put_cluster(transaction: &WriteTransaction, state: &State) -> Result<(), redb::Error> {
    let message = state.cluster_message().encode_to_vec();
    transaction.open_table(RAFT)?.insert(KEY_CLUSTER, message.as_slice())?;
    let mut table = transaction.open_table(LAYOUTS)?;
    let live = state.layouts().live();
    let is_live = |version| live.iter().any(|layout| layout.version() == version);
    table.retain(|version, _| is_live(version))?;
    for layout in live {
        if table.get(layout.version())?.is_none() {
            table.insert(layout.version(), layout.encode().as_slice())?;
        }
    }
    Ok(())
}

fn put_entries(transaction: &WriteTransaction, entries: &[Entry]) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(LOG)?;
    for entry in entries {
        let bytes = encode_entry(entry).encode_to_vec();
        table.insert(entry.log_id.index, bytes.as_slice())?;
    }
    Ok(())
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

/// Writes a change of a bucket type, a bucket or a rule. The other kinds of changes are written by
/// comparing the two states.
fn put_bucket(transaction: &WriteTransaction, change: &Change) -> Result<(), redb::Error> {
    match change {
        Change::PutType { name, bucket_type } => {
            let value = encode_type(bucket_type);
            transaction.open_table(BUCKET_TYPES)?.insert(&**name, value.as_bytes())?;
        }
        Change::PutBucket { bucket_type, bucket, props } => {
            let value = encode_props(props);
            let key = bucket_key(BucketRef { bucket_type, bucket });
            transaction.open_table(BUCKET_PROPS)?.insert(key.as_slice(), value.as_bytes())?;
        }
        Change::RemoveBucket { bucket_type, bucket } => {
            let key = bucket_key(BucketRef { bucket_type, bucket });
            transaction.open_table(BUCKET_PROPS)?.remove(key.as_slice())?;
        }
        Change::Rule(rule) => put_rule(transaction, rule)?,
        _ => {}
    }
    Ok(())
}

/// Writes a rule of security. The first rule raises the format of the file, so that versions without
/// such rules do not open it.
fn put_rule(
    transaction: &WriteTransaction,
    rule: &quoit_security::Change,
) -> Result<(), redb::Error> {
    let (key, json) = rule.encode();
    let mut table = transaction.open_table(RULES)?;
    match json {
        Some(json) => drop(table.insert(key.as_str(), json.as_str())?),
        None => drop(table.remove(key.as_str())?),
    }
    let format = FORMAT_WITH_RULES.to_be_bytes();
    transaction.open_table(NODE)?.insert(KEY_FORMAT, format.as_slice())?;
    Ok(())
}

/// Returns a key of `BUCKET_PROPS`: the length of the type's name (16-bit big-endian), the type's
/// name, the bucket's name.
fn bucket_key(bucket: BucketRef<'_>) -> Vec<u8> {
    let BucketRef { bucket_type, bucket } = bucket;
    let type_bytes = u16::try_from(bucket_type.len()).expect("checked names are below 64 KiB");
    let mut key = Vec::with_capacity(2 + bucket_type.len() + bucket.len());
    key.extend_from_slice(&type_bytes.to_be_bytes());
    key.extend_from_slice(bucket_type);
    key.extend_from_slice(bucket);
    key
}
