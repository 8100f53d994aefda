//! Verification: reads the data on this node's disk piece by piece, and replaces damaged records by the
//! copies of other replicas.
//!
//! Exchanges compare digests from the index and never notice damage on the disk, and clients may not read a
//! record for years. Without verification, damage would gather until all copies of a record are damaged.
//! Damaged records are known by their tags only, since their names may be unreadable. So this node fetches
//! all that other replicas have under a tag.

use super::AntiEntropy;
use super::ExchangeError;
use super::counted_damage::DamagedName;
use super::states::write_tags;
use crate::delivery::hand::call;
use crate::placement::{n_vals, primaries};
use crate::stats::Counter;
use prost::Message;
use quoit_cluster::{NodeId, Peer};
use quoit_model::hash::Partition;
use quoit_store::engine::{DataLocation, Verified};
use quoit_store::index::Tag;
use quoit_wire::internode::exchange::{METHOD_PULL, Pull, Pulled};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Largest number of bytes that are read in one step.
const PIECE_BYTES: u64 = 1 << 20;
/// Pause before a round: after a start, and after the former round.
const ROUND_PAUSE: Duration = Duration::from_secs(600);
/// Pause before a round when the engine has met damage.
const ROUND_PAUSE_MIN: Duration = Duration::from_secs(10);
/// Largest number of tags in a `Pull`.
const TAG_COUNT: usize = 256;

/// Damaged records that could not be replaced.
pub(crate) struct UnhealedRecords {
    /// Tags of the records: the highest bits of their identities.
    pub(crate) tags: BTreeSet<Tag>,
    /// True if all nodes answered, so that they have nothing under these tags.
    pub(crate) all_answered: bool,
}

impl AntiEntropy {
    /// Reads the data on disk at the configured rate and heals damaged records, until the task is
    /// dropped.
    pub(crate) async fn run_verification(self: Arc<Self>) {
        let bytes_per_sec = self.local.settings.exchanges.verified_bytes_per_sec;
        if bytes_per_sec == 0 {
            return;
        }
        let mut place: Option<DataLocation> = None;
        loop {
            if place.is_none() {
                // Where there is some damage, there may be more.
                timeout(ROUND_PAUSE, self.healing.met.notified()).await.ok();
                sleep(ROUND_PAUSE_MIN).await;
            }
            let anti_entropy = Arc::clone(&self);
            let piece_bytes = PIECE_BYTES.min(bytes_per_sec);
            let read = move || Ok(anti_entropy.local.engine.verify(place, piece_bytes)?);
            let verified = match self.local.settings.blocking.at_low_priority(read).await {
                Ok(verified) => verified,
                Err(fault) => {
                    tracing::warn!(%fault, "data on disk could not be verified");
                    sleep(ROUND_PAUSE).await;
                    continue;
                }
            };
            let Verified { byte_count, damaged, next } = verified;
            self.local.stats.add(Counter::VerifiedBytes, byte_count);
            if !damaged.is_empty() {
                self.heal(&damaged).await;
            }
            place = next;
            if place.is_none() {
                self.counted.end_round();
            }
            sleep(Duration::from_secs_f64(byte_count as f64 / bytes_per_sec as f64)).await;
        }
    }

    /// Replaces damaged records by the copies of other replicas. Returns the records that were not
    /// replaced and that a replica which did not answer may have. A record that is tried again counts once.
    pub(super) async fn heal(self: &Arc<Self>, damaged: &[DamagedName]) -> Vec<DamagedName> {
        let found_count = self.counted.note(damaged);
        self.local.stats.add(Counter::DamagedRecords, found_count as u64);
        let mut by_partition: BTreeMap<Partition, BTreeSet<Tag>> = BTreeMap::new();
        for (partition, tag) in damaged {
            by_partition.entry(*partition).or_default().insert(*tag);
        }
        let mut healed = Vec::new();
        let mut waiting = Vec::new();
        for (partition, tags) in by_partition {
            let nodes = self.repair_sources(partition);
            let UnhealedRecords { tags: left, all_answered } =
                self.heal_tags(partition, tags.clone(), &nodes).await;
            healed.extend(tags.difference(&left).map(|tag| (partition, *tag)));
            if left.is_empty() {
                continue;
            }
            if !all_answered {
                waiting.extend(left.iter().map(|tag| (partition, *tag)));
            }
            let pages = self.heal_pages(partition, left, &nodes).await;
            healed.extend(pages.into_iter().map(|tag| (partition, tag)));
        }
        let (healed_count, waiting_count) = (self.counted.remove(&healed), waiting.len());
        self.local.stats.add(Counter::HealedRecords, healed_count as u64);
        if found_count > 0 || healed_count > 0 {
            tracing::warn!(
                found_count,
                healed_count,
                waiting_count,
                "records on this node's disk were damaged; those that wait have replicas that did not answer"
            );
        }
        waiting
    }

