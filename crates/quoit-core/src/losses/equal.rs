//! Keeps the records that are equal in a copy that lost records and in a whole copy.
//!
//! A record that is equal to that of the whole copy is as good as the one that would be copied from
//! there. So only records that differ are dropped, and a large store that lost a few records is complete
//! after a few records were copied. Two kinds of records are always dropped and copied: tombstones, since
//! digests do not cover them, and large sets and maps, since an equal root may have lost its pages.

use super::LossRecovery;
use super::{LossDecision, RETRY_PAUSE};
use crate::error::RequestError;
use crate::exchange::{CommonClasses, ComparedClasses, ExchangeError};
use crate::placement::{PlacedKey, n_val_of, n_vals, primaries};
use bytes::Bytes;
use quoit_cluster::{NodeId, Peer};
use quoit_model::hash::{Identity, KeyHash, Partition, PlacementHash};
use quoit_model::key::{BucketRef, KeyRef, PIECE_TYPE};
use quoit_planted::planted;
use quoit_store::compare::{HashRange, Scope};
use quoit_store::engine::{BeforeImage, Decision, IoMode, KeyRange, Record, RecordAt, RecordMeta};
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::sleep;

/// Largest number of differing records with which a partition is not dropped as a whole.
const DIFFERENCE_COUNT_MAX: usize = 50_000;
/// Largest number of comparisons. The last one must find no record that still has to be dropped.
const ROUND_COUNT: u32 = 3;
/// Largest number of tries for a comparison that may succeed later.
const TRY_COUNT: u32 = 10;
/// Number of entries that are read in one step.
const PAGE_COUNT: usize = 256;

/// Encoded names of the records that have pages, by partition.
pub(super) type PagedNames = BTreeMap<Partition, Vec<Bytes>>;

