//! Fills the copies that a raised `n_val` adds.
//!
//! A bucket's `n_val` is raised while the bucket has records. The added primaries lack these:
//!
//! 1. Each member reports that it knows the new `n_val`; from then on it writes to the added primaries,
//!    too.
//! 2. When all members have reported, each walks through its partitions and hands the bucket's records to the
//!    added primaries, then the reap records. Without the reap records, an old copy of a deleted record could
//!    be mistaken for a new one.
//! 3. Each member reports that its walks are done. The last report ends the raise.
//!
//! Until then, reads count answers of the added primaries like those of fallbacks
//! (`quoit_cluster::State::filled_n_val`). A walk that fails is repeated in a later round. After a
//! restart a member begins with all partitions again.
//!
//! The index files a record under the `n_val` that its bucket had when the record was written. The walk
//! also files the records that it reads under the present `n_val`. Otherwise replicas would compare
//! digests of classes that no longer have these records.

use super::Transfers;
use super::copies::REAPED_PER_RECORD;
use super::damage::HealOutcome;
use crate::delivery::hand::TransferError;
use crate::delivery::progress::TransferKind;
use crate::placement::primaries;
use crate::reap_records::ReapRecord;
use bytes::Bytes;
use quoit_cluster::{NodeId, Peer, RaiseReport, State};
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_planted::planted;
use quoit_store::engine::{KeyRange, Record};
use quoit_store::error::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Partitions whose records this node has to hand to primaries that raised `n_val`s added.
#[derive(Default)]
pub(super) struct Fills {
    /// Version of the latest raise that `left` covers; 0 if there was no raise.
    n_val_raised_at: u64,
    /// Partitions that are not handed over yet.
    left: BTreeSet<Partition>,
    /// Version up to which this node has handed over everything that raises demanded.
    filled: u64,
}

impl Fills {
    /// Begins to hand over what was raised up to a version of the state, unless it has begun already.
    fn begin(&mut self, n_val_raised_at: u64, left: BTreeSet<Partition>) {
        if n_val_raised_at > self.n_val_raised_at {
            *self = Self { n_val_raised_at, left, ..*self };
            self.settle();
            self.check();
        }
    }

    /// Notes that a partition was handed over. `n_val_raised_at` is the version by which its walk
    /// began; a walk by an older version does not count.
    fn end(&mut self, n_val_raised_at: u64, partition: Partition) {
        if n_val_raised_at == self.n_val_raised_at {
            self.left.remove(&partition);
            self.settle();
            self.check();
        }
    }

    /// Notes a raise as filled when no partition is left.
    fn settle(&mut self) {
        if self.left.is_empty() {
            self.filled = self.n_val_raised_at;
        }
    }

    /// Checks in debug builds that a raise is reported as filled exactly when no partition is left.
    fn check(&self) {
        debug_assert!(self.filled <= self.n_val_raised_at, "only a raise that has begun is filled");
        debug_assert_eq!(
            self.left.is_empty(),
            self.filled == self.n_val_raised_at,
            "a raise is filled when no partition is left"
        );
    }
}

impl Transfers {
    /// Returns the partitions that this node still has to walk through, once all members write to the
    /// added primaries.
    pub(super) async fn fills(self: &Arc<Self>, state: &Arc<State>) -> Vec<Partition> {
        let n_val_raised_at = state.n_val_raised_at();
        if n_val_raised_at == 0 || !(state.all_know_raises() || planted!(FillsEarly)) {
            return Vec::new();
        }
        if self.fills.lock().n_val_raised_at < n_val_raised_at {
            let (transfers, raised) = (Arc::clone(self), Arc::clone(state));
            let has_some = move || Ok(transfers.has_some_of_raised(&raised)?);
            match self.local.settings.blocking.at_low_priority(has_some).await {
                Ok(has_some) => {
                    let all = state.layouts().newest().partitions();
                    let left = all.filter(|_| has_some).collect();
                    self.fills.lock().begin(n_val_raised_at, left);
                    self.wanted.notify_one();
                }
                Err(fault) => tracing::debug!(%fault, "copies can't be filled at present"),
            }
        }
        self.fills.lock().left.iter().copied().collect()
    }

