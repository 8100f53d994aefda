//! Tests of data types whose copies are given away and come back.

use crate::fixture::*;
use bytes::Bytes;
use quoit_cluster::StagedChange;
use quoit_core::{
    Counter, DataTypeRequest, ReadOptions, ReplicatedStore, TransferLimits, WriteOptions,
};
use quoit_model::data_type::pages::PagedObject;
use quoit_model::data_type::{
    FieldOperation, FieldUpdate, MapOperation, Operation, SetChange, Value,
};
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use quoit_store::engine::Record;
use serde_json::json;
use std::time::Duration;

const COUNT: usize = 20;

async fn count_up(cluster: &TestCluster, number: u8, key: KeyRef<'_>) {
    let operation = Operation::Counter(1);
    let (context, return_value, options) = (None, false, WriteOptions::default());
    let request = DataTypeRequest { key, operation, context, return_value, options };
    cluster.store(number).update_data_type(request).await.unwrap();
}

/// The last event of each actor of a record.
fn events(cluster: &TestCluster, number: u8, key: KeyRef<'_>) -> Vec<(Vec<u8>, u64)> {
    let object = cluster.stored(number, key).unwrap();
    let entries = object.clock.entries().iter();
    entries.map(|entry| (entry.actor.0.to_vec(), entry.counter)).collect()
}

#[tokio::test(start_paused = true)]
async fn no_event_is_made_twice_when_a_copy_was_given_away_and_comes_back_older_after_a_restart() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.create_type("counters", json!({"datatype": "counter", "allow_mult": true})).await;
    let names: Vec<String> = (0..COUNT).map(|index| format!("key {index}")).collect();
    let mut older: Vec<Record> = Vec::new();
    for name in &names {
        let key = key_in("counters", name);
        count_up(&cluster, 1, key).await;
        older.push(cluster.record(1, key).unwrap());
        count_up(&cluster, 1, key).await;
    }
    cluster.add().await;
    cluster.join(4).await;
    cluster.commit(1).await;
    cluster.until_moved(1, 0).await;
    let is_given_away = |index: &usize| {
        !cluster.primaries_of(1, key_in("counters", &names[*index]), 3).contains(&id(1))
    };
    let given_away = (0..COUNT).find(is_given_away).expect("some move away from the first");
    let key = key_in("counters", &names[given_away]);
    cluster.until("the copy is removed", || cluster.stored(1, key).is_none()).await;
    let before = events(&cluster, 2, key);
    assert_eq!(before.iter().map(|(_, counter)| *counter).collect::<Vec<_>>(), [2]);
    cluster.stop(1);
    cluster.start(1).await;
    cluster.until("the node is back", || cluster.control(2).is_reachable(id(1))).await;
    cluster.stage(StagedChange::Leave { node: id(4) }).await;
    cluster.commit(1).await;
    cluster.until_moved(1, 0).await;
    // As from a replica that lacks the last event.
    cluster.restore_removed_at(1, key, &older[given_away]);
    count_up(&cluster, 1, key).await;
    let after = events(&cluster, 1, key);
    let of_before = after.iter().find(|(actor, _)| *actor == before[0].0).expect("it is known");
    assert_eq!((of_before.1, after.len()), (1, 2), "a new incarnation goes on: {after:?}");
}

#[tokio::test(start_paused = true)]
async fn copies_stay_as_long_as_it_can_not_be_noted_that_they_go() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(2, COUNT).await;
    (1..=3).for_each(|number| cluster.counters(number).set_full(true));
    cluster.add().await;
    cluster.join(4).await;
    cluster.commit(1).await;
    cluster
        .until("the new copies are complete", || !cluster.control(1).read().layouts().is_moving())
        .await;
    let holders = |cluster: &TestCluster| -> usize {
        (0..COUNT).map(|index| cluster.holders(&format!("key {index}")).len()).sum()
    };
    cluster.until("the fourth has its copies", || holders(&cluster) > 3 * COUNT).await;
    cluster.pass(Duration::from_secs(10)).await;
    let suspects = |number| cluster.store(number).transfers().stats().stray_partition_count;
    assert!((1..=3).map(suspects).sum::<u64>() > 0);
    assert!(holders(&cluster) > 3 * COUNT, "nothing was removed");
    (1..=3).for_each(|number| cluster.counters(number).set_full(false));
    cluster.until_moved(4, COUNT).await;
}

