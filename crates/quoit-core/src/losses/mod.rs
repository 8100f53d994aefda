//! Recovery of a node whose store has lost records. It runs before the node serves requests.
//!
//! A node whose reap records were damaged recovers in the same way: it can't tell any more whether a
//! value that arrives was deleted.
//!
//! The danger: a store that lost files may still have a value whose tombstone was in those files, while all
//! other nodes have reaped theirs. Nothing in the value shows that it was deleted. So as long as another node
//! has a whole copy of a partition, this node sends its own records of the partition to no node. It drops
//! those that differ from the whole copy ([`equal`]), and gets the others from there (`transfer::copies`).
//! The steps, each of which can be repeated after a crash:
//!
//! 1. The cluster agrees that none of this node's copies is complete. From then on, their answers to
//!    reads count like those of fallbacks, and they are neither compared nor listed.
//! 2. The node waits, for each partition, until another node with a whole copy serves. A node that lost
//!    records itself does not serve before it has reported its loss. So if all copies of a partition are
//!    damaged at once, no node drops records, and the cluster uses the union of the copies.
//! 3. The node drops its records of which another node has a whole copy, except those that are equal
//!    there. The removals are synced.
//! 4. The store clears its note of the loss, and the node serves.

mod equal;

use crate::delivery::unsettled::is_serving;
use crate::error::RequestError;
use crate::exchange::AntiEntropy;
use crate::local_node::LocalNode;
use crate::placement::{PlacedKey, n_val_of, primaries};
use crate::replica::Replica;
use quoit_cluster::{NodeId, State};
use quoit_model::hash::{Identity, Partition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Pause before a step is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Number of tries after which the node logs again what it waits for.
const TOLD_EVERY: u32 = 20;
/// Number of records that are read in one step.
const PAGE_COUNT: usize = 256;

/// Decision about the records of one partition and `n_val` on a node that has lost records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LossDecision {
    /// Another node has a whole copy and serves: the records are dropped.
    Dropped,
    /// No other node has a whole copy: the records are kept as a part of the union.
    Kept,
    /// Other nodes have whole copies, but none of them serves yet.
    Open,
}

/// Decides about records that `others` hold, too.
fn decision(
    others: &BTreeSet<NodeId>,
    is_whole: impl Fn(NodeId) -> bool,
    serves: impl Fn(NodeId) -> bool,
) -> LossDecision {
    let whole: Vec<NodeId> = others.iter().copied().filter(|node| is_whole(*node)).collect();
    match whole.iter().any(|node| serves(*node)) {
        true => LossDecision::Dropped,
        false if whole.is_empty() => LossDecision::Kept,
        false => LossDecision::Open,
    }
}

/// Decisions about the records of each partition, by `n_val`.
type RecoveryDecisions = BTreeMap<Partition, BTreeMap<u32, LossDecision>>;

fn decisions(state: &State, serving: &BTreeSet<NodeId>) -> RecoveryDecisions {
    let layouts = state.layouts();
    let incomplete: BTreeSet<(Partition, NodeId)> = layouts.incomplete().collect();
    let of = |partition: Partition, n_val: u32| {
        let mut others = primaries(state, partition, n_val);
        others.remove(&state.node_id());
        others.retain(|node| state.members().get(*node).is_some());
        let is_whole = |node| !incomplete.contains(&(partition, node));
        decision(&others, is_whole, |node| serving.contains(&node))
    };
    let n_vals = state.n_vals();
    let of_all = |partition| n_vals.iter().map(|n_val| (*n_val, of(partition, *n_val))).collect();
    layouts.newest().partitions().map(|partition| (partition, of_all(partition))).collect()
}

fn is_open(decisions: &RecoveryDecisions) -> bool {
    decisions.values().flat_map(BTreeMap::values).any(|decision| *decision == LossDecision::Open)
}

/// Recovers this node from the loss of records.
pub(crate) struct LossRecovery {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    anti_entropy: Arc<AntiEntropy>,
}

impl LossRecovery {
    pub(crate) fn new(replica: &Arc<Replica>, anti_entropy: &Arc<AntiEntropy>) -> Self {
        Self {
            local: Arc::clone(&replica.local),
            replica: Arc::clone(replica),
            anti_entropy: Arc::clone(anti_entropy),
        }
    }

