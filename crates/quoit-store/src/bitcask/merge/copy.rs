//! Copying of the live records of some segments.

use crate::bitcask::key_facts::note_key;
use crate::bitcask::keys::ActiveKeys;
use crate::bitcask::log_end::Sealed;
use crate::bitcask::planted;
use crate::bitcask::record::{
    self, ALIGNMENT_BYTES, HEADER_BYTES, Position, RecordHeader, RecordKind,
};
use crate::bitcask::scan::{Scan, Scanned};
use crate::bitcask::segment::{SEGMENT_HEADER_BYTES, Segment};
use crate::bitcask::store::{LogStore, count_dead, entry_of};
use crate::bitcask::synced::SyncedDistance;
use crate::engine::Record;
use crate::error::StoreError;
use crate::expired::after_expiry;
use crate::index::{IndexEntry, Location, SizeClass, Tag};
use crate::keyfile::KeyFile;
use bytes::Bytes;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_number::length_u32;
use quoit_planted::PlantedFault;
use quoit_seam::Pace;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of bytes that are gathered before they are written and the index is changed.
const SLICE_BYTES: usize = 128 * 1024;

/// Number of bytes after which a new segment is synced.
const SYNC_BYTES: u64 = 4 << 20;

/// Maximum number of lookups of removed keys in key files of other segments, for one merge. Further
/// removals are kept without a lookup.
const LOOKUPS_MAX: u64 = 200_000;

/// A change of the index that follows from copying a record.
struct IndexChange {
    partition: Partition,
    tag: Tag,
    old: Location,
    class: SizeClass,
    outcome: CopyOutcome,
}

/// Outcome of a merge for a live record.
enum CopyOutcome {
    /// The record was copied to this location.
    Copied(Location),
    /// The record has expired and nothing replaces it.
    Dropped,
    /// The record has expired, and this tombstone replaces it.
    Replaced(IndexEntry),
}

/// A segment that the merge writes.
struct MergeTarget {
    segment: Arc<Segment>,
    keys: ActiveKeys,
    /// Offset at which the written records end.
    end: u64,
    /// Records that are not written yet.
    slice: Vec<u8>,
    /// Bytes written since the last sync.
    unsynced_bytes: u64,
}

impl MergeTarget {
    /// Writes the slice, and adds its records to the keys and counts of the segment. Returns the size of
    /// the slice in bytes.
    #[expect(clippy::indexing_slicing, reason = "the slice has whole records")]
    fn write(&mut self, store: &LogStore) -> Result<u64, StoreError> {
        let store_id = store.reader.store_id;
        let written = self.slice.len() as u64;
        if written == 0 {
            return Ok(0);
        }
        if let Err(error) = self.segment.file.write_at(&self.slice, self.end) {
            // A part may have been written. After a clean shutdown, the next start would report it as a loss.
            if let Err(fault) = self.segment.file.truncate(self.end) {
                let segment = self.segment.number;
                tracing::warn!(segment, %fault, "the torn end of a merge could not be cut off");
            }
            return Err(error.into());
        }
        let mut at = 0;
        while at < self.slice.len() {
            let offset = self.end + at as u64;
            let position = Position { store_id, segment: self.segment.number, offset };
            let (header, _) = record::decode(&self.slice[at..], &position)
                .expect("the slice holds the records that were pushed");
            let key = &self.slice[at + HEADER_BYTES..][..usize::from(header.key_bytes)];
            note_key(&self.keys, key, &header, offset);
            let class = SizeClass::of(header.record_bytes());
            self.segment.count_written(class, header.meta.expires_at_secs);
            self.segment.sequence_min.fetch_min(header.sequence, Ordering::Relaxed);
            if header.kind != RecordKind::Put {
                self.segment.count_held();
            }
            at += quoit_number::index(header.padded_bytes());
        }
        self.end += written;
        self.slice.clear();
        self.unsynced_bytes += written;
        if self.unsynced_bytes >= SYNC_BYTES {
            // Frequent small syncs, because one large sync at the end would delay the syncs of the log.
            store.committer.sync_segment(&self.segment)?;
            self.unsynced_bytes = 0;
        }
        Ok(written)
    }
}

/// Output of a merge.
#[derive(Default)]
pub(super) struct MergeOutput {
    /// Numbers of the segments.
    pub(super) segments: Vec<u32>,
    /// Size of the records in bytes.
    pub(super) size_bytes: u64,
}

/// Copies the live records of the victims.
pub(super) struct Copier<'m> {
    store: &'m LogStore,
    victims: &'m [u32],
    pace: &'m dyn Pace,
    /// Key files of the other segments, with the lowest sequence of each.
    others: Vec<(u64, Arc<KeyFile>)>,
    /// The lowest sequence in other segments without a key file; `None` if each has one.
    unkeyed_min: Option<u64>,
    lookups_left: u64,
    target: Option<MergeTarget>,
    moves: Vec<IndexChange>,
    output: MergeOutput,
}

