//! Where steps that may wait for the disk are done.

mod background;

pub use background::lower_thread_priority;

use crate::error::RequestError;

/// How steps that wait for the disk, or read it in long strides, are kept from holding up others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Blocking {
    /// By other threads of the runtime, which has to be a multi-threaded one.
    #[default]
    Pool,
    /// Not at all: on the calling task, at once. For runtimes of one thread, where a run has to be the
    /// same whenever it is repeated.
    Inline,
}

impl Blocking {
    /// Does a step that waits for the disk in the midst of a request. The runtime moves the thread's other
    /// tasks away first.
    ///
    /// # Panics
    ///
    /// With [`Blocking::Pool`] on a runtime of one thread.
    pub(crate) fn in_place<T>(self, step: impl FnOnce() -> T) -> T {
        match self {
            Self::Pool => tokio::task::block_in_place(step),
            Self::Inline => step(),
        }
    }

    /// Does a step that reads files in long strides, where that disturbs no request.
    ///
    /// # Errors
    ///
    /// The step's own; `Overload` while the runtime shuts down.
    pub(crate) async fn aside<T: Send + 'static>(
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

    /// Does a step that no request waits for, with the time that requests leave.
    ///
    /// # Errors
    ///
    /// The step's own; `Overload` where there are no threads for it.
    pub(crate) async fn behind<T: Send + 'static>(
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

/// Lets threads run that wait for the processor.
///
/// Steps that take many locks for a moment, which requests want as well, have the priority of requests and
/// give way between two records, while they hold none. A thread of lower priority that is put aside while it
/// holds a lock makes requests wait until its next turn.
pub(crate) fn give_way() {
    std::thread::yield_now();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::ThreadId;

    async fn threads_of(blocking: Blocking) -> [ThreadId; 4] {
        let here = || std::thread::current().id();
        let aside = blocking.aside(move || Ok(here())).await.expect("the step succeeds");
        let behind = blocking.behind(move || Ok(here())).await.expect("the step succeeds");
        [here(), blocking.in_place(here), aside, behind]
    }

    #[tokio::test]
    async fn inline_steps_stay_on_the_only_thread() {
        let [own, in_place, aside, behind] = threads_of(Blocking::Inline).await;
        assert_eq!([own, own, own], [in_place, aside, behind]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn long_steps_of_a_pool_leave_the_thread() {
        let [own, in_place, aside, behind] = threads_of(Blocking::Pool).await;
        assert_eq!(own, in_place);
        assert_ne!(own, aside);
        assert!(behind != own && behind != aside);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_is_behind_gets_what_others_leave_and_its_panics_reach_the_caller() {
        let nice =
            || rustix::process::getpriority_process(None).map_err(|_| RequestError::Overload);
        let own = nice().expect("a priority");
        let behind = Blocking::Pool.behind(nice).await.expect("the step succeeds");
        assert!(behind > own, "{behind} beside {own}");
        let panics = tokio::spawn(Blocking::Pool.behind(|| -> Result<(), RequestError> {
            std::panic::resume_unwind(Box::new("on purpose"))
        }));
        assert!(panics.await.is_err_and(|fault| fault.is_panic()));
        Blocking::Pool.behind(|| Ok(())).await.expect("threads go on after a panic");
    }
}
