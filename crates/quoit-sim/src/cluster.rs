//! The simulated world of a run: machines, network, clients and faults, driven step by step.

use crate::boot::NodeEnvironment;
use crate::bucket_operator::initial_replica_counts;
use crate::check::check;
use crate::cluster_plan::ClusterPlan;
use crate::data_types::DataTypeHistory;
use crate::disks::Disks;
use crate::drive::{drive, drive_clusters};
use crate::engine::EngineKind;
use crate::family::Family;
use crate::faults::{
    LATENCY_US, MachineFault, PlannedFault, RotChance, plan, plan_in_lull, plan_later,
    plan_restarts_beside_cuts,
};
use crate::growth::{SAMPLE_US, check_growth};
use crate::history::History;
use crate::machine::Machine;
use crate::names::policies;
use crate::network::BlockedLinks;
use crate::orders::Orders;
use crate::process::run_process;
use crate::random::Random;
use crate::registers::RegisterHistory;
use crate::replica_counts::ReplicaCounts;
use crate::run_context::RunContext;
use crate::settings::Settings;
use crate::stage::Stage;
use crate::store_checks::{CHECK_INTERVAL_US, StoreChecks, check_engine};
use crate::time::SimTime;
use crate::trace::Trace;
use crate::upgrade::plan_upgrades;
use crate::violation::{Violation, ViolationKind};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use turmoil::Sim;

/// Length of a step of simulated time, in microseconds.
const TICK_US: u64 = 2_000;
/// Limit of segments in flight on one connection, and of connections that wait to be accepted.
const SEGMENTS_MAX: usize = 4_096;
/// Simulated time for each cluster after which a run counts as hung.
const LONGEST: Duration = Duration::from_secs(1_800);
/// The same limit for a large world.
const LONGEST_LARGE: Duration = Duration::from_secs(7_200);
/// The world of one run.
pub struct Cluster {
    settings: Settings,
    pub(crate) sim: Sim<'static>,
    pub(crate) run_context: RunContext,
    pub(crate) blocked_links: BlockedLinks,
    pub(crate) environment: NodeEnvironment,
    stage: Arc<Mutex<Stage>>,
    verdict: Arc<Mutex<Result<(), Violation>>>,
    planned: Vec<PlannedFault>,
    /// Machines whose messages are held back in both directions: they are off or stalled.
    pub(crate) held: BTreeSet<usize>,
    /// Machines that no other fault's end may join to the others again.
    pub(crate) isolated: BTreeSet<usize>,
    /// Machines on whose disks a bit has flipped.
    pub(crate) damaged: BTreeSet<usize>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.blocked_links.end();
    }
}

impl Cluster {
    /// Builds the world of a seed. No step has run yet.
    pub fn new(seed: u64, settings: &Settings) -> Self {
        let time = SimTime::default();
        let trace = Trace::new(time.clone(), settings.line_count_max, settings.tell);
        let clusters = ClusterPlan::draw(seed, settings);
        let machine = |index: usize| {
            let disks = Disks::new(&mut Random::new(seed, "disk", index as u64));
            Arc::new(Machine::new(index, clusters.role(index), disks, &time))
        };
        let has_operator = settings.has_operator(seed) && !clusters.is_lossless();
        let founder_count = clusters.founder_count();
        let machine_count = founder_count + if has_operator { settings.spare_count() } else { 0 };
        let machines: Arc<[_]> = (0..machine_count).map(machine).collect();
        let history = History {
            keys: policies(settings.workload(seed).key_count, settings.has_wipes()),
            replica_counts: match settings.has_replica_counts(seed) {
                true => initial_replica_counts(seed, settings.rots(seed)),
                false => ReplicaCounts::default(),
            },
            ttls: settings.ttls(seed),
            has_no_entries: !settings.has_entries(seed),
            writes_are_made_once: settings.family == Some(Family::PassedOnOnce),
            ..History::default()
        };
        let history = Arc::new(Mutex::new(history));
        let orders = Orders::default();
        let data_types = Arc::new(Mutex::new(DataTypeHistory::default()));
        let registers = Arc::new(Mutex::new(RegisterHistory::default()));
        let run_context = RunContext {
            cluster: None,
            machines,
            orders,
            history,
            data_types,
            registers,
            time,
            trace,
        };
        let blocked_links = BlockedLinks::default();
        let environment = node_environment(seed, settings, &clusters, blocked_links.clone());
        let lull = Duration::from_micros(settings.tempo(seed).lull_us);
        let longest = if settings.is_large { LONGEST_LARGE } else { LONGEST };
        let mut builder = turmoil::Builder::new();
        builder
            .rng_seed(Random::new(seed, "turmoil", 0).number())
            .tick_duration(Duration::from_micros(TICK_US))
            .simulation_duration(longest * clusters.count() + lull)
            .max_message_latency(Duration::from_micros(LATENCY_US))
            .tcp_capacity(SEGMENTS_MAX)
            .enable_random_order();
        let mut planned = planned_faults(seed, settings, &run_context);
        clusters.keep_possible(&mut planned);
        let mut cluster = Self {
            settings: *settings,
            sim: builder.build(),
            run_context,
            blocked_links,
            environment,
            stage: Arc::new(Mutex::new(Stage::Form)),
            verdict: Arc::new(Mutex::new(Ok(()))),
            planned,
            held: BTreeSet::new(),
            isolated: BTreeSet::new(),
            damaged: BTreeSet::new(),
        };
        for machine in cluster.run_context.in_service() {
            cluster.add_host(&machine);
        }
        cluster.add_clients(has_operator);
        cluster
    }

