//! A model of the states in which a store may be after a crash.

use crate::engine::RecordMeta;
use std::collections::{BTreeMap, BTreeSet};

/// A value; `None` if the key doesn't exist.
pub(super) type ModelState = Option<Vec<u8>>;

/// A state for messages, named by the operation that wrote it.
fn told(state: &ModelState) -> String {
    let Some(value) = state else {
        return "missing".to_owned();
    };
    let operation = value.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    format!("of operation {operation} ({} bytes)", value.len())
}

impl std::fmt::Debug for Version {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { operation, state, ticket } = self;
        write!(out, "[{operation}: {}, {ticket:?}]", told(state))
    }
}

/// One write of a key.
#[derive(Clone)]
struct Version {
    /// Number of the operation. All writes of a batch have the same number.
    operation: u64,
    state: ModelState,
    /// `None` if the engine reported an error; the write may or may not be on the disk.
    ticket: Option<u64>,
}

/// The writes of each key since the last restart.
#[derive(Default)]
pub(super) struct Model {
    /// The first version of each key is the state found at the last restart.
    keys: BTreeMap<u8, Vec<Version>>,
    /// Writes with tickets up to this one are durable.
    durable: u64,
}

/// Way in which the process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The machine crashed: writes that no sync has covered may be lost.
    Crash,
    /// The process was killed: all accepted writes are still there.
    Kill,
}

impl Model {
    /// The state that a read must return now.
    pub(super) fn now(&self, key: u8) -> ModelState {
        let versions = self.keys.get(&key)?;
        versions.iter().rev().find(|version| version.ticket.is_some())?.state.clone()
    }

    /// Keys that a listing must return now.
    pub(super) fn keys_now(&self) -> Vec<u8> {
        self.keys.keys().copied().filter(|key| self.now(*key).is_some()).collect()
    }

    /// Records a write that was accepted, or that failed with an unknown effect on the disk.
    pub(super) fn write(
        &mut self,
        key: u8,
        operation: u64,
        state: ModelState,
        ticket: Option<u64>,
    ) {
        let base = Version { operation: 0, state: None, ticket: Some(0) };
        let versions = self.keys.entry(key).or_insert_with(|| vec![base]);
        versions.push(Version { operation, state, ticket });
    }

    pub(super) fn note_durable(&mut self, ticket: u64) {
        self.durable = self.durable.max(ticket);
    }

    /// Checks the state found after a restart, and continues from it.
    pub(super) fn restart(
        &mut self,
        end: End,
        found: &BTreeMap<u8, ModelState>,
    ) -> Result<(), String> {
        let mut evidence: BTreeMap<u64, (Vec<u8>, Vec<u8>)> = BTreeMap::new();
        for (key, versions) in &self.keys {
            let state = &found[key];
            let must_be_there = |version: &Version| match end {
                End::Kill => version.ticket.is_some(),
                End::Crash => version.ticket.is_some_and(|ticket| ticket <= self.durable),
            };
            let oldest = versions.iter().rposition(must_be_there).unwrap_or(0);
            let allowed = &versions[oldest..];
            let matching: Vec<usize> =
                (0..allowed.len()).filter(|at| allowed[*at].state == *state).collect();
            let (Some(&first), Some(&last)) = (matching.first(), matching.last()) else {
                return Err(format!(
                    "key {key} is {} after {end:?}; allowed are {allowed:?} of {versions:?} \
                     with {} durable",
                    told(state),
                    self.durable
                ));
            };
            for version in &allowed[last + 1..] {
                evidence.entry(version.operation).or_default().1.push(*key);
            }
            if first == last {
                evidence.entry(allowed[first].operation).or_default().0.push(*key);
            }
        }
        if end == End::Crash {
            self.check_prefix(found)?;
        }
        evidence.remove(&0);
        for (operation, (there, missing)) in evidence {
            if !there.is_empty() && !missing.is_empty() {
                return Err(format!(
                    "operation {operation} is there for keys {there:?} and not for {missing:?}"
                ));
            }
        }
        self.keys.clear();
        self.durable = 0;
        for (key, state) in found {
            let base = Version { operation: 0, state: state.clone(), ticket: Some(0) };
            self.keys.insert(*key, vec![base]);
        }
        Ok(())
    }
}

impl Model {
    /// Checks that the state after a power failure is the state after some operation: no write survived
    /// without all earlier ones. Skipped if an operation failed, because its effect is unknown.
    fn check_prefix(&self, found: &BTreeMap<u8, ModelState>) -> Result<(), String> {
        let versions = || self.keys.values().flatten();
        if versions().any(|version| version.ticket.is_none()) {
            return Ok(());
        }
        let mut ends: BTreeSet<u64> = versions().map(|version| version.operation).collect();
        ends.insert(0);
        let after = |end: u64, key: &u8| {
            let versions = self.keys[key].iter().rev();
            versions
                .skip_while(|version| version.operation > end)
                .map(|version| &version.state)
                .next()
        };
        let is_end = |end: u64| self.keys.keys().all(|key| after(end, key) == Some(&found[key]));
        match ends.iter().any(|end| is_end(*end)) {
            true => Ok(()),
            false => {
                let written = self.keys.iter().filter(|(_, versions)| versions.len() > 1);
                let states: Vec<_> =
                    written.map(|(key, all)| (key, told(&found[key]), all)).collect();
                Err(format!("writes are there behind others that are not: {states:?}"))
            }
        }
    }
}

/// The metadata that is stored with a value.
pub(super) fn meta_of(value: &[u8]) -> RecordMeta {
    let indexed = super::indexes::is_indexed(value);
    RecordMeta {
        digest: xxhash_rust::xxh3::xxh3_64(value),
        tombstone: value.len().is_multiple_of(5) && !indexed,
        n_val_class: (value.len() % 15 + 1) as u8,
        // Some values expire, each in a different hour, and all after the end of the runs.
        expires_at_secs: if value.len().is_multiple_of(7) {
            2_000_000_000 + value.len() as u32 * 3_600
        } else {
            0
        },
        indexed,
    }
}
