//! Another node, as this one calls it and judges it.

use super::calls::{Calls, Delivery, Status};
use super::error::CallError;
use super::outbox::{BoxWriter, Outbox, Urgency};
use super::replies::{Replies, Reply};
use super::settings::{InternodeSettings, Limits};
use super::{Lane, Window};
use crate::NodeId;
use crate::liveness::{Health, Latency};
use arc_swap::ArcSwap;
use prost::Message;
use quoit_wire::internode::{FRAME_OVERHEAD_BYTES, FramePrefix, Kind, Payload, append_frame};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// The least time without an answer that makes a node count as stalled.
const STALLED_US_MIN: u64 = 50_000;
/// A node counts as stalled when it has not answered for so many times its high percentile.
const STALLED_LATENCIES: u64 = 20;

/// Another node of the cluster. Shared; lives until the node is no member any more.
pub struct Peer {
    node_id: NodeId,
    place: ArcSwap<Place>,
    small: LaneState,
    large: LaneState,
    health: Health,
    is_retired: AtomicBool,
}

/// What may change about a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: Arc<str>,
    pub(super) address: Arc<str>,
}

/// One lane of a peer: its connection, or the lack of one, and the calls on it.
pub(super) struct LaneState {
    pub(super) outbox: Outbox<Calls>,
    /// Somebody wants the lane dialed now.
    pub(super) wanted: Notify,
    own_window: Window,
    frame_bytes_max: AtomicU32,
    pending_count: AtomicU32,
    mean_us: AtomicU32,
    high_us: AtomicU32,
}

impl Peer {
    pub(super) fn new(node_id: NodeId, place: Place, settings: &InternodeSettings) -> Peer {
        let limits = &settings.limits;
        Peer {
            node_id,
            place: ArcSwap::from_pointee(place),
            small: LaneState::new(Lane::Small, Status::Dialing, limits),
            large: LaneState::new(Lane::Large, Status::Idle, limits),
            health: Health::new(settings.liveness),
            is_retired: AtomicBool::new(false),
        }
    }

    /// The node's identity.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// The node's name.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.place.load().name)
    }

    /// Where the node is dialed.
    #[must_use]
    pub fn address(&self) -> Arc<str> {
        Arc::clone(&self.place.load().address)
    }

    /// Whether there is a connection and the node has been heard of lately enough. Costs a clock and an
    /// atomic load.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.health.is_up(Instant::now())
    }

    /// How surprising the node's silence is ([`PhiDetector::phi`](crate::PhiDetector::phi)); infinite
    /// without a connection.
    #[must_use]
    pub fn phi(&self) -> f64 {
        self.health.phi(Instant::now())
    }

    /// Whether calls of small messages have been waiting for far longer than this node takes as a rule,
    /// and none was answered meanwhile: a replica that is better not asked, well before it is suspected.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        if self.small.pending_count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let high_us = u64::from(self.small.high_us.load(Ordering::Relaxed));
        let limit_us = (high_us * STALLED_LATENCIES).max(STALLED_US_MIN);
        self.small.outbox.lock().state.stalled_us(Instant::now()) > limit_us
    }

    /// How fast the node answers small messages: from sending to the first answer.
    #[must_use]
    pub fn latency_us(&self) -> Latency {
        Latency {
            mean_us: self.small.mean_us.load(Ordering::Relaxed),
            high_us: self.small.high_us.load(Ordering::Relaxed),
        }
    }

    /// Calls that have not had their last answer, in both lanes.
    #[must_use]
    pub fn pending_count(&self) -> u32 {
        let count = |lane: &LaneState| lane.pending_count.load(Ordering::Relaxed);
        count(&self.small) + count(&self.large)
    }

    /// Why there is no connection, in words; `None` if there is one, or the first is being made.
    #[must_use]
    pub fn trouble(&self) -> Option<Arc<str>> {
        match &self.small.outbox.lock().state.status {
            Status::Down(reason) => Some(Arc::clone(reason)),
            _ => None,
        }
    }

    /// Sends a request. Its answers come to `replies`, marked with `slot`.
    ///
    /// Header and payload are copied once, into the lane's buffer; the call costs no allocation unless
    /// that must grow. If nothing else is under way on the lane, the system call that writes is made
    /// here; otherwise one write takes along what other requests send at the same time.
    ///
    /// # Errors
    ///
    /// The request was not sent, and no answer will come: [`CallError::Unreachable`], at once, if the
    /// node is known to be; [`CallError::TooBusy`] if as much is under way as the node takes;
    /// [`CallError::TooLarge`].
    pub fn send(
        &self,
        method: u16,
        header: &impl Message,
        payload: &(impl Payload + ?Sized),
        lane: Lane,
        replies: &Replies,
        slot: u16,
    ) -> Result<(), CallError> {
        let state = self.lane(lane);
        let payload_bytes = payload.size_bytes() as u64;
        let size_bytes_max = u64::from(state.frame_bytes_max.load(Ordering::Relaxed));
        let check_size = |size_bytes| match size_bytes > size_bytes_max {
            true => Err(CallError::TooLarge { size_bytes, size_bytes_max }),
            false => Ok(()),
        };
        check_size(payload_bytes)?;
        let mut inner = state.outbox.lock();
        match &inner.state.status {
            Status::Down(reason) => return Err(CallError::Unreachable(Arc::clone(reason))),
            Status::Idle => {
                inner.state.status = Status::Dialing;
                state.wanted.notify_one();
            }
            Status::Dialing | Status::Open => {}
        }
        inner.state.check_window(payload_bytes + FRAME_OVERHEAD_BYTES as u64)?;
        let call = inner.state.next_id();
        let start = inner.pending.len();
        let prefix = FramePrefix { method, ..FramePrefix::new(Kind::Request, call) };
        let appended = append_frame(&mut inner.pending, prefix, header, payload);
        let size_bytes = (inner.pending.len() - start) as u64;
        if let Err(fault) = check_size(size_bytes) {
            inner.pending.truncate(start);
            return Err(fault);
        }
        if appended.is_err() {
            return Err(CallError::TooLarge { size_bytes: payload_bytes, size_bytes_max });
        }
        inner.state.begin(replies.begin(), slot, size_bytes, Instant::now());
        state.publish(&inner.state);
        let is_only = inner.state.len() == 1;
        state.outbox.flush(inner, if is_only { Urgency::Now } else { Urgency::Soon });
        Ok(())
    }

    /// Sends a request and waits for its first answer.
    ///
    /// # Errors
    ///
    /// Any [`CallError`]. After [`CallError::Timeout`] and [`CallError::Disconnected`] the node may have
    /// done what it was asked.
    pub async fn call(
        &self,
        method: u16,
        header: &impl Message,
        payload: &(impl Payload + ?Sized),
        lane: Lane,
        limit: Duration,
    ) -> Result<Reply, CallError> {
        let mut replies = Replies::new();
        self.send(method, header, payload, lane, &replies, 0)?;
        match timeout(limit, replies.next()).await {
            Ok(Some((_, answer))) => answer,
            Ok(None) => Err(CallError::Disconnected("the call has vanished".into())),
            Err(_) => Err(CallError::Timeout { after_ms: limit.as_millis() as u64 }),
        }
    }

    pub(super) fn lane(&self, lane: Lane) -> &LaneState {
        match lane {
            Lane::Small => &self.small,
            Lane::Large => &self.large,
        }
    }

    pub(super) fn heard(&self, now: Instant) {
        self.health.heard(now);
    }

    /// A connection of `lane` was made.
    pub(super) fn connected(&self, lane: Lane) {
        if lane == Lane::Small {
            self.health.connected(Instant::now());
        }
    }

    /// The connection of `lane` is gone, or none could be made: its calls fail, and later ones until there
    /// is another.
    pub(super) fn disconnected(&self, lane: Lane, reason: &Arc<str>, error: &CallError) {
        if lane == Lane::Small {
            self.health.disconnected();
        }
        self.lane(lane).close(Status::Down(Arc::clone(reason)), error);
    }

    /// Ends the pause between two attempts to connect.
    pub(super) fn dial_now(&self) {
        if !self.is_up() {
            self.small.wanted.notify_one();
        }
    }

    /// Ends the connections; they are dialed again.
    pub(super) fn hang_up(&self) {
        for lane in [&self.small, &self.large] {
            lane.outbox.lock().close();
            lane.wanted.notify_one();
        }
    }

    /// Takes over a new name or address. A connection to another address is given up.
    pub(super) fn set_place(&self, place: Place) {
        let earlier = self.place.swap(Arc::new(place.clone()));
        if earlier.address != place.address {
            self.hang_up();
        }
    }

    /// The node is a peer no more: its connections end, calls fail.
    pub(super) fn retire(&self) {
        self.is_retired.store(true, Ordering::SeqCst);
        let reason = Arc::from("the node is no member of the cluster any more");
        let error = CallError::Disconnected(Arc::clone(&reason));
        for lane in [Lane::Small, Lane::Large] {
            self.disconnected(lane, &reason, &error);
            self.lane(lane).wanted.notify_one();
        }
    }

    pub(super) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Peer");
        debug.field("node_id", &self.node_id).field("place", &self.place.load());
        debug.finish_non_exhaustive()
    }
}