impl<'m> Copier<'m> {
    pub(super) fn new(store: &'m LogStore, victims: &'m [u32], pace: &'m dyn Pace) -> Self {
        let key_files = store.key_files.lock().clone();
        let table = store.table.load();
        let mut others = Vec::new();
        let mut unkeyed_min: Option<u64> = None;
        for segment in table.all().iter().filter(|other| !victims.contains(&other.number)) {
            let sequence_min = segment.sequence_min.load(Ordering::Relaxed);
            match key_files.get(&segment.number) {
                Some(keys) => others.push((sequence_min, Arc::clone(keys))),
                None => {
                    unkeyed_min = Some(unkeyed_min.unwrap_or(u64::MAX).min(sequence_min));
                }
            }
        }
        Self {
            store,
            victims,
            pace,
            others,
            unkeyed_min,
            lookups_left: LOOKUPS_MAX,
            target: None,
            moves: Vec::new(),
            output: MergeOutput::default(),
        }
    }

    /// Copies all live records. Returns false if the worker was told to stop.
    pub(super) fn copy_all(&mut self) -> Result<bool, StoreError> {
        let table = self.store.table.load_full();
        for segment in self.victims.iter().filter_map(|number| table.get(*number)) {
            if !self.copy_segment(segment)? {
                return Ok(false);
            }
        }
        self.flush()?;
        Ok(true)
    }

    /// Completes the last target, also if copying has failed, because the index refers to it. Returns what
    /// the merge has written.
    pub(super) fn finish(mut self) -> Result<MergeOutput, StoreError> {
        self.close_target()?;
        Ok(self.output)
    }

    fn copy_segment(&mut self, victim: &Arc<Segment>) -> Result<bool, StoreError> {
        let file = Arc::clone(&victim.file);
        let (store_id, number) = (self.store.reader.store_id, victim.number);
        let mut scan = Scan::new(file, store_id, number, SEGMENT_HEADER_BYTES)?;
        let mut paced_at = scan.offset();
        while let Some(record) = scan.next()? {
            self.take(number, &record)?;
            let end = record.offset + record.header.padded_bytes();
            if end - paced_at >= SLICE_BYTES as u64 {
                // Each byte is read once, and written at most once.
                let copied = self.target.as_ref().map_or(0, |target| target.slice.len() as u64);
                self.flush()?;
                if !self.pace.pause(self.store.pause_us(end - paced_at + copied)) {
                    return Ok(false);
                }
                paced_at = end;
            }
        }
        // Small segments count towards the budget as well.
        self.flush()?;
        Ok(self.pace.pause(self.store.pause_us(scan.offset() - paced_at)))
    }

    fn take(&mut self, victim: u32, record: &Scanned<'_>) -> Result<(), StoreError> {
        let header =
            RecordHeader { in_batch: false, synced: SyncedDistance::UNKNOWN, ..record.header };
        match header.kind {
            RecordKind::Put => self.take_put(victim, &header, record),
            RecordKind::Remove if self.has_older_write(&header, record.key())? => {
                self.push(&header, record.body).map(drop)
            }
            RecordKind::DropPartition if self.has_older_segment(&header) => {
                self.push(&header, record.body).map(drop)
            }
            RecordKind::Remove | RecordKind::DropPartition | RecordKind::Batch => Ok(()),
        }
    }

    fn take_put(
        &mut self,
        victim: u32,
        header: &RecordHeader,
        record: &Scanned<'_>,
    ) -> Result<(), StoreError> {
        let Some(old) = Location::new(victim, record.offset) else {
            return Ok(());
        };
        let tag = Tag::of(header.identity);
        let is_live = {
            let index = self.store.stripe(header.partition).read();
            index.candidates(tag).any(|entry| entry.location == old)
        };
        if !is_live {
            return Ok(());
        }
        let class = SizeClass::of(header.record_bytes());
        let outcome = match self.store.is_expired(&header.meta) {
            true => self.take_expired(header, record)?,
            false => CopyOutcome::Copied(self.push(header, record.body)?),
        };
        self.moves.push(IndexChange { partition: header.partition, tag, old, class, outcome });
        Ok(())
    }

    fn take_expired(
        &mut self,
        header: &RecordHeader,
        record: &Scanned<'_>,
    ) -> Result<CopyOutcome, StoreError> {
        let (key, value) = record.body.split_at(record.key().len());
        let expired = Record { meta: header.meta, value: Bytes::copy_from_slice(value) };
        if let Some(Record { meta, value }) = after_expiry(&expired) {
            let value_bytes = length_u32(value.len());
            let tombstone = RecordHeader { value_bytes, meta, ..*header };
            let location = self.push(&tombstone, &[key, &value].concat())?;
            let size = tombstone.record_bytes();
            return Ok(CopyOutcome::Replaced(entry_of(header.identity, &meta, location, size)));
        }
        if self.has_older_write(header, key)? {
            // Without the removal, a rebuild of the index would take the older write for the newest.
            let removal = RecordHeader { kind: RecordKind::Remove, value_bytes: 0, ..*header };
            self.push(&removal, key)?;
        }
        Ok(CopyOutcome::Dropped)
    }

