//! Comparison of two clusters: by trees, then by the clocks of the records in segments that differ.
//!
//! Trees are compared twice at each level, with a pause in between, and only parts that differ both
//! times count. A write that has reached only one cluster yet looks like a difference once, but not
//! twice.

use crate::error::PeerError;
use crate::side::{BucketName, RecordClock, Side};
use bytes::Bytes;
use quoit_model::segments::{BRANCH_LEAVES, TreeSize};
use quoit_riak::{RangeFilter, SegmentFilter, Tree, differing_branches};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::sleep;

/// Number of comparisons of trees at each level.
const ROUND_COUNT: usize = 2;
/// Maximum number of segments that a request may name. While more of them differ, the whole bucket is
/// compared.
const NAMED_SEGMENTS_MAX: usize = 256;

/// The records that are compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExchangeScope {
    /// Records of all buckets with an `n_val`, which may differ between the clusters.
    All {
        /// `n_val` here.
        local_n_val: u32,
        /// `n_val` there.
        remote_n_val: u32,
    },
    /// Records of one bucket.
    Bucket {
        /// The bucket.
        bucket: BucketName,
        /// Size of the trees that are computed.
        size: TreeSize,
    },
}

/// Scope and limits of a comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExchangePlan {
    /// The records to compare.
    pub scope: ExchangeScope,
    /// First and last time of the last write, in seconds since 1970, of records that are repaired;
    /// `None` for all.
    pub modified_secs: Option<(u64, u64)>,
    /// Maximum number of segments whose records are compared.
    pub segment_count_max: usize,
    /// Pause between two comparisons of trees.
    pub pause: Duration,
}

/// Result of the comparison of trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncState {
    /// The trees are equal.
    InSync,
    /// Some segments differ, and their records were compared by clocks.
    Differs {
        /// Number of segments or branches that differ, including segments that were not compared.
        differing_count: usize,
        /// Number of segments whose records were compared.
        compared_count: usize,
    },
}

/// Result of a comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Differences {
    /// Comparison of the trees.
    pub state: SyncState,
    /// Records of which this side has an event that the other side lacks.
    pub local_ahead: Vec<RecordClock>,
    /// Records of which the other side has all events that this side has, and more.
    pub remote_ahead: Vec<RecordClock>,
}

impl Differences {
    const fn none(state: SyncState) -> Self {
        Self { state, local_ahead: Vec::new(), remote_ahead: Vec::new() }
    }
}

/// Compares two clusters.
///
/// # Errors
///
/// The error of a side that can't answer.
pub async fn exchange(
    local: &mut impl Side,
    remote: &mut impl Side,
    plan: &ExchangePlan,
) -> Result<Differences, PeerError> {
    match &plan.scope {
        ExchangeScope::All { local_n_val, remote_n_val } => {
            compare_all(local, remote, plan, (*local_n_val, *remote_n_val)).await
        }
        ExchangeScope::Bucket { bucket, size } => {
            compare_bucket(local, remote, plan, bucket, *size).await
        }
    }
}

async fn compare_all(
    local: &mut impl Side,
    remote: &mut impl Side,
    plan: &ExchangePlan,
    (local_n_val, remote_n_val): (u32, u32),
) -> Result<Differences, PeerError> {
    const SIZE: TreeSize = TreeSize::Large;
    let mut branches: Option<BTreeSet<u32>> = None;
    for round in 0..ROUND_COUNT {
        if round > 0 {
            sleep(plan.pause).await;
        }
        let (own, other) =
            (local.tree_root(local_n_val).await?, remote.tree_root(remote_n_val).await?);
        still_differing(&mut branches, differing_branches(SIZE, &own, &other)?);
        if branches.as_ref().is_some_and(BTreeSet::is_empty) {
            return Ok(Differences::none(SyncState::InSync));
        }
    }
    let branches = branches.unwrap_or_default();
    let differing_count = branches.len();
    let chosen = densest_run(&branches, plan.segment_count_max);
    let mut leaves: Option<BTreeSet<u32>> = None;
    for _ in 0..ROUND_COUNT {
        sleep(plan.pause).await;
        let own = tree_of(SIZE, local.tree_branches(local_n_val, &chosen).await?)?;
        let other = tree_of(SIZE, remote.tree_branches(remote_n_val, &chosen).await?)?;
        still_differing(&mut leaves, own.differing_leaves(&other));
        if leaves.as_ref().is_some_and(BTreeSet::is_empty) {
            return Ok(Differences::none(match differing_count - chosen.len() {
                0 => SyncState::InSync,
                // The chosen branches are equal by now. The others were not looked at again.
                differing_count => SyncState::Differs { differing_count, compared_count: 0 },
            }));
        }
    }
    let segments: Vec<u32> =
        leaves.unwrap_or_default().into_iter().take(plan.segment_count_max).collect();
    sleep(plan.pause).await;
    let own = local.tree_clocks(local_n_val, &segments, plan.modified_secs).await?;
    let other = remote.tree_clocks(remote_n_val, &segments, plan.modified_secs).await?;
    let state = SyncState::Differs { differing_count, compared_count: segments.len() };
    Ok(ClocksOfSides { local: own, remote: other }.compare(state))
}

