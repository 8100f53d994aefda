//! The weighted choice of operations, and the names under which operations are reported.

use std::collections::BTreeMap;

use crate::config::{OperationEntry, file_label};
use crate::random::Random;
use crate::reported_operation::ReportedOperation;
use crate::term::Term;

/// Number of an operation: the index of its entry in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OperationNumber(usize);

impl OperationNumber {
    /// The driver's operation with this number. `operations` has one for each entry of the configuration.
    #[inline]
    pub(super) fn of<O: Copy>(self, operations: &[O]) -> O {
        *operations.get(self.0).expect("the driver has an operation for each configured entry")
    }
}

/// One entry that can be drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct MixEntry {
    pub(super) operation: OperationNumber,
    /// True if the operation takes a new key.
    pub(super) inserts: bool,
    /// Index of the reported operation under which it is counted.
    pub(super) reported: usize,
    /// Sum of the weights up to and including this entry.
    cumulative: u64,
}

/// The configured operations with their weights.
#[derive(Debug)]
pub(crate) struct Mix {
    /// Entries of weight above 0, which can be drawn.
    entries: Vec<MixEntry>,
    total: u64,
    /// All entries by label. Of several entries with one label, the first.
    labelled: BTreeMap<String, MixEntry>,
}

impl Mix {
    /// Draws an entry with a probability proportional to its weight. It uses one uniform draw, as if from a
    /// table that holds each operation as often as its weight says, so it draws the same sequence as
    /// basho_bench.
    #[inline]
    pub(super) fn choose(&self, random: &mut Random) -> MixEntry {
        let drawn = random.uniform(self.total);
        let chosen = self.entries.iter().find(|entry| drawn <= entry.cumulative);
        *chosen.expect("the last entry's cumulative weight is the total")
    }

    /// The entry with a label, even if its weight is 0.
    pub(super) fn labelled(&self, label: &str) -> Option<MixEntry> {
        self.labelled.get(label).copied()
    }

    /// All labels, for an error message.
    pub(super) fn labels(&self) -> String {
        self.labelled.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// All operations, including those of weight 0.
    pub(super) fn all_operations(&self) -> impl Iterator<Item = OperationNumber> {
        self.labelled.values().map(|entry| entry.operation)
    }

    /// The entries that can be drawn.
    pub(super) fn entries(&self) -> impl Iterator<Item = &MixEntry> {
        self.entries.iter()
    }

    /// The operations that can be drawn.
    pub(super) fn operations(&self) -> impl Iterator<Item = OperationNumber> {
        self.entries.iter().map(|entry| entry.operation)
    }
}

/// Builds the mix of the configured operations.
pub(crate) fn build_mix(entries: &[OperationEntry]) -> (Mix, Vec<ReportedOperation>) {
    let mut mix = Mix { entries: Vec::new(), total: 0, labelled: BTreeMap::new() };
    let mut reported: Vec<ReportedOperation> = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let operation = OperationNumber(number);
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
    (mix, reported)
}

/// A label in the form in which scripts name it: without quotes.
fn text_of(label: &Term) -> String {
    match label {
        Term::String(text) => text.clone(),
        label => ReportedOperation::name_of(label),
    }
}
