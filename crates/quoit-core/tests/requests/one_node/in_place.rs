//! Tests that requests in place store and show the same as general requests.

use crate::one_node::fixture::{Fixture, SECOND_US, fixture, fixture_on, key, put_of, values};
use crate::slow_disk::{SlowDisk, bitcask_on};
use bytes::Bytes;
use proptest::prelude::*;
use quoit_core::{
    Counter, DeleteRequest, PlainWrite, PutRequest, ReadInPlace, ReadOptions, RequestError,
    ShownObject, StoreSettings, WriteOptions,
};
use quoit_model::clock::VersionVector;
use quoit_model::key::KeyRef;
use quoit_model::object::{Metadata, Object};
use serde_json::json;
use std::sync::Arc;

const TYPES: [&str; 5] = ["default", "sibs", "lww", "once", "short"];
const KEYS: [&str; 2] = ["k", "l"];
const VALUES: [&str; 3] = ["one", "two", ""];

#[derive(Clone, Debug)]
enum Step {
    Put { at: usize, value: usize, content_type: bool, knows: bool, links: bool },
    Delete { at: usize },
    Pass { seconds: u64 },
}

fn any_step() -> impl Strategy<Value = Step> {
    let at = 0..TYPES.len() * KEYS.len();
    prop_oneof![
        8 => (at.clone(), 0..VALUES.len(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(at, value, content_type, knows, links)| {
                Step::Put { at, value, content_type, knows, links }
            }),
        1 => at.prop_map(|at| Step::Delete { at }),
        1 => (0u64..15).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

fn place(at: usize) -> KeyRef<'static> {
    key(TYPES[at % TYPES.len()], KEYS[at / TYPES.len()])
}

async fn with_types() -> Fixture {
    let fixture = fixture();
    fixture.create_type("sibs", json!({"allow_mult": true})).await;
    let props = json!({"allow_mult": false, "last_write_wins": true, "dvv_enabled": false});
    fixture.create_type("lww", props).await;
    fixture.create_type("once", json!({"write_once": true})).await;
    fixture.create_type("short", json!({"ttl": 10})).await;
    fixture
}

/// Puts in place if possible. True if it was.
async fn put_in_place(fixture: &Fixture, request: PutRequest<'static>) -> bool {
    let write = PlainWrite {
        key: request.key,
        context: request.context.clone(),
        content_type: request.meta.content_type.as_deref(),
        value: &request.value,
        shared: None,
        options: request.options,
    };
    let plain = request.meta.links.is_empty();
    let pending = if plain { fixture.store.put_in_place(&write).unwrap() } else { None };
    match pending {
        Some(pending) => {
            fixture.store.finish(pending).await.unwrap();
            true
        }
        None => {
            fixture.store.put(request).await.unwrap();
            false
        }
    }
}

/// Reads in place, and checks the object against the general read of the same store.
async fn get_in_place(fixture: &Fixture, at: KeyRef<'static>) -> Option<Object> {
    let general = fixture.get(at).await;
    let shown = fixture.store.get_in_place(at, &ReadOptions::default(), |found| match found {
        None => assert_eq!(general, None),
        Some(ShownObject::Whole(object)) => assert_eq!(Some(object), general),
        Some(ShownObject::Plain(plain) | ShownObject::Large(plain, _)) => {
            let object = general.as_ref().unwrap();
            let [sibling] = object.siblings.as_slice() else { panic!("{object:?} is plain") };
            assert!(plain.clock == object.clock && !sibling.deleted);
            assert_eq!(plain.value, sibling.value);
            assert_eq!(plain.vtag, sibling.vtag);
            assert_eq!(plain.last_modified_us, sibling.last_modified_us);
            assert_eq!(plain.content_type, sibling.meta.content_type.as_deref());
            assert_eq!(plain.expires_at_secs, sibling.meta.expires_at_secs);
        }
    });
    shown.unwrap().expect("memory never waits");
    general
}

/// An object as clients see it, without the counters of its events.
fn seen(object: Option<Object>) -> Vec<(Bytes, bool, u64, Metadata)> {
    let mut seen: Vec<_> = object
        .into_iter()
        .flat_map(|object| object.siblings)
        .map(|each| (each.value, each.deleted, each.last_modified_us, each.meta))
        .collect();
    seen.sort_by_key(|(value, deleted, time_us, _)| (value.clone(), *deleted, *time_us));
    seen
}

async fn run(steps: &[Step]) -> (u64, u64) {
    let (short, general) = (with_types().await, with_types().await);
    let (mut in_place_count, mut put_count) = (0, 0);
    for step in steps {
        match step {
            Step::Pass { seconds } => {
                short.clock.advance_us(seconds * SECOND_US);
                general.clock.advance_us(seconds * SECOND_US);
            }
            Step::Delete { at } => {
                let (one, other) = (DeleteRequest::of(place(*at)), DeleteRequest::of(place(*at)));
                assert_eq!(
                    short.store.delete(one).await.unwrap(),
                    general.store.delete(other).await.unwrap()
                );
            }
            Step::Put { at, value, content_type, knows, links } => {
                let at = place(*at);
                let link = quoit_model::object::Link::default();
                let meta = Metadata {
                    content_type: content_type.then(|| Bytes::from_static(b"text/plain")),
                    links: links.then_some(link).into_iter().collect(),
                    ..Metadata::default()
                };
                let request = async |fixture: &Fixture| {
                    let read = fixture.get(at).await.filter(|_| *knows);
                    let context = read.map_or_else(VersionVector::default, |object| object.clock);
                    PutRequest { context, meta: meta.clone(), ..put_of(at, VALUES[*value]) }
                };
                let (one, other) = (request(&short).await, request(&general).await);
                in_place_count += u64::from(put_in_place(&short, one).await);
                general.store.put(other).await.unwrap();
                put_count += 1;
            }
        }
        for at in 0..TYPES.len() * KEYS.len() {
            let at = place(at);
            assert_eq!(seen(get_in_place(&short, at).await), seen(general.get(at).await), "{at:?}");
        }
    }
    let figures = short.store.stats().snapshot();
    assert_eq!(figures.total(Counter::Puts), put_count, "each write counts once");
    (in_place_count, put_count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn both_ways_store_and_show_the_same(steps in prop::collection::vec(any_step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
        runtime.unwrap().block_on(run(&steps));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_writes_and_replacements_are_done_in_place() {
    let put = |at| Step::Put { at, value: 0, content_type: true, knows: true, links: false };
    let steps: Vec<_> = [0, 0, 1, 1, 2, 2, 4, 4].map(put).into_iter().collect();
    assert_eq!(run(&steps).await, (8, 8));
    let blind = Step::Put { at: 1, value: 0, content_type: false, knows: false, links: false };
    assert_eq!(run(&[put(1), blind]).await, (1, 2), "siblings are not plain");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_those_of_the_general_way() {
    let fixture = with_types().await;
    let bad_options =
        ReadOptions { r: Some(quoit_model::props::Quorum::Count(9)), ..ReadOptions::default() };
    let shown = fixture.store.get_in_place(place(0), &bad_options, |_| ());
    let general = fixture.store.get(place(0), &bad_options).await;
    assert_eq!(shown.unwrap_err().to_string(), general.unwrap_err().to_string());
    let missing = key("no such type", "k");
    let write = PlainWrite {
        key: missing,
        context: VersionVector::default(),
        content_type: None,
        value: b"v",
        shared: None,
        options: WriteOptions::default(),
    };
    let refused = fixture.store.put_in_place(&write);
    assert!(matches!(refused, Err(RequestError::NoSuchType(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cold_read_is_tried_once_without_waiting_and_then_reads_the_disk_once() {
    let disk = SlowDisk::new(1);
    let of_engine = Arc::clone(&disk);
    let fixture = fixture_on(StoreSettings::default(), |ring_size, clock| {
        bitcask_on(of_engine, ring_size, clock)
    });
    let at = key("default", "k");
    fixture.put(at, "v").await;
    disk.make_cold();
    let before = disk.watch.reads();
    let shown = fixture.store.get_in_place(at, &ReadOptions::default(), |_| ()).unwrap();
    let Some(ReadInPlace::Started(started)) = shown else {
        panic!("the object is not in memory: {shown:?}")
    };
    let found = fixture.store.finish_get(*started).await.unwrap();
    assert_eq!(values(&found.unwrap()), ["v"]);
    let after = disk.watch.reads();
    let reads = (after.attempts - before.attempts, after.waiting - before.waiting);
    assert_eq!(reads, (1, 1), "attempts without waiting, and reads");
    assert_eq!(fixture.store.stats().snapshot().total(Counter::Gets), 1, "the read counts once");
}
