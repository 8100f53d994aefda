//! Forms of property values: checking, reading and writing the JSON form that all protocols share.

use super::{
    CommitHook, PROP_NAME_BYTES_MAX, PROP_VALUE_BYTES_MAX, PROP_VALUE_DEPTH_MAX, Quorum, Reason,
};
use serde_json::Value;

/// Form of the values of a property.
pub(super) trait PropertyForm<T> {
    /// Reads and checks a value, without regard to other properties.
    fn read(&self, value: &Value) -> Result<T, Reason>;

    /// Writes a value as clients see it.
    fn write(&self, field: &T) -> Value;
}

/// Form of a boolean: see [`boolean`].
pub(super) struct Flag;

impl PropertyForm<bool> for Flag {
    fn read(&self, value: &Value) -> Result<bool, Reason> {
        boolean(value)
    }

    fn write(&self, field: &bool) -> Value {
        (*field).into()
    }
}

/// Form of an integer between two bounds.
pub(super) struct Number {
    /// Minimum.
    pub(super) least: u32,
    /// Maximum.
    pub(super) max: u32,
}

impl PropertyForm<u32> for Number {
    fn read(&self, value: &Value) -> Result<u32, Reason> {
        match value.as_u64().map(u32::try_from) {
            Some(Ok(number)) if number < self.least => Err(Reason::NotInteger),
            Some(Ok(number)) if number <= self.max => Ok(number),
            Some(_) => Err(Reason::TooLarge { max: self.max }),
            None => Err(Reason::NotInteger),
        }
    }

    fn write(&self, field: &u32) -> Value {
        (*field).into()
    }
}

/// Form of a quorum: a word or a number.
pub(super) struct QuorumForm {
    /// True if it may be 0.
    pub(super) zero_allowed: bool,
}

impl PropertyForm<Quorum> for QuorumForm {
    fn read(&self, value: &Value) -> Result<Quorum, Reason> {
        match Quorum::from_json(value) {
            Some(Quorum::Count(0)) if !self.zero_allowed => Err(Reason::NotValidQuorum),
            Some(quorum) => Ok(quorum),
            None => Err(Reason::NotValidQuorum),
        }
    }

    fn write(&self, field: &Quorum) -> Value {
        field.to_json()
    }
}

/// Form of a text.
pub(super) struct Text;

impl PropertyForm<String> for Text {
    fn read(&self, value: &Value) -> Result<String, Reason> {
        value.as_str().map(str::to_owned).ok_or(Reason::NotText)
    }

    fn write(&self, field: &String) -> Value {
        field.as_str().into()
    }
}

/// Form of a list of commit hooks.
pub(super) struct Hooks;

impl PropertyForm<Vec<CommitHook>> for Hooks {
    fn read(&self, value: &Value) -> Result<Vec<CommitHook>, Reason> {
        let list = value.as_array().ok_or(Reason::NotHooks)?;
        let read = |hook: &Value| CommitHook::from_json(hook).ok_or(Reason::NotHooks);
        list.iter().map(read).collect()
    }

    fn write(&self, field: &Vec<CommitHook>) -> Value {
        field.iter().map(CommitHook::to_json).collect()
    }
}

/// Form of a change feed's period: `true` is period 1, `false` is off.
pub(super) struct FeedPeriod;

impl PropertyForm<u32> for FeedPeriod {
    fn read(&self, value: &Value) -> Result<u32, Reason> {
        match value {
            Value::Number(_) => Number { least: 0, max: u32::MAX }.read(value),
            _ => boolean(value).map(u32::from),
        }
    }

    fn write(&self, field: &u32) -> Value {
        (*field).into()
    }
}

/// Form of the precision of a HyperLogLog.
pub(super) struct PrecisionForm;

impl PropertyForm<u8> for PrecisionForm {
    fn read(&self, value: &Value) -> Result<u8, Reason> {
        match value.as_u64().map(u8::try_from) {
            Some(Ok(number @ 4..=16)) => Ok(number),
            _ => Err(Reason::HllPrecision(shown(value))),
        }
    }

    fn write(&self, field: &u8) -> Value {
        (*field).into()
    }
}

/// Form of a value with functions for reading and writing.
pub(super) struct Parsed<T> {
    /// Reads the value; returns `None` if it is not valid.
    pub(super) read: fn(&Value) -> Option<T>,
    /// Writes the value.
    pub(super) write: fn(&T) -> Value,
    /// Reason for refusing a value.
    pub(super) refused: fn(&Value) -> Reason,
}

impl<T> PropertyForm<T> for Parsed<T> {
    fn read(&self, value: &Value) -> Result<T, Reason> {
        (self.read)(value).ok_or_else(|| (self.refused)(value))
    }

    fn write(&self, field: &T) -> Value {
        (self.write)(field)
    }
}

/// Reads true, false, these words in any case, or an integer, which is true if it is positive.
pub(super) fn boolean(value: &Value) -> Result<bool, Reason> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        Value::String(word) if word.eq_ignore_ascii_case("true") => Ok(true),
        Value::String(word) if word.eq_ignore_ascii_case("false") => Ok(false),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Ok(integer > 0),
            (None, Some(_)) => Ok(true),
            (None, None) => Err(Reason::NotBoolean),
        },
        _ => Err(Reason::NotBoolean),
    }
}

/// A refused value as it appears in a reason, shortened: a text without quotes, any other value as
/// JSON.
pub(super) fn shown(value: &Value) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    let whole = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match whole.char_indices().nth(SHOWN_CHARS_MAX).and_then(|(end, _)| whole.get(..end)) {
        Some(start) => format!("{start}..."),
        None => whole,
    }
}

/// Refuses names and values that are too large for any property.
pub(super) fn check_size(name: &str, value: &Value) -> Result<(), Reason> {
    if name.is_empty() || name.len() > PROP_NAME_BYTES_MAX {
        return Err(Reason::NameLength { max: PROP_NAME_BYTES_MAX });
    }
    if !fits_depth(value, PROP_VALUE_DEPTH_MAX) {
        return Err(Reason::ValueTooDeep { max: PROP_VALUE_DEPTH_MAX });
    }
    let may_be_long = value.is_string() || value.is_array() || value.is_object();
    if may_be_long && value.to_string().len() > PROP_VALUE_BYTES_MAX {
        return Err(Reason::ValueTooLong { max: PROP_VALUE_BYTES_MAX });
    }
    Ok(())
}

fn fits_depth(value: &Value, levels: usize) -> bool {
    match (value, levels) {
        (Value::Array(_) | Value::Object(_), 0) => false,
        (Value::Array(list), _) => list.iter().all(|inner| fits_depth(inner, levels - 1)),
        (Value::Object(object), _) => object.values().all(|inner| fits_depth(inner, levels - 1)),
        _ => true,
    }
}
