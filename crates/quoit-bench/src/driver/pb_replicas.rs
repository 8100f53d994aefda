//! A worker's connections to the nodes of a cluster, for requests that are sent to a replica of their key.
//!
//! With [`Routing::Replicas`] the worker asks a node for the layout and opens a connection to each node
//! when it is first needed. Each keyed operation goes to the key's replicas in turn. A node that cannot be
//! reached is skipped for [`FAILURE_PAUSE`]; if no replica can be reached the operation goes to any node,
//! then to the worker's own target. An operation without a key uses the connection of the operation before
//! it, or if that is lost, any node, then the worker's own target.

use std::time::Duration;

use quoit_client::{BucketRef, Error, Layout};
use quoit_model::key::DEFAULT_BUCKET_TYPE;
use tokio::time::Instant;

use super::StartError;
use super::pb_get::PbRecordName;
use super::pb_link::{PbLink, Reconnects};
use crate::config::Target;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// Interval at which the layout is requested again.
const LAYOUT_REFRESH: Duration = Duration::from_secs(10);

/// Interval after the layout was found changed: while partitions move, it changes again soon.
const CHANGED_REFRESH: Duration = Duration::from_secs(1);

/// Time after which the layout is requested again when a connection was lost, and for which a failed node
/// is skipped.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Time limit for connecting to one of several nodes, and for a request of the layout.
const PATIENCE: Duration = Duration::from_secs(1);

/// The rule that selects the node for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Routing {
    /// Requests go to the worker's target.
    Target,
    /// Requests go to a replica. A server that sends no layout is an error.
    Replicas,
    /// Requests go to a replica if the server sends its layout, otherwise to the worker's target.
    ReplicasIfTold,
}

/// A connection to the worker's target and, if requests go to replicas, one to each node that has had a
/// request.
#[derive(Debug)]
pub(super) struct PbLinks {
    home: PbLink,
    /// Addresses of all targets, the worker's own first.
    targets: Vec<String>,
    replicas: Option<Replicas>,
}

/// State of the routing: the layout, and the nodes in it.
#[derive(Debug)]
struct Replicas {
    layout: Layout,
    /// The nodes, in the order of the layout.
    nodes: Vec<Node>,
    /// Index of the node that the current operation uses; `None` for the worker's target.
    current: Option<usize>,
    /// Counter by which replicas take turns.
    turn: usize,
    refresh_at: Instant,
}

#[derive(Debug)]
struct Node {
    link: PbLink,
    retry_at: Instant,
}

impl PbLinks {
    /// Connects to the worker's target. If requests go to replicas, also reads the layout from it. The other
    /// targets are used when the connection is lost later.
    pub(super) async fn open(
        targets: &[Target],
        place: WorkerPlace,
        timeout: Duration,
        routing: Routing,
    ) -> Result<Self, StartError> {
        let target = place.choose(targets);
        let mut home = PbLink::open(target, timeout).await?;
        let targets = rotated(targets, place.number as usize).map(Target::to_string).collect();
        if routing == Routing::Target {
            return Ok(Self { home, targets, replicas: None });
        }
        let layout = match home.layout(None, PATIENCE).await {
            Ok(Some(layout)) => layout,
            Err(Error::Server(_)) if routing == Routing::ReplicasIfTold => {
                return Ok(Self { home, targets, replicas: None });
            }
            Ok(None) => return Err(no_layout(target, "it told nothing")),
            Err(Error::Server(error)) => return Err(no_layout(target, &error.message)),
            Err(error) => return Err(no_layout(target, &error.to_string())),
        };
        let now = Instant::now();
        let nodes = nodes_of(&layout, Vec::new(), timeout, now);
        let refresh_at = now + LAYOUT_REFRESH;
        let replicas = Replicas { layout, nodes, current: None, turn: 0, refresh_at };
        Ok(Self { home, targets, replicas: Some(replicas) })
    }

    /// The connection that the current operation uses.
    pub(super) fn link(&mut self) -> &mut PbLink {
        match self.replicas.as_mut().and_then(Replicas::current_node) {
            Some(node) => &mut node.link,
            None => &mut self.home,
        }
    }

