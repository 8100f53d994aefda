//! Tests of the memory engine.

use crate::conformance;
use crate::conformance::{Identities, START_SECS, Subject, ring_size};
use crate::support::{expired, put, remove};
use bytes::Bytes;
use proptest::prelude::*;
use quoit_model::hash::{Identity, KeyHash, Partition, PlacementRule, RingSize};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_seam::ManualClock;
use quoit_store::engine::{
    BatchWrite, BeforeImage, Decision, Engine, Fetch, InPlaceRead, IoMode, KeyRange, Maintenance,
    PointAccess, RecordAt, RecordMeta, RecordPlace, RecordRef, RecordVisitor, RecordWalk,
    ScanAccess, TransactionFn, VisitedRecord,
};
use quoit_store::error::StoreError;
use quoit_store::memory::{MemoryEngine, MemorySettings};
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
            self.engine.update(at, BeforeImage::Skip, IoMode::Wait, &mut change).map(drop)
        })
    }

    fn has(&self, key: &str) -> bool {
        let fetch = with_record(key, |at| self.engine.get(at, IoMode::NoWait).unwrap());
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

/// Calls `then` with a record in partition 3, as are all records of these tests.
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
fn writes_of_index_entries_are_counted() {
    conformance::writes_of_entries_are_counted(&mut InMemory::with(MemorySettings::default()));
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
fn an_expired_overwrite_leaves_a_tombstone() {
    let clock = Arc::new(ManualClock::at(u64::from(START_SECS) * 1_000_000));
    let settings = MemorySettings::default();
    let engine = MemoryEngine::new(settings, RingSize::DEFAULT, Arc::clone(&clock) as _);
    // Each write reclaims some memory of expired records.
    let write = || {
        put(&engine, "other", b"value");
        remove(&engine, "other");
    };
    expired::an_expired_overwrite_leaves_a_tombstone(&engine, &clock, write);
}

#[test]
fn a_closed_engine_says_so() {
    let subject = InMemory::with(MemorySettings::default());
    subject.engine.close().unwrap();
    assert!(matches!(subject.put("a", 1), Err(StoreError::Closed)));
    assert!(matches!(subject.engine.sync(), Err(StoreError::Closed)));
}

#[test]
fn buckets_of_one_key_are_listed_beside_others() {
    let subject = InMemory::with(MemorySettings::default());
    conformance::buckets_of_one_key_are_listed_beside_others(&subject);
}

#[test]
fn folds_beside_writes_are_right() {
    conformance::folds_beside_writes_are_right(&mut InMemory::with(MemorySettings::default()));
}

#[test]
fn a_fold_for_tombstones_holds_a_partition_for_some_records_only() {
    let subject = InMemory::with(MemorySettings::default());
    for number in 0..5_000 {
        subject.put(&format!("live{number}"), 1).unwrap();
    }
    let dead = RecordMeta { tombstone: true, ..RecordMeta::default() };
    subject.put_with("dead", 1, dead).unwrap();
    let (mut from, mut page_count, mut found) = (Some(Identity(0)), 0, 0);
    while let Some(start) = from {
        let page = subject.engine.fold(Partition(3), start, 100, true).unwrap();
        found += page.entries.len();
        page_count += 1;
        from = page.next;
    }
    assert_eq!(found, 1);
    assert!((5..10).contains(&page_count), "{page_count} pages");
}

#[test]
fn a_damaged_place_to_go_on_from_is_an_error() {
    let subject = InMemory::with(MemorySettings::default());
    let after = Bytes::from_static(b"\xff\xff\xff");
    let error = subject.engine.list_keys(KeyRange::All, Some(&after), 10).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

/// Writes a record with two pieces of `size` bytes each in one transaction, to partition 3.
fn put_large(subject: &InMemory, key: &str, size: usize) {
    with_record(key, |root| {
        with_pieces(root, |pieces| {
            let body: &mut TransactionFn<'_> = &mut |transaction| {
                assert!(transaction.get(root)?.is_none());
                for piece in pieces {
                    transaction.put(piece, RecordMeta::PIECE, &vec![1; size])?;
                }
                transaction.put(root, RecordMeta::default(), b"root")
            };
            subject.engine.transact(Partition(3), IoMode::Wait, body).unwrap();
        });
    });
}

fn with_pieces<T>(root: &RecordAt<'_>, then: impl FnOnce(&[RecordAt<'_>]) -> T) -> T {
    let placement =
        KeyHash::of(root.encoded, root.key.bucket, PlacementRule::BucketAndKey).placement;
    let encoded = [b"1", b"2"].map(|name| BucketRef::of_pieces(root.encoded).key(name).encoded());
    let pieces = encoded.each_ref().map(|encoded| RecordAt {
        key: KeyRef::decode(encoded).unwrap(),
        encoded,
        identity: KeyHash::of_piece(encoded, placement).identity,
        partition: Partition(3),
    });
    then(&pieces)
}

