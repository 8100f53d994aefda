//! Checks during a run that every majority of a key's primaries knows what was acknowledged.
//!
//! A client finds the result of a broken promise only if it reads at the wrong moment, which is rare. So
//! the run reads all stores some times a second. By each layout that nodes read by, every majority
//! of the primaries has to include a copy of the acknowledged value. If some primary still has a replaced
//! value, every majority has to include a copy that replaces it.

use crate::contents::Contents;
use crate::copies::{is_undisturbed, is_undisturbed_beside_rot};
use crate::history::{FoundValue, History, KeyNumber, Outcome, Write, WriteKind, WriteNumber};
use crate::names::RecordName;
use crate::policy::Policy;
use crate::run_context::RunContext;
use crate::store_snapshot::StoreSnapshot;
use crate::value::found_in;
use crate::violation::{Violation, ViolationKind};
use quoit_cluster::NodeId;
use quoit_model::object::Object;
use quoit_model::props::Quorum;
use std::fmt;

/// A fact about a key that every majority of its primaries has to know.
enum MajorityFact {
    /// The value of a write is there.
    Value(WriteNumber),
    /// Values that were replaced or deleted.
    Replaced(Vec<WriteNumber>),
}

/// A primary's copy of a key.
#[derive(Clone, Copy)]
enum PrimaryCopy<'c> {
    /// The node is down. Its copy counts as the best possible one.
    Unknown,
    /// The copy is known to have lost records that it has not got back. It is part of no majority.
    Lost,
    /// The object that the node holds, if it holds one.
    Known(Option<&'c Object>),
}

/// Checks the copies of all keys in a snapshot of all stores.
///
/// # Errors
///
/// Some majority of the primaries would not show an acknowledged value, or would show a value that was
/// replaced or deleted.
pub fn check_majorities(
    run_context: &RunContext,
    snapshot: &StoreSnapshot,
) -> Result<(), Violation> {
    let Some(newest) = snapshot.newest() else { return Ok(()) };
    note_events(&mut run_context.history.lock(), &snapshot.contents);
    let state = newest.control().read();
    let now_us = run_context.time.now_us();
    let keys = run_context.history.lock().key_numbers();
    for key in keys {
        let settled = settled_now(&run_context.history.lock(), key, now_us, is_undisturbed);
        let name = RecordName::of(key, run_context.policy(key));
        if settled.is_empty() {
            continue;
        }
        let lost = snapshot.lost(name.partition(state.ring_size()));
        let layouts = snapshot.read_layouts(&state, &name);
        for ((settled, n_val), layout) in
            settled.iter().flat_map(|each| layouts.values().map(move |layout| (each, layout)))
        {
            let primaries = name.primaries(layout, state.ring_size(), *n_val);
            let copy = |id: &NodeId| match lost.contains(id) {
                true => PrimaryCopy::Lost,
                false => snapshot.copy(*id, key).map_or(PrimaryCopy::Unknown, PrimaryCopy::Known),
            };
            let copies: Vec<_> = primaries.iter().map(copy).collect();
            // A node at several positions of a preference list has several votes; such keys are not
            // checked.
            let is_spread = primaries.len() == *n_val as usize;
            let quorum = Quorum::Quorum.resolve(*n_val) as usize;
            if is_spread && !is_shown(settled, &copies, quorum) {
                let text = format!(
                    "at {} ms, key {}: {settled}, by layout {} of {primaries:?}: {}",
                    now_us / 1_000,
                    key.0,
                    layout.version(),
                    snapshot.words(key)
                );
                return Err(Violation::new(ViolationKind::Outvoted, text));
            }
        }
    }
    Ok(())
}

/// Returns the values that every majority has to show now, with the n_val of their buckets.
pub(crate) fn settled_values(history: &History, now_us: u64) -> Vec<(KeyNumber, WriteNumber, u32)> {
    values_by(history, now_us, is_undisturbed)
}

