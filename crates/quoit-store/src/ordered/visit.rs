//! Walks over the records of a range with their values.
//!
//! Names are stored in their order, records in the order of their hashes. So a walk goes part by part: it
//! reads the names of some records in one pass, and then looks up their records in storage order. The
//! average size of the records so far determines the number of records in a part. The first few are read in
//! the order of their names, so that a walk over large records reads none that it does not show.

use super::backend::Space;
use super::keys::{names_after, names_from};
use super::overlay::ScanRange;
use super::point::FoundRecord;
use super::store::StoreShared;
use super::value::{HEAD_BYTES, ValueHead};
use crate::engine::{
    InPlaceRead, KeyRange, RecordAt, RecordPlace, RecordRef, RecordVisitor, RecordWalk,
    VisitedRecord, listing_place, visit_one,
};
use crate::error::StoreError;
use crate::range::{range_contains, range_start};
use bytes::Bytes;
use quoit_model::key::KeyRef;
use quoit_number::index;
use quoit_seam::yield_to_requests;
use std::cell::{Cell, RefCell};

/// Number of records of the first part.
const FIRST_COUNT: usize = 8;

/// Maximum number of names that a call looks at for each record that it may show.
const LOOKED_AT_PER_RECORD: usize = 8;

/// Minimum of the bound on the names that a call looks at.
const LOOKED_AT_MIN: usize = 1_024;

/// Number of names that are read at once.
const NAMES_AT_ONCE: usize = 1_024;

/// Number of records that are read before the walk yields to other threads.
const READ_AT_ONCE: usize = 32;

/// A record that a visitor wants.
struct OrderedName {
    encoded: Bytes,
    place: RecordPlace,
    /// Key of the record in the ordered store.
    key: Bytes,
}

/// Names of the next wanted records.
struct WantedNames {
    wanted: Vec<OrderedName>,
    looked_at_count: usize,
    /// The last name; `None` if there are no more.
    next: Option<Bytes>,
}

/// A record in the ordered store.
enum OrderedRecord {
    /// The record exists. `body` is `None` while the body has not been read.
    Present {
        head: ValueHead,
        body: Option<Bytes>,
    },
    Missing,
    /// The record has to be looked up by itself.
    Unclear,
}

/// The records of a part: those with the lowest names, within a bound on their bytes.
struct PieceRecords {
    /// Records by the position of their names, as far as they were read. Records that were cut off at the
    /// end are left to a later part.
    records: Vec<Option<OrderedRecord>>,
    read_count: usize,
    bytes: u64,
    bytes_max: u64,
}

impl PieceRecords {
    fn new(count: usize, bytes_max: u64) -> Self {
        let records = std::iter::repeat_with(|| None).take(count).collect();
        Self { records, read_count: 0, bytes: 0, bytes_max }
    }

    fn count(&self) -> usize {
        self.records.len()
    }

    fn take(&mut self, place: usize) -> Option<OrderedRecord> {
        let record = self.records.get_mut(place)?.take()?;
        self.read_count -= 1;
        self.bytes -= body_bytes(&record);
        Some(record)
    }

    /// Adds a record, and drops the records with the highest names while the total is above the bound.
    fn add(&mut self, place: usize, record: OrderedRecord) {
        let Some(free) = self.records.get_mut(place) else { return };
        self.bytes += body_bytes(&record);
        self.read_count += 1;
        *free = Some(record);
        while self.bytes > self.bytes_max && self.read_count > 1 {
            if let Some(last) = self.records.pop().flatten() {
                self.bytes -= body_bytes(&last);
                self.read_count -= 1;
            }
        }
    }
}

const fn body_bytes(record: &OrderedRecord) -> u64 {
    match record {
        OrderedRecord::Present { head, .. } => head.body_bytes(),
        OrderedRecord::Missing | OrderedRecord::Unclear => 0,
    }
}

