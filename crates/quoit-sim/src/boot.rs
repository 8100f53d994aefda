//! Starts a node on a simulated machine, with the released program's assembly of a node (`quoit-node`).

use crate::engine::{EngineKind, EngineOpenOptions, EngineSizes};
use crate::execution::{StepPauses, TaskExecution};
use crate::links::Replication;
use crate::machine::Machine;
use crate::modelled_engine::modelled;
use crate::network::{BlockedLinks, MachineNetwork};
use crate::random::Random;
use crate::versions::PROPERTY_NEEDS;
use quoit_cluster::{
    ControlPlane, Internode, JitterSeed, Network, NodeClock, OpenError, VersionRange,
};
use quoit_core::{
    Blocking, DeleteMode, ExchangeSettings, MachineBoot, PageRecordsMax, ReapRecordLimits,
    SourceQueues, StoreSettings, TransferLimits,
};
use quoit_model::hash::RingSize;
use quoit_node::{AuxiliaryData, Node, NodeParts};
use quoit_seam::{Clock, FaultyDisk};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval between two exchanges of anti-entropy.
const EXCHANGE_INTERVAL: Duration = Duration::from_secs(2);

/// Port of the internode protocol on every machine.
pub const NODE_PORT: u16 = 8099;

/// Reason why a node did not start.
pub type StartError = Box<dyn Error + Send + Sync>;

/// Settings and state that all machines of a run share.
#[derive(Clone)]
pub struct NodeEnvironment {
    /// The seed of the run.
    pub seed: u64,
    /// Number of partitions of each cluster.
    pub partition_counts: Arc<[u16]>,
    /// Replication between clusters; `None` if there is only one.
    pub replication: Option<Arc<Replication>>,
    /// True if nodes run anti-entropy.
    pub has_exchanges: bool,
    /// Time for which nodes keep tombstones.
    pub delete_mode: DeleteMode,
    /// True if nodes compare their clocks, and refuse a peer whose clock is wrong.
    pub compares_clocks: bool,
    /// True if a node that starts serves no client before it has compared its time with another member's.
    pub waits_for_time: bool,
    /// Addresses of the machines that form the cluster, if they are configured as seeds on all machines;
    /// otherwise empty. At their first start these machines have no seeds.
    pub seeds: Arc<[Arc<str>]>,
    /// The engine of all nodes.
    pub engine_kind: EngineKind,
    /// Sizes of the engine's files and buffers.
    pub engine_sizes: EngineSizes,
    /// Pauses of the background work of engines.
    pub step_pauses: StepPauses,
    /// True if a loss of power may take only a part of the last write of a file.
    pub tears_last_writes: bool,
    /// Rate limit of transfers until the faults are repaired, in bytes per second.
    pub transfer_rate: u64,
    /// Time after which nodes close a silent connection. Other times follow from it: for how long a
    /// request is sent to further replicas, and the interval between the rounds of reports after which a
    /// reap record retires.
    pub idle_timeout: Duration,
    /// Number of records in a page of a transfer.
    pub page_records_max: PageRecordsMax,
    /// True when the clients are done and all faults are repaired.
    pub is_calm: Arc<AtomicBool>,
    /// The blocked directions of the network.
    pub blocked_links: BlockedLinks,
}

impl NodeEnvironment {
    /// Returns the seeds that a machine is configured with.
    #[must_use]
    pub fn seeds_of(&self, machine: &Machine) -> Vec<Arc<str>> {
        let forms_cluster = machine.index < self.seeds.len() && machine.boot_count() == 1;
        if forms_cluster { Vec::new() } else { self.seeds.to_vec() }
    }
}

