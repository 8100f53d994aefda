//! The record cache of the engines on ordered stores: it answers calls that must not wait, and is never
//! older than the last acknowledged write.

use crate::support::ordered::open_ordered;
use crate::support::{Name, put, remove, value};
use quoit_model::hash::Identity;
use quoit_seam::{Execution, ManualExecution, SystemClock, Threads};
use quoit_store::engine::{
    Applied, BeforeImage, Decision, Engine, Fetch, IoMode, Maintenance, PointAccess, RecordMeta,
    ScanAccess, SizeBound,
};
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedSettings};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ENGINES: [&str; 3] = ["leveldb", "leveled", "innostore"];

/// Size of values that `leveled` stores outside of the tree.
const VALUE_BYTES: usize = 2_000;

fn open(name: &str, directory: &Path, record_cache_bytes: u64) -> OrderedEngine {
    open_with(&Threads, name, directory, record_cache_bytes)
}

fn open_with(
    execution: &dyn Execution,
    name: &str,
    directory: &Path,
    record_cache_bytes: u64,
) -> OrderedEngine {
    let settings = OrderedSettings { record_cache_bytes, ..OrderedSettings::new(7) };
    let of_trees = LsmSettings { cache_bytes: 1 << 20, ..LsmSettings::default() };
    let clock = Arc::new(SystemClock::default());
    open_ordered(name, directory, clock, execution, settings, of_trees).unwrap().0
}

/// Result of a get that must not wait; `None` if it would have to wait.
fn at_once(engine: &dyn Engine, key: &str) -> Option<Option<Vec<u8>>> {
    match engine.get(&Name::new(key).at(), IoMode::NoWait).unwrap() {
        Fetch::Found(record) => Some(Some(record.value.to_vec())),
        Fetch::Missing => Some(None),
        Fetch::WouldBlock => None,
    }
}

/// Tries, without waiting, a change that needs to see the stored record.
fn try_change(engine: &dyn Engine, key: &str, value: &[u8]) -> Applied {
    let change = &mut |stored: Option<&quoit_store::engine::RecordRef<'_>>, out: &mut Vec<u8>| {
        assert!(stored.is_some());
        out.extend_from_slice(value);
        Decision::Put(RecordMeta::default())
    };
    engine.update(&Name::new(key).at(), BeforeImage::Read, IoMode::NoWait, change).unwrap()
}

#[test]
fn what_was_read_or_written_lately_is_there_without_waiting() {
    for name in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let body = vec![1; VALUE_BYTES];
        let engine = open(name, directory.path(), 1 << 20);
        put(&engine, "a", &body);
        engine.sync().unwrap();
        assert_eq!(at_once(&engine, "a"), Some(Some(body.clone())), "{name}: written");
        engine.close().unwrap();
        drop(engine);

        let engine = open(name, directory.path(), 1 << 20);
        assert_eq!(at_once(&engine, "a"), None, "{name}: nobody has read it");
        assert_eq!(try_change(&engine, "a", b"no"), Applied::WouldBlock, "{name}");
        assert_eq!(value(&engine, "a"), Some(body.clone()), "{name}");
        assert_eq!(at_once(&engine, "a"), Some(Some(body)), "{name}: read");
        let head = engine.head(&Name::new("a").at()).unwrap().unwrap();
        assert_eq!(head.digest, 9, "{name}");
        assert!(matches!(try_change(&engine, "a", b"new"), Applied::Written(_)), "{name}");
        engine.sync().unwrap();
        assert_eq!(at_once(&engine, "a"), Some(Some(b"new".to_vec())), "{name}: changed");
        remove(&engine, "a");
        engine.sync().unwrap();
        assert_eq!(at_once(&engine, "a"), None, "{name}: what is absent is not kept");
        assert_eq!(value(&engine, "a"), None, "{name}: removed");
    }
}

