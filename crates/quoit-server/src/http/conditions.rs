//! Conditional requests: `If-Match` and related headers.

use super::head::{Head, Method};
use super::refusal::Refusal;
use base64::Engine as _;
use bytes::Bytes;
use quoit_core::{EntityTags, Precondition};
use quoit_model::clock::VersionVector;
use quoit_model::context::decode_context;
use std::time::{SystemTime, UNIX_EPOCH};

/// Conditions of a read.
#[derive(Debug, Default)]
pub struct ReadConditions {
    any_match: Option<EntityTags>,
    none_match: Option<EntityTags>,
    modified_since_secs: Option<u64>,
    unmodified_since_secs: Option<u64>,
}

/// Result of the conditions of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConditionOutcome {
    /// Answer as if there were no conditions.
    Proceed,
    /// The client already has the current version.
    NotModified,
    /// A condition does not hold.
    Failed,
}

/// Times in seconds since 1970 with which conditions are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadTimes {
    /// Time of the object's last write.
    pub last_modified_secs: u64,
    /// Time of the request.
    pub now_secs: u64,
}

impl ReadConditions {
    /// The conditions in a request's headers. Invalid dates are ignored.
    pub fn of(head: &Head) -> Self {
        Self {
            any_match: head.get_list_shared("if-match").map(|value| entity_tags(&value)),
            none_match: head.get_list_shared("if-none-match").map(|value| entity_tags(&value)),
            modified_since_secs: head.get("if-modified-since").and_then(unix_secs),
            unmodified_since_secs: head.get("if-unmodified-since").and_then(unix_secs),
        }
    }

    /// True if the request has no conditions.
    pub const fn is_none(&self) -> bool {
        self.any_match.is_none()
            && self.none_match.is_none()
            && self.modified_since_secs.is_none()
            && self.unmodified_since_secs.is_none()
    }

    /// Evaluates the conditions for an object that exists.
    pub fn verdict(&self, etag: &[u8], times: ReadTimes) -> ConditionOutcome {
        let ReadTimes { last_modified_secs, now_secs } = times;
        if self.any_match.as_ref().is_some_and(|tags| !matches(tags, etag))
            || self.unmodified_since_secs.is_some_and(|since| last_modified_secs > since)
        {
            return ConditionOutcome::Failed;
        }
        match (&self.none_match, self.modified_since_secs) {
            (Some(tags), _) if matches(tags, etag) => ConditionOutcome::NotModified,
            (None, Some(since)) if since <= now_secs && last_modified_secs <= since => {
                ConditionOutcome::NotModified
            }
            _ => ConditionOutcome::Proceed,
        }
    }
}

/// The conditions of a write or delete. The store checks them atomically with the write. As in Riak,
/// `X-Riak-If-Not-Modified` counts for PUT only.
///
/// # Errors
///
/// A malformed version vector.
pub fn write_precondition(head: &Head) -> Result<Precondition, Refusal> {
    let clock = match head.method {
        Some(Method::Put) => clock(head, "x-riak-if-not-modified")?,
        _ => None,
    };
    let conditions = ReadConditions::of(head);
    Ok(Precondition {
        clock,
        none_match: conditions.none_match,
        any_match: conditions.any_match,
        unmodified_since_secs: conditions.unmodified_since_secs,
        ..Precondition::default()
    })
}

/// A causal context in a header.
///
/// # Errors
///
/// Text that is not base64, and bytes that are not a causal context.
pub fn clock(head: &Head, header: &str) -> Result<Option<VersionVector>, Refusal> {
    let Some(text) = head.get(header) else { return Ok(None) };
    let bytes = base64::engine::general_purpose::STANDARD.decode(text.trim_ascii()).map_err(|_| {
        let shown = String::from_utf8_lossy(text.get(..80).unwrap_or(text)).into_owned();
        Refusal::bad(format!(
            "{header} is not base64: {shown:?}; send the X-Riak-Vclock of an answer as it came\n"
        ))
    })?;
    match decode_context(&bytes) {
        Ok(clock) => Ok(Some(clock)),
        Err(fault) => Err(Refusal::bad(format!("{header}: {fault}\n"))),
    }
}

fn matches(tags: &EntityTags, etag: &[u8]) -> bool {
    match tags {
        EntityTags::Any => true,
        EntityTags::Tags(tags) => tags.iter().any(|tag| **tag == *etag),
    }
}

