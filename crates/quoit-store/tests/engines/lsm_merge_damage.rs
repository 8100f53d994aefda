//! A merge of `leveldb` meets a damaged block: the engine names the file, and a salvaged store accepts
//! writes.

use crate::support::ordered::open_ordered;
use crate::support::{get, mix, try_put};
use quoit_model::hash::RingSize;
use quoit_seam::{SystemClock, Threads};
use quoit_store::engine::{Engine, Maintenance, RecordMeta, WriteFailure};
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedSettings, salvage};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time that the engine may take to meet the damage, and to locate it.
const PATIENCE: Duration = Duration::from_secs(120);

const RECORD_COUNT: u64 = 400;

fn open(directory: &Path) -> OrderedEngine {
    let clock = Arc::new(SystemClock::default());
    let of_trees = LsmSettings {
        disk_free_bytes_min: 0,
        write_buffer_bytes: 16 << 10,
        block_bytes: 1 << 10,
        ..LsmSettings::default()
    };
    let settings = OrderedSettings { record_cache_bytes: 0, ..OrderedSettings::new(7) };
    open_ordered("leveldb", directory, clock, &Threads, settings, of_trees).unwrap().0
}

fn key(number: u64) -> String {
    format!("key{number}")
}

/// Bytes that can't be compressed.
fn value_of(number: u64) -> Vec<u8> {
    (0..25).flat_map(|word| mix(number << 8 | word).to_le_bytes()).collect()
}

fn write(engine: &dyn Engine, number: u64) -> bool {
    let put = try_put(engine, &key(number), &value_of(number), RecordMeta::default());
    put.is_ok() && (!number.is_multiple_of(20) || engine.sync().is_ok())
}

/// Writes until the engine reports a damaged file as the reason why it accepts no more writes.
fn failure_of(engine: &dyn Engine) -> WriteFailure {
    let began = Instant::now();
    let mut number = RECORD_COUNT;
    while began.elapsed() < PATIENCE {
        match engine.stats().write_failure {
            Some(failure) if failure.is_damage => return failure,
            // The maintenance worker is locating the damaged file.
            Some(_) => std::thread::yield_now(),
            None => {
                number += 1;
                write(engine, number);
            }
        }
    }
    panic!("no failure is told: {:?}", engine.stats().write_failure);
}

#[test]
fn a_merge_that_meets_damage_is_told_with_the_file_and_salvage_is_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    assert!((0..RECORD_COUNT).all(|number| write(&engine, number)));
    assert_eq!(engine.stats().write_failure, None);
    engine.close().unwrap();
    drop(engine);
    let tables = directory.path().join("lsm/keyspaces/1/tables");
    let mut table_count = 0;
    for entry in std::fs::read_dir(&tables).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        // In the first block, after its header.
        bytes[50] ^= 1;
        std::fs::write(path, bytes).unwrap();
        table_count += 1;
    }
    assert!(table_count > 0);
    let engine = open(directory.path());
    let failure = failure_of(&engine);
    assert!(failure.reason.contains(&tables.display().to_string()), "{failure:?}");
    assert_eq!(failure.directory, directory.path().display().to_string());
    drop(engine);

    let salvaged = tempfile::tempdir().unwrap();
    let target = open(salvaged.path());
    let done = salvage(directory.path(), &target, RingSize::DEFAULT, &mut |_| Ok(())).unwrap();
    assert!(!done.is_whole && done.unread_count > 0, "{done:?}");
    assert!(done.record_count > RECORD_COUNT / 2, "{done:?}");
    for number in 0..RECORD_COUNT {
        let found = get(&target, &key(number)).unwrap();
        assert!(found.is_none_or(|found| found == value_of(number)));
    }
    assert!((0..RECORD_COUNT).all(|number| write(&target, number)), "writes go on");
    target.close().unwrap();
}
