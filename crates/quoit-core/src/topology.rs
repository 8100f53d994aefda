//! The topology: the live layouts and the connections to their nodes, as one immutable value.
//!
//! A new topology is made when the control plane's state changes. Requests choose their nodes from one
//! topology, so all their decisions follow the same layouts. While a layout changes, several layouts are
//! live: writes go to the nodes of all of them, a read of a partition goes to the newest layout whose
//! copies of it are complete.

use crate::votes::{Layouts, NodeIndex, ReplicaCount, Voters};
use quoit_cluster::{Internode, Latency, NodeId, Peer, State};
use quoit_model::hash::Partition;
use quoit_model::layout::Layout;
use quoit_planted::planted;
use smallvec::SmallVec;
use std::sync::Arc;

/// The nodes of all live layouts and the connections to them, by one version of the control plane's
/// state.
pub(crate) struct Topology {
    version: u64,
    nodes: Vec<Node>,
    /// Nodes that the transport did not know yet: it learns of members a moment after the state.
    unknown: Vec<NodeId>,
    own: Option<NodeIndex>,
    /// The live layouts, oldest first, never empty.
    layouts: SmallVec<[LiveLayout; 2]>,
    /// For each partition, the index of the layout that serves reads.
    reads: Vec<u8>,
    /// Partitions of which this node's copy is not complete yet, in ascending order.
    incomplete: Vec<Partition>,
    /// Copies that have lost records, in ascending order. Their nodes answer reads like fallbacks.
    lost: Vec<(Partition, NodeIndex)>,
    /// As [`Topology::n_val_raised_at`].
    n_val_raised_at: u64,
}

/// One node of a live layout.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    /// Name of the node; its id as text while its membership is not known.
    pub(crate) name: Arc<str>,
    pub(crate) connection: NodeConnection,
}

/// Connection to a node.
pub(crate) enum NodeConnection {
    /// This node itself.
    Own,
    /// Another node.
    Peer(Arc<Peer>),
    /// A node whose address is not known yet.
    Unknown,
}

struct LiveLayout {
    layout: Arc<Layout>,
    /// Place in `Topology::nodes` of each node of the layout; `None` if the layout has the same nodes in
    /// the same order.
    places: Option<Vec<NodeIndex>>,
}

impl LiveLayout {
    /// The place of a node, from its index in the layout.
    fn place(&self, node: u16) -> NodeIndex {
        self.places.as_ref().map_or(node, |places| place_in(places, node))
    }
}

/// The place of a node, from its index in a layout that has these places.
#[expect(clippy::indexing_slicing, reason = "`places` has one for each node of the layout")]
fn place_in(places: &[NodeIndex], node: u16) -> NodeIndex {
    places[usize::from(node)]
}

fn node_index(index: usize) -> NodeIndex {
    NodeIndex::try_from(index).expect("the live layouts together have fewer nodes")
}

impl Topology {
    /// Builds the topology of a state of the control plane.
    pub(crate) fn new(state: &State, internode: &Internode) -> Self {
        let live = state.layouts().live();
        let mut ids: Vec<NodeId> = live.iter().flat_map(|layout| layout.nodes()).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let own_id = state.node_id();
        let connection = |id: NodeId| match internode.peer(id) {
            _ if id == own_id => NodeConnection::Own,
            Some(peer) => NodeConnection::Peer(peer),
            None => NodeConnection::Unknown,
        };
        let node = |id: &NodeId| {
            let member = state.members().get(*id);
            Node {
                id: *id,
                name: member.map_or_else(|| id.to_string().into(), |known| Arc::clone(&known.name)),
                connection: connection(*id),
            }
        };
        let nodes: Vec<Node> = ids.iter().map(node).collect();
        let place = |id: &NodeId| ids.binary_search(id).ok().map(node_index);
        let layouts: SmallVec<[LiveLayout; 2]> = live
            .iter()
            .map(|layout| {
                let same = layout.nodes() == ids.as_slice();
                let places = || layout.nodes().iter().filter_map(place).collect();
                LiveLayout { layout: Arc::clone(layout), places: (!same).then(places) }
            })
            .collect();
        let partition_count = state.layouts().newest().ring_size().get();
        let reads = (0..partition_count)
            .map(|partition| {
                let version = state.layouts().for_reads(Partition(partition)).version();
                let found = live.iter().position(|layout| layout.version() == version);
                debug_assert!(found.is_some(), "a partition is read by a live layout");
                u8::try_from(found.unwrap_or_default()).expect("few layouts are live")
            })
            .collect();
        let unknown = ids
            .iter()
            .zip(&nodes)
            .filter(|(_, node)| matches!(node.connection, NodeConnection::Unknown));
        let unknown = unknown.map(|(id, _)| *id).collect();
        let incomplete = state.layouts().incomplete().filter(|(_, id)| *id == own_id);
        let lost = state.layouts().lost_copies();
        let lost = lost.filter_map(|(partition, id)| Some((partition, place(&id)?)));
        let built = Self {
            version: state.version(),
            nodes,
            unknown,
            own: place(&own_id),
            layouts,
            reads,
            incomplete: incomplete.map(|(partition, _)| partition).collect(),
            lost: lost.collect(),
            n_val_raised_at: state.n_val_raised_at(),
        };
        built.check();
        built
    }

