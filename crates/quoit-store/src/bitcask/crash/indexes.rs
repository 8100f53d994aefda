//! Values with index entries, and the expected results of queries.

use crate::engine::Engine;
use crate::error::StoreError;
use bytes::Bytes;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::codec::OBJECT_FORMAT_1;
use quoit_model::key::BucketRef;
use quoit_model::object::{IndexEntry, IndexTerm, Object, Sibling};
use quoit_model::secondary_index::{IndexPosition, IndexRange, index_entries_of};
use quoit_seam::Random;
use std::collections::BTreeSet;

const FIELD: &[u8] = b"n_int";

/// Exclusive upper bound of the index terms.
const TERMS: u64 = 6;

/// An encoded object with one to three index entries. All other values begin with their operation's number,
/// whose first byte is zero.
pub(super) fn indexed_value(random: &mut Random, operation: u64, size: u64) -> Vec<u8> {
    let actor = Actor(operation.to_be_bytes().to_vec().into());
    let dot = Dot { actor, counter: 1, time_secs: 0 };
    let clock = VersionVector::from_entries(vec![dot.clone()]);
    let mut sibling = Sibling { dot: Some(dot), ..Sibling::default() };
    let terms: BTreeSet<u64> = (0..=random.below(3)).map(|_| random.below(TERMS)).collect();
    let entry = |term: u64| IndexEntry {
        field: Bytes::from_static(FIELD),
        term: IndexTerm::integer(term.into()),
    };
    sibling.meta.indexes = terms.into_iter().map(entry).collect();
    sibling.value = Bytes::from(vec![operation as u8; size as usize]);
    let mut value = Vec::new();
    Object { clock, siblings: [sibling].into() }.encode_into(&mut value);
    value
}

pub(super) fn is_indexed(value: &[u8]) -> bool {
    value.first() == Some(&OBJECT_FORMAT_1)
}

/// Queries all index entries of a bucket and compares them with those of the given records.
pub(super) fn check(
    engine: &dyn Engine,
    bucket: BucketRef<'_>,
    records: &[(Vec<u8>, Vec<u8>)],
) -> Result<Result<(), String>, StoreError> {
    let mut expected = BTreeSet::new();
    for (key, value) in records.iter().filter(|(_, value)| is_indexed(value)) {
        for entry in index_entries_of(value).expect("it was encoded") {
            expected.insert(IndexPosition::of(&entry.term, key));
        }
    }
    let (min, max) = (IndexTerm::integer(0), IndexTerm::integer(TERMS.into()));
    let range = IndexRange { bucket, field: FIELD, min: &min, max: &max };
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = engine.query_index(&range, &|_| true, after.as_ref(), 3)?;
        found.extend(page.entries);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let expected: Vec<_> = expected.into_iter().collect();
    let told = |positions: &[IndexPosition]| -> Vec<_> {
        positions.iter().map(IndexPosition::parts).collect()
    };
    Ok(if found == expected {
        Ok(())
    } else {
        Err(format!("a query finds {:?} instead of {:?}", told(&found), told(&expected)))
    })
}
