//! Checks of the retirement of reap records, by the rules of `docs/design/reaping.md`: after it, every
//! remaining copy of what the tombstone has deleted is in an object that includes the tombstone's clock. And
//! all members have answered two rounds of reports from the same process.

use crate::history::KeyNumber;
use crate::machine::Machine;
use crate::names::RecordName;
use crate::policy::Policy;
use crate::run_context::RunContext;
use crate::store_snapshot::StoreSnapshot;
use crate::violation::{Violation, ViolationKind};
use quoit_core::ReplicatedStore;
use quoit_model::clock::VersionVector;
use quoit_model::object::Object;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Interval between two rounds of reports, as a multiple of the idle timeout of connections.
const ROUNDS_OF_IDLE_TIMEOUTS: u64 = 4;
/// Maximum time that members have for their answers in a round, in microseconds.
const ANSWERS_US: u64 = 10_000_000;

/// A reap record that a process had at the last check.
struct KnownRecord {
    /// Number of the process.
    boot: u64,
    /// Clock of the reaped tombstone.
    clock: VersionVector,
}

/// The process of a machine.
struct Process {
    /// Its number.
    boot: u64,
    /// Times of two checks: it began after the first one, and before the second one.
    began_us: Range<u64>,
}

/// Results of earlier checks at reap records.
pub(super) struct RetiredRecords {
    rounds_apart_us: u64,
    /// Time of the last check, in simulated microseconds.
    last_us: u64,
    /// Reap records by machine and key.
    known: BTreeMap<(usize, KeyNumber), KnownRecord>,
    /// Processes by machine.
    processes: BTreeMap<usize, Process>,
}

impl RetiredRecords {
    pub(super) fn new(idle_timeout: Duration) -> Self {
        Self {
            rounds_apart_us: ROUNDS_OF_IDLE_TIMEOUTS
                * quoit_number::saturating_u64(idle_timeout.as_micros()),
            last_us: 0,
            known: BTreeMap::new(),
            processes: BTreeMap::new(),
        }
    }

    /// Checks all reap records that have retired since the last check. A machine that has lost data may have
    /// a deleted value again, so then nothing is checked.
    pub(super) fn check(
        &mut self,
        run_context: &RunContext,
        snapshot: &StoreSnapshot,
    ) -> Result<(), Violation> {
        let (now_us, keys) = {
            let history = run_context.history.lock();
            let hardships = &history.hardships;
            if hardships.is_disk_damaged || !hardships.files_lost_us.is_empty() {
                return Ok(());
            }
            (run_context.time.now_us(), history.keys.clone())
        };
        for machine in run_context.in_service() {
            let boot = machine.boot_count();
            if self.processes.get(&machine.index).is_none_or(|process| process.boot != boot) {
                let began_us = self.last_us..now_us;
                self.processes.insert(machine.index, Process { boot, began_us });
            }
        }
        let mut known = BTreeMap::new();
        for (place, store) in &snapshot.stores {
            let boot = self.processes.get(place).map_or(0, |process| process.boot);
            for (key, policy) in (0..).map(KeyNumber).zip(&keys) {
                let name = RecordName::of(key, *policy);
                let partition = name.partition(store.control().ring_size());
                let reaped = store.reaped_clock(&name.key_ref().encoded(), partition);
                let before = self.known.get(&(*place, key)).filter(|before| before.boot == boot);
                match (reaped, before) {
                    (Ok(Some(clock)), _) => {
                        known.insert((*place, key), KnownRecord { boot, clock });
                    }
                    (Ok(None), Some(before)) => {
                        self.check_retired(snapshot, store, (key, *policy), &before.clock, now_us)?;
                    }
                    (Ok(None), None) | (Err(_), _) => {}
                }
            }
        }
        self.known = known;
        self.last_us = now_us;
        Ok(())
    }

