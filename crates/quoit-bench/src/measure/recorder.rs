//! The window of one thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::collector::Collector;
use super::stats::Window;
use crate::term::Term;

/// Length of a window.
const WINDOW: Duration = Duration::from_secs(1);

/// Records the operations that end on one thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    thread: usize,
    collector: Arc<Collector>,
    window: Window,
    second: u64,
    window_end: Instant,
    release: Instant,
}

impl Recorder {
    /// A recorder whose second 0 begins at `release`.
    pub(crate) fn new(thread: usize, collector: Arc<Collector>, release: Instant) -> Self {
        let window = Window::new(collector.operation_count());
        Self { thread, collector, window, second: 0, window_end: release + WINDOW, release }
    }

    /// Counts a success that ended at `end`; no lock and no allocation except once a second.
    #[inline]
    pub(crate) fn record(&mut self, operation: usize, latency: Duration, end: Instant) {
        self.roll(end);
        self.window.record(operation, latency.as_nanos() as u64);
    }

    /// Counts a failure that ended at `end`.
    pub(crate) fn record_error(&mut self, operation: usize, reason: Term, end: Instant) {
        self.roll(end);
        self.window.record_error(operation, reason);
    }

    /// Delivers the window when `now` is past its end.
    #[inline]
    pub(crate) fn roll(&mut self, now: Instant) {
        if now >= self.window_end {
            self.deliver(now);
        }
    }

    #[cold]
    fn deliver(&mut self, now: Instant) {
        let passed = now.duration_since(self.release).as_secs();
        self.collector.deliver(self.thread, self.second, &self.window, passed);
        self.window.clear();
        self.second = passed;
        self.window_end = self.release + WINDOW * u32::try_from(passed + 1).unwrap_or(u32::MAX);
    }

    /// When the present window ends.
    pub(crate) fn window_end(&self) -> Instant {
        self.window_end
    }

    /// Delivers the last, partial window. The thread still has to say that it has finished.
    pub(crate) fn flush(&mut self) {
        self.collector.deliver(self.thread, self.second, &self.window, self.second);
        self.window.clear();
    }
}
