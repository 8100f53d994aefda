//! Makes up for records that this node's store has lost: before the node serves.
//!
//! A node whose reap records were damaged makes up for that in the same way: it can't tell any more whether
//! what arrives was deleted.
//!
//! A store that lost files may show a value whose tombstone was lost with them, and reaped everywhere else.
//! Nothing in the value tells so. So what a store with losses holds is not offered to anybody while another
//! node has a whole copy of the partition: what differs from that is dropped ([`equal`]), and what the whole
//! copies have is copied to this node (`transfer::copies`). The steps, each of which may be repeated after a
//! crash:
//!
//! 1. The cluster agrees that none of this node's copies is complete. From then on they answer reads like
//!    fallbacks, and are neither compared nor listed.
//! 2. For each partition another node with a whole copy says that it serves. A node that lost records itself
//!    does not before it has told so: where all are damaged at once, nobody drops anything, and the union of
//!    the copies is used.
//! 3. This node drops what others have whole copies of, but for what is equal there, durably.
//! 4. The store forgets the loss, and the node serves.

mod equal;

use crate::delivery::held::is_serving;
use crate::error::RequestError;
use crate::exchange::AntiEntropy;
use crate::local_node::LocalNode;
use crate::placement::{Place, n_val_of, primaries};
use crate::replica::Replica;
use quoit_cluster::{NodeId, State};
use quoit_model::hash::{Identity, Partition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Pause before a step is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// It is told what is waited for once in so many tries.
const TOLD_EVERY: u32 = 20;
/// Records read at once.
const PAGE_COUNT: usize = 256;

/// The fate of the records of one partition and `n_val` on a node that has lost some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// Another node has a whole copy, and serves: they are dropped.
    Dropped,
    /// No other node has a whole copy: they are a part of the union.
    Kept,
    /// That can't be said yet.
    Open,
}

/// The fate of records that `others` hold as well.
fn fate(
    others: &BTreeSet<NodeId>,
    is_whole: impl Fn(NodeId) -> bool,
    serves: impl Fn(NodeId) -> bool,
) -> Fate {
    let whole: Vec<NodeId> = others.iter().copied().filter(|node| is_whole(*node)).collect();
    match whole.iter().any(|node| serves(*node)) {
        true => Fate::Dropped,
        false if whole.is_empty() => Fate::Kept,
        false => Fate::Open,
    }
}

/// The fate of the records of each partition, by `n_val`.
type Fates = BTreeMap<Partition, BTreeMap<u32, Fate>>;

fn fates(state: &State, serving: &BTreeSet<NodeId>) -> Fates {
    let layouts = state.layouts();
    let incomplete: BTreeSet<(Partition, NodeId)> = layouts.incomplete().collect();
    let of = |partition: Partition, n_val: u32| {
        let mut others = primaries(state, partition, n_val);
        others.remove(&state.node_id());
        others.retain(|node| state.members().get(*node).is_some());
        let is_whole = |node| !incomplete.contains(&(partition, node));
        fate(&others, is_whole, |node| serving.contains(&node))
    };
    let n_vals = state.n_vals();
    let of_all = |partition| n_vals.iter().map(|n_val| (*n_val, of(partition, *n_val))).collect();
    layouts.newest().partitions().map(|partition| (partition, of_all(partition))).collect()
}

fn is_open(fates: &Fates) -> bool {
    fates.values().flat_map(BTreeMap::values).any(|fate| *fate == Fate::Open)
}

/// Makes up for records that this node has lost.
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

    /// Makes up for records that the store has lost, before the node answers requests: see the module. Waits
    /// until the cluster agrees, and until enough nodes with whole copies serve. How many records were
    /// dropped.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub(crate) async fn settle_loss(self: &Arc<Self>) -> Result<u64, RequestError> {
        self.tell_loss().await;
        let mut tries = 0;
        let (mut fates, serving) = loop {
            let state = self.local.state();
            let serving = self.serving_members(&state).await;
            let fates = fates(&state, &serving);
            if !is_open(&fates) {
                break (fates, serving);
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
        let settled = self.drop_what_differs(&fates, &serving).await?;
        fates.retain(|partition, _| !settled.contains(partition));
        let losses = Arc::clone(self);
        let drop = move || {
            losses.drop_what_others_have(&fates)?;
            let dropped_count = before_count.saturating_sub(losses.local.engine.stats().key_count);
            // Whole copies come with the reap records of their partitions.
            losses.replica.reap_records.settle_losses()?;
            Ok(dropped_count)
        };
        self.local.settings.blocking.behind(drop).await
    }

    async fn tell_loss(&self) {
        let mut tries = 0;
        while let Err(fault) = self.local.control.report_loss().await {
            if tries % TOLD_EVERY == 0 {
                tracing::warn!(%fault, "the cluster could not be told yet that this node has lost records");
            }
            tries += 1;
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Members that answer requests on their copies.
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

    /// Drops what this node does not have in common with whole copies. The partitions in which that can be
    /// told, and nothing else is left.
    async fn drop_what_differs(
        self: &Arc<Self>,
        fates: &Fates,
        serving: &BTreeSet<NodeId>,
    ) -> Result<BTreeSet<Partition>, RequestError> {
        let losses = Arc::clone(self);
        let paged = self.local.settings.blocking.behind(move || Ok(losses.paged_names())).await?;
        let Some(paged) = paged else { return Ok(BTreeSet::new()) };
        let mut settled = BTreeSet::new();
        for (partition, by_n_val) in fates {
            let paged = paged.get(partition).map(Vec::as_slice).unwrap_or_default();
            if self.drop_differing(*partition, by_n_val, serving, paged).await? {
                settled.insert(*partition);
            }
        }
        tracing::info!(
            compared_count = settled.len(),
            partition_count = fates.len(),
            "copies that lost records were compared with whole ones"
        );
        Ok(settled)
    }

    fn drop_what_others_have(&self, fates: &Fates) -> Result<(), RequestError> {
        for (partition, by_n_val) in fates {
            if by_n_val.values().all(|fate| *fate == Fate::Dropped) {
                self.local.engine.drop_partition(*partition)?;
            } else if by_n_val.values().any(|fate| *fate == Fate::Dropped) {
                self.drop_some(*partition, by_n_val)?;
            }
        }
        self.local.engine.sync()?;
        Ok(())
    }

    /// Removes the records of a partition that others have whole copies of.
    fn drop_some(
        &self,
        partition: Partition,
        by_n_val: &BTreeMap<u32, Fate>,
    ) -> Result<(), RequestError> {
        let mut from = Some(Identity(0));
        while let Some(identity) = from {
            let page = self.local.records.fold_roots(partition, identity, PAGE_COUNT)?;
            from = page.next;
            let state = self.local.state();
            for (key, record) in page.entries {
                let fate = n_val_of(&state, &key).and_then(|n_val| by_n_val.get(&n_val));
                if fate == Some(&Fate::Dropped) {
                    let place = Place::new(&key, partition)?;
                    self.local.records.remove_unchanged(&place.at(), record.meta.digest)?;
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
            let found = fate(&others, |node| whole.contains(&node), |node| serving.contains(&node));
            let has_whole = !others.is_disjoint(&whole);
            let serves = others.iter().any(|node| whole.contains(node) && serving.contains(node));
            prop_assert_eq!(found == Fate::Dropped, serves);
            prop_assert_eq!(found == Fate::Kept, !has_whole);
        }
    }
}