/// Total of a counter over all nodes.
fn total(cluster: &TestCluster, counter: Counter) -> u64 {
    let of = |number| cluster.store(number).stats().snapshot().total(counter);
    cluster.running().into_iter().map(of).sum()
}

pub async fn add(
    cluster: &TestCluster,
    number: u8,
    key: KeyRef<'_>,
    elements: Vec<Bytes>,
    w: Quorum,
) {
    let operation = Operation::Set(elements.into_iter().map(SetChange::Add).collect());
    update(cluster, number, key, operation, w).await;
}

/// Adds elements to a set in a map in a map.
pub async fn add_in_map(
    cluster: &TestCluster,
    number: u8,
    key: KeyRef<'_>,
    elements: Vec<Bytes>,
    w: Quorum,
) {
    let set = FieldOperation::Set(elements.into_iter().map(SetChange::Add).collect());
    let map = |update| MapOperation { updates: vec![update], ..MapOperation::default() };
    let inner = FieldOperation::Map(map(FieldUpdate::new("tags", set)));
    let operation = Operation::Map(map(FieldUpdate::new("inner", inner)));
    update(cluster, number, key, operation, w).await;
}

/// Adds an element to a set, at the given node's store.
pub async fn add_at(store: &ReplicatedStore, key: KeyRef<'_>, element: String) {
    let operation = Operation::Set(vec![SetChange::Add(element.into())]);
    let options = WriteOptions {
        w: Some(Quorum::Count(2)),
        dw: Some(Quorum::Count(0)),
        ..WriteOptions::default()
    };
    let request = DataTypeRequest { key, operation, context: None, return_value: false, options };
    store.update_data_type(request).await.unwrap();
}

async fn update(
    cluster: &TestCluster,
    number: u8,
    key: KeyRef<'_>,
    operation: Operation,
    w: Quorum,
) {
    let options =
        WriteOptions { w: Some(w), dw: Some(Quorum::Count(0)), ..WriteOptions::default() };
    let request = DataTypeRequest { key, operation, context: None, return_value: false, options };
    cluster.store(number).update_data_type(request).await.unwrap();
}

/// Number of elements of a set in a node's copy.
pub async fn size_at(cluster: &TestCluster, number: u8, key: KeyRef<'_>) -> usize {
    let options = ReadOptions { r: Some(Quorum::One), ..ReadOptions::default() };
    let found = cluster.store(number).fetch_data_type(key, &options).await.unwrap();
    found.map_or(0, |found| element_count(&found.value))
}

/// Number of elements of a set, or of all sets in a map.
pub fn element_count(value: &Value) -> usize {
    match value {
        Value::Set(elements) => elements.len(),
        Value::Map(fields) => fields.iter().map(|(_, value)| element_count(value)).sum(),
        other => panic!("{other:?}"),
    }
}

