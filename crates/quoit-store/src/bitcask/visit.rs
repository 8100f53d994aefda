//! Walks over the records of a range with their values.
//!
//! A part of a walk takes the names of some records from the key files and their locations from the index,
//! and then reads the records in the order of the log. Records that are close together are read at once.
//! This is fast for records that were written in the order of their names, even if other records were
//! written in between.

use super::list::{LOOKED_AT_AT_ONCE, LOOKED_AT_PER_KEY};
use super::read::Reader;
use super::record::{self, HEADER_BYTES, Position};
use super::segment::SegmentTable;
use super::store::LogStore;
use crate::engine::{
    RecordPlace, RecordRef, RecordVisitor, RecordWalk, VisitedRecord, listing_place, visit_one,
};
use crate::error::StoreError;
use crate::index::{IndexEntry, Location};
use crate::keyfile::KeyListing;
use bytes::Bytes;
use quoit_number::index;
use quoit_seam::yield_to_requests;
use std::ops::Range;

/// Maximum number of bytes that are read at once, unless one record is larger.
const WINDOW_BYTES: u64 = 256 << 10;

/// Maximum distance in bytes between two records that are read at once.
const GAP_BYTES_MAX: u64 = 4 << 10;

/// A record that a visitor wants, and its location.
struct WantedRecord {
    location: Location,
    /// Upper bound of the offset at which the record ends.
    end_bytes_max: u64,
    place: RecordPlace,
    /// Range of its encoded name in [`WantedRecords::names`].
    name: Range<usize>,
}

/// The records of one part of a walk.
#[derive(Default)]
struct WantedRecords {
    names: Vec<u8>,
    placed: Vec<WantedRecord>,
    /// Names and places of records that have to be looked up again.
    others: Vec<(Range<usize>, RecordPlace)>,
    bytes: u64,
    next: Option<Bytes>,
}

impl WantedRecords {
    fn count(&self) -> usize {
        self.placed.len() + self.others.len()
    }

    fn name(&mut self, encoded: &[u8]) -> Range<usize> {
        let start = self.names.len();
        self.names.extend_from_slice(encoded);
        start..self.names.len()
    }
}

impl LogStore {
    #[expect(
        clippy::indexing_slicing,
        reason = "records have the places at which their names were appended"
    )]
    pub(super) fn visit_records(
        &self,
        walk: RecordWalk<'_>,
        visitor: &mut dyn RecordVisitor,
    ) -> Result<Option<Bytes>, StoreError> {
        self.check_open()?;
        // While the table is held, its segments stay readable, and a record never moves within a segment.
        // So a location that the index returns from here on is in this table, or in a segment that was
        // created since; a record there is looked up again.
        let table = self.table.load_full();
        let wanted = self.repairing(|| self.wanted_records(walk, visitor))?;
        let WantedRecords { names, mut placed, mut others, next, .. } = wanted;
        placed.sort_unstable_by_key(|record| record.location);
        let mut window = Vec::new();
        let mut rest = placed.as_slice();
        while let Some(first) = rest.first() {
            let (run, later) = rest.split_at(run_length(rest));
            rest = later;
            let start = first.location.offset_bytes();
            let end = run.iter().map(|record| record.end_bytes_max).max().unwrap_or(start);
            let read = read_run(&table, first.location.segment(), start..end, &mut window)?;
            for record in run {
                let offset = index(record.location.offset_bytes() - start);
                let bytes = read.get(offset..).unwrap_or_default();
                let encoded = &names[record.name.clone()];
                match checked(&self.reader, bytes, record, encoded) {
                    Some(found) if self.is_expired(&found.meta) => {
                        visitor.visit(encoded, VisitedRecord::Missing);
                    }
                    Some(found) => visitor.visit(encoded, VisitedRecord::Found(&found)),
                    None => others.push((record.name.clone(), record.place)),
                }
            }
            yield_to_requests();
        }
        for (name, place) in others {
            visit_one(|at, look| self.show_unexpired(at, look), &names[name], place, visitor)?;
        }
        Ok(next)
    }

    /// The records of the next part of a walk.
    fn wanted_records(
        &self,
        walk: RecordWalk<'_>,
        visitor: &mut dyn RecordVisitor,
    ) -> Result<WantedRecords, StoreError> {
        let after = listing_place(walk.after)?;
        let mut listing = KeyListing::new(self.key_sources(), walk.range, after)?;
        let mut wanted = WantedRecords::default();
        let looked_at_max = walk.count_max.saturating_mul(LOOKED_AT_PER_KEY).max(1_024);
        let mut looked_at = 0;
        while let Some(merged) = listing.next_entry()? {
            looked_at += 1;
            if looked_at % LOOKED_AT_AT_ONCE == 0 {
                yield_to_requests();
            }
            let (encoded, facts) = (merged.entry.encoded, &merged.entry.facts);
            if let Some((meta, entry)) = self.live_entry(&merged)?
                && let Some(place) = visitor.wants(encoded, &meta)
            {
                let name = wanted.name(encoded);
                match entry.filter(|_| {
                    place.partition == facts.partition && place.identity == facts.identity
                }) {
                    Some(IndexEntry { location, size_class, .. }) => {
                        let size_bytes = size_class.size_bytes_max().max(HEADER_BYTES as u64);
                        wanted.bytes += size_bytes;
                        wanted.placed.push(WantedRecord {
                            location,
                            end_bytes_max: location.offset_bytes() + size_bytes,
                            place,
                            name,
                        });
                    }
                    None => wanted.others.push((name, place)),
                }
            }
            let is_full = wanted.count() >= walk.count_max || wanted.bytes >= walk.bytes_max;
            if is_full || looked_at >= looked_at_max {
                wanted.next = Some(Bytes::copy_from_slice(encoded));
                break;
            }
        }
        Ok(wanted)
    }
}

