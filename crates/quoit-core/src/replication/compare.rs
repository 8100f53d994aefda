//! Comparison of whole clusters by digests.
//!
//! The space of placements is divided into arcs, which two clusters have in common even if their ring
//! sizes differ. Within an arc, digests are compared by ranges of hashes. For each partition, one node
//! with a complete copy answers: the first such primary that is up. The digests are those by which
//! nodes compare their copies, combined over all classes of n_val, so that two clusters agree on equal
//! records even if their buckets have different n_vals.

use super::Replication;
use crate::error::RequestError;
use crate::queues::VisitedCluster;
use crate::refusal::{Refusal, refuse};
use crate::stored::decode;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{IncomingRequest, Lane, NodeId, Replies, Responder, State};
use quoit_model::context::encode_context;
use quoit_model::hash::Partition;
use quoit_store::compare::{HashRange, Scope};
use quoit_store::engine::Compare;
use quoit_store::engine::RecordMeta;
use quoit_store::index::Tag;
use quoit_wire::internode::replication::{
    DigestsRead, METHOD_ASK_DIGESTS, ReadDigests, RecordDigest,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum number of ranges in a question.
pub const COMPARED_RANGE_COUNT_MAX: usize = 65_536;
/// Maximum number of records in an answer; a range with more has to be split.
const RECORD_COUNT_MAX: usize = 50_000;
/// Number of leaves that are read from the engine at once.
const LEAF_COUNT: usize = 1_024;
/// Time in which the nodes of the cluster have to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A range of hashes within an arc.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ArcRange {
    /// Number of the arc.
    pub arc: u16,
    /// Number of the range ([`HashRange::number`]).
    pub range: u64,
}

/// A record as clusters compare it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ComparedRecord {
    /// Encoded name.
    pub key: Bytes,
    /// Digest of its state.
    pub digest: u64,
    /// True for a tombstone.
    pub is_tombstone: bool,
    /// Version vector in the form that clients get.
    pub clock: Bytes,
    /// Time of the last write, microseconds since 1970.
    pub modified_us: u64,
}

/// A question to a cluster about its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterQuestion<'a> {
    /// Number of arcs that the placements are divided into: a power of two, at most the number of
    /// partitions.
    pub arc_count: u16,
    /// First hour, from 1970, in which a record may expire. Records that expire before it are left out.
    pub hour_min: u32,
    /// Ranges in question.
    pub ranges: &'a [ArcRange],
    /// True to ask for the records of the ranges instead of their digests.
    pub wants_records: bool,
    /// Cluster on the other side of the comparison; `None` if it has no id.
    pub other: Option<VisitedCluster>,
    /// True to compare in spite of a stale queue for that cluster: an operator has decided which
    /// cluster is right.
    pub is_rebase: bool,
}

/// Digests of a cluster for some ranges.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterDigests {
    /// A digest for each range.
    pub digests: Vec<u64>,
    /// Records of all ranges, if the question asks for them.
    pub records: Vec<ComparedRecord>,
    /// Arcs for which no node with a complete copy answered.
    pub missing: BTreeSet<u16>,
}

/// A range of a partition, and the range of the question that it belongs to: its arc, and its index.
struct ComparedRange {
    partition: Partition,
    range: u64,
    arc: u16,
    place: usize,
}

impl ClusterDigests {
    /// Takes a node's answer for these parts. False if the answer does not fit: it has a digest for each
    /// part, or none if the question is for records.
    #[expect(clippy::indexing_slicing, reason = "`digests` has one for each range of the question")]
    fn take(&mut self, wants_records: bool, parts: &[ComparedRange], answer: DigestsRead) -> bool {
        let digest_count = if wants_records { 0 } else { parts.len() };
        if answer.digests.len() != digest_count {
            return false;
        }
        for (part, digest) in parts.iter().zip(answer.digests) {
            self.digests[part.place] ^= digest;
        }
        self.records.extend(answer.records.into_iter().map(compared));
        true
    }
}

