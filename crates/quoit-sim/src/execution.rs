//! Execution of an engine's background work in a simulated machine.

use crate::pausing::{PausePlaces, PausingStep};
use crate::random::Random;
use parking_lot::Mutex;
use quoit_seam::{Execution, NextStep, Pace, Worker, WorkerHandle};
use quoit_store::bitcask::{COMMIT_WORKER, MERGE_WORKER, SNAPSHOT_WORKER};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Interval at which a worker checks whether its hung disk works again.
const HANG_LOOK: Duration = Duration::from_millis(20);
/// Range of the pauses within a step, in microseconds.
const PAUSES_US: Range<u64> = 100..50_000;

/// Time that a machine's disk takes for each piece of background work, including syncs. Clones refer to
/// the same disk.
#[derive(Debug, Clone, Default)]
pub struct DiskDelay(Arc<DelayState>);

#[derive(Debug, Default)]
struct DelayState {
    /// Longest delay of a piece of work, in microseconds; each delay is drawn between 0 and this.
    us_max: AtomicU64,
    is_hung: AtomicBool,
    /// Number of workers whose next piece of work waits for the disk.
    waiting_count: AtomicU64,
}

impl DiskDelay {
    /// Sets the longest delay of the work that follows, in microseconds.
    pub fn set_us_max(&self, us_max: u64) {
        self.0.us_max.store(us_max, Ordering::Relaxed);
    }

    /// Makes the disk hang, or work again. A hung disk begins no background work. Reads and writes continue,
    /// as they do in a real system's page cache.
    pub fn set_hung(&self, is_hung: bool) {
        self.0.is_hung.store(is_hung, Ordering::Relaxed);
    }

    /// True if background work waits for the disk.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.waiting_count.load(Ordering::Relaxed) > 0
    }

    fn us_max(&self) -> u64 {
        self.0.us_max.load(Ordering::Relaxed)
    }

    async fn going(&self) {
        while self.0.is_hung.load(Ordering::Relaxed) {
            tokio::time::sleep(HANG_LOOK).await;
        }
    }
}

/// Counts a worker that waits for the disk, until it is dropped.
struct DiskWait(DiskDelay);

impl DiskWait {
    fn begin(disk: &DiskDelay) -> Self {
        disk.0.waiting_count.fetch_add(1, Ordering::Relaxed);
        Self(disk.clone())
    }
}

impl Drop for DiskWait {
    fn drop(&mut self) {
        self.0.0.waiting_count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs each worker as a task of the machine's runtime, so that simulated time and the seed decide the
/// order of all steps. The tasks end with the machine.
pub struct TaskExecution {
    disk: StepTimes,
    pauses: StepPauses,
    turns: StepTurns,
    slow_sync: SlowSync,
}

/// The pauses of the steps of a machine's background work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepPauses {
    /// Each step runs without a pause.
    Never,
    /// Snapshots and merges pause now and then, and requests run in between.
    LongSteps,
    /// As [`StepPauses::LongSteps`]. In addition a commit pauses in each sync of a segment, and requests go
    /// on to append to the log.
    LongStepsAndSyncs,
}

/// A lock that tasks wait for without blocking their thread.
type TurnLock = Arc<tokio::sync::Mutex<()>>;

/// Locks that decide which steps may run while others pause. A step that waited for another one with a lock
/// of the engine would block the only thread.
#[derive(Clone, Default)]
struct StepTurns {
    /// Held during a snapshot or merge, including its pauses.
    long_step: TurnLock,
    /// Held during a commit, including its pauses, and by a snapshot or merge while it does not pause: these
    /// commit as well, and only one thread may do so at a time.
    commit: TurnLock,
}

/// The commit that pauses in a sync, if there is one. Clones refer to the same engine.
#[derive(Clone, Default)]
pub(crate) struct SlowSync(Arc<Mutex<Option<Arc<TaskHandle>>>>);

impl SlowSync {
    /// Ends the sync, and the commit that it is part of, at once. A call that is about to sync has to do this
    /// first, since it would wait for the commit and block the only thread.
    pub(crate) fn end(&self) {
        let committer = self.0.lock().clone();
        committer
            .iter()
            .for_each(|handle| handle.paused.lock().iter().for_each(PausingStep::hurry));
    }
}

/// Draws the times of a machine's background work.
#[derive(Clone)]
struct StepTimes {
    random: Arc<Mutex<Random>>,
    delay: DiskDelay,
}

impl StepTimes {
    /// Waits until the disk begins the next piece of work.
    async fn until_disk_is_free(&self) {
        let _wait = DiskWait::begin(&self.delay);
        let delay_us = self.random.lock().below(self.delay.us_max());
        tokio::time::sleep(Duration::from_micros(delay_us)).await;
        self.delay.going().await;
    }

