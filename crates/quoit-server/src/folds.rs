//! Folds that operators have started. A fold runs in the background until it ends or is cancelled.
//!
//! A fold buffers the records that it finds until a client fetches them, and pauses while its buffer is
//! full. Ended folds keep their buffers until newer folds displace them.

use parking_lot::Mutex;
use quoit_core::{Fold, FoldFound, FoldProgress, RequestError};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Number of folds that may run at the same time.
const RUNNING_MAX: usize = 4;
/// Number of folds that are remembered, ended ones included.
const ENDED_MAX: usize = 100;
/// Number of found records that a fold buffers; the fold pauses when they are not fetched.
const FOUND_MAX: usize = 10_000;
/// Memory of the found records that a fold buffers, in bytes. One step may exceed it, because a fold pauses
/// between steps only.
const FOUND_BYTES_MAX: usize = 16 << 20;
/// Memory of the found records of all ended folds together, in bytes. When a fold begins and there is more,
/// the oldest ended folds are forgotten.
const ENDED_BYTES_MAX: usize = 64 << 20;
/// Memory of a found record besides its key and its version vector, in bytes.
const FOUND_OVERHEAD_BYTES: usize = 128;

/// The folds of a node.
#[derive(Default)]
pub struct Folds {
    last_id: AtomicU64,
    jobs: Mutex<BTreeMap<u64, Arc<FoldJob>>>,
}

/// A fold in the background.
pub(crate) struct FoldJob {
    pub(crate) id: u64,
    /// Description of the request.
    pub(crate) title: String,
    begun: Instant,
    state: Mutex<FoldState>,
    /// Notified when records were found, when records were fetched, and when the fold has ended.
    changed: Notify,
    task: Mutex<Option<AbortHandle>>,
}

#[derive(Default)]
struct FoldState {
    progress: FoldProgress,
    found: VecDeque<FoldFound>,
    found_bytes: usize,
    end: Option<(FoldEnd, Duration)>,
}

impl FoldState {
    /// True if the fold has to pause until found records are fetched.
    fn is_full(&self) -> bool {
        self.found.len() >= FOUND_MAX || self.found_bytes >= FOUND_BYTES_MAX
    }
}

fn found_bytes(found: &FoldFound) -> usize {
    found.key.len() + found.clock.len() + FOUND_OVERHEAD_BYTES
}

/// Outcome of a fold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FoldEnd {
    /// It visited all records.
    Done,
    /// It reached the limit of its request.
    Limit,
    /// An operator stopped it.
    Cancelled,
    /// It failed, with this error.
    Failed(String),
}

/// A snapshot of a fold's state.
pub(crate) struct FoldStatus {
    pub(crate) progress: FoldProgress,
    pub(crate) end: Option<FoldEnd>,
    pub(crate) elapsed: Duration,
    /// Number of found records that are not fetched yet.
    pub(crate) waiting_count: usize,
}

impl Folds {
    /// Starts a fold; `None` if the maximum number of folds is running.
    pub(crate) fn begin(&self, title: String, fold: Fold) -> Option<Arc<FoldJob>> {
        let mut jobs = self.jobs.lock();
        if jobs.values().filter(|job| job.is_running()).count() >= RUNNING_MAX {
            return None;
        }
        forget_oldest(&mut jobs);
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let job = Arc::new(FoldJob::new(id, title));
        jobs.insert(id, Arc::clone(&job));
        let running = Arc::clone(&job);
        let task = tokio::spawn(async move {
            let end = match running.run(fold).await {
                Ok(end) => end,
                Err(fault) => FoldEnd::Failed(fault.to_string()),
            };
            running.end(end);
        });
        *job.task.lock() = Some(task.abort_handle());
        Some(job)
    }

    /// All remembered folds, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<FoldJob>> {
        self.jobs.lock().values().cloned().collect()
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<FoldJob>> {
        self.jobs.lock().get(&id).cloned()
    }
}

/// Forgets the oldest ended folds until the rest is within the bounds.
fn forget_oldest(jobs: &mut BTreeMap<u64, Arc<FoldJob>>) {
    let ended: Vec<(u64, usize)> = jobs
        .iter()
        .filter(|(_, job)| !job.is_running())
        .map(|(id, job)| (*id, job.state.lock().found_bytes))
        .collect();
    let mut ended_bytes: usize = ended.iter().map(|(_, bytes)| bytes).sum();
    for (id, bytes) in ended {
        if jobs.len() < ENDED_MAX && ended_bytes <= ENDED_BYTES_MAX {
            return;
        }
        jobs.remove(&id);
        ended_bytes -= bytes;
    }
}

