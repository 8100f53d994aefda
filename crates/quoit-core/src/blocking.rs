//! Where steps that may wait for the disk are done.

mod background;

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

    /// Does a step that reads files in long strides, where that disturbs nobody.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::ThreadId;

    async fn threads_of(blocking: Blocking) -> [ThreadId; 3] {
        let here = || std::thread::current().id();
        let aside = blocking.aside(move || Ok(here())).await.expect("the step succeeds");
        [here(), blocking.in_place(here), aside]
    }

    #[tokio::test]
    async fn inline_steps_stay_on_the_only_thread() {
        let [own, in_place, aside] = threads_of(Blocking::Inline).await;
        assert_eq!([own, own], [in_place, aside]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn long_steps_of_a_pool_leave_the_thread() {
        let [own, in_place, aside] = threads_of(Blocking::Pool).await;
        assert_eq!(own, in_place);
        assert_ne!(own, aside);
    }
}
