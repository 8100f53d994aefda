//! `leveldb` and `leveled` on a store that is behind with flushes and merges, which its own threads don't
//! do.

use crate::support::ordered::open_ordered;
use crate::support::{try_put, value};
use fjall::compaction::Leveled;
use fjall::{Database, KeyspaceCreateOptions};
use quoit_seam::{Execution, SystemClock, Threads, Worker, WorkerHandle};
use quoit_store::engine::{Maintenance, RecordMeta};
use quoit_store::error::StoreError;
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedSettings};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Writes are accepted with at most 18 level-0 tables. The first table may leave level 0 at once.
const TABLE_COUNT: u8 = 24;

/// Time that the engine may take to catch up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Execution that runs no worker at all.
struct NoWorkers;

impl Execution for NoWorkers {
    fn start(&self, _: &'static str, _: Arc<dyn Worker>) -> Arc<dyn WorkerHandle> {
        Arc::new(IdleHandle)
    }
}

struct IdleHandle;

impl WorkerHandle for IdleHandle {
    fn wake(&self) {}
    fn stop(&self) {}
}

fn open(engine: &str, directory: &Path, execution: &dyn Execution) -> OrderedEngine {
    let clock = Arc::new(SystemClock::default());
    let of_trees = LsmSettings { disk_free_bytes_min: 0, ..LsmSettings::default() };
    open_ordered(engine, directory, clock, execution, OrderedSettings::new(7), of_trees).unwrap().0
}

/// Creates a store with many level-0 tables, in a keyspace that `fjall` doesn't merge by itself.
fn behind(directory: &Path) {
    let database = Database::builder(directory.join("lsm")).open().unwrap();
    let never = || {
        let never = Arc::new(Leveled::default().with_l0_threshold(u8::MAX));
        KeyspaceCreateOptions::default().compaction_strategy(never)
    };
    for other in ["records", "bodies", "names", "side"] {
        database.keyspace(other, KeyspaceCreateOptions::default).unwrap();
    }
    let indexes = database.keyspace("indexes", never).unwrap();
    for number in 0..TABLE_COUNT {
        indexes.insert([u8::MAX, number % 3], [number]).unwrap();
        indexes.rotate_memtable_and_wait().unwrap();
    }
    assert!(indexes.l0_table_count() >= 19, "{} young tables", indexes.l0_table_count());
}

#[test]
fn an_engine_does_the_work_of_a_store_that_would_stay_behind() {
    for engine in ["leveldb", "leveled"] {
        let directory = tempfile::tempdir().unwrap();
        behind(directory.path());
        let opened = open(engine, directory.path(), &Threads);
        try_put(&opened, "k", b"v", RecordMeta::default()).unwrap();
        let began = Instant::now();
        while let Err(error) = opened.sync() {
            assert!(matches!(error, StoreError::Overloaded), "{error}");
            assert!(began.elapsed() < PATIENCE, "{engine} stays behind");
            std::thread::yield_now();
        }
        opened.close().unwrap();
        drop(opened);
        assert_eq!(value(&open(engine, directory.path(), &Threads), "k").unwrap(), b"v");
    }
}

#[test]
fn closing_keeps_what_was_written_to_a_store_that_is_behind() {
    for engine in ["leveldb", "leveled"] {
        let directory = tempfile::tempdir().unwrap();
        behind(directory.path());
        let opened = open(engine, directory.path(), &NoWorkers);
        try_put(&opened, "k", b"v", RecordMeta::default()).unwrap();
        assert!(matches!(opened.sync(), Err(StoreError::Overloaded)));
        opened.close().unwrap();
        drop(opened);
        assert_eq!(value(&open(engine, directory.path(), &Threads), "k").unwrap(), b"v");
    }
}
