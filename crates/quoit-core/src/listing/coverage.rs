//! Coverage plans: clients query a bucket in parts, each at a node that holds the part.
//!
//! An entry of a plan names a node and the partitions that it answers for. The client sends the entry's
//! *context* back with its query:
//!
//! ```text
//! byte 0     1  version: 1
//! byte 1     8  XXH3-64 of cluster, bucket type, bucket and the rest, little-endian
//! byte 9    16  id of the node
//! byte 25    .  the partitions, one bit each, lowest bit first
//! ```
//!
//! The contexts of a plan name each partition once, so the answers together contain each key once. Any
//! node accepts any context, also after the layout has changed. The named node is the one that can
//! answer without asking others.

use super::Listings;
use super::index::IndexQuery;
use super::plan::{NodeShare, shares};
use crate::error::RequestError;
use crate::partition_set::PartitionSet;
use crate::placement::replicas_of;
use crate::votes::NodeIndex;
use bytes::Bytes;
use quoit_cluster::ClusterId;
use quoit_model::key::BucketRef;
use quoit_model::node::NodeId;
use std::collections::BinaryHeap;
use std::sync::Arc;
use thiserror::Error;
use xxhash_rust::xxh3::Xxh3;

const VERSION: u8 = 1;
const SEAL_END: usize = 9;
const NODE_BYTES: usize = 16;
const _: () = assert!(SEAL_END == 1 + 8, "the sum of the fields");

/// Error for a coverage context that can't be read, or belongs to another bucket or cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "not a coverage context of this bucket in this cluster; ask for a plan of this bucket here, and send its \
     contexts as they are"
)]
pub struct InvalidContext;

/// Reason why there is no coverage plan.
#[derive(Clone, Debug, Error)]
pub enum CoverageError {
    /// The context that was to be replaced, or avoided, belongs to no plan of this bucket.
    #[error(transparent)]
    Context(#[from] InvalidContext),
    /// Unknown bucket types, empty names, and a partition of which no node that may be asked has a
    /// copy.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// A part of a bucket, and the node that answers for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoverageEntry {
    /// The node.
    pub node: NodeId,
    /// Name of the node.
    pub node_name: Arc<str>,
    /// Numbers of its partitions, in order.
    pub partitions: Vec<u16>,
    /// Context that the client sends with its query.
    pub context: Bytes,
}

/// Request for a coverage plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoverageRequest<'r> {
    /// Minimum number of entries, rounded up to a power of two and limited by the number of partitions.
    pub entry_count_min: u32,
    /// Context of an entry whose node has failed. The plan then covers that entry's partitions, on
    /// other nodes.
    pub replaced: Option<&'r [u8]>,
    /// Contexts of other entries whose nodes must not be used.
    pub unavailable: &'r [Bytes],
}

impl Listings {
    /// Plans how a bucket is covered: each partition once, by a live node with a complete copy.
    ///
    /// # Errors
    ///
    /// See [`CoverageError`].
    pub async fn coverage(
        self: &Arc<Self>,
        bucket: BucketRef<'_>,
        request: CoverageRequest<'_>,
    ) -> Result<Vec<CoverageEntry>, CoverageError> {
        bucket.key(b"*").check().map_err(RequestError::from)?;
        let (replicas, cluster) = {
            let state = self.local.control.read();
            (replicas_of(&state, bucket)?, state.cluster_id())
        };
        let sealed = ContextScope { cluster, bucket };
        let ring_size = self.local.ring_size().get();
        let replaced = request.replaced.map(|context| sealed.read(context, ring_size));
        let replaced = replaced.transpose()?;
        let mut avoided: Vec<NodeId> = replaced.iter().map(|(node, _)| *node).collect();
        for context in request.unavailable {
            avoided.push(sealed.read(context, ring_size)?.0);
        }
        let topology = self.local.settled_topology(None).await;
        let is_avoided = |place: &u16| avoided.contains(&topology.node(*place).id);
        let avoided: Vec<NodeIndex> = topology.places().filter(is_avoided).collect();
        let wanted = replaced.map_or_else(|| PartitionSet::all(ring_size), |(_, wanted)| wanted);
        let shares = shares(&topology, &wanted, replicas, &avoided)?;
        let entry_count_min = request.entry_count_min.min(ring_size.into()).next_power_of_two();
        let entry = |NodeShare { node, partitions }: NodeShare| {
            let node = topology.node(node);
            CoverageEntry {
                node: node.id,
                node_name: Arc::clone(&node.name),
                partitions: partitions.iter().map(|partition| partition.0).collect(),
                context: sealed.context(node.id, &partitions),
            }
        };
        Ok(divided(shares, entry_count_min as usize).into_iter().map(entry).collect())
    }

    /// Restricts a query to the partitions of a context.
    ///
    /// # Errors
    ///
    /// If the context belongs to no plan of the query's bucket.
    pub fn restrict(&self, query: &mut IndexQuery, context: &[u8]) -> Result<(), InvalidContext> {
        let bucket = BucketRef { bucket_type: &query.bucket_type, bucket: &query.bucket };
        let sealed = ContextScope { cluster: self.local.control.read().cluster_id(), bucket };
        let (_, partitions) = sealed.read(context, self.local.ring_size().get())?;
        query.partitions = Some(partitions);
        Ok(())
    }
}

