//! Tests of listings while partitions move.

use crate::fixture::{TestCluster, id, key_in};
use bytes::Bytes;
use quoit_model::key::BucketRef;
use serde_json::json;
use std::collections::BTreeSet;

/// Number of keys, more than two chunks of a listing.
const COUNT: usize = 2_500;

#[tokio::test(start_paused = true)]
async fn a_listing_goes_on_with_other_nodes_when_names_are_damaged_here() {
    let cluster = TestCluster::joined_on_disks(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.rot(3);
    assert!(cluster.rot_names(3) > 0, "there are key files");
    let mut keys = BTreeSet::new();
    let mut listing =
        cluster.store(3).listings().list_keys(BucketRef::untyped(b"bucket")).await.unwrap();
    while let Some(chunk) = listing.next().await.unwrap() {
        keys.extend(chunk);
    }
    assert_eq!(keys.len(), COUNT);
    let mut listing = cluster.store(3).listings().list_buckets(b"default").await.unwrap();
    assert_eq!(listing.next().await.unwrap(), Some(vec![Bytes::from_static(b"bucket")]));
}

#[tokio::test(start_paused = true)]
async fn a_listing_goes_on_with_other_nodes_when_what_it_lists_here_moves_to_them() {
    let mut cluster = TestCluster::alone(1).await;
    cluster.put_many(1, COUNT).await;
    let mut listing =
        cluster.store(1).listings().list_keys(BucketRef::untyped(b"bucket")).await.unwrap();
    let mut keys = listing.next().await.unwrap().expect("there are more keys than a chunk has");
    assert!(keys.len() < COUNT, "the listing is in the middle");
    for number in 2..=5 {
        cluster.add().await;
        cluster.join(number).await;
    }
    cluster.commit(1).await;
    cluster.until_moved(1, 0).await;
    let is_moved = |index: usize| !cluster.holders(&format!("key {index}")).contains(&id(1));
    let moved_count = || (0..COUNT).filter(|index| is_moved(*index)).count();
    let strays = || cluster.store(1).transfers().stats().stray_partition_count;
    cluster.until("strays are removed", || moved_count() > 0 && strays() == 0).await;
    while let Some(chunk) = listing.next().await.unwrap() {
        keys.extend(chunk);
    }
    let listed: BTreeSet<Bytes> = keys.iter().cloned().collect();
    let wanted: BTreeSet<Bytes> = (0..COUNT).map(|index| format!("key {index}").into()).collect();
    assert_eq!(listed, wanted);
    assert_eq!(keys.len(), COUNT, "each key once");
}

#[tokio::test(start_paused = true)]
async fn a_listing_goes_on_with_other_nodes_when_its_bucket_gets_fewer_replicas() {
    const COUNT: usize = 1_500;
    let cluster = TestCluster::joined(3).await;
    cluster.create_type("t", json!({ "n_val": 3 })).await;
    let name = |index: usize| format!("key {index}");
    for index in 0..COUNT {
        cluster.put_in(1, "t", &name(index), "value").await;
    }
    let bucket = key_in("t", "").bucket;
    let mut listing = cluster.store(1).listings().list_keys(bucket).await.unwrap();
    let mut keys = listing.next().await.unwrap().expect("there are more keys than a chunk has");
    assert!(keys.len() < COUNT, "the listing is in the middle");
    cluster.update_type("t", json!({ "n_val": 1 })).await;
    let is_held = |index: &usize| cluster.holders_of(key_in("t", &name(*index))).contains(&id(1));
    let held_count = || (0..COUNT).filter(is_held).count();
    cluster.until("copies are removed here", || held_count() < COUNT / 2).await;
    while let Some(chunk) = listing.next().await.unwrap() {
        keys.extend(chunk);
    }
    let listed: BTreeSet<Bytes> = keys.iter().cloned().collect();
    let wanted: BTreeSet<Bytes> = (0..COUNT).map(|index| name(index).into()).collect();
    assert_eq!(listed, wanted);
    assert_eq!(keys.len(), COUNT, "each key once");
}
