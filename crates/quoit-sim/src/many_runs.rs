//! Many runs, each in a process of its own, as many at a time as there are processors.

use clap::Args;
use quoit_planted::PlantedFault;
use quoit_sim::Family;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};
use std::sync::Mutex;

/// Exit status of a run that has found a violation.
pub(crate) const VIOLATION_STATUS: u8 = 1;
/// Exit status of a run that could not begin, because its arguments are wrong.
pub(crate) const REFUSED_STATUS: u8 = 2;
/// Exit status of a run that hangs.
pub(crate) const HANGS_STATUS: u8 = 3;

/// Options that make runs harder than those of the test command.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct FaultOptions {
    /// Let a disk rot in all runs, not only in some, of families whose disks may rot
    #[arg(long)]
    pub(crate) rot: bool,
    /// Name of the family of all runs, as docs/design/simulation.md lists them
    #[arg(long)]
    pub(crate) family: Option<Family>,
    /// Let worlds be large: up to twenty machines, 64 partitions, minutes of simulated time
    #[arg(long)]
    pub(crate) large: bool,
    /// Let clients also work on data types, in runs whose machines all know them
    #[arg(long)]
    pub(crate) data_types: bool,
}

impl FaultOptions {
    /// Returns the command-line arguments of these options.
    pub(crate) fn arguments(self) -> Vec<&'static str> {
        let asked =
            [(self.rot, "--rot"), (self.data_types, "--data-types"), (self.large, "--large")];
        let asked =
            asked.into_iter().filter_map(|(is_asked, argument)| is_asked.then_some(argument));
        let family = self.family.map(|family| ["--family", family.name()]);
        asked.chain(family.into_iter().flatten()).collect()
    }
}

/// How a run has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunOutcome {
    /// No promise was broken.
    Passed,
    /// A promise was broken, and the output says which one.
    Violation,
    /// The run hung, broke down or did not begin, so it says nothing about the store.
    Otherwise,
}

/// One run: a seed and its options.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) fault_options: FaultOptions,
}

impl Run {
    /// Runs the seed in a process of its own, with a planted fault if one is given.
    pub(crate) fn output(self, planted: Option<PlantedFault>) -> Output {
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("quoit-sim"));
        let mut command = Command::new(program);
        command.arg("run").arg("--seed").arg(self.seed.to_string());
        command.args(self.fault_options.arguments());
        if let Some(fault) = planted {
            command.arg("--planted").arg(fault.name());
        }
        command.output().expect("the program can start itself")
    }

    /// Returns how the run with this output has ended.
    pub(crate) fn end(self, output: &Output) -> RunOutcome {
        let verdict = format!("seed {}: ", self.seed);
        let said = String::from_utf8_lossy(&output.stdout);
        let has_verdict = said.lines().any(|line| line.starts_with(&verdict));
        match output.status.code() {
            Some(0) => RunOutcome::Passed,
            Some(status) if status == i32::from(VIOLATION_STATUS) && has_verdict => {
                RunOutcome::Violation
            }
            _ => RunOutcome::Otherwise,
        }
    }

    /// Returns the command that repeats the run and shows its story.
    pub(crate) fn again(self) -> String {
        let arguments =
            self.fault_options.arguments().into_iter().map(|argument| format!(" {argument}"));
        format!("cargo xtask soak --seed {}{} --trace", self.seed, arguments.collect::<String>())
    }
}

/// Totals of many runs.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: Vec<Run>,
    /// Descriptions of other checks that failed.
    pub(crate) others: Vec<String>,
}

impl Tally {
    /// Counts a run, and prints its output if it has failed.
    pub(crate) fn count(&mut self, run: Run, output: &Output) {
        if output.status.success() {
            self.passed += 1;
        } else {
            print_output(output);
            self.failed.push(run);
        }
    }

    /// Counts a run that was made twice: it has to pass, and to go the same way both times.
    pub(crate) fn count_repeated(&mut self, run: Run, [first, second]: &[Output; 2]) {
        if (first.status, &first.stdout) == (second.status, &second.stdout) {
            self.count(run, first);
        } else {
            let text = "the second run went another way than the first";
            self.others.push(format!("seed {}: {text}", run.seed));
        }
    }

