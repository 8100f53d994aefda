//! The permission that each resource requires.

use super::fold_route::{FoldRoute, RangeFold};
use super::head::Method;
use super::listing::lists_keys;
use super::route::{BucketName, RecordName, Route};
use crate::security::RequiredPermission;
use quoit_security::Permission;

/// Access that a request needs: which clients may use a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequiredAccess<'r> {
    /// Every client, without a login.
    Open,
    /// Every client without a login if the settings allow it, else every user.
    Statistics,
    /// Every user.
    User,
    /// Users with this permission.
    Permission(RequiredPermission<'r>),
    /// No client, while security is on.
    Denied,
}

/// The access that a method needs to a resource. The permissions for a MapReduce job depend on its body.
pub(super) fn access<'r>(route: &'r Route<'_>, method: Method, query: &[u8]) -> RequiredAccess<'r> {
    use Permission as P;
    let reads = matches!(method, Method::Get | Method::Head);
    let posts = method == Method::Post;
    let required = |permission, bucket: &'r BucketName<'_>| {
        RequiredPermission::of_bucket(permission, bucket.as_ref())
    };
    let permitted = |permission, bucket: &'r BucketName<'_>| {
        RequiredAccess::Permission(required(permission, bucket))
    };
    let of_record = |permission, name: &'r RecordName<'_>| {
        RequiredAccess::Permission(required(permission, &name.bucket).of_key(Some(&name.key)))
    };
    match route {
        Route::Ping | Route::Livez | Route::Readyz => RequiredAccess::Open,
        Route::Stats | Route::Metrics => RequiredAccess::Statistics,
        Route::Root | Route::Mapred | Route::Search => RequiredAccess::User,
        Route::Walk(..) => RequiredAccess::Denied,
        Route::Buckets(bucket_type) => {
            RequiredAccess::Permission(RequiredPermission::of_type(P::ListBuckets, bucket_type))
        }
        Route::Keys(bucket) => permitted(if posts { P::Put } else { P::ListKeys }, bucket),
        Route::OldBucket(bucket) => permitted(
            match method {
                Method::Post => P::Put,
                Method::Put => P::SetBucket,
                _ if lists_keys(query) => P::ListKeys,
                _ => P::GetBucket,
            },
            bucket,
        ),
        Route::Props(bucket) => permitted(if reads { P::GetBucket } else { P::SetBucket }, bucket),
        Route::TypeProps(bucket_type) => {
            let permission = if reads { P::GetBucketType } else { P::SetBucketType };
            RequiredAccess::Permission(RequiredPermission::of_type(permission, bucket_type))
        }
        Route::Object(name) => of_record(
            match method {
                Method::Put | Method::Post => P::Put,
                Method::Delete => P::Delete,
                _ => P::Get,
            },
            name,
        ),
        Route::Preflist(name) => of_record(P::GetPreflist, name),
        Route::Index(bucket, _) => permitted(P::Index, bucket),
        Route::Changes(bucket) => permitted(P::Changes, bucket),
        Route::Datatype(bucket, key) => {
            let permission = if posts { P::Put } else { P::Get };
            RequiredAccess::Permission(required(permission, bucket).of_key(key.as_deref()))
        }
        Route::Counter(name) => of_record(if posts { P::Put } else { P::Get }, name),
        Route::Fold(FoldRoute::Range(_, RangeFold::Repl(_)))
        | Route::Queue(_)
        | Route::Membership => RequiredAccess::Permission(RequiredPermission::any(P::Replicate)),
        Route::Fold(FoldRoute::Range(
            bucket,
            RangeFold::Repair | RangeFold::Reap | RangeFold::Erase,
        )) => permitted(P::Erase, bucket),
        Route::Fold(FoldRoute::Range(bucket, _)) => permitted(P::Fold, bucket),
        Route::Fold(_) => RequiredAccess::Permission(RequiredPermission::any(P::Fold)),
        Route::Admin(_) => RequiredAccess::Permission(RequiredPermission::any(if reads {
            P::Observe
        } else {
            P::Operate
        })),
    }
}
