//! Cost of an index query for three nodes: its plan, its first results, and all of it.
//!
//! ```text
//! cargo run --profile dist -p quoit-core --example index_query -- [ENTRIES] [RESULTS] [RING_SIZE] [QUERIES]
//! ```
//!
//! Three nodes in this process, on one thread and a network in memory, with the memory engine, hold ENTRIES
//! (ten million: some gigabytes of memory) entries of a field of numbers, ten for each record. QUERIES (500)
//! ranges of RESULTS (1000) of them are asked for, each at another place, with n_val 3 (one node has all of
//! them) and n_val 1 (every node has a third, and answers are merged). A query is planned when it starts, and
//! asks nobody before its first results are wanted: the share of planning is the time of the start beside
//! that of the whole.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use bytes::Bytes;
use quoit_cluster::memory_network::MemoryNetwork;
use quoit_cluster::{ControlPlane, Internode, seed_elections};
use quoit_core::{
    Blocking, IndexQuery, IndexSelection, ReplicatedStore, StoreSettings, VolatileCounters,
};
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::hash::RingSize;
use quoit_model::key::BucketRef;
use quoit_model::object::{IndexEntry, IndexTerm, Object, Sibling};
use quoit_model::props::PropUpdates;
use quoit_seam::{Clock, SystemClock};
use quoit_store::engine::{BeforeImage, Decision, Engine, IoMode, RecordMeta, RecordRef};
use quoit_testkit::{TestNode, address_of, at_record, memory_engine};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const NODE_COUNT: u8 = 3;
const ENTRIES_PER_RECORD: u64 = 10;
const FIELD: Bytes = Bytes::from_static(b"n_int");
/// A bucket type of which each record has one copy.
const SINGLE: &[u8] = b"single";
const BUCKET: &[u8] = b"test";

struct Node {
    engine: Arc<dyn Engine>,
    store: Arc<ReplicatedStore>,
    control: Arc<ControlPlane>,
    _internode: Arc<Internode>,
}

impl Node {
    async fn start(
        number: u8,
        ring_size: RingSize,
        network: &MemoryNetwork,
    ) -> Result<Self, Box<dyn Error>> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let engine = memory_engine(ring_size, &clock);
        let actor = Actor(u64::from(number).to_be_bytes()[..].into());
        let described = TestNode {
            ring_size,
            network: Some(network.clone()),
            settings: StoreSettings { blocking: Blocking::Inline, ..StoreSettings::default() },
            ..TestNode::new(number, host(number), clock)
        };
        let described = described.with_engine(Arc::clone(&engine), actor, VolatileCounters);
        let quoit_node::Node { store, control, internode, .. } = described.start().await?;
        tokio::spawn(Arc::clone(&store).run_background());
        Ok(Self { engine, store, control, _internode: internode })
    }

    /// Stores a record of a bucket type with its entries.
    fn write(
        &self,
        bucket_type: &[u8],
        number: u64,
        ring_size: RingSize,
    ) -> Result<(), Box<dyn Error>> {
        let key = number.to_be_bytes();
        let key = BucketRef { bucket_type, bucket: BUCKET }.key(&key);
        let dot = Dot { actor: Actor(b"a"[..].into()), counter: 1, time_secs: 1_700_000_000 };
        let terms = (0..ENTRIES_PER_RECORD).map(|place| number * ENTRIES_PER_RECORD + place);
        let entry = |term: u64| IndexEntry { field: FIELD, term: IndexTerm::integer(term.into()) };
        let mut sibling = Sibling { dot: Some(dot.clone()), ..Sibling::default() };
        sibling.meta.indexes = terms.map(entry).collect();
        let clock = VersionVector::from_entries([dot]);
        let object = Object { clock, siblings: std::iter::once(sibling).collect() };
        let mut change = |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            object.encode_into(out);
            let digest = object.digest();
            let indexed = true;
            Decision::Put(RecordMeta { digest, indexed, n_val_class: 3, ..RecordMeta::default() })
        };
        at_record(key, ring_size, |at| {
            self.engine.update(at, BeforeImage::Skip, IoMode::Wait, &mut change)
        })?;
        Ok(())
    }

    fn name(&self) -> String {
        self.control.read().node_name().to_owned()
    }

    fn is_settled(&self) -> bool {
        let state = self.control.read();
        let is_whole = state.layouts().newest().nodes().len() == usize::from(NODE_COUNT);
        is_whole && !state.layouts().is_moving()
    }
}

