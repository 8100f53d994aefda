//! Checks of the copies on primaries: a primary keeps the values that it has. A node whose copy becomes
//! complete, or that becomes a primary, has the values that the others have.

use crate::history::{FoundValue, KeyNumber, WriteNumber};
use crate::machine::Machine;
use crate::majorities::settled_values_beside_rot;
use crate::names::RecordName;
use crate::run_context::RunContext;
use crate::store_snapshot::StoreSnapshot;
use crate::value::found_in;
use crate::violation::{Violation, ViolationKind};
use quoit_cluster::NodeId;
use quoit_model::hash::Partition;
use quoit_model::object::Object;
use std::collections::{BTreeMap, BTreeSet};

/// Results of earlier checks at copies.
#[derive(Default)]
pub(super) struct KnownCopies {
    /// Time of the last check, in simulated microseconds.
    last_us: u64,
    /// Primaries that held the last value of each key, with the time when it was first found there.
    holders: BTreeMap<KeyNumber, (WriteNumber, BTreeMap<NodeId, u64>)>,
    /// Nodes that hold the last value of each key, with the time when it was first found there.
    found: BTreeMap<KeyNumber, (WriteNumber, BTreeMap<NodeId, u64>)>,
    /// Primaries of each key at the last check.
    former: BTreeMap<KeyNumber, FormerPrimaries>,
    /// Time of the last check before each layout was first seen, by version.
    before_layout_us: BTreeMap<u64, u64>,
    /// Time of the last check before each copy was known to have lost records.
    before_loss_us: BTreeMap<(Partition, NodeId), u64>,
}

/// Primaries of a key at a check.
struct FormerPrimaries {
    /// Those whose copies counted as complete.
    complete: BTreeSet<NodeId>,
    /// Those of all layouts that members read by, without copies that have lost records.
    all: BTreeSet<NodeId>,
}

/// Copies of a key's last value on its primaries.
struct ValueCopies {
    key: KeyNumber,
    number: WriteNumber,
    /// Time at which the write was acknowledged, in simulated microseconds.
    end_us: u64,
    /// Running nodes, with true if they have the value.
    has_value: BTreeMap<NodeId, bool>,
    /// Nodes whose copies are damaged.
    unread: BTreeSet<NodeId>,
    /// Primaries whose copies count as complete, running or not.
    complete: BTreeSet<NodeId>,
    /// Primaries by any layout that members read by, without those whose copies have lost records.
    all: BTreeSet<NodeId>,
    /// Version of the newest layout that members read by.
    layout_version: u64,
    partition: Partition,
}

impl KnownCopies {
    /// Checks the copies of all keys whose last write was acknowledged by a majority.
    pub(super) fn check(
        &mut self,
        run_context: &RunContext,
        snapshot: &StoreSnapshot,
    ) -> Result<(), Violation> {
        let now_us = run_context.time.now_us();
        let Some(newest) = snapshot.newest() else { return Ok(()) };
        for layout in newest.control().read().layouts().live() {
            self.before_layout_us.entry(layout.version()).or_insert(self.last_us);
        }
        let all = copies(run_context, snapshot, now_us);
        let is_rotten = run_context.history.lock().hardships.is_disk_damaged;
        for partition in all.iter().map(|copies| copies.partition).collect::<BTreeSet<_>>() {
            for node in snapshot.lost(partition) {
                self.before_loss_us.entry((partition, node)).or_insert(self.last_us);
            }
        }
        for copies in &all {
            self.note_found(copies, now_us);
            self.check_complete(snapshot, copies, now_us)?;
            if !is_rotten {
                self.check_kept(run_context, snapshot, copies, now_us)?;
            }
        }
        for partition in all.iter().map(|copies| copies.partition).collect::<BTreeSet<_>>() {
            let lost = snapshot.lost(partition);
            self.before_loss_us.retain(|(of, node), _| *of != partition || lost.contains(node));
        }
        let primaries = |copies: ValueCopies| {
            (copies.key, FormerPrimaries { complete: copies.complete, all: copies.all })
        };
        self.former = all.into_iter().map(primaries).collect();
        self.last_us = now_us;
        Ok(())
    }

    /// Notes the nodes that hold a key's last value.
    fn note_found(&mut self, copies: &ValueCopies, now_us: u64) {
        let ValueCopies { key, number, has_value, .. } = copies;
        let (of, found) = self.found.entry(*key).or_insert_with(|| (*number, BTreeMap::new()));
        if of != number {
            (*of, *found) = (*number, BTreeMap::new());
        }
        for (node, has) in has_value {
            if *has {
                found.entry(*node).or_insert(now_us);
            } else {
                found.remove(node);
            }
        }
    }

