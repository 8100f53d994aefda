//! Merges the windows of all threads.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::client::ThreadLoad;
use super::stalls::Gaps;
use super::stats::Window;

/// The shared windows of a run, by second. Each thread accesses it once a second.
#[derive(Debug)]
pub(crate) struct Collector {
    operation_count: usize,
    state: Mutex<CollectorState>,
    changed: Notify,
}

#[derive(Debug)]
struct CollectorState {
    windows: BTreeMap<u64, Window>,
    threads: Vec<ReportedThread>,
}

/// The information that a thread has delivered about itself.
#[derive(Debug, Clone)]
struct ReportedThread {
    /// Number of seconds that the thread has completed; `None` once it has finished.
    passed_seconds: Option<u64>,
    load: ThreadLoad,
    /// The gaps between successes, once the thread has finished.
    gaps: Option<Gaps>,
}

impl CollectorState {
    #[expect(clippy::indexing_slicing, reason = "threads have numbers below their count")]
    fn thread(&mut self, number: usize) -> &mut ReportedThread {
        &mut self.threads[number]
    }
}

/// The counts that a thread delivers when a window is over.
#[derive(Debug)]
pub(crate) struct Delivery<'a> {
    pub(crate) second: u64,
    pub(crate) window: &'a Window,
    /// The number of seconds that the thread has completed.
    pub(crate) passed_seconds: u64,
    /// Use of time of the thread so far.
    pub(crate) load: ThreadLoad,
}

/// The numbers of threads and operations that a collector is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CollectorSize {
    pub(crate) thread_count: usize,
    pub(crate) operation_count: usize,
}

/// The windows that no thread will change any more.
#[derive(Debug)]
pub(crate) struct Completed {
    /// Non-empty windows by second, in ascending order.
    pub(crate) windows: Vec<(u64, Window)>,
    /// Every second before this one is complete.
    pub(crate) through_second: u64,
    /// True if all threads have finished. `windows` then has all the rest.
    pub(crate) is_finished: bool,
}

impl Collector {
    pub(crate) fn new(size: CollectorSize) -> Self {
        let CollectorSize { thread_count, operation_count } = size;
        let thread =
            ReportedThread { passed_seconds: Some(0), load: ThreadLoad::default(), gaps: None };
        let state =
            CollectorState { windows: BTreeMap::new(), threads: vec![thread; thread_count] };
        Self { operation_count, state: Mutex::new(state), changed: Notify::new() }
    }

    pub(crate) fn operation_count(&self) -> usize {
        self.operation_count
    }

    fn state(&self) -> MutexGuard<'_, CollectorState> {
        // A thread that panics while it adds a window only leaves incomplete counts.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a window of a thread.
    pub(crate) fn deliver(&self, thread: usize, delivery: &Delivery<'_>) {
        let mut state = self.state();
        if !delivery.window.is_empty() {
            let count = self.operation_count;
            let shared = state.windows.entry(delivery.second);
            shared.or_insert_with(|| Window::new(count)).add(delivery.window);
        }
        let thread = state.thread(thread);
        thread.passed_seconds = Some(delivery.passed_seconds);
        thread.load = delivery.load;
        drop(state);
        self.changed.notify_one();
    }

    /// Stores the gaps of a thread whose workers have ended.
    pub(super) fn deliver_gaps(&self, thread: usize, gaps: Gaps) {
        self.state().thread(thread).gaps = Some(gaps);
    }

    /// The gaps of all threads that have delivered them.
    pub(crate) fn gaps(&self) -> Vec<Gaps> {
        self.state().threads.iter().filter_map(|thread| thread.gaps.clone()).collect()
    }

    /// Marks a thread as finished: it will add nothing more.
    pub(crate) fn finish(&self, thread: usize) {
        self.state().thread(thread).passed_seconds = None;
        self.changed.notify_one();
    }

    /// Takes the windows that are complete.
    pub(crate) fn take_completed(&self) -> Completed {
        let mut state = self.state();
        let slowest = state.threads.iter().filter_map(|thread| thread.passed_seconds).min();
        let through_second = slowest.unwrap_or(u64::MAX);
        let rest = state.windows.split_off(&through_second);
        let windows = std::mem::replace(&mut state.windows, rest).into_iter().collect();
        Completed { windows, through_second, is_finished: slowest.is_none() }
    }

    /// The use of time of each thread, as of its last delivery.
    pub(crate) fn loads(&self) -> Vec<ThreadLoad> {
        self.state().threads.iter().map(|thread| thread.load).collect()
    }

    /// Waits until a thread delivers or finishes.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
