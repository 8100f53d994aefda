//! A node's end of all traffic between nodes.

use super::Lane;
use super::context::Context;
use super::dialing::keep_connected;
use super::error::{CallError, Fault};
use super::greeting::{self, DialTarget, read_frame};
use super::inbounds::{InboundNode, serve_connection};
use super::network::{Listener, Network};
use super::peer::{Peer, PeerFacts};
use super::redial::Jitter;
use super::replies::Reply;
use super::security::{InternodeTlsMode, JoinProof, LinkSecurity};
use super::service::{Admission, Caller, Service};
use super::settings::InternodeSettings;
use super::statistics::{PeerStatistics, ServiceStatistics};
use super::suspension::TICK_INTERVAL;
use crate::liveness::PhiDetector;
use crate::{ClusterId, NodeId};
use parking_lot::Mutex;
use prost::Message;
use quoit_seam::Clock;
use quoit_wire::internode::{
    FrameKind, FramePrefix, InternodeDecoder, Payload, Refusal, append_frame, code,
};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

/// Pause after a failed accept, which usually means that the process has no free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Interval at which a node that was just started or resumed checks whether it has heard of its peers.
const SETTLED_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Interval at which a stopping node checks whether all requests are answered.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A node's end of all traffic between nodes. Dropping it ends every connection.
pub struct Internode {
    context: Arc<Context>,
    /// Tasks of listeners and lanes. They end with the node.
    tasks: Mutex<JoinSet<()>>,
}

impl Internode {
    /// Creates a node that neither listens nor knows peers yet. Must be called inside a tokio runtime, as
    /// must all other methods.
    #[must_use]
    pub fn new(settings: InternodeSettings, network: Arc<dyn Network>) -> Arc<Internode> {
        let context = Context {
            jitter: Mutex::new(Jitter::new(settings.seed.0)),
            suspect_after_us: PhiDetector::new(settings.liveness).suspect_after_us(),
            settings,
            network,
            services: Default::default(),
            admission: Default::default(),
            identity: Default::default(),
            peers: Default::default(),
            inbounds: Default::default(),
            retired_statistics: Default::default(),
            log_limiter: Default::default(),
            suspension: Default::default(),
        };
        Arc::new(Internode { context: Arc::new(context), tasks: Mutex::new(JoinSet::new()) })
    }

