//! Requests on data types, and the values that reads have shown.

use super::{Kind, Record};
use crate::history::{Hardships, History, KeyNumber, Outcome, Write, WriteKind};
use quoit_model::data_type::{FieldKind, Value};
use std::collections::BTreeSet;

/// Powers of four that an i64 has room for: so many additions has a counter.
pub const ADDITION_COUNT_MAX: u32 = 31;

/// The item that stands for the flag of a map.
pub const FLAG: u8 = b'!';

/// A read that was answered.
#[derive(Debug, Clone)]
pub struct Fetch {
    /// Which record.
    pub record: Record,
    /// When it was asked for, in simulated microseconds.
    pub start_us: u64,
    /// When the answer came.
    pub end_us: u64,
    /// Whether a majority of the primaries was asked.
    pub is_strict: bool,
    /// Value that it has shown.
    pub seen: Seen,
}

/// The value of a record, in the terms of the run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// The counter, or that of the map.
    pub count: i128,
    /// Elements of the set, or of that of the map, and its flag.
    pub items: BTreeSet<u8>,
    /// Number of the assigned value.
    pub assigned: Option<u32>,
    /// Values that no client has written.
    pub foreign: Vec<String>,
}

impl Seen {
    /// Takes a value apart; a record that does not exist has nothing.
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

/// The bytes of an item: long ones, so that records grow into pages.
#[must_use]
pub fn element_of(item: u8) -> Vec<u8> {
    let length = 300 + usize::from(item) * 5;
    vec![item; length]
}

/// Change that a request makes.
#[derive(Debug, Clone)]
pub enum Change {
    /// Adds a power of four, or takes it away.
    Count {
        /// Which power.
        power: u32,
        /// Whether it is taken away.
        is_negative: bool,
    },
    /// Adds an element, or enables the flag.
    Add(u8),
    /// Assigns this number.
    Assign(u32),
    /// Undoes additions that a client has seen: of these items, and of everything else if that is said.
    Undo {
        /// The items that it is about.
        items: BTreeSet<u8>,
        /// Whether the whole record is deleted.
        is_delete: bool,
        /// The fetch that its writer knew; `None`: whatever the coordinator had.
        knew: Option<usize>,
    },
}

/// One request that changes a record.
#[derive(Debug, Clone)]
pub struct Update {
    /// Which record.
    pub record: Record,
    /// Change that it makes.
    pub change: Change,
    /// When it was asked for, in simulated microseconds.
    pub start_us: u64,
    /// When the answer came; [`u64::MAX`] when none did.
    pub end_us: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Copies that were asked to be synced.
    pub dw: u32,
    /// Whether a majority of the primaries themselves had to take and sync it.
    pub is_strict: bool,
}

impl Update {
    /// Whether it may have happened.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        self.outcome != Outcome::Refused
    }

    /// The latest moment at which it was done.
    #[must_use]
    pub const fn done_by_us(&self) -> u64 {
        match self.outcome {
            Outcome::Acknowledged => self.end_us,
            Outcome::Refused | Outcome::Unknown => u64::MAX,
        }
    }
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct DataTypeHistory {
    /// In the order of their starts.
    pub updates: Vec<Update>,
    /// In the order of their ends.
    pub fetches: Vec<Fetch>,
    /// Hardships of the run meanwhile.
    pub hardships: Hardships,
}

impl DataTypeHistory {
    /// The updates of a record.
    pub fn updates_of(&self, record: Record) -> impl Iterator<Item = &Update> {
        self.updates.iter().filter(move |update| update.record == record)
    }

    /// The next power of four for a counter, if it has room for one.
    #[must_use]
    pub fn next_power(&self, record: Record) -> Option<u32> {
        let is_count = |update: &&Update| matches!(update.change, Change::Count { .. });
        let used = self.updates_of(record).filter(is_count).count() as u32;
        (used < ADDITION_COUNT_MAX && record.kind() != Kind::Set).then_some(used)
    }

    /// Whether an acknowledged update has to outlive everything that the run did: as for plain writes.
    #[must_use]
    pub fn is_firm(&self, update: &Update) -> bool {
        let history = History { hardships: self.hardships.clone(), ..History::default() };
        history.is_firm(&Write {
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

    /// Whether no disk lost anything, so that two majorities have what both saw.
    #[must_use]
    pub fn is_nothing_lost(&self) -> bool {
        let hardships = &self.hardships;
        hardships.power_losses_us.is_empty()
            && hardships.losses_us.is_empty()
            && hardships.files_lost_us.is_empty()
            && !hardships.is_disk_damaged
    }
}
