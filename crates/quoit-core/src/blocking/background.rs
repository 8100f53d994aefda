//! Threads of low priority for work that no request waits for.
//!
//! A step that moves or compares records for a millisecond takes a processor from requests whenever there
//! are more runnable threads than processors. At equal priority a request would wait for the rest of a
//! time slice, which is longer than the request takes. The system preempts threads of a higher nice value
//! sooner, and gives them a smaller part of the time (`sched(7)`).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use tokio::sync::oneshot;

/// Number of threads in a process. Some can wait for the disk while others work. More threads would not
/// be faster, since they share the time that requests leave.
const THREAD_COUNT: usize = 4;
/// Difference between the nice value of these threads and that of the threads of requests. On a busy
/// processor a thread gets about a tenth of the time of one without it.
const NICE_STEP: i32 = 10;
/// Highest nice value that Linux has.
const NICE_MAX: i32 = 19;

type BackgroundStep = Box<dyn FnOnce() + Send>;

/// The queue of steps. The threads start with the first step, and serve all nodes of the process.
static THREADS: LazyLock<Sender<BackgroundStep>> = LazyLock::new(start);

/// Runs a step on one of the threads. Returns the payload of its panic as the inner error, and `None` if
/// no thread could be started.
pub(super) async fn run<T: Send + 'static>(
    step: impl FnOnce() -> T + Send + 'static,
) -> Option<Result<T, Box<dyn Any + Send>>> {
    let (answer, answered) = oneshot::channel();
    let step = move || {
        // If the caller stopped waiting before the step's turn came, the step is dropped. If it stops
        // later, its answer is dropped.
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

/// Raises the nice value of the calling thread, so that the system prefers threads that serve requests.
/// If the priority can't be set, the thread works like any other.
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