/// As [`settled_values`], where the disk of one machine may be rotten: every majority has the values except
/// for the copies that this machine can't read.
pub(crate) fn settled_values_beside_rot(
    history: &History,
    now_us: u64,
) -> Vec<(KeyNumber, WriteNumber, u32)> {
    values_by(history, now_us, is_undisturbed_beside_rot)
}

/// True if nothing can have removed the value of a write by a time.
type Undisturbed = fn(&History, WriteNumber, u64) -> bool;

fn values_by(
    history: &History,
    now_us: u64,
    undisturbed: Undisturbed,
) -> Vec<(KeyNumber, WriteNumber, u32)> {
    let values = history.key_numbers().flat_map(|key| {
        let settled = settled_now(history, key, now_us, undisturbed).into_iter();
        settled.filter_map(move |(settled, n_val)| match settled {
            MajorityFact::Value(number) => Some((key, number, n_val)),
            MajorityFact::Replaced(_) => None,
        })
    });
    values.collect()
}

impl fmt::Display for MajorityFact {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(number) => write!(formatter, "a majority may lack {number}"),
            Self::Replaced(values) => {
                write!(formatter, "a majority may show {values:?}, replaced long since")
            }
        }
    }
}

/// Records the events under which values are stored.
fn note_events(history: &mut History, contents: &[Contents]) {
    let objects = contents.iter().flat_map(|contents| contents.objects.values());
    for sibling in objects.flat_map(|object| &object.siblings) {
        history.note_event(sibling);
    }
}

/// True if each majority of `quorum` copies shows what it has to.
fn is_shown(settled: &MajorityFact, copies: &[PrimaryCopy<'_>], quorum: usize) -> bool {
    let has = |object: Option<&Object>, numbers: &[WriteNumber]| {
        let siblings = object.map_or(&[][..], |object| &object.siblings);
        let mut found = siblings.iter().map(found_in);
        found.any(|found| matches!(found, FoundValue::Value(number) if numbers.contains(&number)))
    };
    let count = |is_good: &dyn Fn(Option<&Object>) -> bool, of_unknown: bool| {
        let is_counted = |copy: &&PrimaryCopy<'_>| match copy {
            PrimaryCopy::Unknown => of_unknown,
            PrimaryCopy::Lost => false,
            PrimaryCopy::Known(object) => is_good(*object),
        };
        copies.iter().filter(is_counted).count()
    };
    let asked = copies.iter().filter(|copy| !matches!(copy, PrimaryCopy::Lost)).count();
    // If too few copies are left for a majority, no read is answered, and nothing is needed.
    let needed = (asked + 1).saturating_sub(quorum);
    match settled {
        MajorityFact::Value(number) => count(&|object| has(object, &[*number]), true) >= needed,
        MajorityFact::Replaced(values) => {
            let showing = count(&|object| has(object, values), false);
            let keeping_out = count(&|object| object.is_some() && !has(object, values), true);
            showing == 0 || keeping_out >= needed
        }
    }
}

/// Returns the facts about a key that every majority has to know, each with the n_val that has been in
/// force since the fact holds. Facts from before a change of n_val are left out.
fn settled_now(
    history: &History,
    key: KeyNumber,
    now_us: u64,
    undisturbed: Undisturbed,
) -> Vec<(MajorityFact, u32)> {
    let policy = history.keys[key.0 as usize];
    let counts = &history.replica_counts;
    let with_n_val = |(settled, since_us)| match counts.in_force(policy, now_us)[..] {
        [n_val] if !counts.changed_within(policy, since_us..=now_us) => Some((settled, n_val)),
        _ => None,
    };
    settled(history, key, now_us, undisturbed).into_iter().filter_map(with_n_val).collect()
}