#[test]
fn what_is_met_in_passing_is_not_kept() {
    for name in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(name, directory.path(), 0);
        put(&engine, "a", b"value");
        engine.close().unwrap();
        drop(engine);
        let engine = open(name, directory.path(), 1 << 20);
        let partition = Name::new("a").at().partition;
        let folded = engine.fold(partition, Identity(0), 10, false).unwrap();
        assert_eq!(folded.entries.len(), 1, "{name}");
        assert_eq!(at_once(&engine, "a"), None, "{name}");
    }
}

#[test]
fn an_engine_that_keeps_nothing_has_to_wait() {
    for name in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(name, directory.path(), 0);
        put(&engine, "a", b"value");
        engine.sync().unwrap();
        assert_eq!(value(&engine, "a"), Some(b"value".to_vec()), "{name}");
        assert_eq!(at_once(&engine, "a"), None, "{name}");
    }
}

#[test]
fn a_dropped_partition_is_not_kept() {
    for name in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(name, directory.path(), 1 << 20);
        put(&engine, "a", b"value");
        engine.drop_partition(Name::new("a").at().partition).unwrap();
        assert_eq!(at_once(&engine, "a"), None, "{name}");
        assert_eq!(value(&engine, "a"), None, "{name}");
    }
}

/// Keys that are written and read concurrently; not all fit into the cache.
const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// The number in a value. Checks that the whole value is of one write.
fn number_in(value: &[u8]) -> u64 {
    let (first, rest) = value.split_first_chunk::<8>().unwrap();
    assert!(rest.chunks_exact(8).all(|chunk| chunk == first), "parts of several writes");
    u64::from_be_bytes(*first)
}

/// Reads the keys until all have their last values. No value may be older than one that was acknowledged or
/// read before the read began.
fn read_until_last(engine: &OrderedEngine, written: &[AtomicU64; 4], last: u64) {
    let mut seen = [0; 4];
    while seen != [last; 4] {
        for (place, key) in KEYS.iter().enumerate() {
            let floor = written[place].load(Ordering::Acquire).max(seen[place]);
            let at_once = at_once(engine, key);
            let found = at_once.unwrap_or_else(|| value(engine, key));
            let number = found.map_or(0, |value| number_in(&value));
            assert!(number >= floor, "{key}: {number} was read after {floor}");
            seen[place] = number;
        }
    }
}

#[test]
fn what_is_kept_is_never_older_than_what_was_written() {
    const LAST: u64 = 1_000;
    for name in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(name, directory.path(), 2 * VALUE_BYTES as u64 + 400);
        let written: [AtomicU64; 4] = Default::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=LAST {
                    for (place, key) in KEYS.iter().enumerate() {
                        put(&engine, key, &number.to_be_bytes().repeat(VALUE_BYTES / 8));
                        written[place].store(number, Ordering::Release);
                    }
                }
            });
            for _ in 0..2 {
                scope.spawn(|| read_until_last(&engine, &written, LAST));
            }
        });
    }
}

#[test]
fn the_size_of_a_record_is_told_by_its_head() {
    for name in ENGINES {
        for cache_bytes in [0, 1 << 20] {
            let directory = tempfile::tempdir().unwrap();
            // Without a worker, writes stay in memory until they are synced.
            let engine =
                open_with(&ManualExecution::default(), name, directory.path(), cache_bytes);
            let bound = |key: &str, access| engine.size_bound(&Name::new(key).at(), access);
            for value_bytes in [3, 50_000] {
                put(&engine, "a", &vec![1; value_bytes]);
                let written = SizeBound::AtMost(value_bytes as u64);
                assert_eq!(bound("a", IoMode::NoWait), written, "{name}: it waits in memory");
                engine.sync().unwrap();
                if cache_bytes == 0 {
                    assert_eq!(bound("a", IoMode::NoWait), SizeBound::WouldBlock, "{name}");
                }
                assert_eq!(bound("a", IoMode::Wait), written, "{name}");
            }
            assert_eq!(bound("none", IoMode::Wait), SizeBound::Unknown, "{name}");
        }
    }
}
