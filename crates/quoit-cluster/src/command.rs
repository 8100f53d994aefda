//! Commands of operators and clients to the control plane.

use quoit_model::key::BucketRef;
use quoit_model::props::PropUpdates;

/// Maximum number of bucket types.
pub const BUCKET_TYPES_MAX: usize = 4096;
/// Maximum number of buckets with properties of their own.
pub const BUCKETS_WITH_PROPS_MAX: usize = 100_000;

/// A request of an operator or a client to change the state.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Command<'a> {
    /// Creates a bucket type, or replaces one that is not active yet.
    CreateType {
        /// The type.
        name: &'a [u8],
        /// Properties that differ from the defaults of bucket types.
        updates: &'a PropUpdates,
    },
    /// Activates a bucket type, so that buckets can be created under it.
    ActivateType {
        /// The type.
        name: &'a [u8],
    },
    /// Changes properties of an active bucket type.
    UpdateType {
        /// The type.
        name: &'a [u8],
        /// The properties to change.
        updates: &'a PropUpdates,
    },
    /// Resets an active bucket type to the defaults, except for properties that cannot change after
    /// creation.
    ResetType {
        /// The type.
        name: &'a [u8],
    },
    /// Changes properties of a bucket. The bucket keeps its other effective properties as its own, so that
    /// later changes of its type no longer affect it.
    SetBucketProps {
        /// The bucket.
        bucket: BucketRef<'a>,
        /// The properties to change.
        updates: &'a PropUpdates,
    },
    /// Removes a bucket's own properties, so that it has those of its type again.
    ResetBucketProps {
        /// The bucket.
        bucket: BucketRef<'a>,
    },
    /// Changes users, groups, sources or grants.
    Security(&'a quoit_security::Command),
}
