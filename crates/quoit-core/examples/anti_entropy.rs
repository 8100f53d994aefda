//! Cost for two nodes of comparing their copies, and of repairing the differences.
//!
//! ```text
//! cargo run --profile dist -p quoit-core --example anti_entropy -- [KEYS] [VALUE_BYTES] [DIFFERING]
//! ```
//!
//! Two nodes in this process, on one thread and a network in memory, with the Bitcask engine in temporary
//! folders, hold KEYS (a million) equal records of VALUE_BYTES (1000). First the copies are compared as they
//! are, then after one node has lost DIFFERING (100) records, then after it has missed as many updates.
//! Bytes are those of all frames between the two, processor time that of the thread: of both nodes together,
//! with what a cluster does by itself meanwhile.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use quoit_cluster::memory_network::MemoryNetwork;
use quoit_cluster::{ControlPlane, Internode, seed_elections};
use quoit_core::{
    Blocking, Counter, ExchangeSettings, ReplicatedStore, StoreSettings, VolatileCounters,
};
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::hash::RingSize;
use quoit_model::key::BucketRef;
use quoit_model::plain::PlainObject;
use quoit_seam::{Clock, RealDisk, SystemClock, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, Durability};
use quoit_store::engine::{BeforeImage, Decision, IoMode, PointAccess, RecordMeta, RecordRef};
use quoit_store::error::StoreError;
use quoit_testkit::{TestNode, address_of, at_record};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

const BUCKET: BucketRef<'static> = BucketRef::untyped(b"test");

struct Node {
    engine: Arc<BitcaskEngine>,
    store: Arc<ReplicatedStore>,
    control: Arc<ControlPlane>,
    internode: Arc<Internode>,
    _folder: tempfile::TempDir,
}

impl Node {
    async fn start(number: u8, network: &MemoryNetwork) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let seed = u64::from(number);
        let settings =
            BitcaskSettings { durability: Durability::Relaxed, ..BitcaskSettings::new(seed) };
        let disk = Arc::new(RealDisk::open(folder.path())?);
        let (engine, _) = BitcaskEngine::open(disk, Arc::clone(&clock), &Threads, settings)?;
        let engine = Arc::new(engine);
        // Exchanges begin when they are asked for.
        let interval = Duration::from_secs(86_400);
        let exchanges = ExchangeSettings { interval, ..ExchangeSettings::default() };
        let described = TestNode {
            ring_size: RingSize::DEFAULT,
            network: Some(network.clone()),
            settings: StoreSettings {
                exchanges,
                blocking: Blocking::Inline,
                ..StoreSettings::default()
            },
            ..TestNode::new(number, host(number), clock)
        };
        let actor = Actor(seed.to_be_bytes()[..].into());
        let described = described.with_engine(engine.clone(), actor, VolatileCounters);
        let quoit_node::Node { store, control, internode, .. } = described.start().await?;
        tokio::spawn(Arc::clone(&store).run_background());
        Ok(Self { engine, store, control, internode, _folder: folder })
    }

    /// Stores the `version`th version of a record; 0 removes it.
    fn write(&self, number: u64, version: u64, value: &[u8]) -> Result<(), StoreError> {
        let key = number.to_be_bytes();
        let key = BUCKET.key(&key);
        let actor = Actor(number.to_be_bytes()[..].into());
        let dot = Dot { actor, counter: version, time_secs: 1_700_000_000 };
        let mut change = |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            if version == 0 {
                return Decision::Remove;
            }
            let clock = VersionVector::from_entries([dot.clone()]);
            let object = PlainObject { value, ..PlainObject::written(clock, &dot) };
            object.encode_into(out);
            let digest = object.digest();
            Decision::Put(RecordMeta { digest, n_val_class: 3, ..RecordMeta::default() })
        };
        at_record(key, RingSize::DEFAULT, |at| {
            self.engine.update(at, BeforeImage::Skip, IoMode::Wait, &mut change).map(drop)
        })
    }

    /// Bytes sent to and received from the other node, on connections that this one has dialed.
    fn traffic_bytes(&self) -> u64 {
        let peers = self.internode.peers().into_iter();
        let traffic = peers.map(|peer| peer.statistics().traffic);
        traffic.map(|traffic| traffic.sent_bytes + traffic.received_bytes).sum()
    }

    fn ended_count(&self) -> u64 {
        let counts = self.store.stats().snapshot();
        let ended =
            [Counter::ExchangesInSync, Counter::ExchangesSettled, Counter::ExchangesRepaired];
        ended.into_iter().map(|counter| counts.total(counter)).sum()
    }

    fn repaired_count(&self) -> u64 {
        self.store.stats().snapshot().total(Counter::ExchangeKeysRepaired)
    }
}

