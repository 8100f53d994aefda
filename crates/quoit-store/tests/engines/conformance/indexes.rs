//! Records with index entries, and queries that are compared with the model's records.

use super::Subject;
use super::model::BUCKETS;
use super::program::{Content, Query, TERMS};
use bytes::Bytes;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::object::{IndexEntry, IndexTerm, Object, Sibling};
use quoit_model::secondary_index::{IndexPosition, IndexRange, index_entries_of};
use quoit_store::IndexActivity;
use quoit_store::engine::{
    BeforeImage, Decision, Engine, IoMode, KeyRange, Record, RecordAt, RecordMeta, RecordRef,
};
use quoit_store::error::StoreError;
use std::collections::BTreeSet;

const BINARIES: [&[u8]; TERMS] = [b"", b"\0", b"a", b"a\0", b"\xff"];
const INTEGERS: [i128; TERMS] = [-300, -1, 0, 255, i128::MAX];

fn field(of_integers: bool) -> Bytes {
    Bytes::from_static(if of_integers { b"n_int" } else { b"f_bin" })
}

fn term(of_integers: bool, number: usize) -> IndexTerm {
    if of_integers {
        IndexTerm::integer(INTEGERS[number])
    } else {
        IndexTerm::Binary(Bytes::from_static(BINARIES[number]))
    }
}

/// A record whose value is an object with index entries. Some objects have two siblings, of which one may
/// be deleted.
pub fn indexed_record(content: &Content, meta: RecordMeta) -> Record {
    let Content { fill, size, entries, .. } = *content;
    let content_bytes = [
        &[fill][..],
        &(size as u64).to_be_bytes(),
        &entries.to_be_bytes(),
        &meta.digest.to_be_bytes(),
        &meta.expires_at_secs.to_be_bytes(),
    ];
    // Different objects have different dots.
    let actor = Actor(content_bytes.concat().into());
    let mut object = Object::default();
    let mut add = |counter: u64, bits: u16, deleted: bool| {
        let dot = Dot { actor: actor.clone(), counter, time_secs: 0 };
        let mut sibling = Sibling { dot: Some(dot.clone()), deleted, ..Sibling::default() };
        let numbers = (0..2 * TERMS).filter(|number| bits & (1 << number) != 0);
        let entries = numbers.map(|number| {
            let of_integers = number >= TERMS;
            let term = term(of_integers, number % TERMS);
            IndexEntry { field: field(of_integers), term }
        });
        sibling.meta.indexes = entries.collect();
        sibling.meta.indexes.sort();
        sibling.value = Bytes::from(vec![fill; size]);
        object.siblings.push(sibling);
        object.clock = VersionVector::from_entries(vec![dot]);
    };
    add(1, entries, false);
    if fill.is_multiple_of(3) {
        add(2, entries.rotate_right(3), fill.is_multiple_of(2));
    }
    let mut value = Vec::new();
    object.encode_into(&mut value);
    let indexed = object.has_index_entries();
    assert!(indexed || entries == 0);
    Record { meta: RecordMeta { digest: object.digest(), indexed, ..meta }, value: value.into() }
}

