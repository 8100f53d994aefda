//! What a node has stored, seen from inside.

use quoit_core::ReplicatedStore;
use quoit_model::hash::{Identity, Partition};
use quoit_store::error::StoreError;
use std::hash::{DefaultHasher, Hasher};

/// Records that are taken from the engine at once.
const PAGE: usize = 100;

/// Number of a node's records, and a digest of their names and values.
///
/// # Errors
///
/// When the engine can't read them.
pub fn summary(store: &ReplicatedStore, partition_count: u16) -> Result<(u64, u64), StoreError> {
    let mut hasher = DefaultHasher::new();
    let mut record_count = 0;
    for partition in (0..partition_count).map(Partition) {
        let mut from = Some(Identity(0));
        while let Some(identity) = from {
            let page = store.engine().fold(partition, identity, PAGE, false)?;
            for (name, record) in &page.entries {
                hasher.write(name);
                hasher.write(&record.value);
                record_count += 1;
            }
            from = page.next;
        }
    }
    Ok((record_count, hasher.finish()))
}
