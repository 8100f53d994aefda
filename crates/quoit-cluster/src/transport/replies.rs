//! Gathering of the answers to the calls of one request.

use super::error::CallError;
use super::peer::Peer;
use super::{Lane, TakenBytes};
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_number::length_u32;
use smallvec::SmallVec;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// One answer. Header and payload are slices of the buffer that they were read into, and keep it alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// An encoded message of the kind that the method defines.
    pub header: Bytes,
    /// Bytes that are not a message, usually a value.
    pub payload: Bytes,
    /// True if no more answers of this call follow.
    pub last: bool,
}

/// An answer or an error, with the slot that the call was sent with.
pub type SlotAnswer = (u16, Result<Reply, CallError>);

/// Receiver of failures of calls whose callers no longer wait.
pub trait LateFailureListener: Send + Sync {
    /// Called once for all calls of one [`Replies`], when the first of them fails. `note` is the data that
    /// the caller left for this case. Called on the task that notices the failure: it must not block.
    fn failed(&self, note: Bytes);
}

/// Gathers answers of several calls. Dropping it abandons the calls: later answers are discarded, and streams
/// are cancelled. Other calls still take effect at the called node, because a write must continue when its
/// coordinator no longer waits for it.
///
/// Costs one allocation for up to four calls.
#[derive(Default)]
pub struct Replies {
    sink: Arc<Sink>,
}

/// The end at which answers arrive.
#[derive(Default)]
pub(super) struct Sink {
    gathered: Mutex<GatheredAnswers>,
}

#[derive(Default)]
struct GatheredAnswers {
    answers: SmallVec<[GatheredAnswer; 4]>,
    waker: Option<Waker>,
    /// Number of calls without a last answer.
    open_count: u32,
    is_abandoned: bool,
    /// Streams without a last answer.
    streams: Vec<StreamRef>,
    /// Receiver of calls that fail after this object is dropped.
    late: Option<LateFailureNote>,
}

struct LateFailureNote {
    told: Arc<dyn LateFailureListener>,
    note: Bytes,
}

impl LateFailureNote {
    fn tell(self) {
        self.told.failed(self.note);
    }
}

struct GatheredAnswer {
    answer: SlotAnswer,
    stream: Option<StreamRef>,
}

/// A reference to an open stream.
#[derive(Clone)]
pub(super) struct StreamRef {
    pub(super) peer: Arc<Peer>,
    pub(super) lane: Lane,
    pub(super) call: u32,
}

impl StreamRef {
    fn is(&self, other: &StreamRef) -> bool {
        Arc::ptr_eq(&self.peer, &other.peer) && self.lane == other.lane && self.call == other.call
    }
}

impl Replies {
    /// Creates an object without any call yet.
    #[must_use]
    pub fn new() -> Replies {
        Replies::default()
    }

    /// Returns the next answer in the order of arrival; `None` when every call has had its last one. An
    /// error is the last answer of its call.
    pub async fn next(&mut self) -> Option<SlotAnswer> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Works like [`next`](Self::next), for hand-written futures.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<SlotAnswer>> {
        let mut gathered = self.sink.gathered.lock();
        if let Some(gotten) = gathered.take_first() {
            drop(gathered);
            return Poll::Ready(Some(gotten.taken()));
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

    /// Returns an answer that has already arrived.
    pub fn try_next(&mut self) -> Option<SlotAnswer> {
        let gotten = self.sink.gathered.lock().take_first();
        gotten.map(GatheredAnswer::taken)
    }

    /// Returns the number of calls without a last answer. Calls whose last answer has arrived but was
    /// not taken do not count.
    #[must_use]
    pub fn open_count(&self) -> u32 {
        self.sink.gathered.lock().open_count
    }

    /// Abandons the calls. If one of them fails later, `told` is notified with `note`.
    pub fn leave(self, told: Arc<dyn LateFailureListener>, note: Bytes) {
        self.sink.gathered.lock().late = Some(LateFailureNote { told, note });
    }

    /// Counts a call as sent.
    pub(super) fn begin(&self) -> Arc<Sink> {
        self.sink.gathered.lock().open_count += 1;
        Arc::clone(&self.sink)
    }

    /// Adds a stream, which is cancelled when this object is dropped.
    pub(super) fn add_stream(&self, stream: StreamRef) {
        self.sink.gathered.lock().streams.push(stream);
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        let mut gathered = self.sink.gathered.lock();
        gathered.is_abandoned = true;
        let answers = std::mem::take(&mut gathered.answers);
        let streams = std::mem::take(&mut gathered.streams);
        let has_failed = answers.iter().any(|gotten| gotten.answer.1.is_err());
        let late = if has_failed { gathered.late.take() } else { None };
        drop(gathered);
        drop(answers);
        if let Some(late) = late {
            late.tell();
        }
        for stream in streams {
            stream.peer.cancel(stream.lane, stream.call);
        }
    }
}

impl GatheredAnswer {
    /// Lets the stream send as many bytes as this answer has.
    fn taken(self) -> SlotAnswer {
        let GatheredAnswer { answer, stream } = self;
        if let (Some(stream), Ok(reply)) = (stream, &answer.1)
            && !reply.last
        {
            let taken_bytes = reply.header.len() + reply.payload.len();
            // No frame is longer than 4 GiB.
            let taken = TakenBytes(length_u32(taken_bytes));
            stream.peer.extend_window(stream.lane, stream.call, taken);
        }
        answer
    }
}

impl GatheredAnswers {
    fn take_first(&mut self) -> Option<GatheredAnswer> {
        (!self.answers.is_empty()).then(|| self.answers.remove(0))
    }
}

impl Sink {
    /// Hands an answer over and wakes the waiting task. Returns false if no caller will take it.
    pub(super) fn deliver(
        &self,
        slot: u16,
        answer: Result<Reply, CallError>,
        stream: Option<StreamRef>,
    ) -> bool {
        let mut gathered = self.gathered.lock();
        if answer.as_ref().map_or(true, |reply| reply.last) {
            debug_assert!(gathered.open_count > 0, "a call has one last answer");
            gathered.open_count -= 1;
            if let Some(stream) = &stream {
                gathered.streams.retain(|open| !open.is(stream));
            }
        }
        if gathered.is_abandoned {
            let late = if answer.is_err() { gathered.late.take() } else { None };
            drop(gathered);
            if let Some(late) = late {
                late.tell();
            }
            return false;
        }
        gathered.answers.push(GatheredAnswer { answer: (slot, answer), stream });
        let waker = gathered.waker.take();
        drop(gathered);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}