    /// True if another segment may have an older write of the key.
    fn has_older_write(&mut self, header: &RecordHeader, key: &[u8]) -> Result<bool, StoreError> {
        if planted::has(PlantedFault::ForgetsRemovals) {
            return Ok(false);
        }
        if self.unkeyed_min.is_some_and(|sequence| sequence < header.sequence) {
            return Ok(true);
        }
        let Ok(name) = KeyRef::decode(key) else {
            return Ok(false);
        };
        for (sequence_min, keys) in &self.others {
            if *sequence_min >= header.sequence {
                continue;
            }
            if self.lookups_left == 0 || keys.find(name, header.partition)?.is_some() {
                return Ok(true);
            }
            self.lookups_left -= 1;
        }
        Ok(false)
    }

    fn has_older_segment(&self, header: &RecordHeader) -> bool {
        let keyed = self.others.iter().map(|(sequence_min, _)| *sequence_min);
        keyed.chain(self.unkeyed_min).any(|sequence_min| sequence_min < header.sequence)
    }

    /// Adds a record to the target's slice. Returns its future location.
    #[expect(clippy::indexing_slicing, reason = "the record was appended at `start`")]
    fn push(&mut self, header: &RecordHeader, body: &[u8]) -> Result<Location, StoreError> {
        let limits = self.store.log.limits();
        let is_full = self.target.as_ref().is_some_and(|target| {
            let end = target.end + target.slice.len() as u64 + header.padded_bytes();
            let keys_full = target.keys.memory_bytes() > limits.key_buffer_bytes;
            (end > limits.file_bytes || keys_full) && target.end > SEGMENT_HEADER_BYTES
        });
        if is_full {
            self.flush()?;
            self.close_target()?;
        }
        let target = match &mut self.target {
            Some(target) => target,
            None => {
                let segment = self.store.log.begin_merge_segment()?;
                self.output.segments.push(segment.number);
                self.target.insert(MergeTarget {
                    keys: ActiveKeys::new(segment.number),
                    segment,
                    end: SEGMENT_HEADER_BYTES,
                    slice: Vec::new(),
                    unsynced_bytes: 0,
                })
            }
        };
        let start = target.slice.len();
        let offset = target.end + start as u64;
        let store_id = self.store.reader.store_id;
        let position = Position { store_id, segment: target.segment.number, offset };
        target.slice.resize(start + HEADER_BYTES, 0);
        target.slice.extend_from_slice(body);
        target.slice.resize(target.slice.len().next_multiple_of(ALIGNMENT_BYTES), 0);
        let check = record::body_check(store_id, body);
        record::encode(header, check, &position, &mut target.slice[start..]);
        Ok(Location::new(target.segment.number, offset)
            .expect("segments are limited to what locations hold"))
    }

    /// Writes the slice and changes the index entries of its records.
    fn flush(&mut self) -> Result<(), StoreError> {
        if let Some(target) = &mut self.target {
            let written = target.write(self.store)?;
            self.output.size_bytes += written;
            self.store.counters.merged_bytes.fetch_add(written, Ordering::Relaxed);
        }
        let table = self.store.table.load();
        for moved in self.moves.drain(..) {
            let mut index = self.store.stripe(moved.partition).write();
            let new = match moved.outcome {
                CopyOutcome::Copied(new) => Some((new, moved.class)),
                CopyOutcome::Replaced(new) => Some((new.location, new.size_class)),
                CopyOutcome::Dropped => None,
            };
            let is_moved = match moved.outcome {
                CopyOutcome::Copied(_) if planted::has(PlantedFault::LeavesIndexBehind) => false,
                CopyOutcome::Copied(new) => index.relocate(moved.tag, moved.old, new),
                CopyOutcome::Replaced(new) => index.replace(moved.tag, moved.old, new),
                CopyOutcome::Dropped => index.remove(moved.tag, moved.old).is_some(),
            };
            drop(index);
            if is_moved {
                count_dead(&table, moved.old, moved.class);
                if let Some((location, class)) = new
                    && let Some(segment) = table.get(location.segment())
                {
                    segment.count_live(class);
                }
            }
        }
        Ok(())
    }

    /// Makes the target durable and writes its key file.
    fn close_target(&mut self) -> Result<(), StoreError> {
        let Some(target) = self.target.take() else {
            return Ok(());
        };
        let MergeTarget { segment, keys, .. } = target;
        segment.close();
        // The log keeps the segment and its keys until the key file is written, here or by the sealer.
        self.store.log.add_sealed(Sealed { segment, keys: Arc::new(keys) });
        self.store.seal_all()
    }
}