/// Number of records at the beginning of this sorted list that are read at once; at least 1 unless the list
/// is empty.
fn run_length(records: &[WantedRecord]) -> usize {
    let Some(first) = records.first() else { return 0 };
    let start = first.location.offset_bytes();
    let mut end = first.end_bytes_max;
    let mut count = 1;
    for record in records.iter().skip(1) {
        let is_near = record.location.segment() == first.location.segment()
            && record.location.offset_bytes() <= end + GAP_BYTES_MAX
            && record.end_bytes_max <= start + WINDOW_BYTES;
        if !is_near {
            break;
        }
        end = end.max(record.end_bytes_max);
        count += 1;
    }
    count
}

/// Reads a range of a segment. Returns fewer bytes if the segment ends earlier or is not in the table.
#[expect(clippy::indexing_slicing, reason = "the window has room for `size_bytes`")]
fn read_run<'w>(
    table: &SegmentTable,
    segment: u32,
    stretch: Range<u64>,
    window: &'w mut Vec<u8>,
) -> Result<&'w [u8], StoreError> {
    let Some(segment) = table.get(segment) else { return Ok(&[]) };
    let size_bytes = index(stretch.end - stretch.start);
    if window.len() < size_bytes {
        window.resize(size_bytes, 0);
    }
    let count = segment.file.read_at(&mut window[..size_bytes], stretch.start)?;
    Ok(&window[..count])
}

/// The record at the beginning of these bytes, if it is the wanted one and undamaged.
fn checked<'b>(
    reader: &Reader,
    bytes: &'b [u8],
    wanted: &WantedRecord,
    encoded: &[u8],
) -> Option<RecordRef<'b>> {
    let (segment, offset) = (wanted.location.segment(), wanted.location.offset_bytes());
    let position = Position { store_id: reader.store_id, segment, offset };
    let (header, check) = record::decode(bytes, &position)?;
    let body = bytes.get(HEADER_BYTES..index(header.record_bytes()))?;
    let (key, value) = body.split_at(usize::from(header.key_bytes));
    let is_it = header.identity == wanted.place.identity && key == encoded;
    let is_whole = is_it && record::body_check(reader.store_id, body) == check;
    is_whole.then_some(RecordRef { meta: header.meta, value, is_whole, owner: None })
}