    /// Waits for the end of a pause within a step.
    async fn pause(&self) {
        let pause_us = self.random.lock().within_by_magnitude(PAUSES_US);
        tokio::time::sleep(Duration::from_micros(pause_us)).await;
        self.delay.going().await;
    }
}

impl TaskExecution {
    /// Creates an execution that draws the delay before each step from `random`.
    #[must_use]
    pub fn new(random: Random, delay: DiskDelay, pauses: StepPauses) -> Self {
        let disk = StepTimes { random: Arc::new(Mutex::new(random)), delay };
        Self { disk, pauses, turns: StepTurns::default(), slow_sync: SlowSync::default() }
    }

    /// Returns the commit of the engine that pauses in a sync.
    pub(crate) fn slow_sync(&self) -> SlowSync {
        self.slow_sync.clone()
    }

    /// Returns the manner in which a worker makes its steps.
    fn manner(&self, name: &'static str) -> StepManner {
        match (self.pauses, name) {
            (StepPauses::LongSteps, SNAPSHOT_WORKER | MERGE_WORKER) => {
                StepManner::Long { long_step: Arc::clone(&self.turns.long_step), commit: None }
            }
            (StepPauses::LongStepsAndSyncs, SNAPSHOT_WORKER | MERGE_WORKER) => StepManner::Long {
                long_step: Arc::clone(&self.turns.long_step),
                commit: Some(Arc::clone(&self.turns.commit)),
            },
            (StepPauses::LongStepsAndSyncs, COMMIT_WORKER) => {
                StepManner::Commit(Arc::clone(&self.turns.commit))
            }
            _ => StepManner::InOneGo,
        }
    }
}

/// The manner in which a worker makes its steps.
enum StepManner {
    /// Without a pause.
    InOneGo,
    /// With pauses, under the first of these locks. Without a pause only under the second one, if commits
    /// pause too.
    Long { long_step: TurnLock, commit: Option<TurnLock> },
    /// With pauses in syncs, under this lock.
    Commit(TurnLock),
}

struct TaskHandle {
    woken: Notify,
    stopped: AtomicBool,
    /// The step that pauses now.
    paused: Mutex<Option<PausingStep>>,
    /// The commit that a step of this worker has to wait for.
    slow_sync: SlowSync,
}

impl TaskHandle {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Takes the step that pauses, if it was not ended meanwhile.
    fn take_paused(&self) -> Option<PausingStep> {
        self.paused.lock().take()
    }

    /// Ends the step that pauses.
    fn end_paused(&self) {
        self.slow_sync.end();
        drop(self.take_paused());
    }
}

/// Ends a step that pauses when its task is dropped.
struct PauseEnd<'h>(&'h TaskHandle);

impl Drop for PauseEnd<'_> {
    fn drop(&mut self) {
        self.0.end_paused();
    }
}

impl Execution for TaskExecution {
    fn start(&self, name: &'static str, worker: Arc<dyn Worker>) -> Arc<dyn WorkerHandle> {
        let handle = Arc::new(TaskHandle {
            woken: Notify::new(),
            stopped: AtomicBool::new(false),
            paused: Mutex::default(),
            // A commit does not wait for itself.
            slow_sync: match name {
                COMMIT_WORKER => SlowSync::default(),
                _ => self.slow_sync.clone(),
            },
        });
        if name == COMMIT_WORKER {
            *self.slow_sync.0.lock() = Some(Arc::clone(&handle));
        }
        tokio::spawn(drive(worker, Arc::clone(&handle), self.disk.clone(), self.manner(name)));
        handle
    }
}

async fn drive(
    worker: Arc<dyn Worker>,
    handle: Arc<TaskHandle>,
    disk: StepTimes,
    manner: StepManner,
) {
    loop {
        disk.until_disk_is_free().await;
        if handle.is_stopped() {
            return;
        }
        let next = match &manner {
            StepManner::InOneGo => worker.step(&*handle),
            StepManner::Long { long_step, commit } => {
                let _one_at_a_time = long_step.lock().await;
                let (places, commit) = (PausePlaces::Asked, commit.as_ref());
                step_with_pauses((&worker, places), &handle, &disk, commit).await
            }
            StepManner::Commit(turn) => {
                let _alone = turn.lock().await;
                step_with_pauses((&worker, PausePlaces::Syncs), &handle, &disk, None).await
            }
        };
        match next {
            NextStep::Done => return,
            NextStep::Again => tokio::task::yield_now().await,
            NextStep::WhenWoken => handle.woken.notified().await,
            NextStep::AfterUs(us) => {
                let woken = handle.woken.notified();
                // The next step is due in both cases: the time is up, or a call has woken the worker.
                let _ = tokio::time::timeout(Duration::from_micros(us), woken).await;
            }
        }
    }
}