/// Number of the parts that exist: the record and its two pieces.
fn part_count(subject: &InMemory, key: &str) -> usize {
    let is_there = |at: &RecordAt<'_>| {
        matches!(subject.engine.get(at, IoMode::Wait).unwrap(), Fetch::Found(_))
    };
    with_record(key, |root| {
        let count = with_pieces(root, |pieces| pieces.iter().filter(|at| is_there(at)).count());
        count + usize::from(is_there(root))
    })
}

#[test]
fn a_record_is_evicted_with_all_of_its_pieces_or_not_at_all() {
    let bounds = MemorySettings { partition_bytes_max: Some(10_000), ttl_secs: None };
    let subject = InMemory::with(bounds);
    put_large(&subject, "large", 2_000);
    for number in 0..20 {
        subject.put(&format!("small{number}"), 1_000).unwrap();
        assert_eq!(part_count(&subject, "large"), 3, "its root was read a moment ago");
    }
    for number in 0..20 {
        subject.put(&format!("small{number}"), 1_000).unwrap();
        let left = with_record("large", |root| {
            let body: &mut TransactionFn<'_> = &mut |_| Ok(());
            subject.engine.transact(root.partition, IoMode::Wait, body).unwrap();
            with_pieces(root, |pieces| subject.engine.get(&pieces[0], IoMode::Wait).unwrap())
        });
        assert_eq!(matches!(left, Fetch::Found(_)), number < 3, "{number}");
    }
    assert_eq!(part_count(&subject, "large"), 0);
    // A record and its pieces exceed the limit together, so they are evicted together.
    put_large(&subject, "larger", 6_000);
    assert_eq!(part_count(&subject, "larger"), 0);
    assert!(subject.engine.stats().index_bytes <= 10_000);
}

#[test]
fn pieces_end_with_their_record_and_are_gone_when_it_is_written_again() {
    let bounds = MemorySettings { partition_bytes_max: None, ttl_secs: Some(20) };
    let subject = InMemory::with(bounds);
    put_large(&subject, "key", 100);
    subject.clock.advance_us(15_000_000);
    // Only the root is written. Its pieces live on with it.
    subject.put("key", 10).unwrap();
    subject.clock.advance_us(15_000_000);
    assert_eq!(part_count(&subject, "key"), 3);
    subject.clock.advance_us(5_000_000);
    subject.put("key", 10).unwrap();
    assert_eq!(part_count(&subject, "key"), 1, "those of a record that had ended");
    subject.clock.advance_us(20_000_000);
    put_large(&subject, "key", 100);
    assert_eq!(part_count(&subject, "key"), 3);
    subject.clock.advance_us(20_000_000);
    assert_eq!(subject.engine.stats().index_bytes, 0);
}

/// An operation on the engine and the naive model.
#[derive(Clone, Copy, Debug)]
enum Use {
    Put(usize),
    Get,
    Show,
    Head,
    Look,
    Remove,
    Transact,
}

fn uses() -> impl Strategy<Value = Vec<(usize, Use)>> {
    let one = prop_oneof![
        4 => (0..3_000usize).prop_map(Use::Put),
        1 => Just(Use::Get),
        1 => Just(Use::Show),
        1 => Just(Use::Head),
        1 => Just(Use::Look),
        1 => Just(Use::Remove),
        1 => Just(Use::Transact),
    ];
    prop::collection::vec((0..12usize, one), 1..200)
}

