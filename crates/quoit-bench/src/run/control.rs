//! Start and stop signals of a run, as all of its threads see them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::RunEnd;

/// The run stops if more crashes than this...
const CRASH_COUNT_MAX: usize = 5;

/// ...happen within this time.
const CRASH_SPAN: Duration = Duration::from_secs(10);

/// The times at which the workers start and stop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Release {
    /// Time at which the workers start.
    pub(super) at: Instant,
    /// Time at which the measurement starts. Operations that end before it are not counted.
    pub(super) measured_from: Instant,
    /// Time at which the workers stop, unless the run has no limit.
    pub(super) deadline: Option<Instant>,
}

impl Release {
    /// True if the deadline has passed.
    #[inline]
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// The deadline or `instant`, whichever is earlier.
    pub(super) fn end_by(&self, instant: Instant) -> Instant {
        self.deadline.map_or(instant, |deadline| deadline.min(instant))
    }
}

/// The phase of a run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    /// Workers connect.
    Starting,
    /// Workers work.
    Running(Release),
    /// Workers finish the operation that they are at.
    Stopping,
}

/// The channel between the coordinator and the threads.
#[derive(Debug)]
pub(super) struct Control {
    phase: watch::Sender<Phase>,
    /// True in the phase `Stopping`. An atomic copy, because workers check it before each operation.
    is_stopping: AtomicBool,
    run_failures: Mutex<RunFailures>,
    failure_notify: Notify,
}

/// Failures that may end the run.
#[derive(Debug, Default)]
struct RunFailures {
    end: Option<RunEnd>,
    crashes: VecDeque<Instant>,
    /// Reasons of the end, for people, that nobody has taken yet.
    reasons: Vec<String>,
}

impl Control {
    pub(super) fn new() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Starting),
            is_stopping: AtomicBool::new(false),
            run_failures: Mutex::default(),
            failure_notify: Notify::new(),
        }
    }

    pub(super) fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Starts all waiting workers.
    pub(super) fn release(&self, release: Release) {
        self.phase.send_replace(Phase::Running(release));
    }

    /// Stops all workers after the operation that each is at.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.phase.send_replace(Phase::Stopping);
    }

    #[inline]
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Requests the end of the run because of a failure. The first request decides the reported end.
    pub(super) fn request_end(&self, end: RunEnd) {
        let mut run_failures = self.run_failures.lock().unwrap_or_else(PoisonError::into_inner);
        run_failures.end.get_or_insert(end);
        drop(run_failures);
        self.failure_notify.notify_one();
    }

    /// Requests the end of the run as [`request_end`](Self::request_end) does, with a reason for people.
    pub(super) fn request_end_because(&self, end: RunEnd, reason: String) {
        let mut run_failures = self.run_failures.lock().unwrap_or_else(PoisonError::into_inner);
        run_failures.reasons.push(reason);
        drop(run_failures);
        self.request_end(end);
    }

    /// Takes the reasons that were given since the last call.
    pub(super) fn take_reasons(&self) -> Vec<String> {
        let mut run_failures = self.run_failures.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut run_failures.reasons)
    }

    /// The requested end, if there is one.
    pub(super) fn requested_end(&self) -> Option<RunEnd> {
        self.run_failures.lock().unwrap_or_else(PoisonError::into_inner).end
    }

    /// Waits until an end is requested.
    pub(super) async fn end_requested(&self) {
        while self.requested_end().is_none() {
            self.failure_notify.notified().await;
        }
    }

    /// Records the crash of a worker. Returns false if there were too many crashes within [`CRASH_SPAN`].
    pub(super) fn may_restart(&self, now: Instant) -> bool {
        let mut run_failures = self.run_failures.lock().unwrap_or_else(PoisonError::into_inner);
        run_failures.crashes.push_back(now);
        while run_failures.crashes.front().is_some_and(|first| now - *first > CRASH_SPAN) {
            run_failures.crashes.pop_front();
        }
        run_failures.crashes.len() <= CRASH_COUNT_MAX
    }
}

/// Waits for the release of the workers. Returns `None` if the run stops before it.
pub(super) async fn released(phases: &mut watch::Receiver<Phase>) -> Option<Release> {
    let phase = phases.wait_for(|phase| !matches!(phase, Phase::Starting)).await.ok()?;
    match *phase {
        Phase::Running(release) => Some(release),
        Phase::Starting | Phase::Stopping => None,
    }
}

/// Waits until the workers must stop, because of the deadline or because the run is stopped.
pub(super) async fn ending(phases: &mut watch::Receiver<Phase>) {
    let deadline = match released(phases).await {
        Some(Release { deadline, .. }) => deadline,
        None => return,
    };
    let stopped = phases.wait_for(|phase| matches!(phase, Phase::Stopping));
    match deadline {
        None => drop(stopped.await),
        Some(deadline) => drop(tokio::time::timeout_at(deadline.into(), stopped).await),
    }
}
