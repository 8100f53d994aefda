//! The serving end of a connection on which another node sends requests.

use super::error::Fault;
use super::greeting::Greeted;
use super::outbox::{FailedWrite, Inner, Outbox, Urgency};
use super::statistics::{MethodCounts, ServiceStatistics, Traffic};
use super::{OpenRequests, TakenBytes, Window};
use parking_lot::MutexGuard;
use prost::Message;
use quoit_number::saturating_u64;
use quoit_wire::internode::{FLAG_LAST, FrameKind, FramePrefix, Payload, Refusal, code};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use tokio::time::Instant;

/// The serving end of a connection, shared by the responders of its requests.
pub(super) struct Inbound {
    outbox: Outbox<Serving>,
    window: Window,
    frame_bytes_max: u32,
    /// Bytes of a stream that the requester accepts before it has used them.
    stream_window_bytes: u32,
    start: Instant,
    heard_after_us: AtomicU64,
    read_count: AtomicU64,
}

/// Requests that have not had their last answer.
#[derive(Default)]
struct Serving {
    outstanding_count: u32,
    outstanding_bytes: u64,
    /// The streams among them, by call.
    streams: BTreeMap<u32, StreamState>,
    requests: MethodCounts,
}

struct StreamState {
    /// Bytes that the requester accepts at present; negative if more were sent.
    window_bytes: i64,
    waiting: Option<Waker>,
    size_bytes: u64,
}

/// A request that is being answered.
pub(super) struct Request {
    pub(super) call: u32,
    pub(super) size_bytes: u64,
    pub(super) is_stream: bool,
}

impl Serving {
    /// Counts a request as answered. Returns false if it was answered before, because it was cancelled.
    fn finish(&mut self, request: &Request) -> bool {
        if request.is_stream && self.streams.remove(&request.call).is_none() {
            return false;
        }
        self.outstanding_count -= 1;
        self.outstanding_bytes -= request.size_bytes;
        true
    }

    /// Returns true if the requester still wants answers to the request.
    fn is_wanted(&self, request: &Request) -> bool {
        !request.is_stream || self.streams.contains_key(&request.call)
    }
}

impl Inbound {
    /// Creates the end of a connection that has just been greeted. `window` are this node's bounds for it.
    pub(super) fn new(greeted: &Greeted, window: Window) -> Inbound {
        Inbound {
            outbox: Outbox::new(Serving::default()),
            window,
            frame_bytes_max: greeted.frame_bytes_max,
            stream_window_bytes: greeted.stream_window_bytes,
            start: Instant::now(),
            heard_after_us: AtomicU64::new(0),
            read_count: AtomicU64::new(0),
        }
    }

    /// Sends an answer, or a refusal if the answer fits into no frame. Returns true if more answers may
    /// follow.
    pub(super) fn answer(
        &self,
        request: &Request,
        is_last: bool,
        header: &impl Message,
        payload: &(impl Payload + ?Sized),
    ) -> bool {
        let flags = if is_last { FLAG_LAST } else { 0 };
        let prefix = FramePrefix { flags, ..FramePrefix::new(FrameKind::Answer, request.call) };
        let mut inner = self.outbox.lock();
        if !inner.is_open() || !inner.state.is_wanted(request) {
            return false;
        }
        match inner.append(prefix, header, payload, self.frame_bytes_max) {
            Ok(size_bytes) => {
                if let Some(stream) = inner.state.streams.get_mut(&request.call) {
                    stream.window_bytes = stream.window_bytes.saturating_sub_unsigned(size_bytes);
                }
                if is_last {
                    inner.state.finish(request);
                }
                self.flush(inner);
                !is_last
            }
            Err(size_bytes) => {
                let text = format!(
                    "the answer of {size_bytes} bytes is above the limit of {} bytes",
                    self.frame_bytes_max
                );
                self.refuse_locked(inner, request, code::TOO_LARGE, text);
                false
            }
        }
    }

    /// Sends a refusal as the last answer.
    pub(super) fn refuse(&self, request: &Request, code: u32, text: String) {
        let inner = self.outbox.lock();
        if inner.is_open() {
            self.refuse_locked(inner, request, code, text);
        }
    }

    fn refuse_locked(
        &self,
        mut inner: MutexGuard<'_, Inner<Serving>>,
        request: &Request,
        code: u32,
        text: String,
    ) {
        if inner.state.finish(request) {
            let prefix = FramePrefix::new(FrameKind::Refusal, request.call);
            let prefix = FramePrefix { flags: FLAG_LAST, ..prefix };
            inner.append_small(prefix, &Refusal { code, text }, &[]);
            self.flush(inner);
        }
    }

    fn flush(&self, inner: MutexGuard<'_, Inner<Serving>>) {
        // If no other request is being served, there is no other answer to write together with this one.
        let is_only = inner.state.outstanding_count == 0;
        self.outbox.flush(inner, if is_only { Urgency::Now } else { Urgency::Soon });
    }