    /// Prints the totals, and the commands that repeat the failed runs.
    pub(crate) fn finish(mut self) -> ExitCode {
        self.failed.sort_unstable_by_key(|run| run.seed);
        for run in &self.failed {
            println!("failed: {}", run.again());
        }
        for other in &self.others {
            println!("failed: {other}");
        }
        let failed_count = self.failed.len() + self.others.len();
        println!("{} passed, {failed_count} failed", self.passed);
        if failed_count == 0 && self.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Prints the output of a run.
pub(crate) fn print_output(output: &Output) {
    print!("{}", String::from_utf8_lossy(&output.stdout));
    print!("{}", String::from_utf8_lossy(&output.stderr));
}

/// Calls `work` with each item, `jobs` at a time, or as many at a time as there are processors.
pub(crate) fn run_in_parallel<T>(
    items: impl Iterator<Item = T> + Send,
    jobs: Option<usize>,
    work: impl Fn(T) + Sync,
) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let items = Mutex::new(items);
    let next = || items.lock().expect("a thread that panics ends the program").next();
    std::thread::scope(|scope| {
        for _ in 0..jobs.unwrap_or(processors).max(1) {
            scope.spawn(|| {
                while let Some(item) = next() {
                    work(item);
                }
            });
        }
    });
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    pub(crate) fn run(seed: u64) -> Run {
        Run { seed, fault_options: FaultOptions::default() }
    }

    /// Output of a run that has ended with an exit status.
    pub(crate) fn output(status: u8, said: &str) -> Output {
        // The second byte of a wait status is the exit status.
        let status = ExitStatus::from_raw(i32::from(status) << 8);
        Output { status, stdout: said.into(), stderr: Vec::new() }
    }

    #[test]
    fn only_a_verdict_with_the_status_of_a_violation_is_a_violation() {
        let end = |status, said| run(7).end(&output(status, said));
        assert_eq!(end(0, "seed 7: ok, digest 1\n"), RunOutcome::Passed);
        assert_eq!(
            end(VIOLATION_STATUS, "0.1 n1 START\nseed 7: Lost: k1\n"),
            RunOutcome::Violation
        );
        assert_eq!(end(VIOLATION_STATUS, "no verdict\n"), RunOutcome::Otherwise);
        assert_eq!(
            end(REFUSED_STATUS, "this build has no planted faults\n"),
            RunOutcome::Otherwise
        );
        assert_eq!(end(HANGS_STATUS, "seed 7: Hangs: no end after 300 s\n"), RunOutcome::Otherwise);
        assert_eq!(end(101, "seed 7: Lost: k1\n"), RunOutcome::Otherwise);
    }

    #[test]
    fn a_repeated_run_has_to_pass_and_to_go_the_same_way() {
        let count = |first, second| {
            let mut tally = Tally::default();
            tally.count_repeated(run(7), &[first, second]);
            (tally.passed, tally.failed.len(), tally.others.len())
        };
        let passed = || output(0, "seed 7: ok\n");
        let failed = || output(VIOLATION_STATUS, "seed 7: Lost: k1\n");
        assert_eq!(count(passed(), passed()), (1, 0, 0));
        assert_eq!(count(failed(), failed()), (0, 1, 0));
        assert_eq!(count(passed(), failed()), (0, 0, 1));
        assert_eq!(count(passed(), output(0, "seed 7: ok, another digest\n")), (0, 0, 1));
    }

    #[test]
    fn the_command_that_repeats_a_run_has_its_options() {
        assert_eq!(run(5).again(), "cargo xtask soak --seed 5 --trace");
        let fault_options =
            FaultOptions { rot: true, family: Some(Family::Lull), ..FaultOptions::default() };
        let again = Run { seed: 5, fault_options }.again();
        assert_eq!(again, "cargo xtask soak --seed 5 --rot --family lull --trace");
    }
}
