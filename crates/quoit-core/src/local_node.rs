//! Services that every part of a node's store uses: its records, the cluster as this node knows it, the
//! connections to other nodes, the clock, and the settings. This module depends on no other part of the
//! store.

use crate::dots::DotSequence;
use crate::error::RequestError;
use crate::options::WriteOptions;
use crate::partition_set::PartitionSet;
use crate::placement::{PlacedKey, n_val_of, n_vals, object_props, primaries, record_at};
use crate::records::Records;
use crate::refusal::Refusal;
use crate::settings::{StoreSettings, TIMEOUT_MS_DEFAULT};
use crate::stats::{Stats, StatsSnapshot};
use crate::topology::Topology;
use crate::votes::ReplicaCount;
use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{ControlPlane, IncomingRequest, Internode, NoSuchType, NodeId, Peer, State};
use quoit_model::clock::VersionVector;
use quoit_model::hash::{Partition, RingSize};
use quoit_model::key::KeyRef;
use quoit_model::props::BucketProps;
use quoit_model::vtag::make_vtag;
use quoit_planted::planted;
use quoit_seam::Clock;
use quoit_store::engine::{Engine, Ticket};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Stands in for a record's identity in entity tags that are made before the write's event.
const TAG_SALT: u64 = 0x7461_6773;

/// The services of this node that every part of its store uses.
pub(crate) struct LocalNode {
    pub(crate) engine: Arc<dyn Engine>,
    /// The engine's records as objects, with large ones in pages.
    pub(crate) records: Arc<Records>,
    pub(crate) control: Arc<ControlPlane>,
    pub(crate) internode: Arc<Internode>,
    topology: ArcSwap<Topology>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Events of this store.
    pub(crate) dots: DotSequence,
    pub(crate) settings: StoreSettings,
    pub(crate) stats: Arc<Stats>,
    disk_space_probe: OnceLock<DiskSpaceProbe>,
}

/// Measures the disk that holds the data.
type DiskSpaceProbe = Box<dyn Fn() -> Option<DiskSpace> + Send + Sync>;

/// Free and total space of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskSpace {
    /// Bytes that the node may still use.
    pub free_bytes: u64,
    /// Size of the file system in bytes.
    pub total_bytes: u64,
}

