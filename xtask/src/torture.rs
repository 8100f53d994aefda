//! `cargo xtask torture`: builds the program, and runs the trials that damage its data.

use crate::soak::cargo;
use crate::upgrade::target_folder;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Environment variable that gives the program's path to the trials.
const BINARY_VARIABLE: &str = "TEST_BINARY";

/// Builds the program, and runs `tests/torture/run.py` with these arguments.
pub fn run(root: &Path, arguments: &[String]) -> ExitCode {
    let built = cargo().current_dir(root).args(["build", "--quiet", "--bin", "quoit"]).status();
    match built {
        Ok(status) if status.success() => {}
        Ok(_) => {
            eprintln!("xtask: the program does not build");
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("xtask: cargo could not be started: {error}");
            return ExitCode::FAILURE;
        }
    }
    let trials = Command::new("python3")
        .arg(root.join("tests/torture/run.py"))
        .args(arguments)
        .env(BINARY_VARIABLE, target_folder(root).join("debug/quoit"))
        .status();
    match trials {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: python3 could not be started: {error}; the trials need Python 3.8");
            ExitCode::FAILURE
        }
    }
}