    /// The story of the run.
    pub const fn trace(&self) -> &Trace {
        &self.run_context.trace
    }

    /// Switches a machine on.
    pub(crate) fn add_host(&mut self, machine: &Arc<Machine>) {
        let (machine, trace) = (Arc::clone(machine), self.run_context.trace.clone());
        let environment = self.environment.clone();
        self.sim.host(machine.name.clone(), move || {
            let (machine, trace) = (Arc::clone(&machine), trace.clone());
            let environment = environment.clone();
            async move {
                run_process(&machine, &environment, &trace).await;
                Ok(())
            }
        });
    }

    fn add_clients(&mut self, has_operator: bool) {
        let (run_context, settings, seed) =
            (self.run_context.clone(), self.settings, self.environment.seed);
        let (stage, verdict) = (Arc::clone(&self.stage), Arc::clone(&self.verdict));
        let replication = self.environment.replication.clone();
        self.sim.client("clients", async move {
            let result = match replication {
                None => drive(run_context, settings, seed, stage, has_operator).await,
                Some(replication) => {
                    let stage = (stage, has_operator);
                    drive_clusters(run_context, settings, seed, stage, &replication).await
                }
            };
            *verdict.lock() = result;
            Ok(())
        });
    }

    /// Runs the simulation to its end, step by step, and checks the history.
    ///
    /// Each step applies the faults that are due, carries out the operator's orders, checks the nodes
    /// from time to time, and then lets the simulated hosts run for `TICK_US`.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub fn run(&mut self) -> Result<(), Violation> {
        let mut planned = std::mem::take(&mut self.planned).into_iter().peekable();
        let mut began_us = 0;
        let mut random = Random::new(self.environment.seed, "growth", 0);
        let (mut next_sample_us, mut next_look_us) = (0, 0);
        let mut store_checks = StoreChecks::new(self.environment.idle_timeout);
        loop {
            self.run_context.time.advance_us(TICK_US);
            let now_us = self.run_context.time.now_us();
            let stage = *self.stage.lock();
            if stage == Stage::Form {
                began_us = now_us;
            }
            while stage == Stage::Work
                && let Some(PlannedFault { fault, .. }) =
                    planned.next_if(|planned| began_us + planned.at_us <= now_us)
            {
                self.apply(fault);
            }
            self.carry_out_orders();
            if now_us >= next_sample_us {
                next_sample_us = now_us + random.within(SAMPLE_US);
                self.run_context
                    .in_service()
                    .iter()
                    .try_for_each(|machine| check_growth(machine))?;
                self.run_context.machines.iter().try_for_each(|machine| check_engine(machine))?;
            }
            if now_us >= next_look_us && stage != Stage::Form {
                next_look_us = now_us + random.within(CHECK_INTERVAL_US);
                if self.environment.replication.is_none() {
                    let with_disks = self.environment.engine_kind == EngineKind::Bitcask;
                    store_checks.check(&self.run_context, with_disks)?;
                }
            }
            if stage == Stage::Repair {
                self.mend();
                self.environment.is_calm.store(true, Ordering::Relaxed);
                *self.stage.lock() = Stage::Repaired;
            }
            if stage == Stage::Repaired {
                self.start_again();
            }
            match self.sim.step() {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => {
                    return Err(Violation::new(ViolationKind::Broken, error.to_string()));
                }
            }
        }
        self.run_context.machines.iter().try_for_each(|machine| check_engine(machine))?;
        self.verdict.lock().clone()?;
        check(&self.run_context.history.lock())
    }
}