    /// Makes [`link`](Self::link) a connection to a replica of the record if one can be reached, otherwise
    /// to any node, otherwise to the worker's target, connected or not. Does nothing if requests stay with
    /// the worker's target.
    pub(super) async fn turn_to(&mut self, record: PbRecordName<'_>) {
        let PbRecordName { bucket_type, bucket, key } = record;
        let Self { home, replicas: Some(replicas), .. } = self else { return };
        replicas.prepare(home).await;
        let bucket_type = bucket_type.unwrap_or(DEFAULT_BUCKET_TYPE);
        let key = BucketRef { bucket_type, bucket }.key(key);
        replicas.choose(|layout| layout.replicas(key)).await;
    }

    /// As [`turn_to`](Self::turn_to), for a request without a key, which any node can answer. Does nothing
    /// while [`link`](Self::link) is connected.
    pub(super) async fn turn_to_any(&mut self) {
        if !self.link().is_down() {
            return;
        }
        let Self { home, replicas: Some(replicas), .. } = self else { return };
        replicas.prepare(home).await;
        replicas.choose(|_| &[]).await;
    }

    /// True if no connection is known to be usable. Requests then fail until [`reconnect`](Self::reconnect)
    /// succeeds. False while an operation can still turn to another node.
    pub(super) fn is_down(&self) -> bool {
        let is_routed = self.replicas.as_ref().is_some_and(|replicas| replicas.current.is_some());
        !is_routed && self.home.is_down()
    }

    /// Reconnects to the worker's target, to another target or, if requests go to replicas, to any node.
    /// [`link`](Self::link) is then that connection. Fails with `disconnected` if no attempt succeeds.
    pub(super) async fn reconnect(&mut self, attempts: &mut Reconnects) -> Result<(), Term> {
        if self.replicas.is_none() && self.targets.len() == 1 {
            return self.home.reconnect(attempts).await;
        }
        loop {
            attempts.next().await?;
            if self.try_all().await {
                return Ok(());
            }
        }
    }

    /// Makes one attempt at each target and each node, until one is connected.
    async fn try_all(&mut self) -> bool {
        for target in &self.targets {
            self.home.turn_to(target);
            if self.home.try_connect(PATIENCE).await {
                return true;
            }
        }
        match &mut self.replicas {
            Some(replicas) => replicas.try_connect().await,
            None => false,
        }
    }
}

impl Replicas {
    /// The node that the current operation uses.
    fn current_node(&mut self) -> Option<&mut Node> {
        self.nodes.get_mut(self.current?)
    }

    /// Notes the failure of the last operation's node, and reads the layout again if that is due.
    async fn prepare(&mut self, home: &mut PbLink) {
        self.note_failure();
        if self.refresh_at <= Instant::now() {
            self.refresh(home).await;
        }
    }

    /// If the last operation's node has lost its connection, marks the node to be skipped for a while.
    fn note_failure(&mut self) {
        let Some(node) = self.current_node() else { return };
        let now = Instant::now();
        if node.link.is_down() && node.retry_at <= now {
            node.retry_at = now + FAILURE_PAUSE;
            self.refresh_at = self.refresh_at.min(now + FAILURE_PAUSE);
        }
    }

    /// Makes one attempt at each node, until one is connected, which becomes the current one.
    async fn try_connect(&mut self) -> bool {
        for (place, node) in self.nodes.iter_mut().enumerate() {
            if node.link.try_connect(PATIENCE).await {
                node.retry_at = Instant::now();
                self.current = Some(place);
                return true;
            }
        }
        false
    }

    /// Asks a connected node for the layout. Without an answer the old layout stays in use.
    async fn refresh(&mut self, home: &mut PbLink) {
        let mut links = self.nodes.iter_mut().map(|node| &mut node.link);
        let link = links.find(|link| !link.is_down()).unwrap_or(home);
        let told = link.layout(Some(&self.layout), PATIENCE).await;
        let now = Instant::now();
        self.refresh_at = now + LAYOUT_REFRESH;
        if let Ok(Some(layout)) = told {
            let old = std::mem::take(&mut self.nodes);
            self.nodes = nodes_of(&layout, old, home.connect_timeout(), now);
            (self.layout, self.current) = (layout, None);
            self.refresh_at = now + CHANGED_REFRESH;
        }
    }

