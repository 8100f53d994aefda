//! Key filters: a key passes through a chain of steps, and the last step decides whether it is an input of
//! the job.

mod bounds;
mod parse;
mod value;

use bytes::Bytes;
use quoit_model::etf::Term;
use regex::bytes::Regex;
use std::cmp::Ordering;
use thiserror::Error;
use value::FilterValue;

/// Maximum number of steps of a filter, including those of filters nested in it.
const STEP_COUNT_MAX: usize = 1_000;
/// Maximum nesting depth of filters.
const NESTING_MAX: u32 = 32;
/// Maximum size of the text of `similar_to` in bytes. The time for each key grows with it.
const SIMILAR_BYTES_MAX: usize = 1024;
/// Maximum size of a regular expression in bytes.
const PATTERN_BYTES_MAX: usize = 4 * 1024;
/// Maximum memory of a compiled regular expression in bytes.
const COMPILED_BYTES_MAX: usize = 1024 * 1024;

/// A key filter.
#[derive(Clone, Debug)]
pub struct KeyFilter {
    steps: Vec<Step>,
    document: Term,
}

impl PartialEq for KeyFilter {
    fn eq(&self, other: &Self) -> bool {
        self.document == other.document
    }
}

/// Reason for which a filter is invalid or cannot be applied to a key.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FilterFault {
    /// A step has an unknown name.
    #[error("{{bad_filter,{}}}", crate::print_term(&Term::Binary(.0.clone())))]
    BadFilter(Bytes),
    /// A step has invalid arguments.
    #[error("the key filter {name} {reason}")]
    BadArguments {
        /// Name of the step.
        name: &'static str,
        /// Description of the valid arguments.
        reason: String,
    },
    /// The filter is not a list of steps.
    #[error("a key filter is a list of steps, each a list of a name and arguments, and not {0}")]
    NotSteps(String),
    /// The filter has too many steps, or is nested too deeply.
    #[error("a key filter has at most {STEP_COUNT_MAX} steps, nested at most {NESTING_MAX} deep")]
    TooLarge,
    /// A step cannot be applied to the value that the key has become.
    #[error("badarg: the key filter {name} can't be applied to {value} of the key {key}")]
    BadValue {
        /// Name of the step.
        name: &'static str,
        /// Value that the previous steps made of the key, as Erlang prints it.
        value: String,
        /// The key.
        key: String,
    },
    /// The last step does not return a boolean.
    #[error(
        "the last step of a key filter must be a predicate, but its result for the key {0} is {1}"
    )]
    NotBoolean(String, String),
    /// Error text of another node that applied the filter.
    #[error("{0}")]
    AtNode(String),
}

#[derive(Clone, Debug)]
enum Step {
    IntToString,
    StringToInt,
    FloatToString,
    StringToFloat,
    ToUpper,
    ToLower,
    Tokenize { separators: Bytes, number: usize },
    UrlDecode,
    Compare { name: &'static str, value: FilterValue },
    Between { low: FilterValue, high: FilterValue, is_inclusive: bool },
    Matches(Regex),
    Equals { value: FilterValue, is_wanted: bool },
    SetMember(Vec<FilterValue>),
    SimilarTo { text: Bytes, distance: usize },
    StartsWith(Bytes),
    EndsWith(Bytes),
    And(Vec<KeyFilter>),
    Or(Vec<KeyFilter>),
    Not(Vec<KeyFilter>),
}

impl KeyFilter {
    /// Parses a filter: a list of steps, each of them a list of a name and arguments.
    ///
    /// # Errors
    ///
    /// A step has an unknown name or invalid arguments, the term is not a list of steps, or the filter is
    /// too large.
    pub fn from_term(term: &Term) -> Result<Self, FilterFault> {
        parse::filter(term, &mut { STEP_COUNT_MAX }, NESTING_MAX)
    }

    /// The term from which [`KeyFilter::from_term`] parsed the filter.
    #[must_use]
    pub const fn to_term(&self) -> &Term {
        &self.document
    }

    /// Returns true if a key passes the filter.
    ///
    /// # Errors
    ///
    /// A step cannot be applied to the key, or the last step does not return a boolean.
    pub fn accepts(&self, key: &Bytes) -> Result<bool, FilterFault> {
        let print = |bytes: &Bytes| crate::print_term(&Term::Binary(bytes.clone()));
        self.accepts_value(FilterValue::Text(key.clone())).map_err(|fault| match fault {
            FilterFault::BadValue { name, value, .. } => {
                FilterFault::BadValue { name, value, key: print(key) }
            }
            FilterFault::NotBoolean(_, value) => FilterFault::NotBoolean(print(key), value),
            fault => fault,
        })
    }

