//! Starts a node on a machine, as the program does on a real one.

use crate::execution::TaskExecution;
use crate::links::Replication;
use crate::machine::Machine;
use crate::network::{BlockedLinks, MachineNetwork};
use crate::random::Random;
use quoit_cluster::{ControlPlane, Internode, InternodeSettings, Network, OpenError, VersionRange};
use quoit_core::{
    Blocking, CounterReserve, DeleteMode, DotSequence, ExchangeSettings, PageRecordsMax,
    ReapRecordLimits, ReplicatedStore, SourceQueues, StoreSettings, TransferLimits,
};
use quoit_model::clock::Actor;
use quoit_model::hash::RingSize;
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, MergeSettings};
use quoit_store::engine::Engine;
use quoit_store::error::StoreError;
use quoit_store::seam::{Clock, FaultyDisk};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often nodes compare their copies with another's.
const EXCHANGE_INTERVAL: Duration = Duration::from_secs(2);

/// The store's name in the control plane's file.
const STORE_NAME: &str = "bitcask";

/// The port for other nodes, on every machine.
pub const NODE_PORT: u16 = 8099;

/// Why a node did not start, in words.
pub type StartError = Box<dyn Error + Send + Sync>;

/// Surroundings that the machines of a run share.
#[derive(Clone)]
pub struct Surroundings {
    /// The seed of the run.
    pub seed: u64,
    /// Partitions of each cluster.
    pub partition_counts: Arc<[u16]>,
    /// How clusters replicate, where there are several.
    pub replication: Option<Arc<Replication>>,
    /// Whether nodes compare their copies.
    pub has_exchanges: bool,
    /// How soon nodes reap tombstones.
    pub delete_mode: DeleteMode,
    /// Sizes of what engines keep.
    pub engine_sizes: EngineSizes,
    /// Bytes a second that nodes hand over while things go wrong.
    pub transfer_rate: u64,
    /// Records that nodes read at once when they hand them over.
    pub page_records_max: PageRecordsMax,
    /// Whether clients are done and nothing goes wrong any more.
    pub is_calm: Arc<AtomicBool>,
    /// The network.
    pub ways: BlockedLinks,
}

/// A node that runs.
pub struct Node {
    /// The store that clients send requests to.
    pub store: Arc<ReplicatedStore>,
    /// Its connections to others.
    pub internode: Arc<Internode>,
}

/// Starts the node of a machine.
///
/// # Errors
///
/// When the disk refuses, or what is on it is not a node's.
pub async fn start(machine: &Machine, around: &Surroundings) -> Result<Node, StartError> {
    let boot = machine.begin_boot();
    let number = machine.index as u64 * 1_000 + boot;
    let mut random = Random::new(around.seed, "boot", number);
    let disks = machine.disks();
    let address = format!("{}:{NODE_PORT}", machine.name);
    let network = MachineNetwork { machine: machine.name.clone(), ways: around.ways.clone() };
    let listener = network.bind(&address).await?;
    let versions = machine.versions();
    let control = Arc::new(open_control(machine, &address, disks.control, around)?);
    let internode = open_internode(&control, network, versions, &mut random);
    internode.set_address(&*address);
    let clock = Arc::clone(&machine.clock) as Arc<dyn Clock>;
    let delay = machine.disk_delay.clone();
    let execution = TaskExecution::new(Random::new(around.seed, "execution", number), delay);
    let settings = BitcaskSettings {
        last_opening: control.store_opening(STORE_NAME)?,
        ..bitcask_settings(control.ring_size(), around.engine_sizes, random.number())
    };
    let disk = Arc::new(disks.data);
    let (engine, report) = BitcaskEngine::open(disk, Arc::clone(&clock), &execution, settings)?;
    control.note_store_opening(STORE_NAME, engine.opening())?;
    let engine = Arc::new(engine);
    let bitcask = Arc::clone(&engine);
    let id = engine.store_id().wrapping_add(engine.incarnation());
    let actor = Actor(id.to_be_bytes()[..].into());
    let dots = DotSequence::new(actor, Box::new(EngineCounter(Arc::clone(&engine))));
    let engine = engine as Arc<dyn Engine>;
    let settings = StoreSettings {
        delete_mode: around.delete_mode,
        blocking: Blocking::Inline,
        transfer_limits: TransferLimits {
            bytes_per_sec_max: match around.is_calm.load(Ordering::Relaxed) {
                true => TransferLimits::default().bytes_per_sec_max,
                false => around.transfer_rate,
            },
            ..TransferLimits::default()
        },
        page_records_max: around.page_records_max,
        exchanges: ExchangeSettings {
            active: around.has_exchanges,
            interval: EXCHANGE_INTERVAL,
            ..ExchangeSettings::default()
        },
        reap_records: ReapRecordLimits { file_bytes_max: 2_000, ..ReapRecordLimits::default() },
        ..StoreSettings::default()
    };
    let (connected, of_store) = (Arc::clone(&control), Arc::clone(&internode));
    let store = ReplicatedStore::new(engine, control, of_store, clock, dots, settings);
    let store = store.with_hints(Arc::new(disks.hints))?;
    let store = store.with_reap_records(Arc::new(disks.reaped), random.number())?;
    let store = Arc::new(match &around.replication {
        None => store,
        Some(replication) => {
            let settings = replication.source_queues(machine.cluster);
            let boot = machine.power_loss_count() + 1;
            let disk = Arc::new(disks.queues);
            store.with_source_queues(SourceQueues::open(disk, settings, boot)?)
        }
    });
    let is_lossy = report.loss.is_some() || store.has_lost_reap_records();
    if !is_lossy {
        store.serve_replicas();
    }
    connected.connect(&internode);
    internode.serve(listener)?;
    if is_lossy {
        make_up_for_loss(&store, &bitcask).await?;
    }
    Ok(Node { store, internode })
}

