//! A cache of records that were read or written recently. Reading them again needs no lookup in the ordered
//! store, so calls that must not wait can be answered from it.
//!
//! A cached record always equals the stored one. Two races could break that: a read that began before a
//! write and caches its result after it, and a record that is still cached when its next write has moved
//! from the batches to the store. Therefore:
//!
//! - A record that is about to be written is first removed from the cache.
//! - While a write is between that moment and taking effect, no record with the same guard is cached.
//! - A read caches its result only if no record with the same guard was written since the read began.

use super::backend::Space;
use super::settings::OrderedSettings;
use super::tallies::SpaceWrites;
use super::value::{HEAD_BYTES, read_meta};
use crate::engine::{Record, RecordMeta};
use bytes::Bytes;
use foldhash::quality::FixedState;
use parking_lot::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::hash::BuildHasher;

/// Number of guards. Records share them by hash.
const GUARD_COUNT: usize = 256;

/// Estimated memory of a cached record in bytes, in addition to its key and value.
const RECORD_OVERHEAD_BYTES: u64 = 128;

/// Maximum number of shards of the cache, each with its own lock.
const PART_COUNT_MAX: u64 = 16;

/// Minimum size of a shard in bytes. A record that is larger than a shard is not cached.
const PART_BYTES_MIN: u64 = 4 << 20;

/// Assumed size of a record in bytes when the tables are sized.
const RECORD_BYTES_ABOUT: u64 = 1_024;

/// The state of the writes of the records that share a guard.
#[derive(Default)]
struct Guard {
    /// Number of writes that are about to take effect.
    writer_count: u32,
    /// Number of writes that have taken effect.
    version: u64,
}

/// The state of a record's guard when a read of the record began.
#[derive(Clone, Copy)]
pub(super) struct GuardSnapshot {
    guard: usize,
    /// `None` if a write was about to take effect.
    version: Option<u64>,
}

#[derive(Clone)]
struct BytesOfRecord;

impl Weighter<Bytes, Record> for BytesOfRecord {
    fn weight(&self, key: &Bytes, record: &Record) -> u64 {
        key.len() as u64 + record.value.len() as u64 + RECORD_OVERHEAD_BYTES
    }
}

/// Cached records by their keys in the ordered store.
pub(super) struct RecordCache {
    records: Cache<Bytes, Record, BytesOfRecord, FixedState>,
    guards: Box<[Mutex<Guard>]>,
    hashes: FixedState,
}

impl RecordCache {
    /// A cache of the size in the settings, keys included; `None` for a size of 0. The random seed keeps
    /// clients from choosing names with colliding hashes.
    pub(super) fn new(settings: &OrderedSettings) -> Option<Self> {
        let size_bytes = settings.record_cache_bytes;
        if size_bytes == 0 {
            return None;
        }
        let hashes = FixedState::with_seed(settings.entropy);
        let count = usize::try_from(size_bytes / RECORD_BYTES_ABOUT).unwrap_or(usize::MAX);
        // Each shard must have room for large records too.
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

    /// The record that is stored under a key, if it is cached.
    pub(super) fn get(&self, key: &[u8]) -> Option<Record> {
        self.records.get(key)
    }

    /// Like `get`, but does not count as a use of the record. For lookups that do not suggest that the
    /// record will be read again.
    pub(super) fn peek(&self, key: &[u8]) -> Option<Record> {
        self.records.peek(key)
    }

    /// Notes that a read begins. Called before the read looks at the batches or the store.
    #[expect(clippy::indexing_slicing, reason = "`guard_of` returns the number of a guard")]
    pub(super) fn begin_read(&self, key: &[u8]) -> GuardSnapshot {
        let guard = self.guard_of(key);
        let Guard { writer_count, version } = *self.guards[guard].lock();
        GuardSnapshot { guard, version: (writer_count == 0).then_some(version) }
    }

    /// Caches the result of a read, if it still equals the stored record. Copies it, because a record from
    /// the store may be a part of a larger buffer.
    #[expect(clippy::indexing_slicing, reason = "`guard_of` returns the number of a guard")]
    pub(super) fn keep(&self, key: &[u8], seen: GuardSnapshot, record: &Record) {
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

    /// Runs `count`, which makes writes take effect, and caches the written records.
    #[expect(clippy::indexing_slicing, reason = "`guard_of` returns the number of a guard")]
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
            debug_assert!(
                self.records.peek(&key[..]).is_none(),
                "no read caches a record that is being written"
            );
            guard.writer_count -= 1;
            guard.version += 1;
            if let Some(record) = record {
                self.records.insert(key, record);
            }
        }
        counted
    }

    fn guard_of(&self, key: &[u8]) -> usize {
        quoit_number::index(self.hashes.hash_one(key)) % GUARD_COUNT
    }
}

/// The records among some entries, with their new values; `None` for a removed record.
fn written_records(writes: &SpaceWrites) -> Vec<(Bytes, Option<Record>)> {
    let mut written: Vec<(Bytes, Option<Record>)> = Vec::new();
    for (space, key, value) in writes {
        match (space, value) {
            (Space::Records, None) => written.push((key.clone(), None)),
            (Space::Records, Some(stored)) => {
                let record = read_meta(stored).map(|meta| of_head(meta, stored));
                written.push((key.clone(), record));
            }
            // A body comes after its head if bodies are stored apart.
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
        let settings = OrderedSettings { record_cache_bytes: 1 << 20, ..OrderedSettings::new(1) };
        RecordCache::new(&settings).unwrap()
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
