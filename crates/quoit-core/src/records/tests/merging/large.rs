//! An object that arrives for a record in pages is merged page by page, without the whole record in
//! memory.

use super::*;
use crate::placement::PlacedKey;
use quoit_model::data_type::{
    EventOrigin, FieldOperation, FieldUpdate, MapOperation, Operation, SetChange, State, Value,
};
use quoit_model::hash::Partition;
use quoit_model::hll::Precision;
use quoit_model::key::PIECE_TYPE;
use quoit_store::engine::{Applied, Fetch, KeyRange, Maintenance, PointAccess, ScanAccess};

const PARTITION: Partition = Partition(3);

/// Adds elements to a set, or, if `is_map`, to a set two maps deep.
fn add(is_map: bool, numbers: std::ops::Range<u32>) -> Operation {
    let elements = numbers.map(|number| Bytes::from(format!("element {number:07}")));
    let adds = elements.map(SetChange::Add).collect();
    if !is_map {
        return Operation::Set(adds);
    }
    let set = FieldUpdate::new("set", FieldOperation::Set(adds));
    let map = MapOperation { updates: vec![set], ..MapOperation::default() };
    let map = FieldUpdate::new("map", FieldOperation::Map(map));
    Operation::Map(MapOperation { updates: vec![map], ..MapOperation::default() })
}

fn updated(stored: Option<&Object>, operation: &Operation, by: &[u8]) -> Object {
    let actor = Actor(by.into());
    let hll_precision = Precision::default();
    let coordinator = EventOrigin { actor: &actor, time_secs: 1, now_us: 1, hll_precision };
    let updated = Object::update_data_type(stored.cloned(), operation, None, coordinator, None);
    updated.expect("elements can be added")
}

/// A plain value or a tombstone, written by a client with this context.
fn plain(context: &VersionVector, deleted: bool) -> Object {
    let new = NewValue {
        meta: Metadata::default(),
        value: if deleted { Bytes::new() } else { "plain".into() },
        deleted,
        last_modified_us: 5,
        vtag: "tag".into(),
    };
    let dot = Dot { actor: Actor(b"plain"[..].into()), counter: 7, time_secs: 0 };
    Object::write(None, context, new, dot, WritePolicy::Siblings)
}

fn page_count(engine: &BitcaskEngine) -> usize {
    let encoded = KEY.encoded();
    let pieces = BucketRef { bucket_type: PIECE_TYPE, bucket: &encoded };
    let listed = engine.list_keys(KeyRange::Bucket(pieces), None, 1_000_000);
    listed.expect("the disk is good").entries.len()
}

/// Merges an object into a record in pages. Panics if the record is read as a whole.
fn take_large(records: &Records, place: &PlacedKey<'_>, incoming: &Replicated) -> ApplyOutcome {
    let merged = |_: &Object, _: &Object| panic!("a record in pages was put together");
    let steps = MergeSteps {
        admitted: &|_| Ok(ArrivalDecision::AsItCame),
        merged: &merged,
        now_us: &|| 0,
        timed: &|_, _| {},
        forget: &|| Ok(()),
        replacing: &|| Ok(()),
        may_be_damaged: false,
    };
    let taken = records.merge(&place.at(), incoming, false, IoMode::Wait, &steps);
    taken.expect("the disk is good").expect("it may wait")
}

fn stored(records: &Records, place: &PlacedKey<'_>) -> Object {
    let mut found = None;
    let mut look = |record: &RecordRef<'_>| found = Some(record.to_record());
    records.show(&place.at(), IoMode::Wait, &mut look).expect("the disk is good");
    let record = found.expect("a record");
    let object = Object::decode(&record.value).expect("an object");
    assert_eq!(object.digest(), record.meta.digest);
    assert_eq!(object.is_tombstone(), record.meta.tombstone);
    object
}

fn value(object: &Object) -> Option<Value> {
    object.data_type().expect("readable").filter(State::is_live).map(|state| state.value())
}

#[test]
fn deletes_and_plain_values_put_nothing_together_and_leave_no_page() {
    let encoded = KEY.encoded();
    let place = PlacedKey::new(&encoded, PARTITION).expect("the name is good");
    for (is_map, deleted) in [(false, true), (false, false), (true, true), (true, false)] {
        let engine = engine();
        let records = Records::new(engine.clone(), 1);
        let count = if is_map { 50_000 } else { 200_000 };
        let object = updated(None, &add(is_map, 0..count), b"one");
        take_into(&records, &place, &replicated(&object, MergeRule::Causal), false).expect("good");
        assert!(page_count(&engine) > 500);
        let written = plain(&object.clock, deleted);
        let taken = take_large(&records, &place, &replicated(&written, MergeRule::Causal));
        let ApplyOutcome::Written(_, meta) = taken else { panic!("{taken:?}") };
        assert_eq!((meta.digest, meta.tombstone), (written.digest(), deleted));
        assert_eq!(stored(&records, &place), written);
        assert_eq!(page_count(&engine), 0);
    }
}

