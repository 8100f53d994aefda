//! Assignment of partitions to the nodes that list them.

use crate::error::RequestError;
use crate::partition_set::PartitionSet;
use crate::topology::Topology;
use crate::votes::{NodeIndex, ReplicaCount};
use arc_swap::ArcSwap;
use quoit_model::hash::Partition;
use std::sync::Arc;

/// A node and the partitions that it lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NodeShare {
    pub(crate) node: NodeIndex,
    pub(crate) partitions: PartitionSet,
}

/// Number of plans that are kept, one for each number of replicas in use.
const PLAN_COUNT_MAX: usize = 16;

/// Plans for all partitions. A plan is valid as long as the layouts and the set of live nodes stay the
/// same. A request with a valid plan looks at each node once and at no partition.
pub(crate) struct CoveragePlans(ArcSwap<Vec<CoveragePlan>>);

#[derive(Clone)]
struct CoveragePlan {
    topology: Arc<Topology>,
    replicas: ReplicaCount,
    is_up: Vec<bool>,
    shares: Arc<[NodeShare]>,
}

impl CoveragePlans {
    /// No plans.
    pub(crate) fn new() -> Self {
        Self(ArcSwap::from_pointee(Vec::new()))
    }

    /// As [`shares`] of all partitions, with no node failed.
    ///
    /// # Errors
    ///
    /// As [`shares`].
    pub(super) fn for_all(
        &self,
        topology: &Arc<Topology>,
        replicas: ReplicaCount,
    ) -> Result<Arc<[NodeShare]>, RequestError> {
        let is_up = topology.places().map(|place| topology.is_up(place));
        let known = self.0.load();
        let found = known.iter().find(|plan| {
            let is_same = plan.replicas == replicas && Arc::ptr_eq(&plan.topology, topology);
            is_same && is_up.clone().eq(plan.is_up.iter().copied())
        });
        if let Some(plan) = found {
            return Ok(Arc::clone(&plan.shares));
        }
        // The plan is kept under the nodes that were up before it was made. If a node died in the
        // meantime, the request to it fails and another node takes over.
        let is_up: Vec<bool> = is_up.collect();
        let wanted = PartitionSet::all(topology.partition_count());
        let shares: Arc<[NodeShare]> = shares(topology, &wanted, replicas, &[])?.into();
        let made = CoveragePlan {
            topology: Arc::clone(topology),
            replicas,
            is_up,
            shares: Arc::clone(&shares),
        };
        let is_kept = |plan: &&CoveragePlan| {
            plan.replicas != replicas && Arc::ptr_eq(&plan.topology, topology)
        };
        let others = known.iter().filter(is_kept).take(PLAN_COUNT_MAX - 1).cloned();
        self.0.store(Arc::new(std::iter::once(made).chain(others).collect()));
        Ok(shares)
    }
}

/// Assigns partitions to live nodes with complete copies: each time the node that can list most of the
/// remaining partitions is chosen, and this node wins ties (Chvátal, "A Greedy Heuristic for the
/// Set-Covering Problem", 1979).
///
/// # Errors
///
/// If no live node has a copy of some partition.
pub(crate) fn shares(
    topology: &Topology,
    wanted: &PartitionSet,
    replicas: ReplicaCount,
    failed: &[NodeIndex],
) -> Result<Vec<NodeShare>, RequestError> {
    let holders: Vec<(Partition, Vec<NodeIndex>)> = wanted
        .iter()
        .map(|partition| {
            let voters = topology.readers(partition, replicas, false, failed);
            // A copy that is not complete lists only if there is no complete one.
            let has_whole = voters.primary_votes() > 0;
            let lists = voters.iter().filter(|voter| voter.primary > 0 || !has_whole);
            (partition, lists.map(|voter| voter.node).collect())
        })
        .collect();
    share_out(&holders, topology.own(), wanted)
}

#[expect(clippy::indexing_slicing, reason = "`counts` has a count for each node in `holders`")]
fn share_out(
    holders: &[(Partition, Vec<NodeIndex>)],
    own: Option<NodeIndex>,
    wanted: &PartitionSet,
) -> Result<Vec<NodeShare>, RequestError> {
    let mut left: Vec<&(Partition, Vec<NodeIndex>)> = holders.iter().collect();
    let mut shares = Vec::new();
    let place_count = holders.iter().flat_map(|(_, nodes)| nodes).max().map_or(0, |max| max + 1);
    while !left.is_empty() {
        let mut counts = vec![0usize; usize::from(place_count)];
        for (_, nodes) in &left {
            nodes.iter().for_each(|node| counts[usize::from(*node)] += 1);
        }
        let best = (0..place_count)
            .zip(counts)
            .max_by_key(|(node, count)| (*count, Some(*node) == own))
            .filter(|(_, count)| *count > 0);
        let Some((node, _)) = best else {
            return Err(RequestError::InsufficientCoverage);
        };
        let mut partitions = wanted.empty_like();
        left.retain(|(partition, nodes)| {
            let taken = nodes.contains(&node);
            if taken {
                partitions.insert(*partition);
            }
            !taken
        });
        debug_assert!(partitions.iter().next().is_some(), "each pass assigns a partition");
        shares.push(NodeShare { node, partitions });
    }
    let assigned = || shares.iter().flat_map(|share| share.partitions.iter()).count();
    debug_assert_eq!(assigned(), holders.len(), "each partition is listed by one node");
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_partition_is_listed_once_by_a_holder(
            nodes in proptest::collection::vec(
                proptest::collection::btree_set(0u16..7, 1..4), 8..40,
            ),
        ) {
            let holders: Vec<(Partition, Vec<NodeIndex>)> = nodes
                .iter()
                .enumerate()
                .map(|(place, nodes)| (Partition(place as u16), nodes.iter().copied().collect()))
                .collect();
            let wanted = PartitionSet::all(holders.len() as u16);
            let shares = share_out(&holders, Some(3), &wanted).expect("all are held");
            for (partition, nodes) in &holders {
                let listers: Vec<_> =
                    shares.iter().filter(|share| share.partitions.contains(*partition)).collect();
                prop_assert_eq!(listers.len(), 1);
                prop_assert!(nodes.contains(&listers[0].node));
            }
            let listed: usize = shares.iter().map(|share| share.partitions.iter().count()).sum();
            prop_assert_eq!(listed, holders.len());
        }
    }

    #[test]
    fn one_node_with_everything_is_enough() {
        let holders: Vec<_> = (0..8).map(|place| (Partition(place), vec![place % 3, 5])).collect();
        let wanted = PartitionSet::all(8);
        let shares = share_out(&holders, None, &wanted).expect("all are held");
        assert_eq!(shares, [NodeShare { node: 5, partitions: wanted }]);
    }

    #[test]
    fn a_partition_that_nobody_holds_is_an_error() {
        let holders = [(Partition(0), vec![1]), (Partition(1), vec![])];
        let shared = share_out(&holders, None, &PartitionSet::all(8));
        assert!(matches!(shared, Err(RequestError::InsufficientCoverage)));
    }
}
