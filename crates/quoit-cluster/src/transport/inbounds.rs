//! The connections on which other nodes send requests: one for each node and lane.

use super::Lane;
use super::context::Context;
use super::dialing::HAND_OVER_PATIENCE;
use super::error::Fault;
use super::greeting;
use super::inbound::Inbound;
use super::inbound_driver::InboundDriver;
use super::network::Stream;
use super::security::PeerProof;
use super::service::JoiningNode;
use super::statistics::ServiceStatistics;
use crate::NodeId;
use parking_lot::Mutex;
use quoit_wire::internode::{Refusal, code};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tokio::time::{Instant, timeout};

/// Inbound connections and their counts.
#[derive(Default)]
pub(super) struct Inbounds {
    members: Mutex<BTreeMap<(NodeId, Lane), InboundMember>>,
    ungreeted_count: AtomicU32,
    guests_count: AtomicU32,
    /// Counts of connections that have ended.
    ended: Mutex<ServiceStatistics>,
    is_stopping: AtomicBool,
}

struct InboundMember {
    boot_id: u64,
    is_secured: bool,
    /// True for a connection without TLS that was made before the mode changed.
    is_outdated: bool,
    address: String,
    inbound: Arc<Inbound>,
}

/// Connections of a node to this one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct InboundNode {
    /// True if it has a connection without TLS that is to end.
    pub(crate) is_to_end: bool,
    /// True if it has a connection with TLS.
    pub(crate) is_secured: bool,
}

impl Inbounds {
    /// Returns the address of another live process that is connected with the identity of `newcomer`.
    fn live_duplicate_of(&self, newcomer: &JoiningNode, suspect_after_us: u64) -> Option<String> {
        let now = Instant::now();
        let members = self.members.lock();
        let of_node = (newcomer.node_id, Lane::Small)..=(newcomer.node_id, Lane::Large);
        let double = members.range(of_node).map(|(_, member)| member).find(|member| {
            member.boot_id != newcomer.boot_id
                && member.address != newcomer.address
                && member.inbound.silent_us(now) < suspect_after_us
        });
        double.map(|member| member.address.clone())
    }

    /// Adds a connection. An earlier connection of the same node and lane is closed if another process
    /// made it. If the same process made it, it is returned: the caller closes it later, because it may
    /// have unanswered requests.
    fn enter(
        &self,
        newcomer: &JoiningNode,
        is_secured: bool,
        lane: Lane,
        inbound: &Arc<Inbound>,
    ) -> Option<Arc<Inbound>> {
        let member = InboundMember {
            boot_id: newcomer.boot_id,
            is_secured,
            is_outdated: false,
            address: newcomer.address.clone(),
            inbound: Arc::clone(inbound),
        };
        let earlier = self.members.lock().insert((newcomer.node_id, lane), member)?;
        if earlier.boot_id == newcomer.boot_id {
            return Some(earlier.inbound);
        }
        earlier.inbound.close();
        None
    }

    fn leave(&self, node_id: NodeId, lane: Lane, inbound: &Arc<Inbound>) {
        let mut members = self.members.lock();
        let key = (node_id, lane);
        self.ended.lock().add(&inbound.statistics());
        if members.get(&key).is_some_and(|member| Arc::ptr_eq(&member.inbound, inbound)) {
            members.remove(&key);
        }
    }

    /// Returns the counts of all connections so far.
    pub(super) fn statistics(&self) -> ServiceStatistics {
        let members = self.members.lock();
        let mut statistics = self.ended.lock().clone();
        for member in members.values() {
            statistics.add(&member.inbound.statistics());
        }
        statistics
    }

    /// Returns the number of bytes of answers to members that wait to be written.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.members.lock().values().map(|member| member.inbound.unwritten_bytes()).sum()
    }

    /// Accepts no more connections, and asks members to send no more requests on theirs.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        for member in self.members.lock().values() {
            member.inbound.say_goodbye();
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Returns true if no member waits for an answer.
    pub(super) fn is_idle(&self) -> bool {
        self.members.lock().values().all(|member| member.inbound.is_idle())
    }

    /// Closes every connection of a member.
    pub(super) fn close_members(&self) {
        for member in self.members.lock().values() {
            member.inbound.close();
        }
    }

    /// Marks the current connections without TLS, which are to end.
    pub(super) fn outdate_plain(&self) {
        for member in self.members.lock().values_mut().filter(|member| !member.is_secured) {
            member.is_outdated = true;
        }
    }

    /// Returns the connected nodes, with their kinds of connections.
    pub(super) fn nodes(&self, allows_plain: bool) -> BTreeMap<NodeId, InboundNode> {
        let mut nodes: BTreeMap<NodeId, InboundNode> = BTreeMap::new();
        for ((node_id, _), member) in self.members.lock().iter() {
            let node = nodes.entry(*node_id).or_default();
            node.is_to_end |= member.is_outdated || (!allows_plain && !member.is_secured);
            node.is_secured |= member.is_secured;
        }
        nodes
    }

    /// Closes the connections of a node.
    pub(super) fn close_member(&self, node_id: NodeId) {
        let members = self.members.lock();
        for (_, member) in members.range((node_id, Lane::Small)..=(node_id, Lane::Large)) {
            member.inbound.close();
        }
    }
}

