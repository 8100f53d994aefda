//! Tests of nodes that serve as many requests as their limits allow.

use crate::cluster::fixture::{Cluster, Node, key, put_of};
use quoit_core::{Counter, Limits, PutRequest, StoreSettings, WriteOptions};
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use std::sync::Arc;

fn primaries(cluster: &Cluster, at: KeyRef<'_>) -> Vec<String> {
    let places = cluster.nodes[0].store.preflist(at).unwrap();
    places.into_iter().map(|place| place.node).collect()
}

/// A key that has all of these nodes as primaries.
fn key_at(cluster: &Cluster, nodes: &[&Node]) -> KeyRef<'static> {
    let names: Vec<_> = nodes.iter().map(|node| node.name()).collect();
    let is_there = |at: &KeyRef<'_>| {
        let primaries = primaries(cluster, *at);
        names.iter().all(|name| primaries.contains(name))
    };
    let keys = (0..1000).map(|number| -> &'static str { Box::leak(format!("k{number}").into()) });
    keys.map(|name| key("default", name)).find(is_there).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_write_that_one_replica_has_no_room_for_is_coordinated_by_another() {
    let limits = Limits { concurrent_request_count_max: 1, ..Limits::default() };
    let settings = StoreSettings { limits, ..StoreSettings::default() };
    let cluster = Cluster::with(5, settings).await;
    let at = key("default", "k");
    let primaries = primaries(&cluster, at);
    let (replicas, others): (Vec<&Node>, Vec<&Node>) =
        cluster.nodes.iter().partition(|node| primaries.contains(&node.name()));
    let (busy, silent, asked) = (&replicas[..2], others[0], others[1]);
    let silent_number = cluster.nodes.iter().position(|node| node.name() == silent.name());
    cluster.cut_off(silent_number.unwrap());
    // Each of these puts waits for the silent node until that node counts as down.
    let all = WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() };
    for node in busy {
        let put = PutRequest { options: all, ..put_of(key_at(&cluster, &[node, silent]), "v") };
        let store = Arc::clone(&node.store);
        tokio::spawn(async move { store.put(put).await });
    }
    while busy.iter().any(|node| node.store.active().puts == 0) {
        tokio::task::yield_now().await;
    }
    for _ in 0..3 {
        asked.store.put(put_of(at, "v")).await.unwrap();
    }
    let rejected = |node: &&Node| node.store.stats().snapshot().total(Counter::PutsRejected);
    assert!(busy.iter().map(rejected).sum::<u64>() > 0, "a busy one was asked first");
    assert!(busy.iter().all(|node| node.store.active().puts == 1), "they were busy all the time");
}
