//! Preference lists of one node.

use super::*;
use quoit_model::hash::{KeyHash, Placement, PlacementRule};
use std::collections::HashSet;

fn partitions(control: &ControlPlane, placement: u64, n_val: u32) -> Vec<u16> {
    control.read().preflist(Placement(placement), n_val).map(|entry| entry.partition.0).collect()
}

#[test]
fn preference_list_is_consecutive_and_wraps_around() {
    let fixture = Fixture::new();
    let control = fixture.open();
    assert_eq!(partitions(&control, 0, 3), [0, 1, 2]);
    assert_eq!(partitions(&control, u64::MAX, 3), [63, 0, 1]);
    assert_eq!(partitions(&control, 5 << 58, 1), [5]);
}

#[test]
fn preference_list_is_never_longer_than_the_ring() {
    let fixture = Fixture::new();
    let control = fixture.open_with_ring(8).unwrap();
    assert_eq!(partitions(&control, u64::MAX, 255), [7, 0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn node_is_the_primary_of_every_position() {
    let fixture = Fixture::new();
    let control = fixture.open();
    let key = untyped("b").key(b"k");
    let mut encoded = Vec::new();
    key.encode_into(&mut encoded);
    let hash = KeyHash::of(&encoded, key.bucket, PlacementRule::BucketAndKey);
    let entries: Vec<_> = control.read().preflist(hash.placement, 3).collect();
    assert_eq!(entries.len(), 3);
    assert!(entries.iter().all(|entry| entry.is_primary));
    assert!(entries.iter().all(|entry| &*entry.node_name == "quoit@127.0.0.1"));
    let distinct: HashSet<_> = entries.iter().map(|entry| entry.partition).collect();
    assert_eq!(distinct.len(), 3);
    assert_eq!(entries[0].partition, RingSize::DEFAULT.partition(hash.placement));
}
