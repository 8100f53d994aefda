//! `cargo xtask soak`: builds the simulator the way it needs, and hands over to it.

use std::path::Path;
use std::process::{Command, ExitCode};

/// Lets the seed of a run decide the random choices of the runtime too.
const RUNTIME_SEED: &str = "--cfg tokio_unstable";

/// Builds and runs the simulator. `--seed N [--trace]` is one run, `--check` what the test command runs;
/// other arguments are those of a soak.
pub fn run(root: &Path, arguments: &[String]) -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let others = std::env::var("RUSTFLAGS").unwrap_or_default();
    let status = Command::new(cargo)
        .current_dir(root)
        .env("RUSTFLAGS", format!("{others} {RUNTIME_SEED}"))
        .args(["run", "--quiet", "--profile", "simulation", "--package", "quoit-sim", "--"])
        .args(simulator_arguments(arguments))
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: cargo could not be started: {error}");
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