impl LossRecovery {
    /// Drops the records of this node's copy of a partition that differ from a whole copy. Returns false
    /// if the copies can't be compared or differ too much; some records may be dropped in that case, too.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(super) async fn drop_differing(
        self: &Arc<Self>,
        partition: Partition,
        decisions: &BTreeMap<u32, LossDecision>,
        serving: &BTreeSet<NodeId>,
        paged: &[Bytes],
    ) -> Result<bool, RequestError> {
        for _ in 0..TRY_COUNT {
            let Some((peer, compared)) = self.whole_copy(partition, decisions, serving) else {
                return Ok(false);
            };
            match self.keep_equal(&peer, compared, decisions, paged).await {
                Ok(is_kept) => return Ok(is_kept),
                Err(ExchangeError::Own(fault)) => return Err(fault),
                Err(fault) if fault.may_pass() => {
                    tracing::debug!(%fault, "a copy that lost records is compared later");
                    sleep(RETRY_PAUSE).await;
                }
                Err(fault) => {
                    tracing::debug!(%fault, "a copy that lost records can't be compared");
                    return Ok(false);
                }
            }
        }
        Ok(false)
    }

    /// Drops the records of this node's copy that differ from a peer's. Returns true if only equal
    /// records are left.
    async fn keep_equal(
        self: &Arc<Self>,
        peer: &Peer,
        compared: ComparedClasses,
        decisions: &BTreeMap<u32, LossDecision>,
        paged: &[Bytes],
    ) -> Result<bool, ExchangeError> {
        debug_assert!(compared.classes != 0, "copies are compared in some class");
        let decisions = Arc::new(decisions.clone());
        let (losses, dropped, paged) = (Arc::clone(self), Arc::clone(&decisions), paged.to_vec());
        let drop = move || Ok(losses.drop_incomparable(compared, &dropped, &paged)?);
        self.local.settings.blocking.at_low_priority(drop).await?;
        for _ in 0..ROUND_COUNT {
            let tags =
                self.anti_entropy.differing_tags(peer, compared, DIFFERENCE_COUNT_MAX).await?;
            let Some(tags) = tags else { return Ok(false) };
            let (losses, dropped) = (Arc::clone(self), Arc::clone(&decisions));
            let drop = move || Ok(losses.drop_tags(compared.partition, tags, &dropped)?);
            if planted!(KeepsWhatDiffers)
                || self.local.settings.blocking.at_low_priority(drop).await? == 0
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the node whose whole copy has most classes in common with this node's, and these classes.
    fn whole_copy(
        &self,
        partition: Partition,
        decisions: &BTreeMap<u32, LossDecision>,
        serving: &BTreeSet<NodeId>,
    ) -> Option<(Arc<Peer>, ComparedClasses)> {
        let state = self.local.state();
        // While layouts or n_vals change, the class of a record does not tell whether a node is to have
        // it.
        if state.layouts().is_moving() || !state.raises().is_empty() {
            return None;
        }
        self.local.engine.compared()?;
        let dropped = decisions.iter().filter(|(_, decision)| **decision == LossDecision::Dropped);
        let wanted = dropped.fold(0, |bits, (n_val, _)| bits | 1 << RecordMeta::class_of(*n_val));
        let (_, n_val_max) = n_vals(&state);
        let holders = primaries(&state, partition, n_val_max).into_iter();
        let whole = holders.filter(|node| {
            serving.contains(node) && !state.layouts().is_incomplete(partition, *node)
        });
        let with_classes = whole.map(|node| {
            let common = CommonClasses::new(&state, state.node_id(), node);
            (common.of(partition) & wanted, node)
        });
        let (classes, node) = with_classes.max_by_key(|(classes, _)| classes.count_ones())?;
        let peer = self.local.reachable(node).filter(|_| classes != 0)?;
        Some((peer, ComparedClasses { partition, classes }))
    }

    /// Returns the names of the records that have pages; `None` if they can't be found out.
    pub(super) fn paged_names(&self) -> Option<PagedNames> {
        let mut names = PagedNames::new();
        let mut after: Option<Bytes> = None;
        loop {
            let last = after.as_ref();
            let after_bucket = last.map(|bucket| BucketRef { bucket_type: PIECE_TYPE, bucket });
            let page = self.local.engine.list_buckets(PIECE_TYPE, after_bucket, PAGE_COUNT);
            let page = page.inspect_err(|fault| {
                tracing::debug!(%fault, "the records in pages can't be listed");
            });
            let page = page.ok()?;
            for (_, name) in &page {
                // A name that can't be decoded is the note of a staging.
                let Ok(key) = KeyRef::decode(name) else { continue };
                let (partition, _) = self.local.partition_of(key).ok()?;
                names.entry(partition).or_default().push(name.clone());
            }
            if page.len() < PAGE_COUNT {
                return Some(names);
            }
            after = page.last().map(|(_, name)| name.clone());
        }
    }

    /// Drops the records that the comparison does not cover: tombstones, records in pages, and records of
    /// other classes.
    fn drop_incomparable(
        &self,
        ComparedClasses { partition, classes }: ComparedClasses,
        decisions: &BTreeMap<u32, LossDecision>,
        paged: &[Bytes],
    ) -> Result<(), StoreError> {
        let mut from = Some(Identity(0));
        while let Some(identity) = from {
            let page = self.local.engine.fold(partition, identity, PAGE_COUNT, true)?;
            from = page.next;
            self.drop_records(partition, page.entries, decisions)?;
        }
        for name in paged.iter().filter(|name| self.is_dropped(name, decisions)) {
            self.drop_paged(partition, name)?;
        }
        let Some(engine) = self.local.engine.compared() else { return Ok(()) };
        // A class without records has the digest 0. It is left out, since looking for its records would
        // read all heads.
        let digests = engine.digests(partition, 0)?;
        let others = (0_u8..).zip(&digests.0).filter(|(class, _)| classes & (1 << *class) == 0);
        for (n_val_class, _) in others.filter(|(_, digest)| **digest != 0) {
            let scope = Scope { n_val_class, hour_min: 0 };
            let mut from = Some(Tag::MIN);
            while let Some(tag) = from {
                let page = engine.leaves(partition, scope, HashRange::ALL, tag, PAGE_COUNT)?;
                from = page.next;
                let tags = page.leaves.into_iter().map(|leaf| leaf.tag).collect();
                self.drop_tags(partition, tags, decisions)?;
            }
        }
        Ok(())
    }

    /// Drops the records of these tags of which other nodes have whole copies. Returns their number.
    fn drop_tags(
        &self,
        partition: Partition,
        tags: BTreeSet<Tag>,
        decisions: &BTreeMap<u32, LossDecision>,
    ) -> Result<usize, StoreError> {
        let tags: Vec<Tag> = tags.into_iter().collect();
        let mut dropped_count = 0;
        for some in tags.chunks(PAGE_COUNT) {
            let records = self.local.records.tagged(partition, some)?;
            dropped_count += self.drop_records(partition, records, decisions)?;
        }
        Ok(dropped_count)
    }

    /// Drops those of these records of which other nodes have whole copies. Returns their number.
    fn drop_records(
        &self,
        partition: Partition,
        records: Vec<(Bytes, Record)>,
        decisions: &BTreeMap<u32, LossDecision>,
    ) -> Result<usize, StoreError> {
        let mut dropped_count = 0;
        for (key, record) in records {
            let Ok(place) = PlacedKey::new(&key, partition) else { continue };
            if self.is_dropped(&key, decisions) {
                self.local.records.delete(&place.at(), record.meta.digest)?;
                dropped_count += 1;
            }
        }
        Ok(dropped_count)
    }

    /// True if another node has a whole copy of the record. This depends on the present n_val of its
    /// bucket; the record may be filed under a former one.
    fn is_dropped(&self, key: &Bytes, decisions: &BTreeMap<u32, LossDecision>) -> bool {
        let n_val = n_val_of(&self.local.state(), key);
        n_val.and_then(|n_val| decisions.get(&n_val)) == Some(&LossDecision::Dropped)
    }

    /// Drops a record with its pages, whether they can be read or not.
    fn drop_paged(&self, partition: Partition, name: &Bytes) -> Result<(), StoreError> {
        let pieces = KeyRange::Bucket(BucketRef { bucket_type: PIECE_TYPE, bucket: name });
        let mut after = None;
        loop {
            let page = self.local.engine.list_keys(pieces, after.as_deref(), PAGE_COUNT)?;
            for (encoded, _) in &page.entries {
                let Ok(key) = KeyRef::decode(encoded) else { continue };
                // The identity of a piece does not depend on the placement of its record.
                let KeyHash { identity, .. } = KeyHash::of_piece(encoded, PlacementHash(0));
                self.drop_at(&RecordAt { key, encoded, identity, partition })?;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let Ok(place) = PlacedKey::new(name, partition) else { return Ok(()) };
        self.drop_at(&place.at())
    }

    fn drop_at(&self, at: &RecordAt<'_>) -> Result<(), StoreError> {
        self.local
            .engine
            .update(at, BeforeImage::Skip, IoMode::Wait, &mut |_, _| Decision::Remove)
            .map(|_| ())
    }
}
