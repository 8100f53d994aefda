//! Several nodes in one process, with a network and disks in memory, paused time, and elections from a
//! seed.

mod counters;
mod damage;
mod processes;
mod requests;
mod stored;

use counters::Counters;
use quoit_cluster::memory_network::MemoryNetwork;
use quoit_cluster::{ControlPlane, Internode, Limits, NodeId, StagedChange, seed_elections};
use quoit_core::{Blocking, ReplicatedStore, StoreSettings, TransferLimits};
use quoit_model::clock::Actor;
use quoit_model::hash::{Partition, RingSize};
use quoit_model::key::KeyRef;
use quoit_model::props::PropUpdates;
use quoit_seam::{Clock, FaultyDisk, ManualClock, ManualExecution};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, Durability};
use quoit_store::engine::{Engine, RecordAt};
use quoit_testkit::{address_of, at_record, memory_engine};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

pub use quoit_testkit::{key, key_in};

/// Time limit for everything that has to happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// The process of a node.
struct Process {
    node: Arc<quoit_node::Node>,
    actor: Actor,
    /// `None` until the node serves.
    background: Option<AbortHandle>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.background.iter().for_each(AbortHandle::abort);
    }
}

/// The machine of a node, which may run or not. Its records outlive the process.
struct Node {
    disk: FaultyDisk,
    hints: FaultyDisk,
    reaped: FaultyDisk,
    engine: Arc<dyn Engine>,
    /// Disk of the engine, if it has one.
    data: Option<FaultyDisk>,
    /// Background work of an engine with a disk. It runs only when a test steps it.
    execution: ManualExecution,
    counters: Counters,
    /// Actor of the store, if the node was stopped in good order.
    actor: Option<Actor>,
    process: Option<Process>,
}

/// A cluster of machines on one network.
pub struct TestCluster {
    pub network: MemoryNetwork,
    pub clock: Arc<ManualClock>,
    settings: StoreSettings,
    nodes: Vec<Node>,
    boots: u64,
    /// Durability of engines with disks: whether a write is durable only when it is synced; `None`
    /// without disks.
    disks: Option<Durability>,
    /// Microseconds by which the clock of each node is ahead of the previous node's.
    skew_us: u64,
    /// Maximum bytes of a frame that nodes which start from now on accept.
    pub frame_bytes_max: u32,
}

/// The clock of a node, which is ahead of the cluster's.
struct AheadClock {
    clock: Arc<ManualClock>,
    by_us: u64,
}

impl Clock for AheadClock {
    fn unix_us(&self) -> u64 {
        self.clock.unix_us() + self.by_us
    }

    fn monotonic_us(&self) -> u64 {
        self.clock.monotonic_us()
    }
}

pub fn id(number: u8) -> NodeId {
    NodeId([number; 16])
}

fn host(number: u8) -> String {
    format!("n{number}")
}

/// Calls a function with the place of a record.
fn at<T>(key: KeyRef<'_>, call: impl FnOnce(&RecordAt<'_>) -> T) -> T {
    at_record(key, ring_size(), call)
}

/// An engine with small segments, and its background work.
fn on_disk(
    data: &FaultyDisk,
    clock: Arc<dyn Clock>,
    durability: Durability,
) -> (Arc<dyn Engine>, ManualExecution) {
    let settings = BitcaskSettings {
        ring_size: ring_size(),
        durability,
        max_file_size_bytes: 4_000,
        ..BitcaskSettings::new(1)
    };
    let execution = ManualExecution::default();
    let opened = BitcaskEngine::open(Arc::new(data.clone()), clock, &execution, settings);
    (Arc::new(opened.unwrap().0), execution)
}

fn ring_size() -> RingSize {
    RingSize::new(16).unwrap()
}

impl TestCluster {
    /// Nodes 1 to `count`, each in a cluster of its own.
    pub async fn alone(count: u8) -> Self {
        Self::with(count, StoreSettings::default()).await
    }

    pub async fn with(count: u8, settings: StoreSettings) -> Self {
        Self::found(count, settings, None, 0).await
    }

    /// As [`TestCluster::joined_on_disks`]. The clock of each node is `skew_us` ahead of the previous
    /// node's.
    pub async fn joined_with_skew(count: u8, skew_us: u64) -> Self {
        let disks = Some(Durability::Relaxed);
        Self::found(count, StoreSettings::default(), disks, skew_us).await.together().await
    }

