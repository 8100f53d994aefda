//! Checks at each acknowledgement of a put that enough machines have its value.
//!
//! A broken promise seldom leads to a loss: several machines would have to lose their power within the
//! milliseconds before their next sync. So at the moment when a client learns that its put is done, the
//! run looks for the value in the bytes that a loss of power would leave on each disk.

use crate::contents::Contents;
use crate::history::{
    FoundValue, History, KeyNumber, ProcessNumber, ValueHolders, Write, WriteKind, WriteNumber,
};
use crate::machine::Machine;
use crate::names::RecordName;
use crate::requests::Quorums;
use crate::run_context::RunContext;
use crate::value::{found_in, value_of};
use crate::violation::{Violation, ViolationKind};
use memchr::memmem;
use quoit_cluster::NodeId;
use quoit_core::ReplicatedStore;
use quoit_model::hash::RingSize;
use quoit_model::layout::Layout;
use quoit_model::props::Quorum;
use quoit_seam::FaultyDisk;
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of first bytes of a value that distinguish it from all others.
pub(crate) const VALUE_PREFIX_BYTES: usize = 60;

/// Layouts that all running nodes know as live, by version.
pub struct KnownLayouts(BTreeMap<u64, Arc<Layout>>);

impl RunContext {
    /// Returns the layouts that all running nodes of a machine's cluster know as live; none while the
    /// machine's own node does not run. A node that has not joined yet is a cluster of its own.
    pub fn known_layouts(&self, machine: &Machine) -> KnownLayouts {
        let cluster_of = |store: &ReplicatedStore| store.control().read().cluster_id();
        let Some(cluster) = machine.store().map(|store| cluster_of(&store)) else {
            return KnownLayouts(BTreeMap::new());
        };
        let machines = self.in_service();
        let stores = machines.iter().filter_map(|machine| machine.store());
        let of_node = stores.filter(|store| cluster_of(store) == cluster).map(|store| {
            let state = store.control().read();
            let live = state.layouts().live().iter();
            live.map(|layout| (layout.version(), Arc::clone(layout))).collect::<BTreeMap<_, _>>()
        });
        let in_common = of_node.reduce(|mut one, other| {
            one.retain(|version, _| other.contains_key(version));
            one
        });
        KnownLayouts(in_common.unwrap_or_default())
    }

    /// Checks the clock of the node that has acknowledged a write, and the copies of a put. `before` has
    /// the live layouts at the start of the write.
    pub fn check_promises(
        &self,
        number: WriteNumber,
        machine: &Machine,
        (size_bytes, quorums): (usize, Quorums),
        before: &KnownLayouts,
        wrong_clocks_at_start: bool,
    ) {
        if wrong_clocks_at_start {
            self.check_clock(number, machine);
        }
        let kind = self.history.lock().writes[number.0 as usize].kind;
        if kind == WriteKind::Put {
            self.check_copies(number, machine, (size_bytes, quorums), before);
        }
    }

    /// Returns the nodes whose stores hold the value of a write.
    fn taken_in_memory(&self, number: WriteNumber, key: KeyNumber) -> BTreeSet<NodeId> {
        let has = |machine: &&Arc<Machine>| {
            let contents = machine.running_store().map(|store| Contents::of(&store));
            let object = contents.and_then(Result::ok)?.objects.remove(&key)?;
            let mut found = object.siblings.iter().map(found_in);
            found.any(|found| found == FoundValue::Value(number)).then_some(())
        };
        let machines = self.machines.iter().filter(|machine| has(machine).is_some());
        machines.map(|machine| Machine::node_id_at(machine.index)).collect()
    }

    /// Checks that a node which has just acknowledged a write has the right time: a node that starts with
    /// a wrong clock learns so from other members before it serves. If the node was killed right after
    /// its acknowledgement, the clock may already be that of its next start, so the check needs a running
    /// process.
    fn check_clock(&self, number: WriteNumber, machine: &Machine) {
        let skew_us = machine.clock.skew_us();
        if skew_us != 0 && machine.running_store().is_some() {
            let text = format!("{number} was acknowledged by {}, {skew_us} us ahead", machine.name);
            self.trace.note("run", &text);
            self.history.lock().broken_promises.push(Violation::new(ViolationKind::Unsynced, text));
        }
    }

