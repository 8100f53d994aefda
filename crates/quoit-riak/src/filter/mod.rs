//! Filters of folds over HTTP: JSON in Base64.
//!
//! A filter of cached trees is a list of numbers, or segments with a range of dates. Any other filter
//! is an object whose members may be `key_range`, `date_range`, `segment_filter`, `hash_iv` and
//! `change_method`. A member that is missing, or `"all"`, restricts nothing. Errors have Riak's texts,
//! which show the invalid part as an Erlang term.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use quoit_model::segments::TreeSize;
use serde_json::{Map, Value, json};
use thiserror::Error;

/// Segments of a tree of a given size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentFilter {
    /// Numbers of the segments.
    pub segments: Vec<u32>,
    /// Size of the tree.
    pub tree_size: TreeSize,
}

/// Way in which a fold changes the records that it finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeMethod {
    /// Only counts them.
    Count,
    /// Each node changes the records that it finds.
    Local,
    /// A job with this number changes them.
    Job(u64),
}

/// Restrictions of a fold over a bucket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RangeFilter {
    /// First and last key, both included.
    pub keys: Option<(Bytes, Bytes)>,
    /// First and last time of the last write, in seconds since 1970.
    pub modified_secs: Option<(u64, u64)>,
    /// Segments.
    pub segments: Option<SegmentFilter>,
    /// Salt for the hashes of a tree.
    pub salt: Option<u32>,
    /// Change method; `None` if the filter has none.
    pub change_method: Option<ChangeMethod>,
}

/// Error for an invalid filter, in Riak's words.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("Invalid range filter {0}")]
pub struct FilterError(String);

impl FilterError {
    fn whole(value: &Value) -> Self {
        Self(erlang_text(value))
    }

    fn of(name: &str, value: Option<&Value>) -> Self {
        Self(format!("{{<<\"{name}\">>,{}}}", text_or_undefined(value)))
    }
}

fn text_or_undefined(value: Option<&Value>) -> String {
    value.map_or_else(|| "undefined".to_owned(), erlang_text)
}

/// A JSON value in the form of Riak's error texts: as an Erlang term.
#[must_use]
pub fn erlang_text(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(",");
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("<<{text:?}>>"),
        Value::Array(items) => format!("[{}]", joined(items.iter().map(erlang_text).collect())),
        Value::Object(members) => {
            let pair = |(name, value)| format!("{{<<{name:?}>>,{}}}", erlang_text(value));
            format!("{{struct,[{}]}}", joined(members.iter().map(pair).collect()))
        }
    }
}

impl RangeFilter {
    /// Reads a filter from the value of the parameter.
    ///
    /// # Errors
    ///
    /// Values that are not JSON in Base64, and malformed members.
    pub fn parse(encoded: &str) -> Result<Self, FilterError> {
        let value = decode(encoded).ok_or_else(|| FilterError(format!("{encoded:?}")))?;
        let members = value.as_object().ok_or_else(|| FilterError::whole(&value))?;
        // The word `all` stands for a missing member.
        let given = |name: &str| members.get(name).filter(|value| *value != "all");
        Ok(Self {
            keys: given("key_range").map(key_range).transpose()?,
            modified_secs: given("date_range").map(date_range).transpose()?,
            segments: given("segment_filter").map(segment_filter).transpose()?,
            salt: members.get("hash_iv").map(hash_iv).transpose()?,
            change_method: members.get("change_method").map(change_method).transpose()?,
        })
    }

    /// Encodes the value of the parameter; `None` if nothing is restricted.
    ///
    /// A range of keys that are not UTF-8 is left out.
    #[must_use]
    pub fn encode(&self) -> Option<String> {
        let mut members = Map::new();
        let text = |key: &Bytes| std::str::from_utf8(key).ok().map(str::to_owned);
        if let Some((first, last)) = &self.keys
            && let (Some(start), Some(end)) = (text(first), text(last))
        {
            members.insert("key_range".into(), json!({"start": start, "end": end}));
        }
        if let Some((start, end)) = self.modified_secs {
            members.insert("date_range".into(), json!({"start": start, "end": end}));
        }
        if let Some(filter) = &self.segments {
            members.insert("segment_filter".into(), filter.to_json());
        }
        if let Some(salt) = self.salt {
            members.insert("hash_iv".into(), salt.into());
        }
        if let Some(method) = self.change_method {
            let method = match method {
                ChangeMethod::Count => "count".into(),
                ChangeMethod::Local => "local".into(),
                ChangeMethod::Job(id) => json!({ "job_id": id }),
            };
            members.insert("change_method".into(), method);
        }
        (!members.is_empty()).then(|| STANDARD.encode(Value::from(members).to_string()))
    }
}

impl SegmentFilter {
    fn to_json(&self) -> Value {
        json!({"segments": self.segments, "tree_size": self.tree_size.name()})
    }
}

/// Branches or segments of a cached tree that are requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CachedFilter {
    /// Numbers of branches, or of segments.
    Numbers(Vec<u32>),
    /// Segments, limited to records whose last write was between two times in seconds since 1970.
    Segments(SegmentFilter, Option<(u64, u64)>),
}

/// Error for an invalid filter of cached trees, in Riak's words.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CachedFilterError {
    /// The filter is neither a list of numbers nor an object with segments.
    #[error("Invalid branch | segment filter {0}")]
    Invalid(String),
    /// Segments in a filter of branches.
    #[error("Invalid filter for branch")]
    NotForBranches,
    /// A member is malformed.
    #[error(transparent)]
    Member(#[from] FilterError),
}

