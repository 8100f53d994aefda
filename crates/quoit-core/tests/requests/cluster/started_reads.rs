//! Tests of reads that have to wait: they continue with all answers that they already have. No replica is
//! asked again for the same data, and this node's copy is read from the disk once.

use crate::cluster::data_types::{
    Streamed, add_all, cut_off_first, fetch_all, numbered, one_copy, sorted, update,
};
use crate::cluster::fixture::{Cluster, key, put_of, r, values};
use crate::slow_disk::{ReadCounts, SlowDisk};
use quoit_core::{
    Counter, DataTypeRequest, PutRequest, ReadInPlace, ReadOptions, StartedRead, StreamOutcome,
    WriteOptions,
};
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use serde_json::json;
use std::sync::Arc;

const AT: KeyRef<'static> = key("default", "k");

/// A write that this many replicas have to accept, and none has to sync.
fn w(count: u32) -> WriteOptions {
    let dw = Some(Quorum::Count(0));
    WriteOptions { w: Some(Quorum::Count(count)), dw, ..WriteOptions::default() }
}

fn asked_counts(cluster: &Cluster) -> Vec<u64> {
    cluster.nodes.iter().map(|node| node.asked_count()).collect()
}

/// Numbers of requests that each node has received since `before`.
fn asked_since(cluster: &Cluster, before: &[u64]) -> Vec<u64> {
    let now = asked_counts(cluster).into_iter();
    now.zip(before).map(|(now, before)| now - before).collect()
}

fn disks(count: u64) -> Vec<Arc<SlowDisk>> {
    (1..=count).map(SlowDisk::new).collect()
}

/// Begins a read in place that has to wait for the disk.
fn start(cluster: &Cluster, node: usize, options: ReadOptions) -> StartedRead {
    let shown = cluster.nodes[node].store.get_in_place(AT, &options, |_| ()).unwrap();
    let Some(ReadInPlace::Started(started)) = shown else {
        panic!("the copy is not in memory: {shown:?}")
    };
    *started
}

