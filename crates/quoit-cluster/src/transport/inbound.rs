//! A connection on which another node asks.

use super::context::Context;
use super::error::Fault;
use super::greeting::Greeted;
use super::outbox::{Inner, Outbox, Urgency};
use super::responder::Responder;
use super::service::{IncomingRequest, Services};
use super::{Window, read_room};
use crate::NodeId;
use bytes::BytesMut;
use parking_lot::MutexGuard;
use prost::Message;
use quoit_wire::internode::{
    FLAG_LAST, FRAME_OVERHEAD_BYTES, FramePrefix, InternodeDecoder, InternodeFrame, Kind, Payload,
    Refusal, append_frame, code,
};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::io::poll_read_buf;

/// Answers are written when so many bytes have gathered, even if further requests are at hand.
const FLUSH_BYTES: usize = 256 * 1024;

/// The answering end of a connection, kept by responders.
pub(super) struct Inbound {
    outbox: Outbox<Serving>,
    window: Window,
    frame_bytes_max: u32,
    start: Instant,
    heard_after_us: AtomicU64,
}

/// Requests that have not had their last answer.
#[derive(Default)]
struct Serving {
    outstanding_count: u32,
    outstanding_bytes: u64,
}

impl Inbound {
    /// Sends an answer; a refusal in its place if no frame can hold it.
    pub(super) fn answer(
        &self,
        call: u32,
        size_bytes: u64,
        last: bool,
        header: &impl Message,
        payload: &(impl Payload + ?Sized),
    ) {
        let flags = if last { FLAG_LAST } else { 0 };
        let prefix = FramePrefix { flags, ..FramePrefix::new(Kind::Answer, call) };
        let mut inner = self.outbox.lock();
        if !inner.is_open() {
            return;
        }
        let start = inner.pending.len();
        // A payload that can't be sent is not copied.
        let fits = payload.size_bytes() <= self.frame_bytes_max as usize
            && append_frame(&mut inner.pending, prefix, header, payload).is_ok()
            && inner.pending.len() - start <= self.frame_bytes_max as usize;
        if !fits {
            inner.pending.truncate(start);
            let text = format!("the answer is above the limit of {} bytes", self.frame_bytes_max);
            append_refusal(&mut inner.pending, call, code::TOO_LARGE, text);
        }
        self.finish(inner, if last || !fits { size_bytes } else { 0 });
    }

    /// Sends a refusal as the last answer.
    pub(super) fn refuse(&self, call: u32, size_bytes: u64, code: u32, text: String) {
        let mut inner = self.outbox.lock();
        if inner.is_open() {
            append_refusal(&mut inner.pending, call, code, text);
            self.finish(inner, size_bytes);
        }
    }

    /// For how long the peer has sent nothing.
    pub(super) fn silent_us(&self, now: Instant) -> u64 {
        let since_start_us = now.saturating_duration_since(self.start).as_micros() as u64;
        since_start_us.saturating_sub(self.heard_after_us.load(Ordering::Relaxed))
    }

    fn heard(&self, now: Instant) {
        let since_start = now.saturating_duration_since(self.start);
        self.heard_after_us.store(since_start.as_micros() as u64, Ordering::Relaxed);
    }

    /// Ends the connection.
    pub(super) fn close(&self) {
        self.outbox.lock().close();
    }

    /// Counts a call as done, if its size is told, and has the answer written.
    fn finish(&self, mut inner: MutexGuard<'_, Inner<Serving>>, done_bytes: u64) {
        if done_bytes > 0 {
            inner.state.outstanding_count -= 1;
            inner.state.outstanding_bytes -= done_bytes;
        }
        let is_only = inner.state.outstanding_count == 0;
        self.outbox.flush(inner, if is_only { Urgency::Now } else { Urgency::Soon });
    }

    /// Counts a request as taken.
    fn begin(&self, size_bytes: u64) -> Result<(), Fault> {
        let serving = &mut self.outbox.lock().state;
        let (bytes, count) = (serving.outstanding_bytes, serving.outstanding_count);
        if !self.window.has_room(bytes, count, size_bytes) {
            let Window { bytes: window_bytes, calls: window_calls } = self.window;
            return Err(Fault::WindowExceeded { window_bytes, window_calls });
        }
        serving.outstanding_count += 1;
        serving.outstanding_bytes += size_bytes;
        Ok(())
    }
}

fn append_refusal(buffer: &mut Vec<u8>, call: u32, code: u32, text: String) {
    let prefix = FramePrefix { flags: FLAG_LAST, ..FramePrefix::new(Kind::Refusal, call) };
    append_frame(buffer, prefix, &Refusal { code, text }, b"")
        .expect("words fit in a frame of 4 GiB");
}

/// The task of an inbound connection.
pub(super) struct InboundDriver {
    context: Arc<Context>,
    inbound: Arc<Inbound>,
    reader: Box<dyn AsyncRead + Send + Unpin>,
    input: BytesMut,
    decoder: InternodeDecoder,
    from: NodeId,
    is_guest: bool,
    /// Whether whole frames may be in `input`.
    has_frames: bool,
    is_deferred: bool,
}

enum Event {
    Frames,
    Idle,
}

