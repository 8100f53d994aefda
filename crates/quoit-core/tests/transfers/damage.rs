//! Tests of sources with damaged disks: a record that a source can't read must not count as handed over.

use crate::data_types::{add, element_count};
use crate::fixture::{TestCluster, id, key, key_in};
use bytes::Bytes;
use quoit_core::{
    ExchangeSettings, ItemSink, ReadOptions, StoreSettings, StreamOutcome, StreamedItems,
};
use quoit_model::data_type::pages::ShownItem;
use quoit_model::props::Quorum;
use serde_json::json;
use std::time::Duration;

const COUNT: usize = 100;

fn name(index: usize) -> String {
    format!("key {index}")
}

/// Three nodes on disks, without anti-entropy.
async fn without_exchanges() -> TestCluster {
    let exchanges = ExchangeSettings { active: false, ..ExchangeSettings::default() };
    let settings = StoreSettings { exchanges, ..StoreSettings::default() };
    TestCluster::joined_on_disks_with(3, settings).await
}

/// Number of records that a node is a primary of and can't read.
fn lacking(cluster: &TestCluster, number: u8) -> usize {
    let is_primary = |name: &str| cluster.primaries(1, name).contains(&id(number));
    let has = |name: &str| {
        cluster.is_readable(number, name) && cluster.record(number, key(name)).is_some()
    };
    (0..COUNT).map(name).filter(|name| is_primary(name) && !has(name)).count()
}

fn unreadable(cluster: &TestCluster, number: u8) -> usize {
    (0..COUNT).filter(|index| !cluster.is_readable(number, &name(*index))).count()
}

#[tokio::test(start_paused = true)]
async fn a_new_primary_gets_what_its_source_can_not_read_from_other_replicas() {
    let mut cluster = without_exchanges().await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, 0).await;
    cluster.rot(1);
    cluster.rot(2);
    assert!(unreadable(&cluster, 1) > COUNT / 2, "{} are damaged", unreadable(&cluster, 1));
    cluster.add().await;
    cluster.join(4).await;
    cluster.commit(1).await;
    cluster.until_moved(3, 0).await;
    assert_eq!(lacking(&cluster, 4), 0);
}

