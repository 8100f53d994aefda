//! The history of data types: updates, and reads with the values that they found.

use super::{Record, RecordKind};
use crate::history::{FaultRecord, History, KeyNumber, Outcome, Write, WriteKind};
use quoit_model::data_type::{FieldKind, Value};
use std::collections::BTreeSet;

/// Maximum number of additions to a counter: the number of powers of four that fit into an `i64`.
pub const ADDITION_COUNT_MAX: u32 = 31;

/// Item that stands for the flag of a map.
pub const FLAG: u8 = b'!';

/// A read that was answered.
#[derive(Debug, Clone)]
pub struct Fetch {
    /// The record.
    pub record: Record,
    /// Time at which the client sent the request, in simulated microseconds.
    pub start_us: u64,
    /// Time of the answer.
    pub end_us: u64,
    /// True if a majority of the primaries had to answer.
    pub is_strict: bool,
    /// Value that the read found.
    pub seen: ObservedValue,
}

/// Value of a record, reduced to the additions, items and assignments of the run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObservedValue {
    /// Value of the counter, or of the map's counter.
    pub count: i128,
    /// Elements of the set, or of the map's set, and the map's flag.
    pub items: BTreeSet<u8>,
    /// Number of the value assigned to the map's register.
    pub assigned: Option<u32>,
    /// Values that no client has written.
    pub foreign: Vec<String>,
}

impl ObservedValue {
    /// Takes a value apart. A record that does not exist has an empty value.
    #[must_use]
    pub fn of(value: Option<&Value>) -> Self {
        let mut seen = Self::default();
        match value {
            None => {}
            Some(Value::Map(fields)) => {
                for (name, value) in fields {
                    match (name.kind, value) {
                        (FieldKind::Flag, Value::Flag(is_enabled)) => {
                            seen.items.extend(is_enabled.then_some(FLAG));
                        }
                        (FieldKind::Register, Value::Register(text)) if text.is_empty() => {}
                        (FieldKind::Register, Value::Register(text)) => {
                            match std::str::from_utf8(text).ok().and_then(|text| text.parse().ok())
                            {
                                Some(number) => seen.assigned = Some(number),
                                None => seen.foreign.push(format!("{text:?}")),
                            }
                        }
                        (_, value) => seen.add(value),
                    }
                }
            }
            Some(value) => seen.add(value),
        }
        seen
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Counter(count) => self.count = *count,
            Value::Set(elements) => {
                for element in elements {
                    match element.first() {
                        Some(item) if **element == *element_of(*item) => {
                            self.items.insert(*item);
                        }
                        _ => self.foreign.push(format!("{element:?}")),
                    }
                }
            }
            other => self.foreign.push(format!("{other:?}")),
        }
    }
}

/// Returns the bytes of an item's element. They are long, so that records grow into pages.
#[must_use]
pub fn element_of(item: u8) -> Vec<u8> {
    let length = 300 + usize::from(item) * 5;
    vec![item; length]
}

/// A change that a client requests.
#[derive(Debug, Clone)]
pub enum Change {
    /// Adds a power of four to the counter, or subtracts it.
    Count {
        /// Exponent of the power of four.
        power: u32,
        /// True if the power is subtracted.
        is_negative: bool,
    },
    /// Adds an element to the set, or enables the flag.
    Add(u8),
    /// Assigns this number to the register.
    Assign(u32),
    /// Removes items that a client has seen, or deletes the whole record.
    Undo {
        /// Items to remove.
        items: BTreeSet<u8>,
        /// True if the whole record is deleted.
        is_delete: bool,
        /// Number of the fetch whose context the client sends; `None` = no context, which removes what
        /// the coordinator has.
        knew: Option<usize>,
    },
}

/// A request that changes a record.
#[derive(Debug, Clone)]
pub struct Update {
    /// The record.
    pub record: Record,
    /// The requested change.
    pub change: Change,
    /// Time at which the client sent the request, in simulated microseconds.
    pub start_us: u64,
    /// Time of the answer; [`u64::MAX`] if there was no answer.
    pub end_us: u64,
    /// Outcome of the update.
    pub outcome: Outcome,
    /// Value of `dw`: number of copies that had to be synced, for n_val = 3.
    pub dw: u32,
    /// True if a majority of the primaries had to accept and sync the update.
    pub is_strict: bool,
}

impl Update {
    /// True if the update may have been made.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        self.outcome != Outcome::Refused
    }

    /// Returns the latest time at which the update was made; [`u64::MAX`] if that is not known.
    #[must_use]
    pub const fn done_by_us(&self) -> u64 {
        match self.outcome {
            Outcome::Acknowledged => self.end_us,
            Outcome::Refused | Outcome::Unknown => u64::MAX,
        }
    }
}

/// The history of all data types of a run.
#[derive(Debug, Clone, Default)]
pub struct DataTypeHistory {
    /// Updates, in the order in which they started.
    pub updates: Vec<Update>,
    /// Reads, in the order in which they ended.
    pub fetches: Vec<Fetch>,
    /// Faults of the run that matter to the promises.
    pub hardships: FaultRecord,
}

impl DataTypeHistory {
    /// Returns the updates of a record.
    pub fn updates_of(&self, record: Record) -> impl Iterator<Item = &Update> {
        self.updates.iter().filter(move |update| update.record == record)
    }

    /// Returns the next power of four for the counter of a record; `None` if it has no counter or all powers
    /// are used.
    #[must_use]
    pub fn next_power(&self, record: Record) -> Option<u32> {
        let is_count = |update: &&Update| matches!(update.change, Change::Count { .. });
        let used = u32::try_from(self.updates_of(record).filter(is_count).count()).ok()?;
        (used < ADDITION_COUNT_MAX && record.kind() != RecordKind::Set).then_some(used)
    }

    /// True if an acknowledged update has to survive all faults of the run, by the same rules as plain
    /// writes.
    #[must_use]
    pub fn must_survive(&self, update: &Update) -> bool {
        let history = History { hardships: self.hardships.clone(), ..History::default() };
        history.must_survive(&Write {
            key: KeyNumber(0),
            cluster: 0,
            kind: WriteKind::Put,
            context: None,
            start_us: update.start_us,
            end_us: update.end_us,
            outcome: update.outcome,
            dw: update.dw,
            is_strict: update.is_strict,
            expires_us: None,
        })
    }

    /// True if no disk has lost anything, so that each majority of the primaries knows what an earlier
    /// one has synced.
    #[must_use]
    pub fn is_nothing_lost(&self) -> bool {
        let hardships = &self.hardships;
        hardships.power_losses_us.is_empty()
            && hardships.losses_us.is_empty()
            && hardships.files_lost_us.is_empty()
            && !hardships.is_disk_damaged
    }
}
