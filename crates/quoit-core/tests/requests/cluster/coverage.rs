//! Tests of clients that query the parts of a bucket themselves.

use crate::cluster::fixture::{Cluster, RING_SIZE, host, key, put_of};
use bytes::Bytes;
use quoit_core::{
    CoverageEntry, CoverageError, CoverageRequest, IndexQuery, IndexSelection, InvalidContext,
    RequestError, WriteOptions,
};
use quoit_model::key::BucketRef;
use quoit_model::key_bounds::KeyBounds;
use quoit_model::props::Quorum;
use std::collections::BTreeSet;

const BUCKET: BucketRef<'static> = BucketRef::untyped(b"bucket");
const NAMES: [&str; 12] =
    ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "a much longer name"];

async fn filled(count: usize) -> Cluster {
    let cluster = Cluster::of(count).await;
    for name in NAMES {
        let mut put = put_of(key("default", name), "v");
        put.options = WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() };
        cluster.nodes[0].store.put(put).await.unwrap();
    }
    cluster
}

async fn plan(
    cluster: &Cluster,
    node: usize,
    request: CoverageRequest<'_>,
) -> Result<Vec<CoverageEntry>, CoverageError> {
    cluster.nodes[node].store.listings().coverage(BUCKET, request).await
}

/// The number of a node by its name.
fn number_of(cluster: &Cluster, entry: &CoverageEntry) -> usize {
    let is_named = |number: &usize| *entry.node_name == *format!("{}@test", host(*number));
    (0..cluster.nodes.len()).find(is_named).expect("a node of the cluster")
}

/// The keys of a part, as a node finds them.
async fn part(cluster: &Cluster, node: usize, context: &[u8]) -> Vec<Bytes> {
    let mut query = IndexQuery::new(BUCKET, IndexSelection::Keys(KeyBounds::ALL));
    let store = &cluster.nodes[node].store;
    store.listings().restrict(&mut query, context).unwrap();
    let mut results = store.listings().query_index(query).await.unwrap();
    let mut keys = Vec::new();
    while let Some(chunk) = results.next().await.unwrap() {
        keys.extend(chunk.into_iter().map(|found| found.key));
    }
    keys
}

/// The partitions of all entries, in order.
fn partitions(entries: &[CoverageEntry]) -> Vec<u16> {
    let mut all: Vec<u16> = entries.iter().flat_map(|entry| entry.partitions.clone()).collect();
    all.sort_unstable();
    all
}

fn all_names() -> Vec<Bytes> {
    let mut names: Vec<Bytes> =
        NAMES.iter().map(|name| Bytes::from_static(name.as_bytes())).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_a_plan_have_each_key_once_wherever_they_are_asked_for() {
    let cluster = filled(5).await;
    for entry_count_min in [0, 1, 7, 1_000_000] {
        let request = CoverageRequest { entry_count_min, ..CoverageRequest::default() };
        let entries = plan(&cluster, 1, request).await.unwrap();
        assert_eq!(partitions(&entries), (0..RING_SIZE).collect::<Vec<_>>());
        let count_min = (entry_count_min as usize).next_power_of_two().min(RING_SIZE.into());
        assert!(entries.len() >= count_min, "{} entries", entries.len());
        for own in [true, false] {
            let mut keys = Vec::new();
            for entry in &entries {
                let node = if own { number_of(&cluster, entry) } else { 3 };
                keys.extend(part(&cluster, node, &entry.context).await);
            }
            keys.sort();
            assert_eq!(keys, all_names());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_is_replaced_by_parts_on_other_nodes() {
    let cluster = filled(5).await;
    let entries = plan(&cluster, 1, CoverageRequest::default()).await.unwrap();
    let failed = &entries[0];
    let request = CoverageRequest { replaced: Some(&failed.context), ..CoverageRequest::default() };
    let others = plan(&cluster, 1, request).await.unwrap();
    assert!(others.iter().all(|other| other.node != failed.node));
    assert_eq!(partitions(&others), failed.partitions);
    let mut keys = Vec::new();
    for entry in entries[1..].iter().chain(&others) {
        keys.extend(part(&cluster, number_of(&cluster, entry), &entry.context).await);
    }
    keys.sort();
    assert_eq!(keys, all_names());
    // With all nodes avoided, no plan is left.
    let everyone = CoverageRequest { entry_count_min: 1_000_000, ..CoverageRequest::default() };
    let everyone = plan(&cluster, 1, everyone).await.unwrap();
    let unavailable: Vec<Bytes> = everyone.iter().map(|entry| entry.context.clone()).collect();
    let request = CoverageRequest { unavailable: &unavailable, ..request };
    let nobody = plan(&cluster, 1, request).await;
    let is_nobody = |fault: &CoverageError| {
        matches!(fault, CoverageError::Request(RequestError::InsufficientCoverage))
    };
    let nodes: BTreeSet<_> = everyone.iter().map(|entry| entry.node).collect();
    match nobody {
        Err(fault) => assert!(is_nobody(&fault), "{fault}"),
        // A plan may not use some node. Then that node is still left.
        Ok(left) => assert!(left.iter().all(|entry| !nodes.contains(&entry.node))),
    }
}

#[tokio::test(start_paused = true)]
async fn contexts_of_other_buckets_are_refused() {
    let cluster = filled(3).await;
    let other = BucketRef::untyped(b"other");
    let store = &cluster.nodes[0].store;
    let entries = store.listings().coverage(other, CoverageRequest::default()).await.unwrap();
    let context = &entries[0].context;
    for sent in [&context[..], b"", b"garbage", &[0; 33]] {
        let request = CoverageRequest { replaced: Some(sent), ..CoverageRequest::default() };
        let refused = plan(&cluster, 0, request).await;
        assert!(matches!(refused, Err(CoverageError::Context(InvalidContext))), "{sent:?}");
        let unavailable = [Bytes::copy_from_slice(sent)];
        let request = CoverageRequest { unavailable: &unavailable, ..CoverageRequest::default() };
        let refused = plan(&cluster, 0, request).await;
        assert!(matches!(refused, Err(CoverageError::Context(InvalidContext))), "{sent:?}");
    }
}