    async fn found(
        count: u8,
        settings: StoreSettings,
        disks: Option<Durability>,
        skew_us: u64,
    ) -> Self {
        seed_elections(7);
        let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
        let settings = StoreSettings { blocking: Blocking::Inline, ..settings };
        let network = MemoryNetwork::default();
        let boots = 0;
        let mut cluster = Self {
            network,
            clock,
            settings,
            nodes: Vec::new(),
            boots,
            disks,
            skew_us,
            frame_bytes_max: Limits::default().frame_bytes_max,
        };
        for _ in 0..count {
            cluster.add().await;
        }
        cluster
    }

    /// Nodes 1 to `count` as members of one cluster.
    pub async fn joined(count: u8) -> Self {
        Self::joined_with(count, StoreSettings::default()).await
    }

    pub async fn joined_with(count: u8, settings: StoreSettings) -> Self {
        Self::with(count, settings).await.together().await
    }

    /// As [`TestCluster::joined`], with engines that write to disks.
    pub async fn joined_on_disks(count: u8) -> Self {
        Self::joined_on_disks_with(count, StoreSettings::default()).await
    }

    /// As [`TestCluster::joined_on_disks`], where a write is durable only once
    /// [`TestCluster::sync_log`] has synced it.
    pub async fn joined_on_strict_disks(count: u8) -> Self {
        let disks = Some(Durability::Strict);
        Self::found(count, StoreSettings::default(), disks, 0).await.together().await
    }

    /// As [`TestCluster::joined_on_disks`], with these settings.
    pub async fn joined_on_disks_with(count: u8, settings: StoreSettings) -> Self {
        let disks = Some(Durability::Relaxed);
        Self::found(count, settings, disks, 0).await.together().await
    }

    pub async fn together(self) -> Self {
        for number in 2..=self.nodes.len() as u8 {
            self.join(number).await;
        }
        self.commit(1).await;
        self.until_moved(1, 0).await;
        self
    }

    fn clock_of(&self, number: u8) -> Arc<dyn Clock> {
        let (clock, by_us) = (Arc::clone(&self.clock), self.skew_us * u64::from(number));
        Arc::new(AheadClock { clock, by_us })
    }

    /// Adds a node in a cluster of its own.
    pub async fn add(&mut self) {
        let number = self.nodes.len() as u8 + 1;
        let clock = self.clock_of(number);
        let data =
            self.disks.map(|durability| (FaultyDisk::new(u64::from(number) << 8), durability));
        let (engine, execution) = match &data {
            None => (memory_engine(ring_size(), &clock), ManualExecution::default()),
            Some((data, durability)) => on_disk(data, clock, *durability),
        };
        let data = data.map(|(data, _)| data);
        let disk = FaultyDisk::new(u64::from(number));
        let hints = FaultyDisk::new(u64::from(number));
        let reaped = FaultyDisk::new(u64::from(number));
        let (counters, actor) = Default::default();
        let process = None;
        self.nodes.push(Node {
            disk,
            hints,
            reaped,
            engine,
            data,
            execution,
            counters,
            actor,
            process,
        });
        self.start(number).await;
    }

    /// Counters on a node's disk.
    pub fn counters(&self, number: u8) -> &Counters {
        &self.nodes[usize::from(number) - 1].counters
    }

    fn process(&self, number: u8) -> &Process {
        self.nodes[usize::from(number) - 1].process.as_ref().expect("the node runs")
    }

    pub fn store(&self, number: u8) -> &Arc<ReplicatedStore> {
        &self.process(number).node.store
    }

    pub fn internode(&self, number: u8) -> &Arc<Internode> {
        &self.process(number).node.internode
    }

    pub fn control(&self, number: u8) -> &Arc<ControlPlane> {
        &self.process(number).node.control
    }

    pub fn running(&self) -> Vec<u8> {
        (1..=self.nodes.len() as u8)
            .filter(|number| self.nodes[usize::from(*number) - 1].process.is_some())
            .collect()
    }

