//! A soak: runs the seeds of a range, or as many seeds as a number of minutes allows.

use crate::many_runs::{FaultOptions, Run, Tally, run_in_parallel};
use clap::Args;
use std::ops::Range;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Interval between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// A range of seeds, without its end.
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

/// Options of a soak.
#[derive(Args)]
pub(crate) struct SoakArgs {
    /// Seeds to run, without the last one; from 0 on until the time is up if this is left out
    #[arg(long)]
    seeds: Option<Seeds>,
    /// Minutes after which no more seeds begin
    #[arg(long)]
    minutes: Option<u64>,
    #[command(flatten)]
    fault_options: FaultOptions,
    /// Seeds to run at a time; as many as there are processors if this is left out
    #[arg(long)]
    jobs: Option<usize>,
}

/// Runs a soak, and prints its progress and the failed seeds.
pub(crate) fn soak(args: &SoakArgs) -> ExitCode {
    let seeds = args.seeds.clone().map_or(0..u64::MAX, |Seeds(seeds)| seeds);
    let minutes = args.minutes.or_else(|| args.seeds.is_none().then_some(1));
    let until = minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let began = Instant::now();
    let in_time = seeds.take_while(|_| until.is_none_or(|until| Instant::now() < until));
    let shared = Mutex::new((Tally::default(), Instant::now()));
    run_in_parallel(in_time, args.jobs, |seed| {
        let run = Run { seed, fault_options: args.fault_options };
        let output = run.output(None);
        let mut shared = shared.lock().expect("a thread that panics ends the program");
        let (tally, told) = &mut *shared;
        tally.count(run, &output);
        if told.elapsed() > PROGRESS_INTERVAL {
            *told = Instant::now();
            println!("{} passed, {} failed so far", tally.passed, tally.failed.len());
        }
    });
    let (tally, _) = shared.into_inner().expect("a thread that panics ends the program");
    let seconds = began.elapsed().as_secs_f64();
    println!("{} seeds in {seconds:.0} s", tally.passed + tally.failed.len() as u64);
    tally.finish()
}
