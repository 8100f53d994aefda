//! A cluster in a simulated world.

use crate::boot::{self, Node, Surroundings};
use crate::bucket_operator::{BucketOperator, initial_replica_counts};
use crate::check::{self, Violation, check};
use crate::client::{Client, Ground};
use crate::cluster_plan::{ClusterPlan, operated_cluster};
use crate::data_types::{self, DataTypeClient, DataTypeHistory};
use crate::engine::EngineKind;
use crate::family::Family;
use crate::faults::{LATENCY_US, MachineFault, Planned, plan, plan_later};
use crate::finish::read_back;
use crate::form::form;
use crate::growth::{SAMPLE_US, check_growth};
use crate::history::History;
use crate::links::{Links, Replication};
use crate::looks::{LOOKS_US, look};
use crate::machine::{Disks, Machine, Use};
use crate::names::policies;
use crate::network::BlockedLinks;
use crate::operator::{Operator, Orders};
use crate::random::Random;
use crate::registers::{self, RegisterClient, RegisterHistory};
use crate::replica_counts::ReplicaCounts;
use crate::rest::{come_to_rest, replicas_meet};
use crate::rights::Rights;
use crate::run::Settings;
use crate::stage::{Stage, broken};
use crate::time::SimTime;
use crate::trace::Trace;
use crate::upgrade::{plan_upgrades, try_new_things, use_new_things};
use crate::workload::LIVES_SECS;
use parking_lot::Mutex;
use quoit_cluster::{Departure, Readiness};
use quoit_core::{DeleteMode, ReplicatedStore, TransferLimits};
use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use turmoil::Sim;

/// Simulated time goes on in steps of so many microseconds.
const TICK_US: u64 = 2_000;
/// Segments on their way over one connection, and connections waiting to be accepted.
const SEGMENTS_MAX: usize = 4_096;
/// A run that takes longer, in simulated time and for each of its clusters, hangs.
const LONGEST: Duration = Duration::from_secs(1_800);
/// The same of a large world.
const LONGEST_LARGE: Duration = Duration::from_secs(7_200);
/// A process that could not start is tried again after so long.
const RESTART_PAUSE: Duration = Duration::from_millis(500);
/// Time that a node which goes gives to requests in hand.
const STOP_LIMIT: Duration = Duration::from_secs(2);
/// Time that other nodes then have for what they were sent.
const ANSWERED_LIMIT: Duration = Duration::from_secs(1);
/// Time that changes of members may take when nothing is wrong any more.
const CHANGES_LIMIT: Duration = Duration::from_secs(60);
/// Clients of registers.
const REGISTER_CLIENT_COUNT: u64 = 3;

/// The world of one run.
pub struct Cluster {
    settings: Settings,
    pub(crate) sim: Sim<'static>,
    pub(crate) ground: Ground,
    pub(crate) ways: BlockedLinks,
    around: Surroundings,
    stage: Arc<Mutex<Stage>>,
    verdict: Arc<Mutex<Result<(), Violation>>>,
    planned: Vec<Planned>,
    /// Machines that no messages reach.
    pub(crate) held: BTreeSet<usize>,
    /// Machines whose disks have bits flipped.
    pub(crate) damaged: BTreeSet<usize>,
}

