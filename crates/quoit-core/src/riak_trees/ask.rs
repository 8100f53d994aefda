//! Questions about the tree of the whole cluster. For each partition, one node with a complete copy
//! answers.

use super::{KEPT_SIZE, RiakTreeFigures, RiakTrees};
use crate::calls::call_while_up;
use crate::error::RequestError;
use crate::listing::{NodeShare, shares};
use crate::partition_set::PartitionSet;
use crate::topology::{NodeConnection, Topology};
use crate::votes::ReplicaCount;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{CallError, Lane};
use quoit_model::clock::VersionVector;
use quoit_model::etf::Limits;
use quoit_model::key::KeyRef;
use quoit_model::riak_clock::decode_riak_clock;
use quoit_model::segments::Segments;
use quoit_riak::BRANCH_BYTES;
use quoit_wire::internode::data::REFUSED_STALE_LAYOUT;
use quoit_wire::internode::trees::{
    METHOD_ASK_TREE, METHOD_ASK_TREE_CLOCKS, ReadTree, ReadTreeClocks, TreeClocks, TreePart,
};
use std::sync::Arc;
use std::time::Duration;

/// Time to wait for a newer layout.
const LAYOUT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time in which a node has to answer. For the first question it may have to read all its records.
const PART_TIMEOUT: Duration = Duration::from_secs(3_600);

/// A record with its version vector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeClock {
    /// Bucket type.
    pub bucket_type: Bytes,
    /// Bucket.
    pub bucket: Bytes,
    /// Key.
    pub key: Bytes,
    /// Version vector with times.
    pub clock: VersionVector,
    /// Time of the last write, seconds since 1970.
    pub modified_secs: u64,
}

/// A question about a tree, which each node answers for some partitions.
trait Question {
    type Answer: Message + Default;
    const METHOD: u16;
    type Request: Message;

    fn ask(&self, partitions: &PartitionSet, layout_version: u64) -> Self::Request;

    async fn ask_here(
        trees: &Arc<RiakTrees>,
        ask: Self::Request,
    ) -> Result<Option<Self::Answer>, RequestError>;

    /// Partitions that an answer leaves out.
    fn left(told: &Self::Answer) -> PartitionSet;
}

/// Reason why a node gave no answer.
enum NoAnswer {
    /// The node failed; another one may answer.
    Node(RequestError),
    /// The layout has changed.
    Stale,
}

impl RiakTrees {
    /// Root of the tree over all records of buckets with this `n_val`, including tombstones: 4 bytes
    /// for each of its 4096 branches.
    ///
    /// # Errors
    ///
    /// Engine faults, and a partition of which no live node has a copy.
    pub async fn root(self: &Arc<Self>, n_val: u32) -> Result<Bytes, RequestError> {
        let told = self.ask(n_val, &TreeQuestion { n_val, branches: Vec::new() }).await?;
        let mut root = vec![0; KEPT_SIZE.branch_count() as usize * 4];
        told.iter().for_each(|told| combine(&mut root, &told.root));
        Ok(root.into())
    }