    pub async fn join(&self, number: u8) {
        self.control(number).join(&address_of(&host(1))).await.unwrap();
        self.until("the node has joined", || {
            self.control(number).read().members().get(id(1)).is_some()
        })
        .await;
    }

    pub async fn stage(&self, change: StagedChange) {
        self.control(1).stage(&change).await.unwrap();
    }

    pub async fn commit(&self, number: u8) {
        self.control(number).plan().unwrap();
        self.control(number).commit_staged(None).await.unwrap();
    }

    /// Waits until one layout is left, and `count` records of [`TestCluster::put_many`] are on all
    /// their primaries with equal content, and on no other running node.
    pub async fn until_moved(&self, reader: u8, count: usize) {
        self.until("the old layouts retire", || {
            self.running().iter().all(|number| !self.control(*number).read().layouts().is_moving())
        })
        .await;
        let running: BTreeSet<NodeId> = self.running().into_iter().map(id).collect();
        self.until("records are on their primaries only", || {
            (0..count).all(|index| {
                let name = format!("key {index}");
                let holders = self.holders(&name).intersection(&running).copied().collect();
                BTreeSet::eq(&self.primaries(reader, &name), &holders)
                    && self.version_count(&name) == 1
            })
        })
        .await;
        for index in 0..count {
            let value = self.get(reader, &format!("key {index}")).await;
            assert_eq!(value.expect("the record is there"), format!("value {index}"));
        }
    }

    /// Waits until a condition holds, and fails after a time limit.
    pub async fn until(&self, what: &str, happened: impl FnMut() -> bool) {
        self.until_within(PATIENCE, what, happened).await;
    }

    /// Waits until a condition holds, for at most `patience`.
    pub async fn until_within(
        &self,
        patience: Duration,
        what: &str,
        happened: impl FnMut() -> bool,
    ) {
        quoit_testkit::until(patience, what, happened).await;
    }

    pub fn set_limits(&self, limits: TransferLimits) {
        for number in self.running() {
            self.store(number).transfers().set_limits(limits);
        }
    }

    pub async fn create_type(&self, name: &str, props: Value) {
        let Value::Object(props) = props else { panic!("properties are an object") };
        let control = self.control(1);
        control.create_type(name.as_bytes(), &PropUpdates::from(props)).await.unwrap();
        control.activate_type(name.as_bytes()).await.unwrap();
    }

    pub async fn update_type(&self, name: &str, props: Value) {
        let Value::Object(props) = props else { panic!("properties are an object") };
        let updates = PropUpdates::from(props);
        self.control(1).update_type(name.as_bytes(), &updates).await.unwrap();
    }

    /// Lets time pass, on the nodes' clocks as well.
    pub async fn pass(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            sleep(Duration::from_millis(100)).await;
            self.clock.advance_us(100_000);
        }
    }

    /// Numbers of records and of whole partitions for which a node has hints.
    pub fn hint_counts(&self, number: u8) -> (u64, u64) {
        let hints = self.store(number).transfers().stats().hints;
        hints.iter().fold((0, 0), |(records, partitions), each| {
            (records + each.record_count, partitions + each.partition_count)
        })
    }

    /// Number of partitions with `node` as a primary, in the newest layout that node `number` knows.
    pub fn copies_of(&self, number: u8, node: u8) -> u64 {
        let state = self.control(number).read();
        let layout = state.layouts().newest();
        let place = layout.node_index(id(node)).expect("it is in the layout");
        let has_it = |partition: &Partition| layout.primaries(*partition, 3).contains(&place);
        layout.partitions().filter(has_it).count() as u64
    }

    /// Primaries of a record in the newest layout that a node knows.
    pub fn primaries(&self, number: u8, name: &str) -> BTreeSet<NodeId> {
        self.primaries_of(number, key(name), 3)
    }

    /// Partition of a record.
    pub fn partition_of(&self, key: KeyRef<'_>) -> Partition {
        at(key, |at| at.partition)
    }

    pub fn primaries_of(&self, number: u8, key: KeyRef<'_>, n_val: u32) -> BTreeSet<NodeId> {
        let partition = self.partition_of(key);
        let state = self.control(number).read();
        let layout = state.layouts().newest();
        let primaries = layout.primaries(partition, n_val).iter();
        primaries.map(|node| layout.nodes()[usize::from(*node)]).collect()
    }
}
