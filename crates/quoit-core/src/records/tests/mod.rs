use super::*;
use crate::placement::PlacedKey;
use proptest::prelude::*;
use quoit_model::clock::Actor;
use quoit_model::data_type::{EventOrigin, Operation, SetChange, Value};
use quoit_model::hash::RingSize;
use quoit_model::hash::{Identity, KeyHash, Partition, PlacementHash};
use quoit_model::hll::Precision;
use quoit_model::key::{BucketRef, PIECE_TYPE};
use quoit_seam::{Disk, FaultyDisk, ManualClock, ManualExecution};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use quoit_store::engine::{KeyRange, Maintenance};
use quoit_store::index::Tag;
use quoit_store::ordered::{OrderedEngine, OrderedSettings, TreeSettings};
use std::collections::BTreeSet;

mod branches;
mod concurrent_changes;
mod merging;
mod outline;
mod staged;

const PARTITION: Partition = Partition(3);

fn open(disk: &Arc<FaultyDisk>) -> Arc<BitcaskEngine> {
    let settings = BitcaskSettings { ring_size: ring_size(), ..BitcaskSettings::new(7) };
    let clock = Arc::new(ManualClock::at(1));
    let disk = Arc::clone(disk);
    let opened = BitcaskEngine::open(disk, clock, &ManualExecution::default(), settings);
    Arc::new(opened.expect("the disk opens").0)
}

/// An engine that can't tell without waiting that it has no record of a name.
fn open_innostore(disk: &Arc<FaultyDisk>) -> Arc<OrderedEngine> {
    let settings = OrderedSettings { ring_size: ring_size(), ..OrderedSettings::new(7) };
    let disk: Arc<dyn Disk> = disk.clone();
    let clock = Arc::new(ManualClock::at(1));
    let (execution, of_tree) = (ManualExecution::default(), TreeSettings::default());
    let opened = OrderedEngine::open_innostore(&disk, clock, &execution, settings, of_tree);
    Arc::new(opened.expect("the disk opens").0)
}

fn ring_size() -> RingSize {
    RingSize::new(8).expect("8 is a ring size")
}

fn name(key: &str) -> Bytes {
    let bucket = BucketRef { bucket_type: b"sets", bucket: b"bucket" };
    Bytes::copy_from_slice(&bucket.key(key.as_bytes()).encoded())
}

fn element(number: u16) -> Bytes {
    format!("element {number:05}").into()
}

fn changes(numbers: impl Iterator<Item = u16>, adds: bool) -> Operation {
    let change = if adds { SetChange::Add } else { SetChange::Remove };
    Operation::Set(numbers.map(element).map(change).collect())
}

fn author(actor: &Actor) -> EventOrigin<'_> {
    let hll_precision = Precision::default();
    EventOrigin { actor, time_secs: 1, now_us: 1, hll_precision }
}

/// Runs an operation as the coordinator does: within the pages if the record is stored in pages.
fn update(records: &Records, at: &RecordAt<'_>, operation: &Operation) -> bool {
    let actor = Actor(b"incarnation"[..].into());
    let mut is_done = false;
    let mut change = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        let stored = stored.map(|record| Object::decode(&record.to_bytes()).expect("an object"));
        let updated = Object::update_data_type(stored, operation, None, author(&actor), None);
        is_done = updated.is_ok();
        let Ok(object) = updated else { return Decision::Keep };
        object.encode_into(out);
        Decision::Put(RecordMeta::of(&object, 3))
    };
    match records
        .update(at, BeforeImage::Read, IoMode::Wait, &mut change)
        .expect("the disk is good")
    {
        Updated::Applied(_) => is_done,
        Updated::InPages => {
            let mut is_done = false;
            let mut in_pages = |paged: PagedObject, pages: &mut WrittenPages<'_, '_>| {
                let updated = paged.update(operation, None, author(&actor), pages)?.ok();
                is_done = updated.is_some();
                Ok(updated.map(|(paged, _)| paged))
            };
            let applied = records.change_pages(at, IoMode::Wait, &mut in_pages);
            assert!(applied.expect("the disk is good").is_some());
            is_done
        }
    }
}

