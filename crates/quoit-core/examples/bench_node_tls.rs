//! Gets and puts of three nodes over mutual TLS beside the same without, and their ratios.
//!
//! ```text
//! cargo run --profile dist -p quoit-core --example bench_node_tls -- [OPERATIONS] [ROUNDS]
//! ```
//!
//! Two clusters of three nodes in this process, with the memory engine, over TCP on loopback: one whose
//! connections have TLS 1.3 and proofs of membership, one without. OPERATIONS (20 000) gets with r=3,
//! then puts with w=3, of values of 1 KiB, 16 at a time, through the first node of each, in turns,
//! ROUNDS (5) times. The processor time of the whole process for each operation is printed as the median
//! of the rounds, and the ratio of the two. Both sides of each connection are in this process, so that
//! the ratio counts both.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use bytes::Bytes;
use quoit_cluster::{
    Addresses, ControlPlane, Internode, InternodeSettings, LinkMode, LinkSecurity, Network, NodeId,
    Settings, TokioNetwork,
};
use quoit_core::{
    Blocking, DotSequence, PutRequest, ReadOptions, ReplicatedStore, StoreSettings, Unreserved,
};
use quoit_model::clock::Actor;
use quoit_model::hash::RingSize;
use quoit_model::key::BucketRef;
use quoit_model::props::Quorum;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use quoit_store::seam::{Clock, FaultyDisk, SystemClock};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

const NODE_COUNT: u8 = 3;
const CONCURRENT: u64 = 16;
const KEYS: u64 = 1000;
const VALUE_BYTES: usize = 1024;
const BUCKET: BucketRef<'static> = BucketRef { bucket_type: b"default", bucket: b"test" };

struct Node {
    store: Arc<ReplicatedStore>,
    control: Arc<ControlPlane>,
    address: String,
    _internode: Arc<Internode>,
}

impl Node {
    async fn start(number: u8, mode: LinkMode) -> Result<Self, Box<dyn Error>> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let seed = u64::from(number);
        let ring_size = RingSize::DEFAULT;
        let engine = MemoryEngine::new(MemorySettings::default(), ring_size, Arc::clone(&clock));
        let (id, name) = (NodeId([number; 16]), format!("n{number}@bench"));
        let listener = TokioNetwork.bind("127.0.0.1:0").await?;
        let address = listener.local_address()?;
        let addresses = Addresses { node: address.as_str().into(), ..Addresses::default() };
        let settings =
            Settings { ring_size: Some(ring_size), addresses, ..Settings::new(&name, id) };
        let control = Arc::new(ControlPlane::open(Arc::new(FaultyDisk::new(seed)), settings)?);
        let settings = InternodeSettings {
            security: Arc::new(LinkSecurity::new(mode, None)),
            ..InternodeSettings::new(id, name, seed, seed)
        };
        let internode = Internode::new(settings, Arc::new(TokioNetwork));
        let store = Arc::new(ReplicatedStore::new(
            Arc::new(engine),
            Arc::clone(&control),
            Arc::clone(&internode),
            clock,
            DotSequence::new(Actor(seed.to_be_bytes()[..].into()), Box::new(Unreserved)),
            StoreSettings { blocking: Blocking::Inline, ..StoreSettings::default() },
        ));
        store.serve_replicas();
        internode.serve(listener)?;
        control.connect(&internode);
        tokio::spawn(Arc::clone(&store).run_background());
        Ok(Self { store, control, address, _internode: internode })
    }

    fn is_settled(&self, mode: LinkMode) -> bool {
        let state = self.control.read();
        let is_whole = state.layouts().newest().nodes().len() == usize::from(NODE_COUNT);
        let links = self.control.link_view();
        let members = links.iter().flat_map(|links| &links.members);
        let is_plain = mode == LinkMode::Plain;
        let linked = members.filter(|member| member.is_plain == Some(is_plain)).count();
        is_whole && !state.layouts().is_moving() && linked + 1 == usize::from(NODE_COUNT)
    }
}

async fn cluster(mode: LinkMode) -> Result<Vec<Node>, Box<dyn Error>> {
    let mut nodes: Vec<Node> = Vec::new();
    for number in 1..=NODE_COUNT {
        nodes.push(Node::start(number, mode).await?);
        if number > 1 {
            nodes[usize::from(number) - 1].control.join(&nodes[0].address).await?;
        }
    }
    let control = &nodes[0].control;
    while control.plan().is_err() || control.commit_staged(None).await.is_err() {
        sleep(Duration::from_millis(100)).await;
    }
    while !nodes.iter().all(|node| node.is_settled(mode)) {
        sleep(Duration::from_millis(100)).await;
    }
    for number in 0..KEYS {
        put(&nodes[0].store, number).await?;
    }
    Ok(nodes)
}

async fn put(store: &ReplicatedStore, number: u64) -> Result<(), String> {
    let key = number.to_be_bytes();
    let value = Bytes::from(vec![number as u8; VALUE_BYTES]);
    let mut request = PutRequest::of(BUCKET.key(&key), value);
    request.options.w = Some(Quorum::All);
    store.put(request).await.map(|_| ()).map_err(|fault| fault.to_string())
}

async fn get(store: &ReplicatedStore, number: u64) -> Result<(), String> {
    let key = number.to_be_bytes();
    let options = ReadOptions { r: Some(Quorum::All), ..ReadOptions::default() };
    let found = store.get(BUCKET.key(&key), &options).await.map_err(|fault| fault.to_string())?;
    found.map(|_| ()).ok_or_else(|| "a record is missing".to_owned())
}

fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// Processor time of an operation, in microseconds.
async fn measure(
    store: &Arc<ReplicatedStore>,
    count: u64,
    is_put: bool,
) -> Result<f64, Box<dyn Error>> {
    let began_us = cpu_us();
    let mut tasks = JoinSet::new();
    for task in 0..CONCURRENT {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            for step in 0..count / CONCURRENT {
                let number = (task + step * CONCURRENT) % KEYS;
                if is_put { put(&store, number).await? } else { get(&store, number).await? }
            }
            Ok::<_, String>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok((cpu_us() - began_us) as f64 / count as f64)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let count = arguments.next().transpose()?.unwrap_or(20_000).max(CONCURRENT);
    let rounds = arguments.next().transpose()?.unwrap_or(5).max(1);
    // Nodes begin with plain connections, and go over to TLS when they hold certificates.
    let secured = cluster(LinkMode::Both).await?;
    let plain = cluster(LinkMode::Plain).await?;
    for (what, is_put) in [("get, r=3", false), ("put, w=3", true)] {
        let (mut over_tls, mut without) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            without.push(measure(&plain[0].store, count, is_put).await?);
            over_tls.push(measure(&secured[0].store, count, is_put).await?);
        }
        let (over_tls, without) = (median(over_tls), median(without));
        let ratio = over_tls / without;
        println!(
            "{what}: {without:.1} us plain, {over_tls:.1} us over mutual TLS, ratio {ratio:.2}"
        );
    }
    Ok(())
}