    /// Checks in debug builds what look-ups by place and by partition rely on.
    fn check(&self) {
        debug_assert!(
            self.nodes.is_sorted_by(|one, other| one.id < other.id),
            "each node has one place, in the order of ids"
        );
        debug_assert!(
            self.own.is_none_or(|own| matches!(self.node(own).connection, NodeConnection::Own)),
            "this node's place is that of this node"
        );
        let has_places = |live: &LiveLayout| {
            live.places.as_ref().map_or(self.nodes.len(), Vec::len) == live.layout.nodes().len()
        };
        debug_assert!(self.layouts.iter().all(has_places), "each node of a layout has a place");
        debug_assert!(
            self.reads.iter().all(|index| usize::from(*index) < self.layouts.len()),
            "the layouts for reads are live"
        );
        debug_assert!(
            self.lost.is_sorted_by(|one, other| one < other),
            "copies that lost records stand in order, each once"
        );
    }

    /// True if a topology built now from the state of this version would be the same.
    pub(crate) fn is_current(&self, version: u64, internode: &Internode) -> bool {
        self.version == version && self.unknown.iter().all(|id| internode.peer(*id).is_none())
    }

    /// Version of the newest live layout.
    pub(crate) fn newest_layout(&self) -> u64 {
        self.layouts.last().map_or(0, |live| live.layout.version())
    }

    /// Version of the state from which the topology was built.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Version of the layout that serves reads of a partition. Requests for reads carry it: a node where
    /// earlier layouts have retired already still accepts it if it is the partition's newest layout.
    pub(crate) fn read_layout(&self, partition: Partition) -> u64 {
        self.read_by(partition).layout.version()
    }

    /// Index of the layout that serves reads of a partition, in the list that [`Topology::writers`]
    /// returns.
    #[expect(clippy::indexing_slicing, reason = "`reads` has a number for each partition")]
    pub(crate) fn read_index(&self, partition: Partition) -> usize {
        usize::from(self.reads[usize::from(partition.0)])
    }

    /// The layout that serves reads of a partition.
    #[expect(clippy::indexing_slicing, reason = "`reads` has indexes of live layouts")]
    fn read_by(&self, partition: Partition) -> &LiveLayout {
        &self.layouts[self.read_index(partition)]
    }

    /// Version of the oldest live layout.
    pub(crate) fn layout_version(&self) -> u64 {
        self.layouts.first().map_or(0, |live| live.layout.version())
    }

