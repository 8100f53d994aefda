//! Many seeds, each in a process of its own.

use clap::Args;
use quoit_planted::PlantedFault;
use quoit_sim::Family;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Seeds that `make test` runs.
const CHECKED_SEEDS: Range<u64> = 0..500;
/// Further seeds that it runs, because of what they once found.
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
/// Seeds that it runs with clients of data types beside the others.
const DATA_TYPE_SEEDS: Range<u64> = 0..40;
/// Further seeds that it runs of some families, the first two for what one of them once found: entries of a
/// source queue that no node of the other cluster called synced, since the object had been reaped there; and
/// a deleted value that a leaving node brought back.
const FAMILY_SEEDS: [(Family, Range<u64>); 3] =
    [(Family::Clusters, 0..14), (Family::Blackouts, 40..48), (Family::WrongStarts, 0..10)];
/// Planted faults that it looks for among them.
const PLANTED_IN_FAMILIES: [(Family, PlantedFault); 9] = [
    (Family::Rights, PlantedFault::KeepsEpoch),
    (Family::Rights, PlantedFault::ForgetsSince),
    (Family::Rights, PlantedFault::RefusesUnasked),
    (Family::Expiring, PlantedFault::ForgetsExpired),
    (Family::WrongStarts, PlantedFault::ServesBeforeTime),
    (Family::WithoutExchanges, PlantedFault::DropsHints),
    (Family::Members, PlantedFault::ReadsNewestLayout),
    (Family::HungDisks, PlantedFault::AgreesUnsynced),
    (Family::LostFiles, PlantedFault::OverlooksLosses),
];
/// Seeds of which the same story is asked for twice.
const REPEATED_SEEDS: Range<u64> = 0..10;
/// Planted faults that it looks for: some of those that few seeds are enough for.
/// `cargo xtask sensitivity` measures all of them.
const PLANTED: [PlantedFault; 8] = [
    PlantedFault::CountsWritesShort,
    PlantedFault::DropsConcurrent,
    PlantedFault::KeepsReplaced,
    PlantedFault::ForgetsSyncs,
    PlantedFault::LeavesIndexBehind,
    PlantedFault::ListsShort,
    PlantedFault::AcknowledgesUnsynced,
    PlantedFault::CountsStandInsAsPrimaries,
];
/// Each of them has to be found within so many seeds.
const PLANTED_SEEDS: Range<u64> = 0..60;
/// How often a soak tells how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Seeds from the first to before the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seeds(Range<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once("..");
        let numbers = numbers.and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
        numbers.map(Self).ok_or_else(|| format!("{text:?} is no range of seeds; write 0..300"))
    }
}

/// More trouble than the runs of the test command have.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct Extremes {
    /// Let disks rot in all runs, not only in some
    #[arg(long)]
    pub(crate) rot: bool,
    /// Let runs have this trouble for certain; its names are in docs/design/simulation.md
    #[arg(long)]
    pub(crate) family: Option<Family>,
    /// Let worlds be large: up to twenty machines, 64 partitions, minutes of simulated time
    #[arg(long)]
    pub(crate) large: bool,
    /// Let clients work on data types too, in runs whose machines all know them
    #[arg(long)]
    pub(crate) data_types: bool,
}

impl Extremes {
    /// The arguments that ask for them.
    pub(crate) fn arguments(self) -> Vec<&'static str> {
        let asked =
            [(self.rot, "--rot"), (self.data_types, "--data-types"), (self.large, "--large")];
        let asked =
            asked.into_iter().filter_map(|(is_asked, argument)| is_asked.then_some(argument));
        let family = self.family.map(|family| ["--family", family.name()]);
        asked.chain(family.into_iter().flatten()).collect()
    }
}

/// Options of a soak.
#[derive(Args)]
pub(crate) struct SoakArgs {
    /// Seeds to run, the last one excluded; from 0 on until the time is up if this is left out
    #[arg(long)]
    seeds: Option<Seeds>,
    /// Begin no more seeds after so many minutes
    #[arg(long)]
    minutes: Option<u64>,
    #[command(flatten)]
    extremes: Extremes,
    /// Seeds at a time; as many as there are processors if this is left out
    #[arg(long)]
    jobs: Option<usize>,
}

/// Totals of many seeds.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: Vec<u64>,
}

/// Runs what was asked for, tells how far it is, and what failed.
pub(crate) fn soak(args: &SoakArgs) -> ExitCode {
    let seeds = args.seeds.clone().map_or(0..u64::MAX, |Seeds(seeds)| seeds);
    let minutes = args.minutes.or_else(|| args.seeds.is_none().then_some(1));
    let until = minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let began = Instant::now();
    let tally = run_all(seeds, until, args.jobs, args.extremes, Some(PROGRESS_INTERVAL));
    let seconds = began.elapsed().as_secs_f64();
    println!("{} seeds in {seconds:.0} s", tally.passed + tally.failed.len() as u64);
    finish(tally.passed, &tally.failed, 0)
}

