//! The first state of a read: the fewest replicas that would do were asked, and all is well while they have
//! the same.
//!
//! The requests are under way before this node reads its own copy, so that the network and the local read
//! overlap. Answers that equal the local copy end the read. Anything else, also a replica that is late, makes
//! a run of it ([`read_replicas`](super::read_replicas)), which goes on with what was heard and with what is
//! still under way.

use crate::coordinator::readers::{FetchRequest, Wanted, next_reader, readers_of};
use crate::error::RequestError;
use crate::request_log::AskedNodes;
use crate::topology::Topology;
use crate::votes::{NodePlace, ReadNeed, ReadState, ReadTally};
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{CallError, Replies, Reply};
use quoit_store::engine::RecordAt;
use quoit_wire::internode::data::Fetched;
use smallvec::SmallVec;
use std::time::Duration;
use tokio::time::timeout;

/// Answer that a run has to judge, and the place of its node.
pub(in crate::coordinator) type OddAnswer = (NodePlace, Result<Reply, CallError>);

/// The beginning of a read.
#[expect(clippy::large_enum_variant, reason = "most reads of a cluster ask other replicas")]
pub(crate) enum FirstStep {
    /// No node was asked: this node's copy has all the votes that are needed.
    Own,
    /// Others were asked.
    Asked(FirstAsked),
    /// The read can't be made in this way.
    NotHere,
}

/// The replicas that a read has asked, and their answers.
pub(crate) struct FirstAsked {
    /// Version of the topology that the places of nodes are of.
    pub(in crate::coordinator) topology_version: u64,
    pub(in crate::coordinator) replies: Replies,
    /// Asked and not answered yet.
    pub(in crate::coordinator) waiting: SmallVec<[NodePlace; 4]>,
    /// Digests of those that have answered; `None` where there is nothing.
    pub(in crate::coordinator) answers: SmallVec<[(NodePlace, Option<u64>); 2]>,
    /// The answer that showed that the read has to go on.
    pub(in crate::coordinator) odd: Option<Box<OddAnswer>>,
    /// This node, if its copy counts.
    pub(in crate::coordinator) own: Option<NodePlace>,
    /// Nodes that were asked, and this one.
    pub(in crate::coordinator) nodes: AskedNodes,
    /// Encoded name of the record.
    pub(in crate::coordinator) key: Bytes,
}

impl FirstAsked {
    /// Asks the fewest replicas that would do beside this node's copy, if it has one that counts: the first
    /// for `wanted` where this node has none, all others for digests.
    ///
    /// # Errors
    ///
    /// Quorums that can't be met with the nodes that are up.
    pub(crate) fn ask(
        topology: &Topology,
        at: &RecordAt<'_>,
        need: &ReadNeed,
        sloppy: bool,
        wanted: Wanted<'_>,
    ) -> Result<FirstStep, RequestError> {
        let voters = readers_of(topology, at.partition, need, sloppy)?;
        // A missing record has to be asked of more replicas than this step does.
        if !need.notfound_ok {
            return Ok(FirstStep::NotHere);
        }
        let own = topology.own().filter(|own| voters.of(*own).is_some());
        let mut hoped = ReadTally::new(*need);
        if let Some(own) = own {
            hoped.found(own);
            if hoped.state(&voters) == ReadState::Met {
                return Ok(FirstStep::Own);
            }
        }
        let mut request = FetchRequest::new(topology, at);
        let mut first = Self {
            topology_version: topology.version(),
            replies: Replies::new(),
            waiting: SmallVec::new(),
            answers: SmallVec::new(),
            odd: None,
            own,
            nodes: AskedNodes::default(),
            key: request.key().clone(),
        };
        if let Some(own) = own {
            first.nodes.add(topology.node(own).id);
        }
        while hoped.state(&voters) != ReadState::Met {
            let Some(node) = next_reader(topology, &voters, |node| hoped.has(node)) else {
                return Ok(FirstStep::NotHere);
            };
            let is_first = own.is_none() && first.waiting.is_empty();
            let wanted = if is_first { wanted } else { Wanted::Digest };
            if !request.send(topology, node, wanted, &first.replies) {
                return Ok(FirstStep::NotHere);
            }
            first.waiting.push(node);
            first.nodes.add(topology.node(node).id);
            hoped.found(node);
        }
        Ok(FirstStep::Asked(first))
    }

    /// Whether this node's copy counts.
    pub(crate) const fn has_own(&self) -> bool {
        self.own.is_some()
    }

    /// Takes this node's copy for its answer.
    pub(crate) fn answer_own(&mut self, digest: Option<u64>) {
        if let Some(own) = self.own {
            self.answers.push((own, digest));
        }
    }

    /// Whether all that were asked have a copy of this digest, or none with `None`. False also when that
    /// can't be found out soon.
    pub(crate) async fn agree(&mut self, digest: Option<u64>, patience: Duration) -> bool {
        let heard = async {
            while !self.waiting.is_empty() {
                match self.hear().await {
                    Some((_, fetched, _)) if digest_of(&fetched) == digest => {}
                    Some(_) | None => return false,
                }
            }
            true
        };
        timeout(patience, heard).await.unwrap_or(false)
    }

    /// Whether all that have answered have a copy of this digest, or none with `None`.
    pub(crate) fn all_have(&self, digest: Option<u64>) -> bool {
        self.answers.iter().all(|(_, other)| *other == digest)
    }

    /// The next answer, with its header decoded; `None` when there is none that counts.
    pub(in crate::coordinator) async fn hear(&mut self) -> Option<(NodePlace, Fetched, Bytes)> {
        let (node, reply) = self.replies.next().await?;
        let fetched = reply.as_ref().ok().and_then(|reply| Fetched::decode(&reply.header[..]).ok());
        match (fetched, reply) {
            (Some(fetched), Ok(reply)) if !fetched.has_lost => {
                self.waiting.retain(|other| *other != node);
                self.answers.push((node, digest_of(&fetched)));
                Some((node, fetched, reply.payload))
            }
            (_, reply) => {
                self.odd = Some(Box::new((node, reply)));
                None
            }
        }
    }
}

fn digest_of(fetched: &Fetched) -> Option<u64> {
    fetched.found.then_some(fetched.digest)
}
