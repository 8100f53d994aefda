//! Tests of large sets in fields of maps. Such fields have pages of their own.

use super::*;
use crate::placement::PlacedKey;
use quoit_model::data_type::{FieldKind, FieldName, FieldOperation, FieldUpdate, MapOperation};
use quoit_model::key::{BucketRef, ENCODED_KEY_BYTES_MAX, KeyRef};
use quoit_store::engine::Maintenance;
use quoit_store::engine::PointAccess;
use quoit_store::engine::ScanAccess;
use std::collections::BTreeMap;

/// The elements of each set of a map.
type Model = BTreeMap<u8, BTreeSet<Bytes>>;

fn field_name(field: u8) -> FieldName {
    FieldName::new(vec![b'a' + field], FieldKind::Set)
}

/// Adds elements to a set, or removes them. Sets of odd numbers are fields of an inner map.
fn change_set(field: u8, numbers: impl Iterator<Item = u16>, adds: bool) -> Operation {
    let change = if adds { SetChange::Add } else { SetChange::Remove };
    let changes = numbers.map(element).map(change).collect();
    let update = FieldUpdate::new(field_name(field).name, FieldOperation::Set(changes));
    around(field, MapOperation { updates: vec![update], ..MapOperation::default() })
}

fn remove_set(field: u8) -> Operation {
    around(field, MapOperation { removes: vec![field_name(field)], ..MapOperation::default() })
}

fn around(field: u8, operation: MapOperation) -> Operation {
    if field.is_multiple_of(2) {
        return Operation::Map(operation);
    }
    let update = FieldUpdate::new("inner", FieldOperation::Map(operation));
    Operation::Map(MapOperation { updates: vec![update], ..MapOperation::default() })
}

fn sets(record: &Record) -> Model {
    let object = Object::decode(&record.value).expect("a whole object");
    assert_eq!(object.digest(), record.meta.digest);
    let value = object.data_type().expect("readable").map(|state| state.value());
    let Some(Value::Map(fields)) = value else { panic!("{value:?}") };
    let mut found = Model::new();
    for (name, value) in fields {
        match value {
            Value::Map(fields) => found.extend(fields.into_iter().map(set_of)),
            value => found.extend([set_of((name, value))]),
        }
    }
    found
}

fn set_of((name, value): (FieldName, Value)) -> (u8, BTreeSet<Bytes>) {
    let Value::Set(elements) = value else { panic!("{value:?}") };
    (name.name[0] - b'a', elements.into_iter().collect())
}

#[derive(Clone, Debug)]
enum MapStep {
    Change(u8, u16, u16, bool),
    RemoveSet(u8),
    Remove,
    /// Power is cut after a sync: synced data stays.
    Restart,
}

fn map_steps() -> impl Strategy<Value = Vec<MapStep>> {
    let field = || 0u8..4;
    let step = prop_oneof![
        8 => (field(), 0u16..300, 1u16..200, prop::bool::weighted(0.7))
            .prop_map(|(field, from, count, adds)| MapStep::Change(field, from, count, adds)),
        6 => (field(), 0u16..300, any::<bool>())
            .prop_map(|(field, from, adds)| MapStep::Change(field, from, 1, adds)),
        2 => field().prop_map(MapStep::RemoveSet),
        1 => Just(MapStep::Remove),
        1 => Just(MapStep::Restart),
    ];
    prop::collection::vec(step, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_map_reads_the_same_wherever_its_sets_lie(steps in map_steps()) {
        let mut disk = Arc::new(FaultyDisk::new(1));
        let mut engine = open(&disk);
        let mut records = Records::new(engine.clone(), 1);
        let name = name("map");
        let place = PlacedKey::new(&name, PARTITION).expect("a good name");
        let at = place.at();
        let mut model: Option<Model> = None;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                MapStep::Change(field, from, count, adds) => {
                    let range = from..from + count;
                    let set = model.as_ref().and_then(|sets| sets.get(&field));
                    let is_possible = adds || set.is_some_and(|elements| {
                        range.clone().all(|number| elements.contains(&element(number)))
                    });
                    let operation = change_set(field, range.clone(), adds);
                    prop_assert_eq!(update(&records, &at, &operation), is_possible);
                    if is_possible {
                        let sets = model.get_or_insert_default();
                        let elements = sets.entry(field).or_default();
                        for element in range.map(element) {
                            if adds { elements.insert(element); } else { elements.remove(&element); }
                        }
                    }
                }
                MapStep::RemoveSet(field) => {
                    let sets = model.as_mut();
                    let is_possible = sets.is_some_and(|sets| sets.remove(&field).is_some());
                    prop_assert_eq!(update(&records, &at, &remove_set(field)), is_possible);
                }
                MapStep::Remove => {
                    let mut change = |_: Option<&RecordRef<'_>>, _: &mut Vec<u8>| Decision::Remove;
                    records.apply(&at, BeforeImage::Front, IoMode::Wait, &mut change)
                        .expect("the disk is good");
                    prop_assert_eq!(page_count(&*engine, &name), 0);
                    model = None;
                }
                MapStep::Restart => {
                    engine.sync().expect("the disk is good");
                    disk = Arc::new(disk.crash());
                    engine = open(&disk);
                    records = Records::new(engine.clone(), number as u64 + 2);
                }
            }
            let record = found(&records, &at);
            prop_assert_eq!(record.as_ref().map(sets), model.clone());
            let folded = records.fold(PARTITION, Identity(0), 10).expect("the disk is good").entries;
            prop_assert_eq!(folded.len(), usize::from(model.is_some()));
            prop_assert_eq!(engine.stats().key_count, u64::from(model.is_some()));
            // More elements than fit into one page.
            let is_large = |elements: &BTreeSet<Bytes>| elements.len() > 200;
            let large_count = model.iter().flat_map(BTreeMap::values).filter(|set| is_large(set)).count();
            prop_assert!(page_count(&*engine, &name) >= 2 * large_count, "each has several");
        }
    }
}