impl Cluster {
    /// Builds the world of a seed; nothing has happened yet.
    pub fn new(seed: u64, settings: &Settings) -> Self {
        let time = SimTime::default();
        let trace = Trace::new(time.clone(), settings.line_count_max, settings.tell);
        let clusters = ClusterPlan::draw(seed, settings);
        let machine = |index: usize| {
            let disks = Disks::new(&mut Random::new(seed, "disk", index as u64));
            let (cluster, used) = clusters.role(index);
            Arc::new(Machine::new(index, cluster, used, disks, &time))
        };
        let has_operator = settings.has_operator(seed) && !clusters.is_lossless();
        let founder_count = clusters.founder_count();
        let machine_count = founder_count + if has_operator { settings.spare_count() } else { 0 };
        let machines: Arc<[_]> = (0..machine_count).map(machine).collect();
        let history = History {
            keys: policies(settings.workload(seed).key_count),
            replica_counts: match settings.has_replica_counts(seed) {
                true => initial_replica_counts(seed),
                false => ReplicaCounts::default(),
            },
            writes_are_made_once: settings.family == Some(Family::PassedOnOnce),
            ..History::default()
        };
        let history = Arc::new(Mutex::new(history));
        let orders = Orders::default();
        let data_types = Arc::new(Mutex::new(DataTypeHistory::default()));
        let registers = Arc::new(Mutex::new(RegisterHistory::default()));
        let ground =
            Ground { cluster: None, machines, orders, history, data_types, registers, time, trace };
        let ways = BlockedLinks::default();
        let around = surroundings(seed, settings, &clusters, ways.clone());
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
        let mut planned = planned_faults(seed, settings, &ground);
        clusters.keep_possible(&mut planned);
        let mut cluster = Self {
            settings: *settings,
            sim: builder.build(),
            ground,
            ways,
            around,
            stage: Arc::new(Mutex::new(Stage::Form)),
            verdict: Arc::new(Mutex::new(Ok(()))),
            planned,
            held: BTreeSet::new(),
            damaged: BTreeSet::new(),
        };
        for machine in cluster.ground.in_service() {
            cluster.add_host(&machine);
        }
        cluster.add_clients(has_operator);
        cluster
    }

    /// The story of the run.
    pub const fn trace(&self) -> &Trace {
        &self.ground.trace
    }

    /// Switches a machine on.
    pub(crate) fn add_host(&mut self, machine: &Arc<Machine>) {
        let (machine, trace) = (Arc::clone(machine), self.ground.trace.clone());
        let around = self.around.clone();
        self.sim.host(machine.name.clone(), move || {
            let (machine, trace) = (Arc::clone(&machine), trace.clone());
            let around = around.clone();
            async move {
                live(&machine, &around, &trace).await;
                Ok(())
            }
        });
    }

    fn add_clients(&mut self, has_operator: bool) {
        let (ground, settings, seed) = (self.ground.clone(), self.settings, self.around.seed);
        let (stage, verdict) = (Arc::clone(&self.stage), Arc::clone(&self.verdict));
        let replication = self.around.replication.clone();
        self.sim.client("clients", async move {
            let result = match replication {
                None => drive(ground, settings, seed, stage, has_operator).await,
                Some(replication) => {
                    let stage = (stage, has_operator);
                    drive_clusters(ground, settings, seed, stage, &replication).await
                }
            };
            *verdict.lock() = result;
            Ok(())
        });
    }

    /// Lets it all happen, and judges.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub fn run(&mut self) -> Result<(), Violation> {
        let mut planned = std::mem::take(&mut self.planned).into_iter().peekable();
        let mut began_us = 0;
        let mut random = Random::new(self.around.seed, "growth", 0);
        let (mut next_sample_us, mut next_look_us, mut look_count) = (0, 0, 0);
        loop {
            self.ground.time.advance_us(TICK_US);
            let now_us = self.ground.time.now_us();
            let stage = *self.stage.lock();
            if stage == Stage::Form {
                began_us = now_us;
            }
            while stage == Stage::Work
                && let Some(Planned { fault, .. }) =
                    planned.next_if(|planned| began_us + planned.at_us <= now_us)
            {
                self.apply(fault);
            }
            self.obey();
            if now_us >= next_sample_us {
                next_sample_us = now_us + random.within(SAMPLE_US);
                self.ground.in_service().iter().try_for_each(|machine| check_growth(machine))?;
            }
            if now_us >= next_look_us && stage != Stage::Form {
                next_look_us = now_us + random.within(LOOKS_US);
                if self.around.replication.is_none() {
                    let with_disks = self.around.engine_kind == EngineKind::Bitcask;
                    look(&self.ground, look_count, with_disks)?;
                    look_count += 1;
                }
            }
            if stage == Stage::Mend {
                self.mend();
                self.around.is_calm.store(true, Ordering::Relaxed);
                *self.stage.lock() = Stage::Calm;
            }
            match self.sim.step() {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => {
                    return Err(Violation::new(check::Fault::Broken, error.to_string()));
                }
            }
        }
        self.verdict.lock().clone()?;
        check(&self.ground.history.lock())
    }
}