impl CachedFilter {
    /// Reads a filter of branches.
    ///
    /// # Errors
    ///
    /// Values that are not a JSON list of numbers in Base64.
    pub fn parse_branches(encoded: &str) -> Result<Vec<u32>, CachedFilterError> {
        match parse_cached(encoded)? {
            Value::Object(_) => Err(CachedFilterError::NotForBranches),
            value => numbers(&value),
        }
    }

    /// Reads a filter of segments.
    ///
    /// # Errors
    ///
    /// Values that are neither a JSON list of numbers nor an object with `segment_filter` and an
    /// optional `date_range`, in Base64.
    pub fn parse_segments(encoded: &str) -> Result<Self, CachedFilterError> {
        let value = parse_cached(encoded)?;
        let Value::Object(members) = &value else { return Ok(Self::Numbers(numbers(&value)?)) };
        let segments = members.get("segment_filter");
        let invalid = || CachedFilterError::Invalid(erlang_text(&value));
        let segments = segment_filter(segments.ok_or_else(invalid)?)?;
        let dates = members.get("date_range").filter(|value| *value != "all");
        let dates = dates.map(date_range).transpose()?;
        Ok(Self::Segments(segments, dates))
    }

    /// Encodes the value of the parameter.
    #[must_use]
    pub fn encode(&self) -> String {
        let value = match self {
            Self::Numbers(numbers) => Value::from(numbers.clone()),
            Self::Segments(filter, dates) => {
                let mut members = Map::new();
                members.insert("segment_filter".into(), filter.to_json());
                if let Some((start, end)) = dates {
                    members.insert("date_range".into(), json!({"start": start, "end": end}));
                }
                Value::from(members)
            }
        };
        STANDARD.encode(value.to_string())
    }
}

fn parse_cached(encoded: &str) -> Result<Value, CachedFilterError> {
    decode(encoded).ok_or_else(|| CachedFilterError::Invalid(format!("{encoded:?}")))
}

fn numbers(value: &Value) -> Result<Vec<u32>, CachedFilterError> {
    let numbers = value.as_array().and_then(|items| items.iter().map(number).collect());
    numbers.ok_or_else(|| CachedFilterError::Invalid(erlang_text(value)))
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn decode(encoded: &str) -> Option<Value> {
    serde_json::from_slice(&decode_base64(encoded.as_bytes())?).ok()
}

/// Decodes Base64 in Riak's way: ignores spaces and line breaks, which tools insert into long texts.
/// `None` if the rest is not Base64.
#[must_use]
pub fn decode_base64(encoded: &[u8]) -> Option<Vec<u8>> {
    let encoded: Vec<u8> =
        encoded.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    STANDARD.decode(encoded).ok()
}

/// Members `start` and `end` of a range, which has to be an object.
fn ends<'v>(
    name: &str,
    range: &'v Value,
) -> Result<(Option<&'v Value>, Option<&'v Value>), FilterError> {
    let members = range.as_object().ok_or_else(|| FilterError::of(name, Some(range)))?;
    Ok((members.get("start"), members.get("end")))
}

fn bad_range(name: &str, ends: (Option<&Value>, Option<&Value>)) -> FilterError {
    let (start, end) = (text_or_undefined(ends.0), text_or_undefined(ends.1));
    FilterError(format!("{{<<\"{name}\">>,{{{start},{end}}}}}"))
}

fn key_range(range: &Value) -> Result<(Bytes, Bytes), FilterError> {
    let ends = ends("key_range", range)?;
    let key = |end: Option<&Value>| Some(Bytes::copy_from_slice(end?.as_str()?.as_bytes()));
    let keys = key(ends.0).zip(key(ends.1));
    keys.ok_or_else(|| bad_range("key_range", ends))
}

fn date_range(range: &Value) -> Result<(u64, u64), FilterError> {
    let ends = ends("date_range", range)?;
    let secs = |end: Option<&Value>| end?.as_u64();
    let dates = secs(ends.0).zip(secs(ends.1));
    dates.ok_or_else(|| bad_range("date_range", ends))
}

fn segment_filter(filter: &Value) -> Result<SegmentFilter, FilterError> {
    let members = filter.as_object();
    let members = members.ok_or_else(|| FilterError::of("segment_filter", Some(filter)))?;
    let segments = members.get("segments");
    let bad_segments = || FilterError(text_or_undefined(segments));
    let numbers = segments.and_then(Value::as_array).ok_or_else(bad_segments)?;
    let numbers = numbers.iter().map(number).collect::<Option<_>>().ok_or_else(bad_segments)?;
    let size = members.get("tree_size");
    let bad_size = || match size.and_then(Value::as_str) {
        Some(name) => FilterError(format!("{name:?}")),
        None => FilterError(text_or_undefined(size)),
    };
    let named = size.and_then(Value::as_str).and_then(|name| name.parse().ok());
    Ok(SegmentFilter { segments: numbers, tree_size: named.ok_or_else(bad_size)? })
}

fn hash_iv(value: &Value) -> Result<u32, FilterError> {
    number(value).ok_or_else(|| FilterError::of("hash_iv", Some(value)))
}

fn change_method(value: &Value) -> Result<ChangeMethod, FilterError> {
    let invalid = |part: Option<&Value>| FilterError::of("change_method", part);
    match value {
        Value::String(name) if name == "count" => Ok(ChangeMethod::Count),
        Value::String(name) if name == "local" => Ok(ChangeMethod::Local),
        Value::Object(members) => {
            let id = members.get("job_id");
            let number = id.and_then(Value::as_u64).filter(|number| *number > 0);
            number.map(ChangeMethod::Job).ok_or_else(|| invalid(id))
        }
        _ => Err(invalid(Some(value))),
    }
}

#[cfg(test)]
mod tests;
