//! Records that were read or written lately, kept so that to read them again takes no look at the ordered
//! store: calls that must not wait are answered with them.
//!
//! A record that is kept is the one that is stored. Two things could spoil that: a read that began before a
//! write and keeps what it has found after it, and a record that is still kept when its next write has left
//! the batches for the store. So a record that is about to be written is forgotten first, nothing that
//! shares its guard is kept while the write counts nowhere yet, and what a read has found is kept only if
//! nothing that shares its guard was written since the read began.

use super::backend::Space;
use super::tallies::SpaceWrites;
use super::value::{HEAD_BYTES, read_meta};
use crate::engine::{Record, RecordMeta};
use bytes::Bytes;
use foldhash::quality::FixedState;
use parking_lot::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::hash::BuildHasher;

/// Records share this many guards, by hash.
const GUARD_COUNT: usize = 256;

/// Estimated memory of a cached record beside its key and value.
const RECORD_OVERHEAD_BYTES: u64 = 128;

/// The cache has so many parts at most, each with a lock of its own.
const PART_COUNT_MAX: u64 = 16;

/// Parts are not made smaller than this; a record that is larger than a part is not kept.
const PART_BYTES_MIN: u64 = 4 << 20;

/// Size that records are reckoned to have when the tables are laid out.
const RECORD_BYTES_ABOUT: u64 = 1_024;

/// How writes of some records went by.
#[derive(Default)]
struct Guard {
    /// Writes that are about to count.
    writer_count: u32,
    /// Writes that count.
    version: u64,
}

/// How far the writes of a record had come when a read of it began.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    guard: usize,
    /// `None` when a write was about to count.
    version: Option<u64>,
}

#[derive(Clone)]
struct BytesOfRecord;

impl Weighter<Bytes, Record> for BytesOfRecord {
    fn weight(&self, key: &Bytes, record: &Record) -> u64 {
        key.len() as u64 + record.value.len() as u64 + RECORD_OVERHEAD_BYTES
    }
}

/// Records by the keys that they have in the ordered store.
pub(super) struct RecordCache {
    records: Cache<Bytes, Record, BytesOfRecord, FixedState>,
    guards: Box<[Mutex<Guard>]>,
    hashes: FixedState,
}

impl RecordCache {
    /// Keeps at most `size_bytes`, keys included; `None` for nothing. The seed keeps those who choose names
    /// from choosing places.
    pub(super) fn new(size_bytes: u64, seed: u64) -> Option<Self> {
        if size_bytes == 0 {
            return None;
        }
        let hashes = FixedState::with_seed(seed);
        let count = usize::try_from(size_bytes / RECORD_BYTES_ABOUT).unwrap_or(usize::MAX);
        // Each part must have room for large records too.
        let part_count = (size_bytes / PART_BYTES_MIN).clamp(1, PART_COUNT_MAX);
        let options = OptionsBuilder::new()
            .shards(part_count as usize)
            .estimated_items_capacity(count.max(1))
            .weight_capacity(size_bytes)
            .build()
            .expect("both capacities are given");
        let records = Cache::with_options(
            options,
            BytesOfRecord,
            hashes.clone(),
            DefaultLifecycle::default(),
        );
        let guards = (0..GUARD_COUNT).map(|_| Mutex::default()).collect();
        Some(Self { records, guards, hashes })
    }

    /// The record that is stored under a key, if it is kept.
    pub(super) fn get(&self, key: &[u8]) -> Option<Record> {
        self.records.get(key)
    }

    /// The same, for a caller whose lookup says nothing about later reads.
    pub(super) fn peek(&self, key: &[u8]) -> Option<Record> {
        self.records.peek(key)
    }

    /// Notes that a read begins, before it looks at anything.
    pub(super) fn begin_read(&self, key: &[u8]) -> Seen {
        let guard = self.guard_of(key);
        let Guard { writer_count, version } = *self.guards[guard].lock();
        Seen { guard, version: (writer_count == 0).then_some(version) }
    }

    /// Keeps what a read has found, if it is still what is stored. It is copied: what comes from the store
    /// may be a piece of something larger.
    pub(super) fn keep(&self, key: &[u8], seen: Seen, record: &Record) {
        let key = Bytes::copy_from_slice(key);
        if BytesOfRecord.weight(&key, record) > self.records.shard_capacity() {
            return;
        }
        let record = Record { value: Bytes::copy_from_slice(&record.value), ..*record };
        let guard = self.guards[seen.guard].lock();
        if guard.writer_count == 0 && seen.version == Some(guard.version) {
            self.records.insert(key, record);
        }
    }