impl InboundDriver {
    pub(super) fn new(context: Arc<Context>, greeted: Greeted) -> InboundDriver {
        let inbound = Inbound {
            outbox: Outbox::new(Serving::default()),
            window: greeted.lane.window(&context.settings.limits),
            frame_bytes_max: greeted.frame_bytes_max,
            start: Instant::now(),
            heard_after_us: AtomicU64::new(0),
        };
        inbound.outbox.lock().open(greeted.stream.writer);
        InboundDriver {
            decoder: InternodeDecoder::new(context.settings.limits.frame_bytes_max),
            context,
            inbound: Arc::new(inbound),
            reader: greeted.stream.reader,
            input: greeted.input,
            from: greeted.newcomer.node_id,
            is_guest: greeted.newcomer.is_guest,
            has_frames: true,
            is_deferred: false,
        }
    }

    /// The end that answers; closing it ends [`run`](Self::run).
    pub(super) fn inbound(&self) -> Arc<Inbound> {
        Arc::clone(&self.inbound)
    }

    /// Serves requests until the connection ends.
    pub(super) async fn run(mut self) -> Fault {
        let mut idle = pin!(sleep(self.context.settings.limits.idle_timeout));
        let fault = loop {
            let outcome = match self.next_event(idle.as_mut()).await {
                Ok(Event::Frames) => self.take_frames(),
                Ok(Event::Idle) => self.check_idle(idle.as_mut()),
                Err(fault) => Err(fault),
            };
            if let Err(fault) = outcome {
                break fault;
            }
        };
        self.inbound.close();
        fault
    }

    async fn next_event(&mut self, mut idle: Pin<&mut Sleep>) -> Result<Event, Fault> {
        let unread_answer_bytes_max = self.context.settings.limits.unread_answer_bytes_max;
        poll_fn(|task| {
            let drive = self.inbound.outbox.poll_drive(task, &mut self.is_deferred);
            let unwritten_bytes = match drive {
                Ok(unwritten_bytes) => unwritten_bytes,
                Err(fault) => return Poll::Ready(Err(fault.into())),
            };
            if idle.as_mut().poll(task).is_ready() {
                return Poll::Ready(Ok(Event::Idle));
            }
            if unwritten_bytes > unread_answer_bytes_max {
                return Poll::Pending;
            }
            if self.has_frames {
                return Poll::Ready(Ok(Event::Frames));
            }
            let room = read_room(self.decoder, &self.input);
            self.input.reserve(room);
            match poll_read_buf(Pin::new(&mut self.reader), task, &mut self.input) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(Fault::Closed)),
                Poll::Ready(Ok(_)) => {
                    self.inbound.heard(Instant::now());
                    Poll::Ready(Ok(Event::Frames))
                }
                Poll::Ready(Err(fault)) => Poll::Ready(Err(fault.into())),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Serves what is in the buffer. All answers that are given meanwhile go out in one write.
    fn take_frames(&mut self) -> Result<(), Fault> {
        let context = Arc::clone(&self.context);
        let services = context.services.load();
        let inbound = Arc::clone(&self.inbound);
        inbound.outbox.lock().cork();
        self.has_frames = true;
        let outcome = loop {
            match self.decoder.next_frame(&mut self.input) {
                Ok(Some(frame)) => {
                    if let Err(fault) = self.take_frame(frame, &services) {
                        break Err(fault);
                    }
                }
                Ok(None) => {
                    self.has_frames = false;
                    break Ok(());
                }
                Err(fault) => break Err(fault.into()),
            }
            if inbound.outbox.lock().unwritten_bytes() > FLUSH_BYTES {
                break Ok(());
            }
        };
        inbound.outbox.lock().uncork();
        outcome
    }

    fn take_frame(&self, frame: InternodeFrame, services: &Services) -> Result<(), Fault> {
        let FramePrefix { kind, call, method, .. } = frame.prefix;
        match Kind::from_byte(kind) {
            Some(Kind::Request) => {
                let size_bytes = frame.size_bytes() as u64;
                self.inbound.begin(size_bytes)?;
                let reply = Responder::new(Arc::clone(&self.inbound), call, size_bytes);
                let InternodeFrame { header, payload, .. } = frame;
                let (from, is_guest) = (self.from, self.is_guest);
                match services.find(method, is_guest) {
                    Some(service) => {
                        let request = IncomingRequest { from, method, header, payload, is_guest };
                        service.serve(request, reply);
                    }
                    None => reply.refuse(
                        code::UNKNOWN_METHOD,
                        format!(
                            "{} does not serve method {method:#06x}",
                            self.context.settings.node_name
                        ),
                    ),
                }
                Ok(())
            }
            Some(Kind::Ping) => {
                let mut inner = self.inbound.outbox.lock();
                append_frame(&mut inner.pending, FramePrefix::new(Kind::Pong, 0), &(), b"")?;
                Ok(())
            }
            // Kinds of newer nodes, and those that only spare work.
            None | Some(Kind::Cancel | Kind::Window) => Ok(()),
            Some(Kind::Hello | Kind::Answer | Kind::Refusal | Kind::Pong | Kind::Goodbye) => {
                Err(Fault::OutOfPlace { kind })
            }
        }
    }

    fn check_idle(&self, mut idle: Pin<&mut Sleep>) -> Result<(), Fault> {
        let limit = self.context.settings.limits.idle_timeout;
        let now = Instant::now();
        let silence = Duration::from_micros(self.inbound.silent_us(now));
        if silence >= limit {
            return Err(Fault::Timeout {
                what: "sign of life",
                after_ms: limit.as_millis() as u64,
            });
        }
        idle.as_mut().reset(now + limit - silence);
        Ok(())
    }
}

const _: () = assert!(FRAME_OVERHEAD_BYTES > 0, "the size of a request in bytes is never 0");
