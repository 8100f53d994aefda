//! Tests of conditional writes that race on several nodes.

use crate::cluster::fixture::{Cluster, Node, host, key, put_of, values};
use quoit_core::{
    DeleteOutcome, DeleteRequest, Precondition, PutRequest, QuorumKind, ReadOptions, RequestError,
    UnmetCondition, WriteOptions,
};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const KEYS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
const VALUES: [&str; 5] = ["v0", "v1", "v2", "v3", "v4"];

/// Five nodes, and a bucket type for each mode. Messages between nodes take different times.
async fn cluster_with_modes() -> Cluster {
    let cluster = Cluster::of(5).await;
    for mode in ["api_only", "prefer_token", "require_token"] {
        let props = json!({"allow_mult": true, "conditional_put_mode": mode});
        cluster.create_type(mode, props).await;
    }
    for from in 0..5_usize {
        for to in 0..5_usize {
            let delay = Duration::from_micros(100 + 70 * ((from * 3 + to * 2) % 5) as u64);
            cluster.network.set_delay(&host(from), &host(to), delay);
        }
    }
    cluster
}

fn create(at: KeyRef<'static>, value: &'static str) -> PutRequest<'static> {
    let precondition = Precondition { not_exists: true, ..Precondition::default() };
    PutRequest { precondition, ..put_of(at, value) }
}

fn update(at: KeyRef<'static>, known: &Object, value: &'static str) -> PutRequest<'static> {
    let clock = Some(known.clock.clone());
    let precondition = Precondition { clock, ..Precondition::default() };
    PutRequest { precondition, context: known.clock.clone(), ..put_of(at, value) }
}