/// Returns the facts about a key that every majority has to know, and the time since when each holds: its
/// last write, and each write that has replaced or deleted others.
fn settled(
    history: &History,
    key: KeyNumber,
    now_us: u64,
    undisturbed: Undisturbed,
) -> Vec<(MajorityFact, u64)> {
    let last = history.writes_of(key).last().map(|(number, _)| number);
    let mut settled = Vec::new();
    for (number, write) in history.writes_of(key) {
        let is_told = write.outcome == Outcome::Acknowledged && write.end_us <= now_us;
        let is_promised = is_told && write.is_strict && write.dw >= 2;
        if !is_promised || !is_whole_since(history, write.start_us) {
            continue;
        }
        let is_the_last = Some(number) == last && undisturbed(history, number, now_us);
        if is_the_last && write.kind == WriteKind::Put {
            settled.push((MajorityFact::Value(number), write.start_us));
        }
        let replaces = match history.keys[key.0 as usize] {
            Policy::Siblings | Policy::Latest | Policy::DefaultType => true,
            // The last write may have an earlier time than a value that its writer had seen.
            Policy::LastWriteWins => is_the_last,
            // A put replaces nothing there.
            Policy::WriteOnce => write.kind.is_delete(),
        };
        if replaces {
            settled.extend(replaced_by(history, key, write));
        }
    }
    settled
}

/// Returns the values that a write has replaced for good, and the time since when the first of them
/// existed.
fn replaced_by(history: &History, key: KeyNumber, write: &Write) -> Option<(MajorityFact, u64)> {
    let policy = history.keys[key.0 as usize];
    let hardships = &history.hardships;
    let is_decided_by_clocks = policy.shows_one() && hardships.are_clocks_wrong;
    // This check leaves out expiring values.
    if hardships.is_disk_damaged || is_decided_by_clocks || write.expires_us.is_some() {
        return None;
    }
    // A delete without a context does not name the values that it has deleted.
    if write.kind == WriteKind::DeleteUnseen {
        return None;
    }
    let of = |number: &WriteNumber| &history.writes[number.0 as usize];
    let seen = history.reads[write.context?.0 as usize].found.iter();
    let values: Vec<WriteNumber> = seen
        .filter_map(|found| if let FoundValue::Value(seen) = found { Some(*seen) } else { None })
        .filter(|seen| !of(seen).may_be_made_late() && !history.was_made_twice(*seen))
        .collect();
    let since_us = values.iter().map(|seen| of(seen).start_us).min()?;
    is_whole_since(history, since_us).then_some((MajorityFact::Replaced(values), since_us))
}

