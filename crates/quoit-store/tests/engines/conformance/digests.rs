//! Compares the digests and leaves of a partition with those of the model's records.

use super::START_SECS;
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_store::compare::{Digests, HashRange, Leaf, Scope, compared_digest, hour_of};
use quoit_store::engine::Compare;
use quoit_store::engine::{Engine, Record};
use quoit_store::index::Tag;
use std::collections::{BTreeMap, BTreeSet};

/// Checks an engine that supports comparisons of replicas.
///
/// # Panics
///
/// If its answers differ from those computed from `records`.
pub fn check(engine: &dyn Engine, partition: Partition, records: &[(Identity, Bytes, Record)]) {
    let Some(engine) = engine.compared() else { return };
    // In hours that may have passed, engines may still count records that they no longer show.
    let first_hour = hour_of(u64::from(START_SECS)) + 1_000;
    for hour_min in [first_hour, first_hour + 100_000] {
        let mut expected = Digests::default();
        for n_val_class in 1..16 {
            let scope = Scope { n_val_class, hour_min };
            let leaves = leaves_of(records, scope);
            leaves.iter().for_each(|leaf| expected.toggle(n_val_class, leaf));
            for range in [1, 2, 3, 16, 31, 1 << 12, (1 << 41) - 1] {
                let range = HashRange::from_number(range).unwrap();
                check_range(engine, partition, scope, range, &leaves);
            }
        }
        assert_eq!(engine.digests(partition, hour_min).unwrap(), expected, "{partition:?}");
    }
    check_tagged(engine, partition, records);
}

fn leaves_of(records: &[(Identity, Bytes, Record)], scope: Scope) -> Vec<Leaf> {
    let lasts = |record: &&(Identity, Bytes, Record)| {
        let meta = record.2.meta;
        let hour = hour_of(u64::from(meta.expires_at_secs));
        meta.n_val_class == scope.n_val_class
            && (meta.expires_at_secs == 0 || hour >= scope.hour_min)
    };
    let mut leaves: Vec<Leaf> = records
        .iter()
        .filter(lasts)
        .map(|(identity, _, record)| Leaf {
            tag: Tag::of(*identity),
            digest: compared_digest(&record.meta),
            tombstone: record.meta.tombstone,
        })
        .collect();
    leaves.sort_unstable();
    leaves
}

fn check_range(
    engine: &dyn Compare,
    partition: Partition,
    scope: Scope,
    range: HashRange,
    leaves: &[Leaf],
) {
    let within = |leaf: &&Leaf| (range.first()..=range.last()).contains(&leaf.tag);
    let expected: Vec<Leaf> = leaves.iter().filter(within).copied().collect();
    let mut digests = Digests::default();
    expected.iter().for_each(|leaf| digests.toggle(scope.n_val_class, leaf));
    let found = engine.range_digests(partition, scope, &[range]).unwrap();
    assert_eq!(found, [digests.of_class(scope.n_val_class)], "{range:?} of {partition:?}");
    let mut found = Vec::new();
    let mut next = Some(Tag::MIN);
    while let Some(from) = next {
        let page = engine.leaves(partition, scope, range, from, 3).unwrap();
        found.extend(page.leaves);
        next = page.next;
    }
    assert_eq!(found, expected, "{range:?} of {partition:?}");
}

fn check_tagged(engine: &dyn Compare, partition: Partition, records: &[(Identity, Bytes, Record)]) {
    let tags: BTreeSet<Tag> = records.iter().map(|(identity, ..)| Tag::of(*identity)).collect();
    let tags: Vec<Tag> = tags.into_iter().step_by(2).collect();
    let wanted = |record: &&(Identity, Bytes, Record)| tags.contains(&Tag::of(record.0));
    let expected: BTreeMap<Bytes, Record> = records
        .iter()
        .filter(wanted)
        .map(|(_, key, record)| (key.clone(), record.clone()))
        .collect();
    let found = engine.tagged(partition, &tags).unwrap();
    assert_eq!(found.len(), expected.len());
    assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), expected);
}
