use super::super::{ApplyOutcome, ArrivalDecision, MergeSteps, Records, Replicated, merge};
use crate::error::RequestError;
use crate::placement::PlacedKey;
use crate::stored::decode;
use bytes::Bytes;
use proptest::prelude::*;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::hash::Partition;
use quoit_model::hash::RingSize;
use quoit_model::key::BucketRef;
use quoit_model::key::KeyRef;
use quoit_model::merge::{NewValue, WritePolicy};
use quoit_model::object::{Metadata, Object};
use quoit_seam::{Disk, FaultyDisk, ManualClock, ManualExecution};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use quoit_store::engine::{IoMode, Maintenance, PointAccess, RecordRef};
use quoit_store::error::StoreError;
use quoit_wire::internode::data::MergeRule;
use std::sync::Arc;

mod large;

const KEY: KeyRef<'_> = BucketRef::untyped(b"bucket").key(b"key");

/// A write by one of three coordinators, each of which has its own copy.
#[derive(Clone, Debug)]
struct Write {
    coordinator: usize,
    /// True if the client read the coordinator's copy before the write.
    has_read: bool,
    deleted: bool,
    value_bytes: usize,
    /// Index of an earlier write whose object the coordinator merges into its copy first.
    hears: Option<usize>,
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let write = (
        0usize..3,
        any::<bool>(),
        prop::bool::weighted(0.2),
        0usize..400,
        prop::option::of(0usize..20),
    )
        .prop_map(|(coordinator, has_read, deleted, value_bytes, hears)| Write {
            coordinator,
            has_read,
            deleted,
            value_bytes,
            hears,
        });
    prop::collection::vec(write, 1..12)
}

/// The objects that the coordinators send to replicas, in the order of the writes.
fn made(writes: &[Write], rule: MergeRule) -> Vec<Object> {
    let policy = match rule {
        MergeRule::Causal => WritePolicy::Siblings,
        MergeRule::LastWriteWins => WritePolicy::LastWriteWins,
    };
    let mut copies: [Option<Object>; 3] = Default::default();
    let mut sent: Vec<Object> = Vec::new();
    for (write, counter) in writes.iter().zip(1u64..) {
        let copy = &mut copies[write.coordinator];
        if let Some(heard) = write.hears.and_then(|place| sent.get(place)) {
            *copy =
                Some(copy.as_ref().map_or_else(|| heard.clone(), |copy| merge(copy, heard, rule)));
        }
        let context = match copy {
            Some(copy) if write.has_read => copy.clock.clone(),
            _ => VersionVector::default(),
        };
        let actor = Actor([b'a' + write.coordinator as u8; 8][..].into());
        let new = NewValue {
            meta: Metadata::default(),
            value: vec![counter as u8; if write.deleted { 0 } else { write.value_bytes }].into(),
            deleted: write.deleted,
            last_modified_us: 1_000 + counter * 37 % 11,
            vtag: Bytes::from(format!("tag{counter}")),
        };
        let dot = Dot { actor, counter, time_secs: 0 };
        let object = Object::write(copy.as_ref(), &context, new, dot, policy);
        sent.push(object.clone());
        *copy = Some(object);
    }
    sent
}

fn replicated(object: &Object, rule: MergeRule) -> Replicated {
    Replicated::new(object, rule, 3)
}

fn engine() -> Arc<BitcaskEngine> {
    engine_on(Arc::new(FaultyDisk::new(1)))
}

fn engine_on(disk: Arc<FaultyDisk>) -> Arc<BitcaskEngine> {
    let settings = BitcaskSettings {
        ring_size: RingSize::new(8).expect("8 is a ring size"),
        ..BitcaskSettings::new(7)
    };
    let clock = Arc::new(ManualClock::at(1));
    let opened = BitcaskEngine::open(disk, clock, &ManualExecution::default(), settings);
    Arc::new(opened.expect("the disk opens").0)
}