    /// Branches of such a tree: 4 bytes for each of their 256 leaves. Branches that do not exist are
    /// all zeros.
    ///
    /// # Errors
    ///
    /// As for [`RiakTrees::root`].
    pub async fn branches(
        self: &Arc<Self>,
        n_val: u32,
        numbers: &[u32],
    ) -> Result<Vec<Bytes>, RequestError> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let question = TreeQuestion { n_val, branches: numbers.to_vec() };
        let mut branches = vec![vec![0; BRANCH_BYTES]; numbers.len()];
        for told in self.ask(n_val, &question).await? {
            for (branch, part) in branches.iter_mut().zip(&told.branches) {
                combine(branch, part);
            }
        }
        Ok(branches.into_iter().map(Bytes::from).collect())
    }

    /// Records in some segments of such a tree, limited to last writes between two times in seconds
    /// since 1970.
    ///
    /// # Errors
    ///
    /// As for [`RiakTrees::root`].
    pub async fn clocks(
        self: &Arc<Self>,
        n_val: u32,
        segments: &Segments,
        modified_secs: Option<(u64, u64)>,
    ) -> Result<Vec<TreeClock>, RequestError> {
        let segments = (segments.segment_count(), segments.numbers().to_vec());
        let question = ClocksQuestion { n_val, segments, modified_secs };
        let told = self.ask(n_val, &question).await?;
        let mut clocks = Vec::new();
        for record in told.into_iter().flat_map(|told| told.records) {
            let KeyRef { bucket, key } = KeyRef::decode(&record.key)?;
            let clock = decode_riak_clock(&record.clock, &Limits::STORED)
                .map_err(|fault| RequestError::Damaged(fault.to_string()))?;
            clocks.push(TreeClock {
                bucket_type: Bytes::copy_from_slice(bucket.bucket_type),
                bucket: record.key.slice_ref(bucket.bucket),
                key: record.key.slice_ref(key),
                clock,
                modified_secs: record.modified_secs,
            });
        }
        Ok(clocks)
    }

    /// Drops everything that this node keeps of trees. The next question hashes the records again.
    ///
    /// # Errors
    ///
    /// `Overload` while the runtime shuts down.
    pub async fn forget(self: &Arc<Self>) -> Result<(), RequestError> {
        let trees = Arc::clone(self);
        let forget = move || {
            trees.kept.forget();
            Ok(())
        };
        self.local.settings.blocking.on_pool(forget).await
    }

    /// Figures of the trees that this node keeps.
    #[must_use]
    pub fn figures(&self) -> RiakTreeFigures {
        self.kept.figures()
    }

    /// Asks nodes until one has answered for each partition.
    async fn ask<Q: Question>(
        self: &Arc<Self>,
        n_val: u32,
        question: &Q,
    ) -> Result<Vec<Q::Answer>, RequestError> {
        let replicas = ReplicaCount::all_filled(n_val);
        let mut topology = self.local.settled_topology(None).await;
        let mut left = PartitionSet::all(self.local.ring_size().get());
        let (mut told, mut failed, mut fault) = (Vec::new(), Vec::new(), None);
        while left.iter().next().is_some() {
            let shared = shares(&topology, &left, replicas, &failed)
                .map_err(|nobody| fault.take().unwrap_or(nobody))?;
            for share in shared {
                match self.ask_node(&topology, &share, question).await {
                    Ok(answer) => {
                        let still_left = Q::left(&answer);
                        let done = share.partitions.iter();
                        done.filter(|each| !still_left.contains(*each))
                            .for_each(|each| left.remove(each));
                        told.push(answer);
                    }
                    Err(NoAnswer::Node(reason)) => {
                        failed.push(share.node);
                        fault = Some(reason);
                    }
                    Err(NoAnswer::Stale) => {
                        topology =
                            self.local.topology_after(topology.version(), LAYOUT_TIMEOUT).await?;
                        failed.clear();
                        break;
                    }
                }
            }
        }
        Ok(told)
    }

    async fn ask_node<Q: Question>(
        self: &Arc<Self>,
        topology: &Arc<Topology>,
        share: &NodeShare,
        question: &Q,
    ) -> Result<Q::Answer, NoAnswer> {
        let ask = question.ask(&share.partitions, topology.layout_version());
        let node = topology.node(share.node);
        let peer = match &node.connection {
            NodeConnection::Own => {
                let told = Q::ask_here(self, ask).await.map_err(NoAnswer::Node)?;
                return told.ok_or(NoAnswer::Stale);
            }
            NodeConnection::Peer(peer) => Arc::clone(peer),
            NodeConnection::Unknown => return Err(NoAnswer::Node(RequestError::AllNodesDown)),
        };
        let called = call_while_up(&peer, Q::METHOD, &ask, b"", Lane::Large, PART_TIMEOUT).await;
        match called {
            Ok(reply) => Q::Answer::decode(reply.header)
                .map_err(|fault| NoAnswer::Node(RequestError::Remote(fault.to_string()))),
            Err(CallError::Refused { code: REFUSED_STALE_LAYOUT, .. }) => Err(NoAnswer::Stale),
            Err(fault) => Err(NoAnswer::Node(RequestError::Remote(fault.to_string()))),
        }
    }
}

/// Combines the hashes of a part with those of other parts.
fn combine(whole: &mut [u8], part: &[u8]) {
    whole.iter_mut().zip(part).for_each(|(whole, part)| *whole ^= part);
}

struct TreeQuestion {
    n_val: u32,
    branches: Vec<u32>,
}

impl Question for TreeQuestion {
    type Answer = TreePart;
    type Request = ReadTree;
    const METHOD: u16 = METHOD_ASK_TREE;

    fn ask(&self, partitions: &PartitionSet, layout_version: u64) -> ReadTree {
        let partitions = partitions.to_bytes();
        ReadTree { n_val: self.n_val, partitions, layout_version, branches: self.branches.clone() }
    }

    async fn ask_here(
        trees: &Arc<RiakTrees>,
        ask: ReadTree,
    ) -> Result<Option<TreePart>, RequestError> {
        trees.local_tree(ask).await
    }

    fn left(_: &TreePart) -> PartitionSet {
        PartitionSet::empty(0)
    }
}

struct ClocksQuestion {
    n_val: u32,
    /// Number of segments of the tree, and the numbers of the segments in question.
    segments: (u32, Vec<u32>),
    modified_secs: Option<(u64, u64)>,
}

impl Question for ClocksQuestion {
    type Answer = TreeClocks;
    type Request = ReadTreeClocks;
    const METHOD: u16 = METHOD_ASK_TREE_CLOCKS;

    fn ask(&self, partitions: &PartitionSet, layout_version: u64) -> ReadTreeClocks {
        let (segment_count, segments) = self.segments.clone();
        ReadTreeClocks {
            n_val: self.n_val,
            partitions: partitions.to_bytes(),
            layout_version,
            segment_count,
            segments,
            modified_from: self.modified_secs.map_or(0, |(from, _)| from),
            modified_to: self.modified_secs.map(|(_, to)| to),
        }
    }

    async fn ask_here(
        trees: &Arc<RiakTrees>,
        ask: ReadTreeClocks,
    ) -> Result<Option<TreeClocks>, RequestError> {
        trees.local_tree_clocks(ask).await
    }

    fn left(told: &TreeClocks) -> PartitionSet {
        PartitionSet::from_bytes(&told.left)
    }
}
