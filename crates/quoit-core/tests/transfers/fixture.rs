//! Several nodes in one process, with a network and disks in memory, paused time, and elections from a
//! seed.

mod damage;
mod requests;

use bytes::Bytes;
use quoit_cluster::memory_network::MemoryNetwork;
use quoit_cluster::{ControlPlane, Internode, Limits, NodeId, StagedChange, seed_elections};
use quoit_core::{
    Blocking, CounterReserve, DotSequence, ReplicatedStore, StoreSettings, TransferLimits,
};
use quoit_model::clock::Actor;
use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_model::key::{BucketRef, KeyRef, PIECE_TYPE};
use quoit_model::object::Object;
use quoit_model::props::PropUpdates;
use quoit_node::{AuxiliaryData, FoundLoss, NodeEngine};
use quoit_seam::{Clock, FaultyDisk, ManualClock, ManualExecution};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, COMMIT_WORKER, Durability};
use quoit_store::engine::{
    Access, Before, Decision, Engine, Fetch, KeyRange, Record, RecordAt, RecordRef,
};
use quoit_store::error::StoreError;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use quoit_testkit::{TestNode, address_of, at_record, memory_engine};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
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

/// Counters of a node's events, as noted on its disk.
#[derive(Clone, Default)]
pub struct Counters(Arc<Mutex<Noted>>);

#[derive(Default)]
struct Noted {
    reserved: u64,
    given_away: u64,
    /// True to refuse notes of counters that are given away.
    is_full: bool,
}

impl Counters {
    /// Makes the disk refuse notes of counters that are given away, or accept them again.
    pub fn set_full(&self, is_full: bool) {
        self.0.lock().unwrap().is_full = is_full;
    }
}

impl CounterReserve for Counters {
    fn reserved(&self) -> u64 {
        self.0.lock().unwrap().reserved
    }

    fn reserve(&self, up_to: u64) -> Result<(), StoreError> {
        self.0.lock().unwrap().reserved = up_to;
        Ok(())
    }

    fn given_away(&self) -> u64 {
        self.0.lock().unwrap().given_away
    }

