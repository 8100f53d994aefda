//! Segments: the files of the log, and the table that finds them by number.
//!
//! A segment starts with 64 bytes:
//!
//! ```text
//! byte  0  8  magic "QUOITLOG"
//! byte  8  2  format version, 1
//! byte 10  2  origin: 0 written by requests, 1 by a merge
//! byte 12  4  segment number
//! byte 16  8  store id
//! byte 24  8  incarnation of the store that began the segment
//! byte 32  8  the store's next sequence when the segment was begun
//! byte 40  8  time when the segment was begun, seconds since 1970
//! byte 48  4  for a segment that requests write: number of the preceding segment, with the highest bit
//!             set; 0 = the same process wrote no segment before
//! byte 52  4  offset at which the records of the preceding segment end, in units of 16 bytes
//! byte 56  8  XXH3-64 of bytes 0..56
//! ```
//!
//! Numbers are little-endian. Records follow.

use super::record::ALIGNMENT_BYTES;
use crate::error::StoreError;
use crate::index::{Location, SizeClass};
use quoit_model::store_opening::StoreId;
use quoit_number::{index, length_u32, low_u16, low_u32, or_zero, saturating_i64};
use quoit_seam::DiskFile;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Size of a segment's header in bytes.
pub const SEGMENT_HEADER_BYTES: u64 = 64;

const MAGIC: [u8; 8] = *b"QUOITLOG";
const VERSION: u16 = 1;
const CHECKED_BYTES: usize = 56;
const HAS_PREVIOUS: u32 = 1 << 31;

/// Writer of a segment: requests or a merge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentOrigin {
    /// Requests, in the order of their sequences.
    Log,
    /// A merge: records of any age.
    Merge,
}

/// Header of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// Writer of the segment.
    pub origin: SegmentOrigin,
    /// Number of the segment.
    pub number: u32,
    /// Id of the store.
    pub store_id: StoreId,
    /// Incarnation of the store when the segment was begun.
    pub incarnation: u64,
    /// The store's next sequence when the segment was begun.
    pub first_sequence: u64,
    /// Time when the segment was begun, in seconds since 1970.
    pub created_unix_secs: u64,
    /// The preceding segment of the log, if the same process wrote it. Segments of earlier processes were
    /// made durable when the store was opened.
    pub previous: Option<PreviousSegment>,
}

/// The preceding segment of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreviousSegment {
    /// Number of the segment.
    pub number: u32,
    /// Offset at which its last record ends, in bytes.
    pub end_bytes: u64,
}

