//! Background threads.
//!
//! Background work of an engine is divided into steps. In production each [`Worker`] has a thread that
//! calls its steps. In tests and in the simulator, the driver of the run calls them on one thread.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time of a worker's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextStep {
    /// At once, because there is more to do.
    Again,
    /// After this many microseconds, or as soon as the worker is woken.
    AfterUs(u64),
    /// When the worker is woken.
    WhenWoken,
    /// Never: the work is finished.
    Done,
}

/// A means for long steps to pause.
pub trait Pace {
    /// Waits for `us` microseconds, or not at all if a driver controls time. False if the worker was
    /// told to stop; the step should then end as soon as it can.
    fn pause(&self, us: u64) -> bool;
}

/// Never pauses: for work that a request waits for.
pub struct NeverPauses;

impl Pace for NeverPauses {
    fn pause(&self, _us: u64) -> bool {
        true
    }
}

/// Yields the processor to another thread that is ready, if there is one. To be called about every
/// hundred microseconds by long work that is not urgent. Costs a system call.
///
/// Without it, a thread that was woken for a request may have to wait until the system preempts the
/// computing thread, which takes milliseconds. Work that takes the locks of requests calls it while it holds
/// none. A lower priority would not do for such work: the system could suspend the thread while it holds a
/// lock, and requests would wait until its next turn.
pub fn yield_to_requests() {
    std::thread::yield_now();
}

/// Background work, one step at a time.
pub trait Worker: Send + Sync {
    /// Does a piece of work, pausing now and then if it takes long. An [`Execution`] never calls it
    /// twice at the same time.
    fn step(&self, pace: &dyn Pace) -> NextStep;
}

/// Handle of a started worker.
pub trait WorkerHandle: Send + Sync {
    /// Makes the worker step soon. Cheap while the worker is busy; costs a system call while it sleeps.
    fn wake(&self);

    /// Stops the worker after the step that it is in.
    fn stop(&self);
}

/// Runs background work.
pub trait Execution: Send + Sync {
    /// Starts to call the steps of `worker`.
    fn start(&self, name: &'static str, worker: Arc<dyn Worker>) -> Arc<dyn WorkerHandle>;
}

/// Runs each worker on a thread of its own.
#[derive(Debug, Default)]
pub struct Threads;

#[derive(Default)]
struct Signal {
    woken: bool,
    stopped: bool,
}

#[derive(Default)]
struct Parking {
    signal: Mutex<Signal>,
    changed: Condvar,
}

struct ThreadHandle {
    parking: Arc<Parking>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Execution for Threads {
    fn start(&self, name: &'static str, worker: Arc<dyn Worker>) -> Arc<dyn WorkerHandle> {
        let parking = Arc::new(Parking::default());
        let theirs = Arc::clone(&parking);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&*worker, &theirs))
            .expect("the system has room for the few threads of a store");
        Arc::new(ThreadHandle { parking, thread: Mutex::new(Some(thread)) })
    }
}

fn run(worker: &dyn Worker, parking: &Parking) {
    loop {
        if parking.signal.lock().stopped {
            return;
        }
        let next = worker.step(parking);
        let mut signal = parking.signal.lock();
        let is_due = signal.woken || signal.stopped;
        match next {
            NextStep::Done => return,
            NextStep::WhenWoken if !is_due => parking.changed.wait(&mut signal),
            NextStep::AfterUs(us) if !is_due => {
                parking.changed.wait_for(&mut signal, Duration::from_micros(us));
            }
            NextStep::Again | NextStep::WhenWoken | NextStep::AfterUs(_) => {}
        }
        signal.woken = false;
    }
}

impl Pace for Parking {
    fn pause(&self, us: u64) -> bool {
        let mut signal = self.signal.lock();
        let end = Instant::now() + Duration::from_micros(us);
        // Only a stop ends a pause early; a wake does not.
        while !signal.stopped && !self.changed.wait_until(&mut signal, end).timed_out() {}
        !signal.stopped
    }
}

impl WorkerHandle for ThreadHandle {
    fn wake(&self) {
        self.parking.signal.lock().woken = true;
        self.parking.changed.notify_one();
    }

    fn stop(&self) {
        self.parking.signal.lock().stopped = true;
        self.parking.changed.notify_one();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("a background thread of the store panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A worker that is woken in the midst of its first step, which finishes its work.
    struct WokenAtItsEnd {
        parking: Arc<Parking>,
        step_count: AtomicU32,
    }

    impl Worker for WokenAtItsEnd {
        fn step(&self, _: &dyn Pace) -> NextStep {
            self.parking.signal.lock().woken = self.step_count.fetch_add(1, Ordering::Relaxed) == 0;
            NextStep::Done
        }
    }

    #[test]
    fn a_worker_whose_work_is_finished_does_not_step_again_although_it_was_woken() {
        let parking = Arc::new(Parking::default());
        let worker = WokenAtItsEnd { parking: Arc::clone(&parking), step_count: AtomicU32::new(0) };
        run(&worker, &parking);
        assert_eq!(worker.step_count.into_inner(), 1);
    }
}