/// Surroundings that the machines of a seed's run share.
fn surroundings(
    seed: u64,
    settings: &Settings,
    clusters: &ClusterPlan,
    ways: BlockedLinks,
) -> Surroundings {
    Surroundings {
        seed,
        partition_counts: clusters.partition_counts(settings),
        replication: clusters.replication.clone(),
        has_exchanges: settings.has_exchanges(seed),
        delete_mode: settings.delete_mode(seed),
        compares_clocks: settings.family == Some(Family::WrongStarts),
        waits_for_time: settings.waits_for_time(),
        engine_kind: settings.engine_kind(seed),
        engine_sizes: settings.engine_sizes(seed),
        transfer_rate: settings.transfer_rate(seed),
        idle_timeout: settings.idle_timeout(seed),
        page_records_max: settings.page_records_max(seed),
        is_calm: Arc::new(AtomicBool::new(false)),
        ways,
    }
}

/// All that goes wrong in a seed's run, in order of time.
fn planned_faults(seed: u64, settings: &Settings, ground: &Ground) -> Vec<Planned> {
    let machine_count = ground.machines.len();
    let mut random = Random::new(seed, "faults", 0);
    let tempo = settings.tempo(seed);
    let mut planned = plan(&mut random, machine_count, settings.rots(seed), &tempo);
    if settings.family == Some(Family::WrongStarts) {
        // A node that hears of no other serves with the time that it has.
        planned.clear();
    }
    if settings.mixes_versions(seed) {
        planned.extend(plan_upgrades(seed, &ground.in_service()));
    }
    if settings.family != Some(Family::Former) {
        let mut random = Random::new(seed, "later faults", 0);
        let family = settings.family;
        planned.extend(plan_later(&mut random, machine_count, family, &tempo));
    }
    if settings.has_expiring() {
        // By wrong clocks values expire at any time.
        planned.retain(|planned| !matches!(planned.fault, MachineFault::Clock(..)));
    }
    if settings.family == Some(Family::WithoutExchanges) {
        planned.retain(|planned| planned.fault.keeps_what_is_known());
    }
    // What is wrong when a lull begins stays so as long as it lasts.
    let later = planned.iter_mut().filter(|planned| planned.at_us >= tempo.middle_us());
    later.for_each(|planned| planned.at_us += tempo.lull_us);
    planned.sort_by_key(|planned| planned.at_us);
    planned
}

/// The life of a machine's process, as a supervisor would have it.
async fn live(machine: &Machine, around: &Surroundings, trace: &Trace) {
    loop {
        match boot::start(machine, around).await {
            Ok(Node { store, internode }) => {
                trace.note(&machine.name, "serves");
                let background = tokio::spawn(Arc::clone(&store).run_background());
                let ready = around.waits_for_time.then(|| store.control().readiness(Vec::new()));
                let serve = async {
                    if let Some(readiness) = ready {
                        until_ready(machine, readiness, trace).await;
                    }
                    machine.serve(Arc::clone(&store), Arc::clone(&internode)).await;
                };
                let departure = tokio::select! {
                    biased;
                    departure = departure(&store) => Some(departure),
                    () = machine.stopping() => None,
                    () = serve => return,
                };
                if let Some(departure) = &departure {
                    trace.note(&machine.name, &format!("goes: {departure}"));
                }
                machine.close_door();
                machine.drain(STOP_LIMIT).await;
                internode.stop(STOP_LIMIT).await;
                background.abort();
                internode.answered(ANSWERED_LIMIT).await;
                store.control().stop().await;
                if let Err(error) = store.flush_hints().and(store.engine().close()) {
                    trace.note(&machine.name, &format!("can't close its disk: {error}"));
                } else {
                    machine.note_closed();
                }
                if let Some(Departure::Clock { .. }) = departure {
                    machine.note_stopping();
                } else if departure.is_some() {
                    machine.set_used(Use::Retired);
                } else {
                    trace.note(&machine.name, "stopped");
                }
                pending::<()>().await;
            }
            Err(error) => trace.note(&machine.name, &format!("can't start: {error}")),
        }
        tokio::time::sleep(RESTART_PAUSE).await;
    }
}

