//! Replay: brings the index of a snapshot up to date with the log.
//!
//! The index in a snapshot is not of one moment: it has the effects of every record before a position of
//! the log, and of any of the records after it. Replaying all records from the position on, in order, leads
//! to the right index, if the replay knows for each record what the index has of its key: an older write,
//! this write, or a newer one.
//!
//! The index has only 40 bits of each key, and reading the old record of every key would take one random
//! read each. Instead:
//!
//! - An entry that refers to the replayed part of the log is compared on disk, because that part was just
//!   read.
//! - Any other entry was in the index when the record was written. So the record's flags decide: without
//!   `replaces`, no such entry is of its key; with `replaces`, and if no other key shared the tag, the only
//!   such entry is of its key.
//! - Otherwise, and after a gap in the sequences (the flags of a record may then refer to a missing write),
//!   records are read from disk.
//! - An entry of the replayed part, or of the output of a merge, may refer to a damaged record. If no other
//!   entry is of the key, this one counts as the key's, as for reads and writes. It stays if the damaged
//!   record comes later in the log, so that reads report the damage and not an older value.

use super::checkpoint::CheckpointState;
use super::planted;
use super::read::{Entries, Lookup, ReadPart, Reader};
use super::record::{RecordHeader, RecordKind};
use super::segment::{Segment, SegmentOrigin, SegmentTable};
use super::store::{entry_of, place, take_out};
use crate::engine::{IoMode, RecordAt};
use crate::error::StoreError;
use crate::index::{IndexEntry, Location, PartitionIndex, Tag};
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_planted::PlantedFault;

/// State of a replay.
pub(super) struct Replay<'r> {
    pub(super) reader: &'r Reader,
    pub(super) table: &'r SegmentTable,
    pub(super) state: &'r CheckpointState,
    pub(super) indexes: &'r mut [PartitionIndex],
    pub(super) sequence_max: u64,
    /// True if writes may be missing from the replayed part. Then the flags of later records, which
    /// describe the index after those writes, are not used.
    pub(super) has_gaps: bool,
    /// The highest partition number in a record that is too large for the ring.
    pub(super) beyond: Option<Partition>,
}

/// The entry that the index has for a replayed key.
enum ReplayedKey {
    /// No entry.
    Nothing,
    /// The entry of an older write.
    Older(IndexEntry),
    /// The entry of the replayed write, or of a newer one.
    Newer,
}

