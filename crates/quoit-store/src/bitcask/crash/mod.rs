//! Randomized crash tests: a random workload on a faulty disk, with restarts at bad moments. Each run is
//! determined by its seed.
//!
//! `QUOIT_CRASH_SEED=n` runs only seed `n`; `QUOIT_CRASH_SEEDS=n` runs `n` seeds.

mod digests;
mod indexes;
mod model;
mod world;

use super::planted::plant;
use super::{BitcaskSettings, MergeSettings};
use quoit_planted::PlantedFault;
use world::{Plan, World};

/// Number of seeds of a test run.
const SEEDS: u64 = 1_000;

fn plan() -> Plan {
    let settings = BitcaskSettings {
        max_file_size_bytes: 3_000,
        key_buffer_bytes: 8_000,
        entry_buffer_bytes: 2_000,
        snapshot_interval_bytes: 2_000,
        merge: MergeSettings { small_file_threshold_bytes: 500, ..MergeSettings::default() },
        ..BitcaskSettings::new(0xfeed)
    };
    Plan {
        rounds: 4,
        operations_max: 60,
        faults: false,
        settings,
        forget_syncs: false,
        indexes: false,
    }
}

fn run_all(plan: &Plan) {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let seeds = match number("QUOIT_CRASH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("QUOIT_CRASH_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        if let Err(violation) = World::run(seed, plan) {
            panic!("QUOIT_CRASH_SEED={seed}: {violation}");
        }
    }
}

#[test]
fn what_was_acknowledged_survives_crashes() {
    run_all(&plan());
}

#[test]
fn what_was_acknowledged_survives_crashes_of_a_failing_disk() {
    run_all(&Plan { faults: true, ..plan() });
}

/// Maximum number of seeds to search for a planted bug. Most bugs are found within ten seeds. Accepting
/// torn batches takes more, because the gap that a torn batch leaves usually discards it anyway.
const PLANTED_SEEDS: u64 = 5_000;

/// True if one of the seeds fails.
fn is_found(plan: &Plan) -> bool {
    (0..PLANTED_SEEDS).any(|seed| {
        let run = std::panic::AssertUnwindSafe(|| World::run(seed, plan));
        !matches!(std::panic::catch_unwind(run), Ok(Ok(())))
    })
}

#[test]
fn a_forgotten_sync_is_found() {
    assert!(is_found(&Plan { forget_syncs: true, ..plan() }));
}

#[test]
fn planted_bugs_are_found() {
    for bug in [
        PlantedFault::AcceptsTornBatches,
        PlantedFault::ForgetsRemovals,
        PlantedFault::LeavesIndexBehind,
        PlantedFault::RetiresTooEarly,
        PlantedFault::SnapshotsUnsynced,
        PlantedFault::IgnoresGaps,
        PlantedFault::ForgetsYoungSegments,
        PlantedFault::MovesEntriesUnsynced,
        PlantedFault::ForgetsEntries,
    ] {
        plant(Some(bug));
        let found = is_found(&plan());
        plant(None);
        assert!(found, "{bug:?} was not found");
    }
}
