//! Loads the control file when a node starts.

use super::{
    BUCKET_PROPS, BUCKET_TYPES, ControlFile, FORMAT_WITH_RULES, KEY_CLUSTER_ID, KEY_FORMAT,
    KEY_NODE_ID, KEY_RING_SIZE, KEY_STARTS, LAYOUTS, MEMBERS, NODE, RULES,
};
use crate::change::Change;
use crate::control::codec::{EncodedEntry, decode_bucket, decode_member, decode_rule, decode_type};
use crate::control::fence::Voters;
use crate::error::OpenError;
use crate::state::StoredState;
use crate::state::cluster_codec::{decode_cluster, decode_layout};
use crate::{ClusterId, NodeId};
use prost::Message as _;
use quoit_model::hash::RingSize;
use quoit_model::key::BucketRef;
use quoit_model::layout::Layout;
use quoit_wire::internode::control::MemberMessage;
use redb::{ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use std::fmt;
use std::sync::Arc;

/// Identity of the node as stored in the file.
pub(super) struct LoadedIdentity {
    pub(super) format: u32,
    pub(super) node_id: NodeId,
    pub(super) ring_size: RingSize,
    /// Number of starts of the node before this one.
    pub(super) starts: u64,
}

/// Content of the file.
pub(crate) struct LoadedControlFile {
    pub(crate) node_id: NodeId,
    pub(crate) voters: Voters,
    /// Index of the last applied entry of the log.
    pub(crate) applied_index: u64,
    pub(crate) whole: StoredState,
}

type Decode = fn(EncodedEntry<'_>) -> Result<Change, String>;
type Bytes16 = [u8; 16];

impl ControlFile {
    /// Loads the whole state. Bucket types come before their buckets.
    pub(crate) fn load(&self) -> Result<LoadedControlFile, OpenError> {
        let identity = self.identity()?;
        let applied = self.applied().map_err(|error| self.corrupt(&error.to_string()))?;
        let electorate = self.electorate().map_err(|error| self.corrupt(&error.to_string()))?;
        let cluster = self.cluster().map_err(|error| self.corrupt(&error.to_string()))?;
        self.in_transaction(|transaction| {
            let node = self.node_values(transaction)?;
            let mut changes = self.entries(transaction, BUCKET_TYPES, decode_type)?;
            changes.extend(self.entries(transaction, BUCKET_PROPS, decode_bucket_row)?);
            changes.extend(self.entries(transaction, MEMBERS, decode_member_row)?);
            changes.extend(self.rules(transaction)?);
            let layouts = self.layouts(transaction)?;
            let cluster = decode_cluster(&cluster.unwrap_or_default(), layouts);
            let whole = StoredState {
                cluster_id: ClusterId(node.fixed::<16>(KEY_CLUSTER_ID)?),
                ring_size: identity.ring_size,
                version: applied.version,
                revision: applied.revision,
                changes,
                cluster: cluster.map_err(|reason| self.corrupt(&reason))?,
            };
            let applied_index = applied.last.map_or(0, |last| last.index);
            let voters = Voters::of(&electorate);
            Ok(LoadedControlFile { node_id: identity.node_id, voters, applied_index, whole })
        })
    }

    /// Loads the live layouts, oldest first.
    fn layouts(&self, transaction: &ReadTransaction) -> Result<Vec<Arc<Layout>>, OpenError> {
        let fault = |error: &dyn fmt::Display| self.corrupt(&error.to_string());
        let table = match transaction.open_table(LAYOUTS) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(fault(&error)),
        };
        let mut layouts = Vec::new();
        for entry in table.iter().map_err(|error| fault(&error))? {
            let (_, value) = entry.map_err(|error| fault(&error))?;
            layouts.push(decode_layout(value.value()).map_err(|error| fault(&error))?);
        }
        Ok(layouts)
    }

    /// Loads the rules of security.
    fn rules(&self, transaction: &ReadTransaction) -> Result<Vec<Change>, OpenError> {
        let fault = |error: &dyn fmt::Display| self.corrupt(&error.to_string());
        let table = match transaction.open_table(RULES) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(fault(&error)),
        };
        let mut rules = Vec::new();
        for entry in table.iter().map_err(|error| fault(&error))? {
            let (key, json) = entry.map_err(|error| fault(&error))?;
            let rule = decode_rule(key.value(), Some(json.value()));
            rules.push(rule.map_err(|error| fault(&error))?);
        }
        Ok(rules)
    }

    pub(super) fn identity(&self) -> Result<LoadedIdentity, OpenError> {
        self.in_transaction(|transaction| {
            let node = self.node_values(transaction)?;
            let format = u32::from_be_bytes(node.fixed(KEY_FORMAT)?);
            if format == 0 || format > FORMAT_WITH_RULES {
                let path = self.path().to_owned();
                return Err(OpenError::Format { path, found: format, known: FORMAT_WITH_RULES });
            }
            let ring_size = u16::from_be_bytes(node.fixed(KEY_RING_SIZE)?);
            let starts = if format == 1 { 0 } else { u64::from_be_bytes(node.fixed(KEY_STARTS)?) };
            Ok(LoadedIdentity {
                format,
                node_id: NodeId(node.fixed::<16>(KEY_NODE_ID)?),
                ring_size: RingSize::new(ring_size).ok_or_else(|| node.wrong(KEY_RING_SIZE))?,
                starts,
            })
        })
    }

    fn in_transaction<T>(
        &self,
        look: impl FnOnce(&ReadTransaction) -> Result<T, OpenError>,
    ) -> Result<T, OpenError> {
        let database = self.database.read();
        self.guarded(|| {
            let database = database.as_ref().ok_or_else(|| self.corrupt("it is closed"))?;
            let transaction =
                database.begin_read().map_err(|error| self.corrupt(&error.to_string()))?;
            look(&transaction)
        })?
    }

    fn node_values<'f>(
        &'f self,
        transaction: &ReadTransaction,
    ) -> Result<NodeValues<'f>, OpenError> {
        let table = transaction.open_table(NODE).map_err(|error| {
            let reason = format!("it has no table {NODE}: {error}");
            OpenError::Foreign { path: self.path().to_owned(), reason }
        })?;
        Ok(NodeValues { file: self, table })
    }

    fn entries(
        &self,
        transaction: &ReadTransaction,
        definition: TableDefinition<'_, &[u8], &[u8]>,
        decode: Decode,
    ) -> Result<Vec<Change>, OpenError> {
        let fault = |error: &dyn fmt::Display| self.corrupt(&error.to_string());
        let table = match transaction.open_table(definition) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(fault(&error)),
        };
        let mut changes = Vec::new();
        for entry in table.iter().map_err(|error| fault(&error))? {
            let (name, value) = entry.map_err(|error| fault(&error))?;
            let entry = EncodedEntry { key: name.value(), value: value.value() };
            changes.push(decode(entry).map_err(|error| fault(&error))?);
        }
        Ok(changes)
    }
}

