//! `cargo xtask soak --upgrade-from REVISION`: builds the program at a revision, and upgrades a cluster of
//! that build node by node and under load to the current program.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Runs the upgrade. The older build stays in the target folder; its sources are removed.
pub fn run(root: &Path, revision: &str) -> ExitCode {
    match upgrade(root, revision) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("xtask: {what}");
            ExitCode::FAILURE
        }
    }
}

fn upgrade(root: &Path, revision: &str) -> Result<(), String> {
    let target = target_folder(root);
    let older_target = target.join("older");
    let sources = older_target.join("sources");
    let git = || {
        let mut git = Command::new("git");
        git.current_dir(root);
        git
    };
    let make = ["worktree", "add", "--force", "--detach"];
    // Removes the sources that an interrupted run has left.
    let _ = git().args(["worktree", "remove", "--force"]).arg(&sources).output();
    run_to_success(
        git().args(make).arg(&sources).arg(revision),
        "making the sources of that revision",
    )?;
    let built = build(&sources, &older_target);
    let removed = git().args(["worktree", "remove", "--force"]).arg(&sources).output();
    built?;
    removed.map_err(|error| format!("removing the sources of that revision: {error}"))?;
    build(root, &target)?;
    let mut test = Command::new("python3");
    test.current_dir(root)
        .arg("tests/process/upgrade.py")
        .env("TEST_BINARY", target.join("debug/quoit"))
        .env("TEST_OLDER_BINARY", older_target.join("debug/quoit"));
    run_to_success(&mut test, "the upgrade")
}

fn build(sources: &Path, target: &Path) -> Result<(), String> {
    let mut cargo = super::soak::cargo();
    cargo
        .current_dir(sources)
        .args(["build", "--locked", "--bin", "quoit", "--target-dir"])
        .arg(target);
    run_to_success(&mut cargo, "building")
}

/// The folder in which cargo keeps its builds.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    let folder =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root.join(folder)
}

fn run_to_success(command: &mut Command, what: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what} ended with {status}")),
        Err(error) => Err(format!("{what}: {command:?} could not be started: {error}")),
    }
}
