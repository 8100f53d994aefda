//! The checks that the test command runs with the simulator.

use crate::many_runs::{FaultOptions, Run, RunOutcome, Tally, print_output, run_in_parallel};
use crate::planted_families::family_that_fits;
use quoit_planted::PlantedFault;
use quoit_sim::Family;
use std::ops::Range;
use std::process::{ExitCode, Output};
use std::sync::Mutex;

/// Seeds of the mix of families.
const CHECKED_SEEDS: Range<u64> = 0..1000;
/// Further seeds, of the family `former`, with the fault that each of them once found.
const REGRESSIONS: [(u64, &str); 23] = [
    (
        4433,
        "a delete without a context was done while only stand-ins had the value, which then came back",
    ),
    (539, "transfers that waited by a low rate went on waiting when it was raised"),
    (930, "a walk for strays waited by a low rate when it was raised"),
    (964, "the last node of a cluster did not reap what the others were to reap"),
    (779, "a tombstone whose removal went with a machine's power stayed"),
    (613, "a listing missed what a reaped tombstone of a clock ahead kept out"),
    (
        668,
        "two replicas had a value that the third kept out by a reaped tombstone of a clock ahead",
    ),
    (960, "the same, with the coordinator's clock behind"),
    (
        830,
        "a lost member of an older version was to be replaced by a node that brought what is new",
    ),
    (1648, "the same"),
    (859, "a node that activated a data type while it joined sent the old members away"),
    (1816, "a node that was away did not let in the leader, which had joined meanwhile"),
    (3054, "the same, after a stall"),
    (1770, "a write that one node had counted twice was held to two copies when its disk rotted"),
    (
        1997,
        "a record with a damaged name was taken for absent, and what it had was claimed as seen",
    ),
    (2612, "a listing failed where names and records were damaged that other nodes had"),
    (3619, "who is up was asked from outside of the machine, whose clock is another one"),
    (3621, "primaries with different tombstones of one key never came together"),
    (
        4000,
        "a node that was away did not know the way to the only voter, which had joined meanwhile",
    ),
    (
        4451,
        "a listing missed what a reaped tombstone of a clock ahead kept out while a disk rotted",
    ),
    (8835, "a listing missed records whose bucket got fewer replicas while it ran"),
    (11595, "a node that took another one's places did not get what that one had missed"),
    (
        16984,
        "a loss of power while a snapshot was written left a node that had the log without its front",
    ),
];
/// Further seeds of the mix, with the fault that each of them once found.
const MIX_REGRESSIONS: [(u64, &str); 2] = [
    (22044, "no node counted as missing for a read that was sent to a node before it served"),
    (
        22214,
        "a listing showed a key whose only copy was damaged, and the check took it for a fault",
    ),
];
/// Seeds that run with clients of data types.
const DATA_TYPE_SEEDS: Range<u64> = 0..40;
/// Further seeds of some families. One seed of `clusters` once found entries of a source queue that the
/// other cluster never confirmed as synced, because it had reaped the object. One seed of `blackouts`
/// once found a deleted value that a leaving node brought back, and one a start that kept records behind a
/// gap in the log.
const FAMILY_SEEDS: [(Family, Range<u64>); 8] = [
    (Family::Clusters, 0..14),
    (Family::Blackouts, 40..48),
    (Family::Blackouts, 263..264),
    (Family::WrongStarts, 0..10),
    (Family::WipedDirectories, 0..10),
    (Family::MarkedDown, 0..10),
    (Family::LostFilesAndMembers, 0..10),
    (Family::ForgottenGrants, 0..10),
];
/// Planted faults that seeds of the family that fits have to find.
const PLANTED_IN_FAMILIES: [PlantedFault; 21] = [
    PlantedFault::KeepsEpoch,
    PlantedFault::ForgetsSince,
    PlantedFault::RefusesUnasked,
    PlantedFault::ForgetsExpired,
    PlantedFault::KeepsFirstExpiry,
    PlantedFault::ServesBeforeTime,
    PlantedFault::DropsHints,
    PlantedFault::ReadsNewestLayout,
    PlantedFault::RemovesOwnCopies,
    PlantedFault::TakesReplacedGrants,
    PlantedFault::AgreesUnsynced,
    PlantedFault::OverlooksLosses,
    PlantedFault::KeepsActorAfterLoss,
    PlantedFault::CompletesWithoutTombstones,
    PlantedFault::ForgetsYoungSegments,
    PlantedFault::CountsWritesDuringSync,
    PlantedFault::HearsLossySources,
    PlantedFault::CoordinatesUnaware,
    PlantedFault::ServesAstray,
    PlantedFault::ServesUnanswered,
    PlantedFault::TakesStaleLayouts,
];
/// Seeds that run twice and have to give the same output.
const REPEATED_SEEDS: Range<u64> = 0..10;
/// Planted faults that seeds of the mix have to find: some for which few seeds are enough. `cargo xtask
/// sensitivity` measures all planted faults.
const PLANTED: [PlantedFault; 8] = [
    PlantedFault::CountsWritesShort,
    PlantedFault::DropsConcurrent,
    PlantedFault::KeepsReplaced,
    PlantedFault::ForgetsSyncs,
    PlantedFault::LeavesIndexBehind,
    PlantedFault::ListsShort,
    PlantedFault::AcknowledgesUnsynced,
    PlantedFault::CountsFallbacksAsPrimaries,
];
/// Seeds of which one has to find each planted fault.
const PLANTED_SEEDS: Range<u64> = 0..60;