/// Waits until a node may serve clients.
async fn until_ready(machine: &Machine, mut readiness: watch::Receiver<Readiness>, trace: &Trace) {
    while *readiness.borrow_and_update() != Readiness::Serves {
        trace.note(&machine.name, "waits before it serves");
        if readiness.changed().await.is_err() {
            return;
        }
    }
}

/// Waits until a node no longer belongs to its cluster.
async fn departure(store: &ReplicatedStore) -> Departure {
    let mut departure = store.control().departure();
    loop {
        if let Some(departure) = departure.borrow_and_update().clone() {
            return departure;
        }
        if departure.changed().await.is_err() {
            pending::<()>().await;
        }
    }
}

/// Waits until an operator has made its changes, now that nothing is wrong any more.
async fn until_done(
    ground: &Ground,
    operator: Option<JoinHandle<()>>,
    of: &str,
) -> Result<(), Violation> {
    let Some(operator) = operator else { return Ok(()) };
    let Ok(done) = timeout(CHANGES_LIMIT, operator).await else {
        let known = ground.in_service().into_iter().filter_map(|machine| {
            let store = machine.store()?;
            let state = store.control().read();
            let members = state.members().iter().map(|of| format!("{} {:?}", of.name, of.status));
            let members = members.collect::<Vec<_>>().join(", ");
            let (name, transfers) = (&machine.name, store.transfers());
            let live = state.layouts().live().iter();
            let live = live.map(|layout| layout.version()).collect::<Vec<_>>();
            Some(format!("\n  {name} knows {members}, layouts {live:?}, and has {transfers:?}"))
        });
        let text = format!("changes of {of} come to no end:{}", known.collect::<String>());
        return Err(Violation::new(check::Fault::Unanswered, text));
    };
    done.map_err(broken)
}

/// Starts all clients of a run.
fn start_clients(ground: &Ground, settings: &Settings, seed: u64) -> Vec<JoinHandle<()>> {
    let cluster_count = settings.clusters_of(seed).len();
    let lull = Duration::from_micros(settings.tempo(seed).lull_us);
    // Where there are several clusters, each client has one of them.
    let ground_of = |number: u64| match cluster_count {
        1 => ground.clone(),
        count => ground.of_cluster(number as usize % count),
    };
    let clients = (1..=settings.client_count).map(|number| {
        let client = Client::new(number, seed, ground_of(number), settings.workload(seed));
        tokio::spawn(client.run(settings.operations(), lull))
    });
    let of_data_types = (1..=if settings.has_data_types(seed) { settings.client_count } else { 0 })
        .map(|number| {
            let client = DataTypeClient::new(number, seed, ground_of(number));
            tokio::spawn(client.run(settings.operations()))
        });
    let of_registers = (1..=if settings.has_registers(seed) { REGISTER_CLIENT_COUNT } else { 0 })
        .map(|number| {
            let client = RegisterClient::new(number, seed, ground.clone());
            tokio::spawn(client.run(settings.operations()))
        });
    clients.chain(of_data_types).chain(of_registers).collect()
}

