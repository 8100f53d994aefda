//! A connection on which this node sends requests.

use super::Lane;
use super::calls::Delivery;
use super::context::Context;
use super::error::Fault;
use super::greeting::Greeted;
use super::lane::LaneState;
use super::outbox::{FailedWrite, Urgency};
use super::peer::Peer;
use super::read_room;
use super::security::PeerProof;
use super::settings::InternodeSettings;
use bytes::BytesMut;
use quoit_number::saturating_u64;
use quoit_wire::internode::{FrameKind, FramePrefix, InternodeDecoder};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::io::poll_read_buf;

/// The task of an outbound connection.
pub(super) struct OutboundDriver<'a> {
    settings: &'a InternodeSettings,
    peer: &'a Peer,
    lane: &'a LaneState,
    /// Boot id of the process at the other end.
    boot_id: u64,
    reader: Box<dyn AsyncRead + Send + Unpin>,
    input: BytesMut,
    decoder: InternodeDecoder,
    heard_at: Instant,
    heartbeat: Interval,
    /// Silence after which a ping is sent while no call waits. Longer on the large lane, because the small
    /// lane shows that the peer is alive.
    patience: Duration,
    /// Answers from one read, handed over after the lane's lock is released.
    deliveries: Vec<Delivery>,
    /// Reads that are not in the lane's counts yet.
    uncounted_reads: u64,
    is_deferred: bool,
}

enum OutboundEvent {
    Read,
    Heartbeat,
    Renewal,
}

/// Reason why [`OutboundDriver::run`] returns.
pub(super) enum DriverExit {
    /// The connection has ended.
    Ended(Fault),
    /// Another connection is to replace it.
    Renewal,
}

