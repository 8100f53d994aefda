//! Repairs the differences that an exchange has found.
//!
//! For each partition:
//!
//! 1. A plan sorts the differing tags ([`RepairPlan`]). Tags of which the other node has records are
//!    pulled. Live records that the other node lacks are pushed.
//! 2. Large sets and maps that both nodes have in pages are made equal by ranges of items. Where that is
//!    not possible, they are pulled like all others.
//! 3. `Pull` sends the clocks of this node's records. The answer has the records that are newer there or
//!    concurrent, and names those that are newer here. This node merges what it gets.
//! 4. The records that are newer here, and merged ones that now differ from the other node's copy, are
//!    delivered.
//!
//! So an older version never crosses the network, and concurrent versions cross it once in each
//! direction.

use super::AntiEntropy;
use super::ExchangeError;
use super::states::{TagDifference, write_tags};
use crate::delivery::hand::{BATCH_BYTES, call, meta_of};
use crate::error::RequestError;
use crate::placement::PlacedKey;
use crate::reap_records::ReapRecord;
use crate::records::{clock_of, has_ranges};
use crate::replica::Replicated;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{NodeId, Peer};
use quoit_model::context::encode_context;
use quoit_model::hash::Partition;
use quoit_planted::planted;
use quoit_store::engine::{IoMode, Record};
use quoit_store::index::Tag;
use quoit_wire::internode::data::MergeRule;
use quoit_wire::internode::exchange::{KnownRecord, METHOD_PULL, Pull, Pulled};
use quoit_wire::internode::transfer::DeliveredRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Largest number of tags in a `Pull`.
const PULL_COUNT: usize = 256;

/// Largest number of tags whose records are read at once, and are in memory together.
const READ_COUNT: usize = 16;

/// Counts of records that were repaired on either side.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Repaired {
    /// Records that were repaired.
    pub(super) key_count: u64,
    /// Bytes of the objects that were sent or fetched.
    pub(super) byte_count: u64,
}

/// The repairs that the differences of a partition need.
#[derive(Default)]
struct RepairPlan {
    /// Large sets and maps of this node under tags of which the other node has records, too.
    by_ranges: Vec<(Tag, Bytes)>,
    /// Tags to pull: the other node has records of them.
    pull: Vec<Tag>,
    /// This node's records under tags of which the other node has records.
    known: BTreeMap<Tag, Vec<KnownRecord>>,
    /// Records to deliver: the other node lacks them or has an older version.
    push: BTreeSet<(Tag, Bytes)>,
}

impl AntiEntropy {
    /// Makes both copies equal in some tags of a partition, except for records that can't be read.
    pub(super) async fn repair_differences(
        self: &Arc<Self>,
        peer: &Peer,
        partition: Partition,
        layout_version: u64,
        differences: &[TagDifference],
    ) -> Result<Repaired, ExchangeError> {
        let mut plan = self.plan(peer.node_id(), partition, differences).await?;
        let mut repaired = BTreeSet::new();
        let mut byte_count = 0;
        byte_count +=
            self.merge_planned_by_ranges(peer, partition, &mut plan, &mut repaired).await?;
        if planted!(RepairsOneSide) {
            plan.pull.clear();
        }
        let mut left = &std::mem::take(&mut plan.pull)[..];
        while !left.is_empty() {
            let tags = left.get(..PULL_COUNT).unwrap_or(left);
            let mut pull =
                Pull { partition: u32::from(partition.0), layout_version, ..Pull::default() };
            write_tags(tags.iter().map(|tag| (*tag, false)), &mut pull.tags);
            let known: Vec<(Tag, KnownRecord)> = tags
                .iter()
                .flat_map(|tag| {
                    plan.known.get(tag).into_iter().flatten().map(|known| (*tag, known))
                })
                .map(|(tag, known)| (tag, known.clone()))
                .collect();
            pull.known = known.iter().map(|(_, known)| known.clone()).collect();
            let reply = call(peer, METHOD_PULL, &pull, b"").await?;
            let answer = || ExchangeError::Answer { to: peer.name() };
            let pulled = Pulled::decode(reply.header).map_err(|_| answer())?;
            let tag_count = pulled.tag_count as usize;
            if tag_count == 0 || tag_count > tags.len() {
                return Err(answer());
            }
            left = left.get(tag_count..).ok_or_else(answer)?;
            for place in &pulled.wanted {
                let (tag, known) = known.get(*place as usize).ok_or_else(answer)?;
                plan.push.insert((*tag, known.key.clone()));
            }
            let pulled_bytes = reply.payload.len() as u64;
            byte_count += pulled_bytes;
            let taken = self.take_pulled(partition, pulled, reply.payload).await?;
            let mut reaped = Vec::new();
            for FetchedRecord { tag, key, differs, covered_by } in taken.ok_or_else(answer)? {
                repaired.insert(key.clone());
                reaped.extend(covered_by);
                if differs {
                    plan.push.insert((tag, key));
                }
            }
            self.delivery.send_missed_reap_records(peer.node_id(), reaped).await;
            self.delivery.throttle.wait_for(pulled_bytes).await;
        }
        let pushed: Vec<_> = plan.push.into_iter().collect();
        let (mut left, mut read_count) = (&pushed[..], 1);
        while !left.is_empty() {
            let (some, rest) = left.split_at(read_count.min(left.len()));
            let records = self.records(partition, some).await?;
            let size_bytes: usize = records.iter().map(|(_, record)| record.value.len()).sum();
            // Large records are read one by one.
            read_count = if size_bytes > BATCH_BYTES { 1 } else { READ_COUNT.min(read_count * 2) };
            byte_count += self.delivery.hand_all(peer, partition, &records).await?.byte_count;
            repaired.extend(records.iter().map(|(key, _)| key.clone()));
            left = rest;
        }
        Ok(Repaired { key_count: repaired.len() as u64, byte_count })
    }

