//! Quorums, limits, names and contexts that are refused.

use crate::one_node::fixture::{fixture, fixture_with, key, put_of, values};
use bytes::Bytes;
use quoit_core::{
    DeleteOutcome, DeleteRequest, PutRequest, ReadOptions, RequestError, StoreSettings,
    WriteOptions,
};
use quoit_model::props::{PropUpdates, Quorum};
use serde_json::json;

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
    let request = DeleteRequest { write, ..DeleteRequest::of(at) };
    assert_eq!(fixture.store.delete(request.clone()).await.unwrap(), DeleteOutcome::Missing);
    fixture.put(at, "one").await;
    assert!(matches!(fixture.store.delete(request).await, Err(RequestError::NVal(_))));
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_nodes_than_there_are_fail_a_read_and_a_write_before_it_is_stored() {
    let fixture = fixture();
    let at = key("default", "k");
    let two = Some(Quorum::Count(2));
    let options = WriteOptions { node_confirms: two, ..WriteOptions::default() };
    let put = fixture.store.put(PutRequest { options, ..put_of(at, "one") }).await;
    assert!(matches!(put, Err(RequestError::Unsatisfied { wanted: 2, got: 1, .. })), "{put:?}");
    assert_eq!(fixture.get(at).await, None, "nothing was stored");
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
    fixture.create_type("sibs", json!({"allow_mult": true})).await;
    let at = key("sibs", "k");
    let large = PutRequest { value: Bytes::from(vec![b'x'; 501]), ..put_of(at, "") };
    let refused = fixture.store.put(large).await;
    assert!(matches!(refused, Err(RequestError::ObjectTooLarge { .. })), "{refused:?}");
    for value in ["one", "two", "three"] {
        fixture.put(at, value).await;
    }
    let fourth = fixture.store.put(put_of(at, "four")).await;
    assert!(matches!(fourth, Err(RequestError::TooManySiblings(4))), "{fourth:?}");
    fixture.update(at, "resolved").await;
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["resolved"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_and_inactive_types_are_refused_by_name() {
    let fixture = fixture();
    fixture.store.control().create_type(b"idle", &PropUpdates::default()).await.unwrap();
    for name in ["none", "idle"] {
        let refused = fixture.store.put(put_of(key(name, "k"), "v")).await;
        let Err(RequestError::NoSuchType(named)) = refused else { panic!("{refused:?}") };
        assert_eq!(named, name.as_bytes());
        assert!(fixture.store.listings().list_buckets(name.as_bytes()).await.is_err());
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
    fixture.create_type("strict", json!({"consistent": true})).await;
    let at = key("strict", "k");
    let refused = |fault: RequestError| {
        assert!(matches!(&fault, RequestError::Consistent(name) if name == b"strict"), "{fault}");
    };
    refused(fixture.store.put(put_of(at, "one")).await.unwrap_err());
    refused(fixture.store.get(at, &ReadOptions::default()).await.unwrap_err());
    refused(fixture.store.delete(DeleteRequest::of(at)).await.unwrap_err());
    assert_eq!(fixture.store.engine().stats().key_count, 0);
}