#[tokio::test(start_paused = true)]
async fn a_cold_read_asks_each_replica_once_and_reads_the_disk_once() {
    let disks = disks(3);
    let cluster = Cluster::on_disks(&disks).await;
    let put = PutRequest { options: w(3), ..put_of(AT, "v") };
    cluster.nodes[0].store.put(put).await.unwrap();
    disks[1].make_cold();
    for (quorum, asked) in [(3, [1, 0, 1]), (1, [0, 0, 0])] {
        let (before, read_before) = (asked_counts(&cluster), disks[1].watch.reads());
        let started = start(&cluster, 1, r(quorum));
        let found = cluster.nodes[1].store.finish_get(started).await.unwrap();
        assert_eq!(values(found), ["v"]);
        assert_eq!(asked_since(&cluster, &before), asked, "r={quorum}");
        let ReadCounts { attempts, waiting } = disks[1].watch.reads();
        let reads = (attempts - read_before.attempts, waiting - read_before.waiting);
        assert_eq!(reads, (1, 1), "one attempt without waiting, and one read, with r={quorum}");
    }
    let snapshot = cluster.nodes[1].store.stats().snapshot();
    assert_eq!(snapshot.total(Counter::Gets), 2, "each read counts once");
    assert_eq!(snapshot.total(Counter::ReadRepairs), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cold_read_whose_replicas_differ_fetches_only_the_version_that_it_lacks() {
    let disks = disks(3);
    let cluster = Cluster::on_disks(&disks).await;
    let put = PutRequest { options: w(3), ..put_of(AT, "old") };
    cluster.nodes[0].store.put(put).await.unwrap();
    let context = cluster.nodes[0].read(AT, r(1)).await.unwrap().unwrap().clock;
    cut_off_first(&cluster).await;
    let put = PutRequest { options: w(1), context, ..put_of(AT, "new") };
    cluster.nodes[0].store.put(put).await.unwrap();
    cluster.reconnect(0);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    disks[1].make_cold();
    let before = asked_counts(&cluster);
    let started = start(&cluster, 1, r(3));
    let found = cluster.nodes[1].store.finish_get(started).await.unwrap();
    assert_eq!(values(found), ["new"]);
    assert_eq!(asked_since(&cluster, &before), [2, 0, 1], "two digests and one object");
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_vote_asks_nobody_in_place() {
    let cluster = Cluster::of(5).await;
    cluster.nodes[0].put(AT, "v").await;
    let places = cluster.nodes[0].store.preflist(AT).unwrap();
    let before = asked_counts(&cluster);
    let mut declined_count = 0;
    for node in &cluster.nodes {
        if places.iter().all(|place| place.node != node.name()) {
            let shown = node.store.get_in_place(AT, &r(2), |_| ()).unwrap();
            assert!(shown.is_none(), "{shown:?}");
            declined_count += 1;
        }
    }
    assert_eq!(declined_count, 2);
    // A request that was under way would have arrived before this read has its answers.
    cluster.nodes[0].read(AT, r(3)).await.unwrap();
    let asked: u64 = asked_since(&cluster, &before).iter().sum();
    assert!(asked <= 3, "only the general read has asked replicas: {asked}");
}

#[tokio::test(start_paused = true)]
async fn a_small_set_is_read_once_although_it_can_not_be_streamed() {
    let disks = disks(3);
    let cluster = Cluster::on_disks(&disks).await;
    cluster.create_type("set", json!({"datatype": "set", "allow_mult": true})).await;
    let at = key("set", "k");
    let first = DataTypeRequest { options: w(3), ..one_copy(at, add_all(numbered(0..3))) };
    update(&cluster.nodes[0], first).await;
    disks[1].make_cold();
    let (before, read_before) = (asked_counts(&cluster), disks[1].watch.reads());
    let store = &cluster.nodes[1].store;
    let outcome = store.stream_items(at, &r(3), &mut Streamed::default()).await.unwrap();
    let StreamOutcome::Started(started) = outcome else { panic!("{outcome:?}") };
    let found = store.finish_fetch(*started).await.unwrap();
    assert_eq!(sorted(found), numbered(0..3));
    assert_eq!(asked_since(&cluster, &before), [1, 0, 1]);
    let reads = disks[1].watch.reads();
    assert_eq!(reads.waiting - read_before.waiting, 1, "{reads:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_replicas_differ_continues_with_their_digests() {
    let cluster = Cluster::of(3).await;
    cluster.create_type("set", json!({"datatype": "set", "allow_mult": true})).await;
    let at = key("set", "k");
    let first = DataTypeRequest { options: w(3), ..one_copy(at, add_all(numbered(0..2_000))) };
    update(&cluster.nodes[0], first).await;
    cut_off_first(&cluster).await;
    update(&cluster.nodes[0], one_copy(at, add_all(vec!["left".into()]))).await;
    cluster.reconnect(0);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    let mut expected = numbered(0..2_000);
    expected.push("left".into());
    expected.sort_unstable();
    let before = asked_counts(&cluster);
    let store = &cluster.nodes[1].store;
    let outcome = store.stream_items(at, &r(3), &mut Streamed::default()).await.unwrap();
    let StreamOutcome::Started(started) = outcome else { panic!("the copies differ: {outcome:?}") };
    let found = store.finish_fetch(*started).await.unwrap();
    assert_eq!(sorted(found), expected);
    assert_eq!(asked_since(&cluster, &before), [1, 0, 1], "each replica is asked for one digest");
    // The read has repaired all copies, so the next one is streamed.
    let before = asked_counts(&cluster);
    let mut sink = Streamed::default();
    let outcome = store.stream_items(at, &r(3), &mut sink).await.unwrap();
    assert!(matches!(outcome, StreamOutcome::Complete), "{outcome:?}");
    assert_eq!(asked_since(&cluster, &before), [1, 0, 1]);
    sink.elements.sort_unstable();
    assert_eq!(sink.elements, expected);
    assert_eq!(sorted(fetch_all(&cluster.nodes[2], at).await), expected);
}