    /// Makes large sets and maps equal by ranges of items. Those for which that is not possible are added
    /// to the tags to pull. Returns the number of bytes sent.
    async fn merge_planned_by_ranges(
        &self,
        peer: &Peer,
        partition: Partition,
        plan: &mut RepairPlan,
        repaired: &mut BTreeSet<Bytes>,
    ) -> Result<u64, ExchangeError> {
        let mut byte_count = 0;
        for (tag, key) in std::mem::take(&mut plan.by_ranges) {
            // If sending is switched off, the record is pulled, so that this node still gets a newer
            // version.
            if self.delivery.throttle.check_outbound().is_err() {
                plan.pull.push(tag);
                continue;
            }
            match self.replica.merge_by_ranges(peer, partition, &key).await? {
                Some(sent_bytes) => {
                    byte_count += sent_bytes;
                    repaired.insert(key);
                    self.delivery.throttle.wait_for(sent_bytes).await;
                }
                None => plan.pull.push(tag),
            }
        }
        // The encoding of tags needs ascending order.
        plan.pull.sort_unstable();
        Ok(byte_count)
    }

    /// Sorts the differences of a partition into those to compare by ranges, to pull and to push. Files
    /// this node's records under the present n_val class of their buckets.
    async fn plan(
        self: &Arc<Self>,
        peer: NodeId,
        partition: Partition,
        differences: &[TagDifference],
    ) -> Result<RepairPlan, ExchangeError> {
        let mut plan = RepairPlan::default();
        let mut refiled: Vec<(Bytes, u8)> = Vec::new();
        for some in differences.chunks(READ_COUNT) {
            let ours: Vec<Tag> =
                some.iter().filter(|each| each.ours.is_some()).map(|each| each.tag).collect();
            let records = self.tagged(partition, ours).await?;
            for difference in some {
                let tag = difference.tag;
                let records = records.iter().filter(|(each, ..)| *each == tag);
                for (_, key, record) in records.clone() {
                    refiled.push((key.clone(), record.meta.n_val_class));
                }
                if difference.theirs.is_some() {
                    let ours: Vec<_> = records.collect();
                    match ours[..] {
                        [(_, key, record)] if has_ranges(record) => {
                            plan.by_ranges.push((tag, key.clone()));
                        }
                        _ => plan.pull.push(tag),
                    }
                    let known = ours.iter().map(|(_, key, record)| known(key, record)).collect();
                    plan.known.insert(tag, known);
                } else {
                    let live = records.filter(|(.., record)| !record.meta.tombstone);
                    // A record that is filed under a former n_val may be one of which the other node is
                    // not a primary.
                    let theirs =
                        live.filter(|(_, key, _)| self.local.is_primary_of(peer, partition, key));
                    plan.push.extend(theirs.map(|(tag, key, _)| (*tag, key.clone())));
                }
            }
        }
        let anti_entropy = Arc::clone(self);
        let refile = move || {
            refiled
                .iter()
                .try_for_each(|(key, class)| anti_entropy.delivery.refile(partition, key, *class))
        };
        self.local.settings.blocking.at_low_priority(move || Ok(refile()?)).await?;
        debug_assert!(
            plan.pull.iter().all(|tag| plan.known.contains_key(tag)),
            "a pull tells what this node has of each tag"
        );
        Ok(plan)
    }