/// Merges an object into the record, without any reap record.
fn take_into(
    records: &Records,
    place: &PlacedKey<'_>,
    incoming: &Replicated,
    needs_ticket: bool,
) -> Result<Option<ApplyOutcome>, RequestError> {
    let admitted = |_| Ok(ArrivalDecision::AsItCame);
    take_around(records, place, incoming, needs_ticket, &admitted, false)
}

/// Merges an object into the record, with `admitted` as the decision of reap records, and with
/// `may_be_damaged` into a record that was found damaged.
fn take_around(
    records: &Records,
    place: &PlacedKey<'_>,
    incoming: &Replicated,
    needs_ticket: bool,
    admitted: &dyn Fn(IoMode) -> Result<ArrivalDecision, RequestError>,
    may_be_damaged: bool,
) -> Result<Option<ApplyOutcome>, RequestError> {
    let merged = |ours: &Object, theirs: &Object| merge(ours, theirs, incoming.rule);
    let steps = MergeSteps {
        admitted,
        merged: &merged,
        now_us: &|| 0,
        timed: &|_, _| {},
        forget: &|| Ok(()),
        replacing: &|| Ok(()),
        may_be_damaged,
    };
    records.merge(&place.at(), incoming, needs_ticket, IoMode::Wait, &steps)
}