/// Bytes in the longest key of the tests' bucket whose record can have pages, and in the longest key
/// whose fields can have pages.
const PAGED_KEY_BYTES: usize = ENCODED_KEY_BYTES_MAX - 35;
const BRANCHED_KEY_BYTES: usize = PAGED_KEY_BYTES - 8;

/// Checks that a field stays in its page if the record's name is too long for pages of fields.
#[test]
fn fields_of_maps_with_very_long_names_grow_in_their_pages() {
    for (key_bytes, in_pages, in_branches) in [
        (BRANCHED_KEY_BYTES, true, true),
        (BRANCHED_KEY_BYTES + 1, true, false),
        (PAGED_KEY_BYTES, true, false),
        (PAGED_KEY_BYTES + 1, false, false),
    ] {
        let disk = Arc::new(FaultyDisk::new(1));
        let engine = open(&disk);
        let records = Records::new(engine.clone(), 1);
        let name = name(&"k".repeat(key_bytes));
        let place = PlacedKey::new(&name, PARTITION).expect("a good name");
        let at = place.at();
        let mut model = Model::new();
        for from in (0..2_000).step_by(100) {
            for field in 0..2 {
                assert!(update(&records, &at, &change_set(field, from..from + 100, true)));
                model.entry(field).or_default().extend((from..from + 100).map(element));
            }
            assert_eq!(sets(&found(&records, &at).expect("a record")), model);
        }
        let pages = page_count(&*engine, &name);
        assert_eq!((pages > 0, pages > 20), (in_pages, in_branches), "{key_bytes}: {pages}");
        for field in 0..2 {
            assert!(update(&records, &at, &remove_set(field)));
            model.remove(&field);
            assert_eq!(sets(&found(&records, &at).expect("a record")), model);
        }
    }
}

/// No version of the program writes such a record, but damage can produce one.
#[test]
fn pages_that_can_have_no_name_are_damage() {
    let disk = Arc::new(FaultyDisk::new(1));
    let engine = open(&disk);
    let records = Records::new(engine.clone(), 1);
    let [short, long] = ["k", &"k".repeat(PAGED_KEY_BYTES)].map(name);
    let short_place = PlacedKey::new(&short, PARTITION).expect("a good name");
    let long_place = PlacedKey::new(&long, PARTITION).expect("a good name");
    let at = long_place.at();
    assert!(update(&records, &short_place.at(), &change_set(1, 0..3_000, true)));
    copy(&*engine, &short_place.at(), &at);
    let pieces = BucketRef { bucket_type: PIECE_TYPE, bucket: &short };
    let listed = engine.list_keys(KeyRange::Bucket(pieces), None, 1_000).expect("a good disk");
    for (page, _) in &listed.entries {
        let piece = KeyRef::decode(page).expect("a name").key;
        let [from, to] = [&short, &long].map(|record| BucketRef::of_pieces(record).key(piece));
        if to.check().is_ok() {
            copy(&*engine, &piece_at(from, &from.encoded()), &piece_at(to, &to.encoded()));
        }
    }
    let look = &mut |_: &RecordRef<'_>| panic!("there is nothing to be seen");
    assert!(matches!(records.show(&at, IoMode::Wait, look), Err(StoreError::Corrupt { .. })));
    let mut updating = |paged: PagedObject, pages: &mut WrittenPages<'_, '_>| {
        let actor = Actor(b"incarnation"[..].into());
        let updated = paged.update(&change_set(1, 0..1, true), None, author(&actor), pages)?;
        Ok(updated.ok().map(|(paged, _)| paged))
    };
    let updated = records.change_pages(&at, IoMode::Wait, &mut updating);
    assert!(matches!(updated, Err(StoreError::Corrupt { .. })), "{updated:?}");
    let tags = BTreeSet::from([Tag::of(Identity(1))]);
    assert_eq!(records.owners_of_pages(PARTITION, &tags).expect("a good disk"), []);
    let mut remove = |_: Option<&RecordRef<'_>>, _: &mut Vec<u8>| Decision::Remove;
    let applied = records.replace_damaged(&at, IoMode::Wait, &|| Ok(()), &mut remove);
    assert!(matches!(applied, Ok(Applied::Written(_))), "{applied:?}");
    assert_eq!(page_count(&*engine, &long), 0);
}

