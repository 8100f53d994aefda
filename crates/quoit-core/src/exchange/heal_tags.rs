//! Replaces damaged records by the copies of all other replicas.
//!
//! Damaged records are known by their tags only, since their names may be unreadable. So this node fetches
//! all that other replicas have under a tag, merges it, and replaces its own record by the merge.
//!
//! One replica's copy is not enough. The damaged copy may have been one of the few that a write was
//! acknowledged for. If it were replaced by the copy of a replica that missed that write, both would then be
//! a majority without it. So a record waits, damaged and without a vote, until all its other primaries have
//! answered.

use super::AntiEntropy;
use super::ExchangeError;
use super::counted_damage::DamagedName;
use super::repair::pulled_records;
use super::states::write_tags;
use crate::delivery::hand::call;
use crate::error::RequestError;
use crate::placement::{PlacedKey, n_val_of, n_vals, primaries};
use crate::records::Replicated;
use crate::stats::Counter;
use crate::stored::decode;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{NodeId, Peer};
use quoit_model::hash::Partition;
use quoit_planted::planted;
use quoit_store::index::Tag;
use quoit_wire::internode::exchange::{METHOD_PULL, Pull, Pulled};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Largest number of tags in a `Pull`.
const TAG_COUNT: usize = 256;

/// Nodes whose copies heal this node's damaged records.
pub(crate) struct HealingSources {
    /// Nodes that are asked.
    pub(crate) asked: Vec<NodeId>,
    /// Primaries that have lost records themselves and are not asked yet. A record of which one of them is a
    /// primary waits until that node has recovered.
    pub(crate) lossy: BTreeSet<NodeId>,
}

/// Damaged records that could not be replaced.
pub(crate) struct UnhealedRecords {
    /// Tags of the records: the highest bits of their identities.
    pub(crate) tags: BTreeSet<Tag>,
    /// True if all nodes answered, so that they have nothing under these tags.
    pub(crate) all_answered: bool,
}

/// Other replicas' copies of damaged records.
struct FetchedCopies {
    /// Number of tags that were asked for.
    tag_count: usize,
    /// Under each name, the merge of the copies.
    copies: BTreeMap<Bytes, Replicated>,
    /// Nodes that did not answer for all of the tags.
    silent: BTreeSet<NodeId>,
}

impl AntiEntropy {
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
            let sources = self.healing_sources(partition);
            let UnhealedRecords { tags: left, all_answered } =
                self.heal_tags(partition, tags.clone(), &sources).await;
            healed.extend(tags.difference(&left).map(|tag| (partition, *tag)));
            if left.is_empty() {
                continue;
            }
            if !all_answered {
                waiting.extend(left.iter().map(|tag| (partition, *tag)));
            }
            let pages = self.heal_pages(partition, left, &sources).await;
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
    fn healing_sources(&self, partition: Partition) -> HealingSources {
        let state = self.local.state();
        let (_, n_val_max) = n_vals(&state);
        let others = primaries(&state, partition, n_val_max).into_iter();
        let others = others.filter(|node| *node != state.node_id());
        let is_whole = |node: &NodeId| !state.layouts().is_incomplete(partition, *node);
        let (whole, rest): (Vec<_>, Vec<_>) = others.partition(is_whole);
        if whole.is_empty() {
            return HealingSources { asked: rest, lossy: BTreeSet::new() };
        }
        // A copy that is new in a layout has no vote in reads yet, and writes do not rely on it alone.
        let lost: BTreeSet<_> = state.layouts().lost_copies().collect();
        let lossy = rest.into_iter().filter(|node| lost.contains(&(partition, *node))).collect();
        HealingSources { asked: whole, lossy }
    }

    /// Replaces the records of some tags by the merge of what all sources have.
    pub(crate) async fn heal_tags(
        self: &Arc<Self>,
        partition: Partition,
        tags: BTreeSet<Tag>,
        sources: &HealingSources,
    ) -> UnhealedRecords {
        let tags: Vec<Tag> = tags.into_iter().collect();
        let mut unhealed = UnhealedRecords { tags: BTreeSet::new(), all_answered: true };
        let mut left = tags.as_slice();
        while !left.is_empty() {
            let FetchedCopies { tag_count, copies, silent } =
                self.fetch_copies(partition, left, sources).await;
            let (step, rest) = left.split_at_checked(tag_count).unwrap_or((left, &[]));
            left = rest;
            unhealed.all_answered &= silent.is_empty();
            let healed = match self.replace_damaged(partition, copies, silent).await {
                Ok(healed) => healed,
                Err(fault) => {
                    tracing::warn!(%fault, "damaged records could not be replaced");
                    unhealed.all_answered = false;
                    BTreeSet::new()
                }
            };
            unhealed.tags.extend(step.iter().filter(|tag| !healed.contains(tag)));
        }
        unhealed
    }

