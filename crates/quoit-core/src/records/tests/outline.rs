//! Tests of answers about records as folds return them.

use super::*;
use quoit_store::engine::ScanAccess;

/// The record as a fold returns it.
fn folded(engine: &dyn Engine, at: &RecordAt<'_>) -> Record {
    let page = engine.fold(PARTITION, Identity(0), 10, false).expect("the disk is good");
    let entry = page.entries.into_iter().find(|(key, _)| key[..] == *at.encoded);
    entry.expect("the record is there").1
}

#[test]
fn an_outline_is_that_of_the_whole_object() {
    for (count, is_large) in [(10, false), (3_000, true)] {
        let engine = open(&Arc::new(FaultyDisk::new(1)));
        let records = Records::new(engine.clone(), 1);
        let name = name("set");
        let place = PlacedKey::new(&name, PARTITION).expect("a good name");
        let at = place.at();
        assert!(update(&records, &at, &changes(0..count, true)));
        let whole = records.get(&at).expect("the disk is good").expect("a record");
        let object = Object::decode(&whole.value).expect("an object");
        let outline = records.outline(&at).expect("the disk is good").expect("a record");
        assert_eq!((&outline.meta, &outline.clock), (&whole.meta, &object.clock));
        assert_eq!(outline.sibling_count, object.siblings.len());
        assert_eq!(outline.last_modified_us, object.last_modified_us());
        let pages_bytes = outline.size_bytes - folded(&*engine, &at).value.len() as u64;
        assert_eq!(pages_bytes > 10_000, is_large, "{pages_bytes} bytes");
        let at_hand = (!is_large).then_some(object);
        assert_eq!(outline.object, at_hand);
        let stored = records.object_at_hand(&at, IoMode::Wait);
        assert_eq!(stored, at_hand.map(|_| whole.value.clone()));
    }
}

#[test]
fn a_record_is_completed_unless_it_has_gone() {
    let engine = open(&Arc::new(FaultyDisk::new(1)));
    let records = Records::new(engine.clone(), 1);
    let names = [name("small"), name("large"), name("gone")];
    for (name, count) in names.iter().zip([10, 3_000, 3_000]) {
        let place = PlacedKey::new(name, PARTITION).expect("a good name");
        assert!(update(&records, &place.at(), &changes(0..count, true)));
    }
    let page = engine.fold(PARTITION, Identity(0), 10, false).expect("the disk is good");
    let by_pages = page.entries.iter().filter(|(_, record)| is_sent_by_pages(record));
    assert_eq!((page.entries.len(), by_pages.count()), (3, 2));
    let gone = PlacedKey::new(&names[2], PARTITION).expect("a good name");
    let digest = found(&records, &gone.at()).expect("a record").meta.digest;
    assert!(records.delete(&gone.at(), digest).expect("the disk is good"));
    let complete = records.complete(PARTITION, page.entries).expect("the disk is good");
    let counts: BTreeSet<(Bytes, usize)> =
        complete.into_iter().map(|(key, record)| (key, elements(&record).len())).collect();
    let expected = [(names[0].clone(), 10), (names[1].clone(), 3_000)];
    assert_eq!(counts, BTreeSet::from(expected));
}
