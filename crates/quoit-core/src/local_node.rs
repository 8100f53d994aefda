//! The ground of every part of a node's store: its records, the cluster as it knows it, the ways to other
//! nodes, time, and the settings. It knows none of the parts.

use crate::dots::DotSequence;
use crate::error::RequestError;
use crate::options::WriteOptions;
use crate::partition_set::PartitionSet;
use crate::placement::{Place, n_val_of, n_vals, object_props, primaries, record_at};
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

/// Takes the place of an identity in entity tags that are made before the event of their write.
const TAG_SALT: u64 = 0x7461_6773;

/// This node, as the parts of its store see it.
pub(crate) struct LocalNode {
    pub(crate) engine: Arc<dyn Engine>,
    /// Records of the engine, as whole objects.
    pub(crate) records: Arc<Records>,
    pub(crate) control: Arc<ControlPlane>,
    pub(crate) internode: Arc<Internode>,
    topology: ArcSwap<Topology>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Events of this store.
    pub(crate) dots: DotSequence,
    pub(crate) settings: StoreSettings,
    pub(crate) stats: Arc<Stats>,
    room: OnceLock<RoomOfDisk>,
}

/// Asks the system for the room of the disk that holds the data.
type RoomOfDisk = Box<dyn Fn() -> Option<DiskRoom> + Send + Sync>;

/// Room of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskRoom {
    /// Bytes that the node may still use.
    pub free_bytes: u64,
    /// Its size in bytes.
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
        let (stats, room) = (Arc::default(), OnceLock::new());
        Self { engine, records, control, internode, topology, clock, dots, settings, stats, room }
    }

    /// Says how the room of the disk that holds the data is found out; once, when the node is put together.
    pub(crate) fn set_room_of_disk(
        &self,
        ask: impl Fn() -> Option<DiskRoom> + Send + Sync + 'static,
    ) {
        // The second time would be a fault of the assembly, and the first one stands.
        let _ = self.room.set(Box::new(ask));
    }

    /// The room of the disk that holds the data; `None` where nothing tells. A system call.
    pub(crate) fn room_of_disk(&self) -> Option<DiskRoom> {
        self.room.get().and_then(|ask| ask())
    }

    /// Figures since the start and of the last minute, those of the engine included.
    pub(crate) fn figures(&self) -> StatsSnapshot {
        self.stats.follow_indexes(|| self.engine.index_activity());
        self.stats.snapshot()
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

    /// As [`LocalNode::topology_now`], to keep across waiting.
    pub(crate) fn topology(&self) -> Arc<Topology> {
        Guard::into_inner(self.topology_now())
    }

    /// As [`LocalNode::topology`], once this node may judge who is up: right after its start everybody
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
            return ReplicaCount::all_filled(n_val);
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

    /// The control plane's state, to keep across waiting.
    pub(crate) fn state(&self) -> Arc<State> {
        Guard::into_inner(self.control.read())
    }

    /// The way to a node that can be reached now.
    pub(crate) fn reachable(&self, node: NodeId) -> Option<Arc<Peer>> {
        self.internode.peer(node).filter(|peer| peer.is_up())
    }

    /// Those nodes that can't be reached now.
    pub(crate) fn unreachable(&self, nodes: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        nodes.iter().filter(|node| self.reachable(**node).is_none()).copied().collect()
    }

    /// Waits until everything up to `ticket` survives the death of the machine.
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

    pub(crate) async fn synced(&self, ticket: Ticket) -> Result<(), RequestError> {
        poll_fn(|context| self.engine.poll_durable(ticket, context.waker())).await?;
        Ok(())
    }

    /// Returns what was read of this node's copies, if it is still to have those that the layouts of this
    /// version gave it: copies that moved meanwhile may have been removed here while they were read.
    pub(crate) fn unless_moved<T>(&self, listed: T, layout_version: u64) -> Option<T> {
        (layout_version >= self.topology_now().layout_version()).then_some(listed)
    }

    /// Whether a bucket has got fewer replicas since a version of the control plane's state: copies that are
    /// no replica's any more may have been removed here while they were read.
    pub(crate) fn has_fewer_replicas_since(&self, state_version: u64) -> bool {
        self.control.read().replicas_lowered_at() > state_version
    }

    /// The nodes and layouts after those of a version, by which a node was asked in vain, if they come in
    /// time.
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

    /// Whether another node has a whole copy of one of these partitions, and this one's has lost records.
    pub(crate) fn knows_less_of(&self, partitions: &PartitionSet) -> bool {
        let topology = self.topology_now();
        let ring = self.ring_size().get();
        let mut wanted = partitions.iter().filter(|partition| partition.0 < ring);
        topology.has_losses() && wanted.any(|each| topology.knows_less(each, self.n_val_max()))
    }

    /// Checks a context that came from outside.
    pub(crate) fn check_context(&self, context: &VersionVector) -> Result<(), RequestError> {
        quoit_model::context::check_context(context, self.dots.actor(), self.dots.last_issued())?;
        Ok(())
    }

    /// Whether a node is a primary of a record, as far as its bucket is known here.
    pub(crate) fn is_primary_of(&self, node: NodeId, partition: Partition, key: &Bytes) -> bool {
        let state = self.control.read();
        let n_val = n_val_of(&state, key);
        n_val.is_none_or(|n_val| primaries(&state, partition, n_val).contains(&node))
    }

    /// How long after its beginning a request may still send to further replicas what it has read or written:
    /// twice as long as a connection may be silent, which is a minute.
    pub(crate) fn sent_for(&self) -> Duration {
        2 * self.internode.idle_timeout()
    }

    /// An entity tag that no other value has: made from an event of this store that writes nothing.
    ///
    /// # Errors
    ///
    /// When events can't be made durable.
    pub(crate) fn new_tag(&self) -> Result<Bytes, RequestError> {
        let dot = self.dots.issue(0)?;
        Ok(make_vtag(&dot, TAG_SALT))
    }

    /// Decodes a header and checks the layout that it was made with.
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

    pub(crate) fn place<'a>(&self, key: &'a Bytes, partition: u32) -> Result<Place<'a>, Refusal> {
        let partition = u16::try_from(partition)
            .ok()
            .filter(|partition| *partition < self.ring_size().get())
            .ok_or_else(|| Refusal::Malformed(format!("there is no partition {partition}")))?;
        Place::new(key, Partition(partition)).map_err(|fault| Refusal::Malformed(fault.to_string()))
    }
}
