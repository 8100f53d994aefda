//! The simulator's command line: one seed, or many in processes of their own.
//!
//! A seed has a process of its own: the runtime orders what ends together by numbers that it counts for
//! the whole process, so that a seed which follows another one would not always go the same way.
#![allow(clippy::print_stdout, reason = "a tool for the terminal")]

mod soak;

use clap::{Args, Parser, Subcommand};
use quoit_sim::{Planted, Settings, run};
use soak::Extremes;
use std::process::ExitCode;
use std::time::Duration;
use tracing::Level;

/// A run takes less than a second, on a machine that others use as well some more; one that takes so long has
/// work that never ends.
const HANGS_AFTER: Duration = Duration::from_secs(300);

/// Runs clusters in one thread under one seed, with faults, and checks what clients were answered.
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
    /// What `make test` runs: the first seeds, some of them twice, and planted bugs
    Check,
}

#[derive(Args)]
struct RunArgs {
    /// The seed
    #[arg(long)]
    seed: u64,
    /// Machines of the cluster; some number of them, by the seed, if this is left out
    #[arg(long)]
    machines: Option<usize>,
    /// Plant this bug
    #[arg(long)]
    planted: Option<Planted>,
    #[command(flatten)]
    extremes: Extremes,
    /// What nodes log up to this level is part of the story: warn, info, debug, trace
    #[arg(long, default_value = "info")]
    log: Level,
    /// Print the whole story, also of a run in which nothing went wrong
    #[arg(long)]
    trace: bool,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => run_one(&args),
        Command::Soak(args) => soak::soak(&args),
        Command::Check => soak::check(),
    }
}

fn run_one(args: &RunArgs) -> ExitCode {
    let mut settings = Settings {
        machine_count: args.machines,
        with_rot: args.extremes.rot,
        with_data_types: args.extremes.data_types,
        planted: args.planted,
        log_level: args.log,
        ..Settings::default()
    };
    if args.trace {
        settings.tell = Some(|line| println!("{line}"));
    }
    let seed = args.seed;
    std::thread::spawn(move || {
        std::thread::sleep(HANGS_AFTER);
        println!("seed {seed}: hangs: no end after {} s", HANGS_AFTER.as_secs());
        std::process::exit(1);
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
            let extremes = args.extremes.arguments().join(" ");
            println!(
                "seed {seed}: {violation}\nagain: cargo xtask soak --seed {seed} {extremes} --trace"
            );
            ExitCode::FAILURE
        }
    }
}
