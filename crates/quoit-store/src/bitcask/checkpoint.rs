//! Snapshots of the index, and the position of the log from which a start has to replay it.
//!
//! The facts that a snapshot contains beside the index:
//!
//! ```text
//! byte  0  8   store id
//! byte  8  8   next sequence when the snapshot was begun
//! byte 16  8   offset in the active segment of the first record that the index may lack
//! byte 24  4   number of that segment
//! byte 28  4   number of segments; the highest bit is set if records may have index entries
//! byte 32  8   only with that bit: id of the tree that has the index entries of all records before the
//!              position, 0 = none
//! then, for each segment, 88 bytes:
//! byte  0  4   number
//! byte  4  4   1 if no record was written to it since the snapshot was begun
//! byte  8  8   unique number
//! byte 16  8   size of the file
//! byte 24  8   lowest sequence
//! byte 32  8   number of records written
//! byte 40  8   their bytes
//! byte 48  8   number of records that the index refers to; a start counts them anew
//! byte 56  8   their bytes
//! byte 64  8   removals that a merge had to keep
//! byte 72  8   number of records that expire
//! byte 80  4   earliest time of expiry, seconds since 1970
//! byte 84  4   latest time of expiry, seconds since 1970
//! ```
//!
//! Numbers are little-endian. `docs/design/snapshot.md` describes the file around these facts.
//!
//! The index is copied one partition at a time while writes continue. So a snapshot is not of one moment:
//! it has the effects of every record before the position, and of any of the records after it. `replay`
//! applies the records from the position on.

use super::directory::SNAPSHOT_NAME;
use super::indexes::{KnownEntries, TreeId};
use super::log::LogPosition;
use super::planted;
use super::segment::{SEGMENT_HEADER_BYTES, SegmentCounts, SegmentTable};
use super::store::LogStore;
use crate::error::StoreError;
use crate::index::ENTRY_BYTES;
use crate::snapshot::SnapshotWriter;
use quoit_model::hash::Partition;
use quoit_model::store_opening::StoreId;
use quoit_number::length_u32;
use quoit_planted::PlantedFault;
use quoit_seam::{NextStep, Pace, Worker};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const FIXED_BYTES: usize = 32;
const SEGMENT_BYTES: usize = 88;

/// Flag in the number of segments, which needs 20 bits at most.
const INDEXED: u32 = 1 << 31;

/// Pause after a snapshot that could not be written, in microseconds.
const RETRY_US: u64 = 30_000_000;

/// The facts about a segment in a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentState {
    pub(super) number: u32,
    /// True if no record was written to the segment since the snapshot was begun.
    pub(super) settled: bool,
    pub(super) uid: u64,
    pub(super) size_bytes: u64,
    pub(super) sequence_min: u64,
    pub(super) counts: SegmentCounts,
}

/// The contents of a snapshot beside the index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CheckpointState {
    pub(super) store_id: StoreId,
    /// The index has all records before this position.
    pub(super) position: LogPosition,
    /// True if records may have index entries.
    pub(super) indexed: bool,
    /// The tree with the index entries of all records before the position; `None` unless `indexed`.
    pub(super) tree: Option<TreeId>,
    pub(super) segments: Vec<SegmentState>,
}