impl LocalNode {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        control: Arc<ControlPlane>,
        internode: Arc<Internode>,
        clock: Arc<dyn Clock>,
        dots: DotSequence,
        settings: StoreSettings,
    ) -> Self {
        let topology = ArcSwap::from_pointee(Topology::new(&control.read(), &internode));
        let records = Arc::new(Records::new(Arc::clone(&engine), clock.unix_us()));
        let (stats, disk_space_probe) = (Arc::default(), OnceLock::new());
        Self {
            engine,
            records,
            control,
            internode,
            topology,
            clock,
            dots,
            settings,
            stats,
            disk_space_probe,
        }
    }

    /// Sets the function that measures the disk that holds the data. Called once, when the node is
    /// assembled.
    pub(crate) fn set_disk_space_probe(
        &self,
        probe: impl Fn() -> Option<DiskSpace> + Send + Sync + 'static,
    ) {
        // A second call would be a mistake of the caller; the first function stays.
        let _ = self.disk_space_probe.set(Box::new(probe));
    }

    /// Free and total space of the disk that holds the data; `None` if it can't be measured. Costs a
    /// system call.
    pub(crate) fn disk_space(&self) -> Option<DiskSpace> {
        self.disk_space_probe.get().and_then(|probe| probe())
    }

    /// Figures since the start and for the last minute, including those of the engine.
    pub(crate) fn figures(&self) -> StatsSnapshot {
        self.stats.follow_indexes(|| self.engine.index_activity());
        self.stats.snapshot()
    }

    /// The present topology. It is at least as new as every state of the control plane that the caller
    /// has read. Costs two atomic loads if nothing has changed.
    pub(crate) fn topology_now(&self) -> Guard<Arc<Topology>> {
        let topology = self.topology.load();
        if topology.is_current(self.control.newest_version(), &self.internode) {
            return topology;
        }
        self.topology_of(&self.control.read())
    }

    /// The topology of a state that the caller has just read.
    pub(crate) fn topology_of(&self, state: &State) -> Guard<Arc<Topology>> {
        let topology = self.topology.load();
        if topology.is_current(state.version(), &self.internode) {
            return topology;
        }
        let newest = Arc::new(Topology::new(state, &self.internode));
        self.topology.store(Arc::clone(&newest));
        // Returns this topology and not the stored one: a thread with an older state may have stored its
        // own last.
        Guard::from_inner(newest)
    }

    /// As [`LocalNode::topology_now`], in a form that can be kept across an await.
    pub(crate) fn topology(&self) -> Arc<Topology> {
        Guard::into_inner(self.topology_now())
    }

    /// As [`LocalNode::topology`], after waiting until this node knows which peers are up, at most for the
    /// timeout. Right after a start all peers look down, and fallbacks without copies would get their votes.
    pub(crate) async fn settled_topology(&self, timeout_ms: Option<u32>) -> Arc<Topology> {
        if !self.internode.is_settled() {
            let limit = Duration::from_millis(u64::from(timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)));
            self.internode.settled(Instant::now() + limit).await;
        }
        self.topology()
    }

    /// Waits until the control plane's state is newer than `version`. Fails with
    /// [`RequestError::Timeout`] at the deadline.
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

    /// The highest n_val of all buckets.
    pub(crate) fn n_val_max(&self) -> u32 {
        n_vals(&self.control.read()).1
    }

    /// Number of partitions.
    pub(crate) fn ring_size(&self) -> RingSize {
        self.control.read().ring_size()
    }

    /// Number of replicas of a record whose bucket has this `n_val`. Costs one comparison unless a
    /// bucket's n_val was raised lately.
    pub(crate) fn replicas_by(
        &self,
        topology: &Topology,
        encoded: &[u8],
        n_val: u32,
    ) -> ReplicaCount {
        if topology.n_val_raised_at() == 0 {
            return ReplicaCount::all_filled(n_val);
        }
        let key = KeyRef::decode(encoded).ok();
        let state = self.control.read();
        let filled = key.map(|key| state.filled_n_val(key.bucket, n_val));
        ReplicaCount { n_val, filled_n_val: filled.unwrap_or(n_val) }
    }

    /// The partition of a record, and the n_val of its bucket.
    pub(crate) fn partition_of(&self, key: KeyRef<'_>) -> Result<(Partition, u32), RequestError> {
        key.check()?;
        let state = self.control.read();
        let props = object_props(&state, key.bucket)?;
        let encoded = key.encoded();
        Ok((record_at(&state, props, key, &encoded).partition, props.n_val))
    }

    /// The properties of a record's bucket, in a form that can be kept across an await.
    pub(crate) fn props_of(&self, key: KeyRef<'_>) -> Result<Arc<BucketProps>, RequestError> {
        key.check()?;
        let state = self.control.read();
        object_props(&state, key.bucket)?;
        self.control
            .bucket_props(key.bucket)
            .map_err(|NoSuchType| RequestError::NoSuchType(key.bucket.bucket_type.to_vec()))
    }

    /// True if this node coordinates a write of a record, because it has a vote for it. True also if the
    /// request has a fault that any node can report.
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

    /// The control plane's state, in a form that can be kept across an await.
    pub(crate) fn state(&self) -> Arc<State> {
        Guard::into_inner(self.control.read())
    }

    /// The connection to a node, if the node is up.
    pub(crate) fn reachable(&self, node: NodeId) -> Option<Arc<Peer>> {
        self.internode.peer(node).filter(|peer| peer.is_up())
    }

    /// The nodes that are not up.
    pub(crate) fn unreachable(&self, nodes: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        nodes.iter().filter(|node| self.reachable(**node).is_none()).copied().collect()
    }

    /// Waits until everything up to `ticket` is synced. Fails with [`RequestError::Timeout`] after the
    /// timeout.
    pub(crate) async fn durable(
        &self,
        ticket: Ticket,
        timeout_ms: Option<u32>,
    ) -> Result<(), RequestError> {
        let synced = poll_fn(|context| self.engine.poll_durable(ticket, context.waker()));
        let limit = Duration::from_millis(u64::from(timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)));
        match tokio::time::timeout(limit, synced).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(RequestError::Timeout),
        }
    }

    /// Waits until everything up to `ticket` is synced, without a time limit.
    pub(crate) async fn synced(&self, ticket: Ticket) -> Result<(), RequestError> {
        poll_fn(|context| self.engine.poll_durable(ticket, context.waker())).await?;
        Ok(())
    }

    /// Returns `listed`, which was read from this node's copies by the layout of this version, if that
    /// layout is still live. Otherwise copies may have been removed here while they were read.
    pub(crate) fn if_still_live<T>(&self, listed: T, layout_version: u64) -> Option<T> {
        (layout_version >= self.topology_now().layout_version()).then_some(listed)
    }

    /// True if a bucket's n_val was lowered after this version of the control plane's state. Then copies
    /// may have been removed here while they were read.
    pub(crate) fn has_fewer_replicas_since(&self, state_version: u64) -> bool {
        self.control.read().replicas_lowered_at() > state_version
    }

    /// The topology after the one of `version`, which a peer has refused. Waits for it at most for
    /// `limit`.
    pub(crate) async fn topology_after(
        &self,
        version: u64,
        limit: Duration,
    ) -> Result<Arc<Topology>, RequestError> {
        if self.topology_now().version() == version {
            self.wait_for_newer(version, Instant::now() + limit).await?;
        }
        Ok(self.topology())
    }

    /// True if this node's copy of one of these partitions has lost records and a primary that is up has
    /// a copy that has not.
    pub(crate) fn lacks_records_of(&self, partitions: &PartitionSet) -> bool {
        let topology = self.topology_now();
        let ring = self.ring_size().get();
        let mut wanted = partitions.iter().filter(|partition| partition.0 < ring);
        topology.has_losses()
            && wanted.any(|each| topology.is_worse_than_a_peer(each, self.n_val_max()))
    }

    /// Checks a causal context from a client: it must not claim events that this store has never issued.
    pub(crate) fn check_context(&self, context: &VersionVector) -> Result<(), RequestError> {
        quoit_model::context::check_context(context, self.dots.actor(), self.dots.last_issued())?;
        Ok(())
    }

    /// True if a node is a primary of a record. True also if this node does not know the record's bucket
    /// type.
    pub(crate) fn is_primary_of(&self, node: NodeId, partition: Partition, key: &Bytes) -> bool {
        let state = self.control.read();
        let n_val = n_val_of(&state, key);
        n_val.is_none_or(|n_val| primaries(&state, partition, n_val).contains(&node))
    }

    /// Time after its start during which a request may send an object to further replicas: twice the time
    /// for which a connection may be silent.
    pub(crate) fn send_window(&self) -> Duration {
        2 * self.internode.idle_timeout()
    }

    /// Makes an entity tag that no other value has, from an event that is used for nothing else.
    ///
    /// # Errors
    ///
    /// Failures of the disk, if the event counter can't be made durable.
    pub(crate) fn new_tag(&self) -> Result<Bytes, RequestError> {
        let dot = self.dots.issue(0)?;
        Ok(make_vtag(&dot, TAG_SALT))
    }

    /// Decodes a request's header, and refuses the request if its layout has retired.
    pub(crate) fn read_header<M: Message + Default>(
        &self,
        request: &IncomingRequest,
        layout_version: impl Fn(&M) -> u64,
    ) -> Result<M, Refusal> {
        let header = M::decode(request.header.clone())
            .map_err(|fault| Refusal::Malformed(fault.to_string()))?;
        let is_stale = layout_version(&header) < self.topology().layout_version();
        if is_stale && !planted!(TakesStaleLayouts) {
            return Err(Refusal::StaleLayout);
        }
        Ok(header)
    }

    /// Decodes the name and the partition that another node's request names.
    pub(crate) fn place<'a>(
        &self,
        key: &'a Bytes,
        partition: u32,
    ) -> Result<PlacedKey<'a>, Refusal> {
        let partition = u16::try_from(partition)
            .ok()
            .filter(|partition| *partition < self.ring_size().get())
            .ok_or_else(|| Refusal::Malformed(format!("there is no partition {partition}")))?;
        PlacedKey::new(key, Partition(partition))
            .map_err(|fault| Refusal::Malformed(fault.to_string()))
    }
}
