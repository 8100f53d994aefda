//! Ranges of keys outside of which a filter accepts nothing, so that other keys need not be looked at.

use super::value::FilterValue;
use super::{KeyFilter, Step};
use bytes::Bytes;
use quoit_model::key_bounds::KeyBounds;

impl KeyFilter {
    /// A range that has all keys that the filter accepts, and all that it can't be applied to.
    #[must_use]
    pub fn bounds(&self) -> KeyBounds {
        // Further steps would have to do with a boolean, and steps before have changed the key.
        match self.steps.as_slice() {
            [step] => step.bounds(),
            _ => KeyBounds::ALL,
        }
    }

    /// Whether it can be applied to any key.
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

    /// Whether the step makes another value of the key, instead of a decision.
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
