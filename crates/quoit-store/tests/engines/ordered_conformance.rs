//! Runs the conformance tests on the engines on ordered stores.

use crate::conformance;
use crate::conformance::{Identities, START_SECS, Subject, ring_size};
use quoit_seam::{Disk, FaultyDisk, ManualClock, ManualExecution, RealDisk};
use quoit_store::engine::{Engine, Maintenance};
use quoit_store::ordered::{
    LsmSettings, MAINTENANCE_WORKER, OrderedEngine, OrderedSettings, TreeSettings, WRITE_WORKER,
};
use std::sync::Arc;

#[derive(Clone, Copy)]
enum OrderedChoice {
    Leveldb,
    Leveled,
    Innostore,
}

struct Ordered {
    which: OrderedChoice,
    disk: Arc<dyn Disk>,
    clock: Arc<ManualClock>,
    execution: ManualExecution,
    engine: Option<OrderedEngine>,
    /// True if the next restart closes the engine cleanly.
    closes: bool,
    open_count: usize,
    /// Directory for the engines that need real files.
    directory: tempfile::TempDir,
}

impl Ordered {
    fn new(which: OrderedChoice) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::on(which, Arc::new(FaultyDisk::new(1)), directory)
    }

    fn on_disk(which: OrderedChoice) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        Self::on(which, Arc::new(disk), directory)
    }

    fn on(which: OrderedChoice, disk: Arc<dyn Disk>, directory: tempfile::TempDir) -> Self {
        let mut made = Self {
            which,
            disk,
            clock: Arc::new(ManualClock::at(u64::from(START_SECS) * 1_000_000)),
            execution: ManualExecution::default(),
            engine: None,
            closes: true,
            open_count: 0,
            directory,
        };
        made.open();
        made
    }

    fn open(&mut self) {
        // Room for all records, for some, or for none. Results must not depend on the cache.
        let record_cache_bytes = [64 << 20, 2_000, 0][self.open_count % 3];
        self.open_count += 1;
        let settings = OrderedSettings {
            ring_size: ring_size(),
            record_cache_bytes,
            ..OrderedSettings::new(1)
        };
        let of_trees = LsmSettings { cache_bytes: 1 << 20, ..LsmSettings::default() };
        let clock = Arc::clone(&self.clock);
        let (path, execution) = (self.directory.path(), &self.execution);
        let opened = match self.which {
            OrderedChoice::Leveldb => {
                OrderedEngine::open_leveldb(path, clock, execution, settings, of_trees)
            }
            OrderedChoice::Leveled => {
                OrderedEngine::open_leveled(path, clock, execution, settings, of_trees)
            }
            OrderedChoice::Innostore => {
                let of_tree = TreeSettings { cache_bytes: 1 << 20, ..Default::default() };
                OrderedEngine::open_innostore(&self.disk, clock, execution, settings, of_tree)
            }
        };
        self.engine = Some(opened.unwrap().0);
    }
}

impl Subject for Ordered {
    fn engine(&self) -> &dyn Engine {
        self.engine.as_ref().unwrap()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn restart(&mut self) {
        let engine = self.engine.take().unwrap();
        if self.closes {
            engine.close().unwrap();
        } else {
            // Otherwise writes in memory would be lost with the process.
            engine.sync().unwrap();
        }
        self.closes = !self.closes;
        drop(engine);
        self.open();
    }

    fn maintain(&mut self) {
        self.execution.step(MAINTENANCE_WORKER);
        self.execution.step(WRITE_WORKER);
    }
}

#[test]
fn innostore_behaves_like_the_model() {
    let make = || Ordered::new(OrderedChoice::Innostore);
    conformance::behaves_like_the_model(60, Identities::Hashed, make);
}

#[test]
fn innostore_behaves_like_the_model_where_hashes_collide() {
    let make = || Ordered::new(OrderedChoice::Innostore);
    conformance::behaves_like_the_model(60, Identities::Shared, make);
}

#[test]
fn leveldb_behaves_like_the_model() {
    let make = || Ordered::new(OrderedChoice::Leveldb);
    conformance::behaves_like_the_model(12, Identities::Hashed, make);
}

#[test]
fn leveldb_behaves_like_the_model_where_hashes_collide() {
    let make = || Ordered::new(OrderedChoice::Leveldb);
    conformance::behaves_like_the_model(12, Identities::Shared, make);
}

#[test]
fn leveled_behaves_like_the_model() {
    let make = || Ordered::new(OrderedChoice::Leveled);
    conformance::behaves_like_the_model(12, Identities::Hashed, make);
}

#[test]
fn leveled_behaves_like_the_model_where_hashes_collide() {
    let make = || Ordered::new(OrderedChoice::Leveled);
    conformance::behaves_like_the_model(12, Identities::Shared, make);
}

#[test]
fn writes_of_index_entries_are_counted() {
    for which in [OrderedChoice::Leveldb, OrderedChoice::Leveled, OrderedChoice::Innostore] {
        conformance::writes_of_entries_are_counted(&mut Ordered::on_disk(which));
    }
}

#[test]
fn concurrent_updates_are_not_lost() {
    for which in [OrderedChoice::Leveldb, OrderedChoice::Leveled, OrderedChoice::Innostore] {
        conformance::concurrent_updates_are_not_lost(&Ordered::on_disk(which));
    }
}

#[test]
fn buckets_of_one_key_are_listed_beside_others() {
    for which in [OrderedChoice::Leveldb, OrderedChoice::Leveled, OrderedChoice::Innostore] {
        conformance::buckets_of_one_key_are_listed_beside_others(&Ordered::on_disk(which));
    }
}

#[test]
fn folds_beside_writes_are_right() {
    for which in [OrderedChoice::Leveldb, OrderedChoice::Leveled, OrderedChoice::Innostore] {
        conformance::folds_beside_writes_are_right(&mut Ordered::on_disk(which));
    }
}