fn host(number: u8) -> String {
    format!("n{number}")
}

/// Processor time that this thread has taken, in microseconds.
fn cpu_us() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedstat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0) / 1_000
}

/// Has the first node compare its copies with the second one's, and prints what that took.
async fn compare(what: &str, [one, other]: [&Node; 2], object_bytes: u64) {
    let before = (cpu_us(), one.traffic_bytes() + other.traffic_bytes());
    let (ended, repaired) = (one.ended_count(), one.repaired_count());
    let partition = one.store.anti_entropy().stats().partitions[0].partition;
    one.store.anti_entropy().request_exchange(&[partition]);
    while one.ended_count() == ended {
        sleep(Duration::from_millis(1)).await;
    }
    let cpu_us = cpu_us() - before.0;
    let byte_count = one.traffic_bytes() + other.traffic_bytes() - before.1;
    let repaired = one.repaired_count() - repaired;
    print!("{what}: {byte_count} bytes, {:.2} ms of processor time", cpu_us as f64 / 1e3);
    match repaired {
        0 => println!(),
        _ => println!(
            ", {repaired} keys repaired: {:.2} times the objects' bytes",
            byte_count as f64 / (repaired * object_bytes) as f64
        ),
    }
}

async fn run(
    key_count: u64,
    value_bytes: usize,
    differing_count: u64,
) -> Result<(), Box<dyn Error>> {
    seed_elections(1);
    let network = MemoryNetwork::default();
    let (one, other) = (Node::start(1, &network).await?, Node::start(2, &network).await?);
    other.control.join(&address_of(&host(1))).await?;
    while one.control.plan().is_err() || one.control.commit_staged(None).await.is_err() {
        sleep(Duration::from_millis(100)).await;
    }
    while one.store.anti_entropy().stats().partitions.len() < usize::from(RingSize::DEFAULT.get()) {
        sleep(Duration::from_millis(100)).await;
    }
    let value = vec![b'v'; value_bytes];
    for number in 0..key_count {
        one.write(number, 1, &value)?;
        other.write(number, 1, &value)?;
    }
    // Transfers and exchanges that begin when nodes meet are over then.
    sleep(Duration::from_secs(25)).await;
    let nodes = [&one, &other];
    compare("in sync", nodes, 0).await;
    let step = usize::try_from((key_count / differing_count).max(1))?;
    let object_bytes = value_bytes as u64;
    for number in (0..key_count).step_by(step).take(usize::try_from(differing_count)?) {
        one.write(number, 0, &[])?;
    }
    sleep(Duration::from_secs(6)).await;
    compare("records lost", nodes, object_bytes).await;
    for number in (0..key_count).step_by(step).take(usize::try_from(differing_count)?) {
        other.write(number, 2, &value)?;
    }
    sleep(Duration::from_secs(6)).await;
    compare("updates missed", nodes, object_bytes).await;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (keys, value_bytes, differing) = (number(1_000_000)?, number(1_000)?, number(100)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(keys, usize::try_from(value_bytes)?, differing.max(1)))
}
