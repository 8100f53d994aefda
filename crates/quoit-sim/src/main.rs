//! The simulator's command line: one seed, or many in processes of their own.
//!
//! A seed has a process of its own: the runtime orders what ends together by numbers that it counts for
//! the whole process, so that a seed which follows another one would not always go the same way.
#![allow(clippy::print_stdout, reason = "a tool for the terminal")]

mod soak;

use clap::{Args, Parser, Subcommand};
use quoit_sim::{Planted, Settings, run};
use std::process::ExitCode;

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
    /// Plant this bug
    #[arg(long)]
    planted: Option<Planted>,
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
    let mut settings = Settings { planted: args.planted, ..Settings::default() };
    if args.trace {
        settings.line_count_max = usize::MAX;
    }
    let report = run(args.seed, &settings);
    if args.trace || report.verdict.is_err() {
        print!("{}", report.trace.text());
    }
    let seed = report.seed;
    match report.verdict {
        Ok(()) => {
            println!("seed {seed}: ok, digest {:016x}", report.trace.digest());
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("seed {seed}: {violation}\nagain: cargo xtask soak --seed {seed} --trace");
            ExitCode::FAILURE
        }
    }
}
