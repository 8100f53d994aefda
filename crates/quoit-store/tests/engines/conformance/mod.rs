//! Conformance tests of storage engines, checked against a naive model.
//!
//! The tests of each engine implement [`Subject`] and call the checks. Each program must have the same
//! results on all engines.

mod beside_writes;
mod digests;
mod indexes;
mod model;
mod program;
mod visits;

pub use beside_writes::{
    buckets_of_one_key_are_listed_beside_others, folds_beside_writes_are_right,
};
pub use indexes::writes_of_entries_are_counted;
use model::Model;
use program::steps;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_seam::ManualClock;
use quoit_store::engine::{
    Applied, BeforeImage, Decision, Engine, IoMode, RecordAt, RecordMeta, RecordRef,
};

/// Number of partitions of the engines under test.
pub const RING_SIZE: u16 = 8;

/// Start of the clocks of the engines under test, in Unix seconds: a time in 2023.
pub const START_SECS: u32 = 1_700_000_000;

/// An engine under test.
pub trait Subject {
    /// The engine. It was created with a ring of [`RING_SIZE`] partitions and this subject's clock.
    fn engine(&self) -> &dyn Engine;

    /// The engine's clock. Starts at [`START_SECS`].
    fn clock(&self) -> &ManualClock;

    /// Rebuilds the secondary indexes, if the engine needs that before it can answer queries.
    fn rebuild_indexes(&self) {}

    /// Closes the engine and opens it again with its stored data. Does nothing for engines that store
    /// nothing durably.
    fn restart(&mut self) {}

    /// Runs background work that the engine may run at any time: seals, merges, snapshots.
    fn maintain(&mut self) {}

    /// True if records of both buckets can be changed in one transaction.
    fn changes_together(&self, _one: BucketRef<'_>, _other: BucketRef<'_>) -> bool {
        true
    }
}

/// Ring size of the engines under test.
#[must_use]
pub fn ring_size() -> RingSize {
    RingSize::new(RING_SIZE).unwrap()
}

/// Source of the identities of a program's keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identities {
    /// The public hash of the name.
    Hashed,
    /// A few values, so that identities of different keys are equal, or differ only in their lowest bit.
    Shared,
}

/// Runs `cases` random programs on the engine and the model. The programs are the same in every run.
///
/// # Panics
///
/// If the engine and the model disagree. The message has the smallest such program that was found.
pub fn behaves_like_the_model<S: Subject>(
    cases: u32,
    identities: Identities,
    mut make: impl FnMut() -> S,
) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let make = std::cell::RefCell::new(&mut make);
    let outcome = runner.run(&steps(), |steps| {
        let mut subject = (make.borrow_mut())();
        let mut model = Model::new(identities);
        for step in &steps {
            model.check(&mut subject, step);
        }
        model.check_everything(&subject);
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, steps)) => panic!("{reason}\nsmallest program: {steps:#?}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

/// Increments records from several threads at once. No increment may be lost.
///
/// # Panics
///
/// If an increment was lost.
pub fn concurrent_updates_are_not_lost(subject: &impl Subject) {
    const THREADS: u64 = 4;
    const INCREMENTS: u64 = 500;
    let engine = subject.engine();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                (0..INCREMENTS).for_each(|number| increment(engine, (number + thread) % 3));
            });
        }
    });
    let total: u64 = (0..3).map(|counter| with_counter(counter, |at| read(engine, at))).sum();
    assert_eq!(total, THREADS * INCREMENTS);
}

fn increment(engine: &dyn Engine, counter: u64) {
    with_counter(counter, |at| {
        let mut change = |before: Option<&RecordRef<'_>>, value: &mut Vec<u8>| {
            let count = before.map_or(0, |record| count_of(record.value)) + 1;
            value.extend_from_slice(&count.to_be_bytes());
            Decision::Put(RecordMeta::default())
        };
        let applied = engine.update(at, BeforeImage::Read, IoMode::Wait, &mut change).unwrap();
        assert!(matches!(applied, Applied::Written(_)));
    });
}

fn with_counter<T>(counter: u64, then: impl FnOnce(&RecordAt<'_>) -> T) -> T {
    let name = [b'0' + counter as u8];
    let key: KeyRef<'_> = BucketRef::untyped(b"counters").key(&name);
    let mut encoded = Vec::new();
    key.encode_into(&mut encoded);
    let partition = Partition(counter as u16);
    then(&RecordAt { key, encoded: &encoded, identity: Identity(counter << 50), partition })
}

fn read(engine: &dyn Engine, at: &RecordAt<'_>) -> u64 {
    match engine.get(at, IoMode::Wait).unwrap() {
        quoit_store::engine::Fetch::Found(record) => count_of(&record.value),
        other => panic!("a counter is {other:?}"),
    }
}

fn count_of(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().unwrap())
}
