//! Deletes, tombstones, and their reaping.

use crate::one_node::fixture::{SECOND_US, fixture, fixture_on, fixture_with, key, put_of, values};
use bytes::Bytes;
use quoit_core::{Arrival, DeleteMode, DeleteOutcome, DeleteRequest, PutRequest, StoreSettings};
use quoit_model::props::Quorum;
use quoit_seam::{Disk, FaultyDisk, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use serde_json::json;
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_leaves_a_tombstone_that_is_reaped_when_it_is_due() {
    let fixture = fixture();
    let at = key("default", "k");
    assert_eq!(fixture.store.delete(DeleteRequest::of(at)).await.unwrap(), DeleteOutcome::Missing);
    fixture.put(at, "one").await;
    assert_eq!(fixture.store.delete(DeleteRequest::of(at)).await.unwrap(), DeleteOutcome::Done);
    assert_eq!(fixture.store.delete(DeleteRequest::of(at)).await.unwrap(), DeleteOutcome::Missing);
    assert!(fixture.get(at).await.unwrap().is_tombstone());
    fixture.clock.advance_us(2_900_000);
    assert_eq!(fixture.reap().await, 0);
    fixture.clock.advance_us(200_000);
    assert_eq!(fixture.reap().await, 1);
    assert_eq!(fixture.get(at).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_tombstone_does_not_keep_others_from_being_reaped() {
    let disk = Arc::new(FaultyDisk::new(1));
    let of_engine = Arc::clone(&disk);
    let fixture = fixture_on(StoreSettings::default(), |ring_size, clock| {
        let settings =
            BitcaskSettings { ring_size, recent_writes_bytes: 0, ..BitcaskSettings::new(1) };
        let (engine, _) = BitcaskEngine::open(of_engine, clock, &Threads, settings).unwrap();
        Arc::new(engine)
    });
    for name in ["damaged", "one", "two"] {
        fixture.put(key("default", name), "v").await;
        fixture.store.delete(DeleteRequest::of(key("default", name))).await.unwrap();
    }
    assert_eq!(fixture.reap().await, 0, "all three are queued");
    for name in disk.list().unwrap().into_iter().filter(|name| name.ends_with(".log")) {
        let bytes = disk.bytes(&name).unwrap();
        if let Some(offset) = bytes.windows(7).rposition(|part| part == b"damaged") {
            disk.flip_bit(&name, offset, 0);
        }
    }
    fixture.clock.advance_us(10 * SECOND_US);
    assert_eq!(fixture.reap().await, 2);
    assert_eq!(fixture.get(key("default", "two")).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_written_again_is_not_reaped() {
    let fixture = fixture();
    let at = key("default", "k");
    fixture.put(at, "one").await;
    fixture.store.delete(DeleteRequest::of(at)).await.unwrap();
    fixture.put(at, "two").await;
    fixture.clock.advance_us(10 * SECOND_US);
    assert_eq!(fixture.reap().await, 0);
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_from_before_a_delete_does_not_cover_what_came_after() {
    let fixture = fixture();
    fixture.create_type("sibs", json!({"allow_mult": true})).await;
    let at = key("sibs", "k");
    for value in ["one", "two", "three"] {
        fixture.put(at, value).await;
    }
    let old = fixture.get(at).await.unwrap().clock;
    fixture.store.delete(DeleteRequest::of(at)).await.unwrap();
    fixture.clock.advance_us(10 * SECOND_US);
    assert_eq!(fixture.reap().await, 1);
    fixture.put(at, "anew").await;
    fixture.store.put(PutRequest { context: old, ..put_of(at, "late") }).await.unwrap();
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["anew", "late"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_with_a_stale_context_leaves_the_later_value() {
    let fixture = fixture();
    fixture.create_type("sibs", json!({"allow_mult": true})).await;
    let at = key("sibs", "k");
    fixture.put(at, "one").await;
    let stale = fixture.get(at).await.unwrap().clock;
    fixture.put(at, "two").await;
    let request = DeleteRequest { context: Some(stale), ..DeleteRequest::of(at) };
    fixture.store.delete(request).await.unwrap();
    let object = fixture.get(at).await.unwrap();
    assert_eq!(values(&object), ["two"]);
    assert_eq!(object.siblings.iter().filter(|sibling| sibling.deleted).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_modes_keep_and_immediate_do_what_they_say() {
    let settings = |delete_mode| StoreSettings { delete_mode, ..StoreSettings::default() };
    let at = key("default", "k");
    let kept = fixture_with(settings(DeleteMode::Keep));
    kept.put(at, "one").await;
    kept.store.delete(DeleteRequest::of(at)).await.unwrap();
    kept.clock.advance_us(1_000 * SECOND_US);
    assert!(kept.get(at).await.unwrap().is_tombstone());

    let immediate = fixture_with(settings(DeleteMode::Immediate));
    immediate.put(at, "one").await;
    immediate.store.delete(DeleteRequest::of(at)).await.unwrap();
    assert_eq!(immediate.get(at).await, None);
}

/// A bucket is listed as long as it has a record, and a tombstone counts as one until it is reaped.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_of_tombstones_is_listed_until_they_are_reaped() {
    for (delete_mode, is_listed) in [(DeleteMode::Keep, true), (DeleteMode::Immediate, false)] {
        let fixture = fixture_with(StoreSettings { delete_mode, ..StoreSettings::default() });
        let at = key("default", "k");
        fixture.put(at, "one").await;
        fixture.store.delete(DeleteRequest::of(at)).await.unwrap();
        let mut buckets = fixture.store.listings().list_buckets(b"default").await.unwrap();
        let expected = is_listed.then(|| vec![Bytes::from_static(b"bucket")]);
        assert_eq!(buckets.next().await.unwrap(), expected, "{delete_mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_cluster_does_not_bring_back_what_a_lone_node_has_reaped() {
    let at = key("default", "k");
    let mut name = Vec::new();
    at.encode_into(&mut name);
    let name = Bytes::from(name);
    for delete_mode in [DeleteMode::default(), DeleteMode::Immediate] {
        for has_link in [true, false] {
            let settings = StoreSettings { delete_mode, ..StoreSettings::default() };
            let fixture = fixture_with(settings);
            fixture.store.set_consumes(has_link);
            fixture.put(at, "one").await;
            let old = fixture.get(at).await.unwrap();
            fixture.store.delete(DeleteRequest::of(at)).await.unwrap();
            fixture.clock.advance_us(10 * SECOND_US);
            fixture.reap().await;
            assert_eq!(fixture.get(at).await, None);
            let arrival = Arrival { visited: None, may_be_redelivery: false, dw: Quorum::Count(0) };
            fixture.store.replication().store_arrived(&name, &old, &arrival).await.unwrap();
            // Without a link the object can't arrive, so no reap record is made for it.
            assert_eq!(fixture.get(at).await.is_none(), has_link, "{delete_mode:?}");
        }
    }
}
