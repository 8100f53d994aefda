//! Folds over all nodes.

use crate::cluster::fixture::{Cluster, key, r, values};
use bytes::Bytes;
use quoit_core::{
    DeleteMode, DeleteRequest, FoldFound, FoldKind, FoldMode, FoldProgress, RecordRange,
    RequestError, StoreSettings,
};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::segments::{Segments, TreeSize};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinHandle;

const COUNT: usize = 600;

fn at(number: usize) -> KeyRef<'static> {
    key("default", format!("key-{number:04}").leak())
}

fn bucket() -> RecordRange {
    RecordRange::all(BucketRef::untyped(b"bucket"))
}

fn between(first: usize, last: usize) -> RecordRange {
    let name = |number: usize| Bytes::copy_from_slice(at(number).key);
    RecordRange { first_key: name(first), last_key: Some(name(last)), ..bucket() }
}

async fn fold(
    cluster: &Cluster,
    node: usize,
    range: RecordRange,
    kind: FoldKind,
) -> Result<(Vec<FoldFound>, FoldProgress), RequestError> {
    fold_some(cluster, node, range, kind, u64::MAX).await
}

async fn fold_some(
    cluster: &Cluster,
    node: usize,
    range: RecordRange,
    kind: FoldKind,
    limit: u64,
) -> Result<(Vec<FoldFound>, FoldProgress), RequestError> {
    let mut fold = cluster.nodes[node].store.folds().begin(range, kind, limit).await?;
    let mut found = Vec::new();
    while let Some(some) = fold.step().await? {
        found.extend(some);
    }
    Ok((found, fold.progress().clone()))
}

async fn filled(settings: StoreSettings) -> Cluster {
    let cluster = Cluster::with(5, settings).await;
    for number in 0..COUNT {
        cluster.nodes[number % 5].put(at(number), "v").await;
    }
    cluster
}

fn kept() -> StoreSettings {
    StoreSettings { delete_mode: DeleteMode::Keep, ..StoreSettings::default() }
}

#[tokio::test(start_paused = true)]
async fn every_record_counts_once_also_with_a_node_down() {
    let mut cluster = filled(StoreSettings::default()).await;
    cluster.create_type("mult", json!({"allow_mult": true})).await;
    for value in ["one", "another"] {
        cluster.nodes[0].put(key("mult", "twice"), value).await;
        cluster.nodes[0].put(key("mult", value), value).await;
    }
    cluster.kill(3).await;
    for node in 0..4 {
        let (found, progress) =
            fold(&cluster, node, bucket(), FoldKind::ObjectStats).await.unwrap();
        assert_eq!((found, progress.looked_at_count), (vec![], COUNT as u64));
        assert_eq!(progress.siblings, BTreeMap::from([(1, COUNT as u64)]));
        assert_eq!(progress.sizes.values().sum::<u64>(), COUNT as u64);
    }
    let mult = RecordRange::all(BucketRef { bucket_type: b"mult", bucket: b"bucket" });
    let (found, _) = fold(&cluster, 0, mult, FoldKind::ManySiblings(1)).await.unwrap();
    let named: Vec<_> = found.iter().map(|found| (&found.key[..], found.number)).collect();
    assert_eq!(named, [(&b"twice"[..], 2)]);
    let (found, _) = fold(&cluster, 1, between(20, 29), FoldKind::FetchClocks).await.unwrap();
    let mut keys: Vec<_> = found.iter().map(|found| &found.key[..]).collect();
    keys.sort_unstable();
    assert_eq!(keys, (20..30).map(|number| at(number).key).collect::<Vec<_>>());
    let (found, _) = fold(&cluster, 1, between(29, 20), FoldKind::FetchClocks).await.unwrap();
    assert_eq!(found, []);
}

#[tokio::test(start_paused = true)]
async fn records_are_erased_by_range_and_by_time_unless_they_are_only_counted() {
    let cluster = filled(kept()).await;
    let counted = FoldKind::EraseKeys(FoldMode::Count);
    let (_, progress) = fold(&cluster, 0, between(100, 299), counted).await.unwrap();
    assert_eq!(progress.match_count, 200);
    assert_eq!(values(cluster.nodes[2].read(at(150), r(3)).await.unwrap()), ["v"]);
    let erased = FoldKind::EraseKeys(FoldMode::Change);
    for (limit, left) in [(0, 200), (3, 197)] {
        let (_, progress) = fold_some(&cluster, 0, between(100, 299), erased, limit).await.unwrap();
        assert_eq!(progress.match_count, limit);
        let (_, progress) = fold(&cluster, 0, between(100, 299), counted).await.unwrap();
        assert_eq!(progress.match_count, left);
    }
    let (_, progress) = fold(&cluster, 0, between(100, 299), erased).await.unwrap();
    assert_eq!((progress.match_count, progress.failed_count), (197, 0));
    for number in [99, 100, 299, 300] {
        let is_there = !(100..=299).contains(&number);
        let found = values(cluster.nodes[1].read(at(number), r(3)).await.unwrap());
        assert_eq!(!found.is_empty(), is_there, "{number}");
    }
    // Records that were written later are spared.
    let written_secs = cluster.nodes[0].store.clock().unix_secs();
    cluster.clock.advance_us(60_000_000);
    cluster.nodes[0].put(at(1_000), "later").await;
    let old = RecordRange { modified_secs: Some((0, written_secs)), ..bucket() };
    let (_, progress) = fold(&cluster, 4, old, erased).await.unwrap();
    assert_eq!(progress.match_count, COUNT as u64 - 200);
    let (found, _) = fold(&cluster, 4, bucket(), FoldKind::FetchClocks).await.unwrap();
    assert_eq!(found.len(), COUNT + 1, "tombstones are records, too");
    let (_, progress) = fold(&cluster, 4, bucket(), counted).await.unwrap();
    assert_eq!(progress.match_count, 1);
}

