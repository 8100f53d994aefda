//! The weighted list of operations.

use super::error::ConfigError;
use super::settings::Settings;
use crate::term::Term;

/// One entry of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationEntry {
    /// What reports call it.
    pub label: Term,
    /// The driver's operation with its arguments.
    pub operation: Term,
    /// Its share of the sum of all weights; 0 is never chosen.
    pub weight: u32,
}

const EXPECTED: &str = "write a list of {Operation, Weight} or {Label, Operation, Weight}, \
                        weights integers from 0, at least one above";

/// Reads the list of operations.
///
/// # Errors
///
/// When an entry is malformed or no weight is above 0.
pub(super) fn read_operations(settings: &Settings) -> Result<Vec<OperationEntry>, ConfigError> {
    let entry = |name: &str, weight| OperationEntry {
        label: Term::atom(name),
        operation: Term::atom(name),
        weight,
    };
    let default = vec![entry("get", 4), entry("put", 4), entry("delete", 1)];
    settings.read("operations", default, EXPECTED, |term| {
        let Term::List(elements) = term else { return None };
        let entries: Vec<OperationEntry> = elements.iter().map(entry_of).collect::<Option<_>>()?;
        let total: u64 = entries.iter().map(|entry| u64::from(entry.weight)).sum();
        (total > 0 && total <= u64::from(u32::MAX)).then_some(entries)
    })
}

fn entry_of(element: &Term) -> Option<OperationEntry> {
    let (label, operation, weight) = match element.as_tuple()? {
        [operation, weight] => (operation, operation, weight),
        [label, operation, weight] => (label, operation, weight),
        _ => return None,
    };
    let weight = u32::try_from(weight.as_integer()?).ok()?;
    Some(OperationEntry { label: label.clone(), operation: operation.clone(), weight })
}

/// The part of a file's name that stands for a label: letters and digits stay, everything else
/// becomes `-`, and so do the borders of a tuple's elements.
pub(crate) fn file_label(label: &Term) -> String {
    let clean = |text: &str| {
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>()
    };
    match label {
        Term::Atom(name) => clean(name),
        Term::Tuple(elements) => elements.iter().map(file_label).collect::<Vec<_>>().join("-"),
        Term::Binary(bytes) => clean(&String::from_utf8_lossy(bytes)),
        other => match other.as_text() {
            Some(text) => clean(&text),
            None => clean(&other.to_string()),
        },
    }
}
