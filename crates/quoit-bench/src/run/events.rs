//! Commands that run at their times while workers work, and the table of what became of them.

use super::beside::Task;
use super::control::{Phase, ending, released};
use crate::config::{DIRECTORY_VARIABLE, RunEvent};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::sleep_until;

/// The file in the directory of a run.
pub(crate) const EVENTS_FILE: &str = "events.csv";
/// Outcome of an event without a command.
const MARK: &str = "mark";

type Table = Arc<Mutex<File>>;

/// A task for each event.
///
/// # Errors
///
/// When the table can't be made.
pub(super) fn tasks(
    events: &[RunEvent],
    directory: &Path,
    phases: &watch::Receiver<Phase>,
) -> io::Result<Vec<Task>> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let mut table = File::create(directory.join(EVENTS_FILE))?;
    writeln!(table, "elapsed, event, seconds, outcome")?;
    let table = Arc::new(Mutex::new(table));
    let task = |event: &RunEvent| -> Task {
        let (event, table) = (event.clone(), Arc::clone(&table));
        Box::pin(run_event(event, directory.to_owned(), table, phases.clone()))
    };
    Ok(events.iter().map(task).collect())
}

/// Waits for the time of an event and runs its command, which is killed when the run ends before it.
async fn run_event(
    event: RunEvent,
    directory: PathBuf,
    table: Table,
    mut phases: watch::Receiver<Phase>,
) -> Option<String> {
    let release = released(&mut phases).await?;
    let due = release.measured_from + event.at;
    let is_reached = tokio::select! {
        biased;
        () = sleep_until(due.into()) => true,
        () = ending(&mut phases) => false,
    };
    if !is_reached {
        return Some(format!("the run ended before its event {} at {:?}", event.name, event.at));
    }
    let began = Instant::now();
    let outcome = match &event.command {
        None => MARK.to_owned(),
        Some(command) => tokio::select! {
            outcome = run_command(command, &directory) => outcome,
            () = ending(&mut phases) => "killed at the end of the run".to_owned(),
        },
    };
    let elapsed_s = began.saturating_duration_since(release.measured_from).as_secs_f64();
    let seconds = began.elapsed().as_secs_f64();
    let row = format!("{elapsed_s:.3}, {}, {seconds:.3}, {outcome}\n", event.name);
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    let written = table.write_all(row.as_bytes());
    if let Err(fault) = written {
        return Some(format!("{EVENTS_FILE} can't be written: {fault}"));
    }
    let is_good = outcome == MARK || outcome == "exit status: 0";
    (!is_good).then(|| format!("the command of the event {} ended with: {outcome}", event.name))
}

/// Runs a command by the shell, without standard input; its output goes to the standard error of this
/// process. Gives how it ended.
async fn run_command(command: &str, directory: &Path) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env(DIRECTORY_VARIABLE, directory).stdin(Stdio::null());
    shell.stdout(io::stderr()).kill_on_drop(true);
    match shell.status().await {
        Ok(status) => status.to_string().replace(',', ";"),
        Err(fault) => format!("not started: {fault}").replace(',', ";"),
    }
}
