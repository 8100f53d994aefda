//! `quoit bench`: the load generator.

use clap::{Args, Subcommand};
use quoit_bench::cli::{BenchOptions, check, run};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs basho_bench configurations and shows what came out.
///
/// Exit code 0 when the run ended as planned, 1 when it could not start or was stopped by an error, 2 when
/// it was stopped by crashes of workers. A file that is called like a command is written `./check`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand, Debug)]
enum BenchCommand {
    /// Print what a configuration would do, without doing it; exit code 1 if it can't be run.
    Check(PlanArgs),
}

/// What a run does.
#[derive(Args, Debug)]
struct PlanArgs {
    /// Configuration files; where two set one key, the later file wins.
    #[arg(required = true, value_name = "CONFIG")]
    configs: Vec<PathBuf>,
    /// Duration instead of the configuration's: 500ms, 60s, 2m, 1.5h, infinity, or minutes.
    #[arg(long)]
    duration: Option<String>,
    /// Server instead of the configuration's; may be repeated.
    #[arg(long = "target", value_name = "HOST:PORT")]
    targets: Vec<String>,
}

/// A run and where it leaves its results.
#[derive(Args, Debug)]
struct RunArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Directory in which each run gets a directory of its own [default: ./tests].
    #[arg(short = 'd', long, value_name = "DIR")]
    results_dir: Option<PathBuf>,
    /// Name of the run's directory [default: the local time].
    #[arg(short = 'n', long = "bench-name", value_name = "NAME")]
    name: Option<String>,
}

/// Runs the command.
pub(crate) fn command(args: &BenchArgs) -> ExitCode {
    let status = match &args.command {
        None => {
            let RunArgs { plan, results_dir, name } = &args.run;
            let (results_dir, name) = (results_dir.clone(), name.clone());
            run(&BenchOptions { results_dir, name, ..plan.options() })
        }
        Some(BenchCommand::Check(plan)) => check(&plan.options()),
    };
    ExitCode::from(status.code())
}

impl PlanArgs {
    fn options(&self) -> BenchOptions {
        BenchOptions {
            config_paths: self.configs.clone(),
            duration: self.duration.clone(),
            targets: self.targets.clone(),
            ..BenchOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn parse(line: &str) -> Result<BenchArgs, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.bench)
    }

    #[test]
    fn files_without_a_command_are_run() {
        let args = parse("bench -n x a.config ./check --duration 5s -d out").expect("a run");
        assert!(args.command.is_none());
        assert_eq!(args.run.plan.configs, [PathBuf::from("a.config"), "./check".into()]);
        assert_eq!(args.run.name.as_deref(), Some("x"));
    }

    #[test]
    fn a_command_stands_beside_a_run() {
        let args = parse("bench check a.config b.config --target h:1").expect("a check");
        let Some(BenchCommand::Check(plan)) = args.command else { panic!("{args:?}") };
        assert_eq!(plan.configs.len(), 2);
        assert_eq!(plan.targets, ["h:1"]);
        for line in ["bench", "bench check"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
