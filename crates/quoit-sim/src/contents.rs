//! Contents of the nodes' stores, read directly from their engines.

use crate::data_types::Record;
use crate::history::KeyNumber;
use crate::names::RecordName;
use crate::policy::Policy;
use quoit_core::ReplicatedStore;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};

/// Number of records that are read from the engine at once.
const PAGE: usize = 100;

/// The records of one node.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// Objects by key. Records that do not belong to a key of the run are left out.
    pub objects: BTreeMap<KeyNumber, Object>,
    /// Copies of data types.
    pub data_types: BTreeMap<Record, Object>,
    /// Partitions and tags of the records that can't be read, because they are damaged.
    pub unread: BTreeSet<(Partition, Tag)>,
    /// Digest of the names and values of all records.
    pub digest: u64,
}

impl Contents {
    /// Reads all records of a node's engine.
    ///
    /// # Errors
    ///
    /// When the engine can't read a record.
    pub fn of(store: &ReplicatedStore) -> Result<Self, StoreError> {
        let mut contents = Self::default();
        let mut hasher = DefaultHasher::new();
        for partition in (0..store.control().ring_size().get()).map(Partition) {
            let mut from = Some(Identity(0));
            while let Some(identity) = from {
                let page = store.engine().fold(partition, identity, PAGE, false)?;
                for (name, record) in &page.entries {
                    hasher.write(name);
                    hasher.write(&record.value);
                    let Ok(key) = KeyRef::decode(name) else { continue };
                    let Ok(object) = Object::decode(&record.value) else { continue };
                    if let Some(number) = RecordName::number_of(key.key) {
                        contents.objects.insert(number, object);
                    } else if let Some(record) = Record::of_name(key.key) {
                        contents.data_types.insert(record, object);
                    }
                }
                contents.unread.extend(page.damaged.iter().map(|tag| (partition, *tag)));
                from = page.next;
            }
        }
        contents.digest = hasher.finish();
        Ok(contents)
    }
}

/// Merges the copies of a key on all nodes to the object that a reader would be shown.
#[must_use]
pub fn merged(all: &[Contents], key: KeyNumber, policy: Policy) -> Option<Object> {
    let replicas = all.iter().filter_map(|contents| contents.objects.get(&key)).cloned();
    let mut object = replicas.reduce(|one, other| match policy {
        Policy::LastWriteWins => one.merge_last_write_wins(&other),
        _ => one.merge(&other),
    })?;
    if policy.shows_one() {
        object.resolve_latest();
    }
    Some(object)
}
