//! The course of a run: the cluster forms, clients work, all faults are repaired, the cluster comes to
//! rest, and every key is read back.

use crate::bucket_operator::BucketOperator;
use crate::client::Client;
use crate::cluster_plan::operated_cluster;
use crate::data_type_clients::{self, DataTypeClient};
use crate::family::Family;
use crate::finish::describe_cluster_state;
use crate::form::form_cluster;
use crate::links::{Links, Replication};
use crate::operator::Operator;
use crate::permissions::Permissions;
use crate::property_client::PropertyClient;
use crate::read_back::read_back;
use crate::register_clients::{self, RegisterClient};
use crate::rest::{RestConditions, come_to_rest, until_replicas_equal};
use crate::run_context::{ClientNumber, RunContext};
use crate::settings::Settings;
use crate::stage::{Stage, broken};
use crate::upgrade::{try_new_things, use_new_things};
use crate::violation::{Violation, ViolationKind};
use crate::workload::LIVES_SECS;
use parking_lot::Mutex;
use quoit_core::{DeleteMode, ReplicatedStore, TransferLimits};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Maximum time for the changes of an operator to be complete after all faults were repaired.
const CHANGES_LIMIT: Duration = Duration::from_secs(60);

/// Waits until an operator has completed its changes, after all faults were repaired.
async fn until_done(
    run_context: &RunContext,
    operator: Option<JoinHandle<()>>,
    of: &str,
) -> Result<(), Violation> {
    let Some(operator) = operator else { return Ok(()) };
    let Ok(done) = timeout(CHANGES_LIMIT, operator).await else {
        let text =
            format!("changes of {of} come to no end:{}", describe_cluster_state(run_context));
        return Err(Violation::new(ViolationKind::Unanswered, text));
    };
    done.map_err(broken)
}

/// Starts all clients of a run.
fn start_clients(run_context: &RunContext, settings: &Settings, seed: u64) -> Vec<JoinHandle<()>> {
    let cluster_count = settings.clusters_of(seed).len();
    let lull = Duration::from_micros(settings.tempo(seed).lull_us);
    // If there are several clusters, each client works with one of them.
    let ground_of = |number: u64| match cluster_count {
        1 => run_context.clone(),
        count => run_context.of_cluster(quoit_number::index(number) % count),
    };
    let clients = (1..=settings.client_count).map(|number| {
        let client =
            Client::new(ClientNumber(number), seed, ground_of(number), settings.workload(seed));
        tokio::spawn(client.run(settings.operations(), lull))
    });
    let of_data_types = (1..=if settings.has_data_types(seed) { settings.client_count } else { 0 })
        .map(|number| {
            let client = DataTypeClient::new(ClientNumber(number), seed, ground_of(number));
            tokio::spawn(client.run(settings.operations()))
        });
    let of_registers = (1..=settings.register_client_count(seed)).map(|number| {
        let of = (settings.register_count(seed), settings.register_timeouts_ms());
        let client = RegisterClient::new(ClientNumber(number), seed, run_context.clone(), of);
        tokio::spawn(client.run(settings.register_operations()))
    });
    clients.chain(of_data_types).chain(of_registers).collect()
}

