//! Catches an index up with the log.
//!
//! The snapshot of an index is not of one moment: it has everything before a position of the log, and any
//! part of what came later. Replaying all records from that position on, in order, gives the same index in
//! the end, if it is known of each whether the index has an older write of its key, this one, or a newer one.
//! Records say whether there was an older one (`replaces`) and whether other keys shared its tag; what the
//! index refers to in the replayed part of the log is read to find out whose it is. So keys are compared on
//! disk only where the disk was just read, or where tags collide.

use super::checkpoint::CheckpointState;
use super::planted;
use super::read::{Entries, Lookup, ReadPart, Reader};
use super::record::{RecordHeader, RecordKind};
use super::segment::{Segment, SegmentTable};
use super::store::{entry_of, place, take_out};
use crate::engine::{Access, RecordAt};
use crate::error::StoreError;
use crate::index::{IndexEntry, Location, PartitionIndex, Tag};
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_planted::PlantedFault;

/// An index that is being caught up.
pub(super) struct Replay<'r> {
    pub(super) reader: &'r Reader,
    pub(super) table: &'r SegmentTable,
    pub(super) state: &'r CheckpointState,
    pub(super) indexes: &'r mut [PartitionIndex],
    pub(super) sequence_max: u64,
    /// Whether writes may be missing from what is replayed: then what records say of the index as it was
    /// before them is not relied on.
    pub(super) has_gaps: bool,
    /// A partition that records name although the ring has fewer.
    pub(super) beyond: Option<Partition>,
}

/// The index's knowledge of a key during replay.
enum ReplayedKey {
    /// Nothing.
    Nothing,
    /// An older write.
    Older(IndexEntry),
    /// The write that is replayed, or a newer one.
    Newer,
}

impl Replay<'_> {
    /// Goes on with a segment.
    pub(super) fn begin_segment(&mut self, segment: &Segment) {
        if segment.number != self.state.position.segment {
            self.has_gaps |= segment.first_sequence != self.sequence_max + 1;
            self.sequence_max = self.sequence_max.max(segment.first_sequence);
        }
    }

    /// Applies a record.
    pub(super) fn apply(
        &mut self,
        header: &RecordHeader,
        key: &[u8],
        location: Location,
    ) -> Result<(), StoreError> {
        self.has_gaps |= header.sequence != self.sequence_max + 1;
        self.sequence_max = self.sequence_max.max(header.sequence);
        let Some(index) = self.indexes.get(usize::from(header.partition.0)) else {
            self.beyond = self.beyond.max(Some(header.partition));
            return Ok(());
        };
        if header.kind == RecordKind::DropPartition {
            if planted::has(PlantedFault::ForgetsDrops) {
                return Ok(());
            }
            // What was written later comes later.
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
        for entry in &young {
            let find = self.reader.find(self.table, &[*entry], &at, ReadPart::Key, Access::Wait)?;
            if let Lookup::Present(entry, stored) = find {
                let is_older = (stored.header.sequence < header.sequence)
                    != planted::has(PlantedFault::TakesNewerForOlder);
                return Ok(if is_older { ReplayedKey::Older(entry) } else { ReplayedKey::Newer });
            }
        }
        if !self.has_gaps || planted::has(PlantedFault::IgnoresGaps) {
            if !header.replaces {
                return Ok(ReplayedKey::Nothing);
            }
            if let [entry] = old[..]
                && !header.shares_tag
            {
                return Ok(ReplayedKey::Older(entry));
            }
        }
        match self.reader.find(self.table, &old, &at, ReadPart::Key, Access::Wait)? {
            Lookup::Present(entry, _) => Ok(ReplayedKey::Older(entry)),
            _ => Ok(ReplayedKey::Nothing),
        }
    }

    /// Whether the record there was in the index when the snapshot was begun.
    fn is_settled(&self, location: Location) -> bool {
        let number = location.segment();
        let position = &self.state.position;
        if number == position.segment {
            return location.offset_bytes() < position.offset;
        }
        let states = &self.state.segments;
        states
            .binary_search_by_key(&number, |state| state.number)
            .is_ok_and(|at| states[at].settled)
    }
}
