//! Filters of folds over HTTP: Base64 of JSON.
//!
//! Of cached trees a list of numbers, or segments with a range of dates; of all else an object with any of
//! `key_range`, `date_range`, `segment_filter`, `hash_iv`, `change_method`. What is missing, or `"all"`,
//! restricts nothing.
//! Errors have Riak's texts, which show the part that is wrong as an Erlang term.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use quoit_model::segments::TreeSize;
use serde_json::{Map, Value, json};
use thiserror::Error;

/// Segments of a tree of a size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentFilter {
    /// The segments' numbers.
    pub segments: Vec<u32>,
    /// The size of the tree.
    pub tree_size: TreeSize,
}

/// Whether and by whom a fold changes what it finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeMethod {
    /// It only counts.
    Count,
    /// Each node changes what it has found.
    Local,
    /// A job with a number does.
    Job(u64),
}

/// Restrictions of a fold over a bucket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RangeFilter {
    /// The first and the last key.
    pub keys: Option<(Bytes, Bytes)>,
    /// The first and the last second of the last write, since 1970.
    pub modified_secs: Option<(u64, u64)>,
    /// Segments.
    pub segments: Option<SegmentFilter>,
    /// Salt with which the hashes of a tree are computed anew.
    pub salt: Option<u32>,
    /// Change method; `None` where the filter has none.
    pub change_method: Option<ChangeMethod>,
}

/// A filter that is none, in Riak's words.
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

/// A JSON value as Riak's error texts show it: as an Erlang term.
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
    /// Reads a filter; the parameter's value as it came.
    ///
    /// # Errors
    ///
    /// Refuses bytes that are no Base64 of JSON, and malformed members.
    pub fn parse(encoded: &str) -> Result<Self, FilterError> {
        let value = decode(encoded).ok_or_else(|| FilterError(format!("{encoded:?}")))?;
        let members = value.as_object().ok_or_else(|| FilterError::whole(&value))?;
        // The word stands for a member that is missing.
        let given = |name: &str| members.get(name).filter(|value| *value != "all");
        Ok(Self {
            keys: given("key_range").map(key_range).transpose()?,
            modified_secs: given("date_range").map(date_range).transpose()?,
            segments: given("segment_filter").map(segment_filter).transpose()?,
            salt: members.get("hash_iv").map(hash_iv).transpose()?,
            change_method: members.get("change_method").map(change_method).transpose()?,
        })
    }

    /// The parameter's value; `None` where nothing is restricted.
    ///
    /// Keys have to be UTF-8: others are not in it.
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

/// Which branches or segments of a cached tree are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CachedFilter {
    /// Numbers of branches, or of segments.
    Numbers(Vec<u32>),
    /// Segments, of records that were last written between two seconds since 1970.
    Segments(SegmentFilter, Option<(u64, u64)>),
}

/// A filter of cached trees that is none, in Riak's words.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CachedFilterError {
    /// Something else.
    #[error("Invalid branch | segment filter {0}")]
    Invalid(String),
    /// Segments where they are not expected.
    #[error("Invalid filter for branch")]
    NotForBranches,
    /// Members that are not as they should be.
    #[error(transparent)]
    Member(#[from] FilterError),
}

impl CachedFilter {
    /// Reads a filter of branches.
    ///
    /// # Errors
    ///
    /// Anything but Base64 of a JSON list of numbers.
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
    /// Anything but Base64 of a JSON list of numbers, or of an object with `segment_filter` and maybe
    /// `date_range`.
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

    /// The parameter's value.
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

/// Decodes Base64 as Riak does: spaces and line breaks, which tools put into long texts, count for nothing.
/// `None` where the rest is no Base64.
#[must_use]
pub fn decode_base64(encoded: &[u8]) -> Option<Vec<u8>> {
    let encoded: Vec<u8> =
        encoded.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    STANDARD.decode(encoded).ok()
}

/// The members `start` and `end` of a range that is an object.
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
