//! Checks that the digests match the stored records.

use super::super::BitcaskEngine;
use crate::compare::{Digests, HashRange, Leaf, Scope, compared_digest};
use crate::engine::ScanAccess;
use crate::error::StoreError;
use crate::index::Tag;
use quoit_model::hash::{Identity, Partition};
use std::collections::BTreeMap;

/// Compares the digests of all partitions with those computed from their records.
pub(super) fn check(
    engine: &BitcaskEngine,
    partition_count: u16,
    identities: &BTreeMap<Vec<u8>, Identity>,
) -> Result<(), String> {
    let mut partitions = (0..partition_count).map(Partition);
    partitions.try_for_each(|each| check_partition(engine, each, identities))
}

fn check_partition(
    engine: &BitcaskEngine,
    partition: Partition,
    identities: &BTreeMap<Vec<u8>, Identity>,
) -> Result<(), String> {
    let told = |error: StoreError| format!("{partition:?}: {error}");
    let mut expected = Digests::default();
    for (key, record) in
        engine.fold(partition, Identity(0), usize::MAX, false).map_err(told)?.entries
    {
        let leaf = Leaf {
            tag: Tag::of(identities[&key[..]]),
            digest: compared_digest(&record.meta),
            tombstone: record.meta.tombstone,
        };
        expected.toggle(record.meta.n_val_class, &leaf);
    }
    let compared = engine.compared().ok_or("copies can't be compared")?;
    let found = compared.digests(partition, 0).map_err(told)?;
    if found != expected {
        return Err(format!("{partition:?} has digests {found:?} instead of {expected:?}"));
    }
    for n_val_class in 1..16 {
        let scope = Scope { n_val_class, hour_min: 0 };
        let parts: Vec<HashRange> = HashRange::ALL.parts().collect();
        let parts = compared.range_digests(partition, scope, &parts).map_err(told)?;
        if parts.iter().fold(0, |bits, part| bits ^ part) != expected.of_class(n_val_class) {
            return Err(format!("{partition:?}: digests of parts are not that of the whole"));
        }
    }
    Ok(())
}