fn piece_at<'a>(key: KeyRef<'a>, encoded: &'a [u8]) -> RecordAt<'a> {
    let identity = KeyHash::of_piece(encoded, PlacementHash(0)).identity;
    RecordAt { key, encoded, identity, partition: PARTITION }
}

fn copy(engine: &dyn Engine, from: &RecordAt<'_>, to: &RecordAt<'_>) {
    let Fetch::Found(record) = engine.get(from, IoMode::Wait).expect("a good disk") else {
        panic!("{from:?}")
    };
    let mut put = |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(&record.value);
        Decision::Put(record.meta)
    };
    engine.update(to, BeforeImage::Skip, IoMode::Wait, &mut put).expect("a good disk");
}

/// Checks that a page of a branch leads to its record, and is removed with it when the record is
/// damaged.
#[test]
fn pages_of_branches_are_known_by_their_record() {
    let disk = Arc::new(FaultyDisk::new(1));
    let engine = open(&disk);
    let records = Records::new(engine.clone(), 1);
    let name = name("map");
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    let at = place.at();
    assert!(update(&records, &at, &change_set(1, 0..3_000, true)));
    let pieces = BucketRef { bucket_type: PIECE_TYPE, bucket: &name };
    let listed = engine.list_keys(KeyRange::Bucket(pieces), None, 1_000).expect("a good disk");
    let tag =
        |(key, _): &(Bytes, RecordMeta)| Tag::of(KeyHash::of_piece(key, PlacementHash(0)).identity);
    let tags: BTreeSet<Tag> = listed.entries.iter().map(tag).collect();
    assert!(tags.len() > 30);
    let owners = records.owners_of_pages(PARTITION, &tags).expect("a good disk");
    assert_eq!(owners, [(Tag::of(at.identity), tags)]);
    damage_log(&disk);
    let mut change = |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        let object = Object::default();
        object.encode_into(out);
        Decision::Put(RecordMeta::of(&object, 3))
    };
    let applied = records.replace_damaged(&at, IoMode::Wait, &|| Ok(()), &mut change);
    assert!(matches!(applied, Ok(Applied::Written(_))));
    assert_eq!(page_count(&*engine, &name), 0);
}

/// Checks that a record which was written after its root was lost keeps its pages, while pages that no
/// root lists are removed.
#[test]
fn pages_that_nothing_leads_to_are_removed_with_a_damaged_record() {
    let disk = Arc::new(FaultyDisk::new(1));
    let engine = open(&disk);
    let records = Records::new(engine.clone(), 1);
    let name = name("set");
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    let at = place.at();
    assert!(update(&records, &at, &changes(0..1_000, true)));
    let lost = page_count(&*engine, &name);
    // As if the root could not be read.
    let mut remove = |_: Option<&RecordRef<'_>>, _: &mut Vec<u8>| Decision::Remove;
    engine.update(&at, BeforeImage::Skip, IoMode::Wait, &mut remove).expect("a good disk");
    assert!(update(&records, &at, &changes(0..500, true)));
    let left = page_count(&*engine, &name);
    assert!(left > lost, "{left} pages, {lost} of them old");
    records.collect_pages(&at).expect("a good disk");
    assert_eq!(page_count(&*engine, &name), left - lost);
    assert_eq!(elements(&found(&records, &at).expect("a record")).len(), 500);
}
