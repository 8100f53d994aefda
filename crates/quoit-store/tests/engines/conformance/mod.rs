//! Conformance tests of storage engines, checked against a naive model.
//!
//! An engine's test file implements [`Subject`] and calls the checks.
//! Any program that holds for one engine holds for all.

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
    Access, Applied, Before, Decision, Engine, RecordAt, RecordMeta, RecordRef,
};

/// Partitions of the engines under test.
pub const RING_SIZE: u16 = 8;

/// Where the clocks of the engines under test start: some time in 2023.
pub const START_SECS: u32 = 1_700_000_000;

/// An engine under test.
pub trait Subject {
    /// The engine. Made with a ring of [`RING_SIZE`] partitions and this subject's clock.
    fn engine(&self) -> &dyn Engine;

    /// The engine's clock. Starts at [`START_SECS`].
    fn clock(&self) -> &ManualClock;

    /// Does what the engine has to do before it can be queried.
    fn rebuild_indexes(&self) {}

    /// Closes the engine and opens it again with what it has stored. Engines that forget do
    /// nothing.
    fn restart(&mut self) {}

    /// Does what else the engine may do at any time: seal, merge, write a snapshot.
    fn maintain(&mut self) {}

    /// Whether records of both buckets can be changed together.
    fn changes_together(&self, _one: BucketRef<'_>, _other: BucketRef<'_>) -> bool {
        true
    }
}

/// The ring of the engines under test.
#[must_use]
pub fn ring_size() -> RingSize {
    RingSize::new(RING_SIZE).unwrap()
}

/// How a program's keys get their identities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identities {
    /// By the public hash.
    Hashed,
    /// Few, so that different keys share one, or all of its bits but the lowest.
    Shared,
}

/// Runs `cases` random programs against the engine and the model. The same programs on every run.
///
/// # Panics
///
/// When the engine and the model disagree; the message has the smallest program found.
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

/// Increments records from several threads at once; no increment may be lost.
///
/// # Panics
///
/// When one is.
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
        let applied = engine.update(at, Before::Read, Access::Wait, &mut change).unwrap();
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
    match engine.get(at, Access::Wait).unwrap() {
        quoit_store::engine::Fetch::Found(record) => count_of(&record.value),
        other => panic!("a counter is {other:?}"),
    }
}

fn count_of(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().unwrap())
}
