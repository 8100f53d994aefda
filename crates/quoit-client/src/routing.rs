//! The nodes that a client knows, and which of them a request goes to.

use crate::layout::Layout;
use crate::location::About;
use crate::node::Node;
use crate::settings::Settings;
use std::sync::Arc;
use tokio::time::Instant;

/// The nodes as they are known at one time.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// Those that the settings name.
    seeds: Vec<Arc<Node>>,
    /// Those of the layout, by their place in it; `None` has no address.
    members: Vec<Option<Arc<Node>>>,
    pub(crate) layout: Option<Layout>,
    /// When nodes were asked for the layout last, whatever came of it.
    pub(crate) asked_at: Option<Instant>,
}

/// Where a request goes.
#[derive(Debug)]
pub(crate) enum Choice {
    /// To this node.
    Now(Arc<Node>),
    /// No node can be reached; this one may be tried again first, at this time.
    Later(Instant, Arc<Node>),
}

impl Nodes {
    pub(crate) fn new(settings: &Settings) -> Nodes {
        let seeds = settings.nodes.iter();
        let seeds = seeds.map(|address| Arc::new(Node::new(address, settings))).collect();
        Nodes { seeds, members: Vec::new(), layout: None, asked_at: None }
    }

    /// The nodes after they were asked at `now`, with the layout that they told, if any. Nodes
    /// keep their connections as long as their addresses stay.
    pub(crate) fn after_asking(
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

    /// Whether there is another node than `node`.
    pub(crate) fn has_other(&self, node: &Arc<Node>) -> bool {
        let mut all = self.members.iter().flatten().chain(&self.seeds);
        all.any(|other| !Arc::ptr_eq(other, node))
    }

    /// The nodes that hold a key as far as is known, as places of members.
    pub(crate) fn replicas(&self, about: About<'_>) -> &[u16] {
        let About { bucket_type, bucket, key } = about;
        self.layout.as_ref().map_or(&[], |layout| layout.replicas(bucket_type, bucket, key))
    }

    /// A node for a request that was `tried` at some already: the least busy of its replicas,
    /// else any member, else any node of the settings, else one that was tried. Nodes that can't
    /// be reached are left out as long as there are others. `turn` grows from request to
    /// request, so that nodes as good as each other take turns.
    pub(crate) fn choose(
        &self,
        replicas: &[u16],
        tried: &[Arc<Node>],
        turn: usize,
        now: Instant,
    ) -> Choice {
        let reachable = |node: &Arc<Node>| node.retry_at().is_none_or(|at| at <= now);
        let untried = |node: &Arc<Node>| !tried.iter().any(|other| Arc::ptr_eq(other, node));
        let usable = |node: &&Arc<Node>| reachable(node) && untried(node);
        let replicas = in_turn(replicas, turn);
        let replicas = replicas.filter_map(|place| self.members[usize::from(*place)].as_ref());
        let members = || in_turn(&self.members, turn).flatten();
        let seeds = || in_turn(&self.seeds, turn);
        let chosen = replicas
            .filter(usable)
            .min_by_key(|node| node.in_flight())
            .or_else(|| members().chain(seeds()).find(usable))
            .or_else(|| members().chain(seeds()).find(|node| reachable(node)));
        if let Some(node) = chosen {
            return Choice::Now(Arc::clone(node));
        }
        let waiting = members().chain(seeds());
        let waiting = waiting.map(|node| (node.retry_at().unwrap_or(now), node));
        let first = waiting.min_by_key(|(retry_at, _)| *retry_at);
        let (retry_at, node) = first.expect("settings without nodes are refused");
        Choice::Later(retry_at, Arc::clone(node))
    }
}

/// All items once, starting with another one each turn.
fn in_turn<T>(items: &[T], turn: usize) -> impl Iterator<Item = &T> {
    let (before, from) = items.split_at(turn.checked_rem(items.len()).unwrap_or(0));
    from.iter().chain(before)
}
