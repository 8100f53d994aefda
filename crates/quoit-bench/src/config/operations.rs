//! The weighted list of operations.

use super::error::{ConfigError, SettingPlace};
use super::settings::Settings;
use crate::keygen::KeyGenerator;
use crate::term::Term;

/// One entry of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationEntry {
    /// Name under which the operation is reported.
    pub label: Term,
    /// The driver's operation with its arguments.
    pub operation: Term,
    /// True if the operation takes a new key, which no operation has used before: written `{insert,
    /// Operation}`.
    pub inserts: bool,
    /// Weight of the entry. The probability of a draw is the weight divided by the sum of all weights.
    pub weight: u32,
    /// Place of the entry in the configuration.
    pub place: SettingPlace,
}

/// The expected form of the list, for error messages.
const EXPECTED: &str = "write a list of {Operation, Weight} or {Label, Operation, Weight}";

/// The expected form of an entry, for error messages.
const ENTRY_EXPECTED: &str = "write {Operation, Weight} or {Label, Operation, Weight}";

/// Reads the list of operations.
///
/// # Errors
///
/// When an entry is malformed or no weight is above 0. The error names the place.
pub(super) fn read_operations(settings: &Settings) -> Result<Vec<OperationEntry>, ConfigError> {
    let entry = |name: &str, weight| OperationEntry {
        label: Term::atom(name),
        operation: Term::atom(name),
        inserts: false,
        weight,
        place: SettingPlace::Default,
    };
    let key = "operations";
    let default = vec![entry("get", 4), entry("put", 4), entry("delete", 1)];
    if settings.get(key).is_none() {
        return Ok(default);
    }
    let list = settings.read(key, Vec::new(), EXPECTED, |term| match term {
        Term::List(elements) => Some(elements.clone()),
        _ => None,
    })?;
    let entry_of = |(index, element): (usize, &Term)| {
        let place = settings.place_in(key, &[index]);
        entry_of(element, place.clone()).map_err(|expected| ConfigError::Value {
            place,
            key: format!("entry {} of {key}", index + 1),
            value: settings.spelled(key, element),
            expected: expected.to_owned(),
        })
    };
    let entries: Vec<OperationEntry> =
        list.iter().enumerate().map(entry_of).collect::<Result<_, _>>()?;
    let total: u64 = entries.iter().map(|entry| u64::from(entry.weight)).sum();
    let expected = match (entries.len(), total) {
        (0, _) => "there is nothing to do: name at least one operation",
        (_, 0) => "no weight is above 0, so nothing would ever be done: raise one",
        (_, total) if total > u64::from(u32::MAX) => "the sum of all weights goes up to 4294967295",
        _ => return Ok(entries),
    };
    Err(settings.value_error(key, expected))
}

/// Checks that the key generator can number new keys, if an operation inserts.
pub(super) fn check_inserts(
    settings: &Settings,
    operations: &[OperationEntry],
    keys: &KeyGenerator,
) -> Result<(), ConfigError> {
    let inserts = operations.iter().any(|entry| entry.inserts);
    if inserts && keys.inserting().is_none() {
        let expected = "operations that insert go on behind the keys that are there: draw these with \
                        uniform_int, zipfian_int, scrambled_zipfian_int or latest_int";
        return Err(settings.value_error("key_generator", expected));
    }
    Ok(())
}

/// Parses an entry. The error says what form it should have.
fn entry_of(element: &Term, place: SettingPlace) -> Result<OperationEntry, &'static str> {
    let (label, operation, weight) = match element.as_tuple() {
        Some([operation, weight]) => (operation, operation, weight),
        Some([label, operation, weight]) => (label, operation, weight),
        _ => return Err(ENTRY_EXPECTED),
    };
    let weight = match weight.as_integer() {
        None => return Err("the weight is an integer: write {Operation, Weight}"),
        Some(weight) if weight < 0 => return Err("a weight is not negative: write 0 for never"),
        Some(weight) => u32::try_from(weight).map_err(|_| "a weight goes up to 4294967295")?,
    };
    let (operation, inserts) = match operation.as_tuple() {
        Some([insert, operation]) if insert.as_atom() == Some("insert") => (operation, true),
        _ => (operation, false),
    };
    let (label, operation) = (label.clone(), operation.clone());
    Ok(OperationEntry { label, operation, inserts, weight, place })
}

/// The part of a file name that stands for a label. ASCII letters and digits stay; every other character
/// becomes `-`. The elements of a tuple are joined by `-`.
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
