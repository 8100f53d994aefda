//! Operations of clients in the audit log.

use super::{AuditEntry, AuditLog, AuditOutcome};
use quoit_cluster::ChangeError;
use quoit_model::key::BucketRef;
use quoit_model::props::PropUpdates;
use quoit_security::{NAME_BYTES_MAX, Permission};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::Instant;

/// A change of properties that a client asked for.
pub(crate) struct PropsChange<'a> {
    /// The permission that it asks for, by whose name the log calls it.
    pub(crate) permission: Permission,
    bucket_type: &'a [u8],
    /// The bucket; `None` = the change is of the type.
    bucket: Option<&'a [u8]>,
    /// The new values; `None` = those of the type count again.
    updates: Option<&'a PropUpdates>,
}

impl<'a> PropsChange<'a> {
    pub(crate) const fn of_bucket(of: BucketRef<'a>, updates: Option<&'a PropUpdates>) -> Self {
        let BucketRef { bucket_type, bucket } = of;
        let permission = Permission::SetBucket;
        Self { permission, bucket_type, bucket: Some(bucket), updates }
    }

    pub(crate) const fn of_type(bucket_type: &'a [u8], updates: &'a PropUpdates) -> Self {
        let permission = Permission::SetBucketType;
        Self { permission, bucket_type, bucket: None, updates: Some(updates) }
    }

    fn details(&self) -> Value {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
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

impl AuditLog {
    /// Records a change of properties, carried out or refused. `by` tells who asked for it.
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
        self.record(&AuditEntry { outcome, details: change.details(), ..by });
    }

    /// Records an operation that was refused for a missing right. `by` tells who asked for it.
    pub(crate) fn record_denied(&self, by: AuditEntry<'_>, reason: &str) {
        if self.is_on() && self.operations.has_room(Instant::now()) {
            self.record(&AuditEntry { outcome: AuditOutcome::Refused(reason), ..by });
        }
    }

    /// Records a login that was refused. The name is as it was sent, shortened to the longest possible one.
    pub(crate) fn record_refused_login(&self, via: &str, user: &str, address: IpAddr) {
        if !self.is_on() || !self.logins.has_room(Instant::now()) {
            return;
        }
        let user = &user[..user.floor_char_boundary(NAME_BYTES_MAX)];
        let outcome = AuditOutcome::Refused("the proof is wrong, or no source admits the user");
        let from = Some(address);
        self.record(&AuditEntry { user: Some(user), from, outcome, ..AuditEntry::new(via, "login") });
    }
}
