//! Copies of records that were sent a short while ago.

use quoit_riak_files::StoredRecord;
use std::collections::{HashSet, VecDeque};
use xxhash_rust::xxh3::Xxh3;

/// Partitions of which copies are remembered: a record's copies lie in as many that follow each other.
const PARTITIONS_MAX: usize = 4;
/// Most copies that are remembered, some 400 MiB of memory. Beyond it copies are sent once more, which the
/// cluster merges.
const COPIES_MAX: usize = 12_000_000;

/// The copies of the last partitions, by a hash of name and object.
#[derive(Default)]
pub(super) struct RecentCopies {
    partitions: VecDeque<HashSet<u128>>,
}

impl RecentCopies {
    /// Forgets the oldest partition when there are enough.
    pub(super) fn next_partition(&mut self) {
        if self.partitions.len() >= PARTITIONS_MAX {
            self.partitions.pop_front();
        }
        self.partitions.push_back(HashSet::new());
    }

    /// Whether this copy is not the same as one of those partitions; it is remembered then.
    pub(super) fn is_new(&mut self, record: &StoredRecord) -> bool {
        let mut hasher = Xxh3::new();
        for part in [&record.key.bucket_type, &record.key.bucket, &record.key.key] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.update(&record.object);
        let hash = hasher.digest128();
        if self.partitions.iter().any(|known| known.contains(&hash)) {
            return false;
        }
        let count: usize = self.partitions.iter().map(HashSet::len).sum();
        if count >= COPIES_MAX {
            self.partitions.pop_front();
        }
        if self.partitions.is_empty() {
            self.partitions.push_back(HashSet::new());
        }
        if let Some(known) = self.partitions.back_mut() {
            known.insert(hash);
        }
        true
    }
}
