//! Contents of the nodes' stores, read directly from their engines.

use crate::history::KeyNumber;
use crate::names::Name;
use crate::policy::Policy;
use quoit_core::ReplicatedStore;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_store::error::StoreError;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

/// Number of records that are read from the engine at once.
const PAGE: usize = 100;

/// The records of one node.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// Objects by key. Records that do not belong to a key of the run are left out.
    pub objects: BTreeMap<KeyNumber, Object>,
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
                    let key = KeyRef::decode(name).ok().and_then(|key| Name::number_of(key.key));
                    if let (Some(key), Ok(object)) = (key, Object::decode(&record.value)) {
                        contents.objects.insert(key, object);
                    }
                }
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
