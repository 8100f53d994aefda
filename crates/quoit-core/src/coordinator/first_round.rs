//! The first state of a read: the fewest replicas that can meet its quorums were asked. If they have the
//! same copy, the read is done.
//!
//! The requests are under way before this node reads its own copy, so that the network and the local read
//! overlap. If all digests equal that of the local copy, the read ends. If an answer differs, fails or is
//! late, the read becomes a run ([`read_replicas`](super::read_replicas)), which continues with the
//! answers so far and with those that are still under way. The same happens if the local copy has to come
//! from the disk: the run reads it while the other replicas' answers arrive.

use crate::coordinator::readers::{
    FetchRequest, ReadRequestKind, hedge_delay, next_reader, readers_of,
};
use crate::error::RequestError;
use crate::request_log::AskedNodes;
use crate::topology::Topology;
use crate::votes::{NodeIndex, ReadNeed, ReadState, ReadTally};
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{CallError, Replies, Reply};
use quoit_planted::planted;
use quoit_store::engine::RecordAt;
use quoit_wire::internode::data::Fetched;
use smallvec::SmallVec;
use std::time::Duration;
use tokio::time::timeout;

/// An answer that the run has to handle, with the place of its node.
pub(in crate::coordinator) type UnexpectedAnswer = (NodeIndex, Result<Reply, CallError>);

/// Result of asking the first replicas of a read.
#[expect(clippy::large_enum_variant, reason = "most reads of a cluster ask other replicas")]
pub(crate) enum FirstRoundStart {
    /// No node was asked: this node's copy has all the votes that the read needs.
    Own,
    /// Other nodes were asked.
    Asked(FirstRound),
    /// The read needs a run from the beginning.
    NotHere,
}

/// The replicas that a read has asked, and their answers.
pub(crate) struct FirstRound {
    /// Version of the topology to which the places of nodes belong.
    pub(in crate::coordinator) topology_version: u64,
    pub(in crate::coordinator) replies: Replies,
    /// Nodes that were asked and have not answered.
    pub(in crate::coordinator) waiting: SmallVec<[NodeIndex; 4]>,
    /// Digests from the nodes that have answered; `None` if a node has nothing.
    pub(in crate::coordinator) answers: SmallVec<[(NodeIndex, Option<u64>); 2]>,
    /// The failure or unexpected answer because of which the read has to become a run.
    pub(in crate::coordinator) unexpected_answer: Option<Box<UnexpectedAnswer>>,
    /// True if a node that was asked has not answered in time.
    pub(in crate::coordinator) is_late: bool,
    /// This node, if its copy has a vote.
    pub(in crate::coordinator) own: Option<NodeIndex>,
    /// The nodes that were asked, and this one.
    pub(in crate::coordinator) nodes: AskedNodes,
    /// Encoded name of the record.
    pub(in crate::coordinator) key: Bytes,
}

impl FirstRound {
    /// Asks the fewest replicas that can meet the quorums together with this node's copy, if that has a
    /// vote. If this node has no vote, the first replica is asked for `elsewhere` and all others for
    /// digests; if `elsewhere` is `None`, no replica is asked.
    ///
    /// # Errors
    ///
    /// Quorums that the nodes that are up can't meet.
    pub(crate) fn ask(
        topology: &Topology,
        at: &RecordAt<'_>,
        need: &ReadNeed,
        sloppy: bool,
        elsewhere: Option<ReadRequestKind<'_>>,
    ) -> Result<FirstRoundStart, RequestError> {
        let voters = readers_of(topology, at.partition, need, sloppy)?;
        // If "not found" is no answer, a missing record may need more replicas than are asked here.
        if !need.notfound_ok {
            return Ok(FirstRoundStart::NotHere);
        }
        let own = topology.own().filter(|own| voters.of(*own).is_some());
        if own.is_none() && elsewhere.is_none() {
            return Ok(FirstRoundStart::NotHere);
        }
        let mut hoped = ReadTally::new(*need);
        if let Some(own) = own {
            hoped.found(own);
            if hoped.state(&voters) == ReadState::Met {
                return Ok(FirstRoundStart::Own);
            }
        }
        let mut request = FetchRequest::new(topology, at);
        let mut first = Self::of(topology, own, request.key().clone());
        while hoped.state(&voters) != ReadState::Met {
            let Some(node) = next_reader(topology, &voters, |node| hoped.has(node)) else {
                return Ok(FirstRoundStart::NotHere);
            };
            let is_first = own.is_none() && first.waiting.is_empty();
            let wanted = elsewhere.filter(|_| is_first).unwrap_or(ReadRequestKind::Digest);
            if !request.send(topology, node, wanted, &first.replies) {
                return Ok(FirstRoundStart::NotHere);
            }
            debug_assert!(
                Some(node) != own && !first.waiting.contains(&node),
                "another node is asked once"
            );
            first.waiting.push(node);
            first.nodes.add(topology.node(node).id);
            hoped.found(node);
        }
        Ok(FirstRoundStart::Asked(first))
    }

