//! Entries of the audit log for operations of clients.

use super::{AuditEntry, AuditLog, AuditOutcome, AuditedInterface};
use crate::security::{PermissionScope, RequiredPermission};
use quoit_cluster::ChangeError;
use quoit_model::key::BucketRef;
use quoit_model::props::PropUpdates;
use quoit_security::{NAME_BYTES_MAX, Permission};
use serde_json::{Value, json};
use std::io;
use std::net::IpAddr;
use std::time::Instant;

/// Maximum length of a recorded name or path that a stranger has sent, and of a reason that may contain it,
/// in bytes.
pub(crate) const REFUSED_BYTES_MAX: usize = 256;

/// A change of properties that a client requested.
pub(crate) struct PropsChange<'a> {
    /// The required permission. The log calls the operation by its name.
    pub(crate) permission: Permission,
    bucket_type: &'a [u8],
    /// The bucket; `None` for a change of the bucket type.
    bucket: Option<&'a [u8]>,
    /// The new values; `None` if the bucket's own properties are reset.
    updates: Option<&'a PropUpdates>,
}

impl<'a> PropsChange<'a> {
    pub(crate) const fn of_bucket(of: BucketRef<'a>, updates: Option<&'a PropUpdates>) -> Self {
        let BucketRef { bucket_type, bucket } = of;
        let permission = Permission::SetBucket;
        Self { permission, bucket_type, bucket: Some(bucket), updates }
    }

    pub(crate) const fn of_type(bucket_type: &'a [u8], updates: Option<&'a PropUpdates>) -> Self {
        let permission = Permission::SetBucketType;
        Self { permission, bucket_type, bucket: None, updates }
    }

    /// Type, bucket and new values. Names are cut at `name_bytes_max`.
    #[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
    fn details(&self, name_bytes_max: usize) -> Value {
        let text = |name: &[u8]| {
            let text = String::from_utf8_lossy(name);
            text.split_at(text.floor_char_boundary(name_bytes_max)).0.to_owned()
        };
        let mut details = json!({"type": text(self.bucket_type)});
        if let Some(bucket) = self.bucket {
            details["bucket"] = text(bucket).into();
        }
        if let Some(updates) = self.updates {
            details["props"] = updates.iter().map(|(name, value)| (name, value.clone())).collect();
        }
        details
    }
}

/// The bucket and the key of an operation.
#[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
fn subject(need: &RequiredPermission<'_>) -> Value {
    let text = |name: &[u8]| Value::from(String::from_utf8_lossy(name));
    let mut subject = match need.on {
        PermissionScope::Any => return Value::Null,
        PermissionScope::Type(bucket_type) => json!({"type": text(bucket_type)}),
        PermissionScope::Bucket(BucketRef { bucket_type, bucket }) => {
            json!({"type": text(bucket_type), "bucket": text(bucket)})
        }
    };
    if let Some(key) = need.key {
        subject["key"] = text(key);
    }
    subject
}

impl AuditLog {
    /// Records a change of properties that was carried out or refused. `by` has the user and address.
    pub(crate) fn record_props(
        &self,
        by: AuditEntry<'_>,
        change: &PropsChange<'_>,
        fault: Option<&ChangeError>,
    ) {
        if !self.is_on() {
            return;
        }
        let reason = fault.map(ToString::to_string);
        let outcome = reason.as_deref().map_or(AuditOutcome::Done, AuditOutcome::Refused);
        self.record(&AuditEntry { outcome, details: change.details(usize::MAX), ..by });
    }

    /// Records a change of properties that was refused before it was examined, at most a few in a second.
    /// `by` has the user and address. A long reason is cut.
    pub(crate) fn record_refused_props(
        &self,
        by: AuditEntry<'_>,
        change: &PropsChange<'_>,
        reason: &str,
    ) {
        if !self.is_on() || !self.props.has_room(Instant::now()) {
            return;
        }
        let (reason, _) = reason.split_at(reason.floor_char_boundary(REFUSED_BYTES_MAX));
        let (outcome, details) = (AuditOutcome::Refused(reason), change.details(REFUSED_BYTES_MAX));
        self.record(&AuditEntry { outcome, details, ..by });
    }

    /// Records a checked operation if it was refused (`denied` is the reason), or if its bucket was chosen.
    /// `by` has the user and address.
    pub(crate) fn record_checked(
        &self,
        by: AuditEntry<'_>,
        need: &RequiredPermission<'_>,
        denied: Option<&str>,
    ) {
        if !self.is_on() {
            return;
        }
        let is_chosen = match need.on {
            PermissionScope::Bucket(bucket) => self.buckets.has(bucket),
            PermissionScope::Type(_) | PermissionScope::Any => false,
        };
        let outcome = match denied {
            Some(reason) if is_chosen || self.operations.has_room(Instant::now()) => {
                AuditOutcome::Refused(reason)
            }
            None if is_chosen => AuditOutcome::Allowed,
            _ => return,
        };
        self.record(&AuditEntry { outcome, details: subject(need), ..by });
    }

    /// Records a handshake that failed because of the client's certificate. Other failures mostly come from
    /// programs that do not use TLS.
    pub(crate) fn record_failed_handshake(
        &self,
        via: AuditedInterface,
        fault: &io::Error,
        address: IpAddr,
    ) {
        if !self.is_on()
            || !quoit_tls::is_refused_certificate(fault)
            || !self.logins.has_room(Instant::now())
        {
            return;
        }
        let reason = quoit_tls::failure_words(fault);
        self.record(&AuditEntry {
            from: Some(address),
            outcome: AuditOutcome::Refused(&reason),
            ..AuditEntry::new(via, "handshake")
        });
    }

    /// True if a change that was refused before it was examined is to be recorded. Callers check it first, so
    /// that other such changes cost nothing more; they are only counted.
    pub(crate) fn records_refused_change(&self) -> bool {
        self.is_on() && self.changes.has_room(Instant::now())
    }

    /// Records a refused login. The name is as sent, truncated to the longest valid length.
    pub(crate) fn record_refused_login(&self, via: AuditedInterface, user: &str, address: IpAddr) {
        if !self.is_on() || !self.logins.has_room(Instant::now()) {
            return;
        }
        let (user, _) = user.split_at(user.floor_char_boundary(NAME_BYTES_MAX));
        let outcome = AuditOutcome::Refused(
            "the proof is wrong, no source admits the user, or the node was cut off for too long",
        );
        let from = Some(address);
        self.record(&AuditEntry {
            user: Some(user),
            from,
            outcome,
            ..AuditEntry::new(via, "login")
        });
    }
}
