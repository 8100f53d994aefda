//! Maintenance of the engines on ordered stores removes expired records and dropped partitions, however slow
//! the disk is.

use crate::support::indexes::{query_all, try_put_indexed};
use crate::support::ordered::open_ordered;
use crate::support::{check_sums, expired, keys, put, try_put};
use quoit_model::hash::{Partition, RingSize};
use quoit_seam::{ManualClock, ManualExecution, NextStep};
use quoit_store::engine::{Maintenance, RecordMeta};
use quoit_store::ordered::{
    LsmSettings, MAINTENANCE_WORKER, OrderedEngine, OrderedSettings, WRITE_WORKER,
};
use std::sync::Arc;

const ENGINES: [&str; 3] = ["leveldb", "leveled", "innostore"];

const START_SECS: u32 = 1_700_000_000;

const RECORD_COUNT: u64 = 1_500;

/// More steps than the removals take. Each step removes some hundreds of records.
const STEP_COUNT_MAX: u32 = 100;

/// Longest pause of the worker while it has more to do.
const SOON_US: u64 = 100_000;

/// An engine's directory, clock and workers.
struct World {
    directory: tempfile::TempDir,
    clock: Arc<ManualClock>,
    execution: ManualExecution,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(u64::from(START_SECS) * 1_000_000));
        Self { directory, clock, execution: ManualExecution::default() }
    }

    fn open(&self, engine: &str) -> OrderedEngine {
        let (settings, of_trees) = (OrderedSettings::new(7), LsmSettings::default());
        let (path, clock) = (self.directory.path(), Arc::clone(&self.clock));
        open_ordered(engine, path, clock, &self.execution, settings, of_trees).unwrap().0
    }
}

/// Runs maintenance until it reports that there is nothing more to do for now. Only every third step is
/// followed by a commit of the removals.
fn tidy_up(execution: &ManualExecution) {
    for step in 0..STEP_COUNT_MAX {
        match execution.step(MAINTENANCE_WORKER) {
            Some(NextStep::AfterUs(pause_us)) if pause_us > SOON_US => return,
            Some(NextStep::AfterUs(_)) => {}
            other => panic!("{other:?}"),
        }
        if step % 3 == 2 {
            execution.step(WRITE_WORKER);
        }
    }
    panic!("there is more to do after {STEP_COUNT_MAX} steps");
}

#[test]
fn what_has_expired_goes_without_a_rest() {
    for engine in ENGINES {
        let world = World::new();
        let opened = world.open(engine);
        for number in 0..RECORD_COUNT {
            let expires_at_secs = START_SECS + 1 + (number % 20) as u32;
            let meta = RecordMeta { expires_at_secs, ..RecordMeta::default() };
            try_put(&opened, &format!("key{number}"), b"value", meta).unwrap();
        }
        put(&opened, "lasting", b"value");
        opened.sync().unwrap();
        world.clock.advance_us(30_000_000);
        assert_eq!(opened.stats().key_count, RECORD_COUNT + 1);
        tidy_up(&world.execution);
        assert_eq!(opened.stats().key_count, 1, "{engine}");
        assert_eq!(keys(&opened), ["lasting"]);
        check_sums(&opened);
    }
}

#[test]
fn an_expired_overwrite_leaves_a_tombstone() {
    for engine in ENGINES {
        let world = World::new();
        let opened = world.open(engine);
        let tidy_up = || tidy_up(&world.execution);
        expired::an_expired_overwrite_leaves_a_tombstone(&opened, &world.clock, tidy_up);
        check_sums(&opened);
    }
}

#[test]
fn what_was_dropped_goes_without_a_rest() {
    for engine in ENGINES {
        let world = World::new();
        let opened = world.open(engine);
        for number in 0..RECORD_COUNT {
            try_put_indexed(&opened, &format!("key{number}"), number).unwrap();
        }
        opened.sync().unwrap();
        let partitions = (0..RingSize::DEFAULT.get()).map(Partition);
        partitions.for_each(|partition| {
            opened.drop_partition(partition).unwrap();
        });
        assert_eq!(query_all(&opened).unwrap(), []);
        tidy_up(&world.execution);
        opened.close().unwrap();
        drop(opened);
        // If records had been left, maintenance would have more to do.
        let opened = world.open(engine);
        let next = world.execution.step(MAINTENANCE_WORKER);
        assert!(matches!(next, Some(NextStep::AfterUs(us)) if us > SOON_US), "{engine}: {next:?}");
        assert_eq!(keys(&opened), Vec::<String>::new());
        check_sums(&opened);
    }
}