    /// Makes writes count by `count`, and keeps what they have written.
    pub(super) fn write<T>(&self, writes: SpaceWrites, count: impl FnOnce(SpaceWrites) -> T) -> T {
        let written = written_records(&writes);
        for (key, _) in &written {
            let mut guard = self.guards[self.guard_of(key)].lock();
            guard.writer_count += 1;
            self.records.remove(&key[..]);
        }
        let counted = count(writes);
        for (key, record) in written {
            let mut guard = self.guards[self.guard_of(&key)].lock();
            guard.writer_count -= 1;
            guard.version += 1;
            if let Some(record) = record {
                self.records.insert(key, record);
            }
        }
        counted
    }

    fn guard_of(&self, key: &[u8]) -> usize {
        self.hashes.hash_one(key) as usize % GUARD_COUNT
    }
}

/// The records among some entries, and what they become: `None` where they are removed.
fn written_records(writes: &SpaceWrites) -> Vec<(Bytes, Option<Record>)> {
    let mut written: Vec<(Bytes, Option<Record>)> = Vec::new();
    for (space, key, value) in writes {
        match (space, value) {
            (Space::Records, None) => written.push((key.clone(), None)),
            (Space::Records, Some(stored)) => {
                let record = read_meta(stored).map(|meta| of_head(meta, stored));
                written.push((key.clone(), record));
            }
            // Behind its head, where bodies are apart.
            (Space::Bodies, Some(body)) => {
                if let Some((_, Some(record))) = written.last_mut() {
                    record.value = body.clone();
                }
            }
            _ => {}
        }
    }
    written
}

fn of_head(meta: RecordMeta, stored: &Bytes) -> Record {
    Record { meta, value: stored.slice(HEAD_BYTES..) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"key";

    fn record(value: &'static [u8]) -> Record {
        Record { meta: RecordMeta { digest: 3, ..RecordMeta::default() }, value: value.into() }
    }

    fn stored(value: &'static [u8]) -> SpaceWrites {
        let head = super::super::value::ValueHead::of(record(value).meta, value, false);
        let stored = super::super::value::record_value(KEY, &head, value);
        vec![(Space::Records, KEY.into(), Some(stored))]
    }

    fn cache() -> RecordCache {
        RecordCache::new(1 << 20, 1).unwrap()
    }

    #[test]
    fn what_was_found_before_a_write_is_not_kept_after_it() {
        let cache = cache();
        let seen = cache.begin_read(KEY);
        cache.write(stored(b"new"), drop);
        cache.keep(KEY, seen, &record(b"old"));
        assert_eq!(cache.get(KEY), Some(record(b"new")));
    }

    #[test]
    fn nothing_is_kept_while_a_write_begins_to_count() {
        let cache = cache();
        let before = cache.begin_read(KEY);
        cache.keep(KEY, before, &record(b"old"));
        assert_eq!(cache.get(KEY), Some(record(b"old")));
        cache.write(vec![(Space::Records, KEY.into(), None)], |_| {
            assert_eq!(cache.get(KEY), None);
            cache.keep(KEY, before, &record(b"old"));
            let during = cache.begin_read(KEY);
            cache.keep(KEY, during, &record(b"old"));
            assert_eq!(cache.get(KEY), None);
        });
        assert_eq!(cache.get(KEY), None);
        let after = cache.begin_read(KEY);
        cache.keep(KEY, after, &record(b"newer"));
        assert_eq!(cache.get(KEY), Some(record(b"newer")));
    }

    #[test]
    fn a_body_that_is_apart_is_kept_with_its_head() {
        let cache = cache();
        let head = super::super::value::ValueHead::of(record(b"body").meta, b"body", true);
        let stored = super::super::value::record_value(KEY, &head, b"body");
        let body = Bytes::from_static(b"body");
        let writes = vec![
            (Space::Records, KEY.into(), Some(stored)),
            (Space::Bodies, KEY.into(), Some(body)),
        ];
        cache.write(writes, drop);
        assert_eq!(cache.get(KEY), Some(record(b"body")));
    }

    #[test]
    fn what_is_too_large_for_a_part_is_not_kept() {
        let cache = cache();
        let seen = cache.begin_read(KEY);
        cache.keep(KEY, seen, &record(&[7; 2 << 20]));
        assert_eq!(cache.get(KEY), None);
        cache.write(stored(&[7; 2 << 20]), drop);
        assert_eq!(cache.get(KEY), None);
    }

    #[test]
    fn memory_is_bounded() {
        let cache = cache();
        for number in 0..10_000u32 {
            let key = number.to_be_bytes();
            let seen = cache.begin_read(&key);
            cache.keep(&key, seen, &record(&[7; 1_000]));
        }
        assert!(cache.records.weight() <= 1 << 20);
        assert!(cache.records.len() > 500);
    }
}