    /// Checks that an acknowledged put is on as many disks of its primaries as it asked for, by each
    /// layout that was live from its beginning to its end.
    fn check_copies(
        &self,
        number: WriteNumber,
        machine: &Machine,
        (size_bytes, quorums): (usize, Quorums),
        before: &KnownLayouts,
    ) {
        let mut history = self.history.lock();
        let write = history.writes[number.0 as usize].clone();
        let policy = history.keys[write.key.0 as usize];
        let n_vals = history.replica_counts.in_force(policy, write.start_us);
        let is_steady =
            !history.replica_counts.changed_within(policy, write.start_us..=write.end_us);
        let is_whole = !history.hardships.has_lost_files_since(write.start_us);
        let (true, [n_val]) =
            (is_steady && is_whole && is_undisturbed(&history, number, write.end_us), &n_vals[..])
        else {
            return;
        };
        let name = RecordName::of(write.key, policy);
        let value = value_of(number, size_bytes);
        let value_prefix = memmem::Finder::new(&value[..value.len().min(VALUE_PREFIX_BYTES)]);
        let holders = |has_copy: &dyn Fn(&FaultyDisk) -> bool| {
            let machines = self.machines.iter().filter(|machine| self.has(machine));
            let holders = machines.filter(|machine| has_copy(&machine.disks().data));
            holders.map(|machine| Machine::node_id_at(machine.index)).collect::<BTreeSet<_>>()
        };
        let is_it = |bytes: &[u8]| value_prefix.find(bytes).is_some();
        let processes = self.processes_with(is_it);
        let told = value.slice(..value.len().min(VALUE_PREFIX_BYTES));
        history.holders.insert(write.key, ValueHolders { number, processes, value_prefix: told });
        let synced_at = holders(&|disk| disk.has_durable(is_it));
        let written_at = holders(&|disk| disk.has_written(is_it));
        let in_memory = LazyCell::new(|| self.taken_in_memory(number, write.key));
        let resolve = |quorum: Quorum| quorum.resolve(*n_val) as usize;
        let after = self.known_layouts(machine);
        let layouts = after.0.values().filter(|layout| before.0.contains_key(&layout.version()));
        let Some(ring_size) = self.ring_size() else { return };
        for layout in layouts {
            let primaries = name.primaries(layout, ring_size, *n_val);
            // A node at several positions of a preference list has several votes. So does a fallback that
            // is the only live node, if fallbacks count.
            let most = if primaries.len() == *n_val as usize { usize::MAX } else { 1 };
            let (synced, synced_wanted) = match write.is_strict {
                true => (&synced_at & &primaries, resolve(quorums.synced).min(most)),
                false => (synced_at.clone(), resolve(quorums.synced).min(1)),
            };
            let taken_wanted = match quorums.asks_primaries {
                true => resolve(quorums.copies).min(most),
                false => 0,
            };
            let mut taken = &written_at & &primaries;
            if taken.len() < taken_wanted {
                // An engine may accept a write before it writes it to a file.
                taken.extend(in_memory.intersection(&primaries));
            }
            if synced.len() < synced_wanted || taken.len() < taken_wanted {
                let text = format!(
                    "{number} was acknowledged at {} ms; {synced:?} have it synced ({synced_wanted} asked \
                     for), the primaries {taken:?} have it ({taken_wanted} asked for), by layout {}",
                    write.end_us / 1_000,
                    layout.version()
                );
                self.trace.note("run", &text);
                history.broken_promises.push(Violation::new(ViolationKind::Unsynced, text));
                return;
            }
        }
    }

    fn ring_size(&self) -> Option<RingSize> {
        let machines = self.in_service();
        machines.iter().find_map(|machine| Some(machine.store()?.control().ring_size()))
    }

    /// Processes of the machines on whose disks the bytes are written.
    fn processes_with(&self, is_it: impl Fn(&[u8]) -> bool + Copy) -> BTreeSet<ProcessNumber> {
        self.in_service()
            .into_iter()
            .filter(|machine| self.has(machine) && machine.disks().data.has_written(is_it))
            .map(|machine| (machine.index, machine.boot_count()))
            .collect()
    }
}

/// True if by a time nothing can have removed the value of an acknowledged write: no other write, expiry,
/// damage or wrong clock.
pub fn is_undisturbed(history: &History, number: WriteNumber, now_us: u64) -> bool {
    !history.hardships.is_disk_damaged && is_undisturbed_beside_rot(history, number, now_us)
}

/// As [`is_undisturbed`], where the disk of one machine may be rotten.
pub fn is_undisturbed_beside_rot(history: &History, number: WriteNumber, now_us: u64) -> bool {
    let write = &history.writes[number.0 as usize];
    let policy = history.keys[write.key.0 as usize];
    let hardships = &history.hardships;
    let is_gone = |at_us: &u64| *at_us >= write.start_us;
    let is_damaged = hardships.unnoticed_losses_us.iter().any(is_gone);
    let is_expired = write.expires_us.is_some_and(|expires_us| expires_us <= now_us);
    if is_damaged || is_expired || policy.shows_one() && hardships.are_clocks_wrong {
        return false;
    }
    let may_replace = |other: &Write| {
        let is_beside = other.start_us >= write.start_us || other.end_us >= write.start_us;
        let is_late = other.may_be_made_late();
        let knows_all = other.kind == WriteKind::DeleteUnseen || policy.shows_one();
        is_beside || is_late && knows_all
    };
    history.writes_of(write.key).all(|(other, of)| other == number || !may_replace(of))
}
