//! What a client of the store can rely on, on one node.
#![allow(clippy::unwrap_used, reason = "a fixture that fails is a test that fails")]

use bytes::Bytes;
use quoit_cluster::{ControlPlane, NodeId};
use quoit_core::{
    CounterReserve, DeleteMode, DeleteRequest, Deleted, DotSequence, EntityTags, Precondition,
    PutRequest, ReadOptions, ReplicatedStore, RequestError, StoreSettings, Unmet, WriteOptions,
};
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::hash::RingSize;
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::object::{Metadata, Object};
use quoit_model::props::{BucketProps, PropUpdates, Quorum};
use quoit_store::error::StoreError;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use quoit_store::seam::{Clock, ManualClock};
use serde_json::{Value, json};
use std::sync::Arc;

const START_US: u64 = 1_700_000_000_000_000;
const SECOND_US: u64 = 1_000_000;

struct NoReserve;

impl CounterReserve for NoReserve {
    fn reserved(&self) -> u64 {
        0
    }

    fn reserve(&self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A store on the memory engine, with a clock that tests turn.
struct Fixture {
    store: Arc<ReplicatedStore>,
    clock: Arc<ManualClock>,
    _dir: tempfile::TempDir,
}

fn fixture_with(settings: StoreSettings) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let control = ControlPlane::open(
        &dir.path().join("control.redb"),
        quoit_cluster::Settings {
            node_name: "quoit@test".to_owned(),
            new_node_id: NodeId([7; 16]),
            ring_size: Some(RingSize::new(8).unwrap()),
            untyped_defaults: BucketProps::untyped(),
        },
    )
    .unwrap();
    let clock = Arc::new(ManualClock::at(START_US));
    let ring_size = control.layout().ring_size();
    let clock_of_engine = Arc::clone(&clock) as Arc<dyn Clock>;
    let engine = MemoryEngine::new(MemorySettings::default(), ring_size, clock_of_engine);
    let dots = DotSequence::new(Actor(b"actor-01"[..].into()), Box::new(NoReserve));
    let store = ReplicatedStore::new(
        Arc::new(engine),
        Arc::new(control),
        Arc::clone(&clock) as Arc<dyn Clock>,
        dots,
        settings,
    );
    Fixture { store: Arc::new(store), clock, _dir: dir }
}

fn fixture() -> Fixture {
    fixture_with(StoreSettings::default())
}

fn key(bucket_type: &'static str, key: &'static str) -> KeyRef<'static> {
    BucketRef { bucket_type: bucket_type.as_bytes(), bucket: b"bucket" }.key(key.as_bytes())
}

fn put_of(at: KeyRef<'static>, value: &'static str) -> PutRequest<'static> {
    PutRequest {
        key: at,
        context: VersionVector::default(),
        meta: Metadata::default(),
        value: Bytes::from_static(value.as_bytes()),
        deleted: false,
        as_is: false,
        precondition: Precondition::default(),
        return_object: false,
        options: WriteOptions::default(),
        vetoed: None,
    }
}

