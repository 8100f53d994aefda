//! Tests of the conditions of writes and deletes.

use crate::one_node::fixture::{SECOND_US, fixture, key, put_of, values};
use quoit_core::{
    DeleteOutcome, DeleteRequest, EntityTags, Precondition, PutRequest, RequestError,
    UnmetCondition, WriteOptions,
};
use quoit_model::clock::VersionVector;
use quoit_model::props::{PropUpdates, Quorum};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_decided_with_the_write() {
    let fixture = fixture();
    let at = key("default", "k");
    let only_new = Precondition { not_exists: true, ..Precondition::default() };
    let create = PutRequest { precondition: only_new, return_object: true, ..put_of(at, "one") };
    let created = fixture.store.put(create.clone()).await.unwrap().unwrap();
    let again = fixture.store.put(create).await;
    assert!(matches!(again, Err(RequestError::Unmet(UnmetCondition::Exists))), "{again:?}");

    let unchanged = |clock: &VersionVector| PutRequest {
        context: clock.clone(),
        precondition: Precondition { clock: Some(clock.clone()), ..Precondition::default() },
        ..put_of(at, "two")
    };
    fixture.store.put(unchanged(&created.clock)).await.unwrap();
    let stale = fixture.store.put(unchanged(&created.clock)).await;
    assert!(matches!(stale, Err(RequestError::Unmet(UnmetCondition::Modified))), "{stale:?}");
    let elsewhere = PutRequest { key: key("default", "none"), ..unchanged(&created.clock) };
    let missing = fixture.store.put(elsewhere).await;
    assert!(matches!(missing, Err(RequestError::Unmet(UnmetCondition::Missing))), "{missing:?}");
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
    assert!(matches!(refused, Err(RequestError::Unmet(UnmetCondition::Exists))), "{refused:?}");

    let mut updates = PropUpdates::default();
    updates.set("r", 7);
    fixture.store.control().set_bucket_props(at.bucket, &updates).await.unwrap();
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
    let set = async |allow_mult: bool| {
        let mut updates = PropUpdates::default();
        updates.set("allow_mult", allow_mult);
        fixture.store.control().set_bucket_props(at.bucket, &updates).await.unwrap();
    };
    set(true).await;
    fixture.put(at, "one").await;
    fixture.clock.advance_us(SECOND_US);
    fixture.put(at, "two").await;
    set(false).await;
    let shown = fixture.get(at).await.unwrap();
    assert_eq!(values(&shown), ["two"]);
    let any_match = Some(EntityTags::Tags(vec![shown.etag()]));
    let precondition = Precondition { any_match, ..Precondition::default() };
    fixture.store.put(PutRequest { precondition, ..put_of(at, "three") }).await.unwrap();

    set(true).await;
    fixture.put(at, "four").await;
    fixture.clock.advance_us(SECOND_US);
    let blind = Some(VersionVector::default());
    fixture.store.delete(DeleteRequest { context: blind, ..DeleteRequest::of(at) }).await.unwrap();
    set(false).await;
    assert!(fixture.get(at).await.unwrap().is_tombstone(), "the delete came last");
    assert_eq!(fixture.store.delete(DeleteRequest::of(at)).await.unwrap(), DeleteOutcome::Missing);
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
