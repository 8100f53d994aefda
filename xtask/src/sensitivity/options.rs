//! The arguments of `cargo xtask sensitivity`.

use super::results::Start;
use std::path::PathBuf;

/// Parsed arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Options {
    /// Number of seeds, from 0, with which each fault is run.
    pub(super) seed_count: u64,
    /// Number of findings after which a fault is not run with further seeds.
    pub(super) enough: Option<u64>,
    /// Names of the faults; empty for all.
    pub(super) faults: Vec<String>,
    /// Number of concurrent runs.
    pub(super) jobs: usize,
    /// File of the results, relative to the repository's folder.
    pub(super) results: PathBuf,
    /// Treatment of results of other sources.
    pub(super) start: Start,
    /// True if the table is printed from existing results without a measurement.
    pub(super) table_only: bool,
    /// True if the crates' tests run instead of the simulator.
    pub(super) by_tests: bool,
    /// Further arguments for each run of the simulator.
    pub(super) run_arguments: Vec<String>,
}

impl Options {
    /// Parses the arguments.
    pub(super) fn read(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            seed_count: 1_000,
            enough: None,
            faults: Vec::new(),
            jobs: 2,
            results: "target/sensitivity.tsv".into(),
            start: Start::Same,
            table_only: false,
            by_tests: false,
            run_arguments: Vec::new(),
        };
        let mut left = arguments.iter();
        while let Some(argument) = left.next() {
            let mut value = || left.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--seeds" => options.seed_count = number(argument, value()?)?,
                "--enough" => options.enough = Some(number(argument, value()?)?),
                "--fault" => options.faults.push(value()?.clone()),
                "--jobs" => options.jobs = number::<usize>(argument, value()?)?.max(1),
                "--results" => options.results = value()?.into(),
                "--keep" => options.start = Start::Keep,
                "--anew" => options.start = Start::Anew,
                "--table" => options.table_only = true,
                "--tests" => options.by_tests = true,
                "--" => {
                    options.run_arguments = left.cloned().collect();
                    break;
                }
                other => return Err(format!("sensitivity knows no argument {other:?}")),
            }
        }
        Ok(options)
    }
}

fn number<N: std::str::FromStr>(argument: &str, value: &str) -> Result<N, String> {
    value.parse().map_err(|_| format!("{argument} needs a number, and {value:?} is none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options, String> {
        Options::read(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_read_or_refused_in_words() {
        let options = read("--seeds 60 --fault a --fault b --keep -- --family x").unwrap();
        assert_eq!((options.seed_count, options.start), (60, Start::Keep));
        assert_eq!(options.faults, ["a", "b"]);
        assert_eq!(options.run_arguments, ["--family", "x"]);
        assert_eq!(read("").map(|options| options.seed_count), Ok(1_000));
        assert!(read("--tests").is_ok_and(|options| options.by_tests));
        assert!(read("--seeds many").is_err_and(|what| what.contains("many")));
        assert!(read("--seeds").is_err_and(|what| what.contains("--seeds")));
        assert!(read("--seed 3").is_err_and(|what| what.contains("--seed")));
    }
}