fn found(records: &Records, at: &RecordAt<'_>) -> Option<Record> {
    let mut found = None;
    let mut look = |record: &RecordRef<'_>| found = Some(record.to_record());
    records.show(at, IoMode::Wait, &mut look).expect("the disk is good");
    found
}

fn elements(record: &Record) -> BTreeSet<Bytes> {
    let object = Object::decode(&record.value).expect("a whole object");
    assert_eq!(object.digest(), record.meta.digest);
    match object.data_type().expect("readable").map(|state| state.value()) {
        Some(Value::Set(elements)) => elements.into_iter().collect(),
        other => panic!("{other:?}"),
    }
}

/// Number of pages that the engine holds of a record.
fn page_count(engine: &dyn Engine, record: &[u8]) -> usize {
    let pieces = BucketRef { bucket_type: PIECE_TYPE, bucket: record };
    let listed = engine.list_keys(KeyRange::Bucket(pieces), None, 100_000);
    listed.expect("the disk is good").entries.len()
}

/// Flips a bit in every hundred bytes of a store's log.
fn damage_log(disk: &FaultyDisk) {
    let names = Disk::list(disk).expect("the disk is good").into_iter();
    for name in names.filter(|name| name.ends_with(".log")) {
        let size_bytes = disk.bytes(&name).expect("it is there").len();
        (100..size_bytes).step_by(100).for_each(|offset| disk.flip_bit(&name, offset, 1));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Change(usize, u16, u16, bool),
    Remove(usize),
    /// Power is cut after a sync: synced data stays.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let record = || 0usize..2;
    let step = prop_oneof![
        8 => (record(), 0u16..300, 1u16..200, prop::bool::weighted(0.7))
            .prop_map(|(record, from, count, adds)| Step::Change(record, from, count, adds)),
        6 => (record(), 0u16..300, any::<bool>())
            .prop_map(|(record, from, adds)| Step::Change(record, from, 1, adds)),
        1 => record().prop_map(Step::Remove),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..25)
}

/// Runs steps on an engine, and checks after each that all records read as plain sets do.
fn records_read_like_sets<E: Engine + 'static>(
    steps: Vec<Step>,
    open: impl Fn(&Arc<FaultyDisk>) -> Arc<E>,
) -> Result<(), TestCaseError> {
    let mut disk = Arc::new(FaultyDisk::new(1));
    let mut engine = open(&disk);
    let mut records = Records::new(engine.clone(), 1);
    let names = [name("one"), name("two")];
    let mut model: [Option<BTreeSet<Bytes>>; 2] = Default::default();
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Change(record, from, count, adds) => {
                let place = PlacedKey::new(&names[record], PARTITION).expect("a good name");
                let range = from..from + count;
                let operation = changes(range.clone(), adds);
                let is_possible = adds
                    || model[record].as_ref().is_some_and(|elements| {
                        range.clone().all(|number| elements.contains(&element(number)))
                    });
                prop_assert_eq!(update(&records, &place.at(), &operation), is_possible);
                if is_possible {
                    let elements = model[record].get_or_insert_default();
                    for element in range.map(element) {
                        if adds {
                            elements.insert(element);
                        } else {
                            elements.remove(&element);
                        }
                    }
                }
            }
            Step::Remove(record) => {
                let place = PlacedKey::new(&names[record], PARTITION).expect("a good name");
                let mut change = |_: Option<&RecordRef<'_>>, _: &mut Vec<u8>| Decision::Remove;
                records
                    .apply(&place.at(), BeforeImage::Front, IoMode::Wait, &mut change)
                    .expect("the disk is good");
                prop_assert_eq!(page_count(&*engine, &names[record]), 0);
                model[record] = None;
            }
            Step::Restart => {
                engine.sync().expect("the disk is good");
                disk = Arc::new(disk.crash());
                engine = open(&disk);
                records = Records::new(engine.clone(), number as u64 + 2);
            }
        }
        let mut live = 0;
        for (name, model) in names.iter().zip(&model) {
            let place = PlacedKey::new(name, PARTITION).expect("a good name");
            let record = found(&records, &place.at());
            prop_assert_eq!(record.as_ref().map(elements), model.clone());
            live += usize::from(model.is_some());
            let is_large = model.as_ref().is_some_and(|elements| elements.len() > 150);
            prop_assert!(!is_large || page_count(&*engine, name) > 0);
        }
        let folded = records.fold(PARTITION, Identity(0), 10).expect("the disk is good").entries;
        prop_assert_eq!(engine.stats().key_count, live as u64);
        let folded: BTreeSet<Bytes> = folded.into_iter().map(|(name, _)| name).collect();
        let there = names.iter().zip(&model).filter(|(_, model)| model.is_some());
        prop_assert_eq!(folded, there.map(|(name, _)| name.clone()).collect());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_record_reads_the_same_wherever_it_lies(steps in steps()) {
        records_read_like_sets(steps, open)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn a_record_reads_the_same_wherever_it_lies_in_a_tree(steps in steps()) {
        records_read_like_sets(steps, open_innostore)?;
    }
}

