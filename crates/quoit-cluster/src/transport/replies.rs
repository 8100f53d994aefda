//! Where the answers of the calls of one request gather.

use super::error::CallError;
use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// One answer. Header and payload are slices of the buffer that they were read into, and keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// An encoded message; which one is up to the method.
    pub header: Bytes,
    /// Bytes that are no message: a value, mostly.
    pub payload: Bytes,
    /// Whether no more answers of this call follow.
    pub last: bool,
}

/// An answer, or why there is none, with the slot that the call was sent with.
pub type Answered = (u16, Result<Reply, CallError>);

/// Gathers answers of several calls. Dropping it abandons the calls: what still comes is discarded.
///
/// Costs one allocation, whatever the number of calls up to four.
#[derive(Default)]
pub struct Replies {
    sink: Arc<Sink>,
}

/// The end at which answers come in.
#[derive(Default)]
pub(super) struct Sink {
    gathered: Mutex<Gathered>,
}

#[derive(Default)]
struct Gathered {
    answers: SmallVec<[Answered; 4]>,
    waker: Option<Waker>,
    /// Calls whose last answer has not come.
    open_count: u32,
    is_abandoned: bool,
}

impl Replies {
    /// Without any call yet.
    #[must_use]
    pub fn new() -> Replies {
        Replies::default()
    }

    /// The next answer in the order of arrival; `None` when every call has had its last one. An error is
    /// the last answer of its call.
    pub async fn next(&mut self) -> Option<Answered> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`next`](Self::next), for hand-written futures.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Answered>> {
        let mut gathered = self.sink.gathered.lock();
        if let Some(answer) = gathered.take_first() {
            return Poll::Ready(Some(answer));
        }
        if gathered.open_count == 0 {
            return Poll::Ready(None);
        }
        match &mut gathered.waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => gathered.waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// An answer that is here already.
    pub fn try_next(&mut self) -> Option<Answered> {
        self.sink.gathered.lock().take_first()
    }

    /// How many calls have not had their last answer; answers that are here and not taken don't count.
    #[must_use]
    pub fn open_count(&self) -> u32 {
        self.sink.gathered.lock().open_count
    }

    /// Counts a call as sent.
    pub(super) fn begin(&self) -> Arc<Sink> {
        self.sink.gathered.lock().open_count += 1;
        Arc::clone(&self.sink)
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        let mut gathered = self.sink.gathered.lock();
        gathered.is_abandoned = true;
        let answers = std::mem::take(&mut gathered.answers);
        drop(gathered);
        drop(answers);
    }
}

impl Gathered {
    fn take_first(&mut self) -> Option<Answered> {
        (!self.answers.is_empty()).then(|| self.answers.remove(0))
    }
}

impl Sink {
    /// Hands an answer in and wakes who waits. False when nobody will take it.
    pub(super) fn deliver(&self, slot: u16, answer: Result<Reply, CallError>) -> bool {
        let mut gathered = self.gathered.lock();
        if answer.as_ref().map_or(true, |reply| reply.last) {
            gathered.open_count -= 1;
        }
        if gathered.is_abandoned {
            return false;
        }
        gathered.answers.push((slot, answer));
        let waker = gathered.waker.take();
        drop(gathered);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}
