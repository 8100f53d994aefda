//! Tests of data types that expire.

use crate::data_types::add;
use crate::fixture::{TestCluster, key_in};
use bytes::Bytes;
use quoit_core::{Counter, ReadOptions, TransferLimits};
use quoit_model::data_type::Value;
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use serde_json::json;
use std::time::Duration;

const COUNT: usize = 20;
const TTL_SECS: u64 = 20_000;
/// Time in which every node has compared its copies with every other node.
const ROUND: Duration = Duration::from_secs(100);

fn names() -> Vec<String> {
    (0..COUNT).map(|index| format!("key {index}")).collect()
}

/// Three nodes whose clocks are 200 ms apart, with a bucket type of sets.
async fn cluster(props: serde_json::Value) -> TestCluster {
    let cluster = TestCluster::joined_with_skew(3, 200_000).await;
    cluster.create_type("sets", props).await;
    cluster
}

fn advance(cluster: &TestCluster, seconds: u64) {
    cluster.clock.advance_us(seconds * 1_000_000);
}

async fn add_one(
    cluster: &TestCluster,
    number: u8,
    key: KeyRef<'_>,
    element: &'static str,
    w: Quorum,
) {
    add(cluster, number, key, vec![Bytes::from_static(element.as_bytes())], w).await;
}

/// Elements of a set that a node shows, sorted.
async fn elements(cluster: &TestCluster, number: u8, key: KeyRef<'_>) -> Vec<Bytes> {
    let found = cluster.store(number).fetch_data_type(key, &ReadOptions::default()).await.unwrap();
    match found.map(|found| found.value) {
        None => Vec::new(),
        Some(Value::Set(mut elements)) => {
            elements.sort_unstable();
            elements
        }
        Some(other) => panic!("{other:?}"),
    }
}

/// One node has missed the last addition, and one has reclaimed the space of the expired records.
#[tokio::test(start_paused = true)]
async fn an_expired_set_is_brought_back_by_no_older_copy() {
    let mut cluster = cluster(json!({"datatype": "set", "ttl": TTL_SECS})).await;
    let names = names();
    for name in &names {
        add_one(&cluster, 1, key_in("sets", name), "old", Quorum::All).await;
    }
    cluster.kill(3);
    for name in &names {
        add_one(&cluster, 1, key_in("sets", name), "late", Quorum::Count(2)).await;
    }
    assert!((1..=2).any(|number| cluster.hint_counts(number).0 > 0), "node 3 has missed something");
    advance(&cluster, TTL_SECS + 1);
    for name in &names {
        cluster.lose_at(2, key_in("sets", name));
    }
    cluster.start(3).await;
    cluster.pass(ROUND).await;
    for number in 1..=3 {
        for name in &names {
            let found = elements(&cluster, number, key_in("sets", name)).await;
            assert!(found.is_empty(), "{name} at node {number}: {found:?}");
        }
        let repaired =
            cluster.store(number).stats().snapshot().total(Counter::ExchangeKeysRepaired);
        assert_eq!((cluster.hint_counts(number), repaired), ((0, 0), 0));
    }
    let key = key_in("sets", &names[0]);
    add_one(&cluster, 3, key, "new", Quorum::All).await;
    for number in 1..=3 {
        assert_eq!(elements(&cluster, number, key).await, ["new"], "node {number}");
    }
}

/// If an expired set left a tombstone under its clock, as an object does, the new addition at the node
/// that was away would claim to have removed what the set had before. But nobody has removed it, and
/// on the other nodes the set has not expired.
#[tokio::test(start_paused = true)]
async fn a_set_that_has_expired_on_a_node_which_missed_its_last_use_loses_nothing_elsewhere() {
    let mut cluster = cluster(json!({"datatype": "set", "ttl": TTL_SECS})).await;
    let names = names();
    for name in &names {
        add_one(&cluster, 1, key_in("sets", name), "old", Quorum::All).await;
    }
    cluster.kill(3);
    advance(&cluster, TTL_SECS / 2);
    for name in &names {
        add_one(&cluster, 1, key_in("sets", name), "late", Quorum::Count(2)).await;
    }
    advance(&cluster, TTL_SECS / 2 + 1);
    // The node must not learn by hints what it has missed before it takes a write.
    for number in [1, 2] {
        let limits = TransferLimits { outbound: false, ..TransferLimits::default() };
        cluster.store(number).transfers().set_limits(limits);
    }
    cluster.start(3).await;
    for name in &names {
        let key = key_in("sets", name);
        let stored = cluster.stored(3, key);
        assert!(stored.is_none_or(|object| object.is_tombstone()), "its copy has expired");
        add_one(&cluster, 3, key, "new", Quorum::One).await;
    }
    cluster.set_limits(TransferLimits::default());
    cluster.pass(ROUND).await;
    for number in 1..=3 {
        for name in &names {
            let found = elements(&cluster, number, key_in("sets", name)).await;
            assert_eq!(found, ["late", "new", "old"], "{name} at node {number}");
        }
    }
}

/// A known limit: an older copy that lives longer than the newer one comes back, since nothing stays of a
/// data type that has expired.
#[tokio::test(start_paused = true)]
async fn a_set_from_before_its_bucket_had_a_ttl_comes_back_from_a_node_that_was_away() {
    let mut cluster = cluster(json!({"datatype": "set"})).await;
    let key = key_in("sets", "key");
    add_one(&cluster, 1, key, "old", Quorum::All).await;
    cluster.kill(3);
    cluster.update_type("sets", json!({"ttl": TTL_SECS})).await;
    add_one(&cluster, 1, key, "late", Quorum::Count(2)).await;
    advance(&cluster, TTL_SECS + 1);
    assert!(elements(&cluster, 1, key).await.is_empty());
    cluster.start(3).await;
    cluster.pass(ROUND).await;
    for number in 1..=3 {
        assert_eq!(elements(&cluster, number, key).await, ["old"], "node {number}");
    }
}