impl Replication {
    /// Digests of this cluster for ranges of arcs, or the records in them.
    ///
    /// # Errors
    ///
    /// Invalid arcs or ranges, faults of this node's engine, and stale queues for the other cluster. If
    /// no node can answer for a partition, its arc is reported as missing instead.
    pub async fn cluster_digests(
        self: &Arc<Self>,
        question: ClusterQuestion<'_>,
    ) -> Result<ClusterDigests, RequestError> {
        let ClusterQuestion { arc_count, ranges: asked, wants_records: records, .. } = question;
        let state = self.local.state();
        let ring = state.ring_size().get();
        let is_good =
            |each: &ArcRange| each.arc < arc_count && HashRange::from_number(each.range).is_some();
        let count_is_good = arc_count.is_power_of_two() && arc_count <= ring;
        if !count_is_good || asked.len() > COMPARED_RANGE_COUNT_MAX || !asked.iter().all(is_good) {
            let text = format!("the ranges do not fit {arc_count} arcs of {ring} partitions");
            return Err(RequestError::Vetoed(text));
        }
        let mut told = ClusterDigests {
            digests: vec![0; if records { 0 } else { asked.len() }],
            ..ClusterDigests::default()
        };
        let mut parts: BTreeMap<NodeId, Vec<ComparedRange>> = BTreeMap::new();
        let width = ring / arc_count;
        for (place, ArcRange { arc, range }) in asked.iter().enumerate() {
            for number in arc * width..(arc + 1) * width {
                let partition = Partition(number);
                match self.answering_node(&state, partition) {
                    Some(node) => {
                        let part = ComparedRange { partition, range: *range, arc: *arc, place };
                        parts.entry(node).or_default().push(part);
                    }
                    None => _ = told.missing.insert(*arc),
                }
            }
        }
        self.query_nodes(&state, question, &parts, &mut told).await?;
        Ok(told)
    }

    /// The node that answers for a partition: the most preferred live primary with a complete copy.
    pub(super) fn answering_node(&self, state: &State, partition: Partition) -> Option<NodeId> {
        let layouts = state.layouts();
        let newest = layouts.newest();
        let n_val = state.n_vals().iter().copied().min().unwrap_or(1);
        newest.primaries(partition, n_val).iter().map(|node| newest.node_at(*node)).find(|id| {
            let is_up = *id == state.node_id() || self.local.reachable(*id).is_some();
            is_up && !layouts.is_incomplete(partition, *id)
        })
    }

    async fn query_nodes(
        self: &Arc<Self>,
        state: &State,
        question: ClusterQuestion<'_>,
        parts: &BTreeMap<NodeId, Vec<ComparedRange>>,
        told: &mut ClusterDigests,
    ) -> Result<(), RequestError> {
        let mut replies = Replies::new();
        let nodes: Vec<(&NodeId, &Vec<ComparedRange>)> = parts.iter().collect();
        let mut own = None;
        let mut unanswered: BTreeSet<u16> = BTreeSet::new();
        for ((node, of_node), tag) in nodes.iter().zip(0_u16..) {
            let ask = asked_of_node(state, question, of_node);
            if **node == state.node_id() {
                own = Some((tag, ask));
                continue;
            }
            unanswered.insert(tag);
            if let Some(peer) = self.local.reachable(**node) {
                // If sending fails, the node stays in `unanswered`.
                let _ = peer.send(METHOD_ASK_DIGESTS, &ask, b"", Lane::Small, &replies, tag);
            }
        }
        let mut answers = Vec::new();
        if let Some((tag, ask)) = own {
            let replication = Arc::clone(self);
            let read = move || Ok(replication.told_digests(&ask));
            match self.local.settings.blocking.at_low_priority(read).await? {
                Ok(answer) => answers.push((tag, answer)),
                Err(Refusal::Storage(fault)) => return Err(fault),
                Err(_) => _ = unanswered.insert(tag),
            }
        }
        let gather = async {
            while let Some((tag, answer)) = replies.next().await {
                if let Ok(Ok(answer)) = answer.map(|reply| DigestsRead::decode(reply.header)) {
                    unanswered.remove(&tag);
                    answers.push((tag, answer));
                }
            }
        };
        let _ = timeout(ANSWER_TIMEOUT, gather).await;
        for (tag, answer) in answers {
            let Some((node, of_node)) = nodes.get(usize::from(tag)) else { continue };
            if let Some(queue) = &answer.stale_queue {
                return Err(stale_refusal(state, **node, queue));
            }
            if !told.take(question.wants_records, of_node, answer) {
                unanswered.insert(tag);
            }
        }
        let unanswered = unanswered.iter().filter_map(|tag| nodes.get(usize::from(*tag)));
        let missing = unanswered.flat_map(|(_, of_node)| of_node.iter());
        told.missing.extend(missing.map(|part| part.arc));
        Ok(())
    }