impl SegmentHeader {
    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; index(SEGMENT_HEADER_BYTES)] {
        let mut bytes = [0; index(SEGMENT_HEADER_BYTES)];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12]
            .copy_from_slice(&u16::from(self.origin == SegmentOrigin::Merge).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.store_id.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first_sequence.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.created_unix_secs.to_le_bytes());
        if let Some(previous) = self.previous {
            let units = length_u32(index(previous.end_bytes) / ALIGNMENT_BYTES);
            bytes[48..52].copy_from_slice(&(HAS_PREVIOUS | previous.number).to_le_bytes());
            bytes[52..56].copy_from_slice(&units.to_le_bytes());
        }
        let check = xxh3_64(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// A hash of the header that no other segment of the store has.
    #[must_use]
    pub fn uid(&self) -> u64 {
        xxh3_64(&self.encode())
    }

    /// True if these are the first bytes of a segment in a format version that this release does not know.
    #[must_use]
    pub fn is_of_newer_version(bytes: &[u8; index(SEGMENT_HEADER_BYTES)]) -> bool {
        let check = xxh3_64(&bytes[..CHECKED_BYTES]).to_le_bytes();
        bytes[0..8] == MAGIC && bytes[8..10] != VERSION.to_le_bytes() && bytes[56..] == check
    }

    /// True if a header may start with these bytes.
    #[must_use]
    pub fn may_start_with(bytes: &[u8]) -> bool {
        MAGIC.starts_with(bytes.get(..MAGIC.len()).unwrap_or(bytes))
    }

    /// Decodes a header, or returns a description of what is wrong with it.
    #[expect(clippy::indexing_slicing, reason = "fields are within the header")]
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let bytes: &[u8; index(SEGMENT_HEADER_BYTES)] =
            bytes.first_chunk().ok_or("the file is shorter than a segment's header")?;
        let u64_at = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        if bytes[0..8] != MAGIC {
            return Err("not a segment of a Quoit log".into());
        }
        if u64_at(CHECKED_BYTES) != xxh3_64(&bytes[..CHECKED_BYTES]) {
            return Err("the checksum of the segment's header is wrong".into());
        }
        let version = low_u16(u64_at(8));
        if version != VERSION {
            return Err(format!(
                "segment of format version {version}, this release reads {VERSION}: \
                 start the release that wrote it"
            ));
        }
        let before = low_u32(u64_at(48));
        Ok(Self {
            origin: if bytes[10] == 0 { SegmentOrigin::Log } else { SegmentOrigin::Merge },
            number: (u64_at(8) >> 32) as u32,
            store_id: StoreId(u64_at(16)),
            incarnation: u64_at(24),
            first_sequence: u64_at(32),
            created_unix_secs: u64_at(40),
            previous: (before & HAS_PREVIOUS != 0).then_some(PreviousSegment {
                number: before & Location::SEGMENT_MAX,
                end_bytes: (u64_at(48) >> 32) * ALIGNMENT_BYTES as u64,
            }),
        })
    }
}

/// A file of the log.
///
/// Counts of bytes use the upper bound of each record's size class, because the index knows no more of its
/// size.
pub struct Segment {
    /// Number of the segment.
    pub number: u32,
    /// [`SegmentHeader::uid`]; 0 if the header is damaged.
    pub uid: u64,
    /// Writer of the segment.
    pub origin: SegmentOrigin,
    /// The store's next sequence when the segment was begun.
    pub first_sequence: u64,
    /// The file.
    pub file: Arc<dyn DiskFile>,
    /// A lower bound of the sequences of its records.
    pub sequence_min: AtomicU64,
    record_count: AtomicU64,
    record_bytes: AtomicU64,
    // Signed, because a record may be counted dead a moment before it is counted live.
    live_count: AtomicI64,
    live_bytes: AtomicI64,
    held_count: AtomicU64,
    expiring_count: AtomicU64,
    expires_first_secs: AtomicU32,
    expires_last_secs: AtomicU32,
    closed: AtomicBool,
}