/// Makes a step, and lets the rest of the simulation continue while the step pauses. Between its pauses the
/// step has the turn, if one is given.
async fn step_with_pauses(
    (worker, places): (&Arc<dyn Worker>, PausePlaces),
    handle: &TaskHandle,
    disk: &StepTimes,
    turn: Option<&TurnLock>,
) -> NextStep {
    let mut has_turn = take_turn(turn).await;
    if handle.is_stopped() {
        return NextStep::Done;
    }
    let mut step = PausingStep::begin(Arc::clone(worker), places);
    loop {
        drop(has_turn);
        if let Some(next) = step.take_result() {
            return next;
        }
        *handle.paused.lock() = Some(step);
        let end = PauseEnd(handle);
        disk.pause().await;
        has_turn = take_turn(turn).await;
        match handle.take_paused() {
            Some(paused) => step = paused,
            None => return NextStep::Done,
        }
        drop(end);
        step.go_on();
    }
}

/// Waits for a turn, if there is one to wait for.
async fn take_turn(turn: Option<&TurnLock>) -> Option<tokio::sync::MutexGuard<'_, ()>> {
    match turn {
        None => None,
        Some(turn) => Some(turn.lock().await),
    }
}

impl Pace for TaskHandle {
    fn pause(&self, _us: u64) -> bool {
        !self.is_stopped()
    }
}

impl WorkerHandle for TaskHandle {
    fn wake(&self) {
        self.woken.notify_one();
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        // The caller requires that no step is under way any more.
        self.end_paused();
        self.woken.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    /// A worker that records the time of each step and sleeps until it is woken.
    #[derive(Default)]
    struct Sleeper(Mutex<Vec<Instant>>);

    impl Worker for Sleeper {
        fn step(&self, _: &dyn Pace) -> NextStep {
            self.0.lock().push(Instant::now());
            NextStep::WhenWoken
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_woken_worker_steps_within_the_disks_delay_and_a_stopped_one_never() {
        let delay = DiskDelay::default();
        let execution =
            TaskExecution::new(Random::new(1, "execution", 0), delay.clone(), StepPauses::Never);
        let sleeper = Arc::new(Sleeper::default());
        let handle = execution.start("sleeper", sleeper.clone());
        tokio::time::sleep(Duration::from_secs(5)).await;
        delay.set_us_max(50_000);
        let woken_at = Instant::now();
        handle.wake();
        tokio::time::sleep(Duration::from_secs(5)).await;
        handle.stop();
        handle.wake();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let steps = sleeper.0.lock().clone();
        let [_, second] = steps[..] else { panic!("two steps, not {steps:?}") };
        assert!(second >= woken_at && second - woken_at < Duration::from_millis(52), "{steps:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_of_a_disk_that_hangs_steps_when_the_disk_goes_on() {
        let delay = DiskDelay::default();
        let execution =
            TaskExecution::new(Random::new(1, "execution", 0), delay.clone(), StepPauses::Never);
        delay.set_hung(true);
        let sleeper = Arc::new(Sleeper::default());
        let _handle = execution.start("sleeper", sleeper.clone());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(sleeper.0.lock().is_empty(), "it stepped while the disk hung");
        delay.set_hung(false);
        tokio::time::sleep(2 * HANG_LOOK).await;
        assert_eq!(sleeper.0.lock().len(), 1);
    }
    /// A worker whose steps pause once, and that records the times at which they begin and end.
    #[derive(Default)]
    struct Pauser {
        times: Mutex<Vec<Instant>>,
        /// The disk that hangs as soon as a step has begun.
        hangs: Option<DiskDelay>,
    }

    impl Worker for Pauser {
        fn step(&self, pace: &dyn Pace) -> NextStep {
            self.times.lock().push(Instant::now());
            self.hangs.iter().for_each(|disk| disk.set_hung(true));
            if pace.pause(1) {
                self.times.lock().push(Instant::now());
            }
            NextStep::WhenWoken
        }
    }

    /// Starts a snapshot worker on a disk, and returns its handle after a second.
    async fn started(disk: &DiskDelay, pauser: &Arc<Pauser>) -> Arc<dyn WorkerHandle> {
        let execution =
            TaskExecution::new(Random::new(1, "execution", 0), disk.clone(), StepPauses::LongSteps);
        let handle = execution.start(SNAPSHOT_WORKER, pauser.clone());
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle
    }

    #[tokio::test(start_paused = true)]
    async fn time_goes_on_while_a_snapshot_pauses() {
        let pauser = Arc::new(Pauser::default());
        let _handle = started(&DiskDelay::default(), &pauser).await;
        let times = pauser.times.lock().clone();
        assert!(times.len() == 2 && times[0] < times[1], "{times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_a_step_that_pauses() {
        let disk = DiskDelay::default();
        let pauser = Arc::new(Pauser { hangs: Some(disk.clone()), ..Pauser::default() });
        let handle = started(&disk, &pauser).await;
        handle.stop();
        disk.set_hung(false);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(pauser.times.lock().len(), 1, "it did more after its pause");
    }
}
