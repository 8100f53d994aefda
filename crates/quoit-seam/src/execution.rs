//! Threads.
//!
//! An engine's background work is cut into steps. In production each [`Worker`] has a thread that calls
//! its steps; in tests and in the simulator the steps are called by the driver of the run, on one thread.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// When a worker wants its next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// At once: there is more to do.
    Again,
    /// After so many microseconds, or as soon as it is woken.
    AfterUs(u64),
    /// When it is woken.
    WhenWoken,
    /// Never: the work is over.
    Done,
}

/// Lets a long step give way.
pub trait Pace {
    /// Waits for so many microseconds, or not at all when time is the driver's. False when the worker was
    /// told to stop: the step should end as soon as it can.
    fn pause(&self, us: u64) -> bool;
}

/// Does not give way: for work that a request waits for.
pub struct Unpaced;

impl Pace for Unpaced {
    fn pause(&self, _us: u64) -> bool {
        true
    }
}

/// Lets another thread that is ready go first on this processor, if there is one: for work that may take long
/// and that is not urgent, between stretches of a hundred microseconds or so. A system call.
///
/// Without it a thread that has been woken for a request may wait until the system takes the processor away
/// from who computes, which it does after milliseconds.
pub fn give_way() {
    std::thread::yield_now();
}

/// Background work, one step at a time.
pub trait Worker: Send + Sync {
    /// Does a piece of work; one that takes long pauses now and then. Never called twice at the same
    /// time by one [`Execution`].
    fn step(&self, pace: &dyn Pace) -> Next;
}

/// Handle of a started worker.
pub trait WorkerHandle: Send + Sync {
    /// Makes the worker step soon. Cheap when the worker is busy; a system call when it sleeps.
    fn wake(&self);

    /// Lets the worker finish the step that it is in, if any, and makes no more of them.
    fn stop(&self);
}

/// Where background work runs.
pub trait Execution: Send + Sync {
    /// Starts stepping `worker`.
    fn start(&self, name: &'static str, worker: Arc<dyn Worker>) -> Arc<dyn WorkerHandle>;
}

/// One operating system thread for each worker.
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
        if !signal.woken && !signal.stopped {
            match next {
                Next::Done => return,
                Next::Again => {}
                Next::WhenWoken => parking.changed.wait(&mut signal),
                Next::AfterUs(us) => {
                    parking.changed.wait_for(&mut signal, Duration::from_micros(us));
                }
            }
        }
        signal.woken = false;
    }
}

impl Pace for Parking {
    fn pause(&self, us: u64) -> bool {
        let mut signal = self.signal.lock();
        let end = Instant::now() + Duration::from_micros(us);
        // Being woken does not cut a pause short, being stopped does.
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
