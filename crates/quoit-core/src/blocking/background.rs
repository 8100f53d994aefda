//! Threads for work that no request waits for: the system gives them what requests leave.
//!
//! A step that moves or compares records for a millisecond takes a processor from requests whenever more
//! threads want to run than there are processors. Sharing it evenly makes a request wait for the rest of a
//! time slice, which is longer than the request itself. Threads of a higher nice value are put aside sooner
//! when others want to run, and get a smaller part of the time (`sched(7)`).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use tokio::sync::oneshot;

/// Threads of a process. Some may wait for the disk while others work; more would not be quicker where they
/// get what is left.
const THREAD_COUNT: usize = 4;
/// How much higher the nice value of the threads is than that of requests' threads: they get about a tenth of
/// what these get where both want all.
const NICE_STEP: i32 = 10;
/// The highest nice value that there is.
const NICE_MAX: i32 = 19;

type BackgroundStep = Box<dyn FnOnce() + Send>;

/// Started with the first step, for all nodes of the process.
static THREADS: LazyLock<Sender<BackgroundStep>> = LazyLock::new(start);

/// Does a step on one of the threads. Its panic is the caller's; `None` without any thread.
pub(super) async fn run<T: Send + 'static>(
    step: impl FnOnce() -> T + Send + 'static,
) -> Option<Result<T, Box<dyn Any + Send>>> {
    let (answer, answered) = oneshot::channel();
    let step = move || {
        // The caller may be gone: before the step's turn came, or while it is done.
        if !answer.is_closed() {
            let _ = answer.send(catch_unwind(AssertUnwindSafe(step)));
        }
    };
    THREADS.send(Box::new(step)).ok()?;
    answered.await.ok()
}

fn start() -> Sender<BackgroundStep> {
    let (steps, taken) = channel();
    let taken = Arc::new(Mutex::new(taken));
    for _ in 0..THREAD_COUNT {
        let taken = Arc::clone(&taken);
        let started =
            thread::Builder::new().name("background".to_owned()).spawn(move || work(&taken));
        if let Err(fault) = started {
            tracing::warn!(%fault, "a thread for background work could not be started");
        }
    }
    steps
}

/// Has the system put the calling thread aside whenever a thread that serves requests wants to run. Where the
/// priority can't be set, the thread works like any other.
pub fn lower_thread_priority() {
    if let Ok(nice) = rustix::process::getpriority_process(None) {
        let _ = rustix::process::setpriority_process(None, (nice + NICE_STEP).min(NICE_MAX));
    }
}

fn work(steps: &Mutex<Receiver<BackgroundStep>>) {
    lower_thread_priority();
    loop {
        let next = steps.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(step) => step(),
            Err(_) => return,
        }
    }
}
