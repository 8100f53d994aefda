//! Execution of an engine's background work in a simulated machine.

use crate::random::Random;
use parking_lot::Mutex;
use quoit_seam::{Execution, Next, Pace, Worker, WorkerHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Interval at which a worker checks whether its hung disk works again.
const HANG_LOOK: Duration = Duration::from_millis(20);

/// Time that a machine's disk takes for each piece of background work, including syncs. Clones refer to
/// the same disk.
#[derive(Debug, Clone, Default)]
pub struct DiskDelay(Arc<DelayState>);

#[derive(Debug, Default)]
struct DelayState {
    /// Longest delay of a piece of work, in microseconds; each delay is drawn between 0 and this.
    us_max: AtomicU64,
    is_hung: AtomicBool,
}

impl DiskDelay {
    /// Sets the longest delay of the work that follows, in microseconds.
    pub fn set_us_max(&self, us_max: u64) {
        self.0.us_max.store(us_max, Ordering::Relaxed);
    }

    /// Makes the disk hang, or work again. A hung disk begins no background work. Reads and writes go on,
    /// as they do in a real system's page cache.
    pub fn set_hung(&self, is_hung: bool) {
        self.0.is_hung.store(is_hung, Ordering::Relaxed);
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

/// Runs each worker as a task of the machine's runtime, so that simulated time and the seed decide the
/// order of all steps. The tasks end with the machine.
pub struct TaskExecution {
    random: Arc<Mutex<Random>>,
    delay: DiskDelay,
}

impl TaskExecution {
    /// Creates an execution that draws the delay before each step from `random`.
    #[must_use]
    pub fn new(random: Random, delay: DiskDelay) -> Self {
        Self { random: Arc::new(Mutex::new(random)), delay }
    }
}

struct TaskHandle {
    woken: Notify,
    stopped: AtomicBool,
}

impl Execution for TaskExecution {
    fn start(&self, _name: &'static str, worker: Arc<dyn Worker>) -> Arc<dyn WorkerHandle> {
        let handle = Arc::new(TaskHandle { woken: Notify::new(), stopped: AtomicBool::new(false) });
        let (random, delay) = (Arc::clone(&self.random), self.delay.clone());
        tokio::spawn(drive(worker, Arc::clone(&handle), random, delay));
        handle
    }
}

async fn drive(
    worker: Arc<dyn Worker>,
    handle: Arc<TaskHandle>,
    random: Arc<Mutex<Random>>,
    delay: DiskDelay,
) {
    loop {
        let delay_us = random.lock().below(delay.us_max());
        tokio::time::sleep(Duration::from_micros(delay_us)).await;
        delay.going().await;
        if handle.stopped.load(Ordering::Relaxed) {
            return;
        }
        match worker.step(&*handle) {
            Next::Done => return,
            Next::Again => tokio::task::yield_now().await,
            Next::WhenWoken => handle.woken.notified().await,
            Next::AfterUs(us) => {
                let woken = handle.woken.notified();
                // The next step is due in both cases: the time is up, or a call has woken the worker.
                let _ = tokio::time::timeout(Duration::from_micros(us), woken).await;
            }
        }
    }
}

impl Pace for TaskHandle {
    fn pause(&self, _us: u64) -> bool {
        !self.stopped.load(Ordering::Relaxed)
    }
}

impl WorkerHandle for TaskHandle {
    fn wake(&self) {
        self.woken.notify_one();
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
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
        fn step(&self, _: &dyn Pace) -> Next {
            self.0.lock().push(Instant::now());
            Next::WhenWoken
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_woken_worker_steps_within_the_disks_delay_and_a_stopped_one_never() {
        let delay = DiskDelay::default();
        let execution = TaskExecution::new(Random::new(1, "execution", 0), delay.clone());
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
        let execution = TaskExecution::new(Random::new(1, "execution", 0), delay.clone());
        delay.set_hung(true);
        let sleeper = Arc::new(Sleeper::default());
        let _handle = execution.start("sleeper", sleeper.clone());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(sleeper.0.lock().is_empty(), "it stepped while the disk hung");
        delay.set_hung(false);
        tokio::time::sleep(2 * HANG_LOOK).await;
        assert_eq!(sleeper.0.lock().len(), 1);
    }
}
