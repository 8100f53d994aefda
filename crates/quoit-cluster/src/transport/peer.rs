//! Another node, as this one calls it and judges it.

use super::Lane;
use super::calls::{Status, Taker};
use super::error::CallError;
use super::lane::LaneState;
use super::outbox::Urgency;
use super::replies::{Replies, Reply, StreamRef};
use super::settings::InternodeSettings;
use super::statistics::PeerStatistics;
use crate::NodeId;
use crate::liveness::{Health, Latency};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use prost::Message;
use quoit_wire::internode::{
    FLAG_STREAM, FRAME_OVERHEAD_BYTES, FrameKind, FramePrefix, Payload, VersionRange,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The least time without an answer that makes a node count as stalled.
const STALLED_US_MIN: u64 = 50_000;
/// A node counts as stalled when it has not answered for so many times its high percentile.
const STALLED_LATENCIES: u64 = 20;

/// Another node of the cluster. Shared; lives until the node is no member any more.
pub struct Peer {
    node_id: NodeId,
    place: ArcSwap<PeerFacts>,
    small: LaneState,
    large: LaneState,
    health: Health,
    refusals: Mutex<Refusals>,
    is_retired: AtomicBool,
    /// The newest version that it spoke when it was connected last; 0 before that.
    version_max: AtomicU32,
    /// The newest version that both it and this node spoke then.
    version_common: AtomicU32,
    /// The process that each lane was connected to last.
    boot_ids: [AtomicU64; 2],
    /// Lanes that are connected without TLS.
    plain_lanes: [AtomicBool; 2],
}

/// Attempts to connect that have failed.
#[derive(Default)]
struct Refusals {
    last_at: Option<Instant>,
    /// The trouble between the two nodes, the time since when, and its description.
    trouble: Option<(Trouble, Instant, Arc<str>)>,
}

/// Trouble that keeps two nodes apart until an operator removes its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The peer takes this node for a second process with one identity.
    Double,
    /// The clocks differ too much.
    Clock,
    /// This node speaks too old a version of the protocol.
    Outdated,
}

/// Facts about a peer that may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PeerFacts {
    pub(super) name: Arc<str>,
    pub(super) address: Arc<str>,
}

/// A request on its way into a lane.
struct Outgoing {
    method: u16,
    flags: u8,
    lane: Lane,
    slot: u16,
}

impl Peer {
    pub(super) fn new(node_id: NodeId, place: PeerFacts, settings: &InternodeSettings) -> Peer {
        let limits = &settings.limits;
        Peer {
            node_id,
            place: ArcSwap::from_pointee(place),
            small: LaneState::new(Lane::Small, Status::Dialing, limits),
            large: LaneState::new(Lane::Large, Status::Idle, limits),
            health: Health::new(settings.liveness),
            refusals: Mutex::default(),
            is_retired: AtomicBool::new(false),
            version_max: AtomicU32::new(0),
            version_common: AtomicU32::new(0),
            boot_ids: [const { AtomicU64::new(0) }; 2],
            plain_lanes: [AtomicBool::new(false), AtomicBool::new(false)],
        }
    }

