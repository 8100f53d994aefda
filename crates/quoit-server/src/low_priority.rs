//! Threads of a lower priority than those that serve requests. The system preempts them whenever a serving
//! thread is ready, and gives them about a tenth of a processor while requests use all of it.

use std::future::Future;
use std::io;
use std::panic::resume_unwind;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// A runtime of its own for tasks that take a processor for long.
#[derive(Debug)]
pub(crate) struct LowPriority {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl LowPriority {
    /// Starts one thread with this name.
    ///
    /// # Errors
    ///
    /// When the system has no thread, or no descriptor for the runtime's events.
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(name)
            .on_thread_start(quoit_core::lower_thread_priority)
            .enable_time()
            .build()?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Does `work` on the thread. Dropping the returned future cancels the work. A panic of the work
    /// continues in the caller.
    ///
    /// # Errors
    ///
    /// While the process ends.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        let runtime = self.runtime.as_ref().ok_or_else(|| io::Error::other("stopped"))?;
        let mut task = AbortOnDrop(runtime.spawn(work));
        match (&mut task.0).await {
            Ok(done) => Ok(done),
            Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
            Err(ended) => Err(io::Error::other(ended)),
        }
    }
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for LowPriority {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn blocking_and_panicking_tasks_do_not_stop_the_thread() {
        let threads = Arc::new(LowPriority::start("test").expect("a thread"));
        let waits = threads.run(async { tokio::task::block_in_place(|| 7) });
        assert_eq!(waits.await.expect("it runs"), 7);
        let panics = Arc::clone(&threads);
        let panics =
            tokio::spawn(async move { panics.run(async { panic!("as the test wants") }).await });
        let ended: Result<io::Result<()>, _> = panics.await;
        assert!(ended.is_err_and(|ended| ended.is_panic()));
        assert_eq!(threads.run(async { 8 }).await.expect("it goes on"), 8);
    }
}
