//! Records with index entries, and a comparison of queries with the stored records.

use super::{BUCKET, try_put};
use bytes::Bytes;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_model::key::KeyRef;
use quoit_model::object::{IndexEntry, IndexTerm, Object, Sibling};
use quoit_model::secondary_index::{IndexPosition, IndexRange, index_entries_of};
use quoit_store::engine::{Engine, RecordMeta, Ticket};
use quoit_store::error::StoreError;
use std::collections::BTreeSet;

const FIELD: &[u8] = b"n_int";

/// An object with two index entries: a unique term, and one that it shares with six other numbers.
pub fn indexed(number: u64) -> (Vec<u8>, RecordMeta) {
    let actor = Actor(number.to_be_bytes().to_vec().into());
    let dot = Dot { actor, counter: 1, time_secs: 0 };
    let clock = VersionVector::from_entries(vec![dot.clone()]);
    let mut sibling = Sibling { dot: Some(dot), ..Sibling::default() };
    let entry = |term: u64| IndexEntry {
        field: Bytes::from_static(FIELD),
        term: IndexTerm::integer(term.into()),
    };
    sibling.meta.indexes = vec![entry(number / 7), entry(1_000_000 + number)];
    sibling.value = Bytes::from(vec![number as u8; (number % 5) as usize * 300]);
    let object = Object { clock, siblings: [sibling].into() };
    let mut value = Vec::new();
    object.encode_into(&mut value);
    let meta = RecordMeta { digest: object.digest(), indexed: true, ..RecordMeta::default() };
    (value, meta)
}

pub fn try_put_indexed(engine: &dyn Engine, key: &str, number: u64) -> Result<Ticket, StoreError> {
    let (value, meta) = indexed(number);
    try_put(engine, key, &value, meta)
}

/// All terms and keys of the index of [`indexed`] records, read in pages.
pub fn query_all(engine: &dyn Engine) -> Result<Vec<IndexPosition>, StoreError> {
    let (min, max) = (IndexTerm::integer(0), IndexTerm::integer(i128::MAX));
    let range = IndexRange { bucket: BUCKET, field: FIELD, min: &min, max: &max };
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = engine.query_index(&range, &|_| true, after.as_ref(), 7)?;
        found.extend(page.entries);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(found),
        }
    }
}

/// Checks that a query finds exactly the entries of all stored records.
pub fn check_indexes(engine: &dyn Engine) {
    let mut expected = BTreeSet::new();
    for number in 0..RingSize::DEFAULT.get() {
        let mut from = Some(Identity(0));
        while let Some(start) = from {
            let page = engine.fold(Partition(number), start, 100, false).unwrap();
            for (encoded, record) in &page.entries {
                let key = KeyRef::decode(encoded).unwrap();
                if record.meta.indexed {
                    let entries = index_entries_of(&record.value).unwrap();
                    expected.extend(
                        entries.iter().map(|entry| IndexPosition::of(&entry.term, key.key)),
                    );
                }
            }
            from = page.next;
        }
    }
    let found = query_all(engine).unwrap();
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
}
