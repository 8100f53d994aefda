//! One line of the audit log.

use serde_json::{Map, Value};
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// Outcome of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditOutcome<'a> {
    /// It was carried out.
    Done,
    /// It was allowed, and passed to the store.
    Allowed,
    /// It was refused, for this reason.
    Refused(&'a str),
}

/// An operation, its outcome, and the user who requested it.
#[derive(Debug, Clone)]
pub struct AuditEntry<'a> {
    /// The user who was logged in, if any.
    pub user: Option<&'a str>,
    /// The client's address; `None` for the administration socket.
    pub from: Option<IpAddr>,
    /// The interface that the client used.
    pub via: AuditedInterface,
    /// Name of the operation: that of its permission or of its command.
    pub what: &'a str,
    /// Outcome of the operation.
    pub outcome: AuditOutcome<'a>,
    /// Subject of the operation: bucket, key, values of settings. Never a password, a token or a value of a
    /// record.
    pub details: Value,
}

/// An interface of the node, as the audit log names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditedInterface {
    /// Protocol Buffers.
    Pb,
    /// HTTP.
    Http,
    /// The administration API, over HTTP or at the local socket.
    Admin,
}

impl AuditedInterface {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pb => "pb",
            Self::Http => "http",
            Self::Admin => "admin",
        }
    }
}

impl<'a> AuditEntry<'a> {
    /// Creates an entry for an operation that was carried out, without user and address.
    #[must_use]
    pub fn new(via: AuditedInterface, what: &'a str) -> AuditEntry<'a> {
        let outcome = AuditOutcome::Done;
        AuditEntry { user: None, from: None, via, what, outcome, details: Value::Null }
    }

    /// The log line, including its line feed.
    pub(super) fn line(&self) -> String {
        let mut line = Map::new();
        let mut put = |name: &str, value: Value| line.insert(name.to_owned(), value);
        put("time", now().into());
        put("via", self.via.as_str().into());
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

/// The current time in the format of RFC 3339, in milliseconds.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let secs = i64::try_from(since.as_secs()).unwrap_or_default();
    let time = OffsetDateTime::from_unix_timestamp(secs).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (hour, minute, second) = time.to_hms();
    let millis = since.subsec_millis();
    format!("{}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z", time.date())
}
