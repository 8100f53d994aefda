//! Walks over the records of a range with their values.

use super::{Access, KeyPage, KeyRange, RecordAt, RecordMeta, RecordRef, ScanAccess, Shown};
use crate::error::StoreError;
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::KeyRef;

/// Where a record of a known name lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordPlace {
    /// Hash that names the record in the index.
    pub identity: Identity,
    /// The partition that the record belongs to.
    pub partition: Partition,
}

/// The outcome for a record that a visitor wants.
#[derive(Clone, Copy, Debug)]
pub enum Visited<'r> {
    /// The record.
    Found(&'r RecordRef<'r>),
    /// The record has gone or expired since it was listed, or is in another partition.
    Missing,
    /// The record can't be read.
    Damaged,
}

/// Chooses records of a range and looks at them. Neither function may call the engine.
pub trait RecordVisitor {
    /// The place of a record that is wanted, whose encoded name this is; `None` if it is not wanted. May be
    /// asked twice about one record.
    fn wants(&mut self, encoded: &[u8], meta: &RecordMeta) -> Option<RecordPlace>;

    /// Looks at a record that is wanted. Called once for each, in no order.
    fn visit(&mut self, encoded: &[u8], record: Visited<'_>);
}

/// A piece of a walk over records.
#[derive(Clone, Copy, Debug)]
pub struct RecordWalk<'w> {
    /// The records.
    pub range: KeyRange<'w>,
    /// Where the last piece has ended; `None` at the beginning.
    pub after: Option<&'w [u8]>,
    /// Records that are shown, at most.
    pub count_max: usize,
    /// Bytes of records, about: the piece ends with the first record that goes beyond.
    pub bytes_max: u64,
}

/// As [`ScanAccess::visit_records`], by a listing and a look at each record.
pub(crate) fn visit_listed<E: ScanAccess + ?Sized>(
    engine: &E,
    walk: RecordWalk<'_>,
    visitor: &mut dyn RecordVisitor,
) -> Result<Option<Bytes>, StoreError> {
    let KeyPage { entries, next } = engine.list_keys(walk.range, walk.after, walk.count_max)?;
    let (last, mut shown_bytes) = (entries.len().saturating_sub(1), 0);
    for (place, (encoded, meta)) in entries.iter().enumerate() {
        let Some(at) = visitor.wants(encoded, meta) else { continue };
        shown_bytes +=
            visit_one(|at, look| engine.show(at, Access::Wait, look), encoded, at, visitor)?;
        if shown_bytes >= walk.bytes_max && place < last {
            return Ok(Some(encoded.clone()));
        }
    }
    Ok(next)
}

/// Shows a visitor one record by its name. The bytes of its value.
pub(crate) fn visit_one(
    show: impl Fn(&RecordAt<'_>, &mut dyn FnMut(&RecordRef<'_>)) -> Result<Shown, StoreError>,
    encoded: &[u8],
    place: RecordPlace,
    visitor: &mut dyn RecordVisitor,
) -> Result<u64, StoreError> {
    let Ok(key) = KeyRef::decode(encoded) else {
        visitor.visit(encoded, Visited::Damaged);
        return Ok(0);
    };
    let mut shown_bytes = 0;
    let RecordPlace { identity, partition } = place;
    let at = RecordAt { key, encoded, identity, partition };
    let shown = show(&at, &mut |record| {
        shown_bytes = record.value.len() as u64;
        visitor.visit(encoded, Visited::Found(record));
    });
    match shown {
        Ok(Shown::Found) => {}
        Ok(Shown::Missing | Shown::WouldBlock) => visitor.visit(encoded, Visited::Missing),
        Err(StoreError::Corrupt { .. }) => visitor.visit(encoded, Visited::Damaged),
        Err(fault) => return Err(fault),
    }
    Ok(shown_bytes)
}
