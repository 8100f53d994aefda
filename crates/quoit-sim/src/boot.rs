//! Starts a node on a machine, as the program does on a real one.

use crate::engine::{EngineKind, EngineSizes, NodeEngine, Opening};
use crate::execution::TaskExecution;
use crate::links::Replication;
use crate::machine::Machine;
use crate::network::{BlockedLinks, MachineNetwork};
use crate::random::Random;
use crate::versions::PROPERTY_NEEDS;
use quoit_cluster::{
    ControlPlane, Internode, InternodeSettings, Network, NodeClock, OpenError, VersionRange,
};
use quoit_core::{
    Blocking, DeleteMode, DotSequence, ExchangeSettings, PageRecordsMax, ReapRecordLimits,
    ReplicatedStore, SourceQueues, StoreBuilder, StoreSettings, TransferLimits,
};
use quoit_model::clock::Actor;
use quoit_model::hash::RingSize;
use quoit_seam::{Clock, FaultyDisk};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often nodes compare their copies with another's.
const EXCHANGE_INTERVAL: Duration = Duration::from_secs(2);

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
    /// Whether nodes refuse one another for a clock that is ahead.
    pub compares_clocks: bool,
    /// Whether nodes wait before they serve until another member has their time.
    pub waits_for_time: bool,
    /// The engine of all nodes.
    pub engine_kind: EngineKind,
    /// Sizes of what engines keep.
    pub engine_sizes: EngineSizes,
    /// Bytes a second that nodes hand over while things go wrong.
    pub transfer_rate: u64,
    /// How long connections between nodes may be silent. How long requests send, and rounds of
    /// reports before a reap record goes, follow from it.
    pub idle_timeout: Duration,
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
    let clock = Arc::clone(&machine.clock) as Arc<dyn Clock>;
    let compared = around.compares_clocks.then(|| NodeClock(Arc::clone(&clock)));
    let internode = open_internode(&control, network, versions, compared, around, &mut random);
    internode.set_address(&*address);
    let delay = machine.disk_delay.clone();
    let execution = TaskExecution::new(Random::new(around.seed, "execution", number), delay);
    let name = around.engine_kind.store_name();
    let opening = Opening {
        kind: around.engine_kind,
        sizes: around.engine_sizes,
        ring_size: control.ring_size(),
        last_opening: control.store_opening(name)?,
        entropy: random.number(),
        clock: Arc::clone(&clock),
        execution: &execution,
    };
    let (engine, has_lost) = NodeEngine::open(disks.data, opening)?;
    control.note_store_opening(name, engine.opening())?;
    let actor = Actor(engine.actor_id().to_be_bytes()[..].into());
    let dots = DotSequence::new(actor, Box::new(engine.clone()));
    let settings = store_settings(around);
    let (connected, of_store) = (Arc::clone(&control), Arc::clone(&internode));
    let builder = StoreBuilder::new(engine.shared(), control, of_store, clock, dots, settings);
    let builder = builder.with_hints(Arc::new(disks.hints))?;
    let builder = builder.with_reap_records(Arc::new(disks.reaped), random.number())?;
    let builder = match &around.replication {
        None => builder,
        Some(replication) => {
            let settings = replication.source_queues(machine.cluster);
            let boot = machine.power_loss_count() + 1;
            let disk = Arc::new(disks.queues);
            builder.with_source_queues(SourceQueues::open(disk, settings, boot)?)
        }
    };
    let store = builder.build();
    let is_lossy = has_lost || store.has_lost_reap_records();
    if !is_lossy {
        store.serve_replicas();
    }
    connected.connect(&internode);
    internode.serve(listener)?;
    if is_lossy {
        make_up_for_loss(&store, &engine).await?;
    }
    Ok(Node { store, internode })
}

/// Settings of a node's store.
fn store_settings(around: &Surroundings) -> StoreSettings {
    StoreSettings {
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
    }
}

/// Makes up for records that a store has lost, before its node serves.
async fn make_up_for_loss(
    store: &Arc<ReplicatedStore>,
    engine: &NodeEngine,
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
    settings.property_needs = PROPERTY_NEEDS;
    ControlPlane::open(Arc::new(disk), settings)
}

fn open_internode(
    control: &ControlPlane,
    network: MachineNetwork,
    versions: VersionRange,
    clock: Option<NodeClock>,
    around: &Surroundings,
    random: &mut Random,
) -> Arc<Internode> {
    let state = control.read();
    let (boot_id, seed) = (random.number(), random.number());
    let mut settings = InternodeSettings::new(state.node_id(), state.node_name(), boot_id, seed);
    (settings.versions, settings.clock) = (versions, clock);
    settings.limits.idle_timeout = around.idle_timeout;
    let internode = Internode::new(settings, Arc::new(network));
    internode.set_cluster(Some(state.cluster_id()));
    internode
}