#[tokio::test(start_paused = true)]
async fn tombstones_that_are_kept_are_reaped_when_an_operator_wants_it() {
    let cluster = Cluster::with(4, kept()).await;
    let stores = cluster.nodes.iter().map(|node| Arc::clone(&node.store));
    let tasks: Vec<JoinHandle<()>> =
        stores.map(|store| tokio::spawn(store.run_background())).collect();
    for number in 0..20 {
        cluster.nodes[0].put(at(number), "v").await;
        if number < 12 {
            let delete = DeleteRequest::of(at(number));
            cluster.nodes[1].store.delete(delete).await.unwrap();
        }
    }
    cluster.clock.advance_us(60_000_000);
    let (found, _) = fold(&cluster, 2, bucket(), FoldKind::FindTombs).await.unwrap();
    assert_eq!(found.len(), 12);
    let counted = FoldKind::ReapTombs(FoldMode::Count);
    let (_, progress) = fold(&cluster, 2, bucket(), counted).await.unwrap();
    assert_eq!(progress.match_count, 12);
    let reaped = FoldKind::ReapTombs(FoldMode::Change);
    let (_, progress) = fold(&cluster, 2, bucket(), reaped).await.unwrap();
    assert_eq!(progress.match_count, 12);
    let tombstones = || -> u64 {
        cluster.nodes.iter().map(|node| node.store.engine().stats().tombstone_count).sum()
    };
    cluster.until(|| tombstones() == 0).await;
    let (found, _) = fold(&cluster, 0, bucket(), FoldKind::FetchClocks).await.unwrap();
    assert_eq!(found.len(), 8);
    tasks.iter().for_each(JoinHandle::abort);
}

/// Every other segment of a small tree, from `first` on.
fn every_other(first: u32) -> RecordRange {
    let size = TreeSize::XxSmall;
    let numbers = (first..size.segment_count()).step_by(2).collect();
    RecordRange { segments: Some(Segments::new(size, numbers).unwrap()), ..bucket() }
}

/// True if a record is in the segments of a range.
fn is_in(range: &RecordRange, number: usize) -> bool {
    range.segments.as_ref().is_some_and(|some| some.has(at(number).bucket, at(number).key))
}

#[tokio::test(start_paused = true)]
async fn folds_are_narrowed_to_segments() {
    let cluster = filled(StoreSettings::default()).await;
    for range in [every_other(0), every_other(1)] {
        let expected: Vec<_> = (0..COUNT).filter(|number| is_in(&range, *number)).collect();
        assert!(expected.len() > COUNT / 3, "{}", expected.len());
        let (found, _) = fold(&cluster, 3, range, FoldKind::FetchClocks).await.unwrap();
        let mut keys: Vec<_> = found.iter().map(|found| &found.key[..]).collect();
        keys.sort_unstable();
        assert_eq!(keys, expected.into_iter().map(|number| at(number).key).collect::<Vec<_>>());
    }
    let none = Segments::new(TreeSize::Large, vec![]).ok();
    let none = RecordRange { segments: none, ..bucket() };
    let (found, _) = fold(&cluster, 3, none, FoldKind::FetchClocks).await.unwrap();
    assert_eq!(found, []);
}

#[tokio::test(start_paused = true)]
async fn tombstones_of_other_segments_are_not_reaped() {
    let cluster = Cluster::with(4, kept()).await;
    let stores = cluster.nodes.iter().map(|node| Arc::clone(&node.store));
    let tasks: Vec<JoinHandle<()>> =
        stores.map(|store| tokio::spawn(store.run_background())).collect();
    for number in 0..40 {
        cluster.nodes[0].put(at(number), "v").await;
        cluster.nodes[1].store.delete(DeleteRequest::of(at(number))).await.unwrap();
    }
    cluster.clock.advance_us(60_000_000);
    let range = every_other(0);
    let in_count = (0..40).filter(|number| is_in(&range, *number)).count() as u64;
    assert!((1..40).contains(&in_count));
    let reaped = FoldKind::ReapTombs(FoldMode::Change);
    let (_, progress) = fold(&cluster, 2, range, reaped).await.unwrap();
    assert_eq!(progress.match_count, in_count);
    let tombstones = || -> u64 {
        cluster.nodes.iter().map(|node| node.store.engine().stats().tombstone_count).sum()
    };
    cluster.until(|| tombstones() <= 3 * (40 - in_count)).await;
    let (found, _) = fold(&cluster, 0, bucket(), FoldKind::FindTombs).await.unwrap();
    let left = |found: &FoldFound| (0..40).find(|number| at(*number).key == &found.key[..]);
    assert_eq!(found.len() as u64, 40 - in_count);
    assert!(found.iter().filter_map(left).all(|number| !is_in(&every_other(0), number)));
    tasks.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_fold_of_an_unknown_type_is_an_error() {
    let cluster = Cluster::of(1).await;
    let range = RecordRange::all(BucketRef { bucket_type: b"nothing", bucket: b"bucket" });
    let folded = fold(&cluster, 0, range, FoldKind::ObjectStats).await;
    assert!(matches!(folded, Err(RequestError::NoSuchType(_))));
}