#[test]
fn a_concurrent_delete_or_value_leaves_what_it_has_not_seen() {
    let encoded = KEY.encoded();
    let place = PlacedKey::new(&encoded, PARTITION).expect("the name is good");
    for (is_map, deleted) in [(false, true), (false, false), (true, true), (true, false)] {
        let engine = engine();
        let records = Records::new(engine.clone(), 1);
        let seen = updated(None, &add(is_map, 0..20_000), b"one");
        let object = updated(Some(&seen), &add(is_map, 19_900..20_300), b"two");
        take_into(&records, &place, &replicated(&object, MergeRule::Causal), false).expect("good");
        let written = plain(&seen.clock, deleted);
        let incoming = replicated(&written, MergeRule::Causal);
        let taken = take_large(&records, &place, &incoming);
        assert!(matches!(taken, ApplyOutcome::Written(..)), "{taken:?}");
        let left = stored(&records, &place);
        assert_eq!(left.digest(), object.merge(&written).digest());
        assert_eq!(left.siblings.len(), 2, "the value or tombstone is beside it");
        assert_eq!(value(&left), value(&updated(None, &add(is_map, 19_900..20_300), b"x")));
        assert!(page_count(&engine) < 40, "{} pages", page_count(&engine));
        // Delivered again, the object brings nothing new.
        assert_eq!(take_large(&records, &place, &incoming), ApplyOutcome::Known);
    }
}

#[test]
fn the_last_write_takes_the_pages_with_it() {
    let encoded = KEY.encoded();
    let place = PlacedKey::new(&encoded, PARTITION).expect("the name is good");
    let engine = engine();
    let records = Records::new(engine.clone(), 1);
    let object = updated(None, &add(false, 0..5_000), b"one");
    let rule = MergeRule::LastWriteWins;
    take_into(&records, &place, &replicated(&object, rule), false).expect("good");
    let mut earlier = plain(&VersionVector::default(), false);
    earlier.siblings[0].last_modified_us = 0;
    assert_eq!(take_large(&records, &place, &replicated(&earlier, rule)), ApplyOutcome::Known);
    assert!(page_count(&engine) > 30);
    let later = plain(&VersionVector::default(), false);
    take_large(&records, &place, &replicated(&later, rule));
    assert_eq!((stored(&records, &place), page_count(&engine)), (later, 0));
}

/// A large object that has seen the stored one is merged into the existing pages, and only the pages that
/// differ are written.
#[test]
fn a_later_whole_object_writes_the_pages_that_differ() {
    let encoded = KEY.encoded();
    let place = PlacedKey::new(&encoded, PARTITION).expect("the name is good");
    let engine = engine();
    let records = Records::new(engine.clone(), 1);
    let object = updated(None, &add(false, 0..20_000), b"one");
    take_into(&records, &place, &replicated(&object, MergeRule::Causal), false).expect("good");
    let later = updated(Some(&object), &add(false, 20_000..20_001), b"two");
    let before = engine.stats().disk_bytes;
    take_large(&records, &place, &replicated(&later, MergeRule::Causal));
    let written = engine.stats().disk_bytes - before;
    assert!(written < 8 << 10, "{written} bytes");
    assert_eq!(stored(&records, &place).digest(), later.digest());
}

/// Power fails while a delete is on its way to disk. Afterwards either the whole set is there, or the
/// tombstone and no page.
#[test]
fn a_delete_that_is_cut_off_has_happened_or_not() {
    let encoded = KEY.encoded();
    let place = PlacedKey::new(&encoded, PARTITION).expect("the name is good");
    let object = updated(None, &add(true, 0..3_000), b"one");
    let tombstone = plain(&object.clock, true);
    let mut outcomes = [0, 0];
    for seed in 0..40 {
        let disk = Arc::new(FaultyDisk::new(seed));
        let engine = engine_on(Arc::clone(&disk));
        let records = Records::new(engine.clone(), 1);
        take_into(&records, &place, &replicated(&object, MergeRule::Causal), false).expect("good");
        engine.sync().expect("the disk is good");
        take_large(&records, &place, &replicated(&tombstone, MergeRule::Causal));
        let engine = engine_on(Arc::new(disk.crash()));
        let records = Records::new(engine.clone(), 2);
        let left = stored(&records, &place);
        let is_done = left == tombstone;
        outcomes[usize::from(is_done)] += 1;
        if is_done {
            assert_eq!(page_count(&engine), 0);
        } else {
            assert_eq!((left.digest(), value(&left)), (object.digest(), value(&object)));
        }
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

/// A transaction does not keep the pages that it has read in memory, because it may read any number of
/// them.
#[test]
fn pages_that_were_read_are_not_kept() {
    let encoded = KEY.encoded();
    let place = PlacedKey::new(&encoded, PARTITION).expect("the name is good");
    let engine = engine();
    let object = Object::default();
    let records = Records::new(engine.clone(), 1);
    take_into(&records, &place, &replicated(&object, MergeRule::Causal), false).expect("good");
    let read = engine.transact(PARTITION, IoMode::Wait, &mut |transaction| {
        for _ in 0..2 {
            let record = transaction.get(&place.at())?.expect("a record");
            assert!(record.value.is_unique(), "somebody else has it");
        }
        Ok(())
    });
    assert_eq!(read.expect("the disk is good"), Applied::Kept);
    assert!(matches!(engine.get(&place.at(), IoMode::Wait), Ok(Fetch::Found(_))));
}
