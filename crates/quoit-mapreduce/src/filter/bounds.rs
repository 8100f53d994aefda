//! Key ranges that contain every key that a filter can accept, so that other keys need not be read.

use super::value::FilterValue;
use super::{KeyFilter, Step};
use bytes::Bytes;
use quoit_model::key_bounds::KeyBounds;

impl KeyFilter {
    /// A range that contains all keys that the filter accepts and all keys that it fails on.
    #[must_use]
    pub fn bounds(&self) -> KeyBounds {
        // The last of several steps applies to a value made from the key, so that it gives no range of keys.
        match self.steps.as_slice() {
            [step] => step.bounds(),
            _ => KeyBounds::ALL,
        }
    }

    /// True if the filter does not fail on any key.
    fn takes_all(&self) -> bool {
        match self.steps.as_slice() {
            [Step::And(filters) | Step::Or(filters) | Step::Not(filters)] => {
                filters.iter().all(Self::takes_all)
            }
            [step] => !step.changes(),
            _ => false,
        }
    }
}

impl Step {
    fn bounds(&self) -> KeyBounds {
        match self {
            Self::StartsWith(prefix) => KeyBounds::of_prefix(prefix.clone()),
            Self::Equals { value: FilterValue::Text(text), is_wanted: true } => {
                KeyBounds::between(text.clone(), text)
            }
            Self::Between {
                low: FilterValue::Text(low), high: FilterValue::Text(high), ..
            } => KeyBounds::between(low.clone(), high),
            Self::Compare { name, value: FilterValue::Text(text) } => match *name {
                "greater_than" | "greater_than_eq" => KeyBounds { from: text.clone(), end: None },
                _ => KeyBounds::between(Bytes::new(), text),
            },
            Self::And(filters) if filters.iter().all(KeyFilter::takes_all) => {
                filters.iter().map(KeyFilter::bounds).fold(KeyBounds::ALL, KeyBounds::and)
            }
            _ => KeyBounds::ALL,
        }
    }

    /// True if the step changes the value, false if it is a predicate.
    pub(super) const fn changes(&self) -> bool {
        matches!(
            self,
            Self::IntToString
                | Self::StringToInt
                | Self::FloatToString
                | Self::StringToFloat
                | Self::ToUpper
                | Self::ToLower
                | Self::Tokenize { .. }
                | Self::UrlDecode
        )
    }
}