    /// Reads the records of some tags.
    async fn tagged(
        self: &Arc<Self>,
        partition: Partition,
        tags: Vec<Tag>,
    ) -> Result<Vec<(Tag, Bytes, Record)>, ExchangeError> {
        let anti_entropy = Arc::clone(self);
        let read = move || {
            let records = anti_entropy.local.records.tagged(partition, &tags)?.into_iter();
            let placed = records.filter_map(|(key, record)| {
                let tag =
                    PlacedKey::new(&key, partition).ok().map(|place| Tag::of(place.at().identity));
                tag.map(|tag| (tag, key, record))
            });
            Ok(placed.collect())
        };
        Ok(self.local.settings.blocking.at_low_priority(read).await?)
    }

    /// Reads the records with these names.
    async fn records(
        self: &Arc<Self>,
        partition: Partition,
        names: &[(Tag, Bytes)],
    ) -> Result<Vec<(Bytes, Record)>, ExchangeError> {
        let tags: BTreeSet<Tag> = names.iter().map(|(tag, _)| *tag).collect();
        let tags = tags.into_iter().collect();
        let records = self.tagged(partition, tags).await?.into_iter();
        let wanted = records.filter(|(_, key, _)| names.iter().any(|(_, name)| name == key));
        Ok(wanted.map(|(_, key, record)| (key, record)).collect())
    }

    /// Merges fetched records into this node's copy; `None` if the objects are cut off or a name can't be
    /// read.
    pub(super) async fn take_pulled(
        self: &Arc<Self>,
        partition: Partition,
        pulled: Pulled,
        objects: Bytes,
    ) -> Result<Option<Vec<FetchedRecord>>, ExchangeError> {
        let anti_entropy = Arc::clone(self);
        let take = move || {
            let Some(records) = pulled_records(&pulled, objects) else { return Ok(None) };
            let mut taken = Vec::with_capacity(records.len());
            for (key, replicated) in records {
                let Ok(place) = PlacedKey::new(&key, partition) else { return Ok(None) };
                let at = place.at();
                // This counts as a write that has to last: an equal record that is stored here may be
                // filed under another n_val class.
                let outcome =
                    anti_entropy.replica.merge_into_copy(&at, &replicated, true, IoMode::Wait)?;
                let covered_by = anti_entropy.replica.covered_by(&at, outcome)?;
                let head = anti_entropy.local.engine.head(&at)?;
                let differs = head.is_some_and(|meta| meta.digest != replicated.meta.digest);
                let tag = Tag::of(at.identity);
                taken.push(FetchedRecord { tag, key, differs, covered_by });
            }
            Ok::<_, RequestError>(Some(taken))
        };
        Ok(self.local.settings.blocking.at_low_priority(take).await?)
    }
}

/// A record that was fetched and merged.
pub(super) struct FetchedRecord {
    pub(super) tag: Tag,
    key: Bytes,
    /// True if this node's record now differs from the other node's.
    differs: bool,
    /// The reap record because of which it was rejected, if any.
    covered_by: Option<ReapRecord>,
}

/// The names and objects of an answer; `None` if the objects are cut off.
pub(super) fn pulled_records(
    pulled: &Pulled,
    mut objects: Bytes,
) -> Option<Vec<(Bytes, Replicated)>> {
    let record = |record: &DeliveredRecord| {
        let size_bytes = usize::try_from(record.size_bytes).ok();
        let size_bytes = size_bytes.filter(|size_bytes| *size_bytes <= objects.len())?;
        let replicated = Replicated {
            meta: meta_of(record),
            rule: MergeRule::try_from(record.rule).unwrap_or(MergeRule::Causal),
            object: objects.split_to(size_bytes),
        };
        Some((record.key.clone(), replicated))
    };
    pulled.records.iter().map(record).collect()
}

fn known(key: &Bytes, record: &Record) -> KnownRecord {
    // An unreadable clock counts as one without events, so the other node sends its version.
    let clock = encode_context(&clock_of(record));
    KnownRecord { key: key.clone(), digest: record.meta.digest, clock }
}
