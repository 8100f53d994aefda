//! Execution of events: commands that run at given times of the run, and the table of their outcomes.

use super::background_tasks::Task;
use super::control::{Phase, ending, released};
use crate::config::{DIRECTORY_VARIABLE, EventAction, EventCall, RunEvent};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::process::Command;
use tokio::sync::{oneshot, watch};
use tokio::time::sleep_until;

/// Name of the file in the directory of a run.
pub(crate) const EVENTS_FILE: &str = "events.csv";
/// Outcome of an event that has no command.
const MARK: &str = "mark";
/// Outcome of a call that succeeded.
const DONE: &str = "done";

type Table = Arc<Mutex<File>>;

/// One task for each event.
///
/// # Errors
///
/// When the table can't be created.
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

/// Waits for the time of an event and runs its action. A command that still runs at the end of the run is
/// killed. Returns the failure, if there is one.
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
    let outcome = match &event.action {
        EventAction::Mark => MARK.to_owned(),
        EventAction::Command(command) => tokio::select! {
            outcome = run_command(command, &directory) => outcome,
            () = ending(&mut phases) => "killed at the end of the run".to_owned(),
        },
        EventAction::Call(call) => tokio::select! {
            outcome = run_call(call.clone()) => outcome,
            () = ending(&mut phases) => "not done at the end of the run".to_owned(),
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
    let is_good = [MARK, DONE, "exit status: 0"].contains(&outcome.as_str());
    let of =
        if matches!(event.action, EventAction::Call(_)) { "the" } else { "the command of the" };
    (!is_good).then(|| format!("{of} event {} ended with: {outcome}", event.name))
}

/// Calls a function on a thread of its own, because the function may block. The run does not wait for it
/// beyond its own end.
async fn run_call(call: EventCall) -> String {
    let (tell, told) = oneshot::channel();
    let run = move || {
        // Fails if the run has ended and nobody waits for the outcome.
        let _ = tell.send(call.call());
    };
    let started = std::thread::Builder::new().name("event".to_owned()).spawn(run);
    let outcome = match started {
        Ok(_) => told.await.unwrap_or_else(|_| Err("it ended by a panic".to_owned())),
        Err(fault) => Err(format!("not started: {fault}")),
    };
    match outcome {
        Ok(()) => DONE.to_owned(),
        Err(fault) => fault.replace([',', '\n'], ";"),
    }
}

/// Runs a shell command without standard input and returns its outcome. Its output goes to the standard
/// error of this process.
async fn run_command(command: &str, directory: &Path) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env(DIRECTORY_VARIABLE, directory).stdin(Stdio::null());
    shell.stdout(io::stderr()).kill_on_drop(true);
    match shell.status().await {
        Ok(status) => status.to_string().replace(',', ";"),
        Err(fault) => format!("not started: {fault}").replace(',', ";"),
    }
}
