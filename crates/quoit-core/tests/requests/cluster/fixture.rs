//! Nodes on a network in memory.

use crate::slow_disk::{SlowDisk, bitcask_on};
use quoit_cluster::memory_network::MemoryNetwork;
use quoit_cluster::{ControlPlane, Internode, seed_elections};
use quoit_core::{
    Blocking, Counter, PutRequest, QueueDefinition, ReadOptions, ReplicatedStore, RequestError,
    SourceQueueSettings, SourceQueues, StoreSettings, WriteOptions,
};
use quoit_model::hash::{Partition, RingSize};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_model::props::{BucketProps, PropUpdates, Quorum, Scope};
use quoit_node::{AuxiliaryData, NodeEngine};
use quoit_seam::{Clock, ManualClock};
use quoit_testkit::{TestNode, address_of, events, memory_engine};
use quoit_wire::internode::data::METHOD_FETCH;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

pub use quoit_testkit::{key_in as key, put_of};

/// Number of partitions in the clusters.
pub const RING_SIZE: u16 = 8;

const PATIENCE: Duration = Duration::from_secs(60);

/// A node.
pub struct Node {
    pub store: Arc<ReplicatedStore>,
    control: Arc<ControlPlane>,
    internode: Arc<Internode>,
}

/// A cluster of nodes, numbered from 0.
pub struct Cluster {
    pub network: MemoryNetwork,
    pub clock: Arc<ManualClock>,
    pub nodes: Vec<Node>,
}

/// Options in which one node of the cluster may differ from the others.
#[derive(Clone)]
struct NodeOptions {
    untyped_defaults: BucketProps,
    /// True for nodes of a cluster that others replicate from: it has a queue of all writes, and actors
    /// that other clusters do not have.
    is_source: bool,
    /// Disk of the engine; `None` for an engine in memory.
    disk: Option<Arc<SlowDisk>>,
}

impl Default for NodeOptions {
    fn default() -> Self {
        let untyped_defaults = BucketProps::untyped();
        Self { untyped_defaults, is_source: false, disk: None }
    }
}

pub fn host(number: usize) -> String {
    format!("n{number}")
}

impl Cluster {
    pub async fn of(count: usize) -> Self {
        Self::with(count, StoreSettings::default()).await
    }

    pub async fn with(count: usize, settings: StoreSettings) -> Self {
        Self::made_of(&vec![NodeOptions::default(); count], settings).await
    }

    /// Nodes that each have a queue `out` of the writes that they coordinate.
    pub async fn of_sources(count: usize, settings: StoreSettings) -> Self {
        let options = NodeOptions { is_source: true, ..NodeOptions::default() };
        Self::made_of(&vec![options; count], settings).await
    }

    /// Nodes whose engines are on these disks. Only writes with dw=0 end while time is paused.
    pub async fn on_disks(disks: &[Arc<SlowDisk>]) -> Self {
        let options = |disk: &Arc<SlowDisk>| NodeOptions {
            disk: Some(Arc::clone(disk)),
            ..NodeOptions::default()
        };
        let node_options: Vec<NodeOptions> = disks.iter().map(options).collect();
        Self::made_of(&node_options, StoreSettings::default()).await
    }

    /// Nodes whose untyped buckets have these default properties.
    pub async fn with_untyped_defaults(defaults: &[Value]) -> Self {
        let options = |defaults: &Value| {
            let updates = PropUpdates::from(defaults.as_object().unwrap().clone());
            let props = BucketProps::untyped().updated(Scope::UntypedBucket, &updates);
            NodeOptions { untyped_defaults: props.unwrap(), ..NodeOptions::default() }
        };
        let node_options: Vec<NodeOptions> = defaults.iter().map(options).collect();
        Self::made_of(&node_options, StoreSettings::default()).await
    }

    async fn made_of(node_options: &[NodeOptions], settings: StoreSettings) -> Self {
        let count = node_options.len();
        seed_elections(11);
        let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
        let mut cluster = Self { network: MemoryNetwork::default(), clock, nodes: Vec::new() };
        for (number, options) in node_options.iter().enumerate() {
            let node = cluster.start(number, settings, options.clone()).await;
            cluster.nodes.push(node);
        }
        for number in 1..count {
            cluster.nodes[number].control.join(&address_of("n0")).await.unwrap();
        }
        if count > 1 {
            let first = &cluster.nodes[0].control;
            cluster.until(|| cluster.nodes[0].up_count() == count).await;
            first.plan().unwrap();
            first.commit_staged(None).await.unwrap();
            cluster.report_all_moved(count).await;
        }
        cluster
    }

    async fn start(&self, number: usize, settings: StoreSettings, options: NodeOptions) -> Node {
        let NodeOptions { untyped_defaults, is_source, disk } = options;
        let id = number as u8 + 1;
        let node = TestNode::new(id, host(number), Arc::clone(&self.clock) as Arc<dyn Clock>);
        let ring_size = RingSize::new(RING_SIZE).unwrap();
        let first_actor = if is_source { b'A' } else { b'a' };
        let engine = NodeEngine {
            engine: match disk {
                Some(disk) => bitcask_on(disk, ring_size, Arc::clone(&node.clock)),
                None => memory_engine(ring_size, &node.clock),
            },
            dots: events([number as u8 + first_actor; 8]),
            loss: None,
        };
        let queues = SourceQueueSettings {
            is_enabled: is_source,
            queues: QueueDefinition::read_list("out:any").0,
            ..SourceQueueSettings::default()
        };
        let source_queues = Some(SourceQueues::in_memory(queues));
        let node = TestNode {
            ring_size,
            engine: Some(engine),
            network: Some(self.network.clone()),
            untyped_defaults,
            settings: StoreSettings { blocking: Blocking::Inline, ..settings },
            auxiliary: AuxiliaryData { source_queues, ..AuxiliaryData::default() },
            ..node
        };
        let node = node.start().await.unwrap();
        Node { store: node.store, control: node.control, internode: node.internode }
    }

