//! The window of one thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::client::{ThreadLoad, ThreadTime};
use super::collector::{Collector, Delivery};
use super::moments::OperationTimes;
use super::stalls::ThreadGaps;
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
    load: ThreadLoad,
    gaps: ThreadGaps,
    /// Time of the last reading of the thread's processor times, and the reading.
    watched: (Instant, ThreadTime),
}

impl Recorder {
    /// Creates the recorder of the calling thread. Second 0 begins at `release`; operations that end
    /// earlier are not counted.
    pub(crate) fn new(thread: usize, collector: Arc<Collector>, release: Instant) -> Self {
        let window = Window::new(collector.operation_count());
        Self {
            thread,
            collector,
            window,
            second: 0,
            window_end: release + WINDOW,
            release,
            load: ThreadLoad::default(),
            gaps: ThreadGaps::new(release),
            watched: (Instant::now(), ThreadTime::now()),
        }
    }

    /// Counts a success. Takes no lock and allocates nothing, except once a second.
    #[inline]
    pub(crate) fn record(&mut self, operation: usize, moments: &OperationTimes) {
        if self.begin(moments.ended) {
            self.gaps.success(moments.ended);
            self.window.record(operation, moments);
        }
    }

    /// Counts a failure that ended at `end`, `elapsed` after the operation should have begun.
    pub(crate) fn record_error(
        &mut self,
        operation: usize,
        reason: Term,
        elapsed: Duration,
        end: Instant,
    ) {
        if self.begin(end) {
            self.window.record_error(operation, reason, elapsed);
        }
    }

    /// Counts an operation of the canary that took `elapsed` and ended at `end`.
    pub(crate) fn record_canary(&mut self, elapsed: Duration, end: Instant) {
        if self.begin(end) {
            self.window.record_canary(elapsed);
        }
    }

    /// Moves on to the window that contains `end`. Returns false if the measurement had not started at
    /// `end`.
    #[inline]
    fn begin(&mut self, end: Instant) -> bool {
        if end < self.release {
            return false;
        }
        self.roll(end);
        true
    }

    /// Delivers the window if it is over at `now`.
    #[inline]
    pub(crate) fn roll(&mut self, now: Instant) {
        if now >= self.window_end {
            self.deliver(now);
        }
    }

    #[cold]
    fn deliver(&mut self, now: Instant) {
        let passed_seconds = now.duration_since(self.release).as_secs();
        self.hand_over(passed_seconds);
        self.second = passed_seconds;
        let window_count = u32::try_from(passed_seconds + 1).unwrap_or(u32::MAX);
        self.window_end = self.release + WINDOW * window_count;
    }

    /// Delivers the window and the thread's use of time to the collector.
    fn hand_over(&mut self, passed_seconds: u64) {
        let (before, time_before) = self.watched;
        self.watched = (Instant::now(), ThreadTime::now());
        self.load.add(self.watched.0 - before, time_before, self.watched.1);
        let Self { second, window, load, .. } = self;
        let delivery = Delivery { second: *second, window, passed_seconds, load: *load };
        self.collector.deliver(self.thread, &delivery);
        self.window.clear();
    }

    /// End of the current window.
    pub(crate) fn window_end(&self) -> Instant {
        self.window_end
    }

    /// Delivers the last, incomplete window. The thread must still report that it has finished.
    pub(crate) fn flush(&mut self) {
        self.hand_over(self.second);
        let gaps = std::mem::replace(&mut self.gaps, ThreadGaps::new(self.release));
        self.collector.deliver_gaps(self.thread, gaps.finish());
    }
}
