//! Tests of writes under each policy.

use crate::one_node::fixture::{SECOND_US, START_US, fixture, key, put_of, values};
use quoit_core::{DeleteOutcome, DeleteRequest, PutRequest};
use quoit_model::clock::{Actor, Dot, VersionVector};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_write_replaces_what_its_context_covers_and_joins_what_it_does_not() {
    let fixture = fixture();
    fixture.create_type("sibs", json!({"allow_mult": true})).await;
    let at = key("sibs", "k");
    fixture.put(at, "one").await;
    let read = fixture.get(at).await.unwrap();
    fixture.put(at, "blind").await;
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["blind", "one"]);

    let covering = PutRequest { context: read.clock, ..put_of(at, "two") };
    fixture.store.put(covering).await.unwrap();
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["blind", "two"]);

    fixture.update(at, "resolved").await;
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
    fixture.create_type("lww", props).await;
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
    fixture.create_type("lww", props).await;
    let at = key("lww", "k");
    let mut times_us = Vec::new();
    for value in ["one", "two", "three"] {
        fixture.put(at, value).await;
        times_us.push(fixture.get(at).await.unwrap().last_modified_us());
    }
    assert_eq!(times_us, [START_US, START_US + 1, START_US + 2]);
    fixture.store.delete(DeleteRequest::of(at)).await.unwrap();
    fixture.put(at, "four").await;
    let object = fixture.get(at).await.unwrap();
    assert_eq!(values(&object), ["four"]);
    assert_eq!(object.last_modified_us(), START_US + 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_put_as_it_is_where_the_last_write_wins_keeps_its_clock() {
    let fixture = fixture();
    let props = json!({"allow_mult": false, "last_write_wins": true, "dvv_enabled": false});
    fixture.create_type("lww", props).await;
    let at = key("lww", "k");
    fixture.put(at, "one").await;
    let elsewhere = VersionVector::from_entries([Dot {
        actor: Actor(b"elsewhere"[..].into()),
        counter: 7,
        time_secs: 0,
    }]);
    let given = PutRequest { context: elsewhere.clone(), as_is: true, ..put_of(at, "given") };
    fixture.store.put(given).await.unwrap();
    let object = fixture.get(at).await.unwrap();
    assert_eq!(values(&object), ["given"]);
    assert_eq!(object.clock, elsewhere);
}

#[tokio::test(flavor = "multi_thread")]
async fn write_once_keeps_both_of_two_writes() {
    let fixture = fixture();
    fixture.create_type("once", json!({"write_once": true})).await;
    let at = key("once", "k");
    fixture.put(at, "one").await;
    fixture.update(at, "two").await;
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["one", "two"]);
    assert_eq!(fixture.store.delete(DeleteRequest::of(at)).await.unwrap(), DeleteOutcome::Done);
    assert!(fixture.get(at).await.unwrap().is_tombstone());
}