impl CheckpointState {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED_BYTES + SEGMENT_BYTES * self.segments.len());
        for number in [self.store_id.0, self.position.sequence, self.position.offset] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.position.segment.to_le_bytes());
        debug_assert!(
            self.segments.is_sorted_by(|one, other| one.number < other.number),
            "a replay searches a segment by its number"
        );
        debug_assert!(self.indexed || self.tree.is_none(), "only index entries need a tree");
        let count = length_u32(self.segments.len()) | if self.indexed { INDEXED } else { 0 };
        bytes.extend_from_slice(&count.to_le_bytes());
        if self.indexed {
            bytes.extend_from_slice(&self.tree.unwrap_or(0).to_le_bytes());
        }
        for segment in &self.segments {
            bytes.extend_from_slice(&segment.number.to_le_bytes());
            bytes.extend_from_slice(&u32::from(segment.settled).to_le_bytes());
            let counts = &segment.counts;
            for number in [
                segment.uid,
                segment.size_bytes,
                segment.sequence_min,
                counts.record_count,
                counts.record_bytes,
                counts.live_count,
                counts.live_bytes,
                counts.held_count,
                counts.expiring_count,
            ] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&counts.expires_first_secs.to_le_bytes());
            bytes.extend_from_slice(&counts.expires_last_secs.to_le_bytes());
        }
        bytes
    }

    /// The records whose index entries are known to a start that replays the log from the position on.
    pub(super) fn known_entries(&self) -> KnownEntries {
        match (self.indexed, self.tree) {
            // Any record with index entries was written after the position.
            (false, _) => KnownEntries::All,
            (true, tree) => tree.map_or(KnownEntries::None, KnownEntries::InTree),
        }
    }

    /// Decodes a state; `None` if the bytes are not a valid state.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_at_checked(FIXED_BYTES)?;
        let count = u32_at(fixed, 28);
        let indexed = count & INDEXED != 0;
        let (tree, rest) = rest.split_at_checked(if indexed { 8 } else { 0 })?;
        let (rows, torn) = rest.as_chunks::<SEGMENT_BYTES>();
        if !torn.is_empty() || rows.len() != (count & !INDEXED) as usize {
            return None;
        }
        let segment = |row: &[u8; SEGMENT_BYTES]| SegmentState {
            number: u32_at(row, 0),
            settled: u32_at(row, 4) != 0,
            uid: u64_at(row, 8),
            size_bytes: u64_at(row, 16),
            sequence_min: u64_at(row, 24),
            counts: SegmentCounts {
                record_count: u64_at(row, 32),
                record_bytes: u64_at(row, 40),
                live_count: u64_at(row, 48),
                live_bytes: u64_at(row, 56),
                held_count: u64_at(row, 64),
                expiring_count: u64_at(row, 72),
                expires_first_secs: u32_at(row, 80),
                expires_last_secs: u32_at(row, 84),
            },
        };
        Some(Self {
            store_id: StoreId(u64_at(fixed, 0)),
            position: LogPosition {
                sequence: u64_at(fixed, 8),
                offset: u64_at(fixed, 16),
                segment: u32_at(fixed, 24),
            },
            indexed,
            tree: indexed.then(|| u64_at(tree, 0)).filter(|id| *id != 0),
            segments: rows.iter().map(segment).collect(),
        })
    }
}

#[expect(clippy::indexing_slicing, reason = "`decode` checks the size before it reads fields")]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

#[expect(clippy::indexing_slicing, reason = "`decode` checks the size before it reads fields")]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

/// Worker that writes a snapshot when enough was logged since the last one.
pub(super) struct Checkpointer {
    store: Arc<LogStore>,
}

impl Checkpointer {
    pub(super) fn new(store: Arc<LogStore>) -> Self {
        Self { store }
    }
}

impl Worker for Checkpointer {
    fn step(&self, pace: &dyn Pace) -> NextStep {
        let idle = match self.store.maintain_indexes(pace) {
            Ok(true) => NextStep::Again,
            Ok(false) => NextStep::WhenWoken,
            Err(error) => {
                tracing::warn!(%error, "secondary indexes could not be brought up to date");
                NextStep::AfterUs(RETRY_US)
            }
        };
        if !self.store.checkpoint_is_due() {
            return idle;
        }
        let Some(_one_at_a_time) = self.store.checkpointing.try_lock() else {
            return NextStep::AfterUs(RETRY_US);
        };
        match self.store.checkpoint(&[], pace) {
            Ok(_) => idle,
            Err(error) => {
                tracing::warn!(%error, "no snapshot of the index could be written");
                NextStep::AfterUs(RETRY_US)
            }
        }
    }
}

impl LogStore {
    fn checkpoint_is_due(&self) -> bool {
        let key_count: u64 = self.stripes.iter().map(|stripe| stripe.read().entry_count()).sum();
        let bytes_max =
            self.settings.snapshot_interval_bytes.max(2 * key_count * ENTRY_BYTES as u64);
        let records_max = self.settings.snapshot_interval_records.max(key_count / 5);
        let last_bytes = self.counters.checkpointed_bytes.load(Ordering::Relaxed);
        let last_sequence = self.counters.checkpointed_sequence.load(Ordering::Relaxed);
        self.counters.checkpoint_wanted.load(Ordering::Relaxed)
            || self.log.written_bytes() - last_bytes >= bytes_max
            || self.log.written().saturating_sub(last_sequence) >= records_max
    }

