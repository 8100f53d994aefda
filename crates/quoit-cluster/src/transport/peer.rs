//! Another node: calls to it, and this node's opinion about it.

use super::Lane;
use super::calls::{AnswerReceiver, SentRequest, Status, TakenBytes};
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

/// Minimum time without an answer after which a node counts as stalled, in microseconds.
const STALLED_US_MIN: u64 = 50_000;
/// A node counts as stalled when it has not answered for this multiple of its 95th percentile of latency.
const STALLED_LATENCIES: u64 = 20;

/// Another member of the cluster. Shared; lives until the node is no longer a member.
pub struct Peer {
    node_id: NodeId,
    place: ArcSwap<PeerFacts>,
    small: LaneState,
    large: LaneState,
    health: Health,
    refusals: Mutex<Refusals>,
    is_retired: AtomicBool,
    /// The newest version that the node spoke when it was last connected; 0 before that.
    version_max: AtomicU32,
    /// The newest version that both nodes spoke when they were last connected.
    version_common: AtomicU32,
    /// Boot id of the process that each lane was last connected to.
    boot_ids: [AtomicU64; 2],
    /// True for lanes that are connected without TLS.
    plain_lanes: [AtomicBool; 2],
}

/// Failed attempts to connect.
#[derive(Default)]
struct Refusals {
    last_at: Option<Instant>,
    /// The problem between the two nodes, its start, and its description.
    problem: Option<(ConnectionProblem, Instant, Arc<str>)>,
}