/// Cluster and bucket that a context is valid for.
#[derive(Clone, Copy)]
struct ContextScope<'a> {
    cluster: ClusterId,
    bucket: BucketRef<'a>,
}

impl ContextScope<'_> {
    fn context(self, node: NodeId, partitions: &PartitionSet) -> Bytes {
        let rest = [&node.0[..], &partitions.to_bytes()[..]].concat();
        Bytes::from([&[VERSION][..], &self.seal(&rest)[..], &rest[..]].concat())
    }

    /// Reads the node and the partitions of a context.
    fn read(
        self,
        context: &[u8],
        ring_size: u16,
    ) -> Result<(NodeId, PartitionSet), InvalidContext> {
        let (head, rest) = context.split_first_chunk::<SEAL_END>().ok_or(InvalidContext)?;
        let (node, partitions) = rest.split_first_chunk::<NODE_BYTES>().ok_or(InvalidContext)?;
        let [version, seal @ ..] = head;
        let is_one = *version == VERSION
            && *seal == self.seal(rest)
            && partitions.len() == usize::from(ring_size).div_ceil(8);
        if !is_one {
            return Err(InvalidContext);
        }
        Ok((NodeId(*node), PartitionSet::from_bytes(partitions)))
    }

    fn seal(self, rest: &[u8]) -> [u8; 8] {
        let Self { cluster, bucket } = self;
        let mut hash = Xxh3::new();
        for part in [&cluster.0[..], bucket.bucket_type, bucket.bucket, rest] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.digest().to_le_bytes()
    }
}

/// Halves the largest shares until there are `count_min` of them, or each has one partition.
fn divided(mut shares: Vec<NodeShare>, count_min: usize) -> Vec<NodeShare> {
    let sizes = shares.iter().map(|share| share.partitions.iter().count());
    let mut by_size: BinaryHeap<(usize, usize)> = sizes.zip(0..).collect();
    while shares.len() < count_min
        && let Some((size, place)) = by_size.pop().filter(|(size, _)| *size > 1)
        && let Some(whole) = shares.get_mut(place)
    {
        let upper: Vec<_> = whole.partitions.iter().skip(size / 2).collect();
        let mut half = whole.partitions.empty_like();
        for partition in &upper {
            half.insert(*partition);
            whole.partitions.remove(*partition);
        }
        let node = whole.node;
        debug_assert!(
            !upper.is_empty() && upper.len() < size && whole.partitions.iter().count() < size,
            "a share is divided into two that are not empty"
        );
        by_size.extend([(size - upper.len(), place), (upper.len(), shares.len())]);
        shares.push(NodeShare { node, partitions: half });
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEALED: ContextScope<'static> =
        ContextScope { cluster: ClusterId([3; 16]), bucket: BucketRef::untyped(b"b") };

    proptest! {
        #[test]
        fn a_plan_that_is_divided_has_each_partition_once(
            owners in prop::collection::vec(0u16..3, 64), count_min in 1..100usize,
        ) {
            let share = |node| {
                let mut partitions = PartitionSet::empty(64);
                let own = (0..64u16).filter(|number| owners[usize::from(*number)] == node);
                own.for_each(|number| partitions.insert(quoit_model::hash::Partition(number)));
                NodeShare { node, partitions }
            };
            let shares: Vec<NodeShare> = (0..3).map(share).collect();
            let held: Vec<_> =
                shares.into_iter().filter(|share| share.partitions.iter().count() > 0).collect();
            let divided = divided(held, count_min);
            prop_assert!(divided.len() >= count_min.min(64));
            for number in 0..64u16 {
                let partition = quoit_model::hash::Partition(number);
                let named: Vec<_> =
                    divided.iter().filter(|share| share.partitions.contains(partition)).collect();
                prop_assert_eq!(named.len(), 1);
                prop_assert_eq!(named[0].node, owners[usize::from(number)]);
            }
        }

        #[test]
        fn what_was_changed_is_no_context(place: prop::sample::Index, by in 1..=255u8) {
            let made = SEALED.context(NodeId([7; 16]), &PartitionSet::all(64));
            prop_assert_eq!(SEALED.read(&made, 64), Ok((NodeId([7; 16]), PartitionSet::all(64))));
            for other in [
                ContextScope { bucket: BucketRef::untyped(b"c"), ..SEALED },
                ContextScope { cluster: ClusterId([4; 16]), ..SEALED },
            ] {
                prop_assert_eq!(other.read(&made, 64), Err(InvalidContext));
            }
            prop_assert_eq!(SEALED.read(&made, 128), Err(InvalidContext));
            let mut changed = made.to_vec();
            changed[place.index(made.len())] ^= by;
            prop_assert_eq!(SEALED.read(&changed, 64), Err(InvalidContext));
            prop_assert_eq!(SEALED.read(&made[..place.index(made.len())], 64), Err(InvalidContext));
        }
    }
}
