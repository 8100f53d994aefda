//! One thread of the load generator: an event loop with the thread's workers.
//!
//! Workers never move between threads. So their connections, buffers and counters need no locks, and a
//! wakeup never crosses cores.

use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinError, JoinSet};

use super::RunEnd;
use super::alarm::Alarm;
use super::canary::run_canary;
use super::control::{ending, released};
use super::shared::{Shared, ThreadState, WorkerTask};
use crate::sent::with_sent_tracking;
use crate::term::Term;

/// Maximum number of workers of one thread that connect at the same time.
const CONNECTING_MAX: usize = 32;

/// Time that operations in flight have to finish after the end of the run.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the workers in `numbers` until all have ended.
///
/// # Errors
///
/// When the operating system provides no event loop or timer.
pub(super) fn run_thread(shared: &Arc<Shared>, thread: usize, numbers: Vec<u32>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    let alarm = runtime.block_on(async { Alarm::new() })?;
    let local = Rc::new(ThreadState {
        thread,
        recorder: OnceCell::new(),
        connecting: Semaphore::new(CONNECTING_MAX),
        alarm,
    });
    let mut workers =
        ThreadWorkers { shared: shared.clone(), local, set: JoinSet::new(), at: HashMap::new() };
    runtime.block_on(workers.run(numbers));
    if let Some(recorder) = workers.local.recorder.get() {
        recorder.borrow_mut().flush();
    }
    Ok(())
}

/// The workers of a thread.
struct ThreadWorkers {
    shared: Arc<Shared>,
    local: Rc<ThreadState>,
    set: JoinSet<()>,
    /// For each running worker its number and the index of its current operation.
    at: HashMap<Id, (u32, Rc<Cell<usize>>)>,
}

impl ThreadWorkers {
    async fn run(&mut self, numbers: Vec<u32>) {
        let clock = tokio::task::spawn_local(tick(self.shared.clone(), self.local.clone()));
        let canary = tokio::task::spawn_local(run_canary(self.shared.clone(), self.local.clone()));
        let of_alarm = self.local.clone();
        let alarm = tokio::task::spawn_local(async move { of_alarm.alarm.ring().await });
        numbers.into_iter().for_each(|number| self.spawn(number));
        let mut phases = self.shared.control.phases();
        let over = async {
            ending(&mut phases).await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::pin!(over);
        let mut is_over = false;
        loop {
            tokio::select! {
                joined = self.set.join_next_with_id() => match joined {
                    None => break,
                    Some(Ok((id, ()))) => drop(self.at.remove(&id)),
                    Some(Err(error)) => self.lost(error),
                },
                () = &mut over, if !is_over => {
                    is_over = true;
                    let left = self.set.len();
                    let message = format!("{left} workers did not end in time and are cut off");
                    self.shared.log.warning(&message);
                    self.set.abort_all();
                }
            }
        }
        clock.abort();
        canary.abort();
        alarm.abort();
    }

    fn spawn(&mut self, number: u32) {
        let at_operation = Rc::new(Cell::new(0));
        let (shared, local) = (self.shared.clone(), self.local.clone());
        let task = WorkerTask { shared, local, number, at_operation: at_operation.clone() };
        let work = self.shared.driver.clone().work(task);
        let handle = self.set.spawn_local(with_sent_tracking(work));
        self.at.insert(handle.id(), (number, at_operation));
    }

    /// Handles a worker that was cut off or crashed. A crashed worker is counted as an error and restarted.
    fn lost(&mut self, error: JoinError) {
        let Some((number, at_operation)) = self.at.remove(&error.id()) else { return };
        let Ok(panic) = error.try_into_panic() else { return };
        let message = panic_text(panic.as_ref());
        self.shared.log.crash(&format!("worker {number} crashed: {message}"));
        let now = Instant::now();
        let Some(recorder) = self.local.recorder.get() else {
            // Before the release there is no recorder to count in, and the run does not start.
            self.shared.control.request_end(RunEnd::Crashed);
            return;
        };
        // The time from the start of the operation to the crash is unknown.
        let (operation, reason) = (at_operation.get(), Term::atom("crash"));
        recorder.borrow_mut().record_error(operation, reason, Duration::ZERO, now);
        if !self.shared.control.may_restart(now) || self.shared.shutdown_on_error {
            self.shared.control.request_end(RunEnd::Crashed);
        }
        if !self.shared.control.is_stopping() {
            self.spawn(number);
        }
    }
}

/// Delivers each second when it ends, even if no operation ends after it.
async fn tick(shared: Arc<Shared>, local: Rc<ThreadState>) {
    let Some(release) = released(&mut shared.control.phases()).await else { return };
    let recorder = local.recorder(&shared, release);
    loop {
        let end = recorder.borrow().window_end();
        tokio::time::sleep_until(end.into()).await;
        recorder.borrow_mut().roll(Instant::now());
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