/// Problem that keeps two nodes apart until an operator removes the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionProblem {
    /// The peer considers this node a second process with one identity.
    DuplicateIdentity,
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

    /// Returns true if this node is connected to the peer without TLS at present.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.plain_lanes.iter().any(|is_plain| is_plain.load(Ordering::Relaxed))
    }

    pub(super) fn set_plain(&self, lane: Lane, is_plain: bool) {
        of_lane(&self.plain_lanes, lane).store(is_plain, Ordering::Relaxed);
    }

    /// Returns the peer's identity.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// Returns the peer's name.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.place.load().name)
    }

    /// Returns the address at which the peer is dialed.
    #[must_use]
    pub fn address(&self) -> Arc<str> {
        Arc::clone(&self.place.load().address)
    }

    /// Returns true if there is a connection and the peer was heard of recently enough. Costs a clock
    /// reading and an atomic load.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.health.is_up(Instant::now())
    }

    /// Returns the newest version of the protocol that the peer spoke when it was last connected, whether
    /// this node speaks it or not; `None` if it never was connected. See [`Peer::speaks`] for the
    /// versions that both speak.
    #[must_use]
    pub fn version_max(&self) -> Option<u32> {
        Some(self.version_max.load(Ordering::Relaxed)).filter(|version| *version > 0)
    }

    /// Returns true if the peer and this node both spoke a version of the protocol when they were last
    /// connected.
    #[must_use]
    pub fn speaks(&self, version: u32) -> bool {
        self.version_common.load(Ordering::Relaxed) >= version
    }

    /// Returns how surprising the peer's silence is ([`PhiDetector::phi`](crate::PhiDetector::phi));
    /// infinite without a connection.
    #[must_use]
    pub fn phi(&self) -> f64 {
        self.health.phi(Instant::now())
    }

    /// Returns true if calls on the small lane have waited for far longer than the peer usually takes, and
    /// none was answered meanwhile. Coordinators should avoid such a replica, long before the failure
    /// detector suspects it.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        if self.small.pending_count() == 0 {
            return false;
        }
        let high_us = u64::from(self.small.latency().high_us);
        let limit_us = (high_us * STALLED_LATENCIES).max(STALLED_US_MIN);
        self.small.outbox.lock().state.stalled_us(Instant::now()) > limit_us
    }

    /// Returns the latency of calls on the small lane, from sending to the first answer.
    #[must_use]
    pub fn latency_us(&self) -> Latency {
        self.small.latency()
    }

    /// Returns the number of calls without a last answer, in both lanes.
    #[must_use]
    pub fn pending_count(&self) -> u32 {
        self.small.pending_count() + self.large.pending_count()
    }

    /// Returns the number of bytes of requests that wait to be written, in both lanes.
    #[must_use]
    pub fn unwritten_bytes(&self) -> usize {
        [&self.small, &self.large].map(|lane| lane.outbox.lock().unwritten_bytes()).iter().sum()
    }

    /// Returns the counts of the connections to the peer.
    #[must_use]
    pub fn statistics(&self) -> PeerStatistics {
        let mut statistics = PeerStatistics::default();
        for lane in [&self.small, &self.large] {
            lane.add_to(&mut statistics);
        }
        statistics
    }

    /// Returns the reason why there is no connection; `None` if there is one, or the first one is being
    /// made.
    #[must_use]
    pub fn connection_problem(&self) -> Option<Arc<str>> {
        match &self.small.outbox.lock().state.status {
            Status::Down(reason) => Some(Arc::clone(reason)),
            _ => None,
        }
    }

    /// Sends a request. Its answers arrive in `replies`, marked with `slot`.
    ///
    /// Header and payload are copied once, into the lane's buffer. The call allocates nothing unless the
    /// buffer must grow. If nothing else is under way on the lane, the write takes place here; otherwise
    /// one write carries the requests that are sent at the same time.
    ///
    /// # Errors
    ///
    /// The request was not sent, and no answer will come: [`CallError::Unreachable`], at once, if the peer
    /// is known to be down; [`CallError::TooBusy`] if the bound of open calls is reached;
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

    /// Sends a request whose answers are a stream. The peer sends more of them only as earlier ones are
    /// taken from `replies`, and stops when `replies` is dropped.
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
        let frame_bytes = FRAME_OVERHEAD_BYTES + header.encoded_len() + payload.size_bytes();
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
        inner.state.check_window(frame_bytes as u64)?;
        let call = inner.state.next_id();
        let prefix = FramePrefix { method, flags, ..FramePrefix::new(FrameKind::Request, call) };
        let begins_at = inner.appended_bytes();
        let appended = inner.append(prefix, header, payload, state.frame_bytes_max());
        let size_bytes =
            appended.map_err(|size_bytes| CallError::TooLarge { size_bytes, size_bytes_max })?;
        debug_assert_eq!(
            size_bytes, frame_bytes as u64,
            "the window was asked for the whole frame"
        );
        let stream = stream.map(|peer| StreamRef { peer: Arc::clone(peer), lane, call });
        if let Some(stream) = &stream {
            replies.add_stream(stream.clone());
        }
        let taker = AnswerReceiver { sink: replies.begin(), slot, stream };
        let sent = SentRequest { method, begins_at, size_bytes };
        inner.state.begin(taker, sent, Instant::now());
        state.publish(&inner.state);
        // A lone call is written at once. If others are open, the driver gathers what their tasks append.
        let is_only = inner.state.len() == 1;
        state.outbox.flush(inner, if is_only { Urgency::Now } else { Urgency::Soon });
        Ok(())
    }

    /// Tells the peer that the caller no longer waits for answers to `call`.
    pub(super) fn cancel(&self, lane: Lane, call: u32) {
        self.tell(lane, FramePrefix::new(FrameKind::Cancel, call), &[]);
    }

    /// Lets the stream `call` send this many more bytes.
    pub(super) fn extend_window(&self, lane: Lane, call: u32, taken: TakenBytes) {
        self.tell(lane, FramePrefix::new(FrameKind::Window, call), &taken.0.to_be_bytes());
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
    /// Any [`CallError`]. After [`CallError::Timeout`] and [`CallError::Disconnected`] the peer may have
    /// carried out the request.
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
            Err(_) => Err(CallError::timeout(limit)),
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

    /// Notes that a connection of `lane` was made. `common` is the newest version that both sides speak.
    pub(super) fn connected(&self, lane: Lane, versions: VersionRange, common: u32, boot_id: u64) {
        self.refusals.lock().problem = None;
        self.version_max.store(versions.max, Ordering::Relaxed);
        self.version_common.store(common, Ordering::Relaxed);
        of_lane(&self.boot_ids, lane).store(boot_id, Ordering::Relaxed);
        if lane == Lane::Small {
            self.health.connected(Instant::now());
        }
    }

    /// Notes that no connection could be made. `problem` is set if an operator has to remove the cause.
    pub(super) fn refused(&self, now: Instant, problem: Option<(ConnectionProblem, &Arc<str>)>) {
        let mut refusals = self.refusals.lock();
        refusals.last_at = Some(now);
        let before = refusals.problem.take();
        refusals.problem = problem.map(|(problem, words)| {
            let since = before.filter(|(earlier, ..)| *earlier == problem);
            (problem, since.map_or(now, |(_, since, _)| since), Arc::clone(words))
        });
    }

    /// Returns true if an attempt to connect has failed at or after `time`.
    pub(super) fn refused_since(&self, time: Instant) -> bool {
        self.refusals.lock().last_at.is_some_and(|last_at| last_at >= time)
    }

    /// Returns the description of the problem if it has kept the two nodes apart for at least `patience`.
    pub(crate) fn lasting_problem(
        &self,
        wanted: ConnectionProblem,
        patience: Duration,
    ) -> Option<Arc<str>> {
        let refusals = self.refusals.lock();
        let (problem, since, words) = refusals.problem.as_ref()?;
        (*problem == wanted && since.elapsed() >= patience).then(|| Arc::clone(words))
    }

    /// Notes that the connection of `lane` is gone, or could not be made. Its calls fail, and later ones
    /// until there is another connection.
    pub(super) fn disconnected(&self, lane: Lane, reason: &Arc<str>, error: &CallError) {
        self.set_plain(lane, false);
        if lane == Lane::Small {
            self.health.disconnected();
        }
        self.lane(lane).close(reason, error);
    }

    /// Notes that a process of the peer is about to stop. It gets no new calls; calls under way continue. A
    /// goodbye that arrives late does not concern the next process, to which one lane may be connected
    /// already.
    pub(super) fn said_goodbye(&self, boot_id: u64) {
        for lane in [Lane::Small, Lane::Large] {
            if of_lane(&self.boot_ids, lane).load(Ordering::Relaxed) != boot_id {
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

    /// Has connections without TLS replaced by connections with TLS, if the peer accepts those. Calls
    /// continue.
    pub(crate) fn renew_plain(&self) {
        for lane in [Lane::Small, Lane::Large] {
            if of_lane(&self.plain_lanes, lane).load(Ordering::Relaxed) {
                self.lane(lane).renew();
            }
        }
    }

    /// Ends the connections. They are dialed again.
    pub(crate) fn close_connections(&self) {
        for lane in [&self.small, &self.large] {
            lane.outbox.lock().close();
            lane.wanted.notify_one();
        }
    }

    /// Sets a new name or address. Connections to a former address are ended.
    pub(super) fn set_place(&self, place: PeerFacts) {
        let earlier = self.place.swap(Arc::new(place.clone()));
        if earlier.address != place.address {
            self.close_connections();
        }
    }

    /// Ends the connections and fails all calls, because the node is no longer a peer.
    pub(super) fn retire(&self) {
        self.is_retired.store(true, Ordering::SeqCst);
        let reason = Arc::from("the node has left the cluster");
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

/// The value of a lane, of a pair that begins with that of the small lane.
const fn of_lane<T>([small, large]: &[T; 2], lane: Lane) -> &T {
    match lane {
        Lane::Small => small,
        Lane::Large => large,
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
    use super::super::settings::JitterSeed;
    use super::*;

    /// A goodbye on the large lane may be read after the small lane has been connected again.
    /// If it closed the small lane, no caller would use the peer any more, so the large lane
    /// would not be dialed either.
    #[tokio::test]
    async fn a_process_that_says_goodbye_takes_nothing_from_its_successor() {
        let settings = InternodeSettings::new(NodeId([1; 16]), "n1", 1, JitterSeed(1));
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
