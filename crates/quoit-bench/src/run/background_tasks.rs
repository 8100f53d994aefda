//! Background tasks of a run, on a thread of their own: they watch servers and run the commands of events.
//! They end with the run.

use super::control::Phase;
use super::{events, watching};
use crate::config::Config;
use crate::view::ServerBoard;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::thread::JoinHandle;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A task. It returns the reason of its failure, or `None` if it succeeded.
pub(super) type Task = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// The thread of the tasks, or `None` if the run has no tasks.
pub(super) struct BackgroundTasks(Option<JoinHandle<Vec<String>>>);

/// Starts the background tasks that the configuration asks for.
///
/// # Errors
///
/// When a table or the thread can't be created.
pub(super) fn start_background_tasks(
    config: &Config,
    directory: &Path,
    phases: &watch::Receiver<Phase>,
    board: &ServerBoard,
) -> io::Result<BackgroundTasks> {
    let mut tasks = watching::tasks(&config.watched, directory, phases, board)?;
    tasks.extend(events::tasks(&config.events, directory, phases)?);
    if tasks.is_empty() {
        return Ok(BackgroundTasks(None));
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let all = async { tasks.into_iter().collect::<JoinSet<_>>().join_all().await };
    let run = move || runtime.block_on(all).into_iter().flatten().collect();
    let thread = std::thread::Builder::new().name("background".to_owned()).spawn(run)?;
    Ok(BackgroundTasks(Some(thread)))
}

/// Waits for the tasks after the end of the run, and passes to `tell` the reasons of those that failed.
pub(super) fn finish_background_tasks(
    started: io::Result<BackgroundTasks>,
    tell: impl FnMut(String),
) {
    let failures = match started {
        Ok(BackgroundTasks(None)) => Vec::new(),
        Ok(BackgroundTasks(Some(thread))) => thread.join().unwrap_or_else(|_| {
            vec!["watching servers and running events ended by a panic".to_owned()]
        }),
        Err(error) => vec![format!("servers were not watched, nor events run: {error}")],
    };
    failures.into_iter().for_each(tell);
}
