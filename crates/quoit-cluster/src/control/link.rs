//! Calls of the control plane to other nodes. It also tells the transport which nodes are peers.
//!
//! The transport learns of new members before requests can see a state with them. It keeps connections to
//! removed members until these have learned of their removal.

use super::types::RaftId;
use crate::NodeId;
use crate::members::Member;
use crate::state::State;
use crate::transport::{CallError, Internode, Lane};
use parking_lot::Mutex;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;
use thiserror::Error;

/// Requests with more bytes than this use the large lane.
const SMALL_BYTES_MAX: usize = 32 << 10;

/// The node's connections, once it has some. A single node has none. Clones share the same connections.
#[derive(Clone, Default)]
pub(crate) struct ControlLink(Arc<Mutex<KnownPeers>>);

/// Address and name of a node.
type NodeAddress = (Arc<str>, Arc<str>);

/// Peers that the transport knows.
#[derive(Default)]
struct KnownPeers {
    internode: Weak<Internode>,
    /// All other members, and former members that may not know of their removal yet.
    others: BTreeMap<NodeId, NodeAddress>,
}

impl KnownPeers {
    fn tell(&self) {
        if let Some(internode) = self.internode.upgrade() {
            let listed = self.others.iter();
            let listed = listed.map(|(id, (at, name))| (*id, Arc::clone(at), Arc::clone(name)));
            internode.set_peers(&listed.collect::<Vec<_>>());
        }
    }
}

impl ControlLink {
    pub(crate) fn connect(&self, internode: &Arc<Internode>, state: &State) {
        {
            let mut told = self.0.lock();
            told.internode = Arc::downgrade(internode);
            told.others.clear();
        }
        self.tell(state);
    }

    pub(crate) fn internode(&self) -> Option<Arc<Internode>> {
        self.0.lock().internode.upgrade()
    }

    /// Tells the transport of the members of a state that is about to be published, so that every reader
    /// of that state can reach all of them.
    pub(crate) fn tell(&self, state: &State) {
        let mut told = self.0.lock();
        let Some(internode) = told.internode.upgrade() else { return };
        internode.set_cluster(Some(state.cluster_id()));
        let before = told.others.clone();
        for member in state.members().iter().filter(|member| member.id != state.node_id()) {
            let place = (Arc::clone(&member.addresses.node), Arc::clone(&member.name));
            told.others.insert(member.id, place);
        }
        if told.others != before {
            told.tell();
        }
    }

    /// Adds nodes as peers that this node has heard of but does not know as members.
    pub(crate) fn introduce<'a>(&self, strangers: impl Iterator<Item = &'a Member>) {
        let mut told = self.0.lock();
        let count = told.others.len();
        for stranger in strangers {
            let place = || (Arc::clone(&stranger.addresses.node), Arc::clone(&stranger.name));
            told.others.entry(stranger.id).or_insert_with(place);
        }
        if told.others.len() > count {
            told.tell();
        }
    }

    /// Removes the peers that are not in `nodes`.
    pub(crate) fn keep_only(&self, nodes: &BTreeSet<NodeId>) {
        let mut told = self.0.lock();
        let count = told.others.len();
        told.others.retain(|node, _| nodes.contains(node));
        if told.others.len() < count {
            told.tell();
        }
    }

    /// Returns all nodes that are known as peers.
    pub(crate) fn others(&self) -> Vec<NodeId> {
        self.0.lock().others.keys().copied().collect()
    }

    /// Calls another node and decodes its answer.
    pub(crate) async fn call<A: Message + Default>(
        &self,
        to: RaftId,
        method: u16,
        header: &impl Message,
        payload: &[u8],
        limit: Duration,
    ) -> Result<A, LinkError> {
        let peer = self.internode().and_then(|internode| internode.peer(to.0));
        let peer = peer.ok_or(LinkError::NoWay { to })?;
        let size_bytes = header.encoded_len() + payload.len();
        let lane = if size_bytes > SMALL_BYTES_MAX { Lane::Large } else { Lane::Small };
        let reply = peer.call(method, header, payload, lane, limit).await?;
        A::decode(reply.header).map_err(|fault| LinkError::Malformed(fault.to_string()))
    }
}

/// Reason why another node gave no usable answer.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum LinkError {
    #[error("node {to} has no known address")]
    NoWay { to: RaftId },
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("its answer is invalid: {0}")]
    Malformed(String),
}
