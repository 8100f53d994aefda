//! Expiry, listings and generated keys.

use crate::one_node::fixture::{SECOND_US, START_US, fixture, key, put_of};
use bytes::Bytes;
use quoit_core::PutRequest;
use quoit_model::key::BucketRef;
use quoit_model::object::Metadata;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn objects_expire_by_their_buckets_ttl_or_their_own() {
    let fixture = fixture();
    fixture.create_type("short", json!({"ttl": 60})).await;
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
    let mut listing = fixture.store.listings().list_keys(bucket).await.unwrap();
    let mut listed = Vec::new();
    while let Some(keys) = listing.next().await.unwrap() {
        listed.extend(keys);
    }
    listed.sort();
    assert_eq!(listed, wanted);
    let mut buckets = fixture.store.listings().list_buckets(b"default").await.unwrap();
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
