//! Looks into the stores of all nodes in the middle of a run, at what the store itself relies on: majorities
//! know what was acknowledged, acknowledged values stay on enough disks, and no node stores what it has
//! reaped.
//!
//! Few runs come to harm where one of these promises is broken: several machines would have to lose their
//! power within moments, or a copy would have to come at the right time.

use crate::copies::TELLING_BYTES;
use crate::ground::Ground;
use crate::history::{Found, KeyNumber};
use crate::machine::Machine;
use crate::majorities::{check_majorities, settled_values};
use crate::names::{Name, primaries_of};
use crate::policy::Policy;
use crate::replica_counts::N_VAL_DEFAULT;
use crate::stores_now::StoresNow;
use crate::value::found_in;
use crate::violation::{Fault, Violation};
use memchr::memmem;
use quoit_cluster::NodeId;
use quoit_model::hash::Partition;
use std::ops::Range;
use std::sync::Arc;

/// Times between two looks, in simulated microseconds.
pub const LOOKS_US: Range<u64> = 100_000..600_000;
/// Of so many looks one is at the disks, too: it is dearer.
const LOOKS_AT_DISKS: u64 = 4;
/// Disks that an acknowledged write of a majority, synced by a majority, is on until it is replaced.
const DISKS_MIN: usize = 2;

/// Looks into the stores of all nodes that run, for the so many-th time; at the disks only where engines
/// write what they acknowledge to files in one piece.
///
/// # Errors
///
/// The first promise that is broken.
pub fn look(ground: &Ground, number: u64, with_disks: bool) -> Result<(), Violation> {
    // What can't be read now is no matter of these promises.
    let Some(stores) = StoresNow::at(ground) else { return Ok(()) };
    check_majorities(ground, &stores)?;
    check_layouts(ground, &stores)?;
    check_moved(ground, &stores)?;
    if with_disks && number.is_multiple_of(LOOKS_AT_DISKS) {
        check_disks(ground, &stores)?;
        check_reap_records(ground, &stores)?;
    }
    check_reaped(ground, &stores)
}

/// Checks that no member goes by layouts alone that the cluster has taken out of use: what it writes by them
/// is not where the others read. A node that came back with an older directory, or was given up as lost, is
/// kept from that by other means.
fn check_layouts(ground: &Ground, look: &StoresNow) -> Result<(), Violation> {
    let Some(newest) = look.newest() else { return Ok(()) };
    if !ground.history.lock().hardships.lost_unnoticed_us.is_empty() {
        return Ok(());
    }
    let newest = newest.control().read();
    let oldest_version = newest.layouts().oldest_version();
    for (place, store) in &look.stores {
        let state = store.control().read();
        let member = newest.members().get(Machine::node_id_at(*place));
        // A node that is to join goes by its own layout until it knows the cluster's.
        let has_joined = state.members().get(newest.node_id()).is_some();
        let counts = has_joined && member.is_some_and(|member| !member.is_down);
        let version = state.layouts().newest().version();
        if counts && version < oldest_version {
            let text = format!(
                "at {} ms, n{} goes by layout {version}, the oldest in use is {oldest_version}",
                ground.time.now_us() / 1_000,
                place + 1
            );
            return Err(Violation::new(Fault::Outdated, text));
        }
    }
    Ok(())
}

/// Checks that a partition has moved only when all nodes write to its new primaries: its sources have by then
/// what was written before. With a member that is marked as absent the others do not wait for it.
fn check_moved(ground: &Ground, look: &StoresNow) -> Result<(), Violation> {
    let Some(newest) = look.newest() else { return Ok(()) };
    let state = newest.control().read();
    let layouts = state.layouts();
    let [.., before, to] = layouts.live() else { return Ok(()) };
    let was_marked = !ground.history.lock().hardships.losses_us.is_empty();
    if was_marked || state.members().iter().any(|member| member.is_down) {
        return Ok(());
    }
    let serves = |node: &NodeId| layouts.acknowledged(*node) >= Some(to.version());
    let Some(late) = before.nodes().iter().chain(to.nodes()).find(|node| !serves(node)) else {
        return Ok(());
    };
    let primaries = |layout, partition| primaries_of(partition, layout, N_VAL_DEFAULT);
    let has_moved = |partition: &Partition| {
        layouts.moved(*partition)
            && !primaries(to, *partition).is_subset(&primaries(before, *partition))
    };
    match to.partitions().find(has_moved) {
        None => Ok(()),
        Some(Partition(partition)) => {
            let text = format!(
                "at {} ms, partition {partition} has moved by layout {}, which {late} does not write by",
                ground.time.now_us() / 1_000,
                to.version()
            );
            Err(Violation::new(Fault::Outdated, text))
        }
    }
}

