//! `cargo xtask soak`: builds the simulator with the flags that it needs, and runs it; or kills processes
//! with storage engines during their writes, many times; or upgrades a cluster of an older build.

use crate::upgrade;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

/// Compiler flags of the simulator. They let the seed of a run decide the runtime's random choices too, and
/// build the planted faults in. The test command (`tests/run.py`) builds everything with these flags.
pub(crate) const SIMULATOR_FLAGS: &str = "--cfg tokio_unstable --cfg planted_faults";

/// The option that upgrades a cluster of an older build.
const UPGRADE: &str = "--upgrade-from";

/// Environment variable with the number of times that the engines' tests kill each engine's process.
const KILL_COUNT_VARIABLE: &str = "QUOIT_TEST_KILL_COUNT";

/// Runs the chore. `--kills N` kills processes of engines, `--upgrade-from` upgrades a cluster, and all
/// other arguments go to the simulator.
pub fn run(root: &Path, arguments: &[String]) -> ExitCode {
    match arguments {
        [option, count] if option == "--kills" => match count.parse::<u32>() {
            Ok(count) if count > 0 => kill_engines(root, count),
            _ => {
                eprintln!("xtask: --kills {count:?} is no number of kills; write one such as 100");
                ExitCode::from(2)
            }
        },
        [option, ..] if option == "--kills" => {
            eprintln!("xtask: write --kills N, and nothing else, such as --kills 100");
            ExitCode::from(2)
        }
        [option, revision] if option == UPGRADE => upgrade::run(root, revision),
        [option, ..] if option == UPGRADE => {
            eprintln!(
                "xtask: write {UPGRADE} REVISION, and nothing else, such as {UPGRADE} HEAD~20"
            );
            ExitCode::from(2)
        }
        _ => simulate(root, arguments),
    }
}

/// Kills a process of each engine that many times during its writes. After each kill the test opens the
/// store again, and checks durable writes, batches, indexes, counts and digests.
fn kill_engines(root: &Path, count: u32) -> ExitCode {
    let mut command = cargo();
    command.current_dir(root).env(KILL_COUNT_VARIABLE, count.to_string()).args([
        "test",
        "--package",
        "quoit-store",
        "--test",
        "engines",
        "engine_kills::",
    ]);
    ended(command.status())
}

/// Builds and runs the simulator. `--seed N [--trace]` makes a single run, `--check` makes the runs of the
/// test command, and other arguments are those of a soak.
fn simulate(root: &Path, arguments: &[String]) -> ExitCode {
    match build_simulator(root) {
        Ok(simulator) => {
            let arguments = simulator_arguments(arguments);
            ended(Command::new(simulator).current_dir(root).args(arguments).status())
        }
        Err(what) => {
            eprintln!("xtask: {what}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the simulator, and returns the path of the program.
pub(crate) fn build_simulator(root: &Path) -> Result<PathBuf, String> {
    let others = std::env::var("RUSTFLAGS").unwrap_or_default();
    let status = cargo()
        .current_dir(root)
        .env("RUSTFLAGS", format!("{others} {SIMULATOR_FLAGS}"))
        .args(["build", "--quiet", "--package", "quoit-sim"])
        .status();
    match status {
        Ok(status) if status.success() => Ok(upgrade::target_folder(root).join("debug/quoit-sim")),
        Ok(_) => Err("the simulator does not build".to_owned()),
        Err(error) => Err(format!("cargo could not be started: {error}")),
    }
}

pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn ended(status: io::Result<ExitStatus>) -> ExitCode {
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: it could not be started: {error}");
            ExitCode::FAILURE
        }
    }
}

fn simulator_arguments(arguments: &[String]) -> Vec<String> {
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if has("--check") {
        return vec!["check".to_owned()];
    }
    let command = if has("--seed") { "run" } else { "soak" };
    [command.to_owned()].into_iter().chain(arguments.iter().cloned()).collect()
}
