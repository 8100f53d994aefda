//! Folds and listings during concurrent writes: a record that stays is shown exactly once, a value that was
//! never written isn't shown, and each writer finds its own records.

use super::{RING_SIZE, Subject, ring_size};
use bytes::Bytes;
use quoit_model::hash::{Identity, KeyHash, Partition, PlacementRule};
use quoit_model::key::{BucketRef, EncodedKey, KeyRef};
use quoit_store::engine::{
    Applied, BatchWrite, BeforeImage, Decision, Engine, IoMode, KeyRange, RecordAt, RecordMeta,
    RecordRef,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const BUCKET: BucketRef<'static> = BucketRef::untyped(b"beside");

/// Numbers of records that are written once, of records that are rewritten all the time, and of records
/// that are put and removed in turn.
const STILL_COUNT: u64 = 120;
const CHANGING_COUNT: u64 = 40;
const PASSING_COUNT: u64 = 40;

/// Number of bursts of writes. Between them the engine does its background work.
const ROUNDS: u64 = 4;

/// Number of times that a burst rewrites all changing records.
const CHANGES: u64 = 8;

/// Sets the flag when it is dropped, even by a panic, so that other threads don't run for ever.
struct Until<'a>(&'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The name of a test record, made of its kind and number.
struct Name {
    key: Vec<u8>,
    encoded: EncodedKey,
}

impl Name {
    fn new(kind: char, number: u64) -> Self {
        let key = format!("{kind}{number:04}").into_bytes();
        let encoded = BUCKET.key(&key).encoded();
        Self { key, encoded }
    }

    fn at(&self) -> RecordAt<'_> {
        let hash = KeyHash::of(&self.encoded, BUCKET, PlacementRule::BucketAndKey);
        RecordAt {
            key: BUCKET.key(&self.key),
            encoded: &self.encoded,
            identity: hash.identity,
            partition: ring_size().partition(hash.placement),
        }
    }
}

/// A value that contains its version. Its size varies with the version.
fn value_of(version: u64) -> Vec<u8> {
    let mut value = version.to_be_bytes().to_vec();
    value.resize(8 + (version % 5) as usize * 700, version as u8);
    value
}

fn version_of(value: &[u8]) -> u64 {
    let version = u64::from_be_bytes(*value.first_chunk().unwrap());
    assert_eq!(value, value_of(version), "a value that nobody wrote");
    version
}

fn put(engine: &dyn Engine, name: &Name, version: u64) {
    let mut change = |_: Option<&RecordRef<'_>>, value: &mut Vec<u8>| {
        value.extend_from_slice(&value_of(version));
        Decision::Put(RecordMeta::default())
    };
    let applied = engine.update(&name.at(), BeforeImage::Skip, IoMode::Wait, &mut change).unwrap();
    assert!(matches!(applied, Applied::Written(_)));
}

fn remove(engine: &dyn Engine, name: &Name) {
    let mut change = |_: Option<&RecordRef<'_>>, _: &mut Vec<u8>| Decision::Remove;
    engine.update(&name.at(), BeforeImage::Skip, IoMode::Wait, &mut change).unwrap();
}

/// Folds and lists while two threads write. Between bursts the engine seals, merges and flushes.
///
/// # Panics
///
/// If a fold omits a record that was there all the time, shows a record twice, out of order or torn, or
/// shows a version older than the current one at the start of the fold.
pub fn folds_beside_writes_are_right(subject: &mut impl Subject) {
    for number in 0..STILL_COUNT {
        put(subject.engine(), &Name::new('s', number), number);
    }
    // All changing records exist before the first fold.
    (0..CHANGING_COUNT).for_each(|number| put(subject.engine(), &Name::new('c', number), 0));
    let written = AtomicU64::new(0);
    let mut fold_count = 0;
    for round in 0..ROUNDS {
        let engine = subject.engine();
        let first = round * CHANGES;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _until = Until(&is_over);
                for version in first + 1..=first + CHANGES {
                    for number in 0..CHANGING_COUNT {
                        put(engine, &Name::new('c', number), version);
                    }
                    written.store(version, Ordering::Release);
                    engine.sync().unwrap();
                }
            });
            scope.spawn(|| {
                for turn in 0..CHANGES * PASSING_COUNT {
                    let name = Name::new('p', turn % PASSING_COUNT);
                    if (turn / PASSING_COUNT).is_multiple_of(2) {
                        put(engine, &name, turn);
                    } else {
                        remove(engine, &name);
                    }
                }
            });
            while !is_over.load(Ordering::Acquire) {
                fold_all(engine, written.load(Ordering::Acquire));
                list_all(engine);
                fold_count += 1;
            }
        });
        subject.maintain();
    }
    assert!(fold_count >= ROUNDS, "{fold_count} folds beside the writes");
    fold_all(subject.engine(), ROUNDS * CHANGES);
    list_all(subject.engine());
}

