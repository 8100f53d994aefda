//! Tests of records that a node keeps after a loss because a complete copy has them too, and of those
//! that are copied to it.

use crate::data_types::{add, size_at};
use crate::fixture::{TestCluster, id, key, key_in};
use bytes::Bytes;
use quoit_core::{DeleteMode, StoreSettings, TransferLimits};
use quoit_model::hash::Partition;
use quoit_model::props::Quorum;
use quoit_store::engine::Record;
use serde_json::json;
use std::time::Duration;

const COUNT: usize = 200;
const LOST_COUNT: usize = 5;

fn name(index: usize) -> String {
    format!("key {index}")
}

async fn until_whole(cluster: &TestCluster) {
    let is_whole = || cluster.control(1).read().layouts().lost_copies().next().is_none();
    cluster.until("all copies are whole again", is_whole).await;
}

fn handed_count(cluster: &TestCluster) -> u64 {
    let handed = |number| cluster.store(number).transfers().stats().record_count;
    cluster.running().into_iter().map(handed).sum()
}

fn set_transfers(cluster: &TestCluster, outbound: bool) {
    cluster.set_limits(TransferLimits { outbound, ..TransferLimits::default() });
}

fn is_named(encoded: &Bytes, names: std::ops::Range<usize>) -> bool {
    let encoded = String::from_utf8_lossy(encoded);
    names.into_iter().any(|index| encoded.ends_with(&name(index)))
}

type Records = Vec<(Partition, Bytes, Record)>;

#[tokio::test(start_paused = true)]
async fn what_is_equal_in_a_whole_copy_stays_and_only_what_is_lost_is_copied() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    let whole = cluster.records(3);
    let left: Records =
        whole.iter().filter(|(_, key, _)| !is_named(key, 0..LOST_COUNT)).cloned().collect();
    assert_eq!(left.len() + LOST_COUNT, whole.len());
    set_transfers(&cluster, false);
    cluster.kill(3);
    cluster.set_records(3, &left);
    cluster.start_after_loss(3).await;
    set_transfers(&cluster, false);
    assert_eq!(cluster.records(3), left, "all of it is in the whole copies");
    let before = handed_count(&cluster);
    set_transfers(&cluster, true);
    until_whole(&cluster).await;
    assert_eq!(cluster.records(3), whole);
    // Both complete copies may offer a record at the same time.
    let handed_count = handed_count(&cluster) - before;
    assert!((LOST_COUNT as u64..=2 * LOST_COUNT as u64).contains(&handed_count), "{handed_count}");
}

#[tokio::test(start_paused = true)]
async fn what_differs_from_a_whole_copy_is_dropped() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    let older = cluster.records(3);
    for index in 0..LOST_COUNT {
        cluster.update(1, &name(index), "newer").await;
    }
    cluster.put(1, "a new one", "value").await;
    cluster.pass(Duration::from_secs(5)).await;
    let whole = cluster.records(3);
    set_transfers(&cluster, false);
    cluster.kill(3);
    cluster.set_records(3, &older);
    cluster.start_after_loss(3).await;
    set_transfers(&cluster, false);
    let expected: Records =
        older.into_iter().filter(|(_, key, _)| !is_named(key, 0..LOST_COUNT)).collect();
    assert_eq!(cluster.records(3), expected);
    set_transfers(&cluster, true);
    until_whole(&cluster).await;
    assert_eq!(cluster.records(3), whole);
}

#[tokio::test(start_paused = true)]
async fn tombstones_are_part_of_a_whole_copy_though_no_digest_knows_of_them() {
    let settings = StoreSettings { delete_mode: DeleteMode::Keep, ..StoreSettings::default() };
    let mut cluster = TestCluster::joined_with(3, settings).await;
    cluster.put_many(1, COUNT).await;
    for index in 0..LOST_COUNT {
        cluster.delete(1, &name(index)).await;
    }
    cluster.until_moved(1, 0).await;
    cluster.pass(Duration::from_secs(30)).await;
    let whole = cluster.records(3);
    let is_tombstone = |record: &&(Partition, Bytes, Record)| record.2.meta.tombstone;
    assert_eq!(whole.iter().filter(is_tombstone).count(), LOST_COUNT);
    let live: Records = whole.iter().filter(|each| !is_tombstone(each)).cloned().collect();
    cluster.kill(3);
    cluster.set_records(3, &live);
    cluster.start_after_loss(3).await;
    until_whole(&cluster).await;
    assert_eq!(cluster.records(3), whole);
}

#[tokio::test(start_paused = true)]
async fn a_large_set_whose_root_is_equal_but_has_lost_a_page_is_copied_anew() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.create_type("sets", json!({"datatype": "set", "allow_mult": true})).await;
    let set = key_in("sets", "large");
    let elements = (0..5_000).map(|number| format!("element {number}").into()).collect();
    add(&cluster, 1, set, elements, Quorum::All).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    cluster.kill(3);
    cluster.lose_page(3, set);
    cluster.start_after_loss(3).await;
    assert!(cluster.record(3, set).is_none(), "its root is equal, and worth nothing");
    assert!(cluster.pages(3, &set.encoded()).is_empty());
    assert_eq!(cluster.records(3).len(), COUNT);
    until_whole(&cluster).await;
    assert_eq!(cluster.holders_of_record(set), [id(1), id(2), id(3)].into());
    assert_eq!(size_at(&cluster, 3, set).await, 5_000);
    assert!(cluster.stored(3, key(&name(0))).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_waits_for_a_node_which_is_away_names_it() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    cluster.kill(3);
    cluster.set_records(3, &[]);
    cluster.kill(2);
    cluster.start_after_loss(3).await;
    let awaited =
        || cluster.store(1).transfers().awaited_after_loss().remove(&id(3)).unwrap_or_default();
    cluster.until("the second node is missed", || awaited() == [id(2)].into()).await;
    cluster.pass(Duration::from_secs(60)).await;
    assert!(cluster.control(1).read().layouts().lost_copies().next().is_some());
    cluster.start(2).await;
    until_whole(&cluster).await;
    assert!(cluster.store(1).transfers().awaited_after_loss().is_empty());
}
