//! Tests of requests while nodes are down.

use crate::cluster::fixture::{Cluster, host, key, put_of, r, values};
use quoit_core::{
    DeleteOutcome, DeleteRequest, Precondition, PutRequest, QuorumKind, ReadOptions, RequestError,
    WriteOptions,
};
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use serde_json::json;
use std::time::Duration;

const ALL: Option<Quorum> = Some(Quorum::All);

#[tokio::test(start_paused = true)]
async fn with_two_of_three_nodes_down_requests_go_on_and_strict_ones_fail_at_once() {
    let mut cluster = Cluster::of(3).await;
    let at = key("default", "k");
    cluster.nodes[0].put(at, "three up").await;
    cluster.kill(2).await;
    cluster.nodes[1].put(at, "two up").await;
    assert_eq!(cluster.nodes[0].values(at).await, ["two up"]);
    cluster.kill(1).await;
    let last = &cluster.nodes[0];
    last.put(at, "one up").await;
    assert_eq!(last.values(at).await, ["one up"]);

    let asked = tokio::time::Instant::now();
    let pr = ReadOptions { pr: Some(Quorum::Count(2)), ..r(1) };
    let failed = last.read(at, pr).await;
    assert!(
        matches!(
            failed,
            Err(RequestError::Unsatisfied { kind: QuorumKind::Pr, wanted: 2, got: 1 })
        ),
        "{failed:?}"
    );
    let strict = ReadOptions { sloppy_quorum: Some(false), ..r(2) };
    let failed = last.read(at, strict).await;
    assert!(
        matches!(failed, Err(RequestError::InsufficientVnodes { have: 1, wanted: 2 })),
        "{failed:?}"
    );
    let options = WriteOptions { pw: ALL, ..WriteOptions::default() };
    let failed = last.store.put(PutRequest { options, ..put_of(at, "no") }).await;
    assert!(
        matches!(
            failed,
            Err(RequestError::Unsatisfied { kind: QuorumKind::Pw, wanted: 3, got: 1 })
        ),
        "{failed:?}"
    );
    let options = WriteOptions { sloppy_quorum: Some(false), ..WriteOptions::default() };
    let failed = last.store.put(PutRequest { options, ..put_of(at, "no") }).await;
    assert!(
        matches!(failed, Err(RequestError::InsufficientVnodes { have: 1, wanted: 2 })),
        "{failed:?}"
    );
    assert_eq!(asked.elapsed(), Duration::ZERO, "nobody is waited for");
    assert_eq!(last.values(at).await, ["one up"], "what was refused was not written");
}

#[tokio::test(start_paused = true)]
async fn node_confirms_counts_nodes_and_not_votes() {
    let mut cluster = Cluster::of(3).await;
    let at = key("default", "k");
    cluster.kill(2).await;
    let confirms = |count| WriteOptions {
        node_confirms: Some(Quorum::Count(count)),
        ..WriteOptions::default()
    };
    let put = |count, value| PutRequest { options: confirms(count), ..put_of(at, value) };
    cluster.nodes[0].store.put(put(2, "v")).await.unwrap();
    let failed = cluster.nodes[0].store.put(put(3, "refused")).await;
    assert!(
        matches!(
            failed,
            Err(RequestError::Unsatisfied { kind: QuorumKind::NodeConfirms, wanted: 3, got: 2 })
        ),
        "{failed:?}"
    );
    assert_eq!(cluster.nodes[0].values(at).await, ["v"], "what was refused was not written");
    let read = ReadOptions { node_confirms: Some(Quorum::Count(3)), ..r(1) };
    let failed = cluster.nodes[0].read(at, read).await;
    assert!(
        matches!(failed, Err(RequestError::InsufficientNodes { have: 2, wanted: 3 })),
        "{failed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_fallback_stands_in_for_a_dead_primary() {
    let mut cluster = Cluster::of(5).await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    cluster.kill(3).await;
    for name in names {
        let at = key("default", name);
        let options = WriteOptions {
            w: ALL,
            node_confirms: Some(Quorum::Count(3)),
            ..WriteOptions::default()
        };
        cluster.nodes[0].store.put(PutRequest { options, ..put_of(at, "v") }).await.unwrap();
        let preflist = cluster.nodes[1].store.preflist(at).unwrap();
        assert_eq!(preflist.len(), 3);
        assert!(preflist.iter().all(|place| place.node != "n3@test"));
    }
    let stand_ins = |name: &&'static str| {
        let preflist = cluster.nodes[1].store.preflist(key("default", name)).unwrap();
        preflist.iter().any(|place| !place.primary)
    };
    assert!(names.iter().any(stand_ins), "the dead node was a primary of something");
}