/// True if since that time no machine has been destroyed or has lost data without its node's notice.
pub(crate) fn is_whole_since(history: &History, start_us: u64) -> bool {
    let hardships = &history.hardships;
    let mut lost_us = hardships.losses_us.iter().chain(&hardships.unnoticed_losses_us);
    lost_us.all(|at_us| *at_us < start_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Read, ReadNumber, Reader};
    use crate::value::value_of;
    use quoit_model::clock::{Actor, Dot, VersionVector};
    use quoit_model::merge::{NewValue, WritePolicy};
    use quoit_model::object::Metadata;

    const KEY: KeyNumber = KeyNumber(0);

    /// An object with the value of a write, or with a tombstone for `None`.
    fn object(value: Option<u32>) -> Object {
        let new = NewValue {
            meta: Metadata::default(),
            value: value.map_or_else(Default::default, |number| value_of(WriteNumber(number), 10)),
            deleted: value.is_none(),
            last_modified_us: 1,
            vtag: Default::default(),
        };
        let dot = Dot { actor: Actor(b"actor"[..].into()), counter: 1, time_secs: 0 };
        Object::write(None, &VersionVector::default(), new, dot, WritePolicy::Siblings)
    }

    #[test]
    fn two_of_three_primaries_have_to_hold_a_value_where_two_are_asked() {
        let (written, other) = (object(Some(1)), object(Some(2)));
        let (has, lacks) = (PrimaryCopy::Known(Some(&written)), PrimaryCopy::Known(None));
        let settled = MajorityFact::Value(WriteNumber(1));
        let of = |copies: [PrimaryCopy<'_>; 3]| is_shown(&settled, &copies, 2);
        assert!(of([has, has, lacks]) && of([has, PrimaryCopy::Unknown, lacks]));
        assert!(!of([has, lacks, lacks]));
        assert!(!of([has, PrimaryCopy::Known(Some(&other)), lacks]));
    }

    #[test]
    fn a_copy_that_has_lost_records_is_in_no_majority() {
        let written = object(Some(1));
        let (has, lacks) = (PrimaryCopy::Known(Some(&written)), PrimaryCopy::Known(None));
        let settled = MajorityFact::Value(WriteNumber(1));
        let of = |copies: [PrimaryCopy<'_>; 3]| is_shown(&settled, &copies, 2);
        assert!(of([has, PrimaryCopy::Lost, lacks]), "the two that are left are asked both");
        assert!(!of([lacks, PrimaryCopy::Lost, lacks]));
        assert!(of([lacks, PrimaryCopy::Lost, PrimaryCopy::Lost]), "no read is answered");
    }

    #[test]
    fn a_deleted_value_is_nowhere_or_beside_enough_tombstones() {
        let (value, tombstone) = (object(Some(1)), object(None));
        let (shows, keeps_out) =
            (PrimaryCopy::Known(Some(&value)), PrimaryCopy::Known(Some(&tombstone)));
        let nothing = PrimaryCopy::Known(None);
        let settled = MajorityFact::Replaced(vec![WriteNumber(1)]);
        let of = |copies: [PrimaryCopy<'_>; 3]| is_shown(&settled, &copies, 2);
        assert!(of([nothing, nothing, nothing]) && of([shows, keeps_out, keeps_out]));
        assert!(of([shows, keeps_out, PrimaryCopy::Unknown]));
        assert!(!of([shows, nothing, nothing]), "it was reaped although one still had the value");
        assert!(!of([shows, shows, keeps_out]));
    }

    fn write(kind: WriteKind, start_us: u64, context: Option<ReadNumber>) -> Write {
        Write {
            key: KEY,
            cluster: 0,
            kind,
            context,
            start_us,
            end_us: start_us + 5,
            outcome: Outcome::Acknowledged,
            dw: 2,
            is_strict: true,
            expires_us: None,
        }
    }

    /// A history with a put at 10 µs, a read of it, and a delete of what was read at 100 µs.
    fn deleted() -> History {
        let mut history = History { keys: vec![Policy::Siblings], ..History::default() };
        history.writes.push(write(WriteKind::Put, 10, None));
        let found = vec![FoundValue::Value(WriteNumber(0))];
        let (reader, start_us, end_us) = (Reader::Strict, 50, 60);
        let read = history.add_read(Read { key: KEY, reader, start_us, end_us, found });
        history.writes.push(write(WriteKind::Delete, 100, Some(read)));
        history
    }

    #[test]
    fn the_last_change_counts_when_it_was_acknowledged_and_nothing_was_lost() {
        let what = |history: &History, now_us| {
            let settled = settled(history, KEY, now_us, is_undisturbed);
            settled.iter().map(|(settled, _)| settled.to_string()).collect::<Vec<_>>()
        };
        let none = Vec::<String>::new();
        let history = deleted();
        let told = what(&history, 200);
        assert!(told[0].contains("replaced") && told[0].contains("WriteNumber(0)"), "{told:?}");
        assert_eq!(what(&history, 102), none, "it is under way");
        let mut lossy = deleted();
        lossy.hardships.losses_us.push(20);
        assert_eq!(what(&lossy, 200), none, "a copy of the value may be gone with its machine");
        let mut late = deleted();
        late.writes[0].outcome = Outcome::Unknown;
        assert_eq!(what(&late, 200), none, "the put may be made again");
        let mut beside = deleted();
        beside.writes.push(write(WriteKind::Put, 101, None));
        assert_eq!(what(&beside, 200), told, "of writes beside each other none is the last one");
        let mut again = deleted();
        again.writes.push(write(WriteKind::Put, 150, None));
        assert_eq!(what(&again, 200).len(), 2, "a later value, and the deleted one as before");
    }
}