/// Checks that the disks of as many machines have each value as have acknowledged it, whichever they are by
/// now.
fn check_disks(ground: &Ground, look: &StoresNow) -> Result<(), Violation> {
    let Some(newest) = look.newest() else { return Ok(()) };
    let (state, now_us) = (newest.control().read(), ground.time.now_us());
    let machines = ground.in_service();
    let history = ground.history.lock();
    for (key, number, n_val) in settled_values(&history, now_us) {
        let since_us = history.writes[number.0 as usize].start_us;
        let name = Name::of(key, history.keys[key.0 as usize]);
        let layouts = look.read_layouts(&state, &name);
        // A node that has several places of a partition counts for several copies.
        let is_spread = layouts
            .values()
            .all(|layout| name.primaries(layout, state.ring_size(), n_val).len() == n_val as usize);
        let is_lost = history.hardships.files_lost_us.iter().any(|at_us| *at_us >= since_us);
        let objects = look.contents.iter().filter_map(|contents| contents.objects.get(&key));
        let mut siblings = objects.flat_map(|object| &object.siblings);
        let sibling = siblings.find(|each| found_in(each) == Found::Value(number));
        let (true, false, Some(sibling)) = (is_spread, is_lost, sibling) else { continue };
        let telling = &sibling.value[..sibling.value.len().min(TELLING_BYTES)];
        let finder = memmem::Finder::new(telling);
        let has = |machine: &&Arc<Machine>| {
            machine.disks().data.has_durable(|bytes| finder.find(bytes).is_some())
        };
        let needed = DISKS_MIN.min(n_val as usize);
        let holders = machines.iter().filter(has).map(|machine| &machine.name);
        let holders: Vec<_> = holders.take(needed).collect();
        if holders.len() < needed {
            let text = format!(
                "at {} ms, key {}: a loss of power would leave {number} to {holders:?} only: {}",
                now_us / 1_000,
                key.0,
                look.words(key)
            );
            return Err(Violation::new(Fault::Unsynced, text));
        }
    }
    Ok(())
}

/// Checks that the reap records which a node goes by are on its disk: of what they say nothing else is left.
fn check_reap_records(ground: &Ground, look: &StoresNow) -> Result<(), Violation> {
    let keys = ground.history.lock().keys.clone();
    let machines = ground.in_service();
    for (place, store) in &look.stores {
        let Some(machine) = machines.iter().find(|machine| machine.index == *place) else {
            continue;
        };
        let ring_size = store.control().ring_size();
        for (key, policy) in (0..).map(KeyNumber).zip(&keys) {
            let name = Name::of(key, *policy);
            let encoded = name.key_ref().encoded();
            let finder = memmem::Finder::new(&encoded[..]);
            let is_there = |bytes: &[u8]| finder.find(bytes).is_some();
            let reaped = store.reaped_clock(&encoded, name.partition(ring_size));
            if matches!(reaped, Ok(Some(_))) && !machine.disks().reaped.has_durable(is_there) {
                let text = format!(
                    "at {} ms, key {}: a loss of power would take the reap record of n{}: {}",
                    ground.time.now_us() / 1_000,
                    key.0,
                    place + 1,
                    look.words(key)
                );
                return Err(Violation::new(Fault::Unsynced, text));
            }
        }
    }
    Ok(())
}

/// Checks that what a node stores under a name has seen the tombstone that it has reaped there.
fn check_reaped(ground: &Ground, look: &StoresNow) -> Result<(), Violation> {
    {
        let hardships = &ground.history.lock().hardships;
        if hardships.is_disk_damaged || !hardships.lost_unnoticed_us.is_empty() {
            return Ok(());
        }
    }
    for ((place, store), contents) in look.stores.iter().zip(&look.contents) {
        let ring_size = store.control().ring_size();
        for (key, object) in &contents.objects {
            let policy = ground.policy(*key);
            let name = Name::of(*key, policy);
            let partition = name.partition(ring_size);
            let reaped = store.reaped_clock(&name.key_ref().encoded(), partition);
            if let Ok(Some(clock)) = reaped
                && !object.clock.descends(&clock)
                // Times decide there, whatever has been seen.
                && policy != Policy::LastWriteWins
                && !look.lost(partition).contains(&Machine::node_id_at(*place))
            {
                let text = format!(
                    "at {} ms, key {}: n{} stores what it has reaped: {}",
                    ground.time.now_us() / 1_000,
                    key.0,
                    place + 1,
                    look.words(*key)
                );
                return Err(Violation::new(Fault::Resurrected, text));
            }
        }
    }
    Ok(())
}
