//! Tests of tombstones of several nodes.

use crate::cluster::fixture::{Cluster, Node, key, r, values};
use bytes::Bytes;
use quoit_core::{
    Arrival, BatchBounds, DeleteMode, DeleteRequest, QueueWait, QueuedValue, StoreSettings,
};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_model::props::Quorum;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

fn background(cluster: &Cluster) -> Vec<JoinHandle<()>> {
    let stores = cluster.nodes.iter().map(|node| Arc::clone(&node.store));
    stores.map(|store| tokio::spawn(store.run_background())).collect()
}

fn after_3_s() -> StoreSettings {
    StoreSettings { delete_mode: DeleteMode::AfterMs(3_000), ..StoreSettings::default() }
}

fn key_count(cluster: &Cluster) -> u64 {
    cluster.nodes.iter().map(|node| node.store.engine().stats().key_count).sum()
}

#[tokio::test(start_paused = true)]
async fn a_tombstone_goes_everywhere_when_all_primaries_have_it() {
    let cluster = Cluster::with(4, after_3_s()).await;
    let tasks = background(&cluster);
    let at = key("default", "k");
    cluster.nodes[0].put(at, "v").await;
    cluster.nodes[1].store.delete(DeleteRequest::of(at)).await.unwrap();
    assert!(key_count(&cluster) >= 2, "the tombstones");
    cluster.clock.advance_us(4_000_000);
    cluster.until(|| key_count(&cluster) == 0).await;
    tasks.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_tombstone_stays_while_a_primary_is_away_and_the_delete_holds() {
    let cluster = Cluster::with(3, after_3_s()).await;
    let tasks = background(&cluster);
    let at = key("default", "k");
    cluster.nodes[0].put(at, "v").await;
    assert_eq!(values(cluster.nodes[2].read(at, r(3)).await.unwrap()), ["v"]);
    cluster.cut_off(2);
    cluster.until(|| cluster.nodes[0].up_count() == 2).await;
    cluster.network.reset("n2", "n0");
    cluster.network.reset("n2", "n1");
    cluster.nodes[0].store.delete(DeleteRequest::of(at)).await.unwrap();
    cluster.clock.advance_us(60_000_000);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(key_count(&cluster), 3, "two tombstones and what the third node still has");
    cluster.reconnect(2);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    for node in &cluster.nodes {
        assert!(values(node.read(at, r(3)).await.unwrap()).is_empty(), "it came back");
    }
    cluster.clock.advance_us(60_000_000);
    cluster.until(|| key_count(&cluster) == 0).await;
    tasks.iter().for_each(JoinHandle::abort);
}

/// An object that has been written, deleted and reaped.
async fn written_and_reaped(cluster: &Cluster, at: KeyRef<'static>) -> Object {
    cluster.nodes[0].put(at, "v").await;
    let object = cluster.nodes[0].read(at, r(3)).await.unwrap().expect("the object");
    cluster.nodes[1].store.delete(DeleteRequest::of(at)).await.unwrap();
    cluster.clock.advance_us(4_000_000);
    cluster.until(|| key_count(cluster) == 0).await;
    object
}

/// Stores an object of another cluster at a node, which has to sync it on a majority of replicas.
async fn arrives(cluster: &Cluster, at: KeyRef<'static>, object: &Object) {
    let (name, dw) = (Bytes::from(at.encoded().to_vec()), Quorum::Quorum);
    let arrival = Arrival { visited: None, may_be_redelivery: false, dw };
    for node in &cluster.nodes {
        node.store
            .replication()
            .store_arrived(&name, object, &arrival)
            .await
            .expect("it need not be stored");
    }
}

#[tokio::test(start_paused = true)]
async fn another_cluster_is_told_that_what_was_reaped_has_arrived() {
    let cluster = Cluster::with(3, after_3_s()).await;
    let tasks = background(&cluster);
    let at = key("default", "k");
    let object = written_and_reaped(&cluster, at).await;
    arrives(&cluster, at, &object).await;
    assert_eq!(key_count(&cluster), 0, "a reap record covers it");
    tasks.iter().for_each(JoinHandle::abort);
}

/// Takes the values that a node's queue has for another cluster, and confirms them.
async fn taken(node: &Node) -> Vec<QueuedValue> {
    let bounds = BatchBounds { count_max: 10, bytes_max: 1 << 20, sink: None, takes_deltas: false };
    let (queues, patience) = (node.store.source_queues(), QueueWait::UpTo(Duration::ZERO));
    let lease = queues.lease();
    let entries =
        node.store.replication().take_queued("out", &lease, bounds, patience).await.unwrap();
    let sequences: Vec<_> = entries.iter().map(|entry| entry.sequence).collect();
    queues.confirm("out", &lease, &sequences);
    entries.into_iter().map(|entry| entry.value).collect()
}

/// The other cluster has lost the delete, and a comparison of the clusters finds nothing to send here.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_sends_what_was_deleted_and_reaped_here_is_sent_the_tombstone() {
    let cluster = Cluster::of_sources(3, after_3_s()).await;
    let tasks = background(&cluster);
    let at = key("default", "k");
    let object = written_and_reaped(&cluster, at).await;
    for node in &cluster.nodes {
        taken(node).await;
    }
    arrives(&cluster, at, &object).await;
    let mut sent = None;
    for node in &cluster.nodes {
        match &taken(node).await[..] {
            [QueuedValue::Tombstone(stored)] => sent = Some(stored.clone()),
            other => panic!("each node has kept it out: {other:?}"),
        }
    }
    // The tombstone has no effect when it comes back.
    let tombstone = Object::decode(&sent.expect("there are nodes")).unwrap();
    arrives(&cluster, at, &tombstone).await;
    for node in &cluster.nodes {
        let again = taken(node).await;
        assert!(
            again.is_empty(),
            "the two clusters would send it to each other for ever: {again:?}"
        );
    }
    tasks.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn another_cluster_is_told_that_what_has_expired_has_arrived() {
    let cluster = Cluster::of(3).await;
    cluster.create_type("short", json!({"ttl": 10})).await;
    let at = key("short", "k");
    cluster.nodes[0].put(at, "v").await;
    let object = cluster.nodes[0].read(at, r(3)).await.unwrap().expect("the object");
    // As if the record had never been stored here.
    let other = key("short", "other");
    cluster.clock.advance_us(11_000_000);
    arrives(&cluster, other, &object).await;
    assert!(cluster.nodes[0].values(other).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn reap_records_wait_until_the_sink_of_the_member_that_deleted_knows() {
    // One of the four nodes is no replica, and may be the coordinator of the delete.
    for deleter in 0..4 {
        let cluster = Cluster::of_sources(4, after_3_s()).await;
        let tasks = background(&cluster);
        let at = key("default", "k");
        cluster.nodes[0].put(at, "v").await;
        cluster.nodes[deleter].store.delete(DeleteRequest::of(at)).await.unwrap();
        cluster.clock.advance_us(4_000_000);
        cluster.until(|| key_count(&cluster) == 0).await;
        let records = || -> usize {
            cluster.nodes.iter().map(|node| node.store.reap_record_stats().count).sum()
        };
        let bounds =
            BatchBounds { count_max: 10, bytes_max: 1 << 20, sink: None, takes_deltas: false };
        let patience = QueueWait::UpTo(Duration::ZERO);
        let mut unconfirmed = Vec::new();
        for node in &cluster.nodes {
            let queues = node.store.source_queues();
            let lease = queues.lease();
            for queued in
                node.store.replication().take_queued("out", &lease, bounds, patience).await.unwrap()
            {
                match queued.value {
                    QueuedValue::Tombstone(_) => unconfirmed.push((node, queued.sequence)),
                    _ => queues.confirm("out", &lease, &[queued.sequence]),
                }
            }
            if let Some((_, sequence)) = unconfirmed.pop() {
                sleep(Duration::from_secs(600)).await;
                assert!(records() > 0, "another cluster may send the value yet");
                queues.confirm("out", &lease, &[sequence]);
            }
        }
        sleep(Duration::from_secs(600)).await;
        assert_eq!(records(), 0);
        tasks.iter().for_each(JoinHandle::abort);
    }
}