    /// Returns the nodes to fetch replacements from: the other primaries of a partition whose copies are
    /// complete, or, if there are none, all other primaries. An incomplete copy may hold records that
    /// were deleted since, but there is nothing better.
    ///
    /// This node's own copy need not be complete: filling it may take long, and until then each read of a
    /// damaged record fails.
    fn repair_sources(&self, partition: Partition) -> Vec<NodeId> {
        let state = self.local.state();
        let (_, n_val_max) = n_vals(&state);
        let others = primaries(&state, partition, n_val_max).into_iter();
        let others = others.filter(|node| *node != state.node_id());
        let is_whole = |node: &NodeId| !state.layouts().is_incomplete(partition, *node);
        let (whole, rest): (Vec<_>, Vec<_>) = others.partition(is_whole);
        if whole.is_empty() { rest } else { whole }
    }

    /// Replaces the records of some tags by those of the first of `nodes` that has them.
    pub(crate) async fn heal_tags(
        self: &Arc<Self>,
        partition: Partition,
        mut tags: BTreeSet<Tag>,
        nodes: &[NodeId],
    ) -> UnhealedRecords {
        let mut all_answered = true;
        for node in nodes {
            if tags.is_empty() {
                break;
            }
            let Some(peer) = self.local.reachable(*node) else {
                all_answered = false;
                continue;
            };
            match self.fetch_tags(&peer, partition, &tags).await {
                Ok(healed) => tags.retain(|tag| !healed.contains(tag)),
                Err(fault) => {
                    all_answered = false;
                    tracing::debug!(%fault, "a replica could not heal records");
                }
            }
        }
        UnhealedRecords { tags, all_answered }
    }

    /// Replaces the large sets and maps that damaged pages belong to. Pages are private to a node, so the
    /// record is fetched as a whole. Returns the tags of the pages that were healed.
    async fn heal_pages(
        self: &Arc<Self>,
        partition: Partition,
        tags: BTreeSet<Tag>,
        nodes: &[NodeId],
    ) -> BTreeSet<Tag> {
        let anti_entropy = Arc::clone(self);
        let seek = move || Ok(anti_entropy.local.records.owners_of_pages(partition, &tags)?);
        let owners = match self.local.settings.blocking.at_low_priority(seek).await {
            Ok(owners) => owners,
            Err(fault) => {
                tracing::warn!(%fault, "whose pages are damaged could not be found out");
                return BTreeSet::new();
            }
        };
        let damaged = owners.iter().map(|(owner, _)| *owner).collect();
        let UnhealedRecords { tags: left, .. } = self.heal_tags(partition, damaged, nodes).await;
        let healed = owners.into_iter().filter(|(owner, _)| !left.contains(owner));
        healed.flat_map(|(_, pages)| pages).collect()
    }

    /// Replaces this node's records of some tags by those of another node, tombstones included. Returns the
    /// tags of which the other node had records.
    async fn fetch_tags(
        self: &Arc<Self>,
        peer: &Peer,
        partition: Partition,
        tags: &BTreeSet<Tag>,
    ) -> Result<BTreeSet<Tag>, ExchangeError> {
        let tags: Vec<Tag> = tags.iter().copied().collect();
        let mut fetched = BTreeSet::new();
        let mut left = &tags[..];
        while !left.is_empty() {
            let some = left.get(..TAG_COUNT).unwrap_or(left);
            let mut pull = Pull {
                partition: u32::from(partition.0),
                layout_version: self.local.state().layouts().newest().version(),
                with_tombstones: true,
                ..Pull::default()
            };
            write_tags(some.iter().map(|tag| (*tag, false)), &mut pull.tags);
            let reply = call(peer, METHOD_PULL, &pull, b"").await?;
            let answer = || ExchangeError::Answer { to: peer.name() };
            let pulled = Pulled::decode(reply.header).map_err(|_| answer())?;
            let tag_count = pulled.tag_count as usize;
            if tag_count == 0 || tag_count > some.len() {
                return Err(answer());
            }
            left = left.get(tag_count..).ok_or_else(answer)?;
            let taken = self.take_pulled(partition, pulled, reply.payload).await?;
            fetched.extend(taken.ok_or_else(answer)?.into_iter().map(|taken| taken.tag));
        }
        Ok(fetched)
    }
}
