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
use quoit_cluster::{NodeId, Peer, State};
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
    lossy: BTreeSet<NodeId>,
}

/// Damaged records that could not be replaced.
#[derive(Default)]
pub(crate) struct UnhealedRecords {
    /// Tags of the records: the highest bits of their identities.
    pub(crate) tags: BTreeSet<Tag>,
    /// Those of the tags under which a node that did not answer may have a record. No node has anything
    /// under the others.
    pub(crate) waiting: BTreeSet<Tag>,
}

/// Other replicas' copies of damaged records.
struct FetchedCopies {
    /// The tags that were asked for.
    tags: BTreeSet<Tag>,
    /// The copies with their names, those of one node after another.
    copies: Vec<(Bytes, Replicated)>,
    /// Nodes that did not answer.
    silent: BTreeSet<NodeId>,
}

/// Records that were replaced, and records that were fetched in vain.
#[derive(Default)]
struct ReplacedRecords {
    healed: BTreeSet<Tag>,
    /// Tags of records of which a primary did not answer.
    waiting: BTreeSet<Tag>,
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
            let unhealed = self.heal_tags(partition, tags.clone(), &sources).await;
            healed.extend(tags.difference(&unhealed.tags).map(|tag| (partition, *tag)));
            waiting.extend(unhealed.waiting.iter().map(|tag| (partition, *tag)));
            let unknown: BTreeSet<_> =
                unhealed.tags.difference(&unhealed.waiting).copied().collect();
            if !unknown.is_empty() {
                let pages = self.heal_pages(partition, unknown, &sources).await;
                healed.extend(pages.into_iter().map(|tag| (partition, tag)));
            }
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
    pub(super) fn healing_sources(&self, partition: Partition) -> HealingSources {
        let state = self.local.state();
        let (whole, rest) = self.other_primaries(&state, partition);
        if whole.is_empty() {
            return HealingSources { asked: rest, lossy: BTreeSet::new() };
        }
        let lossy = rest.into_iter().filter(|node| has_lost(&state, partition, *node)).collect();
        HealingSources { asked: whole, lossy }
    }

    /// As [`AntiEntropy::healing_sources`], for records that a walk can't hand over. A copy that has lost
    /// records is asked like a complete one: it may be filled by this very walk.
    pub(crate) fn walk_sources(&self, partition: Partition) -> HealingSources {
        let state = self.local.state();
        let (mut asked, rest) = self.other_primaries(&state, partition);
        asked.extend(rest.into_iter().filter(|node| has_lost(&state, partition, *node)));
        HealingSources { asked, lossy: BTreeSet::new() }
    }

    /// The other primaries of a partition that are members: those with complete copies, and the rest. A
    /// copy that is new in a layout is incomplete, has no vote in reads yet, and no write relies on it
    /// alone.
    fn other_primaries(&self, state: &State, partition: Partition) -> (Vec<NodeId>, Vec<NodeId>) {
        let (_, n_val_max) = n_vals(state);
        let mut others = primaries(state, partition, n_val_max);
        others.remove(&state.node_id());
        // A live layout may still name a node that an operator removed by force.
        others.retain(|node| state.members().get(*node).is_some());
        others.into_iter().partition(|node| !state.layouts().is_incomplete(partition, *node))
    }

    /// Replaces the records of some tags by the merge of what all sources have.
    pub(crate) async fn heal_tags(
        self: &Arc<Self>,
        partition: Partition,
        tags: BTreeSet<Tag>,
        sources: &HealingSources,
    ) -> UnhealedRecords {
        let mut unhealed = UnhealedRecords::default();
        if self.lacks_primary_of_all(partition, sources) && !planted!(HealsFromFirst) {
            // Nothing could be healed, so nothing is fetched.
            return UnhealedRecords { waiting: tags.clone(), tags };
        }
        let tags: Vec<Tag> = tags.into_iter().collect();
        let mut left = tags.as_slice();
        while !left.is_empty() {
            let FetchedCopies { tags: step, copies, silent } =
                self.fetch_copies(partition, left, sources).await;
            left = left.get(step.len()..).unwrap_or_default();
            let is_silent = !silent.is_empty();
            match self.replace_damaged(partition, step.clone(), copies, silent).await {
                Ok(ReplacedRecords { healed, waiting }) => {
                    let not_healed = step.difference(&healed).copied();
                    unhealed.waiting.extend(waiting.iter().filter(|tag| step.contains(tag)));
                    if is_silent {
                        unhealed.waiting.extend(not_healed.clone());
                    }
                    unhealed.tags.extend(not_healed);
                }
                Err(fault) => {
                    tracing::warn!(%fault, "damaged records could not be replaced");
                    unhealed.waiting.extend(step.iter().copied());
                    unhealed.tags.extend(step);
                }
            }
        }
        unhealed
    }