async fn compare_bucket(
    local: &mut impl Side,
    remote: &mut impl Side,
    plan: &ExchangePlan,
    bucket: &BucketName,
    size: TreeSize,
) -> Result<Differences, PeerError> {
    let mut filter = RangeFilter { modified_secs: plan.modified_secs, ..RangeFilter::default() };
    let mut leaves: Option<BTreeSet<u32>> = None;
    for round in 0..ROUND_COUNT {
        if round > 0 {
            sleep(plan.pause).await;
        }
        let own = local.range_tree(bucket, size, &filter).await?;
        let other = remote.range_tree(bucket, size, &filter).await?;
        if other.size() != size {
            return Err(PeerError::malformed(format!("a tree of size {}", other.size())));
        }
        still_differing(&mut leaves, own.differing_leaves(&other));
        let differing = leaves.iter().flatten().copied().collect::<Vec<_>>();
        if differing.is_empty() {
            return Ok(Differences::none(SyncState::InSync));
        }
        if differing.len() <= NAMED_SEGMENTS_MAX {
            filter.segments = Some(SegmentFilter { segments: differing, tree_size: size });
        }
    }
    let leaves = leaves.unwrap_or_default();
    let segments: Vec<u32> = leaves.iter().copied().take(plan.segment_count_max).collect();
    let compared_count = segments.len();
    filter.segments = Some(SegmentFilter { segments, tree_size: size });
    sleep(plan.pause).await;
    let own = local.range_clocks(bucket, &filter).await?;
    let other = remote.range_clocks(bucket, &filter).await?;
    let state = SyncState::Differs { differing_count: leaves.len(), compared_count };
    Ok(ClocksOfSides { local: own, remote: other }.compare(state))
}

/// Intersects the parts that have differed so far with the parts that differ now.
fn still_differing(so_far: &mut Option<BTreeSet<u32>>, now: Vec<u32>) {
    let now: BTreeSet<u32> = now.into_iter().collect();
    *so_far = Some(match so_far.take() {
        None => now,
        Some(before) => before.intersection(&now).copied().collect(),
    });
}

/// At most `count_max` of the branches, chosen so that they lie close together: their records are then
/// read in one go.
fn densest_run(branches: &BTreeSet<u32>, count_max: usize) -> Vec<u32> {
    let all: Vec<u32> = branches.iter().copied().collect();
    let count = count_max.clamp(1, all.len().max(1));
    let span = |run: &&[u32]| run.last().zip(run.first()).map_or(0, |(last, first)| last - first);
    all.windows(count).min_by_key(span).map_or_else(|| all.clone(), <[u32]>::to_vec)
}

fn tree_of(size: TreeSize, branches: Vec<(u32, Bytes)>) -> Result<Tree, PeerError> {
    let mut tree = Tree::empty(size);
    for (number, branch) in branches {
        tree.set_branch(number, &branch)?;
    }
    debug_assert!(tree.leaves().all(|(leaf, _)| leaf < size.branch_count() * BRANCH_LEAVES));
    Ok(tree)
}

/// The clocks of both sides in the compared segments.
struct ClocksOfSides {
    local: Vec<RecordClock>,
    remote: Vec<RecordClock>,
}

impl ClocksOfSides {
    /// Decides for each record which side is ahead. If neither is, this side counts as ahead.
    fn compare(self, state: SyncState) -> Differences {
        let mut found = Differences::none(state);
        let name = |record: &RecordClock| (record.bucket.clone(), record.key.clone());
        let mut others: BTreeMap<_, RecordClock> =
            self.remote.into_iter().map(|record| (name(&record), record)).collect();
        for own in self.local {
            match others.remove(&name(&own)) {
                Some(other) if other.clock == own.clock => {}
                Some(other) if other.clock.descends(&own.clock) => found.remote_ahead.push(other),
                Some(_) | None => found.local_ahead.push(own),
            }
        }
        found.remote_ahead.extend(others.into_values());
        found
    }
}

#[cfg(test)]
mod tests;