impl Segment {
    /// A segment without records. A segment with a damaged header counts as written by requests.
    #[must_use]
    pub fn new(number: u32, file: Arc<dyn DiskFile>, header: Option<&SegmentHeader>) -> Self {
        let first_sequence = header.map_or(0, |header| header.first_sequence);
        let origin = header.map_or(SegmentOrigin::Log, |header| header.origin);
        Self {
            number,
            uid: header.map_or(0, SegmentHeader::uid),
            origin,
            first_sequence,
            file,
            sequence_min: AtomicU64::new(match origin {
                SegmentOrigin::Log => first_sequence,
                SegmentOrigin::Merge => u64::MAX,
            }),
            record_count: AtomicU64::new(0),
            record_bytes: AtomicU64::new(0),
            live_count: AtomicI64::new(0),
            live_bytes: AtomicI64::new(0),
            held_count: AtomicU64::new(0),
            expiring_count: AtomicU64::new(0),
            expires_first_secs: AtomicU32::new(u32::MAX),
            expires_last_secs: AtomicU32::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Notes that no more records are written to the segment.
    pub fn close(&self) {
        let was_closed = self.closed.swap(true, Ordering::Release);
        debug_assert!(!was_closed, "a segment is closed once");
    }

    /// True if no more records are written to the segment.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Counts a record that was written.
    pub fn count_written(&self, class: SizeClass, expires_at_secs: u32) {
        debug_assert!(!self.is_closed(), "no record is written to a closed segment");
        self.record_count.fetch_add(1, Ordering::Relaxed);
        self.record_bytes.fetch_add(class.size_bytes_max(), Ordering::Relaxed);
        if expires_at_secs != 0 {
            self.expiring_count.fetch_add(1, Ordering::Relaxed);
            self.expires_first_secs.fetch_min(expires_at_secs, Ordering::Relaxed);
            self.expires_last_secs.fetch_max(expires_at_secs, Ordering::Relaxed);
        }
    }

    /// Counts a record that the index refers to from now on.
    pub fn count_live(&self, class: SizeClass) {
        self.live_count.fetch_add(1, Ordering::Relaxed);
        self.live_bytes.fetch_add(signed_bytes(class), Ordering::Relaxed);
    }

    /// Counts a record that the index no longer refers to.
    pub fn count_dead(&self, class: SizeClass) {
        self.live_count.fetch_sub(1, Ordering::Relaxed);
        self.live_bytes.fetch_sub(signed_bytes(class), Ordering::Relaxed);
    }

    /// Counts a removal that a merge had to keep.
    pub fn count_held(&self) {
        self.held_count.fetch_add(1, Ordering::Relaxed);
    }

    /// The current counts.
    #[must_use]
    pub fn counts(&self) -> SegmentCounts {
        SegmentCounts {
            record_count: self.record_count.load(Ordering::Relaxed),
            record_bytes: self.record_bytes.load(Ordering::Relaxed),
            live_count: or_zero(self.live_count.load(Ordering::Relaxed)),
            live_bytes: or_zero(self.live_bytes.load(Ordering::Relaxed)),
            held_count: self.held_count.load(Ordering::Relaxed),
            expiring_count: self.expiring_count.load(Ordering::Relaxed),
            expires_first_secs: self.expires_first_secs.load(Ordering::Relaxed),
            expires_last_secs: self.expires_last_secs.load(Ordering::Relaxed),
        }
    }

    /// Sets the counts that recovery has found.
    pub fn set_counts(&self, counts: &SegmentCounts) {
        self.record_count.store(counts.record_count, Ordering::Relaxed);
        self.record_bytes.store(counts.record_bytes, Ordering::Relaxed);
        self.live_count.store(saturating_i64(counts.live_count), Ordering::Relaxed);
        self.live_bytes.store(saturating_i64(counts.live_bytes), Ordering::Relaxed);
        self.held_count.store(counts.held_count, Ordering::Relaxed);
        self.expiring_count.store(counts.expiring_count, Ordering::Relaxed);
        self.expires_first_secs.store(counts.expires_first_secs, Ordering::Relaxed);
        self.expires_last_secs.store(counts.expires_last_secs, Ordering::Relaxed);
    }
}

/// The bytes of a record of a class, for a signed count. The highest class has less than 2^38 bytes.
const fn signed_bytes(class: SizeClass) -> i64 {
    class.size_bytes_max().cast_signed()
}

/// Counts of a segment's records and bytes: of all records, and of those that the index refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentCounts {
    /// Number of records, removals and drops included.
    pub record_count: u64,
    /// Bytes of all records.
    pub record_bytes: u64,
    /// Number of records that the index refers to.
    pub live_count: u64,
    /// Bytes of the records that the index refers to.
    pub live_bytes: u64,
    /// Number of removals that a merge had to keep because an older segment still has the key.
    pub held_count: u64,
    /// Number of records that expire, live or dead.
    pub expiring_count: u64,
    /// Earliest time of expiry, in seconds since 1970.
    pub expires_first_secs: u32,
    /// Latest time of expiry, in seconds since 1970.
    pub expires_last_secs: u32,
}

impl Default for SegmentCounts {
    fn default() -> Self {
        Self {
            record_count: 0,
            record_bytes: 0,
            live_count: 0,
            live_bytes: 0,
            held_count: 0,
            expiring_count: 0,
            expires_first_secs: u32::MAX,
            expires_last_secs: 0,
        }
    }
}

impl SegmentCounts {
    /// Counts a record that a scan or a key file has found.
    pub fn add_written(&mut self, class: SizeClass, expires_at_secs: u32) {
        self.record_count += 1;
        self.record_bytes += class.size_bytes_max();
        if expires_at_secs != 0 {
            self.expiring_count += 1;
            self.expires_first_secs = self.expires_first_secs.min(expires_at_secs);
            self.expires_last_secs = self.expires_last_secs.max(expires_at_secs);
        }
    }