    /// Replaces the large sets and maps that damaged pages belong to. Pages are private to a node, so the
    /// record is fetched as a whole. Returns the tags of the pages that were healed.
    async fn heal_pages(
        self: &Arc<Self>,
        partition: Partition,
        tags: BTreeSet<Tag>,
        sources: &HealingSources,
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
        let UnhealedRecords { tags: left, .. } = self.heal_tags(partition, damaged, sources).await;
        let healed = owners.into_iter().filter(|(owner, _)| !left.contains(owner));
        healed.flat_map(|(_, pages)| pages).collect()
    }

    /// Fetches and merges what the sources have under the first of some tags, tombstones included. The
    /// answer of the first source bounds how many tags that are, and so the memory.
    async fn fetch_copies(
        self: &Arc<Self>,
        partition: Partition,
        tags: &[Tag],
        sources: &HealingSources,
    ) -> FetchedCopies {
        let mut step = tags.get(..TAG_COUNT).unwrap_or(tags);
        let mut copies = BTreeMap::new();
        let mut silent = sources.lossy.clone();
        let mut is_first = true;
        for node in &sources.asked {
            let Some(peer) = self.local.reachable(*node) else {
                silent.insert(*node);
                continue;
            };
            let mut left = step;
            while !left.is_empty() {
                let answered = match self.pull_tags(&peer, partition, left).await {
                    Ok((answered_count, records)) => {
                        self.merge_fetched(&mut copies, records).map(|()| answered_count)
                    }
                    Err(fault) => Err(fault),
                };
                match answered {
                    Ok(answered_count) if is_first => {
                        step = step.get(..answered_count).unwrap_or(step);
                        left = &[];
                        is_first = false;
                    }
                    Ok(answered_count) => left = left.get(answered_count..).unwrap_or_default(),
                    Err(fault) => {
                        tracing::debug!(%fault, "a replica could not heal records");
                        silent.insert(*node);
                        break;
                    }
                }
            }
            if planted!(HealsFromFirst) && !copies.is_empty() {
                break;
            }
        }
        FetchedCopies { tag_count: step.len(), copies, silent }
    }

    /// Fetches the records that another node has under the first of some tags. Returns the number of tags
    /// that its answer is about, at least one.
    async fn pull_tags(
        &self,
        peer: &Peer,
        partition: Partition,
        tags: &[Tag],
    ) -> Result<(usize, Vec<(Bytes, Replicated)>), ExchangeError> {
        let mut pull = Pull {
            partition: u32::from(partition.0),
            layout_version: self.local.state().layouts().newest().version(),
            with_tombstones: true,
            ..Pull::default()
        };
        write_tags(tags.iter().map(|tag| (*tag, false)), &mut pull.tags);
        let reply = call(peer, METHOD_PULL, &pull, b"").await?;
        let answer = || ExchangeError::Answer { to: peer.name() };
        let pulled = Pulled::decode(reply.header).map_err(|_| answer())?;
        let tag_count = pulled.tag_count as usize;
        if tag_count == 0 || tag_count > tags.len() {
            return Err(answer());
        }
        let records = pulled_records(&pulled, reply.payload).ok_or_else(answer)?;
        Ok((tag_count, records))
    }

    /// Merges records that a replica has sent with those of other replicas.
    fn merge_fetched(
        &self,
        copies: &mut BTreeMap<Bytes, Replicated>,
        records: Vec<(Bytes, Replicated)>,
    ) -> Result<(), ExchangeError> {
        for (name, theirs) in records {
            match copies.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(theirs);
                }
                Entry::Occupied(entry) if entry.get().meta.digest == theirs.meta.digest => {}
                Entry::Occupied(mut entry) => {
                    let ours = entry.get();
                    let (former, other) = (decode(&ours.object)?, decode(&theirs.object)?);
                    let merged = self.replica.merged(&former, &other, theirs.rule);
                    let n_val_class = theirs.meta.n_val_class;
                    entry.insert(Replicated::new(&merged, theirs.rule, n_val_class));
                }
            }
        }
        Ok(())
    }

    /// Replaces this node's damaged records by fetched ones whose other primaries have all answered.
    /// Returns the tags of these.
    async fn replace_damaged(
        self: &Arc<Self>,
        partition: Partition,
        copies: BTreeMap<Bytes, Replicated>,
        silent: BTreeSet<NodeId>,
    ) -> Result<BTreeSet<Tag>, RequestError> {
        let anti_entropy = Arc::clone(self);
        let replace = move || {
            let state = anti_entropy.local.state();
            let mut healed = BTreeSet::new();
            for (name, copy) in &copies {
                let Ok(place) = PlacedKey::new(name, partition) else { continue };
                let n_val = n_val_of(&state, name).unwrap_or_else(|| n_vals(&state).1);
                if !silent.is_disjoint(&primaries(&state, partition, n_val))
                    && !planted!(HealsFromFirst)
                {
                    continue;
                }
                anti_entropy.replica.replace_damaged(&place.at(), copy)?;
                healed.insert(Tag::of(place.at().identity));
            }
            Ok(healed)
        };
        self.local.settings.blocking.at_low_priority(replace).await
    }
}