    fn accepts_value(&self, start: FilterValue) -> Result<bool, FilterFault> {
        let end = self.steps.iter().try_fold(start, |value, step| step.apply(value))?;
        match end {
            FilterValue::Boolean(accepts) => Ok(accepts),
            other => Err(FilterFault::NotBoolean(String::new(), other.printed())),
        }
    }
}

impl Step {
    fn apply(&self, value: FilterValue) -> Result<FilterValue, FilterFault> {
        if self.changes() {
            return self.change(value);
        }
        Ok(FilterValue::Boolean(self.test(value)?))
    }

    fn change(&self, value: FilterValue) -> Result<FilterValue, FilterFault> {
        let text = value.text().cloned();
        let changed = match (self, &value) {
            (Self::IntToString, FilterValue::Integer(number)) => {
                Some(FilterValue::Text(number.to_string().into()))
            }
            (Self::FloatToString, FilterValue::Float(number)) => {
                Some(FilterValue::Text(format!("{number:?}").into()))
            }
            (Self::StringToInt, _) => text.and_then(|text| value::integer(&text)),
            (Self::StringToFloat, _) => text.and_then(|text| value::float(&text)),
            (Self::ToUpper, _) => {
                text.map(|text| FilterValue::Text(text.to_ascii_uppercase().into()))
            }
            (Self::ToLower, _) => {
                text.map(|text| FilterValue::Text(text.to_ascii_lowercase().into()))
            }
            (Self::UrlDecode, _) => text.map(|text| FilterValue::Text(value::url_decoded(&text))),
            (Self::Tokenize { separators, number }, _) => text.and_then(|text| {
                let parts = text.split(|byte| separators.contains(byte));
                let token = parts.filter(|part| !part.is_empty()).nth(number - 1)?;
                Some(FilterValue::Text(text.slice_ref(token)))
            }),
            _ => None,
        };
        changed.ok_or_else(|| self.bad_value(&value))
    }

    fn test(&self, value: FilterValue) -> Result<bool, FilterFault> {
        let text = || value.text().ok_or_else(|| self.bad_value(&value));
        Ok(match self {
            Self::Compare { name, value: other } => {
                let ordering = value.compare(other);
                match *name {
                    "greater_than" => ordering == Ordering::Greater,
                    "less_than" => ordering == Ordering::Less,
                    "greater_than_eq" => ordering != Ordering::Less,
                    _ => ordering != Ordering::Greater,
                }
            }
            Self::Between { low, high, is_inclusive } => {
                let (above, below) = (value.compare(low), value.compare(high));
                match is_inclusive {
                    true => above.is_ge() && below.is_le(),
                    false => above.is_gt() && below.is_lt(),
                }
            }
            Self::Matches(pattern) => pattern.is_match(text()?),
            Self::Equals { value: other, is_wanted } => (value == *other) == *is_wanted,
            Self::SetMember(members) => members.contains(&value),
            Self::SimilarTo { text: other, distance } => {
                let text = text()?;
                text.len().abs_diff(other.len()) <= *distance
                    && strsim::generic_levenshtein(&ByteText(text), &ByteText(other)) <= *distance
            }
            Self::StartsWith(prefix) => text()?.starts_with(prefix),
            Self::EndsWith(suffix) => text()?.ends_with(suffix),
            Self::And(filters) => each(filters, &value)?.iter().all(|accepts| *accepts),
            Self::Or(filters) => each(filters, &value)?.iter().any(|accepts| *accepts),
            Self::Not(filters) => !each(filters, &value)?.iter().all(|accepts| *accepts),
            _ => false,
        })
    }

    fn bad_value(&self, value: &FilterValue) -> FilterFault {
        let name = match self {
            Self::IntToString => "int_to_string",
            Self::StringToInt => "string_to_int",
            Self::FloatToString => "float_to_string",
            Self::StringToFloat => "string_to_float",
            Self::ToUpper => "to_upper",
            Self::ToLower => "to_lower",
            Self::Tokenize { .. } => "tokenize",
            Self::UrlDecode => "urldecode",
            Self::Matches(_) => "matches",
            Self::SimilarTo { .. } => "similar_to",
            Self::StartsWith(_) => "starts_with",
            Self::EndsWith(_) => "ends_with",
            _ => "of this name",
        };
        FilterFault::BadValue { name, value: value.printed(), key: String::new() }
    }
}

fn each(filters: &[KeyFilter], value: &FilterValue) -> Result<Vec<bool>, FilterFault> {
    filters.iter().map(|filter| filter.accepts_value(value.clone())).collect()
}

/// Bytes as a sequence of characters, for the edit distance.
struct ByteText<'t>(&'t [u8]);

impl<'t> IntoIterator for &ByteText<'t> {
    type Item = &'t u8;
    type IntoIter = std::slice::Iter<'t, u8>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests;