#[test]
fn a_no_wait_update_that_makes_a_record_large_would_block() {
    for engine in [
        open(&Arc::new(FaultyDisk::new(1))) as Arc<dyn Engine>,
        open_innostore(&Arc::new(FaultyDisk::new(1))),
    ] {
        let records = Records::new(engine.clone(), 1);
        let name = name("one");
        let place = PlacedKey::new(&name, PARTITION).expect("a good name");
        assert!(update(&records, &place.at(), &changes(0..10, true)));
        let mut change = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            let stored = stored.map(|record| Object::decode(&record.to_bytes()).expect("readable"));
            let actor = Actor(b"incarnation"[..].into());
            let add = changes(10..1_000, true);
            let object = Object::update_data_type(stored, &add, None, author(&actor), None);
            object.expect("elements can be added").encode_into(out);
            Decision::Put(RecordMeta::default())
        };
        let updated = records.update(&place.at(), BeforeImage::Read, IoMode::NoWait, &mut change);
        assert_eq!(updated.expect("the disk is good"), Updated::Applied(Applied::WouldBlock));
        let left = found(&records, &place.at()).expect("the record");
        assert_eq!((elements(&left).len(), page_count(&*engine, &name)), (10, 0));
        assert!(update(&records, &place.at(), &changes(10..1_000, true)));
        let is_in_pages = records.is_in_pages(&place.at(), IoMode::Wait);
        assert_eq!(is_in_pages.expect("the disk is good"), Some(true));
        assert!(page_count(&*engine, &name) > 10);
    }
}

#[test]
fn a_changed_whole_object_is_divided_into_pages_again() {
    let disk = Arc::new(FaultyDisk::new(1));
    let engine = open(&disk);
    let records = Records::new(engine.clone(), 1);
    let name = name("one");
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    assert!(update(&records, &place.at(), &changes(0..1_000, true)));
    let pages = page_count(&*engine, &name);
    assert!(pages > 10);
    let actor = Actor(b"another"[..].into());
    let mut change = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        let stored = stored.map(|record| Object::decode(&record.to_bytes()).expect("an object"));
        let add = changes(1_000..1_001, true);
        let object = Object::update_data_type(stored, &add, None, author(&actor), None);
        let object = object.expect("an element can be added");
        object.encode_into(out);
        Decision::Put(RecordMeta::of(&object, 3))
    };
    let before = engine.stats().disk_bytes;
    records.apply(&place.at(), BeforeImage::Read, IoMode::Wait, &mut change).expect("good");
    let written = engine.stats().disk_bytes - before;
    assert!(written < 8 << 10, "{written} bytes: only the page that differs, and the root");
    assert_eq!(page_count(&*engine, &name), pages);
    let record = found(&records, &place.at()).expect("a record");
    assert_eq!(elements(&record).len(), 1_001);
    let plain = Object::default();
    let mut change = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        assert_eq!(stored.map(|record| record.value), Some(&record.value[..]));
        plain.encode_into(out);
        Decision::Put(RecordMeta::of(&plain, 3))
    };
    records.apply(&place.at(), BeforeImage::Read, IoMode::Wait, &mut change).expect("good");
    assert_eq!(page_count(&*engine, &name), 0);
    assert_eq!(found(&records, &place.at()).expect("a record").value, encoded(&plain));
}