    /// Makes a node the current one that can be reached: one of the `preferred` if possible, otherwise any.
    async fn choose(&mut self, preferred: impl FnOnce(&Layout) -> &[u16]) {
        self.turn = self.turn.wrapping_add(1);
        let preferred = preferred(&self.layout);
        let some = rotated(preferred, self.turn).map(|place| usize::from(*place));
        let count = self.nodes.len();
        let all = (0..count).map(|step| self.turn.wrapping_add(step) % count);
        let now = Instant::now();
        self.current = None;
        for place in some.chain(all) {
            let Some(node) = self.nodes.get_mut(place) else { continue };
            if node.link.is_down() {
                if node.retry_at > now {
                    continue;
                }
                if !node.link.try_connect(PATIENCE).await {
                    node.retry_at = Instant::now() + FAILURE_PAUSE;
                    continue;
                }
            }
            self.current = Some(place);
            return;
        }
    }
}

/// All items once, beginning with another item each turn.
fn rotated<T>(items: &[T], turn: usize) -> impl Iterator<Item = &T> {
    let (before, from) = items.split_at(turn.checked_rem(items.len()).unwrap_or(0));
    from.iter().chain(before)
}

/// The nodes of a layout. Nodes that `old` has under the same address keep their connections.
fn nodes_of(layout: &Layout, mut old: Vec<Node>, timeout: Duration, now: Instant) -> Vec<Node> {
    let node = |address: &str| match old.iter().position(|node| node.link.address() == address) {
        Some(place) => old.swap_remove(place),
        None => Node { link: PbLink::unconnected(address, timeout), retry_at: now },
    };
    layout.nodes().iter().map(|node| &*node.address).map(node).collect()
}

fn no_layout(target: &Target, reason: &str) -> StartError {
    StartError::Layout { target: target.to_string(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quoit_client::wire::MessageCode;
    use quoit_client::wire::messages::{RpbGetLayoutResp, RpbLayoutNode, RpbLayoutRule};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_worker_goes_on_with_another_target_when_its_own_is_gone() {
        let listen = || TcpListener::bind("127.0.0.1:0");
        let (own, other) = (listen().await.unwrap(), listen().await.unwrap());
        let target = |listener: &TcpListener| {
            Target::parse(&listener.local_addr().unwrap().to_string()).unwrap()
        };
        let targets = [target(&other), target(&own)];
        let (own_place, timeout) = (WorkerPlace { number: 1, count: 1 }, Duration::from_secs(62));
        let mut links = PbLinks::open(&targets, own_place, timeout, Routing::Target).await.unwrap();
        let (stream, _) = own.accept().await.unwrap();
        drop((stream, own));
        let ping = [0, 0, 0, 1, MessageCode::PingReq as u8];
        let asked = links.link().exchange(&ping, MessageCode::PingResp, timeout).await;
        assert!(asked.is_err() && links.is_down());
        let began = Instant::now();
        links.reconnect(&mut Reconnects::within(timeout)).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(1) && !links.is_down());
        assert_eq!(links.link().address(), targets[0].to_string());
    }

    #[tokio::test]
    async fn a_worker_uses_the_node_that_it_reconnects_to_when_no_target_can_be_reached() {
        let listen = || TcpListener::bind("127.0.0.1:0");
        let (node, gone) = (listen().await.unwrap(), listen().await.unwrap());
        let node_address = node.local_addr().unwrap().to_string();
        let home_address = gone.local_addr().unwrap().to_string();
        drop(gone);
        let told = RpbGetLayoutResp {
            tag: Bytes::from_static(b"tag"),
            ring_size: Some(8),
            nodes: vec![RpbLayoutNode {
                name: Bytes::from_static(b"n"),
                address: Bytes::from(node_address.clone()),
            }],
            primaries: Some(Bytes::from_static(&[0; 16])),
            rules: vec![RpbLayoutRule {
                bucket_type: "default".into(),
                n_val: 1,
                ..RpbLayoutRule::default()
            }],
        };
        let layout = Layout::from_wire(told).unwrap().unwrap();
        let (timeout, now) = (Duration::from_secs(62), Instant::now());
        let nodes = nodes_of(&layout, Vec::new(), timeout, now);
        let refresh_at = now + LAYOUT_REFRESH;
        let mut links = PbLinks {
            home: PbLink::unconnected(&home_address, timeout),
            targets: vec![home_address],
            replicas: Some(Replicas { layout, nodes, current: None, turn: 0, refresh_at }),
        };
        assert!(links.is_down());
        links.reconnect(&mut Reconnects::within(timeout)).await.unwrap();
        assert!(!links.is_down() && !links.link().is_down());
        assert_eq!(links.link().address(), node_address);
    }
}