    /// Checks each copy that has become complete since the last check: it has the value if all others had
    /// it before the copy began to be filled. A source that gets the value later, by a hint, may hand over
    /// its copy without it. A source whose copy is damaged gets the value from others before it hands it
    /// over.
    fn check_complete(
        &self,
        snapshot: &StoreSnapshot,
        copies: &ValueCopies,
        now_us: u64,
    ) -> Result<(), Violation> {
        let Some(former) = self.former.get(&copies.key) else { return Ok(()) };
        for node in copies.complete.difference(&former.complete) {
            // A node that takes over a position gets the records of its former holder, which therefore
            // counts, also if some members had ceased to read by its layout at the last check.
            let others = &former.all | &copies.complete;
            let others: Vec<&NodeId> = others.iter().filter(|other| *other != node).collect();
            let since_us = self.before_loss_us.get(&(copies.partition, *node));
            let since_us = since_us.or_else(|| self.before_layout_us.get(&copies.layout_version));
            let Some(since_us) = since_us else { continue };
            let found = self.found.get(&copies.key).map(|(_, found)| found);
            let had = |other: &NodeId| {
                found.and_then(|found| found.get(other)).is_some_and(|at| at <= since_us)
            };
            let is_known = |other: &NodeId| had(other) || copies.unread.contains(other);
            let all_others_had = others.iter().all(|other| is_known(other));
            let is_older = copies.end_us < *since_us && all_others_had;
            let is_older = is_older && others.iter().any(|other| had(other));
            let lacks = copies.has_value.get(node) == Some(&false) && !copies.unread.contains(node);
            if lacks && is_older {
                let text = format!(
                    "at {} ms, key {}: {node} counts as a complete copy without {}: {}",
                    now_us / 1_000,
                    copies.key.0,
                    copies.number,
                    snapshot.words(copies.key)
                );
                return Err(Violation::new(ViolationKind::Lost, text));
            }
        }
        Ok(())
    }

    /// Checks that a primary which had a value still has it.
    fn check_kept(
        &mut self,
        run_context: &RunContext,
        snapshot: &StoreSnapshot,
        copies: &ValueCopies,
        now_us: u64,
    ) -> Result<(), Violation> {
        let ValueCopies { key, number, has_value, complete, .. } = copies;
        let (of, holders) = self.holders.entry(*key).or_insert_with(|| (*number, BTreeMap::new()));
        if of != number {
            (*of, *holders) = (*number, BTreeMap::new());
        }
        holders.retain(|node, _| complete.contains(node));
        for (node, has) in has_value.iter().filter(|(node, _)| complete.contains(node)) {
            if *has {
                holders.entry(*node).or_insert(now_us);
                continue;
            }
            let Some(since_us) = holders.remove(node) else { continue };
            let hardships = &run_context.history.lock().hardships;
            let mut losses_us = hardships.power_losses_us.iter().chain(&hardships.files_lost_us);
            if losses_us.all(|at_us| *at_us < since_us) {
                let text = format!(
                    "at {} ms, key {}: {node}, a primary, no longer has {number}, which it had at {} ms: {}",
                    now_us / 1_000,
                    key.0,
                    since_us / 1_000,
                    snapshot.words(*key)
                );
                return Err(Violation::new(ViolationKind::Lost, text));
            }
        }
        Ok(())
    }
}

/// Returns the copies of all keys whose last value a majority has acknowledged and nothing has disturbed
/// since.
fn copies(run_context: &RunContext, snapshot: &StoreSnapshot, now_us: u64) -> Vec<ValueCopies> {
    let Some(newest) = snapshot.newest() else { return Vec::new() };
    let state = newest.control().read();
    let history = run_context.history.lock();
    let mut all = Vec::new();
    for (key, number, n_val) in settled_values_beside_rot(&history, now_us) {
        let name = RecordName::of(key, history.keys[key.0 as usize]);
        let partition = name.partition(state.ring_size());
        let layouts = snapshot.read_layouts(&state, &name);
        let lost = snapshot.lost(partition);
        let primaries: Vec<BTreeSet<NodeId>> = layouts
            .values()
            .map(|layout| name.primaries(layout, state.ring_size(), n_val))
            .collect();
        let mut all_primaries: BTreeSet<NodeId> = primaries.iter().flatten().copied().collect();
        all_primaries.retain(|node| !lost.contains(node));
        let Some(mut complete) = primaries.into_iter().reduce(|one, other| &one & &other) else {
            continue;
        };
        complete.retain(|node| !lost.contains(node));
        let has = |object: Option<&Object>| {
            let siblings = object.map_or(&[][..], |object| &object.siblings);
            siblings.iter().any(|sibling| found_in(sibling) == FoundValue::Value(number))
        };
        let nodes = snapshot.stores.iter().map(|(place, _)| Machine::node_id_at(*place));
        let known = nodes.filter_map(|node| Some((node, has(snapshot.copy(node, key)?))));
        all.push(ValueCopies {
            key,
            number,
            end_us: history.writes[number.0 as usize].end_us,
            has_value: known.collect(),
            layout_version: layouts.keys().next_back().copied().unwrap_or_default(),
            unread: snapshot.unread((partition, name.tag())),
            complete,
            all: all_primaries,
            partition,
        });
    }
    all
}
