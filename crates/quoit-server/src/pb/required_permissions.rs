//! The permission that each request requires.

use super::connection::PbConnection;
use super::fault::Fault;
use super::kv::bucket_of;
use crate::audit::{AuditEntry, AuditedInterface};
use crate::security::RequiredPermission;
use bytes::Bytes;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use quoit_security::Permission;
use quoit_wire::frame::Frame;
use quoit_wire::messages as m;
use quoit_wire::messages::Body;

/// A request that requires a permission.
pub(super) trait RequiresPermission {
    /// The required permission; `None` = the client only has to be logged in.
    fn required_permission(&self) -> Option<RequiredPermission<'_>>;
}

fn type_of(bucket_type: &Option<Bytes>) -> &[u8] {
    bucket_type.as_deref().unwrap_or(DEFAULT_BUCKET_TYPE)
}

/// The key of a request, which a put may leave to the server.
trait OptionalKey {
    fn as_key(&self) -> Option<&[u8]>;
}

impl OptionalKey for Bytes {
    fn as_key(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl OptionalKey for Option<Bytes> {
    fn as_key(&self) -> Option<&[u8]> {
        self.as_deref()
    }
}

/// Requests about a record whose bucket type may be left out.
macro_rules! of_record {
    ($($message:ident: $permission:ident,)*) => {$(
        impl RequiresPermission for m::$message {
            fn required_permission(&self) -> Option<RequiredPermission<'_>> {
                let bucket = bucket_of(&self.bucket_type, &self.bucket);
                let need = RequiredPermission::of_bucket(Permission::$permission, bucket);
                Some(need.of_key(self.key.as_key()))
            }
        }
    )*};
}

/// Requests about a bucket whose bucket type may be left out.
macro_rules! of_bucket {
    ($($message:ident: $permission:ident,)*) => {$(
        impl RequiresPermission for m::$message {
            fn required_permission(&self) -> Option<RequiredPermission<'_>> {
                let bucket = bucket_of(&self.bucket_type, &self.bucket);
                Some(RequiredPermission::of_bucket(Permission::$permission, bucket))
            }
        }
    )*};
}

/// Requests about a record whose bucket type is always given.
macro_rules! of_typed_record {
    ($($message:ident: $permission:ident,)*) => {$(
        impl RequiresPermission for m::$message {
            fn required_permission(&self) -> Option<RequiredPermission<'_>> {
                let bucket = BucketRef { bucket_type: &self.bucket_type, bucket: &self.bucket };
                let need = RequiredPermission::of_bucket(Permission::$permission, bucket);
                Some(need.of_key(self.key.as_key()))
            }
        }
    )*};
}

/// Requests about a record of the bucket type `default`.
macro_rules! of_untyped_record {
    ($($message:ident: $permission:ident,)*) => {$(
        impl RequiresPermission for m::$message {
            fn required_permission(&self) -> Option<RequiredPermission<'_>> {
                let bucket = BucketRef::untyped(&self.bucket);
                let need = RequiredPermission::of_bucket(Permission::$permission, bucket);
                Some(need.of_key(self.key.as_key()))
            }
        }
    )*};
}

/// Requests about a bucket type.
macro_rules! of_type {
    ($($message:ident: $permission:ident,)*) => {$(
        impl RequiresPermission for m::$message {
            fn required_permission(&self) -> Option<RequiredPermission<'_>> {
                Some(RequiredPermission::of_type(Permission::$permission, &self.bucket_type))
            }
        }
    )*};
}

/// Requests about the whole cluster.
macro_rules! of_any {
    ($($message:ident: $permission:ident,)*) => {$(
        impl RequiresPermission for m::$message {
            fn required_permission(&self) -> Option<RequiredPermission<'_>> {
                Some(RequiredPermission::any(Permission::$permission))
            }
        }
    )*};
}