impl StoreShared {
    #[expect(
        clippy::indexing_slicing,
        reason = "a part of the records is read, the first of them at least"
    )]
    pub(super) fn visit_records(
        &self,
        walk: RecordWalk<'_>,
        visitor: &mut dyn RecordVisitor,
    ) -> Result<Option<Bytes>, StoreError> {
        self.check_open()?;
        let RecordWalk { range, after, bytes_max, .. } = walk;
        let count_max = walk.count_max.max(1);
        let looked_at_max = count_max.saturating_mul(LOOKED_AT_PER_RECORD).max(LOOKED_AT_MIN);
        let (mut shown_count, mut shown_bytes, mut looked_at_count) = (0, 0, 0);
        let mut after = after.map(Bytes::copy_from_slice);
        loop {
            let left_bytes = bytes_max.saturating_sub(shown_bytes);
            let count = match shown_count {
                0 => FIRST_COUNT,
                // The number of records that fit if they have the average size of the earlier ones.
                _ => index(left_bytes.saturating_mul(shown_count as u64) / shown_bytes.max(1)),
            };
            let count = count.clamp(1, count_max - shown_count);
            let names = self.wanted_names(range, after.as_deref(), count, visitor)?;
            let in_order = shown_count == 0;
            let piece = self.read_piece(&names.wanted, left_bytes, in_order)?;
            let (count, wanted) = (piece.count(), &names.wanted);
            shown_bytes += self.show_piece(wanted, piece, visitor)?;
            shown_count += count;
            looked_at_count += names.looked_at_count;
            if count < wanted.len() {
                return Ok(Some(wanted[count - 1].encoded.clone()));
            }
            let is_full = shown_count >= count_max || shown_bytes >= bytes_max;
            if names.next.is_none() || is_full || looked_at_count >= looked_at_max {
                return Ok(names.next);
            }
            after = names.next;
        }
    }

    /// The names of the next records that a visitor wants, at most `count`. Looks at at least one live
    /// name, unless there are no more.
    fn wanted_names(
        &self,
        range: KeyRange<'_>,
        after: Option<&[u8]>,
        count: usize,
        visitor: &mut dyn RecordVisitor,
    ) -> Result<WantedNames, StoreError> {
        let start = range_start(range);
        let mut from = Bytes::from(match listing_place(after)? {
            Some(after) if after >= start => names_after(after),
            _ => names_from(start),
        });
        let mut names = WantedNames { wanted: Vec::new(), looked_at_count: 0, next: None };
        let mut last: Option<Bytes> = None;
        loop {
            let stored = ScanRange {
                space: Space::Names,
                from: &from,
                to: None,
                value_bytes_max: usize::MAX,
            };
            let scanned = self.overlay.scan(stored, count.min(NAMES_AT_ONCE))?;
            names.looked_at_count += scanned.entries.len();
            for (stored, value) in &scanned.entries {
                let (name, meta) = self.named(stored, value)?;
                let key = name.key();
                if !range_contains(range, key) {
                    return Ok(names);
                }
                if !self.is_live(&name, &meta) {
                    continue;
                }
                let encoded = key.encoded();
                // A bucket's placement rule may change, so one name may be in two partitions.
                if last.as_deref() == Some(&encoded[..]) {
                    continue;
                }
                let encoded = Bytes::copy_from_slice(&encoded);
                last = Some(encoded.clone());
                if let Some(place) = visitor.wants(&encoded, &meta) {
                    let at = at(key, &encoded, place);
                    let key = self.key_of(&at);
                    names.wanted.push(OrderedName { encoded, place, key });
                }
                if names.wanted.len() >= count {
                    names.next = last;
                    return Ok(names);
                }
            }
            // Names of dropped partitions may be between live names.
            match (scanned.next, &last) {
                (None, _) => return Ok(names),
                (Some(_), Some(_)) if names.looked_at_count >= LOOKED_AT_MIN => {
                    names.next = last;
                    return Ok(names);
                }
                (Some(next), _) => from = next,
            }
            yield_to_requests();
        }
    }

    /// Reads the records of a part, in storage order or, if `in_order`, in the order of their names.
    #[expect(clippy::indexing_slicing, reason = "places are those of the wanted records")]
    fn read_piece(
        &self,
        wanted: &[OrderedName],
        bytes_max: u64,
        in_order: bool,
    ) -> Result<PieceRecords, StoreError> {
        let mut places: Vec<usize> = (0..wanted.len()).collect();
        if !in_order {
            places.sort_unstable_by(|one, other| wanted[*one].key.cmp(&wanted[*other].key));
        }
        let mut piece = PieceRecords::new(wanted.len(), bytes_max);
        self.read_each(Space::Records, wanted, &places, &mut piece, |_, key, value| {
            let Some(value) = value else { return OrderedRecord::Missing };
            match ValueHead::read(key, &value) {
                Ok(head) if head.is_apart => OrderedRecord::Present { head, body: None },
                Ok(head) => OrderedRecord::Present { head, body: Some(value.slice(HEAD_BYTES..)) },
                Err(_) => OrderedRecord::Unclear,
            }
        })?;
        places.retain(|place| {
            let record = piece.records.get(*place);
            matches!(record, Some(Some(OrderedRecord::Present { body: None, .. })))
        });
        if !places.is_empty() {
            self.read_each(Space::Bodies, wanted, &places, &mut piece, |record, _, body| {
                match record {
                    Some(OrderedRecord::Present { head, .. }) => {
                        OrderedRecord::Present { head, body }
                    }
                    _ => OrderedRecord::Unclear,
                }
            })?;
        }
        Ok(piece)
    }

    /// Looks up the values of records in a space. `make` builds each record from its earlier state, its
    /// key, and its value if there is one.
    #[expect(clippy::indexing_slicing, reason = "places are those of the wanted records")]
    fn read_each(
        &self,
        space: Space,
        wanted: &[OrderedName],
        places: &[usize],
        piece: &mut PieceRecords,
        make: impl Fn(Option<OrderedRecord>, &[u8], Option<Bytes>) -> OrderedRecord,
    ) -> Result<(), StoreError> {
        let piece = RefCell::new(piece);
        let keys = places.iter().map(|place| (*place, &wanted[*place].key)).collect();
        let count = Cell::new(0_usize);
        let is_wanted = |place: usize| {
            count.set(count.get() + 1);
            if count.get().is_multiple_of(READ_AT_ONCE) {
                yield_to_requests();
            }
            place < piece.borrow().count()
        };
        let mut take = |place: usize, value: Option<Bytes>| {
            let mut piece = piece.borrow_mut();
            let known = piece.take(place);
            piece.add(place, make(known, &wanted[place].key, value));
        };
        match self.overlay.get_each(space, keys, &is_wanted, &mut take) {
            // The damaged record is found when the records are looked up one by one.
            Err(StoreError::Corrupt { .. }) => {
                for record in &mut piece.borrow_mut().records {
                    *record = record.take().filter(is_complete);
                }
                Ok(())
            }
            read => read,
        }
    }

    /// Shows the records of a part. Returns the bytes of their values.
    fn show_piece(
        &self,
        wanted: &[OrderedName],
        piece: PieceRecords,
        visitor: &mut dyn RecordVisitor,
    ) -> Result<u64, StoreError> {
        let mut shown_bytes = 0;
        for (OrderedName { encoded, place, .. }, record) in wanted.iter().zip(piece.records) {
            match record {
                Some(OrderedRecord::Missing) => visitor.visit(encoded, VisitedRecord::Missing),
                Some(OrderedRecord::Present { head, .. }) if self.is_expired(&head.meta) => {
                    visitor.visit(encoded, VisitedRecord::Missing);
                }
                Some(OrderedRecord::Present { head, body: Some(body) }) if head.has_body(&body) => {
                    let record = RecordRef {
                        meta: head.meta,
                        value: &body,
                        is_whole: true,
                        owner: Some(&body),
                    };
                    shown_bytes += body.len() as u64;
                    visitor.visit(encoded, VisitedRecord::Found(&record));
                }
                _ => {
                    let show = |at: &RecordAt<'_>, look: &mut dyn FnMut(&RecordRef<'_>)| {
                        self.show_uncached(at, look)
                    };
                    shown_bytes += visit_one(show, encoded, *place, visitor)?;
                }
            }
        }
        Ok(shown_bytes)
    }

    /// Shows one record without caching it.
    fn show_uncached(
        &self,
        at: &RecordAt<'_>,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<InPlaceRead, StoreError> {
        match self.find_uncached(at)? {
            FoundRecord::Present(record) if !self.is_expired(&record.meta) => {
                look(&RecordRef::shared(&record));
                Ok(InPlaceRead::Found)
            }
            FoundRecord::Damaged(error) => Err(error),
            FoundRecord::Present(_) | FoundRecord::Absent | FoundRecord::WouldBlock => {
                Ok(InPlaceRead::Missing)
            }
        }
    }
}

const fn is_complete(record: &OrderedRecord) -> bool {
    match record {
        OrderedRecord::Present { body, .. } => body.is_some(),
        OrderedRecord::Missing => true,
        OrderedRecord::Unclear => false,
    }
}

fn at<'a>(key: KeyRef<'a>, encoded: &'a [u8], place: RecordPlace) -> RecordAt<'a> {
    let RecordPlace { identity, partition } = place;
    RecordAt { key, encoded, identity, partition }
}
