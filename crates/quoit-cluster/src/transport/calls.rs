//! The calls of one lane that wait for answers.

use super::error::CallError;
use super::replies::{Reply, Sink, StreamRef};
use super::statistics::{MethodCounts, PeerStatistics};
use crate::liveness::LatencyEstimate;
use prost::Message;
use quoit_number::{length_u32, saturating_u64};
use quoit_wire::internode::{FLAG_LAST, FrameKind, InternodeFrame, Refusal};
use slab::Slab;
use std::sync::Arc;
use tokio::time::Instant;

/// Maximum number of calls of a connection: the lower half of a call's number is its index.
pub(super) const CALLS_MAX: u32 = 1 << 16;

/// Number of open calls up to which their total is checked in debug builds.
const CHECKED_CALL_COUNT_MAX: usize = 16;

/// State of the connection of a lane.
#[derive(Debug, Clone)]
pub(super) enum Status {
    /// Not dialed. The first call has it dialed.
    Idle,
    /// Being dialed for the first time, or for a call. Calls wait.
    Dialing,
    Open,
    /// Could not be dialed, or broke. Calls fail with this reason until there is a connection again.
    Down(Arc<str>),
}

/// An answer for a caller. It is handed over outside the lane's lock.
pub(super) struct Delivery {
    sink: Arc<Sink>,
    slot: u16,
    answer: Result<Reply, CallError>,
    stream: Option<StreamRef>,
}

impl Delivery {
    /// Hands the answer over. Returns false if the caller no longer waits for it.
    pub(super) fn hand_over(self) -> bool {
        self.sink.deliver(self.slot, self.answer, self.stream)
    }
}

/// A call that has not had its last answer.
pub(super) struct Call {
    id: u32,
    sink: Arc<Sink>,
    slot: u16,
    /// Position of its frame in the stream of all frames of the lane.
    begins_at: u64,
    sent_at: Instant,
    size_bytes: u64,
    is_answered: bool,
    /// Set if the answers are a stream.
    stream: Option<StreamRef>,
}

impl Call {
    pub(super) const fn begins_at(&self) -> u64 {
        self.begins_at
    }

    /// Ends the call with `error`.
    pub(super) fn fail(self, error: CallError) -> Delivery {
        let Self { sink, slot, stream, .. } = self;
        Delivery { sink, slot, answer: Err(error), stream }
    }
}

/// The receiver of the answers of a new call.
pub(super) struct AnswerReceiver {
    pub(super) sink: Arc<Sink>,
    pub(super) slot: u16,
    pub(super) stream: Option<StreamRef>,
}

/// The open calls by number, and their totals.
pub(super) struct Calls {
    pub(super) status: Status,
    calls: Slab<Call>,
    /// Number of calls so far. It is the upper half of a call's number, so that a number is not reused
    /// soon.
    sequence: u16,
    outstanding_bytes: u64,
    window: Window,
    /// Last time at which an answer came, or at which a call was sent while none was open.
    progress_at: Instant,
    pub(super) latency: LatencyEstimate,
    counts: MethodCounts,
    connected_count: u64,
    too_busy_count: u64,
    /// Answers whose callers no longer waited.
    pub(super) discarded_count: u64,
}

/// Bounds of the open calls of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) bytes: u64,
    pub(super) calls: u32,
}

impl Window {
    /// Returns the narrower bound in each respect.
    pub(super) fn min(self, other: Window) -> Window {
        Window { bytes: self.bytes.min(other.bytes), calls: self.calls.min(other.calls) }
    }

    /// Returns the bounds with no more calls than there are numbers for.
    fn numbered(self) -> Window {
        Window { calls: self.calls.min(CALLS_MAX), ..self }
    }

    /// Returns true if a request fits beside the open ones. A single request always fits, whatever its
    /// size.
    pub(super) fn has_room(self, open: OpenRequests, size_bytes: u64) -> bool {
        open.count == 0 || (open.count < self.calls && open.bytes + size_bytes <= self.bytes)
    }
}

/// The requests of a connection that have no last answer yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenRequests {
    pub(super) bytes: u64,
    pub(super) count: u32,
}

/// Number of bytes of a stream that the requester has used.
#[derive(Debug, Clone, Copy)]
pub(super) struct TakenBytes(pub(super) u32);

/// A request whose frame was appended.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentRequest {
    pub(super) method: u16,
    /// Position of its frame in the stream of all frames of the lane.
    pub(super) begins_at: u64,
    pub(super) size_bytes: u64,
}

impl Calls {
    pub(super) fn new(status: Status, window: Window) -> Calls {
        Calls {
            status,
            calls: Slab::new(),
            sequence: 0,
            outstanding_bytes: 0,
            window: window.numbered(),
            progress_at: Instant::now(),
            latency: LatencyEstimate::default(),
            counts: MethodCounts::default(),
            connected_count: 0,
            too_busy_count: 0,
            discarded_count: 0,
        }
    }

    pub(super) fn len(&self) -> u32 {
        length_u32(self.calls.len())
    }

    /// Notes that there is a connection with the bounds `window`.
    pub(super) fn opened(&mut self, window: Window) {
        self.status = Status::Open;
        self.window = window.numbered();
        self.connected_count += 1;
    }

    pub(super) fn add_to(&self, statistics: &mut PeerStatistics) {
        statistics.connected_count += self.connected_count;
        statistics.too_busy_count += self.too_busy_count;
        statistics.discarded_count += self.discarded_count;
        statistics.calls.add(&self.counts);
    }

