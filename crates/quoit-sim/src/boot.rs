//! Starts a node on a machine, as the program does on a real one.

use crate::execution::TaskExecution;
use crate::machine::Machine;
use crate::random::Random;
use quoit_cluster::{ControlPlane, NodeId};
use quoit_core::{
    Blocking, CounterReserve, DeleteMode, DotSequence, ReplicatedStore, StoreSettings,
};
use quoit_model::clock::Actor;
use quoit_model::hash::RingSize;
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, MergeSettings};
use quoit_store::engine::Engine;
use quoit_store::error::StoreError;
use quoit_store::seam::Clock;
use std::error::Error;
use std::sync::Arc;

/// Partitions of simulated clusters: few, so that each has some keys.
pub const PARTITION_COUNT: u16 = 8;

/// Why a node did not start, in words.
pub type StartError = Box<dyn Error + Send + Sync>;

/// Starts the node.
///
/// # Errors
///
/// When the disk refuses, or what is on it is not a node's.
pub async fn start(machine: &Machine, seed: u64) -> Result<Arc<ReplicatedStore>, StartError> {
    let boot = machine.begin_boot();
    let number = machine.index as u64 * 1_000 + boot;
    let mut random = Random::new(seed, "boot", number);
    let ring_size = RingSize::new(PARTITION_COUNT).expect("a power of two in the range");
    let disks = machine.disks();
    let node_id = NodeId([machine.index as u8 + 1; 16]);
    let control = ControlPlane::open(
        Arc::new(disks.control),
        quoit_cluster::Settings {
            ring_size: Some(ring_size),
            ..quoit_cluster::Settings::new(&machine.name, node_id)
        },
    )?;
    control.start().await?;
    let clock = Arc::clone(&machine.clock) as Arc<dyn Clock>;
    let execution =
        TaskExecution::new(Random::new(seed, "execution", number), machine.disk_delay.clone());
    let (engine, _) = BitcaskEngine::open(
        Arc::new(disks.data),
        Arc::clone(&clock),
        &execution,
        bitcask_settings(ring_size, random.number()),
    )?;
    let engine = Arc::new(engine);
    let id = engine.store_id().wrapping_add(engine.incarnation());
    let actor = Actor(id.to_be_bytes()[..].into());
    let dots = DotSequence::new(actor, Box::new(EngineCounter(Arc::clone(&engine))));
    let settings = StoreSettings {
        delete_mode: DeleteMode::AfterMs(3_000),
        blocking: Blocking::Inline,
        ..StoreSettings::default()
    };
    let engine = engine as Arc<dyn Engine>;
    let store = ReplicatedStore::new(engine, Arc::new(control), clock, dots, settings);
    Ok(Arc::new(store))
}

/// Small files, so that a short run closes, merges and snapshots many.
fn bitcask_settings(ring_size: RingSize, entropy: u64) -> BitcaskSettings {
    BitcaskSettings {
        ring_size,
        sync_interval_us: 1_000_000,
        max_file_size_bytes: 20_000,
        key_buffer_bytes: 20_000,
        snapshot_interval_bytes: 20_000,
        snapshot_interval_records: 100,
        merge: MergeSettings {
            small_file_threshold_bytes: 2_000,
            check_interval_us: 2_000_000,
            ..MergeSettings::default()
        },
        ..BitcaskSettings::new(entropy)
    }
}

struct EngineCounter(Arc<BitcaskEngine>);

impl CounterReserve for EngineCounter {
    fn reserved(&self) -> u64 {
        self.0.reserved_counter()
    }

    fn reserve(&self, up_to: u64) -> Result<(), StoreError> {
        self.0.reserve_counter(up_to)
    }
}