    /// A round of a read that has asked no other node, because this node's copy has all the votes that
    /// the read needs.
    pub(crate) fn of_own(topology: &Topology, key: Bytes) -> Self {
        Self::of(topology, topology.own(), key)
    }

    /// A round that has asked no other node yet.
    fn of(topology: &Topology, own: Option<NodeIndex>, key: Bytes) -> Self {
        let mut nodes = AskedNodes::default();
        if let Some(own) = own {
            nodes.add(topology.node(own).id);
        }
        Self {
            topology_version: topology.version(),
            replies: Replies::new(),
            waiting: SmallVec::new(),
            answers: SmallVec::new(),
            unexpected_answer: None,
            is_late: false,
            own,
            nodes,
            key,
        }
    }

    /// True if this node's copy has a vote.
    pub(crate) const fn has_own(&self) -> bool {
        self.own.is_some()
    }

    /// True if this node's copy has no vote, or was read.
    pub(crate) fn has_read_own(&self) -> bool {
        self.own.is_none_or(|own| self.answers.iter().any(|(node, _)| *node == own))
    }

    /// Adds the digest of this node's copy as its answer.
    pub(crate) fn answer_own(&mut self, digest: Option<u64>) {
        if let Some(own) = self.own {
            debug_assert!(
                self.answers.iter().all(|(node, _)| *node != own),
                "this node's copy answers once"
            );
            self.answers.push((own, digest));
        }
    }

    /// Waits for all nodes that were asked, at most for `patience`. Returns true if all have a copy with
    /// this digest, or, for `None`, if all have nothing. False also if a node fails or is late.
    pub(crate) async fn agree(&mut self, digest: Option<u64>, patience: Duration) -> bool {
        let heard = async {
            while !self.waiting.is_empty() {
                match self.next_event().await {
                    Some((_, fetched, _)) if digest_of(&fetched) == digest => {
                        if planted!(ConfirmsByOne) {
                            return true;
                        }
                    }
                    Some(_) | None => return false,
                }
            }
            true
        };
        let agreed = timeout(patience, heard).await;
        self.is_late = agreed.is_err();
        agreed.unwrap_or(false)
    }

    /// Time that the nodes that were asked have for their answers, by the latencies that they had so far.
    pub(crate) fn patience(&self, topology: &Topology) -> Duration {
        // In another version of the topology a place may belong to another node.
        let asked: &[NodeIndex] = match topology.version() == self.topology_version {
            true => &self.waiting,
            false => &[],
        };
        hedge_delay(topology, asked.iter().copied())
    }

    /// True if all nodes that have answered have a copy with this digest, or, for `None`, have nothing.
    pub(crate) fn all_have(&self, digest: Option<u64>) -> bool {
        self.answers.iter().all(|(_, other)| *other == digest)
    }

    /// The next answer, with its header decoded; `None` if it failed, came from a node that has lost
    /// records, or if no answer is outstanding.
    pub(in crate::coordinator) async fn next_event(
        &mut self,
    ) -> Option<(NodeIndex, Fetched, Bytes)> {
        let (node, reply) = self.replies.next().await?;
        let fetched = reply.as_ref().ok().and_then(|reply| Fetched::decode(&reply.header[..]).ok());
        match (fetched, reply) {
            (Some(fetched), Ok(reply)) if !fetched.has_lost => {
                self.waiting.retain(|other| *other != node);
                self.answers.push((node, digest_of(&fetched)));
                Some((node, fetched, reply.payload))
            }
            (_, reply) => {
                self.unexpected_answer = Some(Box::new((node, reply)));
                None
            }
        }
    }
}

fn digest_of(fetched: &Fetched) -> Option<u64> {
    fetched.found.then_some(fetched.digest)
}
