//! `quoit bench compare`: compares runs.

use super::AnswerFormat;
use clap::Args;
use quoit_bench::compare::CompareOptions;
use std::path::PathBuf;

/// The sides of a comparison, and its options.
#[derive(Args, Debug)]
pub(super) struct CompareArgs {
    /// Directories of runs, or with --repeat configurations; the first is the baseline.
    #[arg(required = true, num_args = 2.., value_name = "SIDE")]
    sides: Vec<PathBuf>,
    /// Run each configuration this many times, in turn, and compare these runs; five runs mostly detect a
    /// difference of 5 % if runs of the same server differ by 3 %.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Accepted: runs of --repeat always alternate.
    #[arg(long, hide = true, requires = "repeat")]
    interleave: bool,
    /// Duration of each run of --repeat instead of the configuration's.
    #[arg(long, requires = "repeat")]
    duration: Option<String>,
    /// Directory for the runs of --repeat [default: ./tests].
    #[arg(short = 'd', long, value_name = "DIR", requires = "repeat")]
    results_dir: Option<PathBuf>,
    /// Usual spread from run to run in percent, by which single runs are judged [default: 3].
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    spread: Option<f64>,
    /// HTML page to write, with the latencies of all sides in one chart.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = AnswerFormat::Text)]
    format: AnswerFormat,
}

/// Parses a spread of runs in percent.
fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent),
        _ => Err("wanted a number of percent from 0 to 1000".to_owned()),
    }
}

impl CompareArgs {
    pub(super) fn options(&self) -> CompareOptions {
        CompareOptions {
            sides: self.sides.clone(),
            repeat: self.repeat,
            duration: self.duration.clone(),
            results_dir: self.results_dir.clone(),
            spread_percent: self.spread,
            output: self.output.clone(),
            json: self.format == AnswerFormat::Json,
        }
    }
}
