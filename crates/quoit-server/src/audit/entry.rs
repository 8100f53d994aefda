//! One line of the audit log.

use serde_json::{Map, Value};
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditOutcome<'a> {
    /// It was carried out.
    Done,
    /// It was allowed, and handed on.
    Allowed,
    /// It was refused, for this reason.
    Refused(&'a str),
}

/// An operation, how it ended, and the user who asked for it.
#[derive(Debug, Clone)]
pub struct AuditEntry<'a> {
    /// The user who was logged in, if one was.
    pub user: Option<&'a str>,
    /// The address that the request came from; none: the administration socket.
    pub from: Option<IpAddr>,
    /// The interface: `pb`, `http`, `admin`.
    pub via: &'a str,
    /// The operation, by the name of its permission or of its command.
    pub what: &'a str,
    /// How it ended.
    pub outcome: AuditOutcome<'a>,
    /// Its subject: bucket, key, values of settings. Never a password, a token or a value of a record.
    pub details: Value,
}

impl<'a> AuditEntry<'a> {
    /// An operation by nobody in particular that was carried out.
    #[must_use]
    pub fn new(via: &'a str, what: &'a str) -> AuditEntry<'a> {
        let outcome = AuditOutcome::Done;
        AuditEntry { user: None, from: None, via, what, outcome, details: Value::Null }
    }

    /// The line, its end included.
    pub(super) fn line(&self) -> String {
        let mut line = Map::new();
        let mut put = |name: &str, value: Value| line.insert(name.to_owned(), value);
        put("time", now().into());
        put("via", self.via.into());
        put("what", self.what.into());
        if let Some(user) = self.user {
            put("user", user.into());
        }
        if let Some(from) = self.from {
            put("from", from.to_string().into());
        }
        match self.outcome {
            AuditOutcome::Done => put("outcome", "done".into()),
            AuditOutcome::Allowed => put("outcome", "allowed".into()),
            AuditOutcome::Refused(reason) => {
                put("outcome", "refused".into());
                put("reason", reason.into())
            }
        };
        if !self.details.is_null() {
            put("details", self.details.clone());
        }
        format!("{}\n", Value::Object(line))
    }
}

/// The time as RFC 3339 writes it, to the millisecond.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let secs = i64::try_from(since.as_secs()).unwrap_or_default();
    let time = OffsetDateTime::from_unix_timestamp(secs).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (hour, minute, second) = time.to_hms();
    let millis = since.subsec_millis();
    format!("{}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z", time.date())
}