    /// Returns the node's own identity.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        self.context.settings.node_id
    }

    /// Returns the clock for the times in greetings.
    pub(super) fn clock(&self) -> Option<&dyn Clock> {
        self.context.settings.clock.as_ref().map(|clock| &*clock.0)
    }

    /// Returns the silence after which a connection is closed.
    #[must_use]
    pub fn idle_timeout(&self) -> Duration {
        self.context.settings.limits.idle_timeout
    }

    /// Returns the boot id: random for each start of the process.
    #[must_use]
    pub fn boot_id(&self) -> u64 {
        self.context.settings.boot_id
    }

    /// Serves the connections that `listener` accepts. Its address becomes the address that the node
    /// advertises to others, unless [`set_address`](Self::set_address) has set another.
    ///
    /// # Errors
    ///
    /// If the listener's address cannot be determined.
    pub fn serve(&self, mut listener: Box<dyn Listener>) -> std::io::Result<()> {
        let address = listener.local_address()?;
        let mut identity = self.context.identity.write();
        if identity.address.is_empty() {
            identity.address = address;
        }
        drop(identity);
        self.spawn(record_running(Arc::clone(&self.context)));
        let context = Arc::clone(&self.context);
        self.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                while connections.try_join_next().is_some() {}
                match listener.accept().await {
                    Ok((stream, remote)) => {
                        connections.spawn(serve_connection(Arc::clone(&context), stream, remote));
                    }
                    Err(fault) => {
                        context
                            .log_limiter
                            .say(|| tracing::warn!(%fault, "accepting a node failed"));
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        });
        Ok(())
    }

    /// Registers a service for `methods` called by members of the cluster. A later
    /// registration takes precedence.
    pub fn register(&self, methods: RangeInclusive<u16>, service: Arc<dyn Service>) {
        self.add_service(methods, Caller::Member, service);
    }

    /// Registers a service for `methods` called by any node that reaches the port, members included.
    pub fn register_for_guests(&self, methods: RangeInclusive<u16>, service: Arc<dyn Service>) {
        self.add_service(methods, Caller::Guest, service);
    }

    /// Registers a service for nodes that have proved that they know a token or the shared secret. Such
    /// nodes can call no others.
    pub(crate) fn register_for_joiners(
        &self,
        methods: RangeInclusive<u16>,
        service: Arc<dyn Service>,
    ) {
        self.add_service(methods, Caller::Joiner, service);
    }

    /// Returns the security of the node's connections.
    #[must_use]
    pub fn security(&self) -> &Arc<LinkSecurity> {
        &self.context.settings.security
    }

    /// Marks the current connections without TLS from other nodes as outdated. Those that the other
    /// nodes do not replace are ended, for one node after the other, so that this node is never cut
    /// off from all others. If the mode allows connections without TLS, the other nodes may make
    /// such connections again.
    pub fn outdate_plain_inbound(&self) {
        self.context.inbounds.outdate_plain();
    }

    /// Returns the nodes that are connected to this one, with their kinds of connections.
    pub(crate) fn inbound_nodes(&self) -> BTreeMap<NodeId, InboundNode> {
        self.context.inbounds.nodes(self.security().mode() != InternodeTlsMode::Required)
    }

    /// Ends the connections that a node has made to this one.
    pub(crate) fn hang_up_inbound(&self, node_id: NodeId) {
        self.context.inbounds.close_member(node_id);
    }

    fn add_service(&self, methods: RangeInclusive<u16>, takes: Caller, service: Arc<dyn Service>) {
        self.context
            .services
            .rcu(|services| services.with(methods.clone(), takes, Arc::clone(&service)));
    }

    /// Sets the object that decides about connections after the transport's own checks. Before the first
    /// call, all nodes that pass those checks are admitted.
    pub fn set_admission(&self, admission: Arc<dyn Admission>) {
        *self.context.admission.write() = Some(admission);
    }

    /// Sets the cluster that the node belongs to. Without one, no member is admitted. When it changes, all
    /// connections end at once. A node changes its cluster only while it is the only member of the former
    /// one, so its writes miss no replica.
    pub fn set_cluster(&self, cluster_id: Option<ClusterId>) {
        let mut identity = self.context.identity.write();
        let earlier = std::mem::replace(&mut identity.cluster_id, cluster_id);
        drop(identity);
        if earlier != cluster_id {
            self.context.inbounds.close_members();
            for peer in self.context.peers.load().values() {
                peer.close_connections();
            }
        }
    }

    /// Sets the address at which others reach this node, if it differs from where it listens.
    pub fn set_address(&self, address: impl Into<String>) {
        self.context.identity.write().address = address.into();
    }

    /// Sets the peers: identity, address and name of all other members. New peers are dialed at once.
    /// Peers that are not listed are retired, and their calls fail.
    pub fn set_peers(&self, members: &[(NodeId, Arc<str>, Arc<str>)]) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        let earlier = self.context.peers.load_full();
        let mut peers = BTreeMap::new();
        for (node_id, address, name) in members {
            if *node_id == self.node_id() {
                continue;
            }
            let place = PeerFacts { name: Arc::clone(name), address: Arc::clone(address) };
            let peer = match earlier.get(node_id) {
                Some(peer) => {
                    peer.set_place(place);
                    Arc::clone(peer)
                }
                None => Arc::new(Peer::new(*node_id, place, &self.context.settings)),
            };
            peers.insert(*node_id, peer);
        }
        let mut retired_statistics = self.context.retired_statistics.lock();
        self.context.peers.store(Arc::new(peers.clone()));
        for (node_id, peer) in earlier.iter() {
            if !peers.contains_key(node_id) {
                peer.retire();
                retired_statistics.add(&peer.statistics());
                self.context.inbounds.close_member(*node_id);
            }
        }
        drop(retired_statistics);
        for (node_id, peer) in &peers {
            if !earlier.contains_key(node_id) {
                for lane in [Lane::Small, Lane::Large] {
                    tasks.spawn(keep_connected(Arc::clone(&self.context), Arc::clone(peer), lane));
                }
            }
        }
    }

    /// Returns the peer with this identity. Costs an atomic load and a search among the members.
    #[must_use]
    pub fn peer(&self, node_id: NodeId) -> Option<Arc<Peer>> {
        self.context.peers.load().get(&node_id).cloned()
    }

    /// Returns true if this node may judge which peers are up: since it started or was last suspended, it
    /// has heard from every peer or failed to connect to it, or three seconds have passed. Usually costs a
    /// clock reading and two atomic loads.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let peers = self.context.peers.load();
        self.context.suspension.is_settled(Instant::now(), &peers)
    }

    /// Waits until [`is_settled`](Self::is_settled), or until `deadline`.
    pub async fn settled(&self, deadline: Instant) {
        while !self.is_settled() && Instant::now() < deadline {
            sleep(SETTLED_POLL_INTERVAL).await;
        }
    }

    /// Returns the counts of this node's requests to all peers together, current and former ones. They
    /// never decrease.
    #[must_use]
    pub fn peer_statistics(&self) -> PeerStatistics {
        let retired = self.context.retired_statistics.lock();
        let (mut statistics, peers) = (retired.clone(), self.context.peers.load_full());
        drop(retired);
        for peer in peers.values() {
            statistics.add(&peer.statistics());
        }
        statistics
    }

    /// Returns the counts of other nodes' requests to this one.
    /// [`peer_statistics`](Self::peer_statistics) counts this node's requests.
    #[must_use]
    pub fn statistics(&self) -> ServiceStatistics {
        self.context.inbounds.statistics()
    }

    /// Prepares for the end of the process: accepts no more connections, tells other nodes to send no more
    /// requests, and waits until their requests are answered, at most `limit`. Returns true if all are
    /// answered. The node's own calls continue.
    pub async fn stop(&self, limit: Duration) -> bool {
        let inbounds = &self.context.inbounds;
        inbounds.stop();
        let deadline = Instant::now() + limit;
        while !inbounds.is_idle() {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(STOP_POLL_INTERVAL).await;
        }
        true
    }

    /// Waits until peers have answered all requests of this node, at most `limit`: a write may still be
    /// under way to the last replica when its client no longer waits. Returns true if all are answered.
    /// Does not wait for peers that are down.
    pub async fn answered(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let owes = |peer: &Arc<Peer>| peer.is_up() && peer.pending_count() > 0;
        while self.context.peers.load().values().any(owes) {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(STOP_POLL_INTERVAL).await;
        }
        true
    }

    /// Fails all calls that peers have not answered, at the end of the process. Their callers, and
    /// receivers of late failures ([`Replies::leave`](super::Replies::leave)), learn of it while
    /// they can still record it.
    pub fn give_up_calls(&self) {
        let reason: Arc<str> = "this node is stopping".into();
        let error = CallError::Disconnected(Arc::clone(&reason));
        for peer in self.context.peers.load().values() {
            for lane in [Lane::Small, Lane::Large] {
                peer.disconnected(lane, &reason, &error);
            }
        }
    }

    /// Returns all peers, by identity.
    #[must_use]
    pub fn peers(&self) -> Vec<Arc<Peer>> {
        self.context.peers.load().values().cloned().collect()
    }

    /// Returns the number of bytes of requests to members and of answers for them that wait to be written.
    /// On each connection it is bounded by what the other side accepts at a time.
    #[must_use]
    pub fn unwritten_bytes(&self) -> usize {
        let requests: usize =
            self.context.peers.load().values().map(|peer| peer.unwritten_bytes()).sum();
        requests + self.context.inbounds.unwritten_bytes()
    }

    /// Calls the node at `address` as a guest, on a connection of its own. A node that wants to join uses
    /// this to talk to a cluster. Returns the first answer, and the identity of the node that gave it.
    ///
    /// # Errors
    ///
    /// Any [`CallError`].
    pub async fn call_address(
        &self,
        address: &str,
        method: u16,
        header: &impl Message,
        payload: &(impl Payload + ?Sized),
        limit: Duration,
    ) -> Result<(NodeId, Reply), CallError> {
        self.call_address_by(None, address, method, header, payload, limit).await
    }

    /// Works like [`call_address`](Self::call_address), with a proof for nodes that have no
    /// certificate of the cluster.
    ///
    /// # Errors
    ///
    /// Any [`CallError`].
    pub(crate) async fn call_address_by(
        &self,
        proof: Option<&JoinProof>,
        address: &str,
        method: u16,
        header: &impl Message,
        payload: &(impl Payload + ?Sized),
        limit: Duration,
    ) -> Result<(NodeId, Reply), CallError> {
        let limits = &self.context.settings.limits;
        let unreachable =
            |fault: &dyn fmt::Display| CallError::Unreachable(fault.to_string().into());
        let broke = |fault: &dyn fmt::Display| CallError::Disconnected(fault.to_string().into());
        let mut bytes = Vec::new();
        let prefix = FramePrefix { method, ..FramePrefix::new(FrameKind::Request, 1) };
        append_frame(&mut bytes, prefix, header, payload).map_err(|fault| unreachable(&fault))?;
        let exchange = async {
            let greeted =
                greeting::dial(&self.context, address, Lane::Large, DialTarget::Anyone(proof))
                    .await;
            let mut greeted = greeted.map_err(|fault| match fault {
                Fault::Refused { code, text } => CallError::Refused { code, text: text.into() },
                Fault::Outdated(text) => {
                    CallError::Refused { code: code::OUTDATED, text: text.into() }
                }
                Fault::Alert(text) => CallError::Refused { code: code::PROOF, text: text.into() },
                fault => unreachable(&fault),
            })?;
            let writer = &mut greeted.stream.writer;
            writer.write_all(&bytes).await.map_err(|fault| broke(&fault))?;
            writer.flush().await.map_err(|fault| broke(&fault))?;
            let decoder = InternodeDecoder::new(limits.frame_bytes_max);
            loop {
                let reader = &mut *greeted.stream.reader;
                let frame = read_frame(reader, &mut greeted.input, decoder).await;
                let frame = frame.map_err(|fault| broke(&fault))?;
                if frame.prefix.kind == FrameKind::Refusal as u8 {
                    let Refusal { code, text } = Refusal::decode(frame.header).unwrap_or_default();
                    return Err(CallError::Refused { code, text: text.into() });
                }
                if frame.prefix.kind == FrameKind::Answer as u8 {
                    let (header, payload) = (frame.header, frame.payload);
                    let reply = Reply { header, payload, last: true };
                    return Ok((greeted.newcomer.node_id, reply));
                }
            }
        };
        match timeout(limit, exchange).await {
            Ok(result) => result,
            Err(_) => Err(CallError::timeout(limit)),
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().spawn(task);
    }
}

/// Records regularly that the process runs, so that a time in which it did not run is noticed.
async fn record_running(context: Arc<Context>) {
    let mut ticks = interval(TICK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if context.suspension.tick(Instant::now()) {
            tracing::warn!(
                "this node did not run for a while; it waits until it has heard of others"
            );
        }
    }
}

impl Drop for Internode {
    fn drop(&mut self) {
        self.context.inbounds.close_members();
        for peer in self.context.peers.load().values() {
            peer.retire();
        }
    }
}

impl fmt::Debug for Internode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Internode");
        debug.field("node_id", &self.node_id()).finish_non_exhaustive()
    }
}
