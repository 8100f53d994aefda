//! The task of a connection on which another node sends requests.

use super::TakenBytes;
use super::context::Context;
use super::error::Fault;
use super::greeting::Greeted;
use super::inbound::{Inbound, Request};
use super::read_room;
use super::responder::Responder;
use super::security::PeerProof;
use super::service::{IncomingRequest, Services};
use crate::NodeId;
use bytes::BytesMut;
use quoit_wire::internode::{
    FLAG_STREAM, FrameKind, FramePrefix, InternodeDecoder, InternodeFrame, code,
};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::io::poll_read_buf;

/// Bytes of gathered answers that are written before further requests are served.
const FLUSH_BYTES: usize = 256 * 1024;

/// The task of an inbound connection.
pub(super) struct InboundDriver {
    context: Arc<Context>,
    inbound: Arc<Inbound>,
    reader: Box<dyn AsyncRead + Send + Unpin>,
    input: BytesMut,
    decoder: InternodeDecoder,
    from: NodeId,
    is_guest: bool,
    proven: PeerProof,
    /// True if `input` may contain complete frames.
    has_frames: bool,
    is_deferred: bool,
}

enum InboundEvent {
    Frames,
    Idle,
}

impl InboundDriver {
    pub(super) fn new(context: Arc<Context>, greeted: Greeted) -> InboundDriver {
        let window = greeted.lane.window(&context.settings.limits);
        let inbound = Inbound::new(&greeted, window);
        inbound.open(greeted.stream.writer);
        InboundDriver {
            decoder: InternodeDecoder::new(context.settings.limits.frame_bytes_max),
            context,
            inbound: Arc::new(inbound),
            reader: greeted.stream.reader,
            input: greeted.input,
            from: greeted.newcomer.node_id,
            is_guest: greeted.newcomer.is_guest,
            proven: greeted.proven,
            has_frames: true,
            is_deferred: false,
        }
    }

    /// Returns the end that answers. Closing it ends [`run`](Self::run).
    pub(super) fn inbound(&self) -> Arc<Inbound> {
        Arc::clone(&self.inbound)
    }

    /// Serves requests until the connection ends.
    pub(super) async fn run(mut self) -> Fault {
        let mut idle = pin!(sleep(self.context.settings.limits.idle_timeout));
        let fault = loop {
            let outcome = match self.next_event(idle.as_mut()).await {
                Ok(InboundEvent::Frames) => self.take_frames(),
                Ok(InboundEvent::Idle) => self.check_idle(idle.as_mut()),
                Err(fault) => Err(fault),
            };
            if let Err(fault) = outcome {
                break fault;
            }
        };
        self.inbound.close();
        fault
    }

    async fn next_event(&mut self, mut idle: Pin<&mut Sleep>) -> Result<InboundEvent, Fault> {
        let unread_answer_bytes_max = self.context.settings.limits.unread_answer_bytes_max;
        poll_fn(|task| {
            let drive = self.inbound.poll_drive(task, &mut self.is_deferred);
            let unwritten_bytes = match drive {
                Ok(unwritten_bytes) => unwritten_bytes,
                Err(fault) => return Poll::Ready(Err(fault.into())),
            };
            if idle.as_mut().poll(task).is_ready() {
                return Poll::Ready(Ok(InboundEvent::Idle));
            }
            if unwritten_bytes > unread_answer_bytes_max {
                return Poll::Pending;
            }
            // The timer may fire late: a process that was suspended may first read requests that arrived
            // meanwhile. Their sender has already failed them, and other nodes rely on their not being
            // served.
            if let Err(fault) = self.check_silence(Instant::now()) {
                return Poll::Ready(Err(fault));
            }
            if self.has_frames {
                return Poll::Ready(Ok(InboundEvent::Frames));
            }
            let room = read_room(self.decoder, &self.input);
            self.input.reserve(room);
            match poll_read_buf(Pin::new(&mut self.reader), task, &mut self.input) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(Fault::Closed)),
                Poll::Ready(Ok(_)) => {
                    self.inbound.heard(Instant::now());
                    Poll::Ready(Ok(InboundEvent::Frames))
                }
                Poll::Ready(Err(fault)) => Poll::Ready(Err(fault.into())),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Serves the requests in the buffer. Answers that services give at once go out in one write.
    fn take_frames(&mut self) -> Result<(), Fault> {
        let context = Arc::clone(&self.context);
        let services = context.services.load();
        let inbound = Arc::clone(&self.inbound);
        inbound.cork();
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
            if inbound.unwritten_bytes() > FLUSH_BYTES {
                break Ok(());
            }
        };
        inbound.uncork();
        outcome
    }

    fn take_frame(&self, frame: InternodeFrame, services: &Services) -> Result<(), Fault> {
        let FramePrefix { kind, call, method, flags } = frame.prefix;
        let size_bytes = frame.size_bytes() as u64;
        match FrameKind::from_byte(kind) {
            Some(FrameKind::Request) => {
                let is_stream = flags & FLAG_STREAM != 0;
                let request = Request { call, size_bytes, is_stream };
                self.inbound.begin(&request, method)?;
                let reply = Responder::new(Arc::clone(&self.inbound), request);
                self.serve(method, frame, reply, services);
                return Ok(());
            }
            Some(FrameKind::Cancel) => self.inbound.cancel(call),
            Some(FrameKind::Window) => {
                let taken_bytes =
                    frame.payload[..].try_into().map_err(|_| Fault::OutOfPlace { kind })?;
                self.inbound.extend_window(call, TakenBytes(u32::from_be_bytes(taken_bytes)));
            }
            // Frames of unknown kinds, from newer nodes, are skipped.
            None | Some(FrameKind::Ping) => {}
            Some(
                FrameKind::Hello
                | FrameKind::Answer
                | FrameKind::Refusal
                | FrameKind::Pong
                | FrameKind::Goodbye,
            ) => {
                return Err(Fault::OutOfPlace { kind });
            }
        }
        self.inbound.other_frame(kind, size_bytes);
        Ok(())
    }

    fn serve(&self, method: u16, frame: InternodeFrame, reply: Responder, services: &Services) {
        let (from, is_guest, proven) = (self.from, self.is_guest, self.proven);
        let InternodeFrame { header, payload, .. } = frame;
        match services.find(method, Services::caller(proven, is_guest)) {
            Some(service) => {
                let request = IncomingRequest { from, method, header, payload, is_guest, proven };
                service.serve(request, reply);
            }
            None => {
                let name = &self.context.settings.node_name;
                let text = format!("{name} does not serve method {method:#06x}");
                reply.refuse(code::UNKNOWN_METHOD, text);
            }
        }
    }

    fn check_idle(&self, mut idle: Pin<&mut Sleep>) -> Result<(), Fault> {
        let now = Instant::now();
        let left = self.check_silence(now)?;
        idle.as_mut().reset(now + left);
        Ok(())
    }

    /// Returns the time for which the peer may still be silent.
    fn check_silence(&self, now: Instant) -> Result<Duration, Fault> {
        let limit = self.context.settings.limits.idle_timeout;
        let silence = Duration::from_micros(self.inbound.silent_us(now));
        let left = limit.checked_sub(silence).filter(|left| !left.is_zero());
        left.ok_or(Fault::timeout("sign of life", limit))
    }
}
