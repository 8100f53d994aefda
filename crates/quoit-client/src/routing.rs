//! The nodes that a client knows, and the choice of a node for a request.

use crate::layout::Layout;
use crate::location::LocationRef;
use crate::node::Node;
use crate::settings::Settings;
use std::sync::Arc;
use tokio::time::Instant;

/// The known nodes and the layout at one moment. A new layout creates a new value of this type.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// Nodes named in the settings.
    seeds: Vec<Arc<Node>>,
    /// Nodes of the layout, by their index in it; `None` for a node without a client address.
    members: Vec<Option<Arc<Node>>>,
    pub(crate) layout: Option<Layout>,
    /// Time of the last request for the layout, whether or not it succeeded. `None` before the first.
    pub(crate) asked_at: Option<Instant>,
}

/// The outcome of choosing a node.
#[derive(Debug)]
pub(crate) enum NodeChoice {
    /// Send the request to this node.
    Now(Arc<Node>),
    /// No node is reachable. This node is the first that may be tried again, at this time.
    Later(Instant, Arc<Node>),
}

impl Nodes {
    pub(crate) fn new(settings: &Settings) -> Nodes {
        let seeds = settings.nodes.iter();
        let seeds = seeds.map(|address| Arc::new(Node::new(address, settings))).collect();
        Nodes { seeds, members: Vec::new(), layout: None, asked_at: None }
    }

    /// The nodes after a request for the layout at `now`, with the layout that was answered, if any. A node
    /// whose address stays the same keeps its connections.
    pub(crate) fn with_layout_answer(
        &self,
        told: Option<Layout>,
        now: Instant,
        settings: &Settings,
    ) -> Nodes {
        let seeds = self.seeds.clone();
        let asked_at = Some(now);
        let Some(layout) = told else {
            let (members, layout) = (self.members.clone(), self.layout.clone());
            return Nodes { seeds, members, layout, asked_at };
        };
        let known = |address: &str| {
            let mut known = self.seeds.iter().chain(self.members.iter().flatten());
            known.find(|node| node.address() == address).cloned()
        };
        let member = |address: &str| {
            let node = || Arc::new(Node::new(address, settings));
            (!address.is_empty()).then(|| known(address).unwrap_or_else(node))
        };
        let members = layout.nodes().iter().map(|node| member(&node.address)).collect();
        Nodes { seeds, members, layout: Some(layout), asked_at }
    }

    /// True if the client knows a node that is not among `nodes`.
    pub(crate) fn has_other(&self, nodes: &[Arc<Node>]) -> bool {
        let mut all = self.members.iter().flatten().chain(&self.seeds);
        all.any(|other| !nodes.iter().any(|node| Arc::ptr_eq(other, node)))
    }

    /// The replicas of a key by the known layout, as indexes into the members. Empty without a layout.
    pub(crate) fn replicas(&self, location_ref: LocationRef<'_>) -> &[u16] {
        self.layout.as_ref().map_or(&[], |layout| layout.replicas(location_ref.key_ref()))
    }

    /// Chooses a node for a request that has been `tried` at some nodes: the least busy replica, else any
    /// member, else any node of the settings, else a node that was tried. Unreachable nodes are left out as
    /// long as there are others. The caller increments `turn` with each request, so that equally good nodes
    /// take turns.
    pub(crate) fn choose(
        &self,
        replicas: &[u16],
        tried: &[Arc<Node>],
        turn: usize,
        now: Instant,
    ) -> NodeChoice {
        let reachable = |node: &Arc<Node>| node.retry_at().is_none_or(|at| at <= now);
        let untried = |node: &Arc<Node>| !tried.iter().any(|other| Arc::ptr_eq(other, node));
        let usable = |node: &&Arc<Node>| reachable(node) && untried(node);
        let replicas = rotated(replicas, turn);
        let replicas = replicas.filter_map(|place| self.members.get(usize::from(*place))?.as_ref());
        let members = || rotated(&self.members, turn).flatten();
        let seeds = || rotated(&self.seeds, turn);
        let chosen = replicas
            .filter(usable)
            .min_by_key(|node| node.in_flight())
            .or_else(|| members().chain(seeds()).find(usable))
            .or_else(|| members().chain(seeds()).find(|node| reachable(node)));
        if let Some(node) = chosen {
            return NodeChoice::Now(Arc::clone(node));
        }
        let waiting = members().chain(seeds());
        let waiting = waiting.map(|node| (node.retry_at().unwrap_or(now), node));
        let first = waiting.min_by_key(|(retry_at, _)| *retry_at);
        let (retry_at, node) = first.expect("settings without nodes are refused");
        NodeChoice::Later(retry_at, Arc::clone(node))
    }
}

/// Iterates over all items once, starting one item further with each turn.
fn rotated<T>(items: &[T], turn: usize) -> impl Iterator<Item = &T> {
    let (before, from) = items.split_at(turn.checked_rem(items.len()).unwrap_or(0));
    from.iter().chain(before)
}