    /// True if this node is the only one, so that no other node is ever asked.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.nodes.as_slice(), [Node { connection: NodeConnection::Own, .. }])
    }

    /// True if several layouts are live.
    pub(crate) fn is_moving(&self) -> bool {
        self.layouts.len() > 1
    }

    /// This node's place; `None` if it is in no live layout.
    pub(crate) const fn own(&self) -> Option<NodeIndex> {
        self.own
    }

    /// Version of the state in which a bucket's n_val was last raised, if the added replicas are not
    /// filled yet; else 0.
    pub(crate) const fn n_val_raised_at(&self) -> u64 {
        self.n_val_raised_at
    }

    /// Number of partitions.
    pub(crate) fn partition_count(&self) -> u16 {
        self.layouts.first().map_or(0, |live| live.layout.ring_size().get())
    }

    /// The places of all nodes.
    pub(crate) fn places(&self) -> impl Iterator<Item = NodeIndex> + Clone {
        0..node_index(self.nodes.len())
    }

    /// A node by its place.
    #[expect(clippy::indexing_slicing, reason = "places are indexes of `nodes`")]
    pub(crate) fn node(&self, place: NodeIndex) -> &Node {
        &self.nodes[usize::from(place)]
    }

    /// The connection to a node; `None` if the node is this one or its address is not known.
    pub(crate) fn peer(&self, place: NodeIndex) -> Option<&Arc<Peer>> {
        match &self.node(place).connection {
            NodeConnection::Peer(peer) => Some(peer),
            NodeConnection::Own | NodeConnection::Unknown => None,
        }
    }

    /// True if a node is up, in this node's opinion.
    pub(crate) fn is_up(&self, place: NodeIndex) -> bool {
        match &self.node(place).connection {
            NodeConnection::Own => true,
            NodeConnection::Peer(peer) => peer.is_up(),
            NodeConnection::Unknown => false,
        }
    }

    /// True if a node's copy of a partition has lost records and has not recovered them.
    pub(crate) fn has_lost(&self, partition: Partition, node: NodeIndex) -> bool {
        self.lost.binary_search(&(partition, node)).is_ok()
    }

    /// True if any copy has lost records.
    pub(crate) const fn has_losses(&self) -> bool {
        !self.lost.is_empty()
    }

    /// True if this node's copy of a partition has lost records, and a primary that is up has a copy that
    /// has not.
    pub(crate) fn is_worse_than_a_peer(&self, partition: Partition, n_val: u32) -> bool {
        let own_has_lost = self.own.is_some_and(|own| self.has_lost(partition, own));
        own_has_lost
            && self.readers(partition, ReplicaCount::all_filled(n_val), false, &[]).primary_votes()
                > 0
    }

    /// The nodes that answer reads of a partition, without those in `failed`. Copies that have lost
    /// records answer like fallbacks, and so do replicas that a raised n_val has added, until they are
    /// filled.
    pub(crate) fn readers(
        &self,
        partition: Partition,
        replicas: ReplicaCount,
        sloppy: bool,
        failed: &[NodeIndex],
    ) -> Voters {
        let ReplicaCount { n_val, filled_n_val } = replicas;
        debug_assert!(filled_n_val <= n_val, "the filled replicas are some of all");
        let live = self.read_by(partition);
        let mut voters = self.voters(live, partition, n_val, sloppy, failed);
        if filled_n_val < n_val && !planted!(CountsUnfilled) {
            let filled = live.layout.primaries(partition, filled_n_val);
            voters.demote(|node| !filled.iter().any(|each| live.place(*each) == node));
        }
        if !self.lost.is_empty() {
            voters.demote(|node| self.has_lost(partition, node));
        }
        voters
    }

    /// The nodes that take writes of a partition, for each live layout, without those in `failed`.
    pub(crate) fn writers(
        &self,
        partition: Partition,
        n_val: u32,
        sloppy: bool,
        failed: &[NodeIndex],
    ) -> Layouts {
        let voters = |live| self.voters(live, partition, n_val, sloppy, failed);
        let count = if planted!(WritesOldestLayout) { 1 } else { self.layouts.len() };
        self.layouts.iter().take(count).map(voters).collect()
    }

    /// True if this node coordinates a write that goes to `layouts`, because it has a vote in one of
    /// them. True also if no node has a vote, so that the fault is reported here.
    pub(crate) fn coordinates(&self, layouts: &Layouts) -> bool {
        let Some(own) = self.own else { return false };
        layouts.iter().all(|voters| voters.node_count() == 0)
            || layouts.iter().any(|voters| voters.of(own).is_some())
    }

    /// The node that answers reads for each of the `n_val` positions of a partition, and whether it is
    /// the position's own node. Fallbacks take the positions of primaries that are down.
    pub(crate) fn positions(&self, partition: Partition, n_val: u32) -> Vec<(NodeIndex, bool)> {
        let voters = self.readers(partition, ReplicaCount::all_filled(n_val), true, &[]);
        let mut stand_ins =
            voters.iter().flat_map(|voter| (0..voter.fallback_votes).map(|_| voter.node));
        let live = self.read_by(partition);
        let primaries = live.layout.primaries(partition, n_val);
        let owners = primaries.iter().map(|node| live.place(*node)).cycle().take(n_val as usize);
        owners
            .filter_map(|owner| match voters.of(owner).filter(|voter| voter.primary > 0) {
                Some(_) => Some((owner, true)),
                None => stand_ins.next().map(|node| (node, false)),
            })
            .collect()
    }

    /// True if this node keeps a complete copy of a partition's records: its copy is complete, and it is
    /// one of the filled primaries.
    pub(crate) fn keeps(&self, partition: Partition, replicas: ReplicaCount) -> bool {
        let is_complete = !self.incomplete.contains(&partition);
        is_complete && self.is_own(partition, replicas.filled_n_val)
    }

    /// True if this node is a primary of a partition in any live layout.
    pub(crate) fn is_own(&self, partition: Partition, n_val: u32) -> bool {
        let is_primary = |live: &LiveLayout| {
            let primaries = live.layout.primaries(partition, n_val).iter();
            primaries.into_iter().any(|node| Some(live.place(*node)) == self.own)
        };
        self.layouts.iter().any(is_primary)
    }

    /// The primaries of a partition in all live layouts.
    pub(crate) fn primaries(&self, partition: Partition, n_val: u32) -> SmallVec<[NodeIndex; 4]> {
        let mut places = SmallVec::new();
        for live in &self.layouts {
            for node in live.layout.primaries(partition, n_val) {
                let place = live.place(*node);
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        places
    }

    /// The primaries of a partition in the layout that serves its reads, whether they are up or not.
    pub(crate) fn read_primaries(
        &self,
        partition: Partition,
        n_val: u32,
    ) -> impl Iterator<Item = NodeIndex> {
        let live = self.read_by(partition);
        live.layout.primaries(partition, n_val).iter().map(|node| live.place(*node))
    }

    /// True if this node is the first primary of a partition by the newest layout.
    pub(crate) fn is_first_primary(&self, partition: Partition) -> bool {
        let first = self.layouts.last().and_then(|live| {
            live.layout.primaries(partition, 1).first().map(|node| live.place(*node))
        });
        first.is_some() && first == self.own
    }

    /// The primaries of a partition, most preferred first; `None` unless only one layout is live, all
    /// primaries are up, and none of them has lost records.
    pub(crate) fn settled_primaries(
        &self,
        partition: Partition,
        n_val: u32,
    ) -> Option<SmallVec<[NodeIndex; 4]>> {
        let [live] = self.layouts.as_slice() else { return None };
        let primaries = live.layout.primaries(partition, n_val);
        let places: SmallVec<[NodeIndex; 4]> =
            primaries.iter().map(|node| live.place(*node)).collect();
        let is_sound = |place: &NodeIndex| self.is_up(*place) && !self.has_lost(partition, *place);
        places.iter().all(is_sound).then_some(places)
    }

    fn voters(
        &self,
        live: &LiveLayout,
        partition: Partition,
        n_val: u32,
        sloppy: bool,
        failed: &[NodeIndex],
    ) -> Voters {
        let is_up = |place| !failed.contains(&place) && self.is_up(place);
        let order = live.layout.order(partition).iter();
        match &live.places {
            None => Voters::assign(order.copied(), n_val, sloppy, is_up),
            Some(places) => {
                let mapped = order.map(|node| place_in(places, *node));
                Voters::assign(mapped, n_val, sloppy, is_up)
            }
        }
    }
}

/// Cost of asking a peer, in microseconds: its mean latency times the number of its outstanding requests
/// plus one. A stalled peer costs more than any other.
pub(crate) fn cost_us(peer: &Peer) -> u64 {
    if peer.is_stalled() {
        return u64::MAX - 1;
    }
    let Latency { mean_us, .. } = peer.latency_us();
    u64::from(mean_us) * (1 + u64::from(peer.pending_count()))
}
