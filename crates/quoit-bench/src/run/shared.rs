//! State that the workers of a run share.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

use super::RunError;
use super::alarm::Alarm;
use super::control::{Control, Release};
use super::mix::Mix;
use super::planned_driver::PlannedDriver;
use super::replaying::TraceReplay;
use super::schedule::Schedule;
use crate::config::Pacing;
use crate::keygen::KeyGenerator;
use crate::measure::{Collector, Recorder};
use crate::output::RunLog;
use crate::random::{RandomKind, Seed};
use crate::script::{FaultSlot, Session};
use crate::share::Share;
use crate::valgen::{Sources, ValueGenerator};
use crate::verify::Verifier;

/// State that all workers of a run share.
pub(super) struct Shared {
    pub(super) driver: Arc<dyn PlannedDriver>,
    pub(super) mix: Mix,
    pub(super) pacing: Pacing,
    /// Arrivals of an open loop; `None` in a closed loop.
    pub(super) schedule: Option<Schedule>,
    /// The trace, if the run replays one.
    pub(super) replaying: Option<TraceReplay>,
    pub(super) seed: Seed,
    pub(super) random_kind: RandomKind,
    pub(super) worker_count: u32,
    /// The part of the run that this process does.
    pub(super) share: Share,
    pub(super) shutdown_on_error: bool,
    pub(super) keys: KeyGenerator,
    /// The script that decides the order of each worker's operations, if there is one.
    pub(super) session: Option<Session>,
    /// Keeps the first fault of a script.
    pub(super) script_faults: FaultSlot,
    /// Keys for operations that insert, if the mix has any.
    pub(super) inserted: Option<KeyGenerator>,
    pub(super) values: ValueGenerator,
    pub(super) sources: Sources,
    /// Checks the values that are read, if the run verifies.
    pub(super) verifier: Option<Arc<Verifier>>,
    pub(super) control: Control,
    pub(super) collector: Arc<Collector>,
    pub(super) log: Arc<RunLog>,
    /// Receives one message from each worker: that it is connected, or why not.
    pub(super) ready: mpsc::Sender<Result<(), RunError>>,
}

/// State that the workers of one thread share.
pub(super) struct ThreadState {
    pub(super) thread: usize,
    /// Created when the workers are released.
    pub(super) recorder: OnceCell<RefCell<Recorder>>,
    /// Bounds the number of workers that connect at once, so that the server's listen queue does not
    /// overflow.
    pub(super) connecting: Semaphore,
    pub(super) alarm: Alarm,
}

impl ThreadState {
    pub(super) fn recorder(&self, shared: &Shared, release: Release) -> &RefCell<Recorder> {
        self.recorder.get_or_init(|| {
            let collector = shared.collector.clone();
            RefCell::new(Recorder::new(self.thread, collector, release.measured_from))
        })
    }
}

/// Everything that one worker needs, apart from its driver.
pub(crate) struct WorkerTask {
    pub(super) shared: Arc<Shared>,
    pub(super) local: Rc<ThreadState>,
    /// Number of the worker in the whole run.
    pub(super) number: u32,
    /// Index of the reported operation that the worker is at, for the case that it crashes.
    pub(super) at_operation: Rc<Cell<usize>>,
}
