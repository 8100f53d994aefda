//! Contents of majorities of primaries in the middle of a run, by each layout that reads go by.
//!
//! A client that reads at the wrong moment finds what a broken promise has left behind, and few moments are
//! wrong. So the stores are looked into some times a second: whichever majority a read would ask, it has to
//! meet a copy of what was acknowledged, or a tombstone of what was deleted.

use crate::check::{Fault, Violation};
use crate::client::Ground;
use crate::contents::Contents;
use crate::copies::is_undisturbed;
use crate::history::{Found, History, KeyNumber, Outcome, WriteKind, WriteNumber};
use crate::machine::Machine;
use crate::names::Name;
use crate::value::{Events, found_in, found_in_object};
use quoit_cluster::NodeId;
use quoit_core::ReplicatedStore;
use quoit_model::layout::Layout;
use quoit_model::object::Object;
use quoit_model::props::Quorum;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Times between two looks, in simulated microseconds.
pub const LOOKS_US: Range<u64> = 100_000..600_000;

/// The last change of a key that majorities have to know, as nothing may have disturbed it.
enum Settled {
    /// A value.
    Value(WriteNumber),
    /// Values that were deleted.
    Deleted(Vec<WriteNumber>),
}

/// Looks into the stores of all nodes that run.
///
/// # Errors
///
/// When a majority of the primaries could not show an acknowledged write, or would show a deleted value.
pub fn check_majorities(ground: &Ground) -> Result<(), Violation> {
    let machines = ground.in_service();
    let stores: Vec<_> =
        machines.iter().filter_map(|machine| Some((machine.index, machine.store()?))).collect();
    let Some(newest) = newest_state(&stores) else { return Ok(()) };
    // What can't be read now is no matter of majorities.
    let contents: Result<Vec<_>, _> = stores.iter().map(|(_, store)| Contents::of(store)).collect();
    let Ok(contents) = contents else { return Ok(()) };
    note_events(&mut ground.history.lock(), &contents);
    let ids = stores.iter().map(|(place, _)| Machine::node_id_at(*place));
    let held: BTreeMap<NodeId, &Contents> = ids.zip(&contents).collect();
    let ring_size = newest.control().ring_size();
    let state = newest.control().read();
    let now_us = ground.time.now_us();
    let key_count = ground.history.lock().keys.len() as u32;
    for key in (0..key_count).map(KeyNumber) {
        let (policy, n_vals, settled) = {
            let history = ground.history.lock();
            let policy = history.keys[key.0 as usize];
            let Some((settled, since_us)) = settled(&history, key, now_us) else { continue };
            if history.replica_counts.changed_within(policy, since_us, now_us) {
                continue;
            }
            (policy, history.replica_counts.in_force(policy, now_us), settled)
        };
        let &[n_val] = &n_vals[..] else { continue };
        let name = Name::of(key, policy);
        let partition = name.partition(ring_size);
        let mut layouts: BTreeMap<u64, Arc<Layout>> = BTreeMap::new();
        for (place, store) in &stores {
            let of_node = store.control().read();
            let layout = of_node.layouts().for_reads(partition);
            let is_member = state.members().get(Machine::node_id_at(*place)).is_some();
            if is_member && layout.version() >= state.layouts().oldest_version() {
                layouts.insert(layout.version(), Arc::clone(layout));
            }
        }
        for layout in layouts.values() {
            let primaries = name.primaries(layout, ring_size, n_val);
            if primaries.len() < n_val as usize {
                continue;
            }
            // Of a node that is down the best is assumed.
            let of_primaries =
                primaries.iter().map(|id| held.get(id).map(|held| held.objects.get(&key)));
            let of_primaries: Vec<Option<Option<&Object>>> = of_primaries.collect();
            let needed = n_val - Quorum::Quorum.resolve(n_val) + 1;
            if !is_shown(&settled, &of_primaries, needed as usize) {
                let what = match &settled {
                    Settled::Value(number) => format!("a majority may lack {number}"),
                    Settled::Deleted(values) => format!("a majority may show {values:?}, deleted"),
                };
                let text = format!(
                    "at {} ms, key {} ({policy:?}): {what}, by layout {} of {primaries:?}: {}",
                    now_us / 1_000,
                    key.0,
                    layout.version(),
                    held_words(&stores, &contents, key)
                );
                return Err(Violation::new(Fault::Outvoted, text));
            }
        }
    }
    Ok(())
}