impl Replay<'_> {
    /// Begins to replay a segment.
    pub(super) fn begin_segment(&mut self, segment: &Segment) {
        if segment.number != self.state.position.segment {
            self.has_gaps |= segment.first_sequence != self.sequence_max + 1;
            self.sequence_max = self.sequence_max.max(segment.first_sequence);
        }
    }

    /// Applies a record to the index.
    #[expect(clippy::indexing_slicing, reason = "the partition was found above")]
    pub(super) fn apply(
        &mut self,
        header: &RecordHeader,
        key: &[u8],
        location: Location,
    ) -> Result<(), StoreError> {
        self.has_gaps |= header.sequence != self.sequence_max + 1;
        self.sequence_max = self.sequence_max.max(header.sequence);
        debug_assert!(header.kind != RecordKind::Batch, "a scan shows the records of a batch");
        let Some(index) = self.indexes.get(usize::from(header.partition.0)) else {
            self.beyond = self.beyond.max(Some(header.partition));
            return Ok(());
        };
        if header.kind == RecordKind::DropPartition {
            if planted::has(PlantedFault::ForgetsDrops) {
                return Ok(());
            }
            // Records that were written after the drop are replayed after it.
            self.indexes[usize::from(header.partition.0)] = PartitionIndex::new();
            return Ok(());
        }
        let known = self.known(index, header, key, location)?;
        let index = &mut self.indexes[usize::from(header.partition.0)];
        let old = match known {
            ReplayedKey::Newer => return Ok(()),
            ReplayedKey::Older(old) => Some(old),
            ReplayedKey::Nothing => None,
        };
        if header.kind == RecordKind::Put {
            let size = header.record_bytes();
            let new = entry_of(header.identity, &header.meta, location, size);
            place(index, self.table, old.as_ref(), new);
        } else if let Some(old) = old {
            take_out(index, self.table, &old);
        }
        Ok(())
    }

    fn known(
        &self,
        index: &PartitionIndex,
        header: &RecordHeader,
        key: &[u8],
        location: Location,
    ) -> Result<ReplayedKey, StoreError> {
        let entries: Entries = index.candidates(Tag::of(header.identity)).collect();
        if entries.iter().any(|entry| entry.location == location) {
            return Ok(ReplayedKey::Newer);
        }
        let Ok(name) = KeyRef::decode(key) else {
            return Ok(ReplayedKey::Nothing);
        };
        let at = RecordAt {
            key: name,
            encoded: key,
            identity: header.identity,
            partition: header.partition,
        };
        let (young, old): (Entries, Entries) =
            entries.iter().copied().partition(|entry| !self.is_settled(entry.location));
        let mut damaged = Entries::new();
        for entry in &young {
            match self.reader.find(self.table, &[*entry], &at, ReadPart::Key, IoMode::Wait)? {
                Lookup::Present(entry, stored) => {
                    let is_older = (stored.header.sequence < header.sequence)
                        != planted::has(PlantedFault::TakesNewerForOlder);
                    let older = ReplayedKey::Older(entry);
                    return Ok(if is_older { older } else { ReplayedKey::Newer });
                }
                Lookup::Damaged(..) => damaged.push(*entry),
                Lookup::Absent | Lookup::WouldBlock => {}
            }
        }
        let is_flagged = !self.has_gaps || planted::has(PlantedFault::IgnoresGaps);
        if is_flagged
            && header.replaces
            && !header.shares_tag
            && let [entry] = old[..]
        {
            return Ok(ReplayedKey::Older(entry));
        }
        if !is_flagged || header.replaces {
            match self.reader.find(self.table, &old, &at, ReadPart::Key, IoMode::Wait)? {
                Lookup::Present(entry, _) => return Ok(ReplayedKey::Older(entry)),
                Lookup::Damaged(record, _) => {
                    // The write replaced a record, and all others with its tag are readable.
                    let replaced = record.replaced().filter(|_| header.replaces);
                    let replaced = replaced.filter(|_| damaged.is_empty());
                    return Ok(replaced.map_or(ReplayedKey::Nothing, ReplayedKey::Older));
                }
                Lookup::Absent | Lookup::WouldBlock => {}
            }
        }
        Ok(match damaged[..] {
            [entry] => self.damaged(header, location, entry, entries.len()),
            _ => ReplayedKey::Nothing,
        })
    }

    /// The entry that the index has for the key of a record, if of the entries with its tag, `entry_count` of
    /// them, only `entry` may be of the key, and its own record is damaged.
    fn damaged(
        &self,
        header: &RecordHeader,
        location: Location,
        entry: IndexEntry,
        entry_count: usize,
    ) -> ReplayedKey {
        if self.is_later(entry.location, location) {
            return ReplayedKey::Newer;
        }
        // If the write replaced nothing and no other key had its tag, the entry's record was removed before
        // the write, or is a merge's copy of this write or a later one, which the replay still reads.
        // If another key had the tag, the write also found that key's entry. If that entry is not among the
        // others, this entry may be that key's.
        if !header.shares_tag || header.replaces && entry_count > 1 {
            return ReplayedKey::Older(entry);
        }
        ReplayedKey::Nothing
    }

    /// True if the record at `location` comes after the one at `other` in the log. Merges write no part of
    /// the log.
    fn is_later(&self, location: Location, other: Location) -> bool {
        if location.segment() == other.segment() {
            return location.offset_bytes() > other.offset_bytes();
        }
        let segments = (self.table.get(location.segment()), self.table.get(other.segment()));
        let (Some(segment), Some(other)) = segments else { return false };
        segment.origin == SegmentOrigin::Log && segment.first_sequence > other.first_sequence
    }

    /// True if the record at this location was in the index when the snapshot was begun.
    fn is_settled(&self, location: Location) -> bool {
        let number = location.segment();
        let position = &self.state.position;
        if number == position.segment {
            return location.offset_bytes() < position.offset;
        }
        let states = &self.state.segments;
        states
            .binary_search_by_key(&number, |state| state.number)
            .ok()
            .and_then(|at| states.get(at))
            .is_some_and(|state| state.settled)
    }
}