of_record! {
    RpbGetReq: Get,
    RpbPutReq: Put,
    RpbDelReq: Delete,
    RpbGetBucketKeyPreflistReq: GetPreflist,
}
of_bucket! {
    RpbListKeysReq: ListKeys,
    RpbIndexReq: Index,
    RpbCSBucketReq: Fold,
    RpbGetBucketReq: GetBucket,
    RpbSetBucketReq: SetBucket,
    RpbResetBucketReq: SetBucket,
    RpbAaeFoldMergeTreesRangeReq: Fold,
    RpbAaeFoldFetchClocksRangeReq: Fold,
    RpbAaeFoldFindKeysReq: Fold,
    RpbAaeFoldObjectStatsReq: Fold,
    RpbAaeFoldFindTombsReq: Fold,
    RpbAaeFoldRepairKeysReq: Erase,
    RpbAaeFoldReapTombsReq: Erase,
    RpbAaeFoldEraseKeysReq: Erase,
}
of_typed_record! {
    DtFetchReq: Get,
    DtUpdateReq: Put,
    DtQueryReq: Get,
}
of_untyped_record! {
    RpbCounterGetReq: Get,
    RpbCounterUpdateReq: Put,
}
of_type! {
    RpbGetBucketTypeReq: GetBucketType,
    RpbSetBucketTypeReq: SetBucketType,
}
of_any! {
    RpbGetLayoutReq: Layout,
    RpbCoverageReq: Layout,
    RpbAaeFoldListBucketsReq: Fold,
    RpbQueueTakeReq: Replicate,
    RpbClusterDigestsReq: Replicate,
    RpbQueuePutReq: Replicate,
    RpbDeleteSeenReq: Erase,
    RpbCopyPageReq: Replicate,
    RpbCopyRangesReq: Replicate,
    RpbBucketTypesReq: Replicate,
    RpbFetchReq: Replicate,
    RpbPushReq: Replicate,
    RpbMembershipReq: Replicate,
    RpbAaeFoldReplKeysReq: Replicate,
    RpbAaeFoldMergeRootNValReq: Fold,
    RpbAaeFoldMergeBranchNValReq: Fold,
    RpbAaeFoldFetchClocksNValReq: Fold,
}

impl RequiresPermission for m::RpbListBucketsReq {
    fn required_permission(&self) -> Option<RequiredPermission<'_>> {
        Some(RequiredPermission::of_type(Permission::ListBuckets, type_of(&self.bucket_type)))
    }
}

impl RequiresPermission for m::RpbSetClientIdReq {
    fn required_permission(&self) -> Option<RequiredPermission<'_>> {
        None
    }
}

impl PbConnection {
    /// Decodes the message of a frame, and checks that the client may send it.
    pub(super) fn admitted<M: Body + RequiresPermission>(
        &mut self,
        frame: Frame,
    ) -> Result<M, Fault> {
        let message: M = frame.decode()?;
        if !self.session.is_open()
            && let Some(need) = message.required_permission()
        {
            self.check(&need)?;
        }
        Ok(message)
    }

    /// Refuses a request for which the client has no grant, and writes it to the audit log.
    pub(super) fn check(&mut self, need: &RequiredPermission<'_>) -> Result<(), Fault> {
        let checked = self.session.check(self.context.store.control(), need);
        if checked.is_ok() && !self.context.audit.records_allowed() {
            return Ok(());
        }
        let by = self.audit_entry(need.permission.name());
        self.context.audit.record_checked(by, need, checked.as_ref().err().map(String::as_str));
        checked.map_err(|text| {
            self.context.security.note_denied();
            Fault::Text(text)
        })
    }

    /// Begins an audit log entry for an operation of this client.
    pub(super) fn audit_entry<'a>(&'a self, what: &'a str) -> AuditEntry<'a> {
        let (user, from) = (self.session.user(), Some(self.address));
        AuditEntry { user, from, ..AuditEntry::new(AuditedInterface::Pb, what) }
    }
}