/// Runs the clients, from the first request to the last read.
async fn drive(
    ground: Ground,
    settings: Settings,
    seed: u64,
    stage: Arc<Mutex<Stage>>,
    has_operator: bool,
) -> Result<(), Violation> {
    form(&ground).await?;
    let has_data_types = settings.has_data_types(seed);
    if has_data_types {
        data_types::create_types(&ground).await?;
    }
    let has_registers = settings.has_registers(seed);
    if has_registers {
        registers::create_type(&ground).await?;
    }
    let rights = settings.has_rights().then(|| Rights::new(seed));
    if let Some(rights) = &rights {
        rights.begin(&ground).await?;
    }
    *stage.lock() = Stage::Work;
    let clients = start_clients(&ground, &settings, seed);
    let watched = rights.as_ref().map(|rights| rights.watch_all(seed, &ground, &stage));
    let operator = has_operator.then(|| {
        let stage = Arc::clone(&stage);
        let operator = Operator::new(seed, ground.clone(), settings.family);
        tokio::spawn(operator.run(move || *stage.lock() == Stage::Work))
    });
    let buckets = settings.has_replica_counts(seed).then(|| {
        let (operator, stage) = (BucketOperator::new(seed, ground.clone()), Arc::clone(&stage));
        tokio::spawn(operator.run(move || *stage.lock() == Stage::Work))
    });
    let upgrades = settings.mixes_versions(seed).then(|| {
        let stage = Arc::clone(&stage);
        let is_working = move || *stage.lock() == Stage::Work;
        tokio::spawn(try_new_things(seed, ground.clone(), is_working))
    });
    for client in clients {
        client.await.map_err(broken)?;
    }
    *stage.lock() = Stage::Mend;
    while *stage.lock() != Stage::Calm {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    lift_limits(&ground).await;
    until_done(&ground, operator, "members").await?;
    until_done(&ground, buckets, "buckets").await?;
    if let (Some(rights), Some(watched)) = (rights, watched) {
        rights.come_to_rest(&ground, watched).await?;
    }
    if let Some(upgrades) = upgrades {
        upgrades.await.map_err(broken)??;
        use_new_things(&ground).await?;
    }
    // What stays of expired values is stored, and then reaped, when a merge takes back their room.
    let keeps_tombstones =
        settings.delete_mode(seed) == DeleteMode::Keep || settings.has_expiring();
    if settings.has_expiring() {
        tokio::time::sleep(Duration::from_secs(LIVES_SECS.end)).await;
    }
    come_to_rest(&ground, settings.has_exchanges(seed), keeps_tombstones).await?;
    read_back(&ground).await?;
    if has_data_types {
        data_types::read_back(&ground).await?;
    }
    if has_registers {
        registers::read_back(&ground).await?;
    }
    Ok(())
}

/// As [`drive`], of several clusters that replicate to one another.
async fn drive_clusters(
    ground: Ground,
    settings: Settings,
    seed: u64,
    (stage, has_operator): (Arc<Mutex<Stage>>, bool),
    replication: &Replication,
) -> Result<(), Violation> {
    let count = settings.clusters_of(seed).len();
    let clusters: Vec<Ground> = (0..count).map(|cluster| ground.of_cluster(cluster)).collect();
    let has_data_types = settings.has_data_types(seed);
    for cluster in &clusters {
        form(cluster).await?;
        if has_data_types {
            data_types::create_types(cluster).await?;
        }
    }
    *stage.lock() = Stage::Work;
    let is_working = {
        let stage = Arc::clone(&stage);
        move || *stage.lock() == Stage::Work
    };
    let links = Links::start(&ground, replication, seed, is_working.clone());
    let clients = start_clients(&ground, &settings, seed);
    let operator = has_operator.then(|| {
        let cluster = clusters[operated_cluster(seed, count)].clone();
        tokio::spawn(Operator::new(seed, cluster, settings.family).run(is_working))
    });
    for client in clients {
        client.await.map_err(broken)?;
    }
    *stage.lock() = Stage::Mend;
    while *stage.lock() != Stage::Calm {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    lift_limits(&ground).await;
    until_done(&ground, operator, "members").await?;
    // A comparison of clusters asks one node of each, and what anti-entropy brings to others is not queued.
    if settings.has_exchanges(seed) {
        for cluster in &clusters {
            replicas_meet(cluster).await;
        }
    }
    links.come_together(seed).await?;
    let keeps_tombstones = settings.delete_mode(seed) == DeleteMode::Keep;
    for cluster in &clusters {
        come_to_rest(cluster, settings.has_exchanges(seed), keeps_tombstones).await?;
    }
    for cluster in &clusters {
        read_back(cluster).await?;
        if has_data_types {
            data_types::read_back(cluster).await?;
        }
    }
    Ok(())
}

/// Lets nodes hand over as fast as they can, now that nothing is wrong any more.
async fn lift_limits(ground: &Ground) {
    for machine in ground.in_service() {
        let lift = |store: Arc<ReplicatedStore>| async move {
            store.set_transfer_limits(TransferLimits::default());
        };
        // One that starts from now on has them anyway.
        machine.ask(lift).await;
    }
}
