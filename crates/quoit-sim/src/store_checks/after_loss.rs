//! Checks of copies that are complete again after their node has lost records. Such a copy is as good as the
//! whole copies from which it was completed. Of the records from before the loss, it has no value that none
//! of them has, and it has each of their tombstones or its reap record (`quoit-core/losses`).

use crate::history::{FoundValue, History, KeyNumber};
use crate::machine::Machine;
use crate::names::RecordName;
use crate::run_context::RunContext;
use crate::store_snapshot::StoreSnapshot;
use crate::value::found_in;
use crate::violation::{Violation, ViolationKind};
use quoit_cluster::NodeId;
use quoit_model::clock::VersionVector;
use quoit_model::hash::Partition;
use quoit_model::object::Object;
use std::collections::{BTreeMap, BTreeSet};

/// A copy that is known to have lost records.
struct LostCopy {
    /// Time of the last check before the loss was known.
    before_us: u64,
    /// Clocks of tombstones that all other primaries had when the loss was found.
    tombstones: BTreeMap<KeyNumber, VersionVector>,
}

/// Results of earlier checks at copies that have lost records.
#[derive(Default)]
pub(super) struct LostCopies {
    /// Time of the last check, in simulated microseconds.
    last_us: u64,
    known: BTreeMap<(Partition, NodeId), LostCopy>,
}

/// A key whose primaries are known and all run.
struct Copies<'l> {
    key: KeyNumber,
    partition: Partition,
    /// Objects of the primaries.
    objects: BTreeMap<NodeId, Option<&'l Object>>,
}

impl Copies<'_> {
    fn others(&self, node: NodeId) -> impl Iterator<Item = Option<&Object>> {
        self.objects.iter().filter(move |(other, _)| **other != node).map(|(_, object)| *object)
    }

    /// Clock of the tombstone that all primaries but this one hold, if they do.
    fn tombstone_of_others(&self, node: NodeId) -> Option<&VersionVector> {
        let mut others = self.others(node);
        let first = others.next()??;
        let is_same = |other: Option<&Object>| other.is_some_and(|one| one.clock == first.clock);
        (first.is_tombstone() && others.all(is_same)).then_some(&first.clock)
    }

    /// True if this node alone has an object, and it has a value that was written before a time.
    fn has_alone(&self, node: NodeId, history: &History, before_us: u64) -> bool {
        let Some(Some(own)) = self.objects.get(&node) else { return false };
        let is_former = |found| match found {
            FoundValue::Value(number) => {
                let write = &history.writes[number.0 as usize];
                write.end_us < before_us && !write.may_be_made_late()
            }
            FoundValue::Tombstone(..) | FoundValue::Foreign(_) => false,
        };
        self.objects.len() > 1
            && self.others(node).all(|other| other.is_none())
            && own.siblings.iter().map(found_in).any(is_former)
    }
}

impl LostCopies {
    /// Checks each copy that has become complete since the last check. Where another disk has lost data
    /// without its node's notice, nothing is checked.
    pub(super) fn check(
        &mut self,
        run_context: &RunContext,
        snapshot: &StoreSnapshot,
    ) -> Result<(), Violation> {
        let (now_us, history) = (run_context.time.now_us(), run_context.history.lock());
        let hardships = &history.hardships;
        let is_unknown = hardships.is_disk_damaged || !hardships.unnoticed_losses_us.is_empty();
        if is_unknown || hardships.files_lost_us.is_empty() {
            self.last_us = now_us;
            return Ok(());
        }
        let all = copies(&history, snapshot, now_us);
        let mut lost: BTreeSet<(Partition, NodeId)> = BTreeSet::new();
        for partition in all.iter().map(|copies| copies.partition).collect::<BTreeSet<_>>() {
            let nodes = snapshot.lost(partition).into_iter();
            lost.extend(nodes.map(|node| (partition, node)));
        }
        for (at @ (partition, node), known) in &self.known {
            let is_alone = lost.iter().all(|(other, _)| other != partition);
            if lost.contains(at) || !is_alone {
                continue;
            }
            for copies in all.iter().filter(|copies| copies.partition == *partition) {
                check_complete(snapshot, &history, copies, (*node, known), now_us)?;
            }
        }
        let partitions: BTreeSet<_> = all.iter().map(|copies| copies.partition).collect();
        self.known.retain(|at, _| lost.contains(at) || !partitions.contains(&at.0));
        for at in lost {
            let of = all.iter().filter(|copies| copies.partition == at.0);
            let tombstones =
                of.filter_map(|each| Some((each.key, each.tombstone_of_others(at.1)?.clone())));
            let new = || LostCopy { before_us: self.last_us, tombstones: tombstones.collect() };
            self.known.entry(at).or_insert_with(new);
        }
        self.last_us = now_us;
        Ok(())
    }
}