fn host(number: u8) -> String {
    format!("n{number}")
}

/// How much is asked for.
#[derive(Clone, Copy)]
struct Plan {
    entry_count: u64,
    result_count: u64,
    ring_size: RingSize,
    query_count: u64,
}

async fn run(plan: Plan) -> Result<(), Box<dyn Error>> {
    seed_elections(1);
    let network = MemoryNetwork::default();
    let mut nodes = Vec::new();
    for number in 1..=NODE_COUNT {
        nodes.push(Node::start(number, plan.ring_size, &network).await?);
        if number > 1 {
            nodes[usize::from(number) - 1].control.join(&address_of(&host(1))).await?;
        }
    }
    let control = &nodes[0].control;
    while control.plan().is_err() || control.commit_staged(None).await.is_err() {
        sleep(Duration::from_millis(100)).await;
    }
    while !nodes.iter().all(Node::is_settled) {
        sleep(Duration::from_millis(100)).await;
    }
    let props = serde_json::json!({"n_val": 1});
    let props = props.as_object().cloned().unwrap_or_default();
    control.create_type(SINGLE, &PropUpdates::from(props)).await?;
    control.activate_type(SINGLE).await?;
    for number in 0..plan.entry_count / ENTRIES_PER_RECORD {
        for node in &nodes {
            node.write(b"default", number, plan.ring_size)?;
        }
        // Nodes that hear nothing of each other for long are taken for down, and others stand in for them.
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
        let name = number.to_be_bytes();
        let key = BucketRef { bucket_type: SINGLE, bucket: BUCKET }.key(&name);
        let places = nodes[0].store.preflist(key)?;
        let owner = nodes.iter().find(|node| node.name() == places[0].node);
        owner.ok_or("every record has a node")?.write(SINGLE, number, plan.ring_size)?;
    }
    println!(
        "{} entries, ranges of {} results, {} partitions",
        plan.entry_count,
        plan.result_count,
        plan.ring_size.get()
    );
    for bucket_type in [b"default", SINGLE] {
        for is_sorted in [false, true] {
            measure(&nodes[0], bucket_type, is_sorted, plan).await?;
        }
    }
    Ok(())
}

/// Asks all queries, and prints the means of their times.
async fn measure(
    node: &Node,
    bucket_type: &[u8],
    is_sorted: bool,
    plan: Plan,
) -> Result<(), Box<dyn Error>> {
    let (mut started, mut first, mut whole) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let places = (plan.entry_count - plan.result_count).max(1);
    for number in 0..plan.query_count {
        // Far from each other, each time others.
        let from = i128::from(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % places);
        let (min, max) = (IndexTerm::integer(from), from + i128::from(plan.result_count) - 1);
        let terms = IndexSelection::Terms { field: FIELD, min, max: IndexTerm::integer(max) };
        let mut query = IndexQuery::new(BucketRef { bucket_type, bucket: BUCKET }, terms);
        query.sorted = is_sorted;
        let began = Instant::now();
        let mut results = node.store.listings().query_index(query).await?;
        let planned = began.elapsed();
        let mut found_count = results.next().await?.map_or(0, |matches| matches.len() as u64);
        first += began.elapsed();
        while let Some(matches) = results.next().await? {
            found_count += matches.len() as u64;
        }
        whole += began.elapsed();
        if number == 0 {
            println!("first plan: {:.1} us", planned.as_secs_f64() * 1e6);
        }
        started += planned;
        if found_count != plan.result_count {
            return Err(format!("{found_count} results instead of {}", plan.result_count).into());
        }
    }
    let mean_us = |time: Duration| time.as_secs_f64() * 1e6 / plan.query_count as f64;
    println!(
        "{} {}: first results {:.1} us, all {:.1} us, planning {:.2} us ({:.2} %)",
        String::from_utf8_lossy(bucket_type),
        if is_sorted { "sorted" } else { "unsorted" },
        mean_us(first),
        mean_us(whole),
        mean_us(started),
        100.0 * mean_us(started) / mean_us(whole),
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (entry_count, result_count) = (number(10_000_000)?, number(1_000)?);
    let ring_size = RingSize::new(u16::try_from(number(512)?)?)
        .ok_or("the ring size has to be a power of two")?;
    let query_count = number(500)?.max(1);
    let plan = Plan { entry_count, result_count, ring_size, query_count };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(plan))
}
