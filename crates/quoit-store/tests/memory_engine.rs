//! Behaviour of the memory engine.

#![allow(clippy::unwrap_used, reason = "tests")]

mod conformance;

use bytes::Bytes;
use conformance::{Identities, START_SECS, Subject, ring_size};
use quoit_model::hash::{KeyHash, Partition, PlacementRule};
use quoit_model::key::BucketRef;
use quoit_store::engine::{
    Access, BatchWrite, Before, Decision, Engine, Fetch, KeyRange, RecordAt, RecordMeta, RecordRef,
};
use quoit_store::error::StoreError;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use quoit_store::seam::ManualClock;
use std::sync::Arc;

struct InMemory {
    engine: MemoryEngine,
    clock: Arc<ManualClock>,
}

impl InMemory {
    fn with(settings: MemorySettings) -> Self {
        let clock = Arc::new(ManualClock::at(u64::from(START_SECS) * 1_000_000));
        Self { engine: MemoryEngine::new(settings, ring_size(), Arc::clone(&clock) as _), clock }
    }

    fn put(&self, key: &str, size: usize) -> Result<(), StoreError> {
        self.put_with(key, size, RecordMeta::default())
    }

    fn put_with(&self, key: &str, size: usize, meta: RecordMeta) -> Result<(), StoreError> {
        with_record(key, |at| {
            let mut change = |_: Option<&RecordRef<'_>>, value: &mut Vec<u8>| {
                value.resize(size, 0);
                Decision::Put(meta)
            };
            self.engine.update(at, Before::Skip, Access::Wait, &mut change).map(drop)
        })
    }

    fn has(&self, key: &str) -> bool {
        let fetch = with_record(key, |at| self.engine.get(at, Access::NoWait).unwrap());
        matches!(fetch, Fetch::Found(_))
    }
}

impl Subject for InMemory {
    fn engine(&self) -> &dyn Engine {
        &self.engine
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

/// All records of these tests are in partition 3.
fn with_record<T>(key: &str, then: impl FnOnce(&RecordAt<'_>) -> T) -> T {
    let key = BucketRef::untyped(b"bucket").key(key.as_bytes());
    let mut encoded = Vec::new();
    key.encode_into(&mut encoded);
    let identity = KeyHash::of(&encoded, key.bucket, PlacementRule::BucketAndKey).identity;
    then(&RecordAt { key, encoded: &encoded, identity, partition: Partition(3) })
}

#[test]
fn behaves_like_the_model() {
    let make = || InMemory::with(MemorySettings::default());
    conformance::behaves_like_the_model(200, Identities::Hashed, make);
}

#[test]
fn behaves_like_the_model_where_hashes_collide() {
    let make = || InMemory::with(MemorySettings::default());
    conformance::behaves_like_the_model(200, Identities::Shared, make);
}

#[test]
fn concurrent_updates_are_not_lost() {
    let subject = InMemory::with(MemorySettings::default());
    conformance::concurrent_updates_are_not_lost(&subject);
}

#[test]
fn a_partition_evicts_what_was_used_least_recently() {
    let bounds = MemorySettings { partition_bytes_max: Some(10_000), ttl_secs: None };
    let subject = InMemory::with(bounds);
    for key in ["a", "b", "c"] {
        subject.put(key, 2500).unwrap();
    }
    assert!(subject.has("a"));
    subject.put("d", 2500).unwrap();
    let kept: Vec<bool> = ["a", "b", "c", "d"].map(|key| subject.has(key)).into();
    assert_eq!(kept, [true, false, true, true]);
    let page = subject.engine.list_keys(KeyRange::All, None, 10).unwrap();
    assert_eq!(page.entries.len(), 3);
    assert!(subject.engine.stats().index_bytes <= 10_000);
}

#[test]
fn a_record_that_never_fits_is_refused_and_changes_nothing() {
    let bounds = MemorySettings { partition_bytes_max: Some(10_000), ttl_secs: None };
    let subject = InMemory::with(bounds);
    subject.put("a", 100).unwrap();
    let error = subject.put("a", 20_000).unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { limit_bytes: 10_000, .. }), "{error}");
    let error = with_record("b", |small| {
        with_record("c", |large| {
            let meta = RecordMeta::default();
            let writes = [
                BatchWrite::Put { at: *small, meta, value: b"small" },
                BatchWrite::Put { at: *large, meta, value: &[0; 20_000] },
            ];
            subject.engine.batch(&writes).unwrap_err()
        })
    });
    assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
    assert!(subject.has("a") && !subject.has("b") && !subject.has("c"));
}

#[test]
fn records_end_by_their_own_expiry_or_the_engines_whichever_is_earlier() {
    let bounds = MemorySettings { partition_bytes_max: None, ttl_secs: Some(20) };
    let subject = InMemory::with(bounds);
    let expiring = |secs| RecordMeta { expires_at_secs: START_SECS + secs, ..Default::default() };
    subject.put("by ttl", 1).unwrap();
    subject.put_with("early", 1, expiring(10)).unwrap();
    subject.put_with("late", 1, expiring(1000)).unwrap();
    let left = || ["by ttl", "early", "late"].map(|key| subject.has(key));
    subject.clock.advance_us(9_999_999);
    assert_eq!(left(), [true, true, true]);
    subject.clock.advance_us(1);
    assert_eq!(left(), [true, false, true]);
    subject.clock.advance_us(10_000_000);
    assert_eq!(left(), [false, false, false]);
    assert_eq!(subject.engine.stats().key_count, 0);
    assert_eq!(subject.engine.stats().index_bytes, 0);
}

#[test]
fn a_closed_engine_says_so() {
    let subject = InMemory::with(MemorySettings::default());
    subject.engine.close().unwrap();
    assert!(matches!(subject.put("a", 1), Err(StoreError::Closed)));
    assert!(matches!(subject.engine.sync(), Err(StoreError::Closed)));
}

#[test]
fn a_damaged_place_to_go_on_from_is_an_error() {
    let subject = InMemory::with(MemorySettings::default());
    let after = Bytes::from_static(b"\xff\xff\xff");
    let error = subject.engine.list_keys(KeyRange::All, Some(&after), 10).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}
