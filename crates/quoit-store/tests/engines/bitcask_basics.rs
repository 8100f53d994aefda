//! The Bitcask engine on a real disk: reads return the written values, also after a restart.

use crate::support::{Faulty, Name, keys, put, remove, value};
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_seam::{RealDisk, SystemClock, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, OpenReport};
use quoit_store::engine::{
    Applied, BatchWrite, BeforeImage, Decision, IoMode, Maintenance, PointAccess, RecordAt,
    RecordMeta, RecordRef, ScanAccess, SizeBound,
};
use quoit_store::error::StoreError;
use std::path::Path;
use std::sync::Arc;

fn open(directory: &Path, change: impl Fn(&mut BitcaskSettings)) -> (BitcaskEngine, OpenReport) {
    let disk = Arc::new(RealDisk::open(directory).unwrap());
    let mut settings = BitcaskSettings::new(7);
    change(&mut settings);
    let clock = Arc::new(SystemClock::default());
    BitcaskEngine::open(disk, clock, &Threads, settings).unwrap()
}

#[test]
fn values_survive_a_restart_in_good_order() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, report) = open(directory.path(), |_| {});
    assert!(report.created && report.clean && report.incarnation == 1);
    for number in 0..100 {
        put(&engine, &format!("key{number:03}"), format!("value {number}").as_bytes());
    }
    put(&engine, "key003", b"newer");
    remove(&engine, "key004");
    engine.sync().unwrap();
    let check = |engine: &BitcaskEngine| {
        assert_eq!(value(engine, "key003").unwrap(), b"newer");
        assert_eq!(value(engine, "key004"), None);
        assert_eq!(value(engine, "key099").unwrap(), b"value 99");
        assert_eq!(keys(engine).len(), 99);
        assert_eq!(engine.stats().key_count, 99);
    };
    check(&engine);
    engine.close().unwrap();
    drop(engine);
    let (engine, report) = open(directory.path(), |_| {});
    assert!(!report.created && report.clean && report.incarnation == 1, "{report:?}");
    check(&engine);
    drop(engine);
    let (engine, report) = open(directory.path(), |_| {});
    assert!(!report.clean && report.incarnation == 2, "{report:?}");
    check(&engine);
}

#[test]
fn batches_and_small_segments_survive_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let small = |settings: &mut BitcaskSettings| settings.max_file_size_bytes = 4_096;
    let (engine, _) = open(directory.path(), small);
    for number in 0..200 {
        put(&engine, &format!("key{:03}", number % 50), &[number as u8; 100]);
    }
    let (one, two) = (Name::new("key000"), Name::new("other"));
    let meta = RecordMeta::default();
    let writes =
        [BatchWrite::Remove { at: one.at() }, BatchWrite::Put { at: two.at(), meta, value: b"v" }];
    engine.batch(&writes).unwrap();
    drop(engine);
    let (engine, report) = open(directory.path(), small);
    assert!(!report.clean && report.segment_count > 3 && report.damage_count == 0, "{report:?}");
    assert_eq!(value(&engine, "key000"), None);
    assert_eq!(value(&engine, "other").unwrap(), b"v");
    assert_eq!(value(&engine, "key001").unwrap(), [151; 100]);
    assert_eq!(keys(&engine).len(), 50);
}

/// Puts a value whose end, from `shared_at` on, is in a buffer of its own.
fn put_large(engine: &BitcaskEngine, key: &str, value: &Bytes, shared_at: usize) {
    let mut change = |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>, rest: &mut Bytes| {
        out.extend_from_slice(&value[..shared_at]);
        *rest = value.slice(shared_at..);
        Decision::Put(RecordMeta { digest: 9, ..RecordMeta::default() })
    };
    let name = Name::new(key);
    let applied =
        engine.update_large(&name.at(), BeforeImage::Skip, IoMode::Wait, &mut change).unwrap();
    assert!(matches!(applied, Applied::Written(_)), "{applied:?}");
}

#[test]
fn values_of_two_buffers_are_read_as_one_also_after_a_restart() {
    const SIZES: [usize; 9] = [1, 15, 16, 17, 65_535, 65_536, 262_143, 1_048_576, 3_000_001];
    let directory = tempfile::tempdir().unwrap();
    let windowed = |settings: &mut BitcaskSettings| settings.recent_writes_bytes = 4 << 20;
    let (engine, _) = open(directory.path(), windowed);
    let value_of =
        |size: usize| -> Bytes { (0..size).map(|place| (place * 7 + size) as u8).collect() };
    for size in SIZES {
        for shared_at in [0, size / 3, size.saturating_sub(1), size] {
            put_large(&engine, &format!("{size}-{shared_at}"), &value_of(size), shared_at);
            put(&engine, &format!("small {size}-{shared_at}"), b"between them");
        }
    }
    let check = |engine: &BitcaskEngine| {
        for size in SIZES {
            for shared_at in [0, size / 3, size.saturating_sub(1), size] {
                let key = format!("{size}-{shared_at}");
                assert!(value(engine, &key).unwrap() == value_of(size), "{key}");
                assert_eq!(value(engine, &format!("small {key}")).unwrap(), b"between them");
                let SizeBound::AtMost(bound) =
                    engine.size_bound(&Name::new(&key).at(), IoMode::Wait)
                else {
                    panic!("{key} has no size")
                };
                assert!(bound >= size as u64, "{key}: {bound}");
            }
        }
        assert_eq!(engine.stats().corrupt_record_count, 0);
    };
    check(&engine);
    drop(engine);
    // After a kill the records are read from the log.
    let (engine, report) = open(directory.path(), windowed);
    assert!(!report.clean && report.damage_count == 0, "{report:?}");
    check(&engine);
}