    /// Reports every move as done: nothing is stored yet, so every copy is complete.
    async fn report_all_moved(&self, count: usize) {
        self.until(|| self.nodes.iter().all(|node| node.layout_nodes() == count)).await;
        for node in &self.nodes {
            let state = node.control.read();
            let own = state.node_id();
            let missing = state.layouts().incomplete().filter(|(_, id)| *id == own);
            let missing: Vec<Partition> = missing.map(|(partition, _)| partition).collect();
            drop(state);
            node.control.report_moved(&missing).await.unwrap();
        }
        let settled = |node: &Node| !node.control.read().layouts().is_moving();
        self.until(|| self.nodes.iter().all(settled)).await;
        let sees_all = |node: &Node| node.up_count() == count;
        self.until(|| self.nodes.iter().all(sees_all)).await;
    }

    /// Waits for something that must happen.
    pub async fn until(&self, happened: impl FnMut() -> bool) {
        quoit_testkit::until(PATIENCE, "what must happen", happened).await;
    }

    /// Kills a node, and waits until the others notice.
    pub async fn kill(&mut self, number: usize) {
        self.network.kill(&host(number));
        let left = self.nodes.len() - 1;
        self.nodes.remove(number);
        self.until(|| self.nodes.iter().all(|node| node.up_count() <= left)).await;
    }

    /// Blocks all traffic between one node and the others.
    pub fn cut_off(&self, number: usize) {
        for other in (0..self.nodes.len()).filter(|other| *other != number) {
            self.network.silence(&host(number), &host(other));
            self.network.silence(&host(other), &host(number));
        }
    }

    /// Ends [`Cluster::cut_off`].
    pub fn reconnect(&self, number: usize) {
        for other in (0..self.nodes.len()).filter(|other| *other != number) {
            self.network.heal(&host(number), &host(other));
            self.network.heal(&host(other), &host(number));
        }
    }

    pub async fn create_type(&self, name: &str, props: Value) {
        let updates = PropUpdates::from(props.as_object().unwrap().clone());
        let first = &self.nodes[0].control;
        first.create_type(name.as_bytes(), &updates).await.unwrap();
        first.activate_type(name.as_bytes()).await.unwrap();
        let version = first.read().version();
        self.until(|| self.nodes.iter().all(|node| node.control.read().version() >= version)).await;
    }
}

impl Node {
    fn layout_nodes(&self) -> usize {
        self.control.read().layouts().newest().nodes().len()
    }

    /// Number of nodes that this one can reach, itself included.
    pub fn up_count(&self) -> usize {
        let state = self.control.read();
        state.members().iter().filter(|member| self.control.is_reachable(member.id)).count()
    }

    /// Number of copies, digests and parts that other nodes have asked this node for.
    pub fn asked_count(&self) -> u64 {
        self.store.stats().snapshot().total(Counter::ReplicaGets)
    }

    /// Number of times that this node has asked others for records, and bytes that it has received from
    /// others for any request.
    pub fn fetched(&self) -> (u64, u64) {
        let statistics = self.internode.peers().into_iter().map(|peer| peer.statistics());
        statistics.fold((0, 0), |(calls, bytes), of_peer| {
            (calls + of_peer.calls.of(METHOD_FETCH), bytes + of_peer.traffic.received_bytes)
        })
    }

    pub fn name(&self) -> String {
        self.control.read().node_name().to_owned()
    }

    pub async fn put(&self, at: KeyRef<'static>, value: &'static str) {
        self.store.put(put_of(at, value)).await.unwrap();
    }

    /// Writes with a quorum of one replica.
    pub async fn put_at_one(&self, at: KeyRef<'static>, value: &'static str) {
        let (w, dw) = (Some(Quorum::One), Some(Quorum::Count(0)));
        let options = WriteOptions { w, dw, ..WriteOptions::default() };
        self.store.put(PutRequest { options, ..put_of(at, value) }).await.unwrap();
    }

    /// Reads with these quorums.
    pub async fn read(
        &self,
        at: KeyRef<'static>,
        options: ReadOptions,
    ) -> Result<Option<Object>, RequestError> {
        self.store.get(at, &options).await
    }

    /// Values that a default read shows, in order.
    pub async fn values(&self, at: KeyRef<'static>) -> Vec<String> {
        values(self.read(at, ReadOptions::default()).await.unwrap())
    }
}

/// Values that a read has found, in order.
pub fn values(found: Option<Object>) -> Vec<String> {
    found.as_ref().map(quoit_testkit::values).unwrap_or_default()
}

pub const fn r(count: u32) -> ReadOptions {
    ReadOptions {
        r: Some(Quorum::Count(count)),
        pr: None,
        node_confirms: None,
        n_val: None,
        basic_quorum: None,
        notfound_ok: None,
        sloppy_quorum: None,
        timeout_ms: None,
    }
}
