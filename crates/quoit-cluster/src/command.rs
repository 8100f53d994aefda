//! Commands of operators and clients to the control plane.

use quoit_model::key::BucketRef;
use quoit_model::props::PropUpdates;

/// Most bucket types.
pub const BUCKET_TYPES_MAX: usize = 4096;
/// Most buckets with properties of their own.
pub const BUCKETS_WITH_PROPS_MAX: usize = 100_000;

/// Request of an operator or a client.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Command<'a> {
    /// Create a bucket type, or create it anew while it is not active.
    CreateType {
        /// The type.
        name: &'a [u8],
        /// Its properties, as far as they are not the defaults of types.
        updates: &'a PropUpdates,
    },
    /// Make a bucket type usable.
    ActivateType {
        /// The type.
        name: &'a [u8],
    },
    /// Change properties of an active bucket type.
    UpdateType {
        /// The type.
        name: &'a [u8],
        /// The properties to change.
        updates: &'a PropUpdates,
    },
    /// Give an active bucket type the defaults again, as far as they may change.
    ResetType {
        /// The type.
        name: &'a [u8],
    },
    /// Change properties of a bucket; all others become its own as they are.
    SetBucketProps {
        /// The bucket.
        bucket: BucketRef<'a>,
        /// The properties to change.
        updates: &'a PropUpdates,
    },
    /// Let a bucket follow its type again.
    ResetBucketProps {
        /// The bucket.
        bucket: BucketRef<'a>,
    },
    /// Change who may log in and who may do what.
    Security(&'a quoit_security::Command),
}
