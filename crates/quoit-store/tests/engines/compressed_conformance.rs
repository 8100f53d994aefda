//! Runs the conformance tests on each engine behind compression, which is switched on and off meanwhile.

use crate::conformance;
use crate::conformance::{Identities, START_SECS, Subject, ring_size};
use quoit_model::key::BucketRef;
use quoit_seam::{FaultyDisk, ManualClock, ManualExecution, NextStep};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, MergeSettings, SNAPSHOT_WORKER};
use quoit_store::compressed::{CompressedEngine, CompressionChoice};
use quoit_store::engine::{Engine, Maintenance};
use quoit_store::memory::{MemoryEngine, MemorySettings};
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedSettings, TreeSettings};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, PartialEq, Eq)]
enum EngineChoice {
    Bitcask,
    Innostore,
    Leveldb,
    Leveled,
    Memory,
}

/// Compresses the values of some buckets. The selection changes with each turn.
#[derive(Default)]
struct Changing(AtomicU64);

impl CompressionChoice for Changing {
    fn compresses(&self, bucket: BucketRef<'_>) -> bool {
        let turn = self.0.load(Ordering::Relaxed);
        !(turn + bucket.bucket.len() as u64).is_multiple_of(3)
    }
}

struct Compressed {
    which: EngineChoice,
    disk: FaultyDisk,
    directory: tempfile::TempDir,
    clock: Arc<ManualClock>,
    execution: ManualExecution,
    choice: Arc<Changing>,
    engine: Option<CompressedEngine>,
}

impl Compressed {
    fn new(which: EngineChoice) -> Self {
        let disk = FaultyDisk::new(1);
        if which == EngineChoice::Bitcask {
            disk.set_faults(|faults| faults.would_block_one_in = 3);
        }
        let mut made = Self {
            which,
            disk,
            directory: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::at(u64::from(START_SECS) * 1_000_000)),
            execution: ManualExecution::default(),
            choice: Arc::default(),
            engine: None,
        };
        made.open();
        made
    }

    fn open(&mut self) {
        let clock = Arc::clone(&self.clock);
        let (path, execution) = (self.directory.path(), &self.execution);
        let ordered = OrderedSettings { ring_size: ring_size(), ..OrderedSettings::new(1) };
        let of_trees = LsmSettings { cache_bytes: 1 << 20, ..LsmSettings::default() };
        let engine: Arc<dyn Engine> = match self.which {
            EngineChoice::Bitcask => {
                let settings = BitcaskSettings {
                    ring_size: ring_size(),
                    max_file_size_bytes: 2_000,
                    snapshot_interval_bytes: 3_000,
                    merge: MergeSettings {
                        frag_merge_trigger_percent: 40,
                        small_file_threshold_bytes: 500,
                        ..MergeSettings::default()
                    },
                    ..BitcaskSettings::new(1)
                };
                let disk = Arc::new(self.disk.clone());
                Arc::new(BitcaskEngine::open(disk, clock, execution, settings).unwrap().0)
            }
            EngineChoice::Innostore => {
                let disk: Arc<dyn quoit_seam::Disk> = Arc::new(self.disk.clone());
                let of_tree = TreeSettings { cache_bytes: 1 << 20, ..Default::default() };
                let opened =
                    OrderedEngine::open_innostore(&disk, clock, execution, ordered, of_tree);
                Arc::new(opened.unwrap().0)
            }
            EngineChoice::Leveldb => {
                let opened = OrderedEngine::open_leveldb(path, clock, execution, ordered, of_trees);
                Arc::new(opened.unwrap().0)
            }
            EngineChoice::Leveled => {
                let opened = OrderedEngine::open_leveled(path, clock, execution, ordered, of_trees);
                Arc::new(opened.unwrap().0)
            }
            EngineChoice::Memory => {
                Arc::new(MemoryEngine::new(MemorySettings::default(), ring_size(), clock))
            }
        };
        let choice: Arc<dyn CompressionChoice> = Arc::clone(&self.choice) as _;
        self.engine = Some(CompressedEngine::new(engine, choice));
    }
}

impl Subject for Compressed {
    fn engine(&self) -> &dyn Engine {
        self.engine.as_ref().unwrap()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn rebuild_indexes(&self) {
        if self.which == EngineChoice::Bitcask {
            while self.execution.step(SNAPSHOT_WORKER) == Some(NextStep::Again) {}
        }
    }

    fn restart(&mut self) {
        if self.which == EngineChoice::Memory {
            return;
        }
        self.engine.take().unwrap().close().unwrap();
        self.open();
    }

    fn maintain(&mut self) {
        self.choice.0.fetch_add(1, Ordering::Relaxed);
        for name in self.execution.names() {
            self.execution.step(name);
        }
    }
}

fn check(which: EngineChoice, cases: u32) {
    for identities in [Identities::Hashed, Identities::Shared] {
        conformance::behaves_like_the_model(cases, identities, || Compressed::new(which));
    }
}

#[test]
fn bitcask_behaves_like_the_model_behind_compression() {
    check(EngineChoice::Bitcask, 100);
}

#[test]
fn innostore_behaves_like_the_model_behind_compression() {
    check(EngineChoice::Innostore, 30);
}

#[test]
fn leveldb_behaves_like_the_model_behind_compression() {
    check(EngineChoice::Leveldb, 6);
}

#[test]
fn leveled_behaves_like_the_model_behind_compression() {
    check(EngineChoice::Leveled, 6);
}

#[test]
fn the_memory_engine_behaves_like_the_model_behind_compression() {
    check(EngineChoice::Memory, 100);
}

#[test]
fn writes_of_index_entries_are_counted() {
    conformance::writes_of_entries_are_counted(&mut Compressed::new(EngineChoice::Memory));
}

#[test]
fn concurrent_updates_are_not_lost() {
    conformance::concurrent_updates_are_not_lost(&Compressed::new(EngineChoice::Memory));
}

#[test]
fn buckets_of_one_key_are_listed_beside_others() {
    for which in [EngineChoice::Bitcask, EngineChoice::Leveled] {
        conformance::buckets_of_one_key_are_listed_beside_others(&Compressed::new(which));
    }
}

#[test]
fn folds_beside_writes_are_right() {
    for which in [EngineChoice::Bitcask, EngineChoice::Memory, EngineChoice::Innostore] {
        conformance::folds_beside_writes_are_right(&mut Compressed::new(which));
    }
}
