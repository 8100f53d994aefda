//! Runs the conformance tests on the Bitcask engine.

use crate::conformance;
use crate::conformance::{Identities, START_SECS, Subject, ring_size};
use quoit_seam::{Disk, FaultyDisk, ManualClock, ManualExecution, NextStep, RealDisk};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, MergeSettings, SNAPSHOT_WORKER};
use quoit_store::engine::{Engine, Maintenance};
use std::sync::Arc;

struct Bitcask {
    disk: Arc<dyn Disk>,
    clock: Arc<ManualClock>,
    execution: ManualExecution,
    engine: Option<BitcaskEngine>,
    /// True if restarts close the engine cleanly.
    closes: bool,
    /// Keeps the directory until the subject is dropped.
    _directory: Option<tempfile::TempDir>,
}

impl Bitcask {
    fn on(disk: Arc<dyn Disk>, directory: Option<tempfile::TempDir>) -> Self {
        let mut made = Self {
            disk,
            clock: Arc::new(ManualClock::at(u64::from(START_SECS) * 1_000_000)),
            execution: ManualExecution::default(),
            engine: None,
            closes: false,
            _directory: directory,
        };
        made.open();
        made
    }

    fn in_memory() -> Self {
        let disk = FaultyDisk::new(1);
        disk.set_faults(|faults| faults.would_block_one_in = 3);
        Self::on(Arc::new(disk), None)
    }

    fn on_disk() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::on(Arc::new(RealDisk::open(directory.path()).unwrap()), Some(directory))
    }

    fn open(&mut self) {
        let settings = BitcaskSettings {
            ring_size: ring_size(),
            max_file_size_bytes: 2_000,
            snapshot_interval_bytes: 3_000,
            recent_writes_bytes: if self.closes { 0 } else { 1 << 20 },
            merge: MergeSettings {
                frag_merge_trigger_percent: 40,
                small_file_threshold_bytes: 500,
                ..MergeSettings::default()
            },
            ..BitcaskSettings::new(1)
        };
        let clock = Arc::clone(&self.clock);
        let disk = Arc::clone(&self.disk);
        let opened = BitcaskEngine::open(disk, clock, &self.execution, settings);
        let (engine, report) = opened.unwrap();
        assert!(report.damages.is_empty() && report.foreign_files.is_empty(), "{report:?}");
        self.engine = Some(engine);
    }
}

impl Subject for Bitcask {
    fn engine(&self) -> &dyn Engine {
        self.engine.as_ref().unwrap()
    }

    fn rebuild_indexes(&self) {
        while self.execution.step(SNAPSHOT_WORKER) == Some(NextStep::Again) {}
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn restart(&mut self) {
        self.closes = !self.closes;
        let engine = self.engine.take().unwrap();
        if self.closes {
            engine.close().unwrap();
        }
        drop(engine);
        self.open();
    }

    fn maintain(&mut self) {
        for name in self.execution.names() {
            self.execution.step(name);
        }
    }
}

#[test]
fn behaves_like_the_model() {
    conformance::behaves_like_the_model(200, Identities::Hashed, Bitcask::in_memory);
}

#[test]
fn behaves_like_the_model_where_hashes_collide() {
    conformance::behaves_like_the_model(200, Identities::Shared, Bitcask::in_memory);
}

#[test]
fn behaves_like_the_model_on_a_real_disk() {
    conformance::behaves_like_the_model(20, Identities::Hashed, Bitcask::on_disk);
}

#[test]
fn writes_of_index_entries_are_counted() {
    conformance::writes_of_entries_are_counted(&mut Bitcask::on_disk());
}

#[test]
fn concurrent_updates_are_not_lost() {
    conformance::concurrent_updates_are_not_lost(&Bitcask::on_disk());
}

#[test]
fn buckets_of_one_key_are_listed_beside_others() {
    conformance::buckets_of_one_key_are_listed_beside_others(&Bitcask::in_memory());
}

#[test]
fn folds_beside_writes_are_right() {
    conformance::folds_beside_writes_are_right(&mut Bitcask::in_memory());
}