    /// Waits until the requester accepts more of a stream, and returns true. Returns false if it accepts no
    /// more, because it has cancelled the stream or the connection has ended.
    pub(super) fn poll_ready(&self, request: &Request, task: &mut Context<'_>) -> Poll<bool> {
        let mut inner = self.outbox.lock();
        if !inner.is_open() {
            return Poll::Ready(false);
        }
        if !request.is_stream {
            return Poll::Ready(true);
        }
        match inner.state.streams.get_mut(&request.call) {
            None => Poll::Ready(false),
            Some(stream) if stream.window_bytes > 0 => Poll::Ready(true),
            Some(stream) => {
                stream.waiting = Some(task.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Notes that the requester has used bytes of a stream.
    pub(super) fn extend_window(&self, call: u32, taken: TakenBytes) {
        let mut inner = self.outbox.lock();
        let waiting = inner.state.streams.get_mut(&call).and_then(|stream| {
            stream.window_bytes = stream.window_bytes.saturating_add(i64::from(taken.0));
            stream.waiting.take().filter(|_| stream.window_bytes > 0)
        });
        drop(inner);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Cancels a stream. Other calls cannot be cancelled, because a write must reach all replicas.
    pub(super) fn cancel(&self, call: u32) {
        let mut inner = self.outbox.lock();
        let Some(stream) = inner.state.streams.get_mut(&call) else { return };
        let (waiting, size_bytes) = (stream.waiting.take(), stream.size_bytes);
        let request = Request { call, size_bytes, is_stream: true };
        self.refuse_locked(inner, &request, code::CANCELLED, "the call was cancelled".to_owned());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Counts a request as received.
    ///
    /// # Errors
    ///
    /// If the requester exceeds the window, or uses the number of an open stream again.
    pub(super) fn begin(&self, request: &Request, method: u16) -> Result<(), Fault> {
        let mut inner = self.outbox.lock();
        inner.traffic.received(request.size_bytes);
        let serving = &mut inner.state;
        serving.requests.count(method);
        let (bytes, count) = (serving.outstanding_bytes, serving.outstanding_count);
        if !self.window.has_room(OpenRequests { bytes, count }, request.size_bytes) {
            let Window { bytes: window_bytes, calls: window_calls } = self.window;
            return Err(Fault::WindowExceeded { window_bytes, window_calls });
        }
        if request.is_stream {
            let window_bytes = i64::from(self.stream_window_bytes.max(1));
            let size_bytes = request.size_bytes;
            let stream = StreamState { window_bytes, waiting: None, size_bytes };
            if serving.streams.insert(request.call, stream).is_some() {
                return Err(Fault::CallTwice { call: request.call });
            }
        }
        serving.outstanding_count += 1;
        serving.outstanding_bytes += request.size_bytes;
        Ok(())
    }

    /// Counts a frame that is not a request, and answers it if it is a ping.
    pub(super) fn other_frame(&self, kind: u8, size_bytes: u64) {
        let mut inner = self.outbox.lock();
        inner.traffic.received(size_bytes);
        if kind == FrameKind::Ping as u8 {
            inner.append_small(FramePrefix::new(FrameKind::Pong, 0), &(), &[]);
        }
    }

    /// Asks the requester to send no more on this connection.
    pub(super) fn say_goodbye(&self) {
        let mut inner = self.outbox.lock();
        if inner.is_open() {
            inner.append_small(FramePrefix::new(FrameKind::Goodbye, 0), &(), &[]);
            self.outbox.flush(inner, Urgency::Now);
        }
    }

    /// Returns true if all answers have been written.
    pub(super) fn is_idle(&self) -> bool {
        let inner = self.outbox.lock();
        !inner.is_open() || (inner.state.outstanding_count == 0 && inner.unwritten_bytes() == 0)
    }

    /// Returns the time for which the peer has sent nothing, in microseconds.
    pub(super) fn silent_us(&self, now: Instant) -> u64 {
        self.since_start_us(now).saturating_sub(self.heard_after_us.load(Ordering::Relaxed))
    }

    /// Notes that a read has brought bytes.
    pub(super) fn heard(&self, now: Instant) {
        self.heard_after_us.store(self.since_start_us(now), Ordering::Relaxed);
        self.read_count.fetch_add(1, Ordering::Relaxed);
    }

    fn since_start_us(&self, now: Instant) -> u64 {
        saturating_u64(now.saturating_duration_since(self.start).as_micros())
    }

    pub(super) fn statistics(&self) -> ServiceStatistics {
        let inner = self.outbox.lock();
        let read_count = self.read_count.load(Ordering::Relaxed);
        let (traffic, requests) =
            (Traffic { read_count, ..inner.traffic }, inner.state.requests.clone());
        ServiceStatistics { traffic, requests, refused_count: 0 }
    }

    /// Makes responders write to the connection.
    pub(super) fn open(&self, writer: super::outbox::BoxWriter) {
        // This end does not need to know which answers have left.
        self.outbox.lock().open(writer, FailedWrite::MaySend);
    }

    /// Ends the connection.
    pub(super) fn close(&self) {
        let mut inner = self.outbox.lock();
        inner.close();
        let streams = std::mem::take(&mut inner.state.streams);
        drop(inner);
        streams.into_values().filter_map(|stream| stream.waiting).for_each(Waker::wake);
    }

    /// Holds answers back until [`uncork`](Self::uncork), so that they are written together.
    pub(super) fn cork(&self) {
        self.outbox.lock().cork();
    }

    pub(super) fn uncork(&self) {
        self.outbox.lock().uncork();
    }

    pub(super) fn unwritten_bytes(&self) -> usize {
        self.outbox.lock().unwritten_bytes()
    }

    /// See [`Outbox::poll_drive`].
    pub(super) fn poll_drive(
        &self,
        task: &mut Context<'_>,
        is_deferred: &mut bool,
    ) -> io::Result<usize> {
        self.outbox.poll_drive(task, is_deferred)
    }
}