/// The connection to the silent primary stays open, so that no call to it fails.
#[tokio::test(start_paused = true)]
async fn a_write_under_way_goes_to_a_fallback_when_a_silent_primary_counts_as_down() {
    let cluster = Cluster::of(4).await;
    let is_primary = |name: &&&str, node: &str| {
        let preflist = cluster.nodes[0].store.preflist(key("default", name)).unwrap();
        preflist.iter().any(|place| place.node == node)
    };
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let name = names.iter().find(|name| is_primary(name, "n0@test") && is_primary(name, "n3@test"));
    let name = name.expect("each node is a primary of most records");
    cluster.cut_off(3);
    let options = WriteOptions { w: ALL, timeout_ms: Some(20_000), ..WriteOptions::default() };
    let put = PutRequest { options, ..put_of(key("default", name), "v") };
    cluster.nodes[0].store.put(put).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stand_in_deletes_what_the_primaries_have() {
    let mut cluster = Cluster::of(5).await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for name in names {
        let options = WriteOptions { w: ALL, ..WriteOptions::default() };
        let put = PutRequest { options, ..put_of(key("default", name), "v") };
        cluster.nodes[0].store.put(put).await.unwrap();
    }
    cluster.kill(3).await;
    let mut stand_in_count = 0;
    for name in names {
        let at = key("default", name);
        let preflist = cluster.nodes[0].store.preflist(at).unwrap();
        let Some(place) = preflist.iter().find(|place| !place.primary) else { continue };
        let fallback = cluster.nodes.iter().find(|node| node.name() == place.node).unwrap();
        stand_in_count += 1;
        // The fallback itself stores nothing yet.
        let precondition = Precondition { not_exists: true, ..Precondition::default() };
        let put = PutRequest { precondition, ..put_of(at, "no") };
        let refused = fallback.store.put(put).await;
        assert!(matches!(refused, Err(RequestError::Unmet(_))), "{refused:?}");
        assert_eq!(
            fallback.store.delete(DeleteRequest::of(at)).await.unwrap(),
            DeleteOutcome::Done
        );
        for node in &cluster.nodes {
            assert!(node.values(at).await.is_empty(), "{name} is still there");
        }
    }
    assert!(stand_in_count > 0, "the dead node was a primary of something");
}

#[tokio::test(start_paused = true)]
async fn a_forwarded_write_finds_another_coordinator_when_one_dies() {
    let mut cluster = Cluster::of(5).await;
    for (name, dead) in [("a", 4), ("b", 3)] {
        let at = key("default", name);
        // The connections break while the other nodes still believe that the node is up.
        cluster.network.kill(&host(dead));
        for node in &cluster.nodes[..dead] {
            node.put(at, "v").await;
            assert_eq!(node.values(at).await, ["v"]);
        }
        cluster.nodes.truncate(dead);
    }
}

/// Places of the nodes that are in the preference list of a key, and of one that is not.
fn replicas_and_another(cluster: &Cluster, at: KeyRef<'static>) -> (Vec<usize>, usize) {
    let preflist = cluster.nodes[0].store.preflist(at).unwrap();
    let is_replica = |number: &usize| {
        let name = cluster.nodes[*number].name();
        preflist.iter().any(|place| place.node == name)
    };
    let numbers = 0..cluster.nodes.len();
    let (replicas, others): (Vec<usize>, Vec<usize>) = numbers.partition(is_replica);
    (replicas, others[0])
}

/// Waits until a condition holds. Checks it every millisecond of the paused time.
async fn until_shown(mut is_shown: impl AsyncFnMut() -> bool) {
    while !is_shown().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Makes a node that is no replica forward a put, and loses the answer by silence or by a reset of the
/// connections. Returns how the put ended, and how often its value is stored afterwards.
async fn put_whose_answer_is_lost(
    cluster: &Cluster,
    put: PutRequest<'static>,
    resets: bool,
) -> (Result<(), RequestError>, usize) {
    let at = put.key;
    let (replicas, forwarder) = replicas_and_another(cluster, at);
    for replica in &replicas {
        cluster.network.silence(&host(*replica), &host(forwarder));
    }
    let write = cluster.nodes[forwarder].store.put(put);
    let arrives = async {
        let holder = &cluster.nodes[replicas[0]];
        until_shown(async || holder.read(at, r(1)).await.unwrap().is_some()).await;
        if resets {
            for replica in &replicas {
                cluster.network.reset(&host(*replica), &host(forwarder));
            }
        }
    };
    let (written, ()) = tokio::join!(write, arrives);
    for replica in &replicas {
        cluster.network.heal(&host(*replica), &host(forwarder));
    }
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 5)).await;
    let all = cluster.nodes[replicas[0]].read(at, r(3)).await.unwrap();
    (written.map(|_| ()), values(all).len())
}