/// The table with the identity and the counters of the node.
struct NodeValues<'f> {
    file: &'f ControlFile,
    table: redb::ReadOnlyTable<&'static str, &'static [u8]>,
}

impl NodeValues<'_> {
    fn fixed<const SIZE: usize>(&self, key: &str) -> Result<[u8; SIZE], OpenError> {
        let found = self.table.get(key).map_err(|error| self.file.corrupt(&error.to_string()))?;
        let found = found.ok_or_else(|| self.file.corrupt(&format!("{key} is missing")))?;
        found.value().try_into().map_err(|_| self.wrong(key))
    }

    fn wrong(&self, key: &str) -> OpenError {
        self.file.corrupt(&format!("{key} has an impossible value"))
    }
}

fn decode_bucket_row(entry: EncodedEntry<'_>) -> Result<Change, String> {
    let (bucket_type, bucket) = entry
        .key
        .split_first_chunk::<2>()
        .and_then(|(length, names)| names.split_at_checked(u16::from_be_bytes(*length).into()))
        .ok_or_else(|| "the name of a bucket is cut off".to_owned())?;
    decode_bucket(BucketRef { bucket_type, bucket }, entry.value)
}

fn decode_member_row(entry: EncodedEntry<'_>) -> Result<Change, String> {
    let EncodedEntry { key: id, value } = entry;
    let shown =
        Bytes16::try_from(id).map_or_else(|_| format!("{id:?}"), |id| NodeId(id).to_string());
    let message =
        MemberMessage::decode(value).map_err(|error| format!("member {shown}: {error}"))?;
    Ok(Change::PutMember(Arc::new(decode_member(&message)?)))
}
