//! The weighted choice of operations, and the names under which operations are reported.

use std::collections::BTreeMap;

use crate::config::{ConfigError, OperationEntry, SettingPlace, file_label};
use crate::driver::Driver;
use crate::random::Random;
use crate::reported_operation::ReportedOperation;
use crate::term::Term;

/// One entry that can be drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct MixEntry<O> {
    pub(super) operation: O,
    /// True if the operation takes a new key.
    pub(super) inserts: bool,
    /// Index of the reported operation under which it is counted.
    pub(super) reported: usize,
    /// Sum of the weights up to and including this entry.
    cumulative: u64,
}

/// A driver's operations with their weights.
#[derive(Debug)]
pub(crate) struct Mix<O> {
    /// Entries of weight above 0, which can be drawn.
    entries: Vec<MixEntry<O>>,
    total: u64,
    /// All entries by label. Of several entries with one label, the first.
    labelled: BTreeMap<String, MixEntry<O>>,
}

impl<O: Copy> Mix<O> {
    /// Draws an entry with a probability proportional to its weight. It uses one uniform draw, as if from a
    /// table that holds each operation as often as its weight says, so it draws the same sequence as
    /// basho_bench.
    #[inline]
    pub(super) fn choose(&self, random: &mut Random) -> MixEntry<O> {
        let drawn = random.uniform(self.total);
        let chosen = self.entries.iter().find(|entry| drawn <= entry.cumulative);
        *chosen.expect("the last entry's cumulative weight is the total")
    }

    /// The entry with a label, even if its weight is 0.
    pub(super) fn labelled(&self, label: &str) -> Option<MixEntry<O>> {
        self.labelled.get(label).copied()
    }

    /// All labels, for an error message.
    pub(super) fn labels(&self) -> String {
        self.labelled.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// All operations, including those of weight 0.
    pub(super) fn all_operations(&self) -> impl Iterator<Item = O> {
        self.labelled.values().map(|entry| entry.operation)
    }

    /// The entries that can be drawn.
    pub(super) fn entries(&self) -> impl Iterator<Item = &MixEntry<O>> {
        self.entries.iter()
    }

    /// The operations that can be drawn.
    pub(super) fn operations(&self) -> impl Iterator<Item = O> {
        self.entries.iter().map(|entry| entry.operation)
    }
}

/// Checks the operations against the driver and builds the mix.
///
/// # Errors
///
/// When the driver lacks an operation.
pub(crate) fn build_mix<D: Driver>(
    plan: &D::Plan,
    entries: &[OperationEntry],
) -> Result<(Mix<D::Operation>, Vec<ReportedOperation>), ConfigError> {
    let mut mix = Mix { entries: Vec::new(), total: 0, labelled: BTreeMap::new() };
    let mut reported: Vec<ReportedOperation> = Vec::new();
    for entry in entries {
        let operation = D::operation(plan, &entry.operation)
            .ok_or_else(|| no_operation::<D>(&entry.operation, &entry.place))?;
        let file_label = file_label(&entry.label);
        let known = reported.iter().position(|other| other.file_label == file_label);
        let index = known.unwrap_or_else(|| {
            reported.push(ReportedOperation {
                label: entry.label.clone(),
                operation: entry.operation.clone(),
                file_label,
            });
            reported.len() - 1
        });
        mix.total += u64::from(entry.weight);
        let (inserts, cumulative) = (entry.inserts, mix.total);
        let of_mix = MixEntry { operation, inserts, reported: index, cumulative };
        mix.labelled.entry(text_of(&entry.label)).or_insert(of_mix);
        if entry.weight > 0 {
            mix.entries.push(of_mix);
        }
    }
    Ok((mix, reported))
}

/// A label in the form in which scripts name it: without quotes.
fn text_of(label: &Term) -> String {
    match label {
        Term::String(text) => text.clone(),
        label => ReportedOperation::name_of(label),
    }
}

fn no_operation<D: Driver>(term: &Term, place: &SettingPlace) -> ConfigError {
    let (place, driver, operation) = (place.clone(), D::NAME, Box::new(term.clone()));
    match D::missing(term) {
        Some(reason) => ConfigError::OperationMissing { place, driver, operation, reason },
        None => {
            ConfigError::Operation { place, driver, operation, known: D::OPERATIONS.to_owned() }
        }
    }
}