/// The replica that is away may have what the sources can't read.
#[tokio::test(start_paused = true)]
async fn a_new_copy_is_not_complete_while_damage_of_its_sources_can_not_be_healed() {
    let mut cluster = without_exchanges().await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    cluster.rot(1);
    cluster.rot(2);
    cluster.kill(3);
    cluster.until("its death is seen", || !cluster.control(1).is_reachable(id(3))).await;
    cluster.control(1).mark_down(id(3)).await.unwrap();
    cluster.add().await;
    cluster.join(4).await;
    cluster.commit(1).await;
    cluster.pass(Duration::from_secs(30)).await;
    assert!(cluster.control(1).read().layouts().is_moving());
    cluster.start(3).await;
    cluster.until_moved(3, 0).await;
    assert_eq!(lacking(&cluster, 4), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hint_whose_record_is_damaged_stays_until_another_replica_heals_it() {
    let mut cluster = without_exchanges().await;
    cluster.kill(3);
    cluster
        .until("its death is seen", || {
            let peer = cluster.internode(1).peer(id(3));
            peer.is_none_or(|peer| !peer.is_up())
        })
        .await;
    cluster.put_many(1, COUNT).await;
    cluster.until("all is noted", || cluster.hint_counts(1).0 == COUNT as u64).await;
    cluster.kill(2);
    cluster.rot(1);
    let damaged = unreadable(&cluster, 1);
    assert!(damaged > 0);
    cluster.start(3).await;
    cluster.pass(Duration::from_secs(30)).await;
    let left = cluster.hint_counts(1).0 as usize;
    assert!((damaged..COUNT).contains(&left), "{left} hints are left of {damaged} damaged records");
    cluster.start(2).await;
    cluster.until("the rest is delivered", || cluster.hint_counts(1).0 == 0).await;
    assert_eq!(lacking(&cluster, 3), 0);
}

/// A large set on all its primaries.
async fn store_large_set(cluster: &TestCluster) {
    cluster.create_type("sets", json!({"datatype": "set", "allow_mult": true})).await;
    let elements: Vec<Bytes> = (0..ELEMENT_COUNT).map(|each| each.to_string().into()).collect();
    add(cluster, 2, key_in("sets", "large"), elements, Quorum::All).await;
}

/// Removes a page of the set from a node.
fn lose_page(cluster: &TestCluster, number: u8) {
    let record = key_in("sets", "large").encoded();
    let page_count = || cluster.pages(number, &record).values().sum::<usize>();
    let before = page_count();
    cluster.lose_page(number, key_in("sets", "large"));
    assert_eq!(page_count(), before - 1);
}

const ELEMENT_COUNT: usize = 5_000;

/// Number of elements in a read of all replicas.
async fn count_of_all(cluster: &TestCluster, number: u8) -> Option<usize> {
    let options =
        ReadOptions { r: Some(Quorum::All), pr: Some(Quorum::All), ..ReadOptions::default() };
    let found = cluster.store(number).fetch_data_type(key_in("sets", "large"), &options).await;
    found.ok().flatten().map(|found| element_count(&found.value))
}

#[tokio::test(start_paused = true)]
async fn a_read_of_all_replicas_replaces_a_large_set_that_has_lost_a_page_here() {
    let cluster = without_exchanges().await;
    store_large_set(&cluster).await;
    lose_page(&cluster, 1);
    let before = cluster.record(2, key_in("sets", "large")).unwrap().meta.digest;
    assert_eq!(count_of_all(&cluster, 1).await, Some(ELEMENT_COUNT));
    assert_eq!(cluster.record(1, key_in("sets", "large")).unwrap().meta.digest, before);
}

/// Counts the elements that it receives.
#[derive(Default)]
struct ElementCount(usize);

impl ItemSink for ElementCount {
    fn begin(&mut self, _: StreamedItems) {
        self.0 = 0;
    }

    fn item(&mut self, _: ShownItem<'_>) {
        self.0 += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_a_large_set_that_has_lost_a_page_here_becomes_a_read_that_heals_it() {
    let mut cluster = without_exchanges().await;
    store_large_set(&cluster).await;
    lose_page(&cluster, 1);
    let at = key_in("sets", "large");
    let all = ReadOptions { r: Some(Quorum::All), ..ReadOptions::default() };
    let store = cluster.store(1);
    let outcome = store.stream_items(at, &all, &mut ElementCount::default()).await.unwrap();
    let StreamOutcome::Started(started) = outcome else { panic!("a page is lost: {outcome:?}") };
    let found = store.finish_fetch(*started).await.unwrap().unwrap();
    assert_eq!(element_count(&found.value), ELEMENT_COUNT);
    [2, 3].into_iter().for_each(|number| cluster.kill(number));
    let own = ReadOptions { r: Some(Quorum::One), ..ReadOptions::default() };
    let found = cluster.store(1).fetch_data_type(at, &own).await.unwrap().unwrap();
    assert_eq!(element_count(&found.value), ELEMENT_COUNT, "this node's copy is whole again");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_another_node_asked_for_a_damaged_large_set_heals_it_by_itself() {
    let mut cluster = without_exchanges().await;
    cluster.add().await;
    cluster.join(4).await;
    cluster.commit(1).await;
    cluster.until_moved(1, 0).await;
    store_large_set(&cluster).await;
    let primaries = cluster.primaries_of(1, key_in("sets", "large"), 3);
    let (inside, outside): (Vec<u8>, Vec<u8>) =
        (1..=4).partition(|number| primaries.contains(&id(*number)));
    // The read asks only one of the replicas for more than its digest.
    let mut failed_count = 0;
    for number in inside {
        lose_page(&cluster, number);
        failed_count += usize::from(count_of_all(&cluster, outside[0]).await.is_none());
        cluster.pass(Duration::from_secs(5)).await;
        assert_eq!(count_of_all(&cluster, outside[0]).await, Some(ELEMENT_COUNT), "node {number}");
    }
    assert!(failed_count > 0, "a page was missed");
}