    pub(crate) fn serve_ask_digests(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let asked =
            match self.local.read_header(request, |asked: &ReadDigests| asked.layout_version) {
                Ok(asked) => asked,
                Err(refusal) => return refuse(reply, &refusal),
            };
        tokio::spawn(async move {
            let blocking = self.local.settings.blocking;
            match blocking.at_low_priority(move || Ok(self.told_digests(&asked))).await {
                Ok(Ok(told)) => reply.send(&told, b""),
                Ok(Err(refusal)) => refuse(reply, &refusal),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    /// Digests of this node for ranges of partitions.
    fn told_digests(&self, asked: &ReadDigests) -> Result<DigestsRead, Refusal> {
        let malformed = || Refusal::Malformed("the ranges of partitions can't be read".to_owned());
        let other = asked.other.as_ref().and_then(|id| VisitedCluster::try_from(&id[..]).ok());
        if !asked.is_rebase
            && let Some(stale_queue) = self.source_queues.stale_for(other)
        {
            return Ok(DigestsRead { stale_queue: Some(stale_queue), ..DigestsRead::default() });
        }
        let engine = self.local.engine.compared().ok_or_else(|| {
            Refusal::Malformed("copies of this engine can't be compared".to_owned())
        })?;
        let bound = COMPARED_RANGE_COUNT_MAX * usize::from(self.local.ring_size().get());
        if asked.partitions.len() != asked.ranges.len() || asked.ranges.len() > bound {
            return Err(malformed());
        }
        let mut by_partition: BTreeMap<u32, Vec<(usize, HashRange)>> = BTreeMap::new();
        for (place, (partition, range)) in asked.partitions.iter().zip(&asked.ranges).enumerate() {
            let range = HashRange::from_number(*range).ok_or_else(malformed)?;
            by_partition.entry(*partition).or_default().push((place, range));
        }
        let digest_count = if asked.records { 0 } else { asked.ranges.len() };
        let mut told = DigestsRead { digests: vec![0; digest_count], ..DigestsRead::default() };
        for (partition, ranges) in by_partition {
            let number = u16::try_from(partition).map_err(|_| malformed())?;
            if number >= self.local.ring_size().get() {
                return Err(malformed());
            }
            let partition = Partition(number);
            let told_of = match asked.records {
                true => self.tell_records(engine, partition, asked.hour_min, &ranges, &mut told),
                false => self.tell_digests(engine, partition, asked.hour_min, &ranges, &mut told),
            };
            told_of.map_err(Refusal::Storage)?;
        }
        Ok(told)
    }

    /// Classes of n_val that records may have.
    fn classes(&self) -> BTreeSet<u8> {
        self.local
            .control
            .read()
            .n_vals()
            .iter()
            .map(|n_val| RecordMeta::class_of(*n_val))
            .collect()
    }

    #[expect(clippy::indexing_slicing, reason = "`told` has a digest for each range")]
    fn tell_digests(
        &self,
        engine: &dyn Compare,
        partition: Partition,
        hour_min: u32,
        ranges: &[(usize, HashRange)],
        told: &mut DigestsRead,
    ) -> Result<(), RequestError> {
        if let [(place, HashRange::ALL)] = ranges {
            let digests = engine.digests(partition, hour_min)?;
            // The lowest class has the pieces of records. They are private to each store, so they are
            // left out.
            told.digests[*place] = digests.0.iter().skip(1).fold(0, |all, class| all ^ class);
            return Ok(());
        }
        let wanted: Vec<HashRange> = ranges.iter().map(|(_, range)| *range).collect();
        for n_val_class in self.classes() {
            let scope = Scope { n_val_class, hour_min };
            let digests = engine.range_digests(partition, scope, &wanted)?;
            for ((place, _), digest) in ranges.iter().zip(digests) {
                told.digests[*place] ^= digest;
            }
        }
        Ok(())
    }

    fn tell_records(
        &self,
        engine: &dyn Compare,
        partition: Partition,
        hour_min: u32,
        ranges: &[(usize, HashRange)],
        told: &mut DigestsRead,
    ) -> Result<(), RequestError> {
        let mut tags: BTreeSet<Tag> = BTreeSet::new();
        for (n_val_class, (_, range)) in self
            .classes()
            .into_iter()
            .flat_map(|class| ranges.iter().map(move |each| (class, each)))
        {
            let scope = Scope { n_val_class, hour_min };
            let mut from = Some(range.first());
            while let Some(first) = from {
                if tags.len() + told.records.len() > RECORD_COUNT_MAX {
                    return Err(RequestError::Overload);
                }
                let page = engine.leaves(partition, scope, *range, first, LEAF_COUNT)?;
                tags.extend(page.leaves.iter().map(|leaf| leaf.tag));
                from = page.next;
            }
        }
        let tags: Vec<Tag> = tags.into_iter().collect();
        for some in tags.chunks(LEAF_COUNT) {
            let stored = self.local.records.tagged(partition, some)?;
            for (key, record) in self.local.records.complete(partition, stored)? {
                let object = decode(&record.value)?;
                told.records.push(RecordDigest {
                    key,
                    digest: record.meta.digest,
                    tombstone: record.meta.tombstone,
                    clock: encode_context(&object.clock),
                    modified_us: object.last_modified_us(),
                });
            }
        }
        Ok(())
    }
}

fn compared(told: RecordDigest) -> ComparedRecord {
    ComparedRecord {
        key: told.key,
        digest: told.digest,
        is_tombstone: told.tombstone,
        clock: told.clock,
        modified_us: told.modified_us,
    }
}

fn asked_of_node(
    state: &State,
    question: ClusterQuestion<'_>,
    parts: &[ComparedRange],
) -> ReadDigests {
    ReadDigests {
        layout_version: state.layouts().newest().version(),
        hour_min: question.hour_min,
        partitions: parts.iter().map(|part| u32::from(part.partition.0)).collect(),
        ranges: parts.iter().map(|part| part.range).collect(),
        records: question.wants_records,
        other: question.other.map(|other| Bytes::copy_from_slice(&other)),
        is_rebase: question.is_rebase,
    }
}

fn stale_refusal(state: &State, node: NodeId, queue: &str) -> RequestError {
    let node = state.members().name_of(node);
    RequestError::Vetoed(format!(
        "the queue {queue} of {node} is stale, so that deleted records could come back: use quoit repl \
         rebase {queue} in that cluster first"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(place: usize) -> ComparedRange {
        ComparedRange { partition: Partition(3), range: HashRange::ALL.number(), arc: 0, place }
    }

    fn answer(digests: &[u64]) -> DigestsRead {
        DigestsRead { digests: digests.to_vec(), ..DigestsRead::default() }
    }

    #[test]
    fn digests_of_several_nodes_are_added_range_by_range() {
        let mut told = ClusterDigests { digests: vec![0; 3], ..ClusterDigests::default() };
        assert!(told.take(false, &[part(0), part(2)], answer(&[5, 6])));
        assert!(told.take(false, &[part(2)], answer(&[3])));
        assert_eq!(told.digests, [5, 0, 6 ^ 3]);
    }

    #[test]
    fn answers_with_a_wrong_number_of_digests_do_not_fit() {
        let mut told = ClusterDigests { digests: vec![0; 2], ..ClusterDigests::default() };
        assert!(!told.take(false, &[part(0), part(1)], answer(&[5])));
        assert_eq!(told.digests, [0, 0]);
        let mut told = ClusterDigests::default();
        assert!(!told.take(true, &[part(0)], answer(&[5])), "the question is for records");
        assert!(told.take(true, &[part(0)], answer(&[])));
    }
}