    /// Checks whether one more request of `size_bytes` may be sent.
    pub(super) fn check_window(&mut self, size_bytes: u64) -> Result<(), CallError> {
        let outstanding_count = self.len();
        let open = OpenRequests { bytes: self.outstanding_bytes, count: outstanding_count };
        if self.window.has_room(open, size_bytes) {
            return Ok(());
        }
        self.too_busy_count += 1;
        Err(CallError::TooBusy { outstanding_bytes: self.outstanding_bytes, outstanding_count })
    }

    /// Returns the number of the next call.
    pub(super) fn next_id(&self) -> u32 {
        // The index is below `CALLS_MAX`, because the window allows no more calls.
        let index = length_u32(self.calls.vacant_key());
        debug_assert!(index < CALLS_MAX, "the index of a call is half of its number");
        u32::from(self.sequence) << 16 | index
    }

    /// Adds the call with the number that [`next_id`](Self::next_id) returned.
    pub(super) fn begin(&mut self, taker: AnswerReceiver, sent: SentRequest, now: Instant) {
        let SentRequest { method, begins_at, size_bytes } = sent;
        self.counts.count(method);
        if self.calls.is_empty() {
            self.progress_at = now;
        }
        let id = self.next_id();
        self.sequence = self.sequence.wrapping_add(1);
        self.outstanding_bytes += size_bytes;
        let AnswerReceiver { sink, slot, stream } = taker;
        let index = self.calls.insert(Call {
            id,
            sink,
            slot,
            begins_at,
            sent_at: now,
            size_bytes,
            is_answered: false,
            stream,
        });
        debug_assert_eq!(index, (id & 0xffff) as usize, "the number of a call has its index");
        self.assert_total();
    }

    /// In debug builds, asserts that the total of the open calls is right, if they are few.
    fn assert_total(&self) {
        if cfg!(debug_assertions) && self.calls.len() <= CHECKED_CALL_COUNT_MAX {
            let size_bytes: u64 = self.calls.iter().map(|(_, call)| call.size_bytes).sum();
            assert_eq!(self.outstanding_bytes, size_bytes, "the total is that of the open calls");
        }
    }

    /// Returns true if the call has not had its last answer.
    pub(super) fn is_open(&self, call: u32) -> bool {
        self.calls.get((call & 0xffff) as usize).is_some_and(|open| open.id == call)
    }

    /// Takes an answer or a refusal. Returns `None` if the call does not exist, or not any more.
    pub(super) fn answered(&mut self, frame: InternodeFrame, now: Instant) -> Option<Delivery> {
        let index = (frame.prefix.call & 0xffff) as usize;
        let call = self.calls.get_mut(index).filter(|call| call.id == frame.prefix.call)?;
        self.progress_at = now;
        if !call.is_answered {
            call.is_answered = true;
            let latency = now.saturating_duration_since(call.sent_at);
            self.latency.record(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
        }
        let (answer, last) = if frame.prefix.kind == FrameKind::Refusal as u8 {
            (Err(refused(&frame)), true)
        } else {
            let last = frame.prefix.flags & FLAG_LAST != 0;
            (Ok(Reply { header: frame.header, payload: frame.payload, last }), last)
        };
        if !last {
            let (sink, stream) = (Arc::clone(&call.sink), call.stream.clone());
            return Some(Delivery { sink, slot: call.slot, answer, stream });
        }
        let Call { sink, slot, stream, size_bytes, .. } = self.calls.remove(index);
        self.outstanding_bytes -= size_bytes;
        self.assert_total();
        Some(Delivery { sink, slot, answer, stream })
    }

    /// Removes all calls, in the order of their indexes. Nothing will answer them.
    pub(super) fn take_all(&mut self) -> Vec<Call> {
        self.outstanding_bytes = 0;
        self.calls.drain().collect()
    }

    /// Removes the calls whose frames begin before `position`, in the order of their indexes.
    pub(super) fn take_before(&mut self, position: u64) -> Vec<Call> {
        let is_before = |call: &Call| call.begins_at < position;
        let keys = self.calls.iter().filter(|(_, call)| is_before(call)).map(|(key, _)| key);
        let keys: Vec<usize> = keys.collect();
        let taken: Vec<Call> = keys.into_iter().map(|key| self.calls.remove(key)).collect();
        self.outstanding_bytes -= taken.iter().map(|call| call.size_bytes).sum::<u64>();
        self.assert_total();
        debug_assert!(!self.has_before(position), "no call before the position stays open");
        taken
    }

    /// Returns true if the frame of an open call begins before `position`.
    pub(super) fn has_before(&self, position: u64) -> bool {
        self.calls.iter().any(|(_, call)| call.begins_at < position)
    }

    /// Returns the time for which calls have waited without any answer, in microseconds; 0 if no call is
    /// open.
    pub(super) fn stalled_us(&self, now: Instant) -> u64 {
        if self.calls.is_empty() {
            return 0;
        }
        saturating_u64(now.saturating_duration_since(self.progress_at).as_micros())
    }
}

fn refused(frame: &InternodeFrame) -> CallError {
    match Refusal::decode(&frame.header[..]) {
        Ok(refusal) => CallError::Refused { code: refusal.code, text: refusal.text.into() },
        Err(fault) => CallError::Refused {
            code: 0,
            text: format!("the refusal can't be read: {fault}").into(),
        },
    }
}