    /// True if this node may store records or reap records of a bucket that was raised. Mostly it does
    /// not: a bucket gets its properties before its first record.
    fn has_some_of_raised(&self, state: &State) -> Result<bool, StoreError> {
        if !self.replica.reap_records.is_empty() {
            return Ok(true);
        }
        for raise in state.raises() {
            let Some(bucket) = &raise.bucket else { return Ok(true) };
            let bucket = BucketRef { bucket_type: &raise.bucket_type, bucket };
            if !self.local.engine.list_keys(KeyRange::Bucket(bucket), None, 1)?.entries.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reports to the control plane the raises that this node knows, and those for which it has handed
    /// over everything.
    pub(super) async fn report_fills(&self, state: &State) {
        let n_val_raised_at = state.n_val_raised_at();
        let filled = self.fills.lock().filled.min(n_val_raised_at);
        let report = RaiseReport { known: n_val_raised_at, filled };
        if n_val_raised_at == 0 || state.has_reported_raises(state.node_id(), report) {
            return;
        }
        if let Err(fault) = self.local.control.report_raises(report).await {
            tracing::debug!(%fault, "filled copies could not be reported");
        }
    }

    /// Walks through a partition and hands its records, then its reap records, to the added primaries.
    pub(super) async fn fill(self: &Arc<Self>, partition: Partition) -> Result<(), TransferError> {
        let n_val_raised_at = self.fills.lock().n_val_raised_at;
        let mut report = None;
        let mut from = Some(Identity(0));
        let page_records_max = self.local.settings.page_records_max.0;
        let mut count = page_records_max;
        while let Some(identity) = from {
            let page = self.page(partition, identity, count).await?;
            if page.heal_outcome == HealOutcome::Unfinished {
                return Err(TransferError::Damaged { partition });
            }
            count = page.next_count(page_records_max);
            let state = self.local.state();
            let mut by_node: BTreeMap<NodeId, Vec<&(Bytes, Record)>> = BTreeMap::new();
            for record in &page.records {
                for node in added(&state, partition, &record.0) {
                    by_node.entry(node).or_default().push(record);
                }
            }
            for (node, records) in by_node {
                let peer = self.added_peer(node)?;
                let begin = || self.delivery.begin(partition, TransferKind::Ownership, None);
                let report = report.get_or_insert_with(begin);
                let handed = self.delivery.hand(&peer, partition, &records, Vec::new()).await?;
                report.handed(handed);
            }
            let (transfers, records) = (Arc::clone(self), page.records);
            let refile = move || {
                records.iter().try_for_each(|(key, record)| {
                    transfers.delivery.refile(partition, key, record.meta.n_val_class)
                })
            };
            self.local.settings.blocking.at_low_priority(move || Ok(refile()?)).await?;
            self.delivery.yielding.rest_after(page.read_for).await;
            from = page.next;
        }
        // Reap records come after the records. If a tombstone is reaped meanwhile, the receiver thus gets
        // the tombstone or its reap record.
        self.fill_reaped(partition).await?;
        self.fills.lock().end(n_val_raised_at, partition);
        self.wanted.notify_one();
        Ok(())
    }

    fn added_peer(&self, node: NodeId) -> Result<Arc<Peer>, TransferError> {
        self.local.reachable(node).ok_or_else(|| {
            let state = self.local.control.read();
            TransferError::Unreachable { to: state.members().name_of(node).to_string().into() }
        })
    }

    /// Hands the reap records of a partition to the added primaries.
    async fn fill_reaped(self: &Arc<Self>, partition: Partition) -> Result<(), TransferError> {
        let mut from = Some(Identity(0));
        while let Some(identity) = from.filter(|_| !planted!(FillsWithoutReaped)) {
            let transfers = Arc::clone(self);
            let count = self.local.settings.page_records_max.0 * REAPED_PER_RECORD;
            let read =
                move || Ok(transfers.replica.reap_records.page(partition, identity, count)?);
            let (records, next) = self.local.settings.blocking.at_low_priority(read).await?;
            from = next;
            let state = self.local.state();
            let mut by_node: BTreeMap<NodeId, Vec<ReapRecord>> = BTreeMap::new();
            for record in records {
                for node in added(&state, partition, &record.name) {
                    by_node.entry(node).or_default().push(record.clone());
                }
            }
            for (node, records) in by_node {
                let peer = self.added_peer(node)?;
                self.delivery.hand_reap_records(&peer, records).await?;
            }
        }
        Ok(())
    }
}

/// Returns the primaries that a raised `n_val` has added for a record, without this node. A node that is
/// marked as down is among them: its copy counts as complete when the raise ends.
fn added(state: &State, partition: Partition, encoded: &Bytes) -> BTreeSet<NodeId> {
    let Ok(key) = KeyRef::decode(encoded) else { return BTreeSet::new() };
    let Ok(props) = state.bucket_props(key.bucket) else { return BTreeSet::new() };
    let filled_n_val = state.filled_n_val(key.bucket, props.n_val);
    if filled_n_val == props.n_val {
        return BTreeSet::new();
    }
    let mut nodes = primaries(state, partition, props.n_val);
    let filled = state.layouts().for_reads(partition);
    for place in filled.primaries(partition, filled_n_val) {
        nodes.remove(&filled.node_at(*place));
    }
    nodes.remove(&state.node_id());
    // A live layout may still name a node that an operator removed by force.
    nodes.retain(|node| state.members().get(*node).is_some());
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raise_is_filled_when_its_last_partition_is_and_no_newer_one_has_come() {
        let mut fills = Fills::default();
        let both = BTreeSet::from([Partition(0), Partition(1)]);
        fills.begin(5, both.clone());
        fills.end(5, Partition(0));
        assert_eq!(fills.filled, 0);
        fills.begin(7, both);
        fills.end(5, Partition(1));
        assert_eq!(fills.left.len(), 2, "walked by the older state");
        fills.end(7, Partition(0));
        fills.end(7, Partition(1));
        assert_eq!(fills.filled, 7);
        fills.begin(6, BTreeSet::from([Partition(3)]));
        assert_eq!((fills.filled, fills.left.len()), (7, 0));
        fills.begin(9, BTreeSet::new());
        assert_eq!(fills.filled, 9, "there is nothing of it here");
    }
}