/// Checks a node's copy of a key that has become complete again.
fn check_complete(
    snapshot: &StoreSnapshot,
    history: &History,
    copies: &Copies<'_>,
    (node, known): (NodeId, &LostCopy),
    now_us: u64,
) -> Result<(), Violation> {
    let wrong = |fault, what: &str| {
        let text = format!(
            "at {} ms, key {}: {node} has lost records and counts as complete again, but {what}: {}",
            now_us / 1_000,
            copies.key.0,
            snapshot.words(copies.key)
        );
        Err(Violation::new(fault, text))
    };
    if copies.has_alone(node, history, known.before_us) {
        return wrong(ViolationKind::Resurrected, "it alone has a value of before");
    }
    let was_there = known.tombstones.get(&copies.key);
    let is_there = was_there.is_some() && copies.tombstone_of_others(node) == was_there;
    let lacks_object = copies.objects.get(&node) == Some(&None);
    if is_there && lacks_object && !has_reap_record(snapshot, history, node, copies) {
        return wrong(ViolationKind::Lost, "it lacks the tombstone of the others");
    }
    Ok(())
}

/// True if a node has a reap record of a key.
fn has_reap_record(
    snapshot: &StoreSnapshot,
    history: &History,
    node: NodeId,
    copies: &Copies<'_>,
) -> bool {
    let of_node = |(place, _): &&(usize, _)| Machine::node_id_at(*place) == node;
    let Some((_, store)) = snapshot.stores.iter().find(of_node) else { return true };
    let name = RecordName::of(copies.key, history.keys[copies.key.0 as usize]);
    let reaped = store.reaped_clock(&name.key_ref().encoded(), copies.partition);
    !matches!(reaped, Ok(None))
}

/// Returns the copies of all keys whose primaries are the same by all layouts, and run.
fn copies<'l>(history: &History, snapshot: &'l StoreSnapshot, now_us: u64) -> Vec<Copies<'l>> {
    let Some(newest) = snapshot.newest() else { return Vec::new() };
    let state = newest.control().read();
    let keys = (0..).map(KeyNumber).zip(&history.keys);
    let copies = keys.filter_map(|(key, policy)| {
        let &[n_val] = &history.replica_counts.in_force(*policy, now_us)[..] else { return None };
        let name = RecordName::of(key, *policy);
        let partition = name.partition(state.ring_size());
        let layouts = snapshot.read_layouts(&state, &name);
        let mut primaries =
            layouts.values().map(|layout| name.primaries(layout, state.ring_size(), n_val));
        let first = primaries.next()?;
        if primaries.any(|other| other != first) {
            return None;
        }
        let objects = first.into_iter().map(|node| Some((node, snapshot.copy(node, key)?)));
        Some(Copies { key, partition, objects: objects.collect::<Option<_>>()? })
    });
    copies.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Outcome, Write, WriteKind, WriteNumber};
    use crate::value::value_of;
    use quoit_model::clock::Dot;
    use quoit_model::merge::{NewValue, WritePolicy};
    use quoit_model::object::Metadata;

    const NODES: [NodeId; 3] = [NodeId([1; 16]), NodeId([2; 16]), NodeId([3; 16])];

    /// An object with the value of the first write, or with a tombstone.
    fn object(deleted: bool) -> Object {
        let new = NewValue {
            meta: Metadata::default(),
            value: if deleted { Default::default() } else { value_of(WriteNumber(0), 10) },
            deleted,
            last_modified_us: 1,
            vtag: Default::default(),
        };
        let actor = quoit_model::clock::Actor(b"actor"[..].into());
        let dot = Dot { actor, counter: 1, time_secs: 0 };
        Object::write(None, &VersionVector::default(), new, dot, WritePolicy::Siblings)
    }

    fn copies(objects: [Option<&Object>; 3]) -> Copies<'_> {
        let objects = NODES.into_iter().zip(objects).collect();
        Copies { key: KeyNumber(0), partition: Partition(0), objects }
    }

    #[test]
    fn a_former_value_that_no_other_copy_has_came_back() {
        let write = Write {
            key: KeyNumber(0),
            cluster: 0,
            kind: WriteKind::Put,
            context: None,
            start_us: 10,
            end_us: 20,
            outcome: Outcome::Acknowledged,
            dw: 0,
            is_strict: false,
            expires_us: None,
        };
        let history = History { writes: vec![write], ..History::default() };
        let (value, tombstone) = (object(false), object(true));
        let alone = copies([Some(&value), None, None]);
        assert!(alone.has_alone(NODES[0], &history, 30));
        assert!(
            !alone.has_alone(NODES[0], &history, 15),
            "it may have been written after the loss"
        );
        assert!(!copies([Some(&value), Some(&value), None]).has_alone(NODES[0], &history, 30));
        assert!(!copies([Some(&tombstone), None, None]).has_alone(NODES[0], &history, 30));
    }

    #[test]
    fn a_tombstone_counts_if_all_others_have_it() {
        let tombstone = object(true);
        let held = Some(&tombstone);
        let is_found = |objects| copies(objects).tombstone_of_others(NODES[0]).is_some();
        assert!(is_found([None, held, held]));
        assert!(!is_found([held, held, None]) && !is_found([held, None, None]));
        let value = object(false);
        assert!(!is_found([None, Some(&value), Some(&value)]));
    }
}
