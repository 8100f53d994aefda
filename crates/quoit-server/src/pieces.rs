//! Long work of connections in pieces: between two pieces, the thread serves everything else that is ready.
//!
//! A connection with large requests or answers, or with many of them, yields after each piece of its work.
//! Yielding alone does not help the other connections: the thread's run queue then holds one piece of each
//! such connection, and the runtime polls the network only after dozens of tasks. Therefore the connections
//! that yield wait in one queue, and only the first of them continues after each poll of the network.

use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// The queue of connections that wait to do their next piece of work.
#[derive(Debug)]
pub(crate) struct YieldQueue(Semaphore);

impl Default for YieldQueue {
    fn default() -> Self {
        Self(Semaphore::const_new(1))
    }
}

impl YieldQueue {
    /// Waits for the pieces that came before, and then until everything that is ready now has been served.
    pub(crate) async fn next(&self) {
        // The semaphore is never closed.
        let first = self.0.acquire().await;
        // The runtime polls the network before it resumes a task that has yielded.
        yield_now().await;
        drop(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn one_piece_is_done_between_two_turns_of_a_task_that_is_ready() {
        const COUNT: u32 = 100;
        let (pieces, done) = (Arc::new(YieldQueue::default()), Arc::new(AtomicU32::new(0)));
        for _ in 0..COUNT {
            let (pieces, done) = (Arc::clone(&pieces), Arc::clone(&done));
            tokio::spawn(async move {
                pieces.next().await;
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        let mut before = 0;
        while before < COUNT {
            yield_now().await;
            let now = done.load(Ordering::Relaxed);
            assert!(now <= before + 1, "{} pieces kept a ready task waiting", now - before);
            before = now;
        }
    }
}