    /// Runs the steps of the recovery, which the module's documentation describes, before the node
    /// answers requests. Waits until the cluster agrees, and until enough nodes with whole copies serve.
    /// Returns the number of records that were dropped.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(crate) async fn recover_losses(self: &Arc<Self>) -> Result<u64, RequestError> {
        self.tell_loss().await;
        let mut tries = 0;
        let (mut decisions, serving) = loop {
            let state = self.local.state();
            let serving = self.serving_members(&state).await;
            let decisions = decisions(&state, &serving);
            if !is_open(&decisions) {
                break (decisions, serving);
            }
            if tries % TOLD_EVERY == 0 {
                tracing::warn!(
                    "this node has lost records and does not serve before other nodes with whole copies do"
                );
            }
            tries += 1;
            sleep(RETRY_PAUSE).await;
        };
        let before_count = self.local.engine.stats().key_count;
        let settled = self.drop_what_differs(&decisions, &serving).await?;
        decisions.retain(|partition, _| !settled.contains(partition));
        let losses = Arc::clone(self);
        let drop = move || {
            losses.drop_what_others_have(&decisions)?;
            let dropped_count = before_count.saturating_sub(losses.local.engine.stats().key_count);
            // Whole copies come with the reap records of their partitions.
            losses.replica.reap_records.settle_losses()?;
            Ok(dropped_count)
        };
        self.local.settings.blocking.at_low_priority(drop).await
    }

    /// Reports the loss to the cluster, and waits until the cluster has agreed to it.
    async fn tell_loss(&self) {
        let mut tries = 0;
        while let Err(fault) = self.local.control.report_loss().await {
            if tries % TOLD_EVERY == 0 {
                tracing::warn!(%fault, "the loss of records could not be reported to the cluster yet");
            }
            tries += 1;
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Returns the members that answer requests on their copies.
    async fn serving_members(&self, state: &State) -> BTreeSet<NodeId> {
        let mut serving = BTreeSet::new();
        for member in state.members().iter().filter(|member| member.id != state.node_id()) {
            if let Some(peer) = self.local.reachable(member.id)
                && is_serving(&peer).await
            {
                serving.insert(member.id);
            }
        }
        serving
    }

    /// Drops the records that differ from whole copies, where copies can be compared. Returns the
    /// partitions in which that succeeded, so that only equal records are left.
    async fn drop_what_differs(
        self: &Arc<Self>,
        decisions: &RecoveryDecisions,
        serving: &BTreeSet<NodeId>,
    ) -> Result<BTreeSet<Partition>, RequestError> {
        let losses = Arc::clone(self);
        let paged =
            self.local.settings.blocking.at_low_priority(move || Ok(losses.paged_names())).await?;
        let Some(paged) = paged else { return Ok(BTreeSet::new()) };
        let mut settled = BTreeSet::new();
        for (partition, by_n_val) in decisions {
            let paged = paged.get(partition).map(Vec::as_slice).unwrap_or_default();
            if self.drop_differing(*partition, by_n_val, serving, paged).await? {
                settled.insert(*partition);
            }
        }
        tracing::info!(
            compared_count = settled.len(),
            partition_count = decisions.len(),
            "copies that lost records were compared with whole ones"
        );
        Ok(settled)
    }

    /// Drops the records of which other nodes have whole copies, and syncs the removals.
    fn drop_what_others_have(&self, decisions: &RecoveryDecisions) -> Result<(), RequestError> {
        debug_assert!(!is_open(decisions), "records are dropped when each decision is made");
        for (partition, by_n_val) in decisions {
            // `all` is true for an empty map, so the whole partition would be dropped without a decision.
            assert!(!by_n_val.is_empty(), "the records of a partition have an n_val");
            if by_n_val.values().all(|decision| *decision == LossDecision::Dropped) {
                self.local.engine.drop_partition(*partition)?;
            } else if by_n_val.values().any(|decision| *decision == LossDecision::Dropped) {
                self.drop_some(*partition, by_n_val)?;
            }
        }
        self.local.engine.sync()?;
        Ok(())
    }

    /// Removes the records of a partition of which other nodes have whole copies.
    fn drop_some(
        &self,
        partition: Partition,
        by_n_val: &BTreeMap<u32, LossDecision>,
    ) -> Result<(), RequestError> {
        let mut from = Some(Identity(0));
        while let Some(identity) = from {
            let page = self.local.records.fold(partition, identity, PAGE_COUNT)?;
            from = page.next;
            let state = self.local.state();
            for (key, record) in page.entries {
                let decision = n_val_of(&state, &key).and_then(|n_val| by_n_val.get(&n_val));
                if decision == Some(&LossDecision::Dropped) {
                    let place = PlacedKey::new(&key, partition)?;
                    self.local.records.delete(&place.at(), record.meta.digest)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes(numbers: &BTreeSet<u8>) -> BTreeSet<NodeId> {
        numbers.iter().map(|number| NodeId([*number; 16])).collect()
    }

    proptest! {
        #[test]
        fn records_are_dropped_only_beside_a_whole_copy_that_serves_and_kept_only_without_any(
            others in prop::collection::btree_set(0..6u8, 0..5),
            whole in prop::collection::btree_set(0..6u8, 0..5),
            serving in prop::collection::btree_set(0..6u8, 0..5),
        ) {
            let (others, whole, serving) = (nodes(&others), nodes(&whole), nodes(&serving));
            let found = decision(&others, |node| whole.contains(&node), |node| serving.contains(&node));
            let has_whole = !others.is_disjoint(&whole);
            let serves = others.iter().any(|node| whole.contains(node) && serving.contains(node));
            prop_assert_eq!(found == LossDecision::Dropped, serves);
            prop_assert_eq!(found == LossDecision::Kept, !has_whole);
        }
    }
}