#[test]
fn a_large_value_that_the_disk_has_no_room_for_leaves_the_old_one() {
    let store = Faulty::new(1 << 24);
    let (old, new) = (Bytes::from(vec![1; 100_000]), Bytes::from(vec![2; 100_000]));
    put_large(store.engine(), "key", &old, 10);
    for _ in 0..8 {
        store.disk.set_faults(|faults| faults.failing_writes = 1);
        let mut change = |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>, rest: &mut Bytes| {
            out.extend_from_slice(&new[..10]);
            *rest = new.slice(10..);
            Decision::Put(RecordMeta::default())
        };
        let name = Name::new("key");
        let failed =
            store.engine().update_large(&name.at(), BeforeImage::Skip, IoMode::Wait, &mut change);
        assert!(failed.is_err(), "{failed:?}");
        assert!(value(store.engine(), "key").unwrap() == old);
    }
    put_large(store.engine(), "key", &new, 10);
    assert!(value(store.engine(), "key").unwrap() == new);
}

#[test]
fn a_fold_for_tombstones_holds_a_partition_for_some_records_only() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, _) = open(directory.path(), |_| {});
    let partition = Partition(3);
    let names: Vec<Name> = (0..20_000).map(|number| Name::new(&format!("{number}"))).collect();
    let put = |(number, name): (usize, &'_ Name)| {
        let meta = RecordMeta { tombstone: number == 9, ..RecordMeta::default() };
        let at = RecordAt { partition, ..name.at() };
        engine.batch(&[BatchWrite::Put { at, meta, value: b"v" }]).unwrap();
    };
    names.iter().enumerate().for_each(put);
    let (mut from, mut page_count, mut found) = (Some(Identity(0)), 0, 0);
    while let Some(start) = from {
        let page = engine.fold(partition, start, 100, true).unwrap();
        found += page.entries.len();
        page_count += 1;
        from = page.next;
    }
    assert_eq!(found, 1);
    assert!((4..8).contains(&page_count), "{page_count} pages");
}

#[test]
fn a_batch_with_a_value_above_the_largest_record_is_refused() {
    let store = Faulty::new(1 << 20);
    let name = Name::new("key");
    // The bytes are never written, so they take no memory.
    let value = vec![0u8; (1 << 30) + 1];
    let meta = RecordMeta::default();
    let refused = store.engine().batch(&[BatchWrite::Put { at: name.at(), meta, value: &value }]);
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
    assert_eq!(keys(store.engine()).len(), 0);
}

#[test]
fn the_front_of_a_record_with_a_very_long_name_is_no_whole_record() {
    let store = Faulty::new(1 << 20);
    for name_bytes in [20_000, 40_000, 65_000, 65_400] {
        let key = "k".repeat(name_bytes);
        put(store.engine(), &key, &[7; 3_000]);
        let mut seen = None;
        let look = &mut |before: Option<&RecordRef<'_>>, _: &mut Vec<u8>| {
            seen = before.map(|record| (record.is_whole, record.value.len()));
            Decision::Keep
        };
        let name = Name::new(&key);
        store.engine().update(&name.at(), BeforeImage::Front, IoMode::Wait, look).unwrap();
        let (is_whole, shown_bytes) = seen.unwrap();
        assert_eq!(is_whole, shown_bytes == 3_000, "{name_bytes}: {shown_bytes} bytes are shown");
    }
}

#[test]
fn the_size_of_a_record_is_known_without_a_read() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, _) = open(directory.path(), |_| {});
    let size_bytes_max = |key: &str| match engine.size_bound(&Name::new(key).at(), IoMode::NoWait) {
        SizeBound::AtMost(size_bytes) => Some(size_bytes),
        _ => None,
    };
    assert_eq!(size_bytes_max("key"), None);
    put(&engine, "key", &[b'v'; 100_000]);
    let known = size_bytes_max("key").unwrap();
    assert!((100_000..=115_000).contains(&known), "{known}");
}