/// Returns the settings and state that all machines of a seed's run share.
fn node_environment(
    seed: u64,
    settings: &Settings,
    clusters: &ClusterPlan,
    blocked_links: BlockedLinks,
) -> NodeEnvironment {
    NodeEnvironment {
        seed,
        partition_counts: clusters.partition_counts(settings),
        replication: clusters.replication.clone(),
        has_exchanges: settings.has_exchanges(seed),
        delete_mode: settings.delete_mode(seed),
        compares_clocks: settings.family == Some(Family::WrongStarts),
        waits_for_time: settings.waits_for_time(),
        seeds: if settings.has_wipes() { clusters.addresses() } else { Arc::default() },
        engine_kind: settings.engine_kind(seed),
        engine_sizes: settings.engine_sizes(seed),
        step_pauses: settings.step_pauses(seed),
        tears_last_writes: settings.tears_last_writes(),
        transfer_rate: settings.transfer_rate(seed),
        idle_timeout: settings.idle_timeout(seed),
        page_records_max: settings.page_records_max(seed),
        is_calm: Arc::new(AtomicBool::new(false)),
        blocked_links,
    }
}

/// Plans the faults of a seed's run, in order of time.
fn planned_faults(seed: u64, settings: &Settings, run_context: &RunContext) -> Vec<PlannedFault> {
    let machine_count = run_context.machines.len();
    let mut random = Random::new(seed, "faults", 0);
    let tempo = settings.tempo(seed);
    let rot = match settings.family {
        Some(Family::RotAndMembers) => RotChance::Certain,
        _ if settings.rots(seed) => RotChance::Drawn,
        _ => RotChance::Never,
    };
    let mut planned = plan(&mut random, machine_count, rot, &tempo);
    if settings.family == Some(Family::WrongStarts) {
        // A node that hears of no other member serves with its own time, so no other fault may separate
        // the nodes.
        planned.clear();
    }
    if settings.family == Some(Family::ForgottenGrants) {
        planned.clear();
        let mut random = Random::new(seed, "restarts beside cuts", 0);
        planned.extend(plan_restarts_beside_cuts(&mut random, machine_count, &tempo));
    }
    if settings.mixes_versions(seed) {
        planned.extend(plan_upgrades(seed, &run_context.in_service()));
    }
    if settings.family != Some(Family::Former) {
        let mut random = Random::new(seed, "later faults", 0);
        let family = settings.family;
        planned.extend(plan_later(&mut random, machine_count, family, &tempo));
    }
    if settings.has_expiring() {
        // With a wrong clock a value could expire at any time.
        planned.retain(|planned| !matches!(planned.fault, MachineFault::Clock(..)));
    }
    if settings.family == Some(Family::WithoutExchanges) {
        // A write for which a replica's disk has no space is refused at once, and leaves a hint.
        planned.retain(|planned| {
            let fault = planned.fault;
            fault.preserves_hints_and_time() || matches!(fault, MachineFault::DiskSpace(..))
        });
    }
    if let Some(latency_us) = settings.lasting_latency_us(seed) {
        planned.retain(|planned| !matches!(planned.fault, MachineFault::Latency(_)));
        planned.push(PlannedFault { at_us: 0, fault: MachineFault::Latency(latency_us) });
    }
    // Faults that exist when a lull begins last until its end: all later events are moved behind the
    // lull.
    let later = planned.iter_mut().filter(|planned| planned.at_us >= tempo.middle_us());
    later.for_each(|planned| planned.at_us += tempo.lull_us);
    let mut random = Random::new(seed, "faults in the lull", 0);
    planned.extend(plan_in_lull(&mut random, machine_count, settings.family, &tempo, &planned));
    planned.sort_by_key(|planned| planned.at_us);
    planned
}