/// Compares all index entries of all buckets.
pub fn check_everything(subject: &impl Subject, records: &[(KeyRef<'_>, Partition, &Record)]) {
    for bucket in 0..BUCKETS.len() {
        for of_integers in [false, true] {
            let terms = (0, TERMS - 1);
            let query = Query { bucket, of_integers, terms, partitions: u8::MAX, limit: 3 };
            check(subject, records, &query);
        }
    }
    check_long_bounds(subject.engine());
}

/// Bounds may be longer than the longest possible name or term.
fn check_long_bounds(engine: &dyn Engine) {
    let (bucket_type, bucket) = BUCKETS[0];
    let bucket = BucketRef { bucket_type, bucket };
    for (byte, size) in [(b'a', 70_000), (0, 40_000)] {
        let long = vec![byte; size];
        let term = IndexTerm::Binary(long.clone().into());
        let range = IndexRange { bucket, field: &field(false), min: &term, max: &term };
        assert_eq!(engine.query_index(&range, &|_| true, None, 3).unwrap().entries, []);
        let listed = engine.list_keys(KeyRange::Between(bucket, &long, None), None, 100).unwrap();
        for (name, _) in &listed.entries {
            assert!(KeyRef::decode(name).unwrap().key >= &long[..], "{name:?}");
        }
    }
}

/// Compares the answer to a query, read in pages, with the model's records.
pub fn check(subject: &impl Subject, records: &[(KeyRef<'_>, Partition, &Record)], query: &Query) {
    let (bucket_type, bucket) = BUCKETS[query.bucket];
    let bucket = BucketRef { bucket_type, bucket };
    let field = field(query.of_integers);
    let (min, max) =
        (term(query.of_integers, query.terms.0), term(query.of_integers, query.terms.1));
    let range = IndexRange { bucket, field: &field, min: &min, max: &max };
    let wants = |partition: Partition| query.partitions & (1 << partition.0) != 0;
    let engine = subject.engine();
    let first = engine.query_index(&range, &wants, None, query.limit);
    if matches!(first, Err(StoreError::IndexesUnavailable { .. })) {
        subject.rebuild_indexes();
    }
    let mut expected = BTreeSet::new();
    for (key, partition, record) in records {
        if record.meta.indexed && key.bucket == bucket && wants(*partition) {
            let entries = index_entries_of(&record.value).unwrap();
            let matching = entries
                .iter()
                .filter(|entry| entry.field == field && (&min..=&max).contains(&&entry.term));
            expected.extend(matching.map(|entry| IndexPosition::of(&entry.term, key.key)));
        }
    }
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = engine.query_index(&range, &wants, after.as_ref(), query.limit).unwrap();
        assert!(page.entries.len() <= query.limit, "{} entries in a page", page.entries.len());
        found.extend(page.entries);
        assert!(found.len() <= expected.len(), "{found:?} is more than {expected:?}");
        match page.next {
            Some(next) => {
                assert!(after.is_none_or(|after| next > after), "no progress");
                after = Some(next);
            }
            None => break,
        }
    }
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{query:?}");
}

/// Overwrites a record several times with different index entries, removes it, and checks the counts. After
/// a restart the engine's counts start at zero, unless it is an engine that keeps its memory.
pub fn writes_of_entries_are_counted(subject: &mut impl Subject) {
    let (bucket_type, bucket) = BUCKETS[0];
    let key = BucketRef { bucket_type, bucket }.key(b"counted");
    let encoded = key.encoded();
    let at = RecordAt { key, encoded: &encoded, identity: Identity(7), partition: Partition(0) };
    let update = |engine: &dyn Engine, entries: Option<u16>| {
        let mut change = |_: Option<&RecordRef<'_>>, value: &mut Vec<u8>| {
            let Some(entries) = entries else { return Decision::Remove };
            let meta = RecordMeta::default();
            let content = Content { fill: 1, size: 10, meta, expires_in_secs: 0, entries };
            let record = indexed_record(&content, meta);
            value.extend_from_slice(&record.value);
            Decision::Put(record.meta)
        };
        engine.update(&at, BeforeImage::Read, IoMode::Wait, &mut change).unwrap();
    };
    let before = subject.engine().index_activity();
    assert_eq!(before, IndexActivity::default());
    // Two entries; one of them is replaced by another; none, twice; one; removed.
    for entries in [Some(0b011), Some(0b110), Some(0), Some(0), Some(0b1000), None] {
        update(subject.engine(), entries);
    }
    let expected = IndexActivity { writes: 3, entries_written: 4, deletes: 2, entries_deleted: 4 };
    assert_eq!(subject.engine().index_activity(), expected);
    update(subject.engine(), Some(0b1));
    let counted = subject.engine().index_activity();
    subject.restart();
    let after = subject.engine().index_activity();
    assert!(after == counted || after == IndexActivity::default(), "{after:?} after a restart");
}