/// A cluster with a large set on all nodes. The last node is down, and its copy lacks a change.
async fn cluster_with_stale_copy(element_count: u32) -> TestCluster {
    let mut cluster = TestCluster::joined(3).await;
    cluster.create_type("sets", json!({"datatype": "set", "allow_mult": true})).await;
    let key = key_in("sets", "large");
    let all: Vec<Bytes> = (0..element_count).map(|number| number.to_string().into()).collect();
    for some in all.chunks(10_000) {
        add(&cluster, 1, key, some.to_vec(), Quorum::All).await;
    }
    cluster.kill(3);
    add(&cluster, 1, key, vec!["missed".into()], Quorum::Count(2)).await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_large_set_that_has_missed_a_change_is_sent_what_differs() {
    let mut cluster = cluster_with_stale_copy(100_000).await;
    let key = key_in("sets", "large");
    // Hints of the other nodes are not delivered, so the node has to find the difference itself.
    for number in [1, 2] {
        let limits = TransferLimits { outbound: false, ..TransferLimits::default() };
        cluster.store(number).transfers().set_limits(limits);
    }
    cluster.start(3).await;
    cluster.pass(Duration::from_secs(100)).await;
    for number in 1..=3 {
        assert_eq!(size_at(&cluster, number, key).await, 100_001, "node {number}");
    }
    assert!(total(&cluster, Counter::ExchangeKeysRepaired) > 0);
    let sent_bytes = total(&cluster, Counter::ExchangeBytesRepaired);
    assert!(sent_bytes < 12_000, "{sent_bytes} bytes were sent");
}

/// No node may send, so the set can't be made equal by ranges. It is fetched as a whole.
#[tokio::test(start_paused = true)]
async fn a_large_set_is_fetched_beside_other_records_where_sending_is_switched_off() {
    let mut cluster = cluster_with_stale_copy(20_000).await;
    let set = key_in("sets", "large");
    let names = (0..).map(|index| format!("key {index}"));
    let is_beside = |name: &String| cluster.partition_of(key(name)) == cluster.partition_of(set);
    let beside: Vec<String> = names.filter(is_beside).take(COUNT).collect();
    for name in &beside {
        cluster.put(1, name, "value").await;
    }
    let limits = TransferLimits { outbound: false, ..TransferLimits::default() };
    cluster.set_limits(limits);
    cluster.start(3).await;
    cluster.store(3).transfers().set_limits(limits);
    cluster.pass(Duration::from_secs(100)).await;
    assert_eq!(size_at(&cluster, 3, set).await, 20_001);
    for name in &beside {
        assert!(cluster.stored(3, key(name)).is_some(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_set_in_a_map_that_has_missed_a_change_is_sent_what_differs() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.create_type("maps", json!({"datatype": "map", "allow_mult": true})).await;
    let key = key_in("maps", "large");
    let all: Vec<Bytes> = (0..20_000).map(|number| number.to_string().into()).collect();
    for some in all.chunks(5_000) {
        add_in_map(&cluster, 1, key, some.to_vec(), Quorum::All).await;
    }
    cluster.kill(3);
    add_in_map(&cluster, 1, key, vec!["missed".into()], Quorum::Count(2)).await;
    // Hints of the other nodes are not delivered, so the node has to find the difference itself.
    for number in [1, 2] {
        let limits = TransferLimits { outbound: false, ..TransferLimits::default() };
        cluster.store(number).transfers().set_limits(limits);
    }
    cluster.start(3).await;
    cluster.pass(Duration::from_secs(100)).await;
    for number in 1..=3 {
        assert_eq!(size_at(&cluster, number, key).await, 20_001, "node {number}");
    }
    assert!(total(&cluster, Counter::ExchangeKeysRepaired) > 0);
    let sent_bytes = total(&cluster, Counter::ExchangeBytesRepaired);
    assert!(sent_bytes < 12_000, "{sent_bytes} bytes were sent");
}

#[tokio::test(start_paused = true)]
async fn what_was_kept_for_a_large_set_is_handed_over_by_what_differs() {
    let mut cluster = cluster_with_stale_copy(20_000).await;
    let key = key_in("sets", "large");
    let puts_before = total(&cluster, Counter::ReplicaPuts);
    let is_kept = |number| cluster.hint_counts(number).0 > 0;
    assert!((1..=2).any(is_kept), "what the third has missed");
    cluster.start(3).await;
    cluster
        .until("nothing is kept any more", || {
            (1..=2).all(|number| cluster.hint_counts(number).0 == 0)
        })
        .await;
    for number in 1..=3 {
        assert_eq!(size_at(&cluster, number, key).await, 20_001, "node {number}");
    }
    assert_eq!(total(&cluster, Counter::ReplicaPuts), puts_before);
    let handed: u64 =
        (1..=2).map(|number| cluster.store(number).transfers().stats().byte_count).sum();
    assert!(handed > 0 && handed < 12_000, "{handed} bytes were sent");
}

#[tokio::test(start_paused = true)]
async fn a_read_of_copies_that_differ_repairs_them_by_what_differs() {
    let mut cluster = cluster_with_stale_copy(20_000).await;
    let key = key_in("sets", "large");
    for number in [1, 2] {
        let limits = TransferLimits { outbound: false, ..TransferLimits::default() };
        cluster.store(number).transfers().set_limits(limits);
    }
    cluster.start(3).await;
    cluster.until("it is back", || cluster.control(1).is_reachable(id(3))).await;
    let options = ReadOptions { r: Some(Quorum::All), ..ReadOptions::default() };
    let puts_before = total(&cluster, Counter::ReplicaPuts);
    let found = cluster.store(3).fetch_data_type(key, &options).await.unwrap();
    let Some(Value::Set(elements)) = found.map(|found| found.value) else { panic!("a set") };
    assert_eq!(elements.len(), 20_001);
    for number in 1..=3 {
        assert_eq!(size_at(&cluster, number, key).await, 20_001, "node {number}");
    }
    assert!(total(&cluster, Counter::ReadRepairs) >= 1);
    assert_eq!(total(&cluster, Counter::ReplicaPuts), puts_before, "no copy was sent whole");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_behind_is_fetched_where_nothing_may_be_sent() {
    let mut cluster = cluster_with_stale_copy(20_000).await;
    let key = key_in("sets", "large");
    cluster.start(3).await;
    for number in 1..=3 {
        let limits = TransferLimits { outbound: false, ..TransferLimits::default() };
        cluster.store(number).transfers().set_limits(limits);
    }
    cluster.pass(Duration::from_secs(100)).await;
    assert_eq!(size_at(&cluster, 3, key).await, 20_001);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_behind_and_damaged_holds_up_no_other() {
    let mut cluster = TestCluster::joined_on_disks(3).await;
    cluster.create_type("sets", json!({"datatype": "set", "allow_mult": true})).await;
    let keys: Vec<String> = (0..6).map(|number| format!("large{number}")).collect();
    for key in &keys {
        let all = (0..5_000).map(|number| Bytes::from(number.to_string())).collect();
        add(&cluster, 1, key_in("sets", key), all, Quorum::All).await;
    }
    // Puts the pages into segments that are full, and the roots into the last segment.
    cluster.put_many(1, 100).await;
    for key in &keys {
        add(&cluster, 1, key_in("sets", key), vec!["last".into()], Quorum::All).await;
    }
    cluster.rot(3);
    cluster.kill(3);
    for key in &keys {
        add(&cluster, 1, key_in("sets", key), vec!["missed".into()], Quorum::Count(2)).await;
    }
    for number in [1, 2] {
        let limits = TransferLimits { outbound: false, ..TransferLimits::default() };
        cluster.store(number).transfers().set_limits(limits);
    }
    cluster.start(3).await;
    // Long before nodes verify their data.
    cluster.pass(Duration::from_secs(200)).await;
    for key in &keys {
        assert_eq!(size_at(&cluster, 3, key_in("sets", key)).await, 5_002, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn damaged_pages_are_healed_before_they_are_read() {
    let mut cluster = TestCluster::joined_on_disks(3).await;
    cluster.create_type("sets", json!({"datatype": "set", "allow_mult": true})).await;
    let key = key_in("sets", "large");
    let all: Vec<Bytes> = (0..20_000).map(|number| number.to_string().into()).collect();
    for some in all.chunks(5_000) {
        add(&cluster, 3, key, some.to_vec(), Quorum::All).await;
    }
    // Puts the pages into segments that are full, and the root into the last segment.
    cluster.put_many(1, 100).await;
    add(&cluster, 3, key, vec!["last".into()], Quorum::All).await;
    let events_of_third = |cluster: &TestCluster| {
        let own = cluster.record(3, key).unwrap();
        let clock = PagedObject::decode(&own.value).unwrap().causal_clock().unwrap();
        clock.vector().entries().iter().map(|entry| entry.counter).max().unwrap()
    };
    let before = events_of_third(&cluster);
    cluster.rot(3);
    // A node begins to verify ten minutes after its start.
    cluster.pass(Duration::from_secs(700)).await;
    let (damaged, healed) =
        (total(&cluster, Counter::DamagedRecords), total(&cluster, Counter::HealedRecords));
    assert!(damaged > 200, "{damaged} records and pages are damaged");
    assert_eq!(healed, damaged);
    [1, 2].into_iter().for_each(|number| cluster.kill(number));
    assert_eq!(size_at(&cluster, 3, key).await, 20_001);
    // The node makes no event again that it may have forgotten.
    add(&cluster, 3, key, vec!["after".into()], Quorum::One).await;
    let own = cluster.record(3, key).unwrap();
    let clock = PagedObject::decode(&own.value).unwrap().causal_clock().unwrap();
    let counters: Vec<u64> = clock.vector().entries().iter().map(|entry| entry.counter).collect();
    assert_eq!(counters, [before, 2], "by another incarnation");
}
