//! Checks of reap records.

use crate::history::KeyNumber;
use crate::machine::Machine;
use crate::names::RecordName;
use crate::policy::Policy;
use crate::run_context::RunContext;
use crate::store_snapshot::StoreSnapshot;
use crate::violation::{Violation, ViolationKind};
use memchr::memmem;
use quoit_cluster::{NodeId, State};
use quoit_core::ReplicatedStore;
use quoit_model::clock::VersionVector;
use quoit_model::hash::RingSize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Checks that each reap record which a node uses is on its disk: nothing else is left of the reaped
/// tombstone.
pub(super) fn check_on_disks(
    run_context: &RunContext,
    snapshot: &StoreSnapshot,
) -> Result<(), Violation> {
    let keys = run_context.history.lock().keys.clone();
    let machines = run_context.in_service();
    for (place, store) in &snapshot.stores {
        let Some(machine) = machines.iter().find(|machine| machine.index == *place) else {
            continue;
        };
        let ring_size = store.control().ring_size();
        for (key, policy) in (0..).map(KeyNumber).zip(&keys) {
            let name = RecordName::of(key, *policy);
            let encoded = name.key_ref().encoded();
            let finder = memmem::Finder::new(&encoded[..]);
            let is_there = |bytes: &[u8]| finder.find(bytes).is_some();
            let reaped = store.reaped_clock(&encoded, name.partition(ring_size));
            if matches!(reaped, Ok(Some(_))) && !machine.disks().reaped.has_durable(is_there) {
                let text = format!(
                    "at {} ms, key {}: a loss of power would take the reap record of n{}: {}",
                    run_context.time.now_us() / 1_000,
                    key.0,
                    place + 1,
                    snapshot.words(key)
                );
                return Err(Violation::new(ViolationKind::Unsynced, text));
            }
        }
    }
    Ok(())
}

/// Checks that each stored object has seen the tombstone that its node has reaped under the same name.
pub(super) fn check_stored(
    run_context: &RunContext,
    snapshot: &StoreSnapshot,
) -> Result<(), Violation> {
    {
        let hardships = &run_context.history.lock().hardships;
        if hardships.is_disk_damaged || !hardships.unnoticed_losses_us.is_empty() {
            return Ok(());
        }
    }
    for ((place, store), contents) in snapshot.stores.iter().zip(&snapshot.contents) {
        let ring_size = store.control().ring_size();
        for (key, object) in &contents.objects {
            let policy = run_context.policy(*key);
            let name = RecordName::of(*key, policy);
            let partition = name.partition(ring_size);
            let reaped = store.reaped_clock(&name.key_ref().encoded(), partition);
            if let Ok(Some(clock)) = reaped
                && !object.clock.descends(&clock)
                // There times decide, not causality.
                && policy != Policy::LastWriteWins
                && !snapshot.lost(partition).contains(&Machine::node_id_at(*place))
            {
                let text = format!(
                    "at {} ms, key {}: n{} stores what it has reaped: {}",
                    run_context.time.now_us() / 1_000,
                    key.0,
                    place + 1,
                    snapshot.words(*key)
                );
                return Err(Violation::new(ViolationKind::Resurrected, text));
            }
        }
    }
    Ok(())
}

/// Results of earlier checks at tombstones and reap records.
pub(super) struct ReapedTombstones {
    /// Time for which every node surely keeps a reap record, in microseconds.
    kept_us: u64,
    /// Time of the last check at which all nodes were up and no partition moved, in simulated microseconds.
    last_us: u64,
    /// Time at which the first reap record of each key was found.
    first_us: BTreeMap<KeyNumber, u64>,
    /// Clocks of the tombstones that some node has stored, each with a time before which it did not exist.
    stored: BTreeMap<KeyNumber, Vec<(VersionVector, u64)>>,
}

impl ReapedTombstones {
    pub(super) fn new(idle_timeout: Duration) -> Self {
        Self {
            kept_us: quoit_number::saturating_u64(idle_timeout.as_micros()),
            last_us: 0,
            first_us: BTreeMap::new(),
            stored: BTreeMap::new(),
        }
    }