/// Makes up for records that a store has lost, before its node serves.
async fn make_up_for_loss(
    store: &Arc<ReplicatedStore>,
    engine: &BitcaskEngine,
) -> Result<(), StartError> {
    store.settle_loss().await?;
    engine.settle_loss()?;
    store.serve_replicas();
    Ok(())
}

fn open_control(
    machine: &Machine,
    address: &str,
    disk: FaultyDisk,
    around: &Surroundings,
) -> Result<ControlPlane, OpenError> {
    let node_id = Machine::node_id_at(machine.index);
    let ring_size = RingSize::new(around.partition_counts[machine.cluster])
        .expect("a power of two in the range");
    let mut settings = quoit_cluster::Settings::new(&machine.name, node_id);
    settings.ring_size = Some(ring_size);
    settings.addresses.node = address.into();
    settings.versions = machine.versions();
    ControlPlane::open(Arc::new(disk), settings)
}

fn open_internode(
    control: &ControlPlane,
    network: MachineNetwork,
    versions: VersionRange,
    random: &mut Random,
) -> Arc<Internode> {
    let state = control.read();
    let (boot_id, seed) = (random.number(), random.number());
    let settings = InternodeSettings {
        versions,
        ..InternodeSettings::new(state.node_id(), state.node_name(), boot_id, seed)
    };
    let internode = Internode::new(settings, Arc::new(network));
    internode.set_cluster(Some(state.cluster_id()));
    internode
}

/// Sizes of what an engine keeps in files and in memory: small, so that a short run closes, merges and
/// snapshots many.
#[derive(Clone, Copy, Debug)]
pub struct EngineSizes {
    /// Bytes of a segment of the log.
    segment_bytes: u64,
    /// Bytes that are logged between two snapshots.
    snapshot_interval_bytes: u64,
    /// Bytes of index entries that wait to be moved to their file; `None` = the engine's default.
    entry_buffer_bytes: Option<u64>,
}

impl Default for EngineSizes {
    fn default() -> Self {
        Self { segment_bytes: 20_000, snapshot_interval_bytes: 20_000, entry_buffer_bytes: None }
    }
}

impl EngineSizes {
    /// Sizes of a seed's engines.
    pub(crate) fn draw(random: &mut Random) -> Self {
        Self {
            segment_bytes: *random.pick(&[1_000, 4_000, 20_000]),
            snapshot_interval_bytes: *random.pick(&[2_000, 20_000]),
            entry_buffer_bytes: *random.pick(&[Some(400), Some(2_000), None]),
        }
    }
}

fn bitcask_settings(ring_size: RingSize, sizes: EngineSizes, entropy: u64) -> BitcaskSettings {
    let defaults = BitcaskSettings::new(entropy);
    BitcaskSettings {
        ring_size,
        sync_interval_us: 1_000_000,
        max_file_size_bytes: sizes.segment_bytes,
        key_buffer_bytes: 20_000,
        snapshot_interval_bytes: sizes.snapshot_interval_bytes,
        entry_buffer_bytes: sizes.entry_buffer_bytes.unwrap_or(defaults.entry_buffer_bytes),
        snapshot_interval_records: 100,
        // Disks have some thousand bytes where they are nearly full.
        kept_room_bytes: 0,
        merge: MergeSettings {
            small_file_threshold_bytes: 2_000,
            check_interval_us: 2_000_000,
            ..MergeSettings::default()
        },
        ..defaults
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

    fn given_away(&self) -> u64 {
        self.0.given_away_counter()
    }

    fn note_given_away(&self, up_to: u64) -> Result<(), StoreError> {
        self.0.note_given_away(up_to)
    }
}
