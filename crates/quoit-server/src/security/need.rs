//! The right that a request asks for.

use quoit_security::Permission;

/// The buckets that a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum On<'n> {
    /// All buckets of all types.
    Any,
    /// All buckets of a type.
    Type(&'n [u8]),
    /// One bucket of a type.
    Bucket(&'n [u8], &'n [u8]),
}

/// The right that a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Need<'n> {
    pub(crate) permission: Permission,
    pub(crate) on: On<'n>,
    /// The record, for the audit log: rights are of buckets.
    pub(crate) key: Option<&'n [u8]>,
}

impl<'n> Need<'n> {
    pub(crate) const fn any(permission: Permission) -> Self {
        Self { permission, on: On::Any, key: None }
    }

    pub(crate) const fn of_type(permission: Permission, bucket_type: &'n [u8]) -> Self {
        Self { permission, on: On::Type(bucket_type), key: None }
    }

    pub(crate) const fn of_bucket(
        permission: Permission,
        bucket_type: &'n [u8],
        bucket: &'n [u8],
    ) -> Self {
        Self { permission, on: On::Bucket(bucket_type, bucket), key: None }
    }

    /// The same for a record of the bucket.
    pub(crate) const fn of_key(self, key: Option<&'n [u8]>) -> Self {
        Self { key, ..self }
    }

    /// The refusal, in Riak's words.
    pub(crate) fn denied(&self, user: &str) -> String {
        let text = |bytes: &'n [u8]| String::from_utf8_lossy(bytes);
        let on = match self.on {
            On::Any => "any".to_owned(),
            On::Type(bucket_type) => text(bucket_type).into_owned(),
            On::Bucket(bucket_type, bucket) => format!("{}/{}", text(bucket_type), text(bucket)),
        };
        format!("Permission denied: User '{user}' does not have '{}' on {on}", self.permission)
    }
}