/// Runs an operation. Returns whether the record existed.
fn apply(subject: &InMemory, key: &str, operation: Use) -> bool {
    let engine = &subject.engine;
    with_record(key, |at| match operation {
        Use::Put(size) => {
            subject.put(key, size).unwrap();
            true
        }
        Use::Get => matches!(engine.get(at, IoMode::NoWait).unwrap(), Fetch::Found(_)),
        Use::Show => engine.show(at, IoMode::NoWait, &mut |_| {}).unwrap() == InPlaceRead::Found,
        Use::Head => engine.head(at).unwrap().is_some(),
        Use::Look | Use::Remove => {
            let mut found = false;
            let mut change = |before: Option<&RecordRef<'_>>, _: &mut Vec<u8>| {
                found = before.is_some();
                if matches!(operation, Use::Remove) { Decision::Remove } else { Decision::Keep }
            };
            engine.update(at, BeforeImage::Read, IoMode::NoWait, &mut change).unwrap();
            found
        }
        Use::Transact => {
            let mut found = false;
            let body: &mut TransactionFn<'_> = &mut |transaction| {
                found = transaction.get(at)?.is_some();
                Ok(())
            };
            engine.transact(at.partition, IoMode::NoWait, body).unwrap();
            found
        }
    })
}

proptest! {
    #[test]
    fn eviction_is_that_of_a_list_in_the_order_of_use(operations in uses()) {
        const BYTES_MAX: u64 = 10_000;
        let bounds = MemorySettings { partition_bytes_max: Some(BYTES_MAX), ttl_secs: None };
        let subject = InMemory::with(bounds);
        // Keys and their bytes, least recently used first.
        let mut model: Vec<(usize, u64)> = Vec::new();
        for (number, operation) in operations {
            let key = format!("key{number:02}");
            let encoded_bytes = with_record(&key, |at| at.encoded.len()) as u64;
            let place = model.iter().position(|(known, _)| *known == number);
            let before = place.map(|place| model.remove(place));
            let found = apply(&subject, &key, operation);
            match operation {
                Use::Put(size) => model.push((number, 2 * encoded_bytes + size as u64 + 320)),
                _ => prop_assert_eq!(found, before.is_some(), "{} {:?}", key, operation),
            }
            if !matches!(operation, Use::Put(_) | Use::Remove) {
                model.extend(before);
            }
            let bytes = |model: &[(usize, u64)]| model.iter().map(|(_, bytes)| bytes).sum::<u64>();
            while bytes(&model) > BYTES_MAX {
                model.remove(0);
            }
            let stats = subject.engine.stats();
            prop_assert_eq!(stats.index_bytes, bytes(&model));
            prop_assert_eq!(stats.key_count, model.len() as u64);
        }
    }
}

/// Lets all records expire as soon as one was listed.
struct AgeingVisitor<'c> {
    clock: &'c ManualClock,
    missing_count: usize,
}

impl RecordVisitor for AgeingVisitor<'_> {
    fn wants(&mut self, encoded: &[u8], _: &RecordMeta) -> Option<RecordPlace> {
        self.clock.advance_us(60_000_000);
        let key = KeyRef::decode(encoded).unwrap();
        let hash = KeyHash::of(encoded, key.bucket, PlacementRule::BucketAndKey);
        let partition = RingSize::DEFAULT.partition(hash.placement);
        Some(RecordPlace { identity: hash.identity, partition })
    }

    fn visit(&mut self, _: &[u8], record: VisitedRecord<'_>) {
        assert!(matches!(record, VisitedRecord::Missing), "{record:?}");
        self.missing_count += 1;
    }
}

#[test]
fn a_record_that_expires_after_it_was_listed_is_missing() {
    let clock = Arc::new(ManualClock::at(u64::from(START_SECS) * 1_000_000));
    let (settings, of_engine) = (MemorySettings::default(), Arc::clone(&clock) as _);
    let engine = MemoryEngine::new(settings, RingSize::DEFAULT, of_engine);
    expired::put_expiring_overwrite(&engine, "expiring", START_SECS + 30);
    let mut visitor = AgeingVisitor { clock: &clock, missing_count: 0 };
    let walk = RecordWalk { range: KeyRange::All, after: None, count_max: 10, bytes_max: u64::MAX };
    engine.visit_records(walk, &mut visitor).unwrap();
    assert_eq!(visitor.missing_count, 1);
}