#[tokio::test(start_paused = true)]
async fn a_forwarded_write_with_a_condition_whose_answer_is_lost_is_made_once() {
    let cluster = Cluster::of(5).await;
    cluster.create_type("sibs", json!({"allow_mult": true})).await;
    for (name, resets) in [("a", false), ("b", true), ("c", false), ("d", true)] {
        let precondition = Precondition { not_exists: true, ..Precondition::default() };
        let put = PutRequest { precondition, ..put_of(key("sibs", name), "v") };
        let (written, count) = put_whose_answer_is_lost(&cluster, put, resets).await;
        assert!(matches!(written, Err(RequestError::Timeout)), "{written:?}");
        assert_eq!(count, 1, "{name} is there once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_forwarded_put_that_two_nodes_coordinate_is_one_value() {
    let cluster = Cluster::of(5).await;
    cluster.create_type("sibs", json!({"allow_mult": true})).await;
    for name in ["a", "b", "c", "d"] {
        let at = key("sibs", name);
        let put = put_of(at, "v");
        let (written, count) = put_whose_answer_is_lost(&cluster, put, true).await;
        assert!(matches!(written, Ok(())), "{written:?}");
        let object = cluster.nodes[0].read(at, r(3)).await.unwrap().unwrap();
        assert!(
            object.clock.entries().len() > 1,
            "{name} was coordinated once: {:?}",
            object.clock
        );
        assert_eq!(count, 1, "{name} is there once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_forwarded_delete_whose_answer_is_lost_takes_nothing_that_was_written_later() {
    let cluster = Cluster::of(5).await;
    let at = key("default", "k");
    let (replicas, forwarder) = replicas_and_another(&cluster, at);
    cluster.nodes[replicas[0]].put(at, "old").await;
    for replica in &replicas {
        cluster.network.silence(&host(*replica), &host(forwarder));
    }
    let delete = cluster.nodes[forwarder].store.delete(DeleteRequest::of(at));
    let rewrite = async {
        let holder = &cluster.nodes[replicas[0]];
        until_shown(async || holder.values(at).await.is_empty()).await;
        holder.put(at, "new").await;
    };
    let (deleted, ()) = tokio::join!(delete, rewrite);
    assert!(matches!(deleted, Err(RequestError::Timeout)), "{deleted:?}");
    assert_eq!(cluster.nodes[replicas[1]].values(at).await, ["new"]);
}