    fn note_exported(&self, up_to: u64) -> Result<(), StoreError> {
        let mut noted = self.0.lock().unwrap();
        if noted.is_full {
            return Err(StoreError::Closed);
        }
        noted.given_away = up_to;
        Ok(())
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

    pub async fn start(&mut self, number: u8) {
        self.begin(number, None).await;
        self.work(number);
    }

    /// Starts a node whose store has lost records. It makes up for the loss before it serves.
    pub async fn start_after_loss(&mut self, number: u8) {
        self.start_all_after_loss(&[number]).await;
    }

    /// Starts nodes whose stores have lost records, all at once.
    pub async fn start_all_after_loss(&mut self, numbers: &[u8]) {
        for number in numbers {
            self.begin(*number, Some(FoundLoss::unreported("a test has removed them"))).await;
        }
        let make_up = |number: &u8| {
            let node = Arc::clone(&self.process(*number).node);
            tokio::spawn(async move { node.recover_lost_records().await.unwrap().unwrap() })
        };
        let made_up: Vec<_> = numbers.iter().map(make_up).collect();
        for one in made_up {
            one.await.unwrap();
        }
        numbers.iter().for_each(|number| self.work(*number));
    }

    /// Starts a node's background work.
    fn work(&mut self, number: u8) {
        let store = Arc::clone(self.store(number));
        let background = tokio::spawn(store.run_background()).abort_handle();
        let process = self.nodes[usize::from(number) - 1].process.as_mut();
        process.expect("the node runs").background = Some(background);
    }

    /// Starts a node without its background work. A node that has lost records does not serve yet.
    async fn begin(&mut self, number: u8, loss: Option<FoundLoss>) {
        self.boots += 1;
        let clock = self.clock_of(number);
        let node = &mut self.nodes[usize::from(number) - 1];
        let new_actor = || Actor(self.boots.to_be_bytes()[..].into());
        let actor = node.actor.take().unwrap_or_else(new_actor);
        let engine = NodeEngine {
            engine: Arc::clone(&node.engine),
            dots: DotSequence::new(actor.clone(), Box::new(node.counters.clone())),
            loss,
        };
        let started = TestNode {
            ring_size: ring_size(),
            network: Some(self.network.clone()),
            control_disk: Arc::new(node.disk.clone()),
            engine: Some(engine),
            settings: self.settings,
            beside: AuxiliaryData {
                hints: Some(Arc::new(node.hints.clone())),
                reap_records: Some((Arc::new(node.reaped.clone()), self.boots)),
                ..AuxiliaryData::default()
            },
            limits: Limits { frame_bytes_max: self.frame_bytes_max, ..Limits::default() },
            boot_id: self.boots,
            ..TestNode::new(number, host(number), clock)
        };
        let running = Arc::new(started.start().await.unwrap());
        node.process = Some(Process { node: running, actor, background: None });
    }

    /// Stops a node in good order: its store keeps its actor.
    pub fn stop(&mut self, number: u8) {
        let actor = self.process(number).actor.clone();
        self.kill(number);
        self.nodes[usize::from(number) - 1].actor = Some(actor);
    }

    /// Counters on a node's disk.
    pub fn counters(&self, number: u8) -> &Counters {
        &self.nodes[usize::from(number) - 1].counters
    }

    /// Kills the process of a node. Its stored data stays.
    pub fn kill(&mut self, number: u8) {
        let node = &mut self.nodes[usize::from(number) - 1];
        node.process = None;
        node.disk = node.disk.kill();
        node.hints = node.hints.kill();
        node.reaped = node.reaped.kill();
        self.network.kill(&format!("n{number}"));
    }

    /// Cuts a node's power: changes that its disk has not synced may be lost.
    pub fn lose_power(&mut self, number: u8) {
        self.kill(number);
        let clock = self.clock_of(number);
        let durability = self.disks.expect("nodes have disks");
        let node = &mut self.nodes[usize::from(number) - 1];
        let data = node.data.as_ref().expect("it has a disk").crash();
        (node.engine, node.execution) = on_disk(&data, clock, durability);
        node.data = Some(data);
    }

    /// Gives a node that does not run an empty engine with a bound, whose copies can't be compared.
    pub fn bound_memory(&mut self, number: u8) {
        let settings = MemorySettings { partition_bytes_max: Some(1 << 30), ..Default::default() };
        let engine = MemoryEngine::new(settings, ring_size(), self.clock_of(number));
        let node = &mut self.nodes[usize::from(number) - 1];
        assert!(node.process.is_none(), "the node does not run");
        node.engine = Arc::new(engine);
    }

    /// Makes the background work of a node's engine sync the present log.
    pub fn sync_log(&self, number: u8) {
        let execution = &self.nodes[usize::from(number) - 1].execution;
        execution.step(COMMIT_WORKER).expect("the engine has a log");
    }

    /// Makes everything that a node has written durable.
    pub fn sync(&self, number: u8) {
        self.nodes[usize::from(number) - 1].engine.sync().unwrap();
    }

    /// Records in a node's engine, without pieces.
    pub fn records(&self, number: u8) -> Vec<(Partition, Bytes, Record)> {
        let engine = &self.nodes[usize::from(number) - 1].engine;
        let page = |partition| engine.fold(partition, Identity(0), usize::MAX, false).unwrap();
        let of =
            |partition| page(partition).entries.into_iter().map(move |(k, r)| (partition, k, r));
        (0..ring_size().get()).map(Partition).flat_map(of).collect()
    }

    /// Replaces the records in the engine of a node that does not run.
    pub fn set_records(&mut self, number: u8, records: &[(Partition, Bytes, Record)]) {
        let node = &self.nodes[usize::from(number) - 1];
        assert!(node.process.is_none(), "the node does not run");
        for partition in (0..ring_size().get()).map(Partition) {
            node.engine.drop_partition(partition).unwrap();
        }
        for (_, encoded, record) in records {
            let key = KeyRef::decode(encoded).unwrap();
            at(key, |at| {
                let write = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
                    out.extend_from_slice(&record.value);
                    Decision::Put(record.meta)
                };
                node.engine.update(at, Before::Skip, Access::Wait, write).unwrap();
            });
        }
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

    /// Nodes that store the record, running or not.
    pub fn holders(&self, name: &str) -> BTreeSet<NodeId> {
        self.holders_of(key(name))
    }

    pub fn holders_of(&self, key: KeyRef<'_>) -> BTreeSet<NodeId> {
        let numbers = 1..=self.nodes.len() as u8;
        numbers.filter(|number| self.stored(*number, key).is_some()).map(id).collect()
    }

    /// Nodes that store anything under a key, including records in pages.
    pub fn holders_of_record(&self, key: KeyRef<'_>) -> BTreeSet<NodeId> {
        let numbers = 1..=self.nodes.len() as u8;
        numbers.filter(|number| self.record(*number, key).is_some()).map(id).collect()
    }

    /// Number of different objects that the running nodes store under a name.
    fn version_count(&self, name: &str) -> usize {
        let stored = self.running().into_iter().filter_map(|number| self.stored(number, key(name)));
        stored.map(|object| object.digest()).collect::<BTreeSet<u64>>().len()
    }

    /// Object that a node stores under a key.
    pub fn stored(&self, number: u8, key: KeyRef<'_>) -> Option<Object> {
        self.record(number, key).map(|record| Object::decode(&record.value).unwrap())
    }

    /// Record that a node's engine stores under a key.
    pub fn record(&self, number: u8, key: KeyRef<'_>) -> Option<Record> {
        let engine = &self.nodes[usize::from(number) - 1].engine;
        match at(key, |at| engine.get(at, Access::Wait).unwrap()) {
            Fetch::Found(record) => Some(record),
            Fetch::Missing | Fetch::WouldBlock => None,
        }
    }

    /// Numbers of pages of a record in a node's engine, by generation. Notes of staged pages belong to
    /// no record.
    pub fn pages(&self, number: u8, record: &[u8]) -> BTreeMap<Vec<u8>, usize> {
        let engine = &self.nodes[usize::from(number) - 1].engine;
        let pieces = BucketRef { bucket_type: PIECE_TYPE, bucket: record };
        let listed = engine.list_keys(KeyRange::Bucket(pieces), None, 1_000_000).unwrap();
        let mut pages = BTreeMap::new();
        for (encoded, _) in listed.entries {
            let generation = KeyRef::decode(&encoded).unwrap().key[..8].to_vec();
            *pages.entry(generation).or_default() += 1;
        }
        pages
    }

    /// True if a node can read its record of a name.
    pub fn is_readable(&self, number: u8, name: &str) -> bool {
        let engine = &self.nodes[usize::from(number) - 1].engine;
        at(key(name), |at| engine.get(at, Access::Wait).is_ok())
    }

    /// Number of records that a node keeps, including those that it does not show any more.
    pub fn kept_count(&self, number: u8) -> u64 {
        self.nodes[usize::from(number) - 1].engine.stats().key_count
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

    pub fn primaries_of(&self, number: u8, key: KeyRef<'_>, n_val: u32) -> BTreeSet<NodeId> {
        let partition = at(key, |at| at.partition);
        let state = self.control(number).read();
        let layout = state.layouts().newest();
        let primaries = layout.primaries(partition, n_val).iter();
        primaries.map(|node| layout.nodes()[usize::from(*node)]).collect()
    }
}
