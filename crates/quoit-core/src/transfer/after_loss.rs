//! Completes the copy of a node that has lost records.
//!
//! The source compares digests of the two copies, so that it reads and sends only the records that
//! differ, however large the partition is. It repeats this until a comparison finds nothing to hand over,
//! then hands over the partition's tombstones, which the digests do not cover. Where the copies can't be
//! compared, or still differ after [`ROUND_COUNT`] rounds, the source walks through the whole partition
//! instead.

use super::Transfers;
use super::copies::NewCopy;
use super::damage::HealOutcome;
use super::strays::next_count;
use crate::delivery::hand::TransferError;
use crate::delivery::progress::{ProgressReport, TransferKind};
use crate::exchange::{CommonClasses, ComparedClasses};
use crate::placement::{PlacedKey, n_val_of, primaries};
use bytes::Bytes;
use quoit_cluster::{Peer, State};
use quoit_model::hash::{Identity, Partition};
use quoit_planted::planted;
use quoit_store::engine::Record;
use quoit_store::index::Tag;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::Instant;

/// Largest number of differing records for which the difference is handed over. If more differ, the whole
/// partition is offered.
const DIFFERENCE_COUNT_MAX: usize = 50_000;
/// Largest number of comparisons. The last one must find nothing that still has to be handed over.
const ROUND_COUNT: u32 = 3;
/// Number of records in the first batch. It is small because a batch is in memory as a whole and its
/// records may be large; later batches follow the size of the former one.
const FIRST_COUNT: usize = 16;

impl Transfers {
    /// Hands over all records and tombstones of this node that the copy of a node which lost records
    /// lacks. Returns false if the copies can't be compared: then the whole partition has to be walked
    /// through.
    pub(super) async fn hand_difference(
        self: &Arc<Self>,
        copy: NewCopy,
        peer: &Peer,
    ) -> Result<bool, TransferError> {
        let Some(compared) = self.comparable_classes(copy) else { return Ok(false) };
        let report = self.delivery.begin(copy.partition, TransferKind::Ownership, Some(copy.to));
        for _ in 0..ROUND_COUNT {
            let tags = match self
                .anti_entropy
                .differing_tags(peer, compared, DIFFERENCE_COUNT_MAX)
                .await
            {
                Ok(Some(tags)) => tags,
                Ok(None) => return Ok(false),
                Err(fault) if fault.may_pass() => return Err(fault.into()),
                Err(fault) => {
                    tracing::debug!(%fault, "copies can't be compared");
                    return Ok(false);
                }
            };
            if !self.hand_tags(copy, peer, tags, &report).await? {
                // Digests do not cover tombstones. Reap records come after them: if a tombstone is reaped
                // meanwhile, the receiver thus gets the tombstone or its reap record.
                if !planted!(CompletesWithoutTombstones) {
                    self.hand_tombstones(copy, peer, &report).await?;
                }
                tracing::debug!(
                    partition = copy.partition.0,
                    to = %peer.name(),
                    "a copy that lost records has all that differed here"
                );
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the n_val classes by which the two copies can be compared, if any.
    fn comparable_classes(&self, copy: NewCopy) -> Option<ComparedClasses> {
        let state = self.local.state();
        // While layouts or n_vals change, the class of a record does not tell whether the node is to have
        // it.
        if copy.loss == 0 || state.layouts().is_moving() || !state.raises().is_empty() {
            return None;
        }
        self.local.engine.compared()?;
        let partition = copy.partition;
        let classes = CommonClasses::new(&state, state.node_id(), copy.to).of(partition);
        (classes != 0).then_some(ComparedClasses { partition, classes })
    }

    /// Hands over the records of these tags. Returns true if the node lacked any of them.
    async fn hand_tags(
        self: &Arc<Self>,
        copy: NewCopy,
        peer: &Peer,
        tags: BTreeSet<Tag>,
        report: &ProgressReport,
    ) -> Result<bool, TransferError> {
        let tags: Vec<Tag> = tags.into_iter().collect();
        let mut has_handed = false;
        let (mut left, mut count) = (&tags[..], FIRST_COUNT);
        while !left.is_empty() {
            let (some, rest) = left.split_at(count.min(left.len()));
            let began = Instant::now();
            let records = self.readable(copy.partition, some.to_vec()).await?;
            let read_for = began.elapsed();
            has_handed |= self.hand_to_primary(copy, peer, &records, report).await?;
            self.delivery.yielding.rest_after(read_for).await;
            (left, count) = (rest, next_count(&records, self.local.settings.page_records_max.0));
        }
        Ok(has_handed)
    }

    /// Reads the records of these tags. Damaged records are healed by other replicas first.
    async fn readable(
        self: &Arc<Self>,
        partition: Partition,
        tags: Vec<Tag>,
    ) -> Result<Vec<(Bytes, Record)>, TransferError> {
        let (transfers, these) = (Arc::clone(self), tags.clone());
        let read = move || Ok(transfers.local.records.tagged(partition, &these)?);
        let mut records = self.local.settings.blocking.at_low_priority(read).await?;
        let tag_of =
            |key: &Bytes| PlacedKey::new(key, partition).ok().map(|at| Tag::of(at.at().identity));
        let found: BTreeSet<Tag> = records.iter().filter_map(|(key, _)| tag_of(key)).collect();
        for tag in tags.into_iter().filter(|tag| !found.contains(tag)) {
            let page = self.page(partition, tag.identity_min(), 1).await?;
            if page.heal_outcome == HealOutcome::Unfinished {
                return Err(TransferError::Damaged { partition });
            }
            let healed = page.records.into_iter().filter(|(key, _)| tag_of(key) == Some(tag));
            records.extend(healed);
        }
        Ok(records)
    }

    /// Hands over all tombstones of a partition, which digests do not cover.
    async fn hand_tombstones(
        self: &Arc<Self>,
        copy: NewCopy,
        peer: &Peer,
        report: &ProgressReport,
    ) -> Result<(), TransferError> {
        let mut from = Some(Identity(0));
        while let Some(identity) = from {
            let transfers = Arc::clone(self);
            let count = self.local.settings.page_records_max.0;
            let fold =
                move || Ok(transfers.local.engine.fold(copy.partition, identity, count, true)?);
            let page = self.local.settings.blocking.at_low_priority(fold).await?;
            from = page.next;
            self.hand_to_primary(copy, peer, &page.entries, report).await?;
        }
        Ok(())
    }

    /// Hands over those of these records that the node is to have. Returns true if the node lacked any of
    /// them.
    pub(super) async fn hand_to_primary(
        self: &Arc<Self>,
        copy: NewCopy,
        peer: &Peer,
        records: &[(Bytes, Record)],
        report: &ProgressReport,
    ) -> Result<bool, TransferError> {
        let state = self.local.state();
        let is_handed = |(key, record): &&(Bytes, Record)| {
            is_primary_of_record(&state, copy, key)
                && !(record.meta.tombstone && planted!(HandsNoTombstones))
        };
        let records: Vec<_> = records.iter().filter(is_handed).collect();
        if records.is_empty() {
            return Ok(false);
        }
        let handed = self.delivery.hand(peer, copy.partition, &records, Vec::new()).await?;
        report.handed(handed);
        Ok(handed.record_count > 0)
    }
}

/// True if the node that gets a copy is a primary of this record: of buckets with a smaller n_val it may
/// not be. Also true if the bucket type is not known here.
fn is_primary_of_record(state: &State, copy: NewCopy, key: &Bytes) -> bool {
    n_val_of(state, key)
        .is_none_or(|n_val| primaries(state, copy.partition, n_val).contains(&copy.to))
}