/// Runs one put on each node at the same time, and returns the values of the acknowledged ones. Checks that
/// all others fail with one of the errors in `lost`.
async fn race(
    nodes: &[Node],
    put: impl Fn(&'static str) -> PutRequest<'static>,
    lost: &'static [UnmetCondition],
) -> Vec<String> {
    let mut puts = JoinSet::new();
    for (node, value) in nodes.iter().zip(VALUES) {
        let (store, put) = (Arc::clone(&node.store), put(value));
        puts.spawn(async move {
            match store.put(put).await {
                Ok(_) => Some(value.to_owned()),
                Err(RequestError::Unmet(unmet)) if lost.contains(&unmet) => None,
                Err(RequestError::Timeout) => None,
                Err(other) => panic!("{other}"),
            }
        });
    }
    let mut won: Vec<String> = puts.join_all().await.into_iter().flatten().collect();
    won.sort();
    won
}

async fn created(cluster: &Cluster, mode: &'static str) -> Vec<usize> {
    let mut counts = Vec::new();
    for name in KEYS {
        let at = key(mode, name);
        let won = race(&cluster.nodes, |value| create(at, value), &[UnmetCondition::Exists]).await;
        for node in &cluster.nodes {
            assert_eq!(node.values(at).await, won, "{name} has what was acknowledged");
        }
        counts.push(won.len());
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn of_creates_on_all_nodes_at_once_exactly_one_is_acknowledged() {
    let cluster = cluster_with_modes().await;
    assert_eq!(created(&cluster, "require_token").await, [1; KEYS.len()]);
}

#[tokio::test(start_paused = true)]
async fn without_grants_several_creates_are_acknowledged() {
    let cluster = cluster_with_modes().await;
    assert!(created(&cluster, "api_only").await.into_iter().any(|count| count > 1));
}

#[tokio::test(start_paused = true)]
async fn creates_that_prefer_grants_wait_for_each_other_while_all_are_up() {
    let cluster = cluster_with_modes().await;
    assert_eq!(created(&cluster, "prefer_token").await, [1; KEYS.len()]);
}

#[tokio::test(start_paused = true)]
async fn of_updates_and_deletes_of_one_version_one_is_acknowledged() {
    let cluster = cluster_with_modes().await;
    for name in KEYS {
        let at = key("require_token", name);
        cluster.nodes[0].store.put(create(at, "old")).await.unwrap();
        let known = cluster.nodes[1].read(at, ReadOptions::default()).await.unwrap().unwrap();
        let clock = Some(known.clock.clone());
        let precondition = Precondition { clock, ..Precondition::default() };
        let context = Some(known.clock.clone());
        let delete = DeleteRequest { context, precondition, ..DeleteRequest::of(at) };
        // An update after the delete finds nothing.
        let lost = &[UnmetCondition::Modified, UnmetCondition::Missing];
        let updates = race(&cluster.nodes[1..], |value| update(at, &known, value), lost);
        let (deleted, won) = tokio::join!(cluster.nodes[0].store.delete(delete), updates);
        match deleted {
            Ok(DeleteOutcome::Done) => assert!(won.is_empty(), "{name}: {won:?} beside the delete"),
            Err(RequestError::Unmet(UnmetCondition::Modified)) => {
                assert_eq!(won.len(), 1, "{name}")
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(cluster.nodes[2].values(at).await, won);
    }
}

#[tokio::test(start_paused = true)]
async fn one_node_alone_keeps_the_promise_too() {
    let cluster = Cluster::of(1).await;
    cluster.create_type("strict", json!({"conditional_put_mode": "require_token"})).await;
    let at = key("strict", "k");
    let store = &cluster.nodes[0].store;
    let (one, other) = tokio::join!(store.put(create(at, "one")), store.put(create(at, "other")));
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
}

#[tokio::test(start_paused = true)]
async fn a_side_without_a_majority_of_the_primaries_is_told_so_and_writes_nothing() {
    let cluster = cluster_with_modes().await;
    for number in 2..5 {
        for cut in 0..2 {
            cluster.network.silence(&host(number), &host(cut));
            cluster.network.silence(&host(cut), &host(number));
        }
    }
    cluster
        .until(|| cluster.nodes.iter().zip([2, 2, 3, 3, 3]).all(|(n, up)| n.up_count() == up))
        .await;
    let mut refused_count = 0;
    for name in KEYS {
        let at = key("require_token", name);
        let mut acknowledged = Vec::new();
        for (node, value) in cluster.nodes.iter().zip(VALUES) {
            match node.store.put(create(at, value)).await {
                Ok(_) => acknowledged.push(value.to_owned()),
                Err(RequestError::Unsatisfied { kind: QuorumKind::Pw, wanted: 2, .. }) => {
                    refused_count += 1;
                }
                Err(RequestError::Unmet(UnmetCondition::Exists)) => {}
                Err(other) => panic!("{other}"),
            }
        }
        assert!(acknowledged.len() <= 1, "{name}: {acknowledged:?}");
        // Refused values must not be stored anywhere.
        for node in &cluster.nodes {
            let found = node.read(at, crate::cluster::fixture::r(1)).await.unwrap();
            assert!(values(found).iter().all(|value| acknowledged.contains(value)));
        }
    }
    assert!(refused_count > 0, "one side never has a majority");
}

#[tokio::test(start_paused = true)]
async fn grants_of_a_coordinator_that_dies_keep_others_waiting_no_longer_than_their_lease() {
    let cluster = cluster_with_modes().await;
    let at = key("require_token", "k");
    // The future is dropped while its grants are held. Its node is cut off, so only the end of the
    // lease frees them.
    {
        let dying = cluster.nodes[0].store.put(create(at, "dying"));
        let _ = tokio::time::timeout(Duration::from_micros(500), dying).await;
        cluster.cut_off(0);
    }
    let options = WriteOptions { timeout_ms: Some(1_000), ..WriteOptions::default() };
    let waits = PutRequest { options, ..create(at, "waits") };
    let first = cluster.nodes[1].store.put(waits).await;
    cluster.clock.advance_us(2_000_000);
    let second = cluster.nodes[1].store.put(create(at, "second")).await;
    let acknowledged = usize::from(first.is_ok()) + usize::from(second.is_ok());
    assert_eq!(acknowledged, 1, "{first:?} {second:?}");
}