impl<'a> OutboundDriver<'a> {
    /// Takes the connection into use for the calls of `lane`.
    pub(super) fn new(
        context: &'a Context,
        peer: &'a Peer,
        lane: Lane,
        greeted: Greeted,
    ) -> OutboundDriver<'a> {
        let settings = &context.settings;
        let heartbeat =
            heartbeats(settings.liveness.heartbeat_interval, context.suspension.start());
        let patience = match lane {
            Lane::Small => settings.liveness.heartbeat_interval,
            Lane::Large => settings.limits.idle_timeout / 4,
        };
        let lane = peer.lane(lane);
        let failed_write = match greeted.proven {
            PeerProof::Nothing => FailedWrite::SendsNothing,
            _ => FailedWrite::MaySend,
        };
        let Greeted { frame_bytes_max, window, .. } = greeted;
        lane.open(frame_bytes_max, window, greeted.stream.writer, failed_write);
        OutboundDriver {
            settings,
            peer,
            lane,
            boot_id: greeted.newcomer.boot_id,
            reader: greeted.stream.reader,
            input: greeted.input,
            decoder: InternodeDecoder::new(settings.limits.frame_bytes_max),
            heard_at: Instant::now(),
            heartbeat,
            patience,
            deliveries: Vec::new(),
            uncounted_reads: 0,
            is_deferred: false,
        }
    }

    /// Carries calls and answers until the connection ends or is to be replaced. Cancel safe,
    /// and can be called again.
    pub(super) async fn run(&mut self) -> DriverExit {
        let mut event = Ok(OutboundEvent::Read);
        loop {
            let outcome = match event {
                Ok(OutboundEvent::Read) => self.take_frames(),
                Ok(OutboundEvent::Heartbeat) => self.beat(),
                Ok(OutboundEvent::Renewal) => return DriverExit::Renewal,
                Err(fault) => Err(fault),
            };
            if let Err(fault) = outcome {
                return DriverExit::Ended(fault);
            }
            event = self.next_event().await;
        }
    }

    /// Carries answers until no call is under way. Later calls wait for the connection that replaces this
    /// one.
    pub(super) async fn drain(&mut self) -> Result<(), Fault> {
        self.lane.hold();
        while self.lane.is_under_way() {
            match self.next_event().await? {
                OutboundEvent::Read => self.take_frames()?,
                OutboundEvent::Heartbeat => self.beat()?,
                OutboundEvent::Renewal => {}
            }
        }
        Ok(())
    }

    async fn next_event(&mut self) -> Result<OutboundEvent, Fault> {
        poll_fn(|task| {
            if let Err(fault) = self.lane.outbox.poll_drive(task, &mut self.is_deferred) {
                return Poll::Ready(Err(fault.into()));
            }
            if self.lane.takes_renewal() {
                return Poll::Ready(Ok(OutboundEvent::Renewal));
            }
            if self.heartbeat.poll_tick(task).is_ready() {
                return Poll::Ready(Ok(OutboundEvent::Heartbeat));
            }
            let room = read_room(self.decoder, &self.input);
            self.input.reserve(room);
            match poll_read_buf(Pin::new(&mut self.reader), task, &mut self.input) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(Fault::Closed)),
                Poll::Ready(Ok(_)) => {
                    self.uncounted_reads += 1;
                    Poll::Ready(Ok(OutboundEvent::Read))
                }
                Poll::Ready(Err(fault)) => Poll::Ready(Err(fault.into())),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn take_frames(&mut self) -> Result<(), Fault> {
        let now = Instant::now();
        self.heard_at = now;
        self.peer.heard(now);
        let outcome = self.match_answers(now);
        let mut discarded_count = 0;
        for delivery in self.deliveries.drain(..) {
            discarded_count += u64::from(!delivery.hand_over());
        }
        if discarded_count > 0 {
            self.lane.outbox.lock().state.discarded_count += discarded_count;
        }
        outcome
    }

    /// Matches all answers in the buffer with their calls.
    fn match_answers(&mut self, now: Instant) -> Result<(), Fault> {
        let mut says_goodbye = false;
        let mut inner = self.lane.outbox.lock();
        inner.traffic.read_count += std::mem::take(&mut self.uncounted_reads);
        while let Some(frame) = self.decoder.next_frame(&mut self.input)? {
            let kind = frame.prefix.kind;
            inner.traffic.received(frame.size_bytes() as u64);
            match FrameKind::from_byte(kind) {
                Some(FrameKind::Answer | FrameKind::Refusal) => {
                    self.deliveries.extend(inner.state.answered(frame, now));
                }
                // Frames of unknown kinds, from newer nodes, are skipped. A pong needs nothing: its
                // arrival was the answer.
                None | Some(FrameKind::Pong) => {}
                Some(FrameKind::Goodbye) => says_goodbye = true,
                Some(
                    FrameKind::Hello
                    | FrameKind::Request
                    | FrameKind::Cancel
                    | FrameKind::Window
                    | FrameKind::Ping,
                ) => {
                    return Err(Fault::OutOfPlace { kind });
                }
            }
        }
        self.lane.publish(&inner.state);
        drop(inner);
        if says_goodbye {
            self.peer.said_goodbye(self.boot_id);
        }
        Ok(())
    }

    /// Pings a peer that has been silent. Ends the connection after a longer silence.
    fn beat(&mut self) -> Result<(), Fault> {
        let silence = self.heard_at.elapsed();
        let limit = self.settings.limits.idle_timeout;
        if silence >= limit {
            return Err(Fault::timeout("sign of life", limit));
        }
        let patience = match self.lane.pending_count() {
            0 => self.patience,
            _ => self.settings.liveness.heartbeat_interval,
        };
        if silence * 10 >= patience * 9 {
            let mut inner = self.lane.outbox.lock();
            // Unwritten bytes serve as well as a ping to show whether the peer is alive.
            if inner.unwritten_bytes() == 0 {
                inner.append_small(FramePrefix::new(FrameKind::Ping, 0), &(), &[]);
                self.lane.outbox.flush(inner, Urgency::Now);
            }
        }
        Ok(())
    }
}

/// Returns an interval that ticks at multiples of `every` since the node started, so that one wakeup
/// serves all connections.
fn heartbeats(every: Duration, start: Instant) -> Interval {
    let since_start_us = start.elapsed().as_micros();
    let until_next_us = every.as_micros() - since_start_us % every.as_micros().max(1);
    let until_next = Duration::from_micros(saturating_u64(until_next_us));
    let mut heartbeats = interval_at(Instant::now() + until_next, every);
    heartbeats.set_missed_tick_behavior(MissedTickBehavior::Skip);
    heartbeats
}
