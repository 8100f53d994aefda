//! The threads that run the workers of this process.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::shared::Shared;
use super::thread::run_thread;
use super::{RunEnd, RunError};

/// Waits for all threads. A panic of a thread itself is not the crash of a worker: its counts are lost, so
/// the run fails.
pub(super) fn join(threads: Vec<JoinHandle<std::io::Result<()>>>) -> Result<(), RunError> {
    let mut joined = Ok(());
    for thread in threads {
        if let Err(error) = thread.join().unwrap_or_else(|_| Err(std::io::Error::other("panic"))) {
            joined = Err(RunError::Thread(error));
        }
    }
    joined
}

/// Starts the threads. The workers of the share are dealt out to them in turn.
pub(super) fn start_threads(
    shared: &Arc<Shared>,
    thread_count: usize,
) -> Result<Vec<JoinHandle<std::io::Result<()>>>, RunError> {
    let mut threads = Vec::new();
    for thread in 0..thread_count {
        let workers = shared.share.workers(shared.worker_count);
        let numbers: Vec<u32> = workers.skip(thread).step_by(thread_count).collect();
        let of_thread = shared.clone();
        let started =
            std::thread::Builder::new().name(format!("bench-{thread}")).spawn(move || {
                let _finish = Finish { shared: of_thread.clone(), thread };
                let ran = run_thread(&of_thread, thread, numbers);
                if ran.is_err() {
                    of_thread.control.request_end(RunEnd::Crashed);
                }
                ran
            });
        match started {
            Ok(handle) => threads.push(handle),
            Err(error) => {
                shared.control.stop();
                return Err(RunError::Thread(error));
            }
        }
    }
    Ok(threads)
}

/// Reports to the collector that a thread is done, however it ended.
struct Finish {
    shared: Arc<Shared>,
    thread: usize,
}

impl Drop for Finish {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.control.request_end(RunEnd::Crashed);
        }
        self.shared.collector.finish(self.thread);
    }
}
