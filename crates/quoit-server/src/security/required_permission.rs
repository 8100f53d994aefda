//! The permission that a request requires.

use quoit_model::key::BucketRef;
use quoit_security::Permission;

/// The buckets for which a request requires a permission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PermissionScope<'n> {
    /// All buckets of all bucket types.
    Any,
    /// All buckets of a bucket type.
    Type(&'n [u8]),
    /// One bucket of a bucket type.
    Bucket(BucketRef<'n>),
}

/// The permission that a request requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequiredPermission<'n> {
    pub(crate) permission: Permission,
    pub(crate) on: PermissionScope<'n>,
    /// The key, for the audit log. Permissions do not depend on it.
    pub(crate) key: Option<&'n [u8]>,
}

impl<'n> RequiredPermission<'n> {
    pub(crate) const fn any(permission: Permission) -> Self {
        Self { permission, on: PermissionScope::Any, key: None }
    }

    pub(crate) const fn of_type(permission: Permission, bucket_type: &'n [u8]) -> Self {
        Self { permission, on: PermissionScope::Type(bucket_type), key: None }
    }

    pub(crate) const fn of_bucket(permission: Permission, bucket: BucketRef<'n>) -> Self {
        Self { permission, on: PermissionScope::Bucket(bucket), key: None }
    }

    /// Adds the key of the record.
    pub(crate) const fn of_key(self, key: Option<&'n [u8]>) -> Self {
        Self { key, ..self }
    }

    /// The text of the refusal, as in Riak.
    pub(crate) fn denied(&self, user: &str) -> String {
        let text = |bytes: &'n [u8]| String::from_utf8_lossy(bytes);
        let on = match self.on {
            PermissionScope::Any => "any".to_owned(),
            PermissionScope::Type(bucket_type) => text(bucket_type).into_owned(),
            PermissionScope::Bucket(BucketRef { bucket_type, bucket }) => {
                format!("{}/{}", text(bucket_type), text(bucket))
            }
        };
        format!("Permission denied: User '{user}' does not have '{}' on {on}", self.permission)
    }
}