/// Parses a list of entity tags. Weak tags count as strong ones. Text without quotes is ignored and matches
/// nothing.
fn entity_tags(header: &Bytes) -> EntityTags {
    let mut tags = Vec::new();
    for part in header.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        if part == b"*" {
            return EntityTags::Any;
        }
        let strong = part.strip_prefix(b"W/").unwrap_or(part);
        let inside = strong.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        tags.extend(inside.map(|tag| header.slice_ref(tag)));
    }
    EntityTags::Tags(tags)
}

fn unix_secs(date: &[u8]) -> Option<u64> {
    let time: SystemTime = httpdate::parse_http_date(std::str::from_utf8(date).ok()?).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::take_head;
    use bytes::BytesMut;

    const NOW_SECS: u64 = 2_000_000_000;
    const MODIFIED_SECS: u64 = 1_700_000_000;
    const MODIFIED: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
    const EARLIER: &str = "Mon, 01 Jan 2001 00:00:00 GMT";

    fn head(headers: &str) -> Head {
        let text = format!("GET / HTTP/1.1\r\n{headers}\r\n\r\n");
        take_head(&mut BytesMut::from(text.as_str())).expect("valid").expect("whole")
    }

    fn verdict(headers: &str) -> ConditionOutcome {
        let times = ReadTimes { last_modified_secs: MODIFIED_SECS, now_secs: NOW_SECS };
        ReadConditions::of(&head(headers)).verdict(b"tag", times)
    }

    #[test]
    fn reads_follow_tags_and_dates() {
        for (headers, expected) in [
            ("If-None-Match: \"tag\"", ConditionOutcome::NotModified),
            ("If-None-Match: \"a\", W/\"tag\"", ConditionOutcome::NotModified),
            ("If-None-Match: tag", ConditionOutcome::Proceed),
            ("If-Match: tag", ConditionOutcome::Failed),
            ("If-None-Match: *", ConditionOutcome::NotModified),
            ("If-None-Match: \"other\"", ConditionOutcome::Proceed),
            ("If-Match: \"tag\"", ConditionOutcome::Proceed),
            ("If-Match: *", ConditionOutcome::Proceed),
            ("If-Match: \"other\"", ConditionOutcome::Failed),
            (&format!("If-Modified-Since: {MODIFIED}"), ConditionOutcome::NotModified),
            (&format!("If-Modified-Since: {EARLIER}"), ConditionOutcome::Proceed),
            ("If-Modified-Since: not a date", ConditionOutcome::Proceed),
            ("If-Modified-Since: Fri, 31 Dec 2066 00:00:00 GMT", ConditionOutcome::Proceed),
            (&format!("If-Unmodified-Since: {MODIFIED}"), ConditionOutcome::Proceed),
            (&format!("If-Unmodified-Since: {EARLIER}"), ConditionOutcome::Failed),
            ("X: y", ConditionOutcome::Proceed),
        ] {
            assert_eq!(verdict(headers), expected, "{headers}");
        }
    }

    #[test]
    fn a_tag_beats_a_date() {
        let both = format!("If-None-Match: \"other\"\r\nIf-Modified-Since: {MODIFIED}");
        assert_eq!(verdict(&both), ConditionOutcome::Proceed);
    }

    #[test]
    fn a_clock_that_is_none_is_refused_by_name() {
        for value in ["!!!", "bm90IGEgY2xvY2s="] {
            let head = head(&format!("X-Riak-Vclock: {value}"));
            let Err(Refusal::Text(400, text)) = clock(&head, "x-riak-vclock") else {
                panic!("{value} is accepted")
            };
            assert!(text.starts_with("x-riak-vclock"), "{text}");
        }
        assert!(matches!(clock(&head("A: b"), "x-riak-vclock"), Ok(None)));
    }

    #[test]
    fn a_put_alone_looks_at_if_not_modified() {
        let precondition = |method: &str| {
            let text = format!(
                "{method} / HTTP/1.1\r\nX-Riak-If-Not-Modified: !!!\r\nIf-Match: *\r\n\r\n"
            );
            let head =
                take_head(&mut BytesMut::from(text.as_str())).expect("valid").expect("whole");
            write_precondition(&head)
        };
        for method in ["POST", "DELETE"] {
            let found = precondition(method).expect("the clock is not looked at");
            assert_eq!((found.clock, found.any_match), (None, Some(EntityTags::Any)), "{method}");
        }
        assert!(precondition("PUT").is_err());
    }
}
