//! Where records are: partitions, and the replicas that the properties of their buckets ask for.

use crate::error::RequestError;
use crate::votes::ReplicaCount;
use bytes::Bytes;
use quoit_cluster::{NoSuchType, NodeId, State};
use quoit_model::hash::{Identity, KeyHash, Partition, PlacementRule};
use quoit_model::key::{BucketRef, KeyError, KeyRef};
use quoit_model::props::BucketProps;
use quoit_store::engine::RecordAt;
use std::collections::BTreeSet;

/// A record's place, found from its encoded name alone.
pub(crate) struct Place<'a> {
    key: KeyRef<'a>,
    encoded: &'a [u8],
    identity: Identity,
    partition: Partition,
}

impl<'a> Place<'a> {
    /// The place of a record whose partition a coordinator has worked out.
    pub(crate) fn new(encoded: &'a [u8], partition: Partition) -> Result<Self, KeyError> {
        let key = KeyRef::decode(encoded)?;
        // The identity does not depend on the bucket's placement.
        let identity = KeyHash::of(encoded, key.bucket, PlacementRule::BucketAndKey).identity;
        Ok(Self { key, encoded, identity, partition })
    }

    pub(crate) const fn at(&self) -> RecordAt<'a> {
        let Self { key, encoded, identity, partition } = *self;
        RecordAt { key, encoded, identity, partition }
    }
}

/// How many replicas the records of a bucket have.
pub(crate) fn replicas_of(
    state: &State,
    bucket: BucketRef<'_>,
) -> Result<ReplicaCount, RequestError> {
    let n_val = bucket_props(state, bucket)?.n_val;
    Ok(ReplicaCount { n_val, filled_n_val: state.filled_n_val(bucket, n_val) })
}

/// The effective properties of a bucket.
pub(crate) fn bucket_props<'s>(
    state: &'s State,
    bucket: BucketRef<'_>,
) -> Result<&'s BucketProps, RequestError> {
    match state.bucket_props(bucket) {
        Ok(props) => Ok(props),
        Err(NoSuchType) => Err(RequestError::NoSuchType(bucket.bucket_type.to_vec())),
    }
}

/// The properties of a bucket whose objects are read or written.
///
/// A promise of strong consistency is refused, not broken.
pub(crate) fn object_props<'s>(
    state: &'s State,
    bucket: BucketRef<'_>,
) -> Result<&'s BucketProps, RequestError> {
    let props = bucket_props(state, bucket)?;
    if props.is_consistent() {
        return Err(RequestError::Consistent(bucket.bucket_type.to_vec()));
    }
    Ok(props)
}

/// Finds a record's place; `encoded` is its name as [`KeyRef::encoded`] gives it.
pub(crate) fn record_at<'a>(
    state: &State,
    props: &BucketProps,
    key: KeyRef<'a>,
    encoded: &'a [u8],
) -> RecordAt<'a> {
    let hash = KeyHash::of(encoded, key.bucket, props.chash_keyfun);
    let partition = state.ring_size().partition(hash.placement);
    RecordAt { key, encoded, identity: hash.identity, partition }
}

/// The least and the most replicas that any bucket has.
pub(crate) fn n_vals(state: &State) -> (u32, u32) {
    let placements = state.placements();
    let n_vals = || placements.iter().map(|placements| placements.n_val);
    (n_vals().min().unwrap_or(1), n_vals().max().unwrap_or(1))
}

/// Replicas of a record's bucket; `None` if its bucket type is not known here.
pub(crate) fn n_val_of(state: &State, encoded: &Bytes) -> Option<u32> {
    let key = KeyRef::decode(encoded).ok()?;
    state.bucket_props(key.bucket).ok().map(|props| props.n_val)
}

/// The primaries of a partition in all live layouts.
pub(crate) fn primaries(state: &State, partition: Partition, n_val: u32) -> BTreeSet<NodeId> {
    let live = state.layouts().live().iter();
    live.flat_map(|layout| {
        let primaries = layout.primaries(partition, n_val).iter();
        primaries.map(|node| layout.nodes()[usize::from(*node)])
    })
    .collect()
}