    /// Whether this node is connected to the other one without TLS just now.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.plain_lanes.iter().any(|is_plain| is_plain.load(Ordering::Relaxed))
    }

    pub(super) fn set_plain(&self, lane: Lane, is_plain: bool) {
        self.plain_lanes[lane.number() as usize].store(is_plain, Ordering::Relaxed);
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

    /// The newest version of the protocol that the node itself spoke when it was connected last, whether this
    /// one speaks it or not; `None` if it never was. The version that the two speak with each other is
    /// [`Peer::speaks`].
    #[must_use]
    pub fn version_max(&self) -> Option<u32> {
        Some(self.version_max.load(Ordering::Relaxed)).filter(|version| *version > 0)
    }

    /// Whether both the node and this one spoke a version of the protocol when they were connected last.
    #[must_use]
    pub fn speaks(&self, version: u32) -> bool {
        self.version_common.load(Ordering::Relaxed) >= version
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
        if self.small.pending_count() == 0 {
            return false;
        }
        let high_us = u64::from(self.small.latency().high_us);
        let limit_us = (high_us * STALLED_LATENCIES).max(STALLED_US_MIN);
        self.small.outbox.lock().state.stalled_us(Instant::now()) > limit_us
    }

    /// How fast the node answers small messages: from sending to the first answer.
    #[must_use]
    pub fn latency_us(&self) -> Latency {
        self.small.latency()
    }

    /// Calls that have not had their last answer, in both lanes.
    #[must_use]
    pub fn pending_count(&self) -> u32 {
        self.small.pending_count() + self.large.pending_count()
    }

    /// Bytes of requests that wait to be written, in both lanes.
    #[must_use]
    pub fn unwritten_bytes(&self) -> usize {
        [&self.small, &self.large].map(|lane| lane.outbox.lock().unwritten_bytes()).iter().sum()
    }

    /// The counts of the connections to the node.
    #[must_use]
    pub fn statistics(&self) -> PeerStatistics {
        let mut statistics = PeerStatistics::default();
        for lane in [&self.small, &self.large] {
            lane.add_to(&mut statistics);
        }
        statistics
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
        self.submit(Outgoing { method, flags: 0, lane, slot }, header, payload, replies, None)
    }

    /// Sends a request whose answers are a stream of many: the node sends more of them only as the
    /// earlier are taken from `replies`, and stops when `replies` is dropped.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn send_stream(
        self: &Arc<Self>,
        method: u16,
        header: &impl Message,
        payload: &(impl Payload + ?Sized),
        lane: Lane,
        replies: &Replies,
        slot: u16,
    ) -> Result<(), CallError> {
        let outgoing = Outgoing { method, flags: FLAG_STREAM, lane, slot };
        self.submit(outgoing, header, payload, replies, Some(self))
    }

    fn submit(
        &self,
        outgoing: Outgoing,
        header: &impl Message,
        payload: &(impl Payload + ?Sized),
        replies: &Replies,
        stream: Option<&Arc<Peer>>,
    ) -> Result<(), CallError> {
        let Outgoing { method, flags, lane, slot } = outgoing;
        let state = self.lane(lane);
        let payload_bytes = payload.size_bytes() as u64;
        let size_bytes_max = u64::from(state.frame_bytes_max());
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
        let prefix = FramePrefix { method, flags, ..FramePrefix::new(FrameKind::Request, call) };
        let begins_at = inner.appended_bytes();
        let appended = inner.append(prefix, header, payload, state.frame_bytes_max());
        let size_bytes =
            appended.map_err(|size_bytes| CallError::TooLarge { size_bytes, size_bytes_max })?;
        let stream = stream.map(|peer| StreamRef { peer: Arc::clone(peer), lane, call });
        if let Some(stream) = &stream {
            replies.add_stream(stream.clone());
        }
        let taker = Taker { sink: replies.begin(), slot, stream };
        inner.state.begin(taker, method, begins_at, size_bytes, Instant::now());
        state.publish(&inner.state);
        let is_only = inner.state.len() == 1;
        state.outbox.flush(inner, if is_only { Urgency::Now } else { Urgency::Soon });
        Ok(())
    }

    /// Tells the node that the caller does not wait for answers to `call` any more.
    pub(super) fn cancel(&self, lane: Lane, call: u32) {
        self.tell(lane, FramePrefix::new(FrameKind::Cancel, call), &[]);
    }

    /// Lets the stream `call` go on by so many bytes.
    pub(super) fn widen(&self, lane: Lane, call: u32, taken_bytes: u32) {
        self.tell(lane, FramePrefix::new(FrameKind::Window, call), &taken_bytes.to_be_bytes());
    }

    /// Sends a frame about a call that is still open.
    fn tell(&self, lane: Lane, prefix: FramePrefix, payload: &[u8]) {
        let state = self.lane(lane);
        let mut inner = state.outbox.lock();
        if inner.state.is_open(prefix.call) {
            inner.append_small(prefix, &(), payload);
            state.outbox.flush(inner, Urgency::Soon);
        }
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

    /// A connection of `lane` was made. `common` is the newest version that both sides speak.
    pub(super) fn connected(&self, lane: Lane, versions: VersionRange, common: u32, boot_id: u64) {
        self.refusals.lock().trouble = None;
        self.version_max.store(versions.max, Ordering::Relaxed);
        self.version_common.store(common, Ordering::Relaxed);
        self.boot_ids[lane.number() as usize].store(boot_id, Ordering::Relaxed);
        if lane == Lane::Small {
            self.health.connected(Instant::now());
        }
    }

    /// No connection could be made; `trouble` if that will not change by itself.
    pub(super) fn refused(&self, now: Instant, trouble: Option<(Trouble, &Arc<str>)>) {
        let mut refusals = self.refusals.lock();
        refusals.last_at = Some(now);
        let before = refusals.trouble.take();
        refusals.trouble = trouble.map(|(trouble, words)| {
            let since = before.filter(|(earlier, ..)| *earlier == trouble);
            (trouble, since.map_or(now, |(_, since, _)| since), Arc::clone(words))
        });
    }

    /// Whether an attempt to connect has failed at or after `time`.
    pub(super) fn refused_since(&self, time: Instant) -> bool {
        self.refusals.lock().last_at.is_some_and(|last_at| last_at >= time)
    }

    /// The trouble that has kept the two nodes apart for at least so long, in words.
    pub(crate) fn trouble_for(&self, wanted: Trouble, patience: Duration) -> Option<Arc<str>> {
        let refusals = self.refusals.lock();
        let (trouble, since, words) = refusals.trouble.as_ref()?;
        (*trouble == wanted && since.elapsed() >= patience).then(|| Arc::clone(words))
    }

    /// The connection of `lane` is gone, or none could be made: its calls fail, and later ones until there
    /// is another.
    pub(super) fn disconnected(&self, lane: Lane, reason: &Arc<str>, error: &CallError) {
        self.set_plain(lane, false);
        if lane == Lane::Small {
            self.health.disconnected();
        }
        self.lane(lane).close(reason, error);
    }

    /// A process of the node is about to stop: it gets no new calls; those under way go on. A late word
    /// of a process says nothing about its successor, which one lane may be connected to already.
    pub(super) fn said_goodbye(&self, boot_id: u64) {
        for lane in [Lane::Small, Lane::Large] {
            if self.boot_ids[lane.number() as usize].load(Ordering::Relaxed) != boot_id {
                continue;
            }
            if lane == Lane::Small {
                self.health.disconnected();
            }
            let status = &mut self.lane(lane).outbox.lock().state.status;
            if matches!(status, Status::Open) {
                *status = Status::Down("the node is stopping".into());
            }
        }
    }

    /// Ends the pause between two attempts to connect.
    pub(super) fn dial_now(&self) {
        if !self.is_up() {
            self.small.wanted.notify_one();
        }
    }

    /// Has connections without TLS replaced by others with TLS, where the node takes those. Calls go on.
    pub(crate) fn renew_plain(&self) {
        for lane in [Lane::Small, Lane::Large] {
            if self.plain_lanes[lane.number() as usize].load(Ordering::Relaxed) {
                self.lane(lane).renew();
            }
        }
    }

    /// Ends the connections; they are dialed again.
    pub(crate) fn hang_up(&self) {
        for lane in [&self.small, &self.large] {
            lane.outbox.lock().close();
            lane.wanted.notify_one();
        }
    }

    /// Takes over a new name or address. A connection to another address is given up.
    pub(super) fn set_place(&self, place: PeerFacts) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The goodbye stands in what came on the lane of large messages, which is read later than the lane of
    /// small ones has been connected again. Nobody would have called the node any more, so neither would the
    /// large lane have been dialed.
    #[tokio::test]
    async fn a_process_that_says_goodbye_takes_nothing_from_its_successor() {
        let settings = InternodeSettings::new(NodeId([1; 16]), "n1", 1, 1);
        let place = PeerFacts { name: "n2".into(), address: "n2:1".into() };
        let peer = Peer::new(NodeId([2; 16]), place, &settings);
        let connected = |lane, boot_id| {
            peer.connected(lane, VersionRange::CURRENT, 1, boot_id);
            peer.lane(lane).outbox.lock().state.status = Status::Open;
        };
        let is_open = |lane| matches!(peer.lane(lane).outbox.lock().state.status, Status::Open);
        connected(Lane::Small, 7);
        connected(Lane::Small, 8);
        peer.said_goodbye(7);
        assert!(peer.is_up());
        // The large lane is connected to the next process first.
        connected(Lane::Large, 9);
        peer.said_goodbye(8);
        assert!(!peer.is_up() && !is_open(Lane::Small));
        assert!(is_open(Lane::Large), "nobody would open it again");
        peer.said_goodbye(9);
        assert!(!is_open(Lane::Large));
    }
}