/// Folds all partitions. Checks that changing records have at least the version `version_min`.
fn fold_all(engine: &dyn Engine, version_min: u64) {
    let mut versions: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for number in 0..RING_SIZE {
        let mut from = Some(Identity(0));
        let mut last = None;
        while let Some(start) = from {
            let page = engine.fold(Partition(number), start, 9, false).unwrap();
            for (encoded, record) in &page.entries {
                let key = KeyRef::decode(encoded).unwrap();
                let hash = KeyHash::of(encoded, BUCKET, PlacementRule::BucketAndKey);
                assert!(last <= Some(hash.identity) && start <= hash.identity, "out of order");
                last = Some(hash.identity);
                let version = version_of(&record.value);
                assert_eq!(versions.insert(key.key.to_vec(), version), None, "shown twice");
            }
            from = page.next;
        }
    }
    let of = |kind, number| versions.get(&Name::new(kind, number).key).copied();
    for number in 0..STILL_COUNT {
        assert_eq!(of('s', number), Some(number), "what was written once");
    }
    for number in 0..CHANGING_COUNT {
        let version = of('c', number).expect("a record that was there all the time");
        assert!(version >= version_min, "{version} is shown, {version_min} was there before");
    }
}

/// Lists all keys. Checks that the lasting ones are listed exactly once.
fn list_all(engine: &dyn Engine) {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let range = KeyRange::Bucket(BUCKET);
        let page = engine.list_keys(range, after.as_deref(), 70).unwrap();
        for (encoded, _) in &page.entries {
            found.push(KeyRef::decode(encoded).unwrap().key.to_vec());
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert!(found.is_sorted_by(|one, other| one < other), "keys twice or out of order");
    let count = |kind: u8| found.iter().filter(|key| key[0] == kind).count() as u64;
    assert_eq!((count(b's'), count(b'c')), (STILL_COUNT, CHANGING_COUNT), "keys that stay");
}

/// Number of buckets whose only key is put and removed in turn, and of rounds of each way to put it.
const BUCKET_COUNT: usize = 60;
const BUCKET_ROUNDS: usize = 25;

/// A bucket with one key.
struct Single {
    bucket: Vec<u8>,
    encoded: EncodedKey,
}

impl Single {
    fn new(number: usize) -> Self {
        let bucket = format!("single{number:04}").into_bytes();
        let encoded = BucketRef::untyped(&bucket).key(b"only").encoded();
        Self { bucket, encoded }
    }

    /// All records are in one partition, so that one transaction can change them.
    fn at(&self) -> RecordAt<'_> {
        let bucket = BucketRef::untyped(&self.bucket);
        let hash = KeyHash::of(&self.encoded, bucket, PlacementRule::BucketAndKey);
        RecordAt {
            key: bucket.key(b"only"),
            encoded: &self.encoded,
            identity: hash.identity,
            partition: Partition(3),
        }
    }
}

/// Puts the only keys of the buckets, in one of three ways.
fn fill(engine: &dyn Engine, singles: &[Single], way: usize) {
    let meta = RecordMeta::default();
    match way % 3 {
        0 => {
            for single in singles {
                let mut change = |_: Option<&RecordRef<'_>>, _: &mut Vec<u8>| Decision::Put(meta);
                let (at, access) = (single.at(), IoMode::Wait);
                engine.update(&at, BeforeImage::Skip, access, &mut change).unwrap();
            }
        }
        1 => {
            let write = |single| BatchWrite::Put { at: Single::at(single), meta, value: b"v" };
            engine.batch(&singles.iter().map(write).collect::<Vec<_>>()).unwrap();
        }
        _ => {
            let applied = engine.transact(Partition(3), IoMode::Wait, &mut |transaction| {
                singles.iter().try_for_each(|single| transaction.put(&single.at(), meta, b"v"))
            });
            assert!(matches!(applied.unwrap(), Applied::Written(_)));
        }
    }
}

fn all_buckets(engine: &dyn Engine) -> Vec<Bytes> {
    let mut found: Vec<Bytes> = Vec::new();
    loop {
        let after = found.last().map(|bucket| BucketRef::untyped(bucket));
        let page = engine.list_buckets(b"default", after, 16).unwrap();
        let is_last = page.len() < 16;
        found.extend(page.into_iter().map(|(_, bucket)| bucket));
        if is_last {
            return found;
        }
    }
}

/// Puts and removes the only keys of many buckets, while other threads list buckets and thereby forget keys
/// that they find dead.
///
/// # Panics
///
/// If the buckets aren't all listed after the keys were put, or any is listed after the keys were removed.
pub fn buckets_of_one_key_are_listed_beside_others(subject: &impl Subject) {
    let engine = subject.engine();
    let singles: Vec<Single> = (0..BUCKET_COUNT).map(Single::new).collect();
    let all: Vec<&[u8]> = singles.iter().map(|single| &single.bucket[..]).collect();
    let removes = singles.iter().map(|single| BatchWrite::Remove { at: single.at() });
    let removes: Vec<_> = removes.collect();
    let is_over = AtomicBool::new(false);
    // The first wrong listings. The assertion comes after the other threads have stopped.
    let mut wrong = None;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    all_buckets(engine);
                }
            });
        }
        let _until = Until(&is_over);
        for round in 0..3 * BUCKET_ROUNDS {
            fill(engine, &singles, round);
            let filled = all_buckets(engine);
            engine.batch(&removes).unwrap();
            let emptied = all_buckets(engine);
            if filled != all || !emptied.is_empty() {
                wrong = Some((round, filled, emptied));
                break;
            }
        }
    });
    assert_eq!(
        wrong, None,
        "the round, the buckets while all have a key, and those while none has one"
    );
}