impl LaneState {
    fn new(lane: Lane, status: Status, limits: &Limits) -> LaneState {
        let own_window = lane.window(limits);
        LaneState {
            outbox: Outbox::new(Calls::new(status, own_window)),
            wanted: Notify::new(),
            own_window,
            frame_bytes_max: AtomicU32::new(limits.frame_bytes_max),
            pending_count: AtomicU32::new(0),
            mean_us: AtomicU32::new(0),
            high_us: AtomicU32::new(0),
        }
    }

    /// Waits until a call wants the lane to be dialed.
    pub(super) async fn until_wanted(&self) {
        loop {
            let wanted = self.wanted.notified();
            if matches!(self.outbox.lock().state.status, Status::Dialing) {
                return;
            }
            wanted.await;
        }
    }

    /// The pause after a failure is over: the next call may have the large lane dialed again.
    pub(super) fn may_be_dialed(&self, lane: Lane) {
        if lane == Lane::Large {
            self.outbox.lock().state.status = Status::Idle;
        }
    }

    /// Takes a connection into use. What waited for it is sent.
    pub(super) fn open(&self, peer_window: &Window, frame_bytes_max: u32, writer: BoxWriter) {
        self.frame_bytes_max.store(frame_bytes_max, Ordering::Relaxed);
        let mut inner = self.outbox.lock();
        inner.state.set_window(self.own_window.min(*peer_window));
        inner.state.status = Status::Open;
        inner.open(writer);
    }

    /// Gives the connection up, if there is one, and ends the calls.
    fn close(&self, status: Status, error: &CallError) {
        let mut inner = self.outbox.lock();
        inner.close();
        inner.state.status = status;
        let failed = inner.state.fail_all(error);
        self.publish(&inner.state);
        drop(inner);
        for delivery in failed {
            Delivery::hand_over(delivery);
        }
    }

    /// Makes what is read without the lock tell the present.
    pub(super) fn publish(&self, calls: &Calls) {
        let latency = calls.latency.latency();
        self.pending_count.store(calls.len() as u32, Ordering::Relaxed);
        self.mean_us.store(latency.mean_us, Ordering::Relaxed);
        self.high_us.store(latency.high_us, Ordering::Relaxed);
    }
}