/// A check of the test command.
#[derive(Clone, Copy)]
enum Check {
    /// The run passes.
    Passes(Run),
    /// The run passes, although it once found a fault.
    PassesAgain(Run, &'static str),
    /// A second run of the seed has the same output as the first.
    Repeats(Run),
    /// One of [`PLANTED_SEEDS`] finds the planted fault, in runs of the family if one is given.
    Finds(PlantedFault, Option<Family>),
}

impl Check {
    /// Returns all checks, the longest first, so that no processor waits for a last long one.
    fn all() -> impl Iterator<Item = Self> {
        let of_mix = |seed| Run { seed, fault_options: FaultOptions::default() };
        let in_families = PLANTED_IN_FAMILIES.map(|fault| (fault, family_that_fits(fault)));
        let planted = PLANTED.map(|fault| (fault, None)).into_iter().chain(in_families);
        let finds = planted.map(|(fault, family)| Self::Finds(fault, family));
        let former = FaultOptions { family: Some(Family::Former), ..FaultOptions::default() };
        let again = REGRESSIONS.into_iter().map(move |(seed, found)| {
            Self::PassesAgain(Run { seed, fault_options: former }, found)
        });
        let of_mix_again = MIX_REGRESSIONS.into_iter();
        let of_mix_again =
            of_mix_again.map(move |(seed, found)| Self::PassesAgain(of_mix(seed), found));
        let of_families = FAMILY_SEEDS.into_iter().flat_map(|(family, seeds)| {
            let fault_options = FaultOptions { family: Some(family), ..FaultOptions::default() };
            seeds.map(move |seed| Self::Passes(Run { seed, fault_options }))
        });
        let data_types = FaultOptions { data_types: true, ..FaultOptions::default() };
        let of_data_types =
            DATA_TYPE_SEEDS.map(move |seed| Self::Passes(Run { seed, fault_options: data_types }));
        let repeats = REPEATED_SEEDS.map(move |seed| Self::Repeats(of_mix(seed)));
        let passes = CHECKED_SEEDS.map(move |seed| Self::Passes(of_mix(seed)));
        let again = again.chain(of_mix_again);
        finds.chain(repeats).chain(again).chain(of_families).chain(of_data_types).chain(passes)
    }

    fn run(self, tally: &Mutex<Tally>) {
        let locked = || tally.lock().expect("a thread that panics ends the program");
        match self {
            Self::Passes(run) => {
                let output = run.output(None);
                locked().count(run, &output);
            }
            Self::PassesAgain(run, found) => {
                let output = run.output(None);
                locked().count(run, &output);
                if !output.status.success() {
                    println!("seed {} once found this: {found}", run.seed);
                }
            }
            Self::Repeats(run) => {
                let outputs = [run.output(None), run.output(None)];
                locked().count_repeated(run, &outputs);
            }
            Self::Finds(fault, family) => {
                let fault_options = FaultOptions { family, ..FaultOptions::default() };
                let runs = PLANTED_SEEDS.map(|seed| Run { seed, fault_options });
                let name = fault.name();
                let found = first_finding(runs, |run| run.output(Some(fault)));
                let mut tally = locked();
                match found {
                    Ok(Run { seed, .. }) => {
                        println!("planted fault {name}: found with seed {seed}");
                        tally.passed += 1;
                    }
                    Err(text) => tally.others.push(format!("planted fault {name}: {text}")),
                }
            }
        }
    }
}

/// Returns the first run that finds a violation.
///
/// # Errors
///
/// Says that all runs have passed, or that one before has ended neither way.
fn first_finding(
    runs: impl Iterator<Item = Run>,
    output: impl Fn(Run) -> Output,
) -> Result<Run, String> {
    for run in runs {
        let output = output(run);
        match run.end(&output) {
            RunOutcome::Passed => {}
            RunOutcome::Violation => return Ok(run),
            RunOutcome::Otherwise => {
                print_output(&output);
                return Err(format!("seed {} names no violation: {}", run.seed, output.status));
            }
        }
    }
    Err(format!("not found with {PLANTED_SEEDS:?}"))
}

/// Runs all checks.
pub(crate) fn check() -> ExitCode {
    let tally = Mutex::new(Tally::default());
    run_in_parallel(Check::all(), None, |check| check.run(&tally));
    tally.into_inner().expect("a thread that panics ends the program").finish()
}

#[cfg(test)]
mod tests {
    use super::first_finding;
    use crate::many_runs::tests::{output, run};
    use crate::many_runs::{HANGS_STATUS, REFUSED_STATUS, VIOLATION_STATUS};
    use std::process::Output;

    #[test]
    fn only_a_violation_finds_a_planted_fault() {
        let passed = || output(0, "seed 0: ok\n");
        let found = |second: fn() -> Output| {
            let finding = first_finding((0..2).map(run), |run| match run.seed {
                0 => passed(),
                _ => second(),
            });
            finding.map(|run| run.seed)
        };
        assert_eq!(found(|| output(VIOLATION_STATUS, "seed 1: Lost: k1\n")), Ok(1));
        assert!(found(|| output(0, "seed 1: ok\n")).is_err());
        assert!(found(|| output(REFUSED_STATUS, "no planted faults\n")).is_err());
        assert!(found(|| output(HANGS_STATUS, "seed 1: Hangs: no end\n")).is_err());
    }
}
