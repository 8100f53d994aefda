//! `cargo xtask fuzz-smoke`: runs the binary of the fuzz crate, which knows the targets.

use std::path::Path;
use std::process::{Command, ExitCode};

/// Builds and runs the smoke runner with these arguments.
pub fn run(root: &Path, arguments: &[String]) -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["run", "--quiet", "--package", "quoit-fuzz", "--"])
        .args(arguments)
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