    /// Estimated percentage of the expiring records that have expired, under the assumption that their
    /// times of expiry are evenly spread between the earliest and the latest.
    #[must_use]
    pub fn expired_percent(&self, now_secs: u64) -> u64 {
        let (first, last) = (u64::from(self.expires_first_secs), u64::from(self.expires_last_secs));
        if now_secs >= last {
            return 100;
        }
        (now_secs.saturating_sub(first) * 100).checked_div(last - first.min(last)).unwrap_or(0)
    }
}

/// All segments by number. Immutable: a change makes a new table.
#[derive(Default)]
pub struct SegmentTable {
    numbers: Vec<u32>,
    segments: Vec<Arc<Segment>>,
}

impl SegmentTable {
    /// A table of these segments.
    #[must_use]
    pub fn new(mut segments: Vec<Arc<Segment>>) -> Self {
        segments.sort_unstable_by_key(|segment| segment.number);
        debug_assert!(
            segments.is_sorted_by(|one, other| one.number < other.number),
            "each segment has its own number"
        );
        Self { numbers: segments.iter().map(|segment| segment.number).collect(), segments }
    }

    /// The segment with this number. Costs a binary search among numbers.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&Arc<Segment>> {
        self.position(number).and_then(|at| self.segments.get(at))
    }

    /// Position in [`SegmentTable::all`] of the segment with this number.
    #[must_use]
    pub fn position(&self, number: u32) -> Option<usize> {
        self.numbers.binary_search(&number).ok()
    }

    /// All segments by ascending number.
    #[must_use]
    pub fn all(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// The table with one more segment.
    #[must_use]
    pub fn with(&self, segment: Arc<Segment>) -> Self {
        // Entries of the index would refer to records of the other segment.
        assert!(self.get(segment.number).is_none(), "a number in use is not given again");
        let mut segments = self.segments.clone();
        segments.push(segment);
        Self::new(segments)
    }

    /// The table without some segments.
    #[must_use]
    pub fn without(&self, numbers: &[u32]) -> Self {
        let rest = self.segments.iter().filter(|segment| !numbers.contains(&segment.number));
        Self::new(rest.cloned().collect())
    }
}

/// The next segment number after `last` that is not `taken`, wrapping around to 1 at the end: in `STORE`, 0
/// stands for no segment. A number is reused only after about a million others.
///
/// # Errors
///
/// If all numbers are taken.
pub fn next_number(
    last: u32,
    taken: impl Fn(u32) -> bool,
    directory: &str,
) -> Result<u32, StoreError> {
    let count = Location::SEGMENT_MAX;
    let mut numbers = (0..count).map(|step| (last + step) % count + 1);
    numbers.find(|number| !taken(*number)).ok_or_else(|| StoreError::Io {
        action: "begin a segment in",
        path: directory.to_owned(),
        reason: format!("all {count} segment numbers are taken; raise max_file_size"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn no_segment_gets_the_number_that_stands_for_none() {
        let next =
            |last, taken: &[u32]| next_number(last, |number| taken.contains(&number), "store");
        assert_eq!(next(0, &[]).unwrap(), 1);
        assert_eq!(next(7, &[8, 9]).unwrap(), 10);
        assert_eq!(next(Location::SEGMENT_MAX, &[1]).unwrap(), 2);
        assert_eq!(next(Location::SEGMENT_MAX - 1, &[Location::SEGMENT_MAX]).unwrap(), 1);
        assert!(next_number(5, |number| number != 0, "store").is_err());
    }
}