impl FoldJob {
    fn new(id: u64, title: String) -> Self {
        Self {
            id,
            title,
            begun: Instant::now(),
            state: Mutex::default(),
            changed: Notify::new(),
            task: Mutex::default(),
        }
    }

    fn is_running(&self) -> bool {
        self.state.lock().end.is_none()
    }

    async fn run(&self, mut fold: Fold) -> Result<FoldEnd, RequestError> {
        while let Some(found) = fold.step().await? {
            {
                let mut state = self.state.lock();
                state.progress = fold.progress().clone();
                state.found_bytes += found.iter().map(found_bytes).sum::<usize>();
                state.found.extend(found);
            }
            self.changed.notify_waiters();
            loop {
                let changed = self.changed.notified();
                if !self.state.lock().is_full() {
                    break;
                }
                changed.await;
            }
        }
        Ok(if fold.has_reached_limit() { FoldEnd::Limit } else { FoldEnd::Done })
    }

    fn end(&self, end: FoldEnd) {
        self.state.lock().end.get_or_insert_with(|| (end, self.begun.elapsed()));
        self.changed.notify_waiters();
    }

    /// Stops the fold and drops the records that it has buffered. The changes that it has made stay.
    pub(crate) fn cancel(&self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
        self.end(FoldEnd::Cancelled);
        let mut state = self.state.lock();
        state.found = VecDeque::new();
        state.found_bytes = 0;
    }

    pub(crate) fn status(&self) -> FoldStatus {
        let state = self.state.lock();
        let (end, elapsed) = match &state.end {
            Some((end, elapsed)) => (Some(end.clone()), *elapsed),
            None => (None, self.begun.elapsed()),
        };
        let waiting_count = state.found.len();
        FoldStatus { progress: state.progress.clone(), end, elapsed, waiting_count }
    }

    /// Takes up to `count_max` found records. If there are none, waits up to `wait` for some, or for the
    /// end of the fold.
    pub(crate) async fn take_found(&self, count_max: usize, wait: Duration) -> Vec<FoldFound> {
        let changed = self.changed.notified();
        let has_nothing = {
            let state = self.state.lock();
            state.found.is_empty() && state.end.is_none()
        };
        if has_nothing {
            // Timing out and being notified lead to the same steps.
            let _ = timeout(wait, changed).await;
        }
        let mut state = self.state.lock();
        let count = count_max.min(state.found.len());
        let taken: Vec<FoldFound> = state.found.drain(..count).collect();
        state.found_bytes -= taken.iter().map(found_bytes).sum::<usize>();
        drop(state);
        self.changed.notify_waiters();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn found(key_bytes: usize) -> FoldFound {
        FoldFound {
            key: Bytes::from(vec![b'k'; key_bytes]),
            clock: Bytes::new(),
            tree_entry: None,
            number: 1,
        }
    }

    fn full_with(key_bytes: usize) -> usize {
        let mut state = FoldState::default();
        while !state.is_full() {
            state.found_bytes += found_bytes(&found(key_bytes));
            state.found.push_back(found(key_bytes));
        }
        state.found.len()
    }

    /// Identifiers of the folds that are remembered, given for each fold whether it runs and the bytes that
    /// it buffers.
    fn left_of(folds: impl Iterator<Item = (bool, usize)>) -> Vec<u64> {
        let mut jobs = BTreeMap::new();
        for (id, (is_running, bytes)) in (1..).zip(folds) {
            let job = FoldJob::new(id, String::new());
            job.state.lock().found_bytes = bytes;
            if !is_running {
                job.end(FoldEnd::Done);
            }
            jobs.insert(id, Arc::new(job));
        }
        forget_oldest(&mut jobs);
        jobs.into_keys().collect()
    }

    #[test]
    fn folds_that_have_ended_are_bounded_by_count_and_by_bytes() {
        let few = [(true, FOUND_BYTES_MAX), (false, 5), (false, 5)];
        assert_eq!(left_of(few.into_iter()), [1, 2, 3]);
        let large = (0..7).map(|number| (number == 0, FOUND_BYTES_MAX));
        assert_eq!(left_of(large), [1, 4, 5, 6, 7]);
        let many = left_of((0..ENDED_MAX + 3).map(|_| (false, 0)));
        assert_eq!((many.len(), many[0]), (ENDED_MAX - 1, 5));
    }

    #[test]
    fn unfetched_fold_results_are_bounded_by_count_and_bytes() {
        assert_eq!(full_with(10), FOUND_MAX);
        assert_eq!(full_with(65_000), FOUND_BYTES_MAX.div_ceil(65_000 + FOUND_OVERHEAD_BYTES));
    }
}