/// A slot in a bounded number of connections. Dropping it frees the slot.
struct CountedConnection<'a>(&'a AtomicU32);

impl<'a> CountedConnection<'a> {
    fn take(count: &'a AtomicU32, count_max: u32) -> Option<CountedConnection<'a>> {
        let place = CountedConnection(count);
        (count.fetch_add(1, Ordering::Relaxed) < count_max).then_some(place)
    }
}

impl Drop for CountedConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Logs that a connection was closed at its greeting. Repeated refusals are logged rarely, because a
/// refused node keeps dialing.
fn log_refused(context: &Context, remote: &str, fault: &Fault) {
    let line = || tracing::warn!(%remote, %fault, "closed a connection to the port for nodes");
    match fault {
        // Members dial a joining node before it knows that it has joined. The dialer logs
        // this refusal if it lasts.
        Fault::Refused { code: code::CLUSTER, .. } => {
            tracing::debug!(%remote, %fault, "closed a connection to the port for nodes");
        }
        Fault::Refused { text, .. } => {
            context.log_limiter.log_if_new(text, line);
        }
        _ => {
            context.log_limiter.say(line);
        }
    }
}

/// Serves one connection from its greeting to its end.
pub(super) async fn serve_connection(context: Arc<Context>, stream: Stream, remote: String) {
    let limits = &context.settings.limits;
    let inbounds = &context.inbounds;
    let Some(stranger) = CountedConnection::take(&inbounds.ungreeted_count, limits.strangers_max)
    else {
        context
            .log_limiter
            .say(|| tracing::warn!(%remote, "closed a connection: too many at once"));
        return;
    };
    let greeted = match greeting::receive(&context, stream, &remote).await {
        Ok(greeted) => greeted,
        Err(fault) => {
            inbounds.ended.lock().refused_count += 1;
            log_refused(&context, &remote, &fault);
            return;
        }
    };
    drop(stranger);
    let (newcomer, lane) = (greeted.newcomer.clone(), greeted.lane);
    let is_secured = greeted.proven != PeerProof::Nothing;
    let driver = InboundDriver::new(Arc::clone(&context), greeted);
    let fault = if newcomer.is_guest {
        let Some(_guest) = CountedConnection::take(&inbounds.guests_count, limits.guests_max)
        else {
            context
                .log_limiter
                .say(|| tracing::warn!(%remote, "closed a connection: too many guests"));
            return;
        };
        driver.run().await
    } else {
        let inbound = driver.inbound();
        let earlier = inbounds.enter(&newcomer, is_secured, lane, &inbound);
        // A node that has dialed this node can be dialed too, so this node need not wait for the end of the
        // pause.
        if let Some(peer) = context.peers.load().get(&newcomer.node_id) {
            peer.dial_now();
        }
        let _guard = InboundGuard { context: &context, node_id: newcomer.node_id, lane, inbound };
        run_in_place_of(earlier, driver).await
    };
    tracing::debug!(node = %newcomer.node_name, %remote, %fault, "the connection of a node has ended");
}

/// Serves a connection to its end. If it replaces an earlier one, the other side closes that one when its
/// calls have their answers; this side closes it if that takes longer.
async fn run_in_place_of(earlier: Option<Arc<Inbound>>, driver: InboundDriver) -> Fault {
    let Some(earlier) = earlier else { return driver.run().await };
    let mut running = pin!(driver.run());
    let ended = timeout(HAND_OVER_PATIENCE * 2, running.as_mut()).await;
    earlier.close();
    match ended {
        Ok(fault) => fault,
        Err(_) => running.await,
    }
}

/// Removes a connection from the list, even if its task panics.
struct InboundGuard<'a> {
    context: &'a Context,
    node_id: NodeId,
    lane: Lane,
    inbound: Arc<Inbound>,
}

impl Drop for InboundGuard<'_> {
    fn drop(&mut self) {
        self.inbound.close();
        self.context.inbounds.leave(self.node_id, self.lane, &self.inbound);
    }
}

impl Context {
    /// Refuses a node with the identity of another live process, and this node itself.
    pub(super) fn check_identity(&self, newcomer: &JoiningNode) -> Result<(), Refusal> {
        let own = &self.settings;
        if newcomer.node_id == own.node_id && newcomer.boot_id == own.boot_id {
            let text =
                format!("this is {} itself; give the address of another node", own.node_name);
            return Err(Refusal { code: code::NOT_ME, text });
        }
        let double = if newcomer.node_id == own.node_id {
            Some(self.identity.read().address.clone())
        } else {
            self.inbounds.live_duplicate_of(newcomer, self.suspect_after_us)
        };
        let Some(address) = double else { return Ok(()) };
        let text = format!(
            "the node id {} is in use by a live node at {address}; {} at {} runs on a copy of its data \
             directory: stop it, and start it with an empty one",
            newcomer.node_id, newcomer.node_name, newcomer.address,
        );
        tracing::error!("{text}");
        Err(Refusal { code: code::TWO_WITH_ONE_IDENTITY, text })
    }
}
