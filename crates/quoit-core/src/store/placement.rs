//! Where records are: partitions, replicas, and the topology by which they are asked.

use super::ReplicatedStore;
use super::TIMEOUT_MS_DEFAULT;
use crate::error::RequestError;
use crate::options::WriteOptions;
use crate::topology::Topology;
use crate::transfer::n_vals;
use crate::votes::ReplicaCount;
use arc_swap::Guard;
use quoit_cluster::{NoSuchType, State};
use quoit_model::hash::{KeyHash, Partition, RingSize};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::props::BucketProps;
use quoit_store::engine::RecordAt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

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
        let state = self.control.read();
        let props = bucket_props(&state, key.bucket)?;
        let encoded = key.encoded();
        let first = record_at(&state, props, key, &encoded).partition;
        let partition_count = state.ring_size().get();
        let n_val = props.n_val.min(u32::from(partition_count));
        let topology = self.topology_of(&state);
        let positions = topology.positions(first, n_val).into_iter().zip(0..);
        let places = positions.map(|((node, primary), position)| PreflistPlace {
            // Each position has a partition of its own as clients are shown it.
            partition: Partition((first.0 + position) % partition_count),
            node: (*topology.node(node).name).to_owned(),
            primary,
        });
        Ok(places.collect())
    }

    /// The present topology, which is no older than any state that was read before. Two atomic loads while
    /// nothing has changed.
    pub(crate) fn topology_now(&self) -> Guard<Arc<Topology>> {
        let topology = self.topology.load();
        if topology.is_current(self.control.newest_version(), &self.internode) {
            return topology;
        }
        self.topology_of(&self.control.read())
    }

    /// The topology of a state that was read just now.
    pub(crate) fn topology_of(&self, state: &State) -> Guard<Arc<Topology>> {
        let topology = self.topology.load();
        if topology.is_current(state.version(), &self.internode) {
            return topology;
        }
        let newest = Arc::new(Topology::new(state, &self.internode));
        self.topology.store(Arc::clone(&newest));
        // Not what is stored now: who has begun with an older state may have been last.
        Guard::from_inner(newest)
    }

    /// As [`ReplicatedStore::topology_now`], to keep across waiting.
    pub(crate) fn topology(&self) -> Arc<Topology> {
        Guard::into_inner(self.topology_now())
    }

    /// As [`ReplicatedStore::topology`], once this node may judge who is up: right after its start everybody
    /// looks dead, and fallbacks would vote that know nothing.
    pub(crate) async fn settled_topology(&self, timeout_ms: Option<u32>) -> Arc<Topology> {
        if !self.internode.is_settled() {
            let limit = Duration::from_millis(u64::from(timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)));
            self.internode.settled(Instant::now() + limit).await;
        }
        self.topology()
    }

    /// Waits until the control plane knows something newer than `version`.
    pub(crate) async fn wait_for_newer(
        &self,
        version: u64,
        deadline: Instant,
    ) -> Result<(), RequestError> {
        let mut versions = self.control.watch();
        let newer = versions.wait_for(|known| *known > version);
        match timeout_at(deadline, newer).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(RequestError::Timeout),
        }
    }

    /// The most replicas that any bucket has.
    pub(crate) fn n_val_max(&self) -> u32 {
        n_vals(&self.control.read()).1
    }

    /// Number of partitions.
    pub(crate) fn ring_size(&self) -> RingSize {
        self.control.read().ring_size()
    }

    /// How many replicas a record has, of a bucket with this `n_val`. One comparison while no bucket was
    /// raised lately.
    pub(crate) fn replicas_by(
        &self,
        topology: &Topology,
        encoded: &[u8],
        n_val: u32,
    ) -> ReplicaCount {
        if topology.raised_at() == 0 {
            return n_val.into();
        }
        let key = KeyRef::decode(encoded).ok();
        let state = self.control.read();
        let filled = key.map(|key| state.filled_n_val(key.bucket, n_val));
        ReplicaCount { n_val, filled_n_val: filled.unwrap_or(n_val) }
    }

    /// The partition of a record and the number of its bucket's replicas.
    pub(crate) fn partition_of(&self, key: KeyRef<'_>) -> Result<(Partition, u32), RequestError> {
        key.check()?;
        let state = self.control.read();
        let props = object_props(&state, key.bucket)?;
        let encoded = key.encoded();
        Ok((record_at(&state, props, key, &encoded).partition, props.n_val))
    }

    /// The properties of the bucket of a record, to keep across waiting.
    pub(crate) fn props_of(&self, key: KeyRef<'_>) -> Result<Arc<BucketProps>, RequestError> {
        key.check()?;
        let state = self.control.read();
        object_props(&state, key.bucket)?;
        self.control
            .bucket_props(key.bucket)
            .map_err(|NoSuchType| RequestError::NoSuchType(key.bucket.bucket_type.to_vec()))
    }

    /// Whether this node coordinates a write of a record: it is one of those that should have it, or the
    /// request has a fault that any node can tell.
    pub(crate) fn coordinates(
        &self,
        topology: &Topology,
        key: KeyRef<'_>,
        options: &WriteOptions,
    ) -> bool {
        if topology.is_alone() {
            return true;
        }
        let Ok((partition, bucket_n_val)) = self.partition_of(key) else { return true };
        let n_val = options.n_val.unwrap_or(bucket_n_val).min(bucket_n_val);
        topology.coordinates(&topology.writers(partition, n_val, options.is_sloppy(), &[]))
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
