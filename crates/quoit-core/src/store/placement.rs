//! Where records are: partitions, replicas, and the topology by which they are asked.

use super::ReplicatedStore;
use crate::error::RequestError;
use crate::votes::ReplicaCount;
use quoit_cluster::{NoSuchType, State};
use quoit_model::hash::{KeyHash, Partition};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::props::BucketProps;
use quoit_store::engine::RecordAt;

/// One position of a preference list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreflistPlace {
    /// The partition.
    pub partition: Partition,
    /// Name of the node that holds it.
    pub node: String,
    /// Whether the node is a primary and no fallback.
    pub primary: bool,
}

impl ReplicatedStore {
    /// The preference list of a key as clients are shown it: who answers for each position now.
    ///
    /// # Errors
    ///
    /// Bad names and unknown bucket types.
    pub fn preflist(&self, key: KeyRef<'_>) -> Result<Vec<PreflistPlace>, RequestError> {
        key.check()?;
        let state = self.local.control.read();
        let props = bucket_props(&state, key.bucket)?;
        let encoded = key.encoded();
        let first = record_at(&state, props, key, &encoded).partition;
        let partition_count = state.ring_size().get();
        let n_val = props.n_val.min(u32::from(partition_count));
        let topology = self.local.topology_of(&state);
        let positions = topology.positions(first, n_val).into_iter().zip(0..);
        let places = positions.map(|((node, primary), position)| PreflistPlace {
            // Each position has a partition of its own as clients are shown it.
            partition: Partition((first.0 + position) % partition_count),
            node: (*topology.node(node).name).to_owned(),
            primary,
        });
        Ok(places.collect())
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
