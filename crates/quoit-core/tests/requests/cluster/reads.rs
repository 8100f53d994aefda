//! Tests of reads that find stale replicas.

use crate::cluster::fixture::{Cluster, key, put_of, r, values};
use quoit_core::{Confirmation, Counter, PutRequest, ReadInPlace, ReadOptions, WriteOptions};
use quoit_model::props::Quorum;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

fn w(count: u32) -> WriteOptions {
    WriteOptions {
        w: Some(Quorum::Count(count)),
        dw: Some(Quorum::Count(0)),
        ..WriteOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_repairs_a_replica_that_missed_a_write() {
    let cluster = Cluster::of(3).await;
    let at = key("default", "k");
    cluster.cut_off(2);
    cluster.until(|| cluster.nodes[0].up_count() == 2).await;
    cluster.nodes[0].put(at, "missed").await;
    cluster.reconnect(2);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    let held = || cluster.nodes[2].store.engine().stats().key_count;
    // The silenced write arrives after the silence, or the read repairs the copy.
    assert_eq!(values(cluster.nodes[2].read(at, r(3)).await.unwrap()), ["missed"]);
    cluster.until(|| held() == 1).await;
    assert_eq!(values(cluster.nodes[2].read(at, r(1)).await.unwrap()), ["missed"]);
}

#[tokio::test(start_paused = true)]
async fn writes_on_both_sides_of_a_cut_become_siblings() {
    let cluster = Cluster::of(3).await;
    cluster.create_type("sibs", json!({"allow_mult": true})).await;
    let at = key("sibs", "k");
    cluster.nodes[0].put(at, "before").await;
    let before = cluster.nodes[0].read(at, r(3)).await.unwrap().unwrap();
    cluster.cut_off(2);
    cluster.until(|| cluster.nodes[0].up_count() == 2 && cluster.nodes[2].up_count() == 1).await;
    for (node, value) in [(0, "one side"), (2, "other side")] {
        let put = PutRequest { context: before.clock.clone(), options: w(2), ..put_of(at, value) };
        cluster.nodes[node].store.put(put).await.unwrap();
    }
    cluster.reconnect(2);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    for node in &cluster.nodes {
        assert_eq!(values(node.read(at, r(3)).await.unwrap()), ["one side", "other side"]);
    }
}

#[tokio::test(start_paused = true)]
async fn equal_copies_are_not_repaired() {
    let cluster = Cluster::of(3).await;
    let at = key("default", "k");
    let put = PutRequest { options: w(3), ..put_of(at, "same") };
    cluster.nodes[0].store.put(put).await.unwrap();
    for node in &cluster.nodes {
        assert_eq!(values(node.read(at, r(3)).await.unwrap()), ["same"]);
        assert_eq!(node.store.stats().snapshot().total(Counter::ReadRepairs), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_replica_delays_a_read_by_less_than_its_suspicion_takes() {
    let cluster = Cluster::of(4).await;
    let at = key("default", "k");
    let put = PutRequest { options: w(3), ..put_of(at, "v") };
    cluster.nodes[0].store.put(put).await.unwrap();
    for silent in 0..4 {
        for _ in 0..20 {
            cluster.nodes[(silent + 1) % 4].read(at, r(2)).await.unwrap();
        }
        cluster.cut_off(silent);
        let asked = Instant::now();
        for reader in (0..4).filter(|reader| *reader != silent) {
            assert_eq!(values(cluster.nodes[reader].read(at, r(2)).await.unwrap()), ["v"]);
        }
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        cluster.reconnect(silent);
        cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 4)).await;
        sleep(Duration::from_secs(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_miss_is_no_answer_where_it_is_not_ok() {
    let cluster = Cluster::of(3).await;
    let at = key("default", "k");
    let strict = ReadOptions { notfound_ok: Some(false), ..r(1) };
    assert_eq!(cluster.nodes[0].read(at, strict).await.unwrap(), None);
    // Only one replica has the record. The other two would answer first that they have nothing.
    let put = PutRequest { options: w(1), ..put_of(at, "v") };
    cluster.cut_off(0);
    cluster.until(|| cluster.nodes[0].up_count() == 1).await;
    cluster.nodes[0].store.put(put).await.unwrap();
    cluster.reconnect(0);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    assert_eq!(values(cluster.nodes[1].read(at, strict).await.unwrap()), ["v"]);
}

#[tokio::test(start_paused = true)]
async fn a_read_in_place_whose_replicas_differ_goes_on_with_their_answers() {
    let cluster = Cluster::of(3).await;
    let at = key("default", "k");
    cluster.cut_off(0);
    cluster.until(|| cluster.nodes[0].up_count() == 1).await;
    cluster.nodes[0].store.put(PutRequest { options: w(1), ..put_of(at, "v") }).await.unwrap();
    cluster.reconnect(0);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    let asked = || {
        let asked = cluster.nodes.iter().map(|node| node.store.stats().snapshot());
        asked.map(|figures| figures.total(Counter::ReplicaGets)).collect::<Vec<_>>()
    };
    let read_in_place = async |node: usize| {
        let store = &cluster.nodes[node].store;
        let shown = store.get_in_place(at, &r(3), |found| found.is_some()).unwrap();
        let Some(ReadInPlace::IfConfirmed(is_found, unconfirmed)) = shown else {
            panic!("the other replicas have to confirm it: {shown:?}");
        };
        (is_found, store.confirm_read(unconfirmed).await.unwrap())
    };
    let found = |confirmation: Confirmation| match confirmation {
        Confirmation::Other(object) => values(object.map(|object| *object)),
        Confirmation::Same => panic!("the others have something else"),
    };

    let before = asked();
    // Only node 0 has the record, so node 1 fetches its copy.
    let (was_found, confirmation) = read_in_place(1).await;
    assert!(!was_found);
    assert_eq!(found(confirmation), ["v"]);
    let after: Vec<_> = asked().iter().zip(&before).map(|(now, before)| now - before).collect();
    assert_eq!(after.iter().sum::<u64>(), 3, "two digests and one object, none twice: {after:?}");
    assert_eq!(after[1], 0);
    let repaired = || cluster.nodes[1].store.stats().snapshot().total(Counter::ReadRepairs) == 2;
    cluster.until(repaired).await;

    let before = asked();
    let (was_found, confirmation) = read_in_place(1).await;
    assert!(was_found && confirmation == Confirmation::Same, "{confirmation:?}");
    let after: Vec<_> = asked().iter().zip(&before).map(|(now, before)| now - before).collect();
    assert_eq!(after, [1, 0, 1]);
}