/// Starts the node of a machine.
///
/// # Errors
///
/// When the disk fails, or its contents are not those of a node.
pub async fn start(machine: &Machine, environment: &NodeEnvironment) -> Result<Node, StartError> {
    let boot = machine.begin_boot();
    let number = machine.index as u64 * 1_000 + boot;
    let mut random = Random::new(environment.seed, "boot", number);
    let disks = machine.disks();
    disks.set_faults(|faults| faults.tears_last_write = environment.tears_last_writes);
    let address = format!("{}:{NODE_PORT}", machine.name);
    let network = MachineNetwork {
        machine: machine.name.clone(),
        blocked_links: environment.blocked_links.clone(),
    };
    let listener = network.bind(&address).await?;
    let versions = machine.versions();
    let control = Arc::new(open_control(machine, &address, disks.control, environment)?);
    let clock = Arc::clone(&machine.clock) as Arc<dyn Clock>;
    let compared = environment.compares_clocks.then(|| NodeClock(Arc::clone(&clock)));
    let internode = open_internode(&control, network, versions, compared, environment, &mut random);
    let delay = machine.disk_delay.clone();
    let of_work = Random::new(environment.seed, "execution", number);
    let execution = TaskExecution::new(of_work, delay, environment.step_pauses);
    let (kind, entropy) = (environment.engine_kind, random.number());
    let engine = quoit_node::open_noted(&control, kind.store_name(), |last_opening| {
        let opening = EngineOpenOptions {
            sizes: environment.engine_sizes,
            ring_size: control.ring_size(),
            last_opening,
            entropy,
            clock: Arc::clone(&clock),
            execution: &execution,
        };
        let opened = kind.open(disks.data, opening).map_err(StartError::from)?;
        Ok::<_, StartError>(modelled(opened, &machine.engine_model(), execution.slow_sync()))
    })?;
    let source_queues = match &environment.replication {
        None => None,
        Some(replication) => {
            let settings = replication.source_queues(machine.cluster);
            let boot = MachineBoot(machine.power_loss_count() + 1);
            let disk = Arc::new(disks.queues);
            Some(SourceQueues::open(disk, settings, boot)?)
        }
    };
    let auxiliary = AuxiliaryData {
        hints: Some(Arc::new(disks.hints)),
        reap_records: Some((Arc::new(disks.reaped), random.number())),
        source_queues,
        ..AuxiliaryData::default()
    };
    let (engine, settings) = (engine.into(), store_settings(environment));
    let node = NodeParts { engine, control, internode, clock, settings, auxiliary }.assemble()?;
    node.connect(&address);
    node.listen(listener)?;
    node.recover_lost_records().await?;
    Ok(node)
}

/// Returns the settings of a node's store.
fn store_settings(environment: &NodeEnvironment) -> StoreSettings {
    StoreSettings {
        delete_mode: environment.delete_mode,
        blocking: Blocking::Inline,
        transfer_limits: TransferLimits {
            bytes_per_sec_max: match environment.is_calm.load(Ordering::Relaxed) {
                true => TransferLimits::default().bytes_per_sec_max,
                false => environment.transfer_rate,
            },
            ..TransferLimits::default()
        },
        page_records_max: environment.page_records_max,
        exchanges: ExchangeSettings {
            active: environment.has_exchanges,
            interval: EXCHANGE_INTERVAL,
            ..ExchangeSettings::default()
        },
        reap_records: ReapRecordLimits { file_bytes_max: 2_000, ..ReapRecordLimits::default() },
        ..StoreSettings::default()
    }
}

fn open_control(
    machine: &Machine,
    address: &str,
    disk: FaultyDisk,
    environment: &NodeEnvironment,
) -> Result<ControlPlane, OpenError> {
    let ring_size = RingSize::new(environment.partition_counts[machine.cluster])
        .expect("a power of two in the range");
    let mut settings = quoit_cluster::Settings::new(&machine.name, machine.new_node_id());
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
    environment: &NodeEnvironment,
    random: &mut Random,
) -> Arc<Internode> {
    let (boot_id, seed) = (random.number(), JitterSeed(random.number()));
    let mut settings = control.internode_settings(boot_id, seed);
    (settings.versions, settings.clock) = (versions, clock);
    settings.limits.idle_timeout = environment.idle_timeout;
    let internode = Internode::new(settings, Arc::new(network));
    internode.set_cluster(Some(control.read().cluster_id()));
    internode
}