/// Runs what belongs to every test of the repository.
pub(crate) fn check() -> ExitCode {
    let tally = run_all(CHECKED_SEEDS, None, None, Extremes::default(), None);
    let (mut passed, mut failed) = (tally.passed, tally.failed);
    let data_types = Extremes { data_types: true, ..Extremes::default() };
    let of_data_types = run_all(DATA_TYPE_SEEDS, None, None, data_types, None);
    passed += of_data_types.passed;
    for seed in &of_data_types.failed {
        println!("failed: cargo xtask soak --seed {seed} --data-types --trace");
    }
    let mut of_families = 0;
    for (family, seeds) in FAMILY_SEEDS {
        let extremes = Extremes { family: Some(family), ..Extremes::default() };
        let tally = run_all(seeds, None, None, extremes, None);
        passed += tally.passed;
        of_families += tally.failed.len();
        for seed in &tally.failed {
            let family = family.name();
            println!("failed: cargo xtask soak --seed {seed} --family {family} --trace");
        }
    }
    let failed_count = of_data_types.failed.len() + of_families;
    for (seed, found) in REGRESSIONS {
        let former = Extremes { family: Some(Family::Former), ..Extremes::default() };
        let output = run_seed(seed, None, former);
        if output.status.success() {
            passed += 1;
        } else {
            print!("{}", String::from_utf8_lossy(&output.stdout));
            println!("seed {seed} once found this: {found}");
            failed.push(seed);
        }
    }
    for seed in REPEATED_SEEDS {
        let run = || run_seed(seed, None, Extremes::default());
        if run().stdout == run().stdout {
            passed += 1;
        } else {
            println!("seed {seed}: the second run went another way than the first");
            failed.push(seed);
        }
    }
    let mut missed_count = 0;
    let planted = PLANTED.map(|fault| (fault, None));
    let of_families = PLANTED_IN_FAMILIES.map(|(family, fault)| (fault, Some(family)));
    for (fault, family) in planted.into_iter().chain(of_families) {
        let extremes = Extremes { family, ..Extremes::default() };
        let mut seeds = PLANTED_SEEDS;
        match seeds.find(|seed| !run_seed(*seed, Some(fault), extremes).status.success()) {
            Some(seed) => {
                println!("planted fault {}: found with seed {seed}", fault.name());
                passed += 1;
            }
            None => {
                println!("planted fault {}: not found with {PLANTED_SEEDS:?}", fault.name());
                missed_count += 1;
            }
        }
    }
    finish(passed, &failed, missed_count + failed_count)
}

fn finish(passed: u64, failed: &[u64], missed_count: usize) -> ExitCode {
    for seed in failed {
        println!("failed: cargo xtask soak --seed {seed} --trace");
    }
    let failed_count = failed.len() + missed_count;
    println!("{passed} passed, {failed_count} failed");
    if failed_count == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_all(
    seeds: Range<u64>,
    until: Option<Instant>,
    jobs: Option<usize>,
    extremes: Extremes,
    progress: Option<Duration>,
) -> Tally {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    let shared = Mutex::new((Tally::default(), Instant::now()));
    let work = || {
        while until.is_none_or(|until| Instant::now() < until) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let output = run_seed(seed, None, extremes);
            let mut shared = shared.lock().expect("a thread that panics ends the program");
            let (tally, told) = &mut *shared;
            if output.status.success() {
                tally.passed += 1;
            } else {
                print!("{}", String::from_utf8_lossy(&output.stdout));
                print!("{}", String::from_utf8_lossy(&output.stderr));
                tally.failed.push(seed);
            }
            if progress.is_some_and(|interval| told.elapsed() > interval) {
                *told = Instant::now();
                println!("{} passed, {} failed so far", tally.passed, tally.failed.len());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.unwrap_or(processors).max(1) {
            scope.spawn(work);
        }
    });
    let (mut tally, _) = shared.into_inner().expect("a thread that panics ends the program");
    tally.failed.sort_unstable();
    tally
}

/// Runs a seed in a process of its own, with a planted fault if one is given.
fn run_seed(seed: u64, planted: Option<PlantedFault>, extremes: Extremes) -> Output {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("quoit-sim"));
    let mut command = Command::new(program);
    command.arg("run").arg("--seed").arg(seed.to_string());
    command.args(extremes.arguments());
    if let Some(fault) = planted {
        command.arg("--planted").arg(fault.name());
    }
    command.output().expect("the program can start itself")
}