#[test]
fn a_damaged_record_takes_its_pages_along() {
    let disk = Arc::new(FaultyDisk::new(1));
    let engine = open(&disk);
    let records = Records::new(engine.clone(), 1);
    let name = name("one");
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    assert!(update(&records, &place.at(), &changes(0..1_000, true)));
    assert!(page_count(&*engine, &name) > 10);
    damage_log(&disk);
    let mut change = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        assert!(stored.is_none(), "nothing of it can be read");
        let object = Object::default();
        object.encode_into(out);
        Decision::Put(RecordMeta::of(&object, 3))
    };
    let applied = records.replace_damaged(&place.at(), IoMode::Wait, &|| Ok(()), &mut change);
    assert!(matches!(applied, Ok(Applied::Written(_))));
    assert_eq!(page_count(&*engine, &name), 0);
}

#[test]
fn a_write_that_replaced_a_damaged_record_is_not_lost_to_a_second_one() {
    let disk = Arc::new(FaultyDisk::new(1));
    let records = Records::new(open(&disk), 1);
    let name = name("one");
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    assert!(update(&records, &place.at(), &changes(0..10, true)));
    damage_log(&disk);
    // Two writes have found the damage. Each adds an element to what it is shown.
    for number in [20, 21] {
        let mut change = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            let stored = stored.map(|record| Object::decode(&record.to_bytes()).expect("valid"));
            let (add, actor) = (changes(number..=number, true), Actor(b"actor"[..].into()));
            let object = Object::update_data_type(stored, &add, None, author(&actor), None);
            let object = object.expect("an element can be added");
            object.encode_into(out);
            Decision::Put(RecordMeta::of(&object, 3))
        };
        let applied = records.replace_damaged(&place.at(), IoMode::Wait, &|| Ok(()), &mut change);
        assert!(matches!(applied, Ok(Applied::Written(_))), "{applied:?}");
    }
    let record = found(&records, &place.at()).expect("a record");
    assert_eq!(elements(&record), BTreeSet::from([20, 21].map(element)));
}

#[test]
fn a_call_that_must_not_wait_puts_no_large_record_together() {
    let disk = Arc::new(FaultyDisk::new(1));
    let records = Records::new(open(&disk), 1);
    let names = [name("small"), name("large")];
    for (name, count, is_shown) in [(&names[0], 300, true), (&names[1], 4_000, false)] {
        let place = PlacedKey::new(name, PARTITION).expect("a good name");
        assert!(update(&records, &place.at(), &changes(0..count, true)));
        let mut look_count = 0;
        let shown = records.show(&place.at(), IoMode::NoWait, &mut |_| look_count += 1);
        let expected = if is_shown { InPlaceRead::Found } else { InPlaceRead::WouldBlock };
        assert_eq!((shown.expect("good"), look_count), (expected, usize::from(is_shown)));
        let mut change_count = 0;
        let mut change = |_: Option<&RecordRef<'_>>, _: &mut Vec<u8>| {
            change_count += 1;
            Decision::Keep
        };
        let changed = records.apply(&place.at(), BeforeImage::Read, IoMode::NoWait, &mut change);
        let expected = if is_shown { Applied::Kept } else { Applied::WouldBlock };
        assert_eq!((changed.expect("good"), change_count), (expected, usize::from(is_shown)));
        assert_eq!(
            elements(&found(&records, &place.at()).expect("a record")).len(),
            usize::from(count)
        );
    }
    let place = PlacedKey::new(&names[1], PARTITION).expect("a good name");
    for (count, is_quick) in [(1, true), (3_000, false)] {
        let operation = changes(10_000..10_000 + count, true);
        let mut in_pages = |paged: PagedObject, pages: &mut WrittenPages<'_, '_>| {
            let updated =
                paged.update(&operation, None, author(&Actor(b"one"[..].into())), pages)?;
            Ok(updated.ok().map(|(paged, _)| paged))
        };
        let applied = records.change_pages(&place.at(), IoMode::NoWait, &mut in_pages);
        let applied = applied.expect("the disk is good").expect("it lies in pages");
        assert_eq!(matches!(applied, Applied::Written(_)), is_quick);
        assert_eq!(applied == Applied::WouldBlock, !is_quick);
    }
}