/// Delivers objects to a replica in this order, and checks after each that the replica stores the merge
/// of all objects so far.
fn check_delivery(objects: &[Object], order: &[usize], rule: MergeRule) {
    let engine = engine();
    let records = Records::new(engine.clone(), 1);
    let encoded = KEY.encoded();
    let place = PlacedKey::new(&encoded, Partition(3)).expect("the name is good");
    let mut model: Option<Object> = None;
    for (step, chosen) in order.iter().enumerate() {
        let object = &objects[chosen % objects.len()];
        let needs_ticket = step % 2 == 0;
        let incoming = replicated(object, rule);
        let taken = take_into(&records, &place, &incoming, needs_ticket);
        let taken = taken.expect("the disk is good").expect("it may wait");
        assert!(!needs_ticket || matches!(taken, ApplyOutcome::Written(..)), "nothing to wait for");
        model = Some(model.map_or_else(|| object.clone(), |model| merge(&model, object, rule)));
        let expected = model.as_ref().expect("something was delivered");
        let mut found = None;
        let mut look = |record: &RecordRef<'_>| found = Some(record.to_record());
        engine.show(&place.at(), IoMode::Wait, &mut look).expect("the disk is good");
        let found = found.expect("something is stored");
        let stored = decode(&found.value).expect("it is an object");
        assert_eq!(stored.digest(), expected.digest(), "{stored:?} is not {expected:?}");
        assert_eq!(found.meta.digest, expected.digest());
        assert_eq!(found.meta.tombstone, expected.is_tombstone());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_replica_is_the_merge_of_what_it_was_sent(
        writes in writes(),
        order in prop::collection::vec(any::<usize>(), 1..20),
        last_write_wins in any::<bool>(),
    ) {
        let rule = if last_write_wins { MergeRule::LastWriteWins } else { MergeRule::Causal };
        check_delivery(&made(&writes, rule), &order, rule);
    }
}

#[test]
fn an_object_that_has_seen_what_is_stored_replaces_it_as_it_came() {
    let write = |has_read| Write {
        coordinator: 0,
        has_read,
        deleted: false,
        value_bytes: 300,
        hears: None,
    };
    let objects = made(&[write(true), write(true)], MergeRule::Causal);
    check_delivery(&objects, &[0, 1, 0, 1], MergeRule::Causal);
}

/// Flips a bit in the last record of a store's log.
fn damage_last(disk: &FaultyDisk) {
    let names = Disk::list(disk).expect("the disk is good");
    let log = names.iter().find(|name| name.ends_with(".log")).expect("there is a log");
    let size_bytes = disk.bytes(log).expect("it is there").len();
    disk.flip_bit(log, size_bytes - 40, 1);
}

/// Otherwise the record would stay damaged for ever, because no other replica has an object to replace it
/// with.
#[test]
fn a_damaged_record_is_removed_when_nothing_may_be_stored_instead() {
    let write =
        Write { coordinator: 0, has_read: true, deleted: false, value_bytes: 300, hears: None };
    let objects = made(&[write.clone(), write], MergeRule::Causal);
    let disk = Arc::new(FaultyDisk::new(1));
    let engine = engine_on(Arc::clone(&disk));
    let records = Records::new(engine.clone(), 1);
    let encoded = KEY.encoded();
    let place = PlacedKey::new(&encoded, Partition(3)).expect("the name is good");
    let incoming = |object| replicated(object, MergeRule::Causal);
    take_into(&records, &place, &incoming(&objects[0]), false).expect("the disk is good");
    damage_last(&disk);
    let read = || engine.get(&place.at(), IoMode::Wait);
    assert!(matches!(read(), Err(StoreError::Corrupt { .. })), "{:?}", read());
    let nothing = |_| Ok(ArrivalDecision::Nothing);
    let taken = take_around(&records, &place, &incoming(&objects[1]), false, &nothing, true);
    assert_eq!(taken.expect("the disk is good"), Some(ApplyOutcome::Nothing));
    assert_eq!(engine.stats().key_count, 0);
}

#[test]
fn an_older_object_does_not_replace_one_that_has_replaced_a_damaged_copy() {
    let write =
        Write { coordinator: 0, has_read: true, deleted: false, value_bytes: 300, hears: None };
    let objects = made(&[write.clone(), write], MergeRule::Causal);
    let disk = Arc::new(FaultyDisk::new(1));
    let engine = engine_on(Arc::clone(&disk));
    let records = Records::new(engine.clone(), 1);
    let encoded = KEY.encoded();
    let place = PlacedKey::new(&encoded, Partition(3)).expect("the name is good");
    let [older, newer] = [&objects[0], &objects[1]].map(|made| replicated(made, MergeRule::Causal));
    take_into(&records, &place, &older, false).expect("the disk is good");
    damage_last(&disk);
    // Two calls have found the damage; the one with the newer object is the first to replace it.
    let take = |incoming| {
        let as_it_came = |_| Ok(ArrivalDecision::AsItCame);
        let taken = take_around(&records, &place, incoming, false, &as_it_came, true);
        taken.expect("the disk is good").expect("it may wait")
    };
    assert!(matches!(take(&newer), ApplyOutcome::Written(..)));
    assert_eq!(take(&older), ApplyOutcome::Known);
    let stored = engine.head(&place.at()).expect("the disk is good").expect("a record");
    assert_eq!(stored.digest, newer.meta.digest);
}

#[test]
fn a_reaped_tombstone_is_gone_and_anything_else_stays() {
    let write =
        |deleted| Write { coordinator: 0, has_read: true, deleted, value_bytes: 9, hears: None };
    let objects = made(&[write(false), write(true)], MergeRule::Causal);
    let engine = engine();
    let records = Records::new(engine.clone(), 1);
    let encoded = KEY.encoded();
    let place = PlacedKey::new(&encoded, Partition(3)).expect("the name is good");
    let deliver = |object| {
        let incoming = replicated(object, MergeRule::Causal);
        take_into(&records, &place, &incoming, false).expect("the disk is good");
    };
    let key_count = || engine.stats().key_count;
    let reap = |digest| records.reap(&place.at(), digest);
    deliver(&objects[0]);
    assert!(!reap(objects[0].digest()).expect("the disk is good"));
    assert_eq!(key_count(), 1);
    deliver(&objects[1]);
    assert!(!reap(objects[0].digest()).expect("the disk is good"));
    assert!(reap(objects[1].digest()).expect("the disk is good"));
    assert_eq!(key_count(), 0);
}
