//! Placement of records: their partitions, and the replicas that their buckets ask for.

use crate::error::RequestError;
use crate::votes::ReplicaCount;
use quoit_cluster::{NoSuchType, NodeId, State};
use quoit_model::hash::{Identity, KeyHash, Partition, PlacementRule};
use quoit_model::key::{BucketRef, KeyError, KeyRef};
use quoit_model::props::BucketProps;
use quoit_store::engine::RecordAt;
use std::collections::BTreeSet;

/// Key of a record with its placement: its encoded name, its identity and its partition.
pub(crate) struct PlacedKey<'a> {
    key: KeyRef<'a>,
    encoded: &'a [u8],
    identity: Identity,
    partition: Partition,
}

impl<'a> PlacedKey<'a> {
    /// Places a key whose partition its coordinator has computed.
    pub(crate) fn new(encoded: &'a [u8], partition: Partition) -> Result<Self, KeyError> {
        let key = KeyRef::decode(encoded)?;
        // The identity does not depend on the bucket's placement rule, so any rule will do.
        let identity = KeyHash::of(encoded, key.bucket, PlacementRule::BucketAndKey).identity;
        Ok(Self { key, encoded, identity, partition })
    }

    pub(crate) const fn at(&self) -> RecordAt<'a> {
        let Self { key, encoded, identity, partition } = *self;
        RecordAt { key, encoded, identity, partition }
    }
}

/// Number of replicas of a bucket's records.
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

/// The properties of a bucket for a read or a write of its objects.
///
/// Fails for a bucket with consistent=true, because the store does not offer strong consistency.
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

/// Computes a record's location. `encoded` is its name as [`KeyRef::encoded`] gives it.
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

/// The lowest and the highest n_val of all buckets.
pub(crate) fn n_vals(state: &State) -> (u32, u32) {
    let placements = state.placements();
    let n_vals = || placements.iter().map(|placements| placements.n_val);
    (n_vals().min().unwrap_or(1), n_vals().max().unwrap_or(1))
}

/// The n_val of a record's bucket; `None` if this node does not know the bucket type.
pub(crate) fn n_val_of(state: &State, encoded: &[u8]) -> Option<u32> {
    let key = KeyRef::decode(encoded).ok()?;
    state.bucket_props(key.bucket).ok().map(|props| props.n_val)
}

/// The primaries of a partition in all live layouts.
pub(crate) fn primaries(state: &State, partition: Partition, n_val: u32) -> BTreeSet<NodeId> {
    let live = state.layouts().live().iter();
    live.flat_map(|layout| {
        let primaries = layout.primaries(partition, n_val).iter();
        primaries.map(|node| layout.node_at(*node))
    })
    .collect()
}