    /// True if a node that can't be asked is a primary of all records of the partition, whatever the n_val
    /// of their buckets.
    fn lacks_primary_of_all(&self, partition: Partition, sources: &HealingSources) -> bool {
        let state = self.local.state();
        let primaries = primaries(&state, partition, n_vals(&state).0);
        let is_away = |node: &&NodeId| self.local.reachable(**node).is_none();
        let mut absent = sources.asked.iter().filter(is_away).chain(&sources.lossy);
        absent.any(|node| primaries.contains(node))
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

    /// Fetches what the sources have under the first of some tags, tombstones included. Each source is asked
    /// once, and later ones only for the tags that the earlier ones have answered: the answers are in memory
    /// together.
    async fn fetch_copies(
        self: &Arc<Self>,
        partition: Partition,
        tags: &[Tag],
        sources: &HealingSources,
    ) -> FetchedCopies {
        let mut step = tags.get(..TAG_COUNT).unwrap_or(tags);
        let mut copies = Vec::new();
        let mut silent = sources.lossy.clone();
        for node in &sources.asked {
            let Some(peer) = self.local.reachable(*node) else {
                silent.insert(*node);
                continue;
            };
            match self.pull_tags(&peer, partition, step).await {
                Ok((answered_count, records)) => {
                    step = step.get(..answered_count).unwrap_or(step);
                    copies.extend(records);
                }
                Err(fault) => {
                    tracing::debug!(%fault, "a replica could not heal records");
                    silent.insert(*node);
                }
            }
            if planted!(HealsFromFirst) && !copies.is_empty() {
                break;
            }
        }
        FetchedCopies { tags: step.iter().copied().collect(), copies, silent }
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

    /// Merges fetched records of some tags, and replaces this node's damaged records by those whose other
    /// primaries have all answered.
    async fn replace_damaged(
        self: &Arc<Self>,
        partition: Partition,
        tags: BTreeSet<Tag>,
        copies: Vec<(Bytes, Replicated)>,
        silent: BTreeSet<NodeId>,
    ) -> Result<ReplacedRecords, RequestError> {
        let anti_entropy = Arc::clone(self);
        let replace = move || {
            let state = anti_entropy.local.state();
            let mut replaced = ReplacedRecords::default();
            for (name, copy) in anti_entropy.merged(copies)? {
                let Ok(place) = PlacedKey::new(&name, partition) else { continue };
                let tag = Tag::of(place.at().identity);
                if !tags.contains(&tag) {
                    continue;
                }
                let n_val = n_val_of(&state, &name).unwrap_or_else(|| n_vals(&state).1);
                let all_answered = silent.is_disjoint(&primaries(&state, partition, n_val));
                if all_answered || planted!(HealsFromFirst) {
                    anti_entropy.replica.replace_damaged(&place.at(), &copy)?;
                    replaced.healed.insert(tag);
                } else {
                    replaced.waiting.insert(tag);
                }
            }
            replaced.healed.retain(|tag| !replaced.waiting.contains(tag));
            Ok(replaced)
        };
        self.local.settings.blocking.at_low_priority(replace).await
    }

    /// Merges the copies that several nodes have of each record.
    fn merged(
        &self,
        copies: Vec<(Bytes, Replicated)>,
    ) -> Result<BTreeMap<Bytes, Replicated>, RequestError> {
        let mut by_name = BTreeMap::new();
        for (name, theirs) in copies {
            match by_name.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(theirs);
                }
                Entry::Occupied(mut entry) => {
                    let ours: &Replicated = entry.get();
                    if ours.meta.digest == theirs.meta.digest {
                        continue;
                    }
                    let (former, other) = (decode(&ours.object)?, decode(&theirs.object)?);
                    let merged = self.replica.merged(&former, &other, theirs.rule);
                    let n_val_class = theirs.meta.n_val_class;
                    entry.insert(Replicated::new(&merged, theirs.rule, n_val_class));
                }
            }
        }
        Ok(by_name)
    }
}

/// True if a node's copy of a partition has lost records and has not recovered them.
fn has_lost(state: &State, partition: Partition, node: NodeId) -> bool {
    state.layouts().lost_copies().any(|lost| lost == (partition, node))
}
