//! A clock and an execution that a test controls.

use crate::clock::Clock;
use crate::execution::{Execution, NextStep, Pace, Worker, WorkerHandle};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that moves only when the test advances it.
#[derive(Debug, Default)]
pub struct ManualClock {
    unix_us: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `unix_us`.
    #[must_use]
    pub const fn at(unix_us: u64) -> Self {
        Self { unix_us: AtomicU64::new(unix_us) }
    }

    /// Moves the clock forward.
    pub fn advance_us(&self, by_us: u64) {
        self.unix_us.fetch_add(by_us, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn unix_us(&self) -> u64 {
        self.unix_us.load(Ordering::Relaxed)
    }

    fn monotonic_us(&self) -> u64 {
        self.unix_us()
    }
}

/// Runs steps when the driver of a test or of the simulator calls them.
#[derive(Default)]
pub struct ManualExecution {
    workers: Mutex<Vec<Arc<ManualWorker>>>,
    hook: Arc<Mutex<Option<Box<PauseHook>>>>,
}

/// A function that runs while a worker pauses. Gets the worker's name.
pub type PauseHook = dyn FnMut(&'static str) + Send;

struct ManualWorker {
    name: &'static str,
    /// `None` after the worker was stopped.
    worker: Mutex<Option<Arc<dyn Worker>>>,
    woken: Mutex<bool>,
    hook: Arc<Mutex<Option<Box<PauseHook>>>>,
}

impl Pace for ManualWorker {
    fn pause(&self, _us: u64) -> bool {
        // Taken out while it runs: it may step other workers, which then do not pause.
        let hook = self.hook.lock().take();
        if let Some(mut hook) = hook {
            hook(self.name);
            self.hook.lock().get_or_insert(hook);
        }
        self.worker.lock().is_some()
    }
}

impl ManualExecution {
    /// Sets the function that runs whenever a worker pauses.
    pub fn set_pause_hook(&self, hook: Option<Box<PauseHook>>) {
        *self.hook.lock() = hook;
    }

    /// Calls one step of each running worker of this name. Returns the time of the next step that the
    /// last of them wants; `None` if there is none.
    pub fn step(&self, name: &str) -> Option<NextStep> {
        let named: Vec<_> =
            self.workers.lock().iter().filter(|worker| worker.name == name).cloned().collect();
        let mut next = None;
        for worker in named {
            let running = worker.worker.lock().clone();
            if let Some(running) = running {
                *worker.woken.lock() = false;
                next = Some(running.step(&*worker));
            }
        }
        next
    }

    /// Names of the running workers, in the order of their start.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let workers = self.workers.lock();
        let running = workers.iter().filter(|worker| worker.worker.lock().is_some());
        running.map(|worker| worker.name).collect()
    }

    /// Names of the workers that were woken since their last step, in the order of their start.
    #[must_use]
    pub fn woken(&self) -> Vec<&'static str> {
        let workers = self.workers.lock();
        workers.iter().filter(|worker| *worker.woken.lock()).map(|worker| worker.name).collect()
    }
}

impl Execution for ManualExecution {
    fn start(&self, name: &'static str, worker: Arc<dyn Worker>) -> Arc<dyn WorkerHandle> {
        let worker = Mutex::new(Some(worker));
        let hook = Arc::clone(&self.hook);
        let entry = Arc::new(ManualWorker { name, worker, woken: Mutex::new(false), hook });
        let mut workers = self.workers.lock();
        workers.retain(|worker| worker.worker.lock().is_some());
        workers.push(Arc::clone(&entry));
        entry
    }
}

impl WorkerHandle for ManualWorker {
    fn wake(&self) {
        *self.woken.lock() = true;
    }

    fn stop(&self) {
        self.worker.lock().take();
    }
}