    /// Writes a snapshot of the index that does not refer to the segments `without`. Returns false if the
    /// worker was told to stop before the end. The caller holds `checkpointing`.
    pub(super) fn checkpoint(&self, without: &[u32], pace: &dyn Pace) -> Result<bool, StoreError> {
        debug_assert!(self.checkpointing.is_locked(), "snapshots are written one after the other");
        let written_bytes = self.log.written_bytes();
        // Listed before the position is taken: no settled segment has records after it.
        let settled: Vec<u32> = self
            .table
            .load()
            .all()
            .iter()
            .filter(|segment| segment.is_closed())
            .map(|segment| segment.number)
            .collect();
        let position = self.log.end();
        debug_assert!(!without.contains(&position.segment), "the active segment is not removed");
        let ring_size = self.settings.ring_size;
        let mut writer = SnapshotWriter::create(&*self.disk, SNAPSHOT_NAME, ring_size)?;
        let mut goes_on = true;
        for number in 0..ring_size.get() {
            let stripe = self.stripe(Partition(number));
            let mut piece_bytes = 0;
            writer.write_partition(Partition(number), |copy| {
                goes_on = goes_on && pace.pause(self.pause_us(piece_bytes));
                if goes_on {
                    // Upgradable, not shared: this waits for writes that have appended a record before
                    // `position` and have not changed the index yet.
                    let index = stripe.upgradable_read();
                    copy(&index);
                    piece_bytes = CHECKPOINT_PIECE_BYTES;
                }
            })?;
            if !goes_on {
                return Ok(false);
            }
        }
        // All writes before `position` have reached all stripes by now.
        let tree = self.save_indexes();
        let table = self.table.load_full();
        if !planted::has(PlantedFault::SnapshotsUnsynced) {
            self.sync_all(&table)?;
        }
        let mut segments = Vec::with_capacity(table.all().len());
        for segment in table.all().iter().filter(|segment| !without.contains(&segment.number)) {
            let size_bytes = segment.file.size_bytes()?;
            // A segment without records may be removed before the snapshot is read.
            if size_bytes > SEGMENT_HEADER_BYTES {
                segments.push(SegmentState {
                    number: segment.number,
                    settled: settled.contains(&segment.number),
                    uid: segment.uid,
                    size_bytes,
                    sequence_min: segment.sequence_min.load(Ordering::Relaxed),
                    counts: segment.counts(),
                });
            }
        }
        let store_id = self.reader.store_id;
        let indexed = self.indexes.is_used();
        let state = CheckpointState { store_id, position, indexed, tree, segments };
        writer.finish(&state.encode())?;
        self.counters.checkpoint_wanted.store(false, Ordering::Relaxed);
        self.counters.checkpointed_bytes.store(written_bytes, Ordering::Relaxed);
        let before = self.counters.checkpointed_sequence.swap(position.sequence, Ordering::Relaxed);
        debug_assert!(before <= position.sequence, "a later snapshot has more of the log");
        Ok(true)
    }

    /// Syncs every record that the snapshot refers to or that its replay will read.
    fn sync_all(&self, table: &SegmentTable) -> Result<(), StoreError> {
        self.committer.sync()?;
        let keyed: Vec<u32> = self.key_files.lock().keys().copied().collect();
        // Segments with a key file were synced before it was written.
        for segment in table.all().iter().filter(|segment| !keyed.contains(&segment.number)) {
            self.committer.sync_segment(segment)?;
        }
        Ok(self.disk.sync_directory()?)
    }

    /// Time in microseconds that background work has to rest after reading or writing this many bytes.
    pub(super) fn pause_us(&self, size_bytes: u64) -> u64 {
        let budget = self.settings.merge.budget_bytes_per_sec.max(1);
        size_bytes.saturating_mul(1_000_000) / budget
    }
}

/// Approximate size in bytes of the parts in which a snapshot copies the index: 8192 entries.
const CHECKPOINT_PIECE_BYTES: u64 = 8_192 * ENTRY_BYTES as u64;
