//! Walks that show the records of a range with their values.

use super::{InPlaceRead, IoMode, KeyPage, KeyRange, RecordAt, RecordMeta, RecordRef, ScanAccess};
use crate::error::StoreError;
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::KeyRef;

/// Identity and partition of a record whose name is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordPlace {
    /// Hash by which the index finds the record.
    pub identity: Identity,
    /// The partition that the record belongs to.
    pub partition: Partition,
}

/// Outcome of reading a record that a visitor wants.
#[derive(Clone, Copy, Debug)]
pub enum VisitedRecord<'r> {
    /// The record.
    Found(&'r RecordRef<'r>),
    /// The record was removed or has expired since it was listed, or it is in another partition.
    Missing,
    /// The record cannot be read.
    Damaged,
}

/// Chooses records of a range and looks at them. Neither function may call the engine.
pub trait RecordVisitor {
    /// The place of the record with this encoded name if the visitor wants it, else `None`. The engine may
    /// ask twice about one record.
    fn wants(&mut self, encoded: &[u8], meta: &RecordMeta) -> Option<RecordPlace>;

    /// Looks at a wanted record. The engine calls it once for each, in any order.
    fn visit(&mut self, encoded: &[u8], record: VisitedRecord<'_>);
}

/// Bounds of one part of a walk over records.
#[derive(Clone, Copy, Debug)]
pub struct RecordWalk<'w> {
    /// The keys to walk over.
    pub range: KeyRange<'w>,
    /// End of the previous part; `None` at the beginning.
    pub after: Option<&'w [u8]>,
    /// Maximum number of records to show.
    pub count_max: usize,
    /// Approximate maximum of bytes of values: the walk stops after the first record that exceeds it.
    pub bytes_max: u64,
}

/// Implements [`ScanAccess::visit_records`] by a listing and a read of each wanted record.
pub(crate) fn visit_listed<E: ScanAccess + ?Sized>(
    engine: &E,
    walk: RecordWalk<'_>,
    visitor: &mut dyn RecordVisitor,
) -> Result<Option<Bytes>, StoreError> {
    let KeyPage { entries, next } = engine.list_keys(walk.range, walk.after, walk.count_max)?;
    let (last, mut shown_bytes) = (entries.len().saturating_sub(1), 0);
    for (place, (encoded, meta)) in entries.iter().enumerate() {
        let Some(at) = visitor.wants(encoded, meta) else { continue };
        let may_expire = meta.expires_at_secs != 0 && !meta.tombstone;
        let show = |at: &RecordAt<'_>, look: &mut dyn FnMut(&RecordRef<'_>)| {
            let mut is_over = false;
            let shown = engine.show(at, IoMode::Wait, &mut |record| {
                // This tombstone has replaced the record since the listing.
                is_over = may_expire && record.meta.tombstone;
                if !is_over {
                    look(record);
                }
            })?;
            Ok(if is_over { InPlaceRead::Missing } else { shown })
        };
        shown_bytes += visit_one(show, encoded, at, visitor)?;
        if shown_bytes >= walk.bytes_max && place < last {
            return Ok(Some(encoded.clone()));
        }
    }
    Ok(next)
}

/// Shows a visitor one record by its name. Returns the size of its value in bytes.
pub(crate) fn visit_one(
    show: impl Fn(&RecordAt<'_>, &mut dyn FnMut(&RecordRef<'_>)) -> Result<InPlaceRead, StoreError>,
    encoded: &[u8],
    place: RecordPlace,
    visitor: &mut dyn RecordVisitor,
) -> Result<u64, StoreError> {
    let Ok(key) = KeyRef::decode(encoded) else {
        visitor.visit(encoded, VisitedRecord::Damaged);
        return Ok(0);
    };
    let mut shown_bytes = 0;
    let RecordPlace { identity, partition } = place;
    let at = RecordAt { key, encoded, identity, partition };
    let shown = show(&at, &mut |record| {
        shown_bytes = record.value.len() as u64;
        visitor.visit(encoded, VisitedRecord::Found(record));
    });
    match shown {
        Ok(InPlaceRead::Found) => {}
        Ok(InPlaceRead::Missing | InPlaceRead::WouldBlock) => {
            visitor.visit(encoded, VisitedRecord::Missing)
        }
        Err(StoreError::Corrupt { .. }) => visitor.visit(encoded, VisitedRecord::Damaged),
        Err(fault) => return Err(fault),
    }
    Ok(shown_bytes)
}