    /// Checks a reap record that has retired on a node since the last check.
    fn check_retired(
        &self,
        snapshot: &StoreSnapshot,
        store: &ReplicatedStore,
        (key, policy): (KeyNumber, Policy),
        clock: &VersionVector,
        now_us: u64,
    ) -> Result<(), Violation> {
        let state = store.control().read();
        let is_member = |place: usize| state.members().get(Machine::node_id_at(place)).is_some();
        let told = |what: String| {
            let text = format!(
                "at {} ms, key {}: the reap record of {} has retired, but {what}: {}",
                now_us / 1_000,
                key.0,
                state.node_id(),
                snapshot.words(key)
            );
            Err(Violation::new(ViolationKind::Resurrected, text))
        };
        for ((place, _), contents) in snapshot.stores.iter().zip(&snapshot.contents) {
            let object = contents.objects.get(&key).filter(|_| is_member(*place));
            // There times decide, not causality.
            if policy != Policy::LastWriteWins && object.is_some_and(|one| is_stale(one, clock)) {
                return told(format!("n{} still has what it has deleted", place + 1));
            }
        }
        for (place, Process { began_us, .. }) in &self.processes {
            if is_member(*place) && self.is_between_rounds(began_us, now_us) {
                return told(format!("n{} was started between the two rounds", place + 1));
            }
        }
        Ok(())
    }

    /// True if a process that began within `began_us` was not there in the first of the two rounds of
    /// reports after which a reap record has retired, between the last check and `now_us`, and was there in
    /// the second one.
    fn is_between_rounds(&self, began_us: &Range<u64>, now_us: u64) -> bool {
        let first_ended_us = now_us.saturating_sub(self.rounds_apart_us) + ANSWERS_US;
        let second_began_us = self.last_us.saturating_sub(ANSWERS_US);
        now_us > self.rounds_apart_us
            && began_us.start > first_ended_us
            && began_us.end < second_began_us
    }
}

/// True if an object shows a value that a tombstone with that clock has deleted.
fn is_stale(object: &Object, clock: &VersionVector) -> bool {
    let is_deleted = |dot| clock.contains(dot);
    let mut live = object.siblings.iter().filter(|sibling| !sibling.deleted);
    !object.clock.descends(clock) && live.any(|one| one.dot.as_ref().is_some_and(is_deleted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::WriteNumber;
    use crate::value::value_of;
    use quoit_model::clock::{Actor, Dot};
    use quoit_model::merge::{NewValue, WritePolicy};
    use quoit_model::object::Metadata;

    /// An object with a value that was written after `seen`, as the event of an actor with that counter.
    fn written(seen: Option<&Object>, counter: u64) -> Object {
        let new = NewValue {
            meta: Metadata::default(),
            value: value_of(WriteNumber(1), 10),
            deleted: false,
            last_modified_us: 1,
            vtag: Default::default(),
        };
        let dot = Dot { actor: Actor(b"actor"[..].into()), counter, time_secs: 0 };
        let context = seen.map(|object| object.clock.clone()).unwrap_or_default();
        Object::write(seen, &context, new, dot, WritePolicy::Siblings)
    }

    #[test]
    fn a_deleted_value_is_stale_unless_its_object_has_seen_the_tombstone() {
        let deleted = written(None, 1);
        let tombstone = written(Some(&deleted), 2).clock;
        assert!(is_stale(&deleted, &tombstone));
        let mut beside = deleted.clone();
        beside.clock = tombstone.clone();
        assert!(!is_stale(&beside, &tombstone));
        assert!(!is_stale(&written(None, 3), &tombstone), "the tombstone has not seen it");
    }

    #[test]
    fn a_process_that_began_between_two_rounds_was_asked_in_the_second_one_only() {
        let mut retired = RetiredRecords::new(Duration::from_secs(10));
        retired.last_us = 99_000_000;
        let is_between = |began: Range<u64>| {
            let began_us = began.start * 1_000_000..began.end * 1_000_000;
            retired.is_between_rounds(&began_us, 100_000_000)
        };
        assert!(is_between(75..76));
        assert!(!is_between(69..70), "it may have answered in the first round");
        assert!(!is_between(88..90), "the second round may have ended before");
    }
}