/// Notes the events under which values are stored.
fn note_events(history: &mut History, contents: &[Contents]) {
    let objects = contents.iter().flat_map(|contents| contents.objects.values());
    for sibling in objects.flat_map(|object| &object.siblings) {
        history.note_event(sibling);
    }
}

/// The store of the node that knows the newest layouts.
fn newest_state(stores: &[(usize, Arc<ReplicatedStore>)]) -> Option<&Arc<ReplicatedStore>> {
    let version = |store: &&Arc<ReplicatedStore>| {
        let state = store.control().read();
        (state.layouts().newest().version(), state.layouts().oldest_version())
    };
    stores.iter().map(|(_, store)| store).max_by_key(version)
}

/// Describes the copies of a key on the nodes that run.
fn held_words(
    stores: &[(usize, Arc<ReplicatedStore>)],
    contents: &[Contents],
    key: KeyNumber,
) -> String {
    let words = stores.iter().zip(contents).map(|((place, _), contents)| {
        let found = found_in_object(contents.objects.get(&key), Events::CountEach);
        format!("n{} holds {found:?}", place + 1)
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Whether each majority shows what it has to.
fn is_shown(settled: &Settled, primaries: &[Option<Option<&Object>>], needed: usize) -> bool {
    let has = |object: Option<&Object>, numbers: &[WriteNumber]| {
        let siblings = object.map_or(&[][..], |object| &object.siblings);
        siblings.iter().any(|sibling| match found_in(sibling) {
            Found::Value(number) => numbers.contains(&number),
            _ => false,
        })
    };
    match settled {
        Settled::Value(number) => {
            let holders = primaries.iter().filter(|primary| {
                primary.is_none_or(|object| has(object, std::slice::from_ref(number)))
            });
            holders.count() >= needed
        }
        Settled::Deleted(values) => {
            let shows = |primary: &&Option<Option<&Object>>| {
                primary.is_some_and(|object| has(object, values))
            };
            let keeps_out = |primary: &&Option<Option<&Object>>| {
                primary.is_none_or(|object| object.is_some() && !has(object, values))
            };
            primaries.iter().filter(shows).count() == 0
                || primaries.iter().filter(keeps_out).count() >= needed
        }
    }
}

/// The last change of a key and its start, if it was acknowledged by majorities and nothing may have
/// disturbed it since.
fn settled(history: &History, key: KeyNumber, now_us: u64) -> Option<(Settled, u64)> {
    let (number, write) = history.writes_of(key).last()?;
    let is_promised = write.is_strict && write.outcome == Outcome::Acknowledged && write.dw >= 2;
    let is_lost = |at_us: &u64| *at_us >= write.start_us;
    let hardships = &history.hardships;
    if !is_promised
        || write.end_us > now_us
        || hardships.losses_us.iter().any(is_lost)
        || !is_undisturbed(history, number, now_us)
    {
        return None;
    }
    match write.kind {
        WriteKind::Put => Some((Settled::Value(number), write.start_us)),
        WriteKind::DeleteUnseen => None,
        WriteKind::Delete => {
            let context = &history.reads[write.context?.0 as usize];
            let is_made_once = |number: &WriteNumber| {
                let of = &history.writes[number.0 as usize];
                !of.may_be_made_late() && !history.is_made_twice(*number)
            };
            let values: Vec<WriteNumber> = context
                .found
                .iter()
                .filter_map(|found| match found {
                    Found::Value(number) if is_made_once(number) => Some(*number),
                    _ => None,
                })
                .collect();
            let start_us =
                values.iter().map(|number| history.writes[number.0 as usize].start_us).min()?;
            let is_lost = hardships.losses_us.iter().any(|at_us| *at_us >= start_us)
                || hardships.files_lost_us.iter().any(|at_us| *at_us >= start_us);
            (!is_lost).then_some((Settled::Deleted(values), start_us))
        }
    }
}
