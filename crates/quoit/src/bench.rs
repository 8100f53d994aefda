//! `quoit bench`: the load generator.

use clap::Args;
use quoit_bench::cli::{BenchOptions, run};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs basho_bench configurations and shows what came out.
///
/// Exit code 0 when the run ended as planned, 1 when it could not start or was stopped by an error, 2 when
/// it was stopped by crashes of workers.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// Configuration files; where two set one key, the later file wins.
    #[arg(required = true, value_name = "CONFIG")]
    configs: Vec<PathBuf>,
    /// Directory in which each run gets a directory of its own [default: ./tests].
    #[arg(short = 'd', long, value_name = "DIR")]
    results_dir: Option<PathBuf>,
    /// Name of the run's directory [default: the local time].
    #[arg(short = 'n', long = "bench-name", value_name = "NAME")]
    name: Option<String>,
    /// Duration instead of the configuration's: 500ms, 60s, 2m, 1.5h, infinity, or minutes.
    #[arg(long)]
    duration: Option<String>,
    /// Server instead of the configuration's; may be repeated.
    #[arg(long = "target", value_name = "HOST:PORT")]
    targets: Vec<String>,
}

/// Runs the command.
pub(crate) fn command(args: &BenchArgs) -> ExitCode {
    let options = BenchOptions {
        config_paths: args.configs.clone(),
        results_dir: args.results_dir.clone(),
        name: args.name.clone(),
        duration: args.duration.clone(),
        targets: args.targets.clone(),
    };
    ExitCode::from(run(&options).code())
}
