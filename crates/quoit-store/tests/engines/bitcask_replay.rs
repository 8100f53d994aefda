//! Damaged records that the snapshot refers to, although a start replays the log from an earlier position.

use crate::support::{Name, get, put, remove, value};
use quoit_seam::{Disk, FaultyDisk, ManualClock, ManualExecution, NextStep};
use quoit_store::bitcask::{
    BitcaskEngine, BitcaskSettings, MERGE_WORKER, SEAL_WORKER, SNAPSHOT_WORKER,
};
use quoit_store::engine::{
    Applied, BeforeImage, Decision, IoMode, Maintenance, PointAccess, RecordMeta, RecordRef,
};
use quoit_store::error::StoreError;
use std::sync::{Arc, Mutex};

const FIRST_SEGMENT: &str = "0000001.log";
/// Bytes of a record before its name.
const HEADER_BYTES: usize = 56;
/// First bytes of each record.
const MAGIC: [u8; 4] = [0x51, 0xba, 0x7e, 0xc0];
const OLDER: &[u8] = b"the older value";
const NEWER: &[u8] = b"the newer value";

/// A store that writes a snapshot whenever something was written.
struct Replayed {
    disk: FaultyDisk,
    execution: Arc<ManualExecution>,
    engine: Arc<BitcaskEngine>,
}

impl Replayed {
    fn open(disk: FaultyDisk) -> (Self, bool) {
        let settings = BitcaskSettings {
            max_file_size_bytes: 2_000,
            snapshot_interval_records: 1,
            reserved_disk_bytes: 0,
            ..BitcaskSettings::new(7)
        };
        let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
        let execution = Arc::new(ManualExecution::default());
        let opened = BitcaskEngine::open(Arc::new(disk.clone()), clock, &*execution, settings);
        let (engine, report) = opened.unwrap();
        (Self { disk, execution, engine: Arc::new(engine) }, report.from_snapshot)
    }

    /// A new store with the record `first`.
    fn new() -> Self {
        let (store, _) = Self::open(FaultyDisk::new(1));
        put(&*store.engine, "first", b"value");
        store
    }

    /// Runs a step of a worker, and `meanwhile` in its first pause.
    fn step(&self, worker: &str, meanwhile: impl FnOnce(&BitcaskEngine) + Send + 'static) {
        let (engine, mut meanwhile) = (Arc::clone(&self.engine), Some(meanwhile));
        self.execution.set_pause_hook(Some(Box::new(move |_| {
            if let Some(meanwhile) = meanwhile.take() {
                meanwhile(&engine);
            }
        })));
        self.execution.step(worker);
        self.execution.set_pause_hook(None);
    }

    /// The store after a kill and [`damage`].
    fn damaged(self, segment: &str, value: &[u8]) -> Self {
        let disk = self.disk.kill();
        drop(self);
        damage(&disk, segment, value);
        let (store, is_from_snapshot) = Self::open(disk);
        assert!(is_from_snapshot);
        store
    }

    fn key_count(&self) -> u64 {
        self.engine.stats().key_count
    }
}

/// Damages the header of the record of `key` that has this value, in a segment.
fn damage(disk: &FaultyDisk, segment: &str, value: &[u8]) {
    let bytes = disk.bytes(segment).unwrap();
    let value_at = bytes.windows(value.len()).position(|window| window == value).unwrap();
    let at = value_at - Name::new("key").at().encoded.len() - HEADER_BYTES;
    assert_eq!(bytes[at..at + 4], MAGIC);
    disk.flip_bit(segment, at + 8, 0);
}

#[test]
fn a_damaged_write_that_comes_after_replayed_ones_is_told_and_not_replaced_by_them() {
    let store = Replayed::new();
    store.step(SNAPSHOT_WORKER, |engine| {
        put(engine, "key", OLDER);
        put(engine, "key", NEWER);
        put(engine, "last", b"value");
    });
    let store = store.damaged(FIRST_SEGMENT, NEWER);
    let found = get(&*store.engine, "key");
    assert!(matches!(found, Err(StoreError::Corrupt { .. })), "{found:?}");
    assert_eq!(store.key_count(), 3);
    let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(b"repaired");
        Decision::Put(RecordMeta::default())
    };
    let at = Name::new("key");
    let applied = store.engine.update(&at.at(), BeforeImage::Skip, IoMode::Wait, change).unwrap();
    assert!(matches!(applied, Applied::Written(_)));
    assert_eq!(value(&*store.engine, "key").unwrap(), b"repaired");
    assert_eq!(store.key_count(), 3);
}

/// A store whose snapshot refers to a write of `key` after the position at which its replay begins.
fn with_a_write_in_the_snapshot() -> Replayed {
    let store = Replayed::new();
    store.step(SNAPSHOT_WORKER, |engine| {
        put(engine, "key", OLDER);
        put(engine, "last", b"value");
    });
    store
}

#[test]
fn a_replayed_write_replaces_a_damaged_one_before_it() {
    let store = with_a_write_in_the_snapshot();
    put(&*store.engine, "key", NEWER);
    let store = store.damaged(FIRST_SEGMENT, OLDER);
    assert_eq!(value(&*store.engine, "key").unwrap(), NEWER);
    assert_eq!(store.key_count(), 3);
}

#[test]
fn a_replayed_removal_removes_a_damaged_write_before_it() {
    let store = with_a_write_in_the_snapshot();
    remove(&*store.engine, "key");
    let store = store.damaged(FIRST_SEGMENT, OLDER);
    assert_eq!(value(&*store.engine, "key"), None);
    assert_eq!(store.key_count(), 2);
}

#[test]
fn a_replayed_write_replaces_a_damaged_copy_of_a_merge() {
    let store = Replayed::new();
    put(&*store.engine, "key", OLDER);
    for round in 0..40 {
        put(&*store.engine, "first", &[round; 150]);
    }
    while store.execution.step(SEAL_WORKER) == Some(NextStep::Again) {}
    let (execution, disk) = (Arc::clone(&store.execution), store.disk.clone());
    let killed = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&killed);
    // The merge has copied the record and dies before it ends.
    store.step(MERGE_WORKER, move |engine| {
        execution.step(SNAPSHOT_WORKER);
        put(engine, "key", NEWER);
        *kept.lock().unwrap() = Some(disk.kill());
    });
    drop(store);
    let disk: FaultyDisk = killed.lock().unwrap().take().expect("a merge was due");
    let is_copy = |name: &String| name.ends_with(".log") && disk.bytes(name).unwrap()[10] == 1;
    let copy = disk.list().unwrap().into_iter().find(is_copy).unwrap();
    damage(&disk, &copy, OLDER);
    let (store, is_from_snapshot) = Replayed::open(disk);
    assert!(is_from_snapshot);
    assert_eq!(value(&*store.engine, "key").unwrap(), NEWER);
    assert_eq!(store.key_count(), 2);
}
