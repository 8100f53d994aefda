//! Threads for steps that wait for the disk or take long: such a step must not hold up the other requests
//! of the thread that starts it.
//!
//! There are three ways to run one: [`Blocking::in_place`] on the calling thread, in the midst of a
//! request; [`Blocking::on_pool`] on another thread with the priority of requests, as for reads of cold
//! records, listings and reaping; and [`Blocking::at_low_priority`] on a thread that gets only the time that
//! requests leave, as for transfers and exchanges.

mod background;

pub use background::lower_thread_priority;

use crate::error::RequestError;

/// The place where blocking steps run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Blocking {
    /// On other threads. The runtime has to be multi-threaded.
    #[default]
    Pool,
    /// On the calling task, at once. For runtimes of one thread whose runs must be reproducible, as in
    /// simulation.
    Inline,
}

impl Blocking {
    /// Runs a step that waits for the disk as part of a request, on the calling thread. The runtime first
    /// moves the thread's other tasks to another thread.
    ///
    /// # Panics
    ///
    /// With [`Blocking::Pool`], on a runtime of one thread.
    pub(crate) fn in_place<T>(self, step: impl FnOnce() -> T) -> T {
        match self {
            Self::Pool => tokio::task::block_in_place(step),
            Self::Inline => step(),
        }
    }

    /// Runs a step that reads much or waits for the disk on the runtime's pool of blocking threads, with
    /// the priority of requests.
    ///
    /// # Errors
    ///
    /// Errors of the step; `Overload` while the runtime shuts down.
    pub(crate) async fn on_pool<T: Send + 'static>(
        self,
        step: impl FnOnce() -> Result<T, RequestError> + Send + 'static,
    ) -> Result<T, RequestError> {
        if self == Self::Inline {
            return step();
        }
        match tokio::task::spawn_blocking(step).await {
            Ok(result) => result,
            Err(stopped) if stopped.is_panic() => std::panic::resume_unwind(stopped.into_panic()),
            Err(_) => Err(RequestError::Overload),
        }
    }

    /// Runs a step that no request waits for on a thread of low priority ([`lower_thread_priority`]).
    ///
    /// # Errors
    ///
    /// Errors of the step; `Overload` if no such thread could be started.
    pub(crate) async fn at_low_priority<T: Send + 'static>(
        self,
        step: impl FnOnce() -> Result<T, RequestError> + Send + 'static,
    ) -> Result<T, RequestError> {
        if self == Self::Inline {
            return step();
        }
        match background::run(step).await {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Err(RequestError::Overload),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::ThreadId;

    async fn threads_of(blocking: Blocking) -> [ThreadId; 4] {
        let here = || std::thread::current().id();
        let on_pool = blocking.on_pool(move || Ok(here())).await.expect("the step succeeds");
        let at_low_priority =
            blocking.at_low_priority(move || Ok(here())).await.expect("the step succeeds");
        [here(), blocking.in_place(here), on_pool, at_low_priority]
    }

    #[tokio::test]
    async fn inline_steps_stay_on_the_only_thread() {
        let [own, in_place, on_pool, at_low_priority] = threads_of(Blocking::Inline).await;
        assert_eq!([own, own, own], [in_place, on_pool, at_low_priority]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn long_steps_of_a_pool_leave_the_thread() {
        let [own, in_place, on_pool, at_low_priority] = threads_of(Blocking::Pool).await;
        assert_eq!(own, in_place);
        assert_ne!(own, on_pool);
        assert!(at_low_priority != own && at_low_priority != on_pool);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn background_steps_have_low_priority_and_their_panics_reach_the_caller() {
        let nice =
            || rustix::process::getpriority_process(None).map_err(|_| RequestError::Overload);
        let own = nice().expect("a priority");
        let at_low_priority =
            Blocking::Pool.at_low_priority(nice).await.expect("the step succeeds");
        assert!(at_low_priority > own, "{at_low_priority} beside {own}");
        let panics =
            tokio::spawn(Blocking::Pool.at_low_priority(|| -> Result<(), RequestError> {
                std::panic::resume_unwind(Box::new("on purpose"))
            }));
        assert!(panics.await.is_err_and(|fault| fault.is_panic()));
        Blocking::Pool.at_low_priority(|| Ok(())).await.expect("threads go on after a panic");
    }
}
