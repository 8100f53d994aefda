//! Checks of the values that leave a node: a node removes the value of an acknowledged put only when all
//! primaries have it on their disks.

use crate::copies::{VALUE_PREFIX_BYTES, is_undisturbed};
use crate::history::{
    FoundValue, History, KeyNumber, Outcome, ProcessNumber, ValueHolders, WriteKind, WriteNumber,
};
use crate::majorities::is_whole_since;
use crate::names::RecordName;
use crate::run_context::RunContext;
use crate::store_snapshot::StoreSnapshot;
use crate::value::found_in;
use crate::violation::{Violation, ViolationKind};
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};

/// Results of earlier checks at the nodes that hold values.
#[derive(Default)]
pub(super) struct HeldValues(BTreeMap<KeyNumber, ValueHolders>);

impl HeldValues {
    /// Checks the keys whose last write was an acknowledged put, whatever its quorums: if a process that had
    /// the value has it no longer, as many disks have it as the bucket has replicas.
    pub(super) fn check(
        &mut self,
        run_context: &RunContext,
        snapshot: &StoreSnapshot,
    ) -> Result<(), Violation> {
        let Some(newest) = snapshot.newest() else { return Ok(()) };
        let (state, now_us) = (newest.control().read(), run_context.time.now_us());
        let machines = run_context.in_service();
        let mut history = run_context.history.lock();
        let mut held = std::mem::take(&mut history.holders);
        for (key, number, n_val) in acknowledged_values(&history, now_us) {
            let name = RecordName::of(key, history.keys[key.0 as usize]);
            let has = processes_with(run_context, snapshot, key, number);
            let of_this = |holders: &ValueHolders| holders.number == number;
            let mut former = self.0.remove(&key).filter(of_this);
            if let Some(told) = held.remove(&key).filter(of_this) {
                match &mut former {
                    Some(former) => former.processes.extend(told.processes),
                    None => former = Some(told),
                }
            }
            let Some(mut holders) = former.or_else(|| found_value(snapshot, key, number)) else {
                continue;
            };
            let running = snapshot.stores.iter().map(|(place, _)| process(run_context, *place));
            let running: BTreeSet<ProcessNumber> = running.collect();
            let left = holders
                .processes
                .iter()
                .find(|process| running.contains(process) && !has.contains(process));
            let layouts = snapshot.read_layouts(&state, &name);
            let is_spread = layouts.values().all(|layout| {
                name.primaries(layout, state.ring_size(), n_val).len() == n_val as usize
            });
            if let (Some((place, _)), true) = (left, is_spread) {
                let finder = memmem::Finder::new(&holders.value_prefix);
                let is_there = |bytes: &[u8]| finder.find(bytes).is_some();
                let on_disk = machines.iter().filter(|machine| {
                    let lacks = running.iter().any(|(of, _)| *of == machine.index)
                        && !has.iter().any(|(of, _)| *of == machine.index);
                    !lacks && machine.disks().data.has_durable(is_there)
                });
                let on_disk: Vec<_> = on_disk.map(|machine| &machine.name).collect();
                if on_disk.len() < n_val as usize {
                    let text = format!(
                        "at {} ms, key {}: n{} no longer has {number}, which only the disks of {on_disk:?} \
                         have: {}",
                        now_us / 1_000,
                        key.0,
                        place + 1,
                        snapshot.words(key)
                    );
                    return Err(Violation::new(ViolationKind::Unsynced, text));
                }
            }
            holders.processes = has;
            self.0.insert(key, holders);
        }
        Ok(())
    }
}

/// Returns the puts that were acknowledged and are the last write of their key, with the n_val of their
/// buckets. Left out are those that a fault may have taken from a disk.
fn acknowledged_values(history: &History, now_us: u64) -> Vec<(KeyNumber, WriteNumber, u32)> {
    let last = |key: KeyNumber| {
        let (number, write) = history.writes_of(key).last()?;
        let counts = &history.replica_counts;
        let policy = history.keys[key.0 as usize];
        let &[n_val] = &counts.in_force(policy, now_us)[..] else { return None };
        let hardships = &history.hardships;
        let mut lost_us = hardships.power_losses_us.iter().chain(&hardships.files_lost_us);
        let counts = write.kind == WriteKind::Put
            && write.outcome == Outcome::Acknowledged
            && write.end_us <= now_us
            && !counts.changed_within(policy, write.start_us..=now_us)
            && lost_us.all(|at_us| *at_us < write.start_us)
            && is_whole_since(history, write.start_us)
            && is_undisturbed(history, number, now_us);
        counts.then_some((key, number, n_val))
    };
    history.key_numbers().filter_map(last).collect()
}

fn process(run_context: &RunContext, place: usize) -> ProcessNumber {
    (place, run_context.machines[place].boot_count())
}

/// Returns the running processes that have the value of a write.
fn processes_with(
    run_context: &RunContext,
    snapshot: &StoreSnapshot,
    key: KeyNumber,
    number: WriteNumber,
) -> BTreeSet<ProcessNumber> {
    let all = snapshot.stores.iter().zip(&snapshot.contents);
    let with = all.filter(|(_, contents)| {
        let siblings = contents.objects.get(&key).map_or(&[][..], |object| &object.siblings);
        siblings.iter().any(|sibling| found_in(sibling) == FoundValue::Value(number))
    });
    with.map(|((place, _), _)| process(run_context, *place)).collect()
}

/// Returns the value of a write as some node has it, with no holders.
fn found_value(
    snapshot: &StoreSnapshot,
    key: KeyNumber,
    number: WriteNumber,
) -> Option<ValueHolders> {
    let objects = snapshot.contents.iter().filter_map(|contents| contents.objects.get(&key));
    let mut siblings = objects.flat_map(|object| &object.siblings);
    let sibling = siblings.find(|each| found_in(each) == FoundValue::Value(number))?;
    let value_prefix = sibling.value.slice(..sibling.value.len().min(VALUE_PREFIX_BYTES));
    Some(ValueHolders { number, processes: BTreeSet::new(), value_prefix })
}
