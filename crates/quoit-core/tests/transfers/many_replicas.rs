//! Tests of buckets with more replicas than the index has classes. Records with 15 replicas or more are in
//! one class. So on 16 nodes that class does not tell whether the last node is a primary of a record.

use crate::fixture::{TestCluster, id, key_in};
use quoit_cluster::{Lane, NodeId};
use quoit_model::key::KeyRef;
use quoit_store::engine::RecordMeta;
use quoit_wire::internode::data::{METHOD_STORE, Store};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

const NODE_COUNT: u8 = 16;
const COUNT: usize = 10;

fn name(index: usize) -> String {
    format!("key {index}")
}

fn suspected_count(cluster: &TestCluster, number: u8) -> u64 {
    cluster.store(number).transfers().stats().stray_partition_count
}

fn is_settled(cluster: &TestCluster) -> bool {
    cluster.running().into_iter().all(|number| suspected_count(cluster, number) == 0)
}

/// Sixteen nodes, on which no partition is suspected any more, with a bucket type of 20 replicas.
async fn settled_cluster() -> TestCluster {
    let cluster = TestCluster::joined(NODE_COUNT).await;
    cluster.create_type("wide", json!({"n_val": 20, "allow_mult": false})).await;
    cluster.until("no partition is suspected after the start", || is_settled(&cluster)).await;
    cluster
}

fn reap_record_count(cluster: &TestCluster) -> usize {
    let of = |number| cluster.store(number).reap_record_stats().count;
    cluster.running().into_iter().map(of).sum()
}

/// The members report twice, two minutes apart, while records of the same partitions are written.
#[tokio::test(start_paused = true)]
async fn writes_of_a_bucket_with_more_replicas_than_classes_hold_up_no_reap_records() {
    let cluster = settled_cluster().await;
    for index in 0..2 * COUNT {
        let name = name(index);
        cluster.put_in(1, "wide", &name, "value").await;
        let holders = cluster.holders_of(key_in("wide", &name));
        assert_eq!(holders.len(), usize::from(NODE_COUNT));
    }
    let (deleted, written): (Vec<_>, Vec<_>) = (0..2 * COUNT).partition(|index| *index < COUNT);
    let partitions_of = |indexes: &[usize]| -> BTreeSet<_> {
        indexes.iter().map(|index| cluster.partition_of(key_in("wide", &name(*index)))).collect()
    };
    assert!(!partitions_of(&deleted).is_disjoint(&partitions_of(&written)));
    for index in &deleted {
        cluster.delete_at(1, key_in("wide", &name(*index))).await;
    }
    let is_gone = |index: &usize| cluster.holders_of(key_in("wide", &name(*index))).is_empty();
    let write = async |round: usize| {
        let number = 1 + (round % usize::from(NODE_COUNT)) as u8;
        let index = written[round % written.len()];
        cluster.put_in(number, "wide", &name(index), "again").await;
        assert!(is_settled(&cluster), "a primary of the record counts as a fallback");
        cluster.pass(Duration::from_secs(5)).await;
    };
    for round in 0..4 {
        write(round).await;
    }
    assert!(deleted.iter().all(is_gone), "the deletes are reaped");
    assert!(reap_record_count(&cluster) > 0);
    for round in 4..80 {
        write(round).await;
    }
    assert_eq!(reap_record_count(&cluster), 0);
}

/// Sends a copy of a record to a node, as one that does not know yet that the n_val was lowered.
async fn send_copy(cluster: &TestCluster, from: u8, to: u8, key: KeyRef<'_>) {
    let copy = cluster.record(from, key).expect("the sender has a copy");
    let store = Store {
        key: key.encoded().to_vec().into(),
        partition: u32::from(cluster.partition_of(key).0),
        layout_version: cluster.control(from).read().layouts().newest().version(),
        digest: copy.meta.digest,
        n_val_class: u32::from(RecordMeta::class_of(20)),
        ..Store::default()
    };
    let peer = cluster.internode(from).peer(id(to)).expect("they know each other");
    let second = Duration::from_secs(1);
    peer.call(METHOD_STORE, &store, &copy.value, Lane::Small, second).await.unwrap();
}

/// The class of the records stays the same.
#[tokio::test(start_paused = true)]
async fn a_write_to_a_former_primary_of_a_bucket_with_fewer_replicas_is_a_stray() {
    let mut cluster = settled_cluster().await;
    let key = key_in("wide", "key");
    cluster.put_in(1, "wide", "key", "value").await;
    cluster.update_type("wide", json!({"n_val": 15})).await;
    let primaries = cluster.primaries_of(1, key, 15);
    assert_eq!(RecordMeta::class_of(15), RecordMeta::class_of(20));
    let all: BTreeSet<NodeId> = (1..=NODE_COUNT).map(id).collect();
    let former = (&all - &primaries).first().expect("one of 16 is no primary").0[0];
    let is_handed = || cluster.holders_of(key) == primaries && is_settled(&cluster);
    cluster.until("the former primary keeps nothing", is_handed).await;
    // As long as a primary is away, the stray can't be handed over.
    let [away, sender] = [0, 1].map(|index| {
        let mut others = primaries.iter().filter(|node| **node != id(1));
        others.nth(index).expect("there are 15").0[0]
    });
    cluster.kill(away);
    cluster.until("the death is seen", || !cluster.control(former).is_reachable(id(away))).await;
    send_copy(&cluster, sender, former, key).await;
    assert_eq!(suspected_count(&cluster, former), 1);
    assert_eq!(suspected_count(&cluster, sender), 0);
    cluster.start(away).await;
    let is_handed = || cluster.holders_of(key) == primaries && is_settled(&cluster);
    cluster.until("the stray is handed over", is_handed).await;
}
