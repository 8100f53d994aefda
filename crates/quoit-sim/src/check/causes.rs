//! Causal histories: which earlier writes each write has replaced.
//!
//! In the checkers' model a write replaces the values that its writer was shown, and everything that
//! those values had replaced. The history does not determine this set exactly: a tombstone does not name
//! its delete, and a delete without a context does not name the values that it met. So the checkers keep
//! a lower and an upper bound of each set: the writes that were *surely* replaced, and those that *may*
//! have been replaced. They check promises to keep values against the upper bound and promises to drop
//! values against the lower one, so that they raise no false alarms.

use crate::history::{
    Event, FoundValue, History, KeyNumber, Outcome, Read, Reader, Write, WriteKind, WriteNumber,
};
use crate::policy::Policy;
use std::collections::{BTreeMap, BTreeSet};

pub(super) type Writes = BTreeSet<WriteNumber>;

/// Bounds of the causal history of a write, which includes the write itself.
#[derive(Debug, Clone, Default)]
pub(super) struct CausalHistory {
    pub(super) certain: Writes,
    pub(super) possible: Writes,
}

impl CausalHistory {
    fn add(&mut self, other: &Self) {
        self.certain.extend(&other.certain);
        self.possible.extend(&other.possible);
    }
}

/// The causal histories of all writes of a run.
pub(super) struct Causes<'h> {
    pub(super) history: &'h History,
    /// Causal histories, by the number of the write.
    pub(super) seen: Vec<CausalHistory>,
    /// Deletes that may have made each tombstone, by key and event.
    deletes: BTreeMap<(KeyNumber, Event), Writes>,
}

impl<'h> Causes<'h> {
    pub(super) fn of(history: &'h History) -> Self {
        let deletes = history.key_numbers().flat_map(|key| {
            tombstones(history, key).into_iter().map(move |(event, writes)| ((key, event), writes))
        });
        let mut causes = Self { history, seen: Vec::new(), deletes: deletes.collect() };
        // A writer was shown only values of earlier writes, whose histories are known by then.
        for (number, write) in (0_u32..).map(WriteNumber).zip(&history.writes) {
            let seen = causes.seen_by(number, write);
            causes.seen.push(seen);
        }
        causes
    }

    fn seen_by(&self, number: WriteNumber, write: &Write) -> CausalHistory {
        let policy = self.history.keys[write.key.0 as usize];
        let mut seen = CausalHistory::default();
        match write.kind {
            WriteKind::Put if policy == Policy::WriteOnce => {}
            WriteKind::DeleteUnseen => {
                // A delete that is made late may find values that were written after its client had given up.
                let until_us = if write.may_be_made_late() { u64::MAX } else { write.end_us };
                seen.possible = self.history.possible_before(write.key, until_us);
                seen.certain = self.certainly_replaced(write);
            }
            WriteKind::Put | WriteKind::Delete => {
                if let Some(context) = write.context {
                    let read = &self.history.reads[context.0 as usize];
                    seen = self.seen_in(read);
                    if policy.shows_one() {
                        // The context also covers values that lost against the one that was shown.
                        seen.possible = self.history.possible_before(write.key, read.end_us);
                    }
                }
            }
        }
        seen.certain.insert(number);
        seen.possible.insert(number);
        seen
    }

    /// Returns the writes that a delete without a context has surely found. Such a delete begins with a read,
    /// which has to show whatever any read of a majority of the primaries at that time has to show. Where the
    /// last write wins the result is empty, because there the delete replaces values by its time alone.
    fn certainly_replaced(&self, delete: &Write) -> Writes {
        let policy = self.history.keys[delete.key.0 as usize];
        let is_told = delete.outcome == Outcome::Acknowledged && !delete.may_be_made_late();
        let by_context = matches!(policy, Policy::Siblings | Policy::Latest | Policy::DefaultType);
        if !(is_told && delete.is_strict && by_context) {
            return Writes::new();
        }
        let Write { key, start_us, end_us, .. } = *delete;
        let read = Read { key, reader: Reader::Strict, start_us, end_us, found: Vec::new() };
        let met = self.history.writes_of(key).filter(|(number, write)| {
            let is_value = write.kind == WriteKind::Put && write.cluster == delete.cluster;
            is_value && self.must_show(&read, *number, write)
        });
        met.flat_map(|(number, _)| &self.seen[number.0 as usize].certain).copied().collect()
    }

    /// Returns the writes that the values of a read have replaced, together, including the values' own
    /// writes.
    pub(super) fn seen_in(&self, read: &Read) -> CausalHistory {
        let mut all = CausalHistory::default();
        for found in &read.found {
            if let Some(seen) = self.seen_in_one(read.key, found) {
                all.add(&seen);
            }
        }
        all
    }

    /// Returns the writes that one value has replaced, or `None` if no write can have stored the value.
    pub(super) fn seen_in_one(&self, key: KeyNumber, found: &FoundValue) -> Option<CausalHistory> {
        match found {
            FoundValue::Value(number) => self.seen.get(number.0 as usize).cloned(),
            FoundValue::Tombstone(actor, counter) => {
                let event = (key, (actor.clone(), *counter));
                let candidates = self.deletes.get(&event).filter(|writes| !writes.is_empty())?;
                // While histories are computed, deletes that start later have none yet. They can't have
                // made the tombstone.
                let mut seen =
                    candidates.iter().filter_map(|write| self.seen.get(write.0 as usize));
                let first = seen.next()?.clone();
                Some(seen.fold(first, |both, other| CausalHistory {
                    certain: both.certain.intersection(&other.certain).copied().collect(),
                    possible: both.possible.union(&other.possible).copied().collect(),
                }))
            }
            FoundValue::Foreign(_) => None,
        }
    }
}

/// Returns the deletes that may have made each tombstone of a key: those that started before the
/// tombstone was first seen.
fn tombstones(history: &History, key: KeyNumber) -> BTreeMap<Event, Writes> {
    let mut first_seen_us: BTreeMap<Event, u64> = BTreeMap::new();
    for (_, read) in history.reads_of(key) {
        for found in &read.found {
            if let FoundValue::Tombstone(actor, counter) = found {
                let seen_us = first_seen_us.entry((actor.clone(), *counter)).or_insert(u64::MAX);
                *seen_us = read.end_us.min(*seen_us);
            }
        }
    }
    let before = |time_us| -> Writes {
        let deletes = history.writes_of(key).filter(|(_, write)| {
            let is_possible = write.outcome != Outcome::Refused && write.start_us <= time_us;
            write.kind.is_delete() && is_possible
        });
        deletes.map(|(number, _)| number).collect()
    };
    first_seen_us.into_iter().map(|(event, time_us)| (event, before(time_us))).collect()
}