    /// Checks that each primary has a reap record of a tombstone that is gone from all stores. A primary
    /// without one would accept a value that the tombstone has deleted.
    ///
    /// While some node still has the tombstone or a newer object, the primaries may still be agreeing on
    /// the reaping, and some may not know of it yet. Reap records retire no sooner than after `kept_us`.
    pub(super) fn check(
        &mut self,
        run_context: &RunContext,
        snapshot: &StoreSnapshot,
    ) -> Result<(), Violation> {
        let Some(newest) = snapshot.newest() else { return Ok(()) };
        let state = newest.control().read();
        let now_us = run_context.time.now_us();
        let history = run_context.history.lock();
        let hardships = &history.hardships;
        let no_promise_holds = hardships.is_disk_damaged
            || !hardships.files_lost_us.is_empty()
            || !hardships.losses_us.is_empty();
        if no_promise_holds
            || snapshot.stores.len() < run_context.in_service().len()
            || state.layouts().is_moving()
        {
            return Ok(());
        }
        if state.layouts().newest().nodes().len() < 3 {
            // One of two nodes may have been alone since the last check, and a node that is alone makes no
            // reap records.
            self.stored.clear();
        }
        let keys = (0..).map(KeyNumber).zip(&history.keys);
        // Where the last write wins, a write may replace a tombstone that it has not seen.
        for (key, policy) in keys.filter(|(_, policy)| **policy != Policy::LastWriteWins) {
            let name = RecordName::of(key, *policy);
            let clocks = clocks(snapshot, &name, state.ring_size());
            for (gone, first_us) in self.gone(snapshot, key, &clocks, now_us) {
                let has_lost_power =
                    hardships.power_losses_us.iter().any(|at_us| *at_us >= first_us);
                let &[n_val] = &history.replica_counts.in_force(*policy, now_us)[..] else {
                    continue;
                };
                let is_lowered = !history.replica_counts.only_raised(*policy, first_us..=now_us);
                if has_lost_power || is_lowered || now_us - first_us > self.kept_us {
                    continue;
                }
                let place = Placed { name: &name, state: &state, n_val };
                if let Some(primary) = without_record(snapshot, &place, &clocks, &gone) {
                    let text = format!(
                        "at {} ms, key {}: {primary}, a primary, has no reap record of the tombstone that \
                         is gone from all stores: {}",
                        now_us / 1_000,
                        key.0,
                        snapshot.words(key)
                    );
                    return Err(Violation::new(ViolationKind::Outvoted, text));
                }
            }
        }
        self.last_us = now_us;
        Ok(())
    }

    /// Returns the clocks of a key's tombstones that were stored or are reaped somewhere and that no
    /// stored object has seen, each with a time before which it had not been reaped.
    fn gone(
        &mut self,
        snapshot: &StoreSnapshot,
        key: KeyNumber,
        clocks: &[Option<VersionVector>],
        now_us: u64,
    ) -> Vec<(VersionVector, u64)> {
        let objects = || snapshot.contents.iter().filter_map(|contents| contents.objects.get(&key));
        let stored = self.stored.entry(key).or_default();
        for tombstone in objects().filter(|object| object.is_tombstone()) {
            if stored.iter().all(|(clock, _)| *clock != tombstone.clock) {
                stored.push((tombstone.clock.clone(), self.last_us));
            }
        }
        let mut gone = stored.clone();
        match clocks.iter().flatten().next() {
            None => _ = self.first_us.remove(&key),
            Some(reaped) => {
                let first_us = *self.first_us.entry(key).or_insert(now_us);
                gone.push((reaped.clone(), first_us));
            }
        }
        gone.retain(|(clock, _)| !objects().any(|object| object.clock.descends(clock)));
        gone
    }
}

/// A key with its place in the cluster.
struct Placed<'a> {
    name: &'a RecordName,
    state: &'a State,
    n_val: u32,
}

/// Returns the clocks of a key's reap records, in the order of the stores.
fn clocks(
    snapshot: &StoreSnapshot,
    name: &RecordName,
    ring_size: RingSize,
) -> Vec<Option<VersionVector>> {
    let (encoded, partition) = (name.key_ref().encoded(), name.partition(ring_size));
    let reaped = |store: &ReplicatedStore| store.reaped_clock(&encoded, partition).ok().flatten();
    snapshot.stores.iter().map(|(_, store)| reaped(store)).collect()
}

/// Returns a primary that runs and has no reap record which has seen a tombstone. Copies that have lost
/// records are left out.
fn without_record(
    snapshot: &StoreSnapshot,
    Placed { name, state, n_val }: &Placed<'_>,
    clocks: &[Option<VersionVector>],
    tombstone: &VersionVector,
) -> Option<NodeId> {
    let filled_n_val = state.filled_n_val(name.key_ref().bucket, *n_val);
    let lost = snapshot.lost(name.partition(state.ring_size()));
    let layouts = snapshot.read_layouts(state, name);
    let mut primaries = layouts
        .values()
        .flat_map(|layout| name.primaries(layout, state.ring_size(), filled_n_val))
        .filter(|primary| !lost.contains(primary));
    let place = |node: &NodeId| {
        snapshot.stores.iter().position(|(place, _)| Machine::node_id_at(*place) == *node)
    };
    primaries.find(|primary| {
        let clock = place(primary).and_then(|place| clocks.get(place));
        clock.is_some_and(|clock| !clock.as_ref().is_some_and(|clock| clock.descends(tombstone)))
    })
}
