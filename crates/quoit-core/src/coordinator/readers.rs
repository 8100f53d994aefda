//! Choice of the replicas that a read asks, and the request that they receive. All kinds of reads use it.

use crate::error::RequestError;
use crate::field_path::path_message;
use crate::topology::{NodeConnection, Topology, cost_us};
use crate::votes::{NodeIndex, ReadNeed, ReadTally, Voters};
use bytes::Bytes;
use quoit_cluster::{Lane, Replies};
use quoit_model::data_type::{Question, WantedPart};
use quoit_model::hash::Partition;
use quoit_store::engine::RecordAt;
use quoit_wire::internode::data::{Fetch, FetchedPart, METHOD_FETCH};
use std::time::Duration;

/// Time after which another replica is asked if the peers that were asked have no history of latencies.
const HEDGE_DEFAULT: Duration = Duration::from_millis(50);
/// Bounds of the time after which another replica is asked as well.
const HEDGE_MIN: Duration = Duration::from_millis(5);
const HEDGE_MAX: Duration = Duration::from_millis(500);

/// The part of its copy that a replica is asked to send.
#[derive(Clone, Copy)]
pub(crate) enum ReadRequestKind<'q> {
    /// The digest alone.
    Digest,
    /// The whole object.
    Object,
    /// The part of a data type that a question is about.
    Part(&'q Question),
}

/// The nodes that can answer a read, with their votes.
///
/// # Errors
///
/// Quorums that the nodes that are up can't meet.
pub(crate) fn readers_of(
    topology: &Topology,
    partition: Partition,
    need: &ReadNeed,
    sloppy: bool,
) -> Result<Voters, RequestError> {
    let voters = topology.readers(partition, need.replica_count(), sloppy, &[]);
    ReadTally::check(need, &voters)?;
    Ok(voters)
}

/// The best node that was not asked yet: primaries come before fallbacks; among them this node comes
/// first, then the peer with the lowest cost.
pub(crate) fn next_reader(
    topology: &Topology,
    voters: &Voters,
    is_asked: impl Fn(NodeIndex) -> bool,
) -> Option<NodeIndex> {
    let open = voters.iter().filter(|voter| !is_asked(voter.node));
    let cost = |node: NodeIndex| match &topology.node(node).connection {
        NodeConnection::Own => 0,
        NodeConnection::Peer(peer) => cost_us(peer) + 1,
        NodeConnection::Unknown => u64::MAX,
    };
    open.min_by_key(|voter| (voter.primary == 0, cost(voter.node))).map(|voter| voter.node)
}

/// Time after which another replica is asked as well: twice the high latency of the slowest peer that was
/// asked.
pub(crate) fn hedge_delay(
    topology: &Topology,
    asked: impl IntoIterator<Item = NodeIndex>,
) -> Duration {
    let slow = asked
        .into_iter()
        .filter_map(|node| Some(u64::from(topology.peer(node)?.latency_us().high_us)));
    match slow.max() {
        None | Some(0) => HEDGE_DEFAULT,
        Some(high_us) => Duration::from_micros(high_us * 2).clamp(HEDGE_MIN, HEDGE_MAX),
    }
}

/// A request for replicas' copies of one record.
pub(crate) struct FetchRequest(Fetch);

impl FetchRequest {
    pub(crate) fn new(topology: &Topology, at: &RecordAt<'_>) -> Self {
        Self(Fetch {
            key: Bytes::copy_from_slice(at.encoded),
            partition: u32::from(at.partition.0),
            layout_version: topology.read_layout(at.partition),
            ..Fetch::default()
        })
    }

    /// The encoded name of the record.
    pub(crate) const fn key(&self) -> &Bytes {
        &self.0.key
    }

    /// Sends the request to another node. The answer goes to `replies` under the node's place. Returns
    /// false if the node can't be reached.
    pub(crate) fn send(
        &mut self,
        topology: &Topology,
        node: NodeIndex,
        wanted: ReadRequestKind<'_>,
        replies: &Replies,
    ) -> bool {
        let Some(peer) = topology.peer(node) else { return false };
        match wanted {
            ReadRequestKind::Digest => self.0.want = FetchedPart::Digest.into(),
            ReadRequestKind::Object => self.0.want = FetchedPart::Object.into(),
            ReadRequestKind::Part(question) => {
                let mut of_part = self.0.clone();
                name_part(&mut of_part, question);
                return peer.send(METHOD_FETCH, &of_part, b"", Lane::Small, replies, node).is_ok();
            }
        }
        peer.send(METHOD_FETCH, &self.0, b"", Lane::Small, replies, node).is_ok()
    }
}

fn name_part(fetch: &mut Fetch, question: &Question) {
    fetch.want = FetchedPart::Part.into();
    fetch.part_path = path_message(&question.path);
    match question.wanted() {
        WantedPart::Size => fetch.part_size_only = true,
        WantedPart::Item(item) => fetch.part_from = item.0,
        WantedPart::Items { from, count } => {
            fetch.part_from = from.0;
            fetch.part_count = u32::try_from(count).unwrap_or(u32::MAX);
        }
    }
}
