//! The simulator's command line: runs one seed, or many seeds in a process each.
//!
//! Each seed needs a process of its own. The runtime numbers its tasks with counters of the whole
//! process, and these numbers decide the order of tasks that become ready at the same time. A second seed
//! in the same process would therefore not always take the same course.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![allow(clippy::print_stdout, reason = "a tool for the terminal")]

mod many_runs;
mod planted_families;
mod soak;
mod test_seeds;

use clap::{Args, Parser, Subcommand};
use many_runs::{FaultOptions, HANGS_STATUS, REFUSED_STATUS, Run, VIOLATION_STATUS};
use planted_families::family_that_fits;
use quoit_planted::PlantedFault;
use quoit_sim::{Family, Settings, run};
use std::process::ExitCode;
use std::time::Duration;
use tracing::Level;

/// Seconds after which a run counts as hung. Most runs take less than a second, and a large world takes up to
/// a minute, or more on a busy machine; a run that takes this long never ends.
const HANGS_AFTER_SECS: u64 = 300;

/// Simulates clusters under seeds, with faults, and checks the answers that clients got
#[derive(Parser)]
#[command(name = "quoit-sim")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one seed in this process
    Run(RunArgs),
    /// Run many seeds, each in a process of its own
    Soak(soak::SoakArgs),
    /// Run the seeds of the test command: the first ones, some of them twice, and planted faults
    Check,
    /// List the faults that can be planted: name, variant, part of the store, wrong decision and the family
    /// whose seeds are most likely to find it (`mix` if none is), separated by tabs
    Faults,
}

#[derive(Args)]
struct RunArgs {
    /// The seed
    #[arg(long)]
    seed: u64,
    /// Number of machines of the cluster; the seed decides if this is left out
    #[arg(long)]
    machines: Option<usize>,
    /// Plant this fault of the store; `faults` lists them
    #[arg(long)]
    planted: Option<PlantedFault>,
    /// Seconds after which the run counts as hung; most runs take less than one, large worlds up to 60
    #[arg(long, default_value_t = HANGS_AFTER_SECS)]
    hangs_after: u64,
    #[command(flatten)]
    fault_options: FaultOptions,
    /// Least severe level of the nodes' log lines in the story: warn, info, debug, trace
    #[arg(long, default_value = "info")]
    log: Level,
    /// Print the whole story, even if the run passes
    #[arg(long)]
    trace: bool,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => run_one(&args),
        Command::Soak(args) => soak::soak(&args),
        Command::Check => test_seeds::check(),
        Command::Faults => list_faults(),
    }
}

fn list_faults() -> ExitCode {
    for fault in PlantedFault::ALL {
        let (name, variant, area) = (fault.name(), fault.variant(), fault.area().name());
        let family = family_that_fits(*fault).map_or("mix", Family::name);
        println!("{name}\t{variant}\t{area}\t{}\t{family}", fault.description());
    }
    ExitCode::SUCCESS
}

fn run_one(args: &RunArgs) -> ExitCode {
    if let Some(fault) = args.planted
        && let Err(error) = quoit_planted::plant(fault)
    {
        println!("{error}");
        return ExitCode::from(REFUSED_STATUS);
    }
    let mut settings = Settings {
        machine_count: args.machines,
        is_large: args.fault_options.large,
        family: args.fault_options.family,
        with_rot: args.fault_options.rot,
        with_data_types: args.fault_options.data_types,
        log_level: args.log,
        ..Settings::default()
    };
    if args.trace {
        settings.tell = Some(|line| println!("{line}"));
    }
    let (seed, hangs_after) = (args.seed, args.hangs_after);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(hangs_after));
        println!("seed {seed}: Hangs: no end after {hangs_after} s");
        std::process::exit(HANGS_STATUS.into());
    });
    let report = run(seed, &settings);
    if !args.trace && report.verdict.is_err() {
        print!("{}", report.trace.text());
    }
    match report.verdict {
        Ok(()) => {
            println!("seed {seed}: ok, digest {:016x}", report.trace.digest());
            ExitCode::SUCCESS
        }
        Err(violation) => {
            let again = Run { seed, fault_options: args.fault_options }.again();
            println!("seed {seed}: {violation}\nagain: {again}");
            ExitCode::from(VIOLATION_STATUS)
        }
    }
}