fn delete_of(at: KeyRef<'static>) -> DeleteRequest<'static> {
    DeleteRequest {
        key: at,
        context: None,
        precondition: Precondition::default(),
        rw: None,
        read: ReadOptions::default(),
        write: WriteOptions::default(),
    }
}

fn values(object: &Object) -> Vec<&str> {
    let mut values: Vec<_> = object
        .siblings
        .iter()
        .filter(|sibling| !sibling.deleted)
        .map(|sibling| std::str::from_utf8(&sibling.value).unwrap())
        .collect();
    values.sort_unstable();
    values
}

impl Fixture {
    fn create_type(&self, name: &str, props: Value) {
        let Value::Object(props) = props else { panic!("properties are an object") };
        let control = self.store.control();
        control.create_type(name.as_bytes(), &PropUpdates::from(props)).unwrap();
        control.activate_type(name.as_bytes()).unwrap();
    }

    async fn get(&self, at: KeyRef<'_>) -> Option<Object> {
        self.store.get(at, &ReadOptions::default()).await.unwrap()
    }

    async fn put(&self, at: KeyRef<'static>, value: &'static str) {
        self.store.put(put_of(at, value)).await.unwrap();
    }

    fn reap(&self) -> usize {
        self.store.reap_step(3_000).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_replaces_what_its_context_covers_and_joins_what_it_does_not() {
    let fixture = fixture();
    fixture.create_type("sibs", json!({"allow_mult": true}));
    let at = key("sibs", "k");
    fixture.put(at, "one").await;
    let read = fixture.get(at).await.unwrap();
    fixture.put(at, "blind").await;
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["blind", "one"]);

    let covering = PutRequest { context: read.clock, ..put_of(at, "two") };
    fixture.store.put(covering).await.unwrap();
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["blind", "two"]);

    let context = fixture.get(at).await.unwrap().clock;
    fixture.store.put(PutRequest { context, ..put_of(at, "resolved") }).await.unwrap();
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["resolved"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_siblings_the_latest_write_is_shown() {
    let fixture = fixture();
    let at = key("default", "k");
    fixture.put(at, "one").await;
    fixture.clock.advance_us(SECOND_US);
    fixture.put(at, "two").await;
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_writes_within_one_tick_of_the_clock_the_second_is_shown() {
    let fixture = fixture();
    let at = key("default", "k");
    fixture.put(at, "one").await;
    fixture.put(at, "two").await;
    let object = fixture.get(at).await.unwrap();
    assert_eq!(values(&object), ["two"]);
    assert_eq!(object.last_modified_us(), START_US + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn last_write_wins_ignores_contexts() {
    let fixture = fixture();
    let props = json!({"allow_mult": false, "last_write_wins": true, "dvv_enabled": false});
    fixture.create_type("lww", props);
    let at = key("lww", "k");
    fixture.put(at, "one").await;
    let first = fixture.get(at).await.unwrap().clock;
    fixture.put(at, "two").await;
    fixture.store.put(PutRequest { context: first, ..put_of(at, "three") }).await.unwrap();
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn last_writes_have_rising_times_though_they_do_not_look_at_each_other() {
    let fixture = fixture();
    let props = json!({"allow_mult": false, "last_write_wins": true, "dvv_enabled": false});
    fixture.create_type("lww", props);
    let at = key("lww", "k");
    let mut times_us = Vec::new();
    for value in ["one", "two", "three"] {
        fixture.put(at, value).await;
        times_us.push(fixture.get(at).await.unwrap().last_modified_us());
    }
    assert_eq!(times_us, [START_US, START_US + 1, START_US + 2]);
    fixture.store.delete(delete_of(at)).await.unwrap();
    fixture.put(at, "four").await;
    let object = fixture.get(at).await.unwrap();
    assert_eq!((values(&object), object.last_modified_us()), (vec!["four"], START_US + 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_put_as_it_is_where_the_last_write_wins_joins_what_is_stored() {
    let fixture = fixture();
    let props = json!({"allow_mult": false, "last_write_wins": true, "dvv_enabled": false});
    fixture.create_type("lww", props);
    let at = key("lww", "k");
    fixture.put(at, "one").await;
    let known = fixture.get(at).await.unwrap().clock;
    let elsewhere = VersionVector::from_entries([Dot {
        actor: Actor(b"elsewhere"[..].into()),
        counter: 7,
        time_secs: 0,
    }]);
    let given = PutRequest { context: elsewhere.clone(), as_is: true, ..put_of(at, "given") };
    fixture.store.put(given).await.unwrap();
    let object = fixture.get(at).await.unwrap();
    assert_eq!(values(&object), ["given"]);
    assert!(object.clock.descends(&known) && object.clock.descends(&elsewhere));
}

#[tokio::test(flavor = "multi_thread")]
async fn write_once_keeps_both_of_two_writes() {
    let fixture = fixture();
    fixture.create_type("once", json!({"write_once": true}));
    let at = key("once", "k");
    fixture.put(at, "one").await;
    let context = fixture.get(at).await.unwrap().clock;
    fixture.store.put(PutRequest { context, ..put_of(at, "two") }).await.unwrap();
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["one", "two"]);
    assert_eq!(fixture.store.delete(delete_of(at)).await.unwrap(), Deleted::Done);
    assert!(fixture.get(at).await.unwrap().is_tombstone());
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_decided_with_the_write() {
    let fixture = fixture();
    let at = key("default", "k");
    let only_new = Precondition { not_exists: true, ..Precondition::default() };
    let create = PutRequest { precondition: only_new, return_object: true, ..put_of(at, "one") };
    let created = fixture.store.put(create.clone()).await.unwrap().unwrap();
    let again = fixture.store.put(create).await;
    assert!(matches!(again, Err(RequestError::Unmet(Unmet::Exists))), "{again:?}");

    let unchanged = |clock: &VersionVector| PutRequest {
        context: clock.clone(),
        precondition: Precondition { clock: Some(clock.clone()), ..Precondition::default() },
        ..put_of(at, "two")
    };
    fixture.store.put(unchanged(&created.clock)).await.unwrap();
    let stale = fixture.store.put(unchanged(&created.clock)).await;
    assert!(matches!(stale, Err(RequestError::Unmet(Unmet::Modified))), "{stale:?}");
    let elsewhere = PutRequest { key: key("default", "none"), ..unchanged(&created.clock) };
    let missing = fixture.store.put(elsewhere).await;
    assert!(matches!(missing, Err(RequestError::Unmet(Unmet::Missing))), "{missing:?}");
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_comes_before_the_quorums_of_the_write_and_after_those_of_its_read() {
    let fixture = fixture();
    let at = key("default", "k");
    let options = WriteOptions { w: Some(Quorum::Count(4)), ..WriteOptions::default() };
    let not_exists = Precondition { not_exists: true, ..Precondition::default() };
    let create = PutRequest { precondition: not_exists, options, ..put_of(at, "one") };
    let refused = fixture.store.put(create.clone()).await;
    assert!(matches!(refused, Err(RequestError::NVal(_))), "{refused:?}");
    fixture.put(at, "one").await;
    let refused = fixture.store.put(create).await;
    assert!(matches!(refused, Err(RequestError::Unmet(Unmet::Exists))), "{refused:?}");

    let mut updates = PropUpdates::default();
    updates.set("r", 7);
    fixture.store.control().set_bucket_props(at.bucket, &updates).unwrap();
    let clock = Some(VersionVector::default());
    let same = Precondition { clock, ..Precondition::default() };
    let refused = fixture.store.put(PutRequest { precondition: same, ..put_of(at, "two") }).await;
    assert!(matches!(refused, Err(RequestError::NVal(_))), "{refused:?}");
    fixture.put(at, "three").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_and_deletes_mean_what_readers_are_shown() {
    let fixture = fixture();
    let at = key("default", "k");
    let set = |allow_mult: bool| {
        let mut updates = PropUpdates::default();
        updates.set("allow_mult", allow_mult);
        fixture.store.control().set_bucket_props(at.bucket, &updates).unwrap();
    };
    set(true);
    fixture.put(at, "one").await;
    fixture.clock.advance_us(SECOND_US);
    fixture.put(at, "two").await;
    set(false);
    let shown = fixture.get(at).await.unwrap();
    assert_eq!(values(&shown), ["two"]);
    let any_match = Some(EntityTags::Tags(vec![shown.etag()]));
    let precondition = Precondition { any_match, ..Precondition::default() };
    fixture.store.put(PutRequest { precondition, ..put_of(at, "three") }).await.unwrap();

    set(true);
    fixture.put(at, "four").await;
    fixture.clock.advance_us(SECOND_US);
    let blind = Some(VersionVector::default());
    fixture.store.delete(DeleteRequest { context: blind, ..delete_of(at) }).await.unwrap();
    set(false);
    assert!(fixture.get(at).await.unwrap().is_tombstone(), "the delete came last");
    assert_eq!(fixture.store.delete(delete_of(at)).await.unwrap(), Deleted::Missing);
    let not_exists = Precondition { not_exists: true, ..Precondition::default() };
    let create = PutRequest { precondition: not_exists, ..put_of(at, "five") };
    fixture.store.put(create).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_conditional_creations_succeeds() {
    let fixture = fixture();
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let store = Arc::clone(&fixture.store);
            let precondition = Precondition { not_exists: true, ..Precondition::default() };
            let request = PutRequest { precondition, ..put_of(key("default", "k"), "v") };
            tokio::spawn(async move { store.put(request).await.is_ok() })
        })
        .collect();
    let mut created_count = 0;
    for task in tasks {
        created_count += u32::from(task.await.unwrap());
    }
    assert_eq!(created_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_leaves_a_tombstone_that_is_reaped_when_it_is_due() {
    let fixture = fixture();
    let at = key("default", "k");
    assert_eq!(fixture.store.delete(delete_of(at)).await.unwrap(), Deleted::Missing);
    fixture.put(at, "one").await;
    assert_eq!(fixture.store.delete(delete_of(at)).await.unwrap(), Deleted::Done);
    assert_eq!(fixture.store.delete(delete_of(at)).await.unwrap(), Deleted::Missing);
    assert!(fixture.get(at).await.unwrap().is_tombstone());
    fixture.clock.advance_us(2_900_000);
    assert_eq!(fixture.reap(), 0);
    fixture.clock.advance_us(200_000);
    assert_eq!(fixture.reap(), 1);
    assert_eq!(fixture.get(at).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_written_again_is_not_reaped() {
    let fixture = fixture();
    let at = key("default", "k");
    fixture.put(at, "one").await;
    fixture.store.delete(delete_of(at)).await.unwrap();
    fixture.put(at, "two").await;
    fixture.clock.advance_us(10 * SECOND_US);
    assert_eq!(fixture.reap(), 0);
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_from_before_a_delete_does_not_cover_what_came_after() {
    let fixture = fixture();
    fixture.create_type("sibs", json!({"allow_mult": true}));
    let at = key("sibs", "k");
    for value in ["one", "two", "three"] {
        fixture.put(at, value).await;
    }
    let old = fixture.get(at).await.unwrap().clock;
    fixture.store.delete(delete_of(at)).await.unwrap();
    fixture.clock.advance_us(10 * SECOND_US);
    assert_eq!(fixture.reap(), 1);
    fixture.put(at, "anew").await;
    fixture.store.put(PutRequest { context: old, ..put_of(at, "late") }).await.unwrap();
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["anew", "late"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_with_a_stale_context_leaves_the_later_value() {
    let fixture = fixture();
    fixture.create_type("sibs", json!({"allow_mult": true}));
    let at = key("sibs", "k");
    fixture.put(at, "one").await;
    let stale = fixture.get(at).await.unwrap().clock;
    fixture.put(at, "two").await;
    let request = DeleteRequest { context: Some(stale), ..delete_of(at) };
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
    kept.store.delete(delete_of(at)).await.unwrap();
    kept.clock.advance_us(1_000 * SECOND_US);
    assert!(kept.get(at).await.unwrap().is_tombstone());

    let immediate = fixture_with(settings(DeleteMode::Immediate));
    immediate.put(at, "one").await;
    immediate.store.delete(delete_of(at)).await.unwrap();
    assert_eq!(immediate.get(at).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn quorums_above_the_number_of_replicas_fail_before_anything_is_written() {
    let fixture = fixture();
    let at = key("default", "k");
    let options = WriteOptions { w: Some(Quorum::Count(4)), ..WriteOptions::default() };
    let refused = fixture.store.put(PutRequest { options, ..put_of(at, "one") }).await;
    assert_eq!(refused.unwrap_err().to_string(), "{n_val_violation,3}");
    assert_eq!(fixture.get(at).await, None);
    let options = ReadOptions { n_val: Some(9), ..ReadOptions::default() };
    let refused = fixture.store.get(at, &options).await;
    assert_eq!(refused.unwrap_err().to_string(), "{n_val_violation,9}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quorum_of_a_deletes_write_matters_only_when_there_is_something_to_delete() {
    let fixture = fixture();
    let at = key("default", "k");
    let write = WriteOptions { w: Some(Quorum::Count(9)), ..WriteOptions::default() };
    let request = DeleteRequest { write, ..delete_of(at) };
    assert_eq!(fixture.store.delete(request.clone()).await.unwrap(), Deleted::Missing);
    fixture.put(at, "one").await;
    assert!(matches!(fixture.store.delete(request).await, Err(RequestError::NVal(_))));
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_nodes_than_there_are_fail_a_read_and_report_a_write_that_stands() {
    let fixture = fixture();
    let at = key("default", "k");
    let two = Some(Quorum::Count(2));
    let options = WriteOptions { node_confirms: two, ..WriteOptions::default() };
    let put = fixture.store.put(PutRequest { options, ..put_of(at, "one") }).await;
    assert!(matches!(put, Err(RequestError::Unsatisfied { wanted: 2, got: 1, .. })), "{put:?}");
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["one"]);
    let options = ReadOptions { node_confirms: two, ..ReadOptions::default() };
    let get = fixture.store.get(at, &options).await;
    assert!(matches!(get, Err(RequestError::InsufficientNodes { have: 1, wanted: 2 })));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_refuse_what_is_too_large_and_let_siblings_be_resolved() {
    let mut settings = StoreSettings::default();
    settings.limits.object_size_bytes_max = 500;
    settings.limits.sibling_count_max = 3;
    let fixture = fixture_with(settings);
    fixture.create_type("sibs", json!({"allow_mult": true}));
    let at = key("sibs", "k");
    let large = PutRequest { value: Bytes::from(vec![b'x'; 501]), ..put_of(at, "") };
    let refused = fixture.store.put(large).await;
    assert!(matches!(refused, Err(RequestError::ObjectTooLarge { .. })), "{refused:?}");
    for value in ["one", "two", "three"] {
        fixture.put(at, value).await;
    }
    let fourth = fixture.store.put(put_of(at, "four")).await;
    assert!(matches!(fourth, Err(RequestError::TooManySiblings(4))), "{fourth:?}");
    let context = fixture.get(at).await.unwrap().clock;
    fixture.store.put(PutRequest { context, ..put_of(at, "resolved") }).await.unwrap();
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["resolved"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_and_inactive_types_are_refused_by_name() {
    let fixture = fixture();
    fixture.store.control().create_type(b"idle", &PropUpdates::default()).unwrap();
    for name in ["none", "idle"] {
        let refused = fixture.store.put(put_of(key(name, "k"), "v")).await;
        let Err(RequestError::NoSuchType(named)) = refused else { panic!("{refused:?}") };
        assert_eq!(named, name.as_bytes());
        assert!(fixture.store.list_buckets(name.as_bytes()).is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_with_events_that_never_were_is_refused() {
    let fixture = fixture();
    let at = key("default", "k");
    fixture.put(at, "one").await;
    let mut context = fixture.get(at).await.unwrap().clock;
    let mut dot = context.entries()[0].clone();
    dot.counter += 1_000;
    context.advance(&dot);
    let refused = fixture.store.put(PutRequest { context, ..put_of(at, "two") }).await;
    assert!(matches!(refused, Err(RequestError::Context(_))), "{refused:?}");
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_promises_strong_consistency_is_refused_and_nothing_is_stored() {
    let fixture = fixture();
    fixture.create_type("strict", json!({"consistent": true}));
    let at = key("strict", "k");
    let refused = |fault: RequestError| {
        assert!(matches!(&fault, RequestError::Consistent(name) if name == b"strict"), "{fault}");
    };
    refused(fixture.store.put(put_of(at, "one")).await.unwrap_err());
    refused(fixture.store.get(at, &ReadOptions::default()).await.unwrap_err());
    let delete = DeleteRequest {
        key: at,
        context: None,
        precondition: Precondition::default(),
        rw: None,
        read: ReadOptions::default(),
        write: WriteOptions::default(),
    };
    refused(fixture.store.delete(delete).await.unwrap_err());
    assert_eq!(fixture.store.engine().stats().key_count, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_expire_by_their_buckets_ttl_or_their_own() {
    let fixture = fixture();
    fixture.create_type("short", json!({"ttl": 60}));
    let (by_bucket, own) = (key("short", "bucket"), key("short", "own"));
    fixture.put(by_bucket, "one").await;
    let expires_at_secs = Some((START_US / SECOND_US) as u32 + 120);
    let meta = Metadata { expires_at_secs, ..Metadata::default() };
    fixture.store.put(PutRequest { meta, ..put_of(own, "two") }).await.unwrap();
    fixture.clock.advance_us(59 * SECOND_US);
    assert!(fixture.get(by_bucket).await.is_some());
    fixture.clock.advance_us(2 * SECOND_US);
    assert_eq!(fixture.get(by_bucket).await, None);
    assert!(fixture.get(own).await.is_some());
    fixture.clock.advance_us(60 * SECOND_US);
    assert_eq!(fixture.get(own).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn listings_are_complete_over_many_chunks() {
    let fixture = fixture();
    let mut wanted = Vec::new();
    for number in 0..2_500 {
        let name: &'static str = Box::leak(format!("key-{number:05}").into_boxed_str());
        fixture.put(key("default", name), "v").await;
        wanted.push(Bytes::from_static(name.as_bytes()));
    }
    let bucket = BucketRef::untyped(b"bucket");
    let mut listing = fixture.store.list_keys(bucket).unwrap();
    let mut listed = Vec::new();
    while let Some(keys) = listing.next().await.unwrap() {
        listed.extend(keys);
    }
    listed.sort();
    assert_eq!(listed, wanted);
    let mut buckets = fixture.store.list_buckets(b"default").unwrap();
    assert_eq!(buckets.next().await.unwrap(), Some(vec![Bytes::from_static(b"bucket")]));
    assert_eq!(buckets.next().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_keys_are_all_different() {
    let fixture = fixture();
    let mut keys: Vec<_> = (0..1_000).map(|_| fixture.store.generate_key().unwrap()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 1_000);
}
