//! Reads that are answered from the local copy if other replicas have the same.
//!
//! The digests that the read needs are asked for first, so that the network and the local read overlap.
//! When all of them equal the local one, what was made of it is the answer. Anything else, also a
//! replica that is late, sends the read the general way, which starts from the beginning.

use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::request_log::AskedNodes;
use crate::stats::Sizes;
use crate::topology::{Topology, cost_us};
use crate::votes::{NodePlace, ReadNeed, ReadState, ReadTally};
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{Lane, Replies};
use quoit_model::key::KeyRef;
use quoit_store::engine::RecordAt;
use quoit_wire::internode::data::{Fetch, Fetched, METHOD_FETCH, Want};
use smallvec::SmallVec;
use std::fmt;
use std::time::Duration;
use tokio::time::timeout;

/// Time that replicas have before the read is made the general way.
const PATIENCE: Duration = Duration::from_millis(10);

/// As [`PATIENCE`], where the general way would be to put large records together.
pub(crate) const LARGE_PATIENCE: Duration = Duration::from_millis(500);

/// Digests that were asked for.
pub(crate) struct AskedDigests {
    replies: Replies,
    count: u32,
    /// Those that were asked, and this node.
    nodes: AskedNodes,
    /// Name of the record, encoded.
    key: Bytes,
}

impl AskedDigests {
    /// Whether all that were asked have a copy of this digest. False also when that can't be found out soon.
    pub(crate) async fn all_have(self, digest: u64, patience: Duration) -> bool {
        self.all_say(Some(digest), patience).await
    }

    /// As [`AskedDigests::all_have`]; with `None` whether none has a copy.
    async fn all_say(mut self, digest: Option<u64>, patience: Duration) -> bool {
        let same = timeout(patience, async {
            while self.count > 0 {
                let Some((_, Ok(reply))) = self.replies.next().await else { return false };
                let Ok(fetched) = Fetched::decode(reply.header) else { return false };
                if fetched.has_lost || fetched.found.then_some(fetched.digest) != digest {
                    return false;
                }
                self.count -= 1;
            }
            true
        });
        same.await.unwrap_or(false)
    }
}

/// Replicas that have to be asked besides the local copy.
pub(crate) enum ConfirmationPlan {
    /// No node: the local copy's votes are enough.
    Own,
    /// Others, and they were asked.
    Asked(AskedDigests),
    /// The read can't be made in this way.
    NotHere,
}

/// The local copy as a read saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) digest: u64,
    pub(crate) sizes: Sizes,
}

/// A read that was shown and waits for other replicas to say the same.
#[must_use = "what was shown is no answer before it is confirmed"]
pub struct Unconfirmed {
    asked: AskedDigests,
    /// `None` when there is no local copy.
    seen: Option<Seen>,
    started_us: u64,
}

impl Unconfirmed {
    pub(crate) const fn new(asked: AskedDigests, seen: Option<Seen>, started_us: u64) -> Self {
        Self { asked, seen, started_us }
    }
}

impl fmt::Debug for Unconfirmed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Unconfirmed").field("seen", &self.seen).finish_non_exhaustive()
    }
}

/// Asks as many replicas for digests as a read needs besides the local copy.
///
/// # Errors
///
/// Quorums that can't be met with the nodes that are up.
pub(crate) fn ask_for_digests(
    topology: &Topology,
    at: &RecordAt<'_>,
    need: &ReadNeed,
    sloppy: bool,
) -> Result<ConfirmationPlan, RequestError> {
    let voters = topology.readers(at.partition, need.replica_count(), sloppy, &[]);
    ReadTally::check(need, &voters)?;
    let Some(own) = topology.own().filter(|own| voters.of(*own).is_some()) else {
        return Ok(ConfirmationPlan::NotHere);
    };
    // What is missing is looked for further than this way goes.
    if !need.notfound_ok {
        return Ok(ConfirmationPlan::NotHere);
    }
    let mut hoped = ReadTally::new(*need);
    hoped.found(own);
    if hoped.state(&voters) == ReadState::Met {
        return Ok(ConfirmationPlan::Own);
    }
    let mut others: SmallVec<[(bool, u64, NodePlace); 4]> = voters
        .iter()
        .filter_map(|voter| {
            let cost_us = cost_us(topology.peer(voter.node)?);
            Some((voter.primary == 0, cost_us, voter.node))
        })
        .collect();
    others.sort_unstable();
    let header = Fetch {
        key: Bytes::copy_from_slice(at.encoded),
        partition: u32::from(at.partition.0),
        layout_version: topology.read_layout(at.partition),
        want: Want::Digest.into(),
        ..Fetch::default()
    };
    let mut nodes = AskedNodes::default();
    nodes.add(topology.node(own).id);
    let mut asked =
        AskedDigests { replies: Replies::new(), count: 0, nodes, key: header.key.clone() };
    for (_, _, node) in others {
        let Some(peer) = topology.peer(node) else { continue };
        if peer.send(METHOD_FETCH, &header, b"", Lane::Small, &asked.replies, node).is_err() {
            return Ok(ConfirmationPlan::NotHere);
        }
        asked.count += 1;
        asked.nodes.add(topology.node(node).id);
        hoped.found(node);
        if hoped.state(&voters) == ReadState::Met {
            return Ok(ConfirmationPlan::Asked(asked));
        }
    }
    Ok(ConfirmationPlan::NotHere)
}

impl Coordinator {
    /// As [`ReplicatedStore::confirm_read`](crate::ReplicatedStore::confirm_read).
    pub(crate) async fn confirm_read(&self, unconfirmed: Unconfirmed) -> bool {
        let Unconfirmed { asked, seen, started_us } = unconfirmed;
        let _waiting = self.waiting_get();
        let own_us = self.local.clock.monotonic_us() - started_us;
        let (key, nodes) = (asked.key.clone(), asked.nodes.clone());
        let confirmed = asked.all_say(seen.map(|seen| seen.digest), PATIENCE).await;
        if confirmed {
            let time_us = self.local.clock.monotonic_us() - started_us;
            let sizes = Ok(seen.map(|seen| seen.sizes));
            self.local.stats.record_get(time_us, &sizes);
            if let Ok(key) = KeyRef::decode(&key) {
                self.note_get(key, (time_us, own_us), &sizes, &nodes);
            }
        }
        confirmed
    }
}
