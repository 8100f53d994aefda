//! Tests of listings over all nodes.

use crate::cluster::fixture::{Cluster, key, put_of};
use bytes::Bytes;
use quoit_core::{
    Counter, FoldKind, IndexQuery, IndexSelection, LongRequest, RecordRange, RequestError,
};
use quoit_model::key::BucketRef;
use quoit_model::key_bounds::KeyBounds;
use serde_json::json;

const COUNT: usize = 300;

fn names() -> Vec<String> {
    (0..COUNT).map(|number| format!("key-{number:04}")).collect()
}

fn leak(name: String) -> &'static str {
    name.leak()
}

async fn listed(cluster: &Cluster, node: usize) -> Result<Vec<String>, RequestError> {
    let mut listing =
        cluster.nodes[node].store.listings().list_keys(BucketRef::untyped(b"bucket")).await?;
    let mut keys: Vec<Bytes> = Vec::new();
    while let Some(chunk) = listing.next().await? {
        keys.extend(chunk);
    }
    let mut names: Vec<_> =
        keys.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.sort();
    Ok(names)
}

#[tokio::test(start_paused = true)]
async fn every_key_is_listed_once_from_any_node_also_with_a_node_down() {
    let mut cluster = Cluster::of(5).await;
    for name in names() {
        cluster.nodes[0].put(key("default", leak(name)), "v").await;
    }
    for node in 0..5 {
        assert_eq!(listed(&cluster, node).await.unwrap(), names());
    }
    let mut buckets = cluster.nodes[3].store.listings().list_buckets(b"default").await.unwrap();
    assert_eq!(buckets.next().await.unwrap(), Some(vec![Bytes::from_static(b"bucket")]));
    assert_eq!(buckets.next().await.unwrap(), None);
    cluster.kill(2).await;
    for node in 0..4 {
        assert_eq!(listed(&cluster, node).await.unwrap(), names());
    }
}

#[tokio::test(start_paused = true)]
async fn another_replica_goes_on_where_a_node_dies_in_the_middle() {
    let cluster = Cluster::of(5).await;
    for name in names() {
        cluster.nodes[0].put(key("default", leak(name)), "v").await;
    }
    let mut listing =
        cluster.nodes[0].store.listings().list_keys(BucketRef::untyped(b"bucket")).await.unwrap();
    let mut keys: Vec<Bytes> = listing.next().await.unwrap().unwrap();
    cluster.network.kill(&crate::cluster::fixture::host(4));
    cluster.network.kill(&crate::cluster::fixture::host(3));
    while let Some(chunk) = listing.next().await.unwrap() {
        keys.extend(chunk);
    }
    keys.sort();
    assert_eq!(keys, names().into_iter().map(Bytes::from).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_listing_without_any_replica_of_a_partition_is_an_error() {
    let mut cluster = Cluster::of(3).await;
    cluster.create_type("single", json!({"n_val": 1})).await;
    cluster.nodes[0].store.put(put_of(key("single", "k"), "v")).await.unwrap();
    cluster.kill(1).await;
    let bucket = BucketRef { bucket_type: b"single", bucket: b"bucket" };
    let listing = cluster.nodes[0].store.listings().list_keys(bucket).await;
    assert!(
        matches!(listing, Err(RequestError::InsufficientCoverage)),
        "listed without a third of the keys"
    );
}

#[tokio::test(start_paused = true)]
async fn listings_and_folds_are_counted_when_they_begin_and_when_they_end() {
    let cluster = Cluster::of(1).await;
    let store = &cluster.nodes[0].store;
    let active = |kind| store.stats().active(kind);
    let total = |counter| store.stats().snapshot().total(counter);
    let of_type = |bucket_type: &'static str| BucketRef {
        bucket_type: bucket_type.as_bytes(),
        bucket: b"bucket",
    };
    let range = |bucket_type| RecordRange::all(of_type(bucket_type));
    let keys = store.listings().list_keys(BucketRef::untyped(b"bucket")).await.unwrap();
    let buckets = store.listings().list_buckets(b"default").await.unwrap();
    let fold =
        store.folds().begin(range("default"), FoldKind::ObjectStats, u64::MAX).await.unwrap();
    assert_eq!((active(LongRequest::Listing), active(LongRequest::Fold)), (2, 1));
    let query =
        |bucket_type| IndexQuery::new(of_type(bucket_type), IndexSelection::Keys(KeyBounds::ALL));
    let mut in_order = store.listings().list_keys_in_order(query("default")).await.unwrap();
    assert_eq!(in_order.next().await.unwrap(), None);
    let all_buckets = store.listings().fold_buckets().await.unwrap();
    assert_eq!((active(LongRequest::Listing), active(LongRequest::Fold)), (3, 2));
    drop((keys, buckets, fold, in_order, all_buckets));
    assert_eq!((active(LongRequest::Listing), active(LongRequest::Fold)), (0, 0));
    assert!(store.listings().list_keys(of_type("unknown")).await.is_err());
    assert!(store.listings().list_buckets(b"unknown").await.is_err());
    assert!(store.listings().list_keys_in_order(query("unknown")).await.is_err());
    assert!(store.folds().begin(range("unknown"), FoldKind::ObjectStats, u64::MAX).await.is_err());
    assert_eq!((active(LongRequest::Listing), active(LongRequest::Fold)), (0, 0));
    assert_eq!((total(Counter::Listings), total(Counter::ListingErrors)), (6, 3));
    assert_eq!((total(Counter::Folds), total(Counter::FoldErrors)), (3, 1));
    assert_eq!((total(Counter::IndexQueries), total(Counter::IndexQueriesComplete)), (0, 0));
}
