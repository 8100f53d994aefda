//! Tests that objects expire everywhere, and that nothing brings them back.

use crate::fixture::{TestCluster, id, key_in};
use bytes::Bytes;
use quoit_core::{Counter, PutRequest, ReadOptions};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::object::Metadata;
use quoit_model::props::Quorum;
use quoit_seam::Clock;
use serde_json::json;
use std::time::Duration;

const COUNT: usize = 20;
const TTL_SECS: u64 = 20_000;
/// Time in which every node has compared its copies with every other node.
const ROUND: Duration = Duration::from_secs(100);

fn name(index: usize) -> String {
    format!("key {index}")
}

/// Three nodes whose clocks are 200 ms apart, with the bucket type `short`.
async fn cluster() -> TestCluster {
    let cluster = TestCluster::joined_with_skew(3, 200_000).await;
    cluster.create_type("short", json!({"ttl": TTL_SECS})).await;
    cluster
}

fn repaired(cluster: &TestCluster) -> u64 {
    let of = |number| cluster.store(number).stats().snapshot().total(Counter::ExchangeKeysRepaired);
    cluster.running().into_iter().map(of).sum()
}

async fn is_shown(cluster: &TestCluster, number: u8, key: KeyRef<'_>) -> bool {
    let found = cluster.store(number).get(key, &ReadOptions::default()).await.unwrap();
    found.is_some_and(|object| !object.is_tombstone())
}

/// One node has merged the expired value away, one was away and has missed half of the writes, and one
/// keeps everything.
#[tokio::test(start_paused = true)]
async fn what_has_expired_is_brought_back_by_nothing() {
    let mut cluster = cluster().await;
    cluster.put_many(1, COUNT).await;
    for index in 0..COUNT {
        if index == COUNT / 2 {
            cluster.kill(3);
        }
        cluster.put_in(1, "short", &name(index), "value").await;
    }
    assert!((1..=2).any(|number| cluster.hint_counts(number).0 > 0), "node 3 has missed something");
    cluster.clock.advance_us((TTL_SECS + 1) * 1_000_000);
    for index in 0..COUNT {
        cluster.lose_at(2, key_in("short", &name(index)));
    }
    assert_eq!(cluster.kept_count(2), COUNT as u64, "what never expires");
    cluster.start(3).await;
    cluster.pass(ROUND).await;
    for number in 1..=3 {
        for index in 0..COUNT {
            assert!(!is_shown(&cluster, number, key_in("short", &name(index))).await);
        }
        let bucket = BucketRef { bucket_type: b"short", bucket: b"bucket" };
        let mut listing = cluster.store(number).listings().list_keys(bucket).await.unwrap();
        while let Some(keys) = listing.next().await.unwrap() {
            assert!(keys.is_empty(), "{keys:?}");
        }
        assert_eq!(cluster.hint_counts(number), (0, 0));
    }
    cluster.add().await;
    cluster.join(4).await;
    cluster.commit(1).await;
    cluster.until_moved(4, COUNT).await;
    cluster.pass(ROUND).await;
    for number in [2, 4] {
        let lives = |index: &usize| cluster.primaries(1, &name(*index)).contains(&id(number));
        let living_count = (0..COUNT).filter(lives).count() as u64;
        assert_eq!(cluster.kept_count(number), living_count, "node {number}");
    }
    assert_eq!(repaired(&cluster), 0);
}

/// The object has expired by the clocks of some nodes only.
#[tokio::test(start_paused = true)]
async fn a_read_by_a_clock_that_is_behind_brings_nothing_back_elsewhere() {
    let cluster = cluster().await;
    let key = key_in("short", "key");
    cluster.put_in(1, "short", "key", "value").await;
    let expires_at_secs = cluster.stored(1, key).unwrap().expires_at_secs().unwrap();
    let now_us = cluster.clock.unix_us();
    cluster.clock.advance_us(u64::from(expires_at_secs) * 1_000_000 - 300_000 - now_us);
    cluster.lose_at(2, key);
    assert!(cluster.stored(1, key).is_some() && cluster.stored(3, key).is_none());
    let all = ReadOptions { r: Some(Quorum::All), ..ReadOptions::default() };
    assert!(cluster.store(1).get(key, &all).await.unwrap().is_some(), "by its own clock");
    cluster.pass(Duration::from_millis(200)).await;
    assert_eq!(cluster.kept_count(2), 0, "repaired by nobody");
}

/// Overwrites a value that never expires with one that does.
async fn overwrite(cluster: &TestCluster, key: KeyRef<'_>, expires_at_secs: u32) {
    let store = cluster.store(1);
    let read = store.get(key, &ReadOptions::default()).await.unwrap().expect("it is there");
    let meta = Metadata { expires_at_secs: Some(expires_at_secs), ..Metadata::default() };
    let put =
        PutRequest { context: read.clock, meta, ..PutRequest::of(key, Bytes::from_static(b"new")) };
    store.put(put).await.unwrap();
}

/// One node was away while values were replaced by others that have expired since.
#[tokio::test(start_paused = true)]
async fn what_an_expired_value_has_replaced_does_not_come_back() {
    let mut cluster = cluster().await;
    cluster.create_type("mixed", json!({"allow_mult": true})).await;
    let keys: Vec<String> = (0..COUNT).map(name).collect();
    for key in &keys {
        cluster.put_in(1, "mixed", key, "old").await;
    }
    cluster.kill(3);
    let expires_at_secs = (cluster.clock.unix_secs() + TTL_SECS) as u32;
    for key in &keys {
        overwrite(&cluster, key_in("mixed", key), expires_at_secs).await;
    }
    cluster.clock.advance_us((TTL_SECS + 1) * 1_000_000);
    for key in &keys {
        assert!(!is_shown(&cluster, 1, key_in("mixed", key)).await);
    }
    cluster.start(3).await;
    cluster.pass(ROUND).await;
    for number in 1..=3 {
        for key in &keys {
            let key = key_in("mixed", key);
            assert!(!is_shown(&cluster, number, key).await);
            let stored = cluster.stored(number, key);
            assert!(stored.is_none_or(|object| object.is_tombstone()), "node {number}");
        }
    }
    // A write without a context stays beside the expired one.
    let key = key_in("mixed", &keys[0]);
    cluster.put_in(2, "mixed", &keys[0], "again").await;
    for number in 1..=3 {
        let found = cluster.store(number).get(key, &ReadOptions::default()).await.unwrap();
        let found = found.expect("it was written again");
        assert_eq!(found.siblings.len(), 1, "node {number}: {found:?}");
    }
    // These tombstones are reaped like those of deletes.
    cluster.pass(Duration::from_secs(1_500)).await;
    for number in 1..=3 {
        assert_eq!(cluster.kept_count(number), 1, "node {number} keeps what was written again");
    }
}
