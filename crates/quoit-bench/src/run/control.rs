//! Release and stop, as all threads of a run see them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::RunEnd;

/// More crashes than this...
const CRASH_COUNT_MAX: usize = 5;

/// ...within this time stop the run.
const CRASH_SPAN: Duration = Duration::from_secs(10);

/// When the workers start and when they stop by themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Release {
    /// When they start.
    pub(super) at: Instant,
    /// When the measurement starts: what ends before is not counted.
    pub(super) measured_from: Instant,
    /// When they stop by themselves.
    pub(super) deadline: Option<Instant>,
}

impl Release {
    /// True when the workers have to stop by themselves.
    #[inline]
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// The deadline, or `instant` when that is earlier.
    pub(super) fn end_by(&self, instant: Instant) -> Instant {
        self.deadline.map_or(instant, |deadline| deadline.min(instant))
    }
}

/// Where a run is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    /// Workers connect.
    Starting,
    /// Workers work.
    Running(Release),
    /// Workers finish what they are at.
    Stopping,
}

/// Messages between the coordinator and the threads.
#[derive(Debug)]
pub(super) struct Control {
    phase: watch::Sender<Phase>,
    /// The same as the phase, cheap to ask before each operation.
    is_stopping: AtomicBool,
    trouble: Mutex<Trouble>,
    troubled: Notify,
}

/// Failures that bear on the end of the run.
#[derive(Debug, Default)]
struct Trouble {
    end: Option<RunEnd>,
    crashes: VecDeque<Instant>,
    /// Why, for people; not told yet.
    reasons: Vec<String>,
}

impl Control {
    pub(super) fn new() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Starting),
            is_stopping: AtomicBool::new(false),
            trouble: Mutex::default(),
            troubled: Notify::new(),
        }
    }

    pub(super) fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Starts all workers that wait.
    pub(super) fn release(&self, release: Release) {
        self.phase.send_replace(Phase::Running(release));
    }

    /// Stops all workers after the operations that they are at.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.phase.send_replace(Phase::Stopping);
    }

    #[inline]
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Asks for the end of the run because of a failure; the first one decides how it ends.
    pub(super) fn request_end(&self, end: RunEnd) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.end.get_or_insert(end);
        drop(trouble);
        self.troubled.notify_one();
    }

    /// Asks for the end of the run as [`request_end`](Self::request_end), and says why.
    pub(super) fn request_end_because(&self, end: RunEnd, reason: String) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.reasons.push(reason);
        drop(trouble);
        self.request_end(end);
    }

    /// The reasons that were given since the last call.
    pub(super) fn take_reasons(&self) -> Vec<String> {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut trouble.reasons)
    }

    /// The end that was asked for, if any.
    pub(super) fn requested_end(&self) -> Option<RunEnd> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).end
    }

    /// Waits for an end to be asked for.
    pub(super) async fn end_requested(&self) {
        while self.requested_end().is_none() {
            self.troubled.notified().await;
        }
    }

    /// Notes the crash of a worker; false when there were too many at once.
    pub(super) fn may_restart(&self, now: Instant) -> bool {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.crashes.push_back(now);
        while trouble.crashes.front().is_some_and(|first| now - *first > CRASH_SPAN) {
            trouble.crashes.pop_front();
        }
        trouble.crashes.len() <= CRASH_COUNT_MAX
    }
}

/// Waits for the release of the workers; nothing when the run stops before it.
pub(super) async fn released(phases: &mut watch::Receiver<Phase>) -> Option<Release> {
    let phase = phases.wait_for(|phase| !matches!(phase, Phase::Starting)).await.ok()?;
    match *phase {
        Phase::Running(release) => Some(release),
        Phase::Starting | Phase::Stopping => None,
    }
}

/// Waits until the workers have to stop: by the deadline or because the run is stopped.
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
