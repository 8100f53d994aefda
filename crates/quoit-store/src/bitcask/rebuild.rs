//! Rebuilds the index from key files and records: for each record, the write with the highest sequence
//! counts.

use super::key_facts::facts_of;
use super::record::{RecordHeader, RecordKind};
use super::segment::{Segment, SegmentCounts};
use super::store::entry_of;
use crate::engine::RecordMeta;
use crate::error::StoreError;
use crate::file_names::log_name;
use crate::index::{Location, PartitionIndex, SizeClass};
use crate::keyfile::{FileCursor, KeyEntry, KeyFile, KeyWrite, WriteKind};
use quoit_model::hash::{Identity, Partition};
use quoit_model::store_opening::StoreId;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The facts about a write that the index needs.
#[derive(Clone, Copy)]
struct ReplayedWrite {
    /// Identity, and a second hash of the key that is seeded with the store's secret id: equal only for
    /// writes of the same record.
    name: (u64, u64),
    sequence: u64,
    kind: WriteKind,
    location: Location,
    size_bytes: u32,
    meta: RecordMeta,
}

/// Collects all writes of a store.
pub(super) struct Rebuild {
    store_id: StoreId,
    partitions: Vec<Vec<ReplayedWrite>>,
    /// For each partition, the sequence of its last drop: earlier writes do not count.
    dropped: Vec<u64>,
    sequence_max: u64,
    /// The highest partition number in a record that is too large for the ring.
    partition_beyond: Option<Partition>,
}

impl Rebuild {
    pub(super) fn new(store_id: StoreId, partition_count: usize) -> Self {
        Self {
            store_id,
            partitions: (0..partition_count).map(|_| Vec::new()).collect(),
            dropped: vec![0; partition_count],
            sequence_max: 0,
            partition_beyond: None,
        }
    }

    /// Adds a record.
    pub(super) fn add_record(&mut self, header: &RecordHeader, key: &[u8], location: Location) {
        let kind = match header.kind {
            RecordKind::Put => WriteKind::Put,
            RecordKind::Remove => WriteKind::Remove,
            RecordKind::DropPartition => WriteKind::DropPartition,
            RecordKind::Batch => return,
        };
        let facts = facts_of(header, kind, location.offset_bytes());
        self.add(location.segment(), key, &facts);
    }

    /// Adds the records of a key file. Adds nothing if the key file is damaged or names records beyond the
    /// end of the segment.
    pub(super) fn add_key_file(
        &mut self,
        segment: &Segment,
        keys: &Arc<KeyFile>,
    ) -> Result<(), StoreError> {
        let size_bytes = segment.file.size_bytes()?;
        let mut cursor = FileCursor::first(keys)?;
        let mut writes: Vec<(Vec<u8>, KeyWrite)> = Vec::new();
        let mut counts = SegmentCounts::default();
        while let Some(KeyEntry { encoded, facts, .. }) = cursor.current() {
            if facts.offset_bytes + u64::from(facts.size_bytes) > size_bytes {
                return Err(StoreError::Corrupt {
                    path: log_name(segment.number),
                    offset: facts.offset_bytes,
                    reason: format!(
                        "the file ends at {size_bytes}, within or before a record that its key file lists"
                    ),
                });
            }
            let class = SizeClass::of(u64::from(facts.size_bytes));
            counts.add_written(class, facts.meta.expires_at_secs);
            writes.push((encoded.to_vec(), facts));
            cursor.advance()?;
        }
        // A key file has only the newest write of each record. The other writes are assumed to take the
        // rest of the segment.
        if counts.record_bytes > 0 && size_bytes > counts.record_bytes {
            let scale = size_bytes as f64 / counts.record_bytes as f64;
            counts.record_count = quoit_number::whole(counts.record_count as f64 * scale);
            counts.record_bytes = size_bytes;
        }
        segment.set_counts(&counts);
        let footer = keys.footer();
        segment.sequence_min.store(footer.sequence_min, Ordering::Relaxed);
        for (encoded, facts) in &writes {
            self.add(segment.number, encoded, facts);
        }
        Ok(())
    }

    fn add(&mut self, segment: u32, encoded: &[u8], facts: &KeyWrite) {
        self.sequence_max = self.sequence_max.max(facts.sequence);
        let place = usize::from(facts.partition.0);
        let known = (self.partitions.get_mut(place), self.dropped.get_mut(place));
        let (Some(writes), Some(dropped)) = known else {
            self.partition_beyond = self.partition_beyond.max(Some(facts.partition));
            return;
        };
        if facts.kind == WriteKind::DropPartition {
            *dropped = (*dropped).max(facts.sequence);
            return;
        }
        let Some(location) = Location::new(segment, facts.offset_bytes) else {
            return;
        };
        writes.push(ReplayedWrite {
            name: (facts.identity.0, xxh3_64_with_seed(encoded, self.store_id.0)),
            sequence: facts.sequence,
            kind: facts.kind,
            location,
            size_bytes: facts.size_bytes,
            meta: facts.meta,
        });
    }

    /// The highest sequence of all writes.
    pub(super) fn sequence_max(&self) -> u64 {
        self.sequence_max
    }

    /// The highest partition number in a record that is too large for the ring, if there is one.
    pub(super) fn partition_beyond(&self) -> Option<Partition> {
        self.partition_beyond
    }

    /// Builds the index of each partition.
    pub(super) fn finish(self) -> Vec<PartitionIndex> {
        let mut indexes = Vec::with_capacity(self.partitions.len());
        for (mut writes, dropped) in self.partitions.into_iter().zip(self.dropped) {
            writes.retain(|write| write.sequence > dropped);
            writes.sort_unstable_by_key(|write| (write.name, Reverse(write.sequence)));
            writes.dedup_by_key(|write| write.name);
            writes.retain(|write| write.kind == WriteKind::Put);
            debug_assert!(
                writes.is_sorted_by(|one, other| one.name < other.name),
                "one write of each record counts"
            );
            let mut entries = Vec::with_capacity(writes.len());
            for write in &writes {
                let identity = Identity(write.name.0);
                let size = u64::from(write.size_bytes);
                entries.push(entry_of(identity, &write.meta, write.location, size));
            }
            indexes.push(PartitionIndex::from_entries(entries));
        }
        indexes
    }
}