/// Waits until all clients are done, and then until all faults are repaired.
async fn until_repaired(
    clients: Vec<JoinHandle<()>>,
    stage: &Mutex<Stage>,
) -> Result<(), Violation> {
    for client in clients {
        client.await.map_err(broken)?;
    }
    *stage.lock() = Stage::Repair;
    while *stage.lock() != Stage::Repaired {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Starts the changes of the buckets' properties of a run.
fn start_changes_of_buckets<W>(
    run_context: &RunContext,
    settings: &Settings,
    seed: u64,
    is_working: impl Fn() -> W,
) -> Vec<JoinHandle<()>>
where
    W: Fn() -> bool + Send + 'static,
{
    let mut changes = Vec::new();
    if settings.has_replica_counts(seed) {
        let operator = BucketOperator::new(seed, run_context.clone(), settings.rots(seed));
        changes.push(tokio::spawn(operator.run(is_working())));
    }
    if settings.family == Some(Family::ReplicaCounts) {
        let client = PropertyClient::new(seed, run_context.clone());
        changes.push(tokio::spawn(client.run(is_working())));
    }
    changes
}

/// Drives a run with one cluster, from its formation to the last read.
pub(crate) async fn drive(
    run_context: RunContext,
    settings: Settings,
    seed: u64,
    stage: Arc<Mutex<Stage>>,
    has_operator: bool,
) -> Result<(), Violation> {
    form_cluster(&run_context).await?;
    let has_data_types = settings.has_data_types(seed);
    if has_data_types {
        data_type_clients::create_types(&run_context).await?;
    }
    if settings.has_registers(seed) {
        register_clients::create_type(&run_context).await?;
    }
    let permissions = settings.has_permissions().then(|| Permissions::new(seed));
    if let Some(permissions) = &permissions {
        permissions.begin(&run_context).await?;
    }
    *stage.lock() = Stage::Work;
    let clients = start_clients(&run_context, &settings, seed);
    let watched =
        permissions.as_ref().map(|permissions| permissions.watch_all(seed, &run_context, &stage));
    let is_working = || {
        let stage = Arc::clone(&stage);
        move || *stage.lock() == Stage::Work
    };
    let operator = has_operator.then(|| {
        let operator = Operator::new(seed, run_context.clone(), &settings);
        tokio::spawn(operator.run(is_working()))
    });
    let buckets = start_changes_of_buckets(&run_context, &settings, seed, is_working);
    let upgrades = settings
        .mixes_versions(seed)
        .then(|| tokio::spawn(try_new_things(seed, run_context.clone(), is_working())));
    until_repaired(clients, &stage).await?;
    lift_limits(&run_context).await;
    until_done(&run_context, operator, "members").await?;
    for changes in buckets {
        until_done(&run_context, Some(changes), "buckets").await?;
    }
    if let (Some(permissions), Some(watched)) = (permissions, watched) {
        permissions.come_to_rest(&run_context, watched).await?;
    }
    if let Some(upgrades) = upgrades {
        upgrades.await.map_err(broken)??;
        use_new_things(&run_context).await?;
    }
    // A merge that reclaims an expired value's space stores a tombstone, which is reaped later.
    let keeps_tombstones =
        settings.delete_mode(seed) == DeleteMode::Keep || settings.has_expiring();
    if settings.has_expiring() {
        tokio::time::sleep(Duration::from_secs(LIVES_SECS.end)).await;
    }
    let conditions =
        RestConditions { has_exchanges: settings.has_exchanges(seed), keeps_tombstones };
    come_to_rest(&run_context, conditions).await?;
    read_back(&run_context).await?;
    if has_data_types {
        data_type_clients::read_back(&run_context).await?;
    }
    if settings.has_registers(seed) {
        register_clients::read_back(&run_context).await?;
    }
    Ok(())
}

/// Drives a run with several clusters that replicate to one another, as [`drive`] does with one.
pub(crate) async fn drive_clusters(
    run_context: RunContext,
    settings: Settings,
    seed: u64,
    (stage, has_operator): (Arc<Mutex<Stage>>, bool),
    replication: &Replication,
) -> Result<(), Violation> {
    let count = settings.clusters_of(seed).len();
    let clusters: Vec<RunContext> =
        (0..count).map(|cluster| run_context.of_cluster(cluster)).collect();
    let has_data_types = settings.has_data_types(seed);
    for cluster in &clusters {
        form_cluster(cluster).await?;
        if has_data_types {
            data_type_clients::create_types(cluster).await?;
        }
    }
    *stage.lock() = Stage::Work;
    let is_working = {
        let stage = Arc::clone(&stage);
        move || *stage.lock() == Stage::Work
    };
    let links = Links::start(&run_context, replication, seed, is_working.clone());
    let clients = start_clients(&run_context, &settings, seed);
    let operator = has_operator.then(|| {
        let cluster = clusters[operated_cluster(seed, count)].clone();
        tokio::spawn(Operator::new(seed, cluster, &settings).run(is_working))
    });
    until_repaired(clients, &stage).await?;
    lift_limits(&run_context).await;
    until_done(&run_context, operator, "members").await?;
    // A comparison of clusters asks one node of each, and repairs by anti-entropy are not queued for
    // other clusters. So replicas within each cluster become equal first.
    if settings.has_exchanges(seed) {
        for cluster in &clusters {
            until_replicas_equal(cluster).await;
        }
    }
    links.wait_until_converged(seed, settings.has_exchanges(seed)).await?;
    let conditions = RestConditions {
        has_exchanges: settings.has_exchanges(seed),
        keeps_tombstones: settings.delete_mode(seed) == DeleteMode::Keep,
    };
    for cluster in &clusters {
        come_to_rest(cluster, conditions).await?;
    }
    for cluster in &clusters {
        read_back(cluster).await?;
        if has_data_types {
            data_type_clients::read_back(cluster).await?;
        }
    }
    Ok(())
}

/// Raises the rate limits of transfers to the default, after all faults were repaired.
async fn lift_limits(run_context: &RunContext) {
    for machine in run_context.in_service() {
        let lift = |store: Arc<ReplicatedStore>| async move {
            store.transfers().set_limits(TransferLimits::default());
        };
        // A node that starts from now on has the default limits anyway.
        machine.ask(lift).await;
    }
}
