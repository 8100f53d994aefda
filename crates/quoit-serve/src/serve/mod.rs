//! `quoit serve`: runs a node.
//!
//! A start opens the listeners first, then the stores of the data directory, and then connects to the other
//! nodes. Clients are accepted once the control plane has decided whether the node serves. A stop goes in the
//! opposite order: clients first, then the traffic between nodes, and the engine last.

mod announcement;
mod background;

use crate::listeners::Listeners;
use crate::local_socket::LocalSocket;
use crate::reload::OperatorSignals;
use crate::{certificates, descriptors, readiness};
use announcement::{Announcement, notify_supervisor};
use anyhow::{Context, Result};
use background::background;
use clap::Args;
use quoit_cluster::Departure;
use quoit_config::{Settings, Sources};
use quoit_core::ReplicatedStore;
use quoit_data_dir::Reserve;
use quoit_node::{Node, StopLimits};
use quoit_process::{StopRequest, ready_file};
use quoit_server::{AuditLog, ConnectionSecurity, Server, ServerContext, ServerSettings};
use sd_notify::NotifyState;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Usual name of a configuration file.
const FILE_NAME: &str = "quoit.conf";
/// A setting of Riak that is a secret.
const SECRET_KEY: &str = "distributed_cookie";
/// Number of tasks after which a thread polls for network events: the runtime's default.
const LOOK_INTERVAL: u32 = 61;
/// Maximum number of network events that a busy thread takes in one poll. It is no larger than the number of
/// tasks between polls, so that the thread's queue does not grow.
const BUSY_EVENT_COUNT_MAX: usize = 61;
/// Maximum number of network events that an idle thread takes in one poll: three quarters of the capacity of
/// its queue.
const EVENT_COUNT_MAX: usize = 192;
/// Time limits for stopping a node.
const STOP_LIMITS: StopLimits =
    StopLimits { requests: Duration::from_secs(30), answers: Duration::from_secs(5) };

/// Starts a node and serves until SIGTERM or SIGINT.
#[derive(Args, Debug)]
// A script may append its own flags to those that it was given; the last one counts.
#[command(args_override_self = true)]
pub struct ServeArgs {
    /// Configuration file (key = value lines, Riak's key names).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of all data of the node [default: platform_data_dir, or ./data].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address for Protocol Buffers clients; port 0 picks a free one [default: 127.0.0.1:8087].
    #[arg(long, value_name = "ADDR")]
    pb: Option<String>,
    /// Address for HTTP clients; port 0 picks a free one [default: 127.0.0.1:8098].
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Address for other nodes; port 0 picks a free one [default: 127.0.0.1:8099].
    #[arg(long, value_name = "ADDR")]
    node: Option<String>,
    /// Internode addresses of other members, separated by commas. With them, the node does not serve clients
    /// while it is the only member of its cluster [default: none; the same as --set cluster.seeds=ADDRS].
    #[arg(long, value_name = "ADDRS")]
    seeds: Option<String>,
    /// Name of the node [default: quoit@127.0.0.1].
    #[arg(long)]
    name: Option<String>,
    /// Set one configuration key; may be repeated. Takes precedence over file and environment.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// File to which the node writes its process id, name and addresses, as JSON, when it serves clients. It
    /// removes the file when it stops.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Also stop when standard input ends, that is when the process at its other end exits.
    #[arg(long, hide = true)]
    while_stdin_is_open: bool,
}

impl ServeArgs {
    fn sources(&self) -> Sources {
        let mut flags = Vec::new();
        let mut flag = |key: &str, value: Option<String>| {
            flags.extend(value.map(|value| (key.to_owned(), value)));
        };
        flag("listener.protobuf.command_line", self.pb.clone());
        flag("listener.http.command_line", self.http.clone());
        flag("listener.internode", self.node.clone());
        flag("nodename", self.name.clone());
        flag("cluster.seeds", self.seeds.clone());
        Sources {
            file: self.config.clone(),
            environment: Sources::process_environment(),
            command_line: self.set.clone(),
            flags,
        }
    }

    /// The current settings of all sources.
    fn settings(&self) -> Result<Settings> {
        let mut settings = quoit_config::load(&self.sources())?;
        // A listener on the command line replaces all configured listeners of its protocol.
        if self.pb.is_some() {
            settings.keep_only("listener.protobuf.command_line");
        }
        if self.http.is_some() {
            settings.keep_only("listener.http.command_line");
        }
        Ok(settings)
    }

    /// The data directory of the node.
    fn data_dir(&self, settings: &Settings) -> PathBuf {
        // The flag can hold any path, the configuration only text.
        let configured = || PathBuf::from(settings.text("platform_data_dir"));
        self.data_dir.clone().unwrap_or_else(configured)
    }

    /// Creates the listener for reasons to stop.
    fn stop_request(&self) -> Result<StopRequest> {
        let stop = StopRequest::listen()?;
        Ok(if self.while_stdin_is_open { stop.and_end_of_stdin() } else { stop })
    }
}

/// Runs a node until it is told to stop.
///
/// # Errors
///
/// If the settings are refused, the node can't start or stop, or it no longer belongs to its cluster.
pub fn run(args: &ServeArgs) -> Result<()> {
    let settings = args.settings()?;
    let log = crate::logs::start(&settings);
    report_unread_file(args);
    report_ignored(&settings);
    let runtime = start_runtime(&settings)?;
    runtime.block_on(async {
        let signals = OperatorSignals::listen()?;
        let opened = OnceLock::new();
        tokio::select! {
            served = serve(args, &settings, &opened) => served,
            never = log.log_repeats() => never,
            never = signals.answer(settings.clone(), || args.settings(), &log, &opened) => never,
        }
    })
}

/// Creates the threads that serve requests. The limits on network events keep ready connections waiting in
/// the kernel, which returns them in order, and not in the runtime. The queue of a thread holds 256 tasks.
/// Further tasks go to another queue, from which a busy thread takes only a few tasks. With a thousand
/// clients, some would wait there too long.
fn start_runtime(settings: &Settings) -> Result<Runtime> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(count) = settings.integer("worker_threads") {
        runtime.worker_threads(usize::try_from(count).unwrap_or(1));
    }
    runtime.event_interval(LOOK_INTERVAL).max_io_events_per_busy_tick(BUSY_EVENT_COUNT_MAX);
    runtime.max_io_events_per_tick(EVENT_COUNT_MAX);
    runtime.enable_all().build().context("starting the runtime")
}

async fn serve(
    args: &ServeArgs,
    settings: &Settings,
    opened_context: &OnceLock<Arc<ServerContext>>,
) -> Result<()> {
    if let Some(path) = &args.ready_file {
        ready_file::remove_stale(path)?;
    }
    let descriptor_limit = descriptors::raise_limit();
    // Listeners first: if a port is in use, the start should fail before it touches the data directory.
    settings.check_security()?;
    let listeners = Listeners::bind(settings)?;
    let data_dir = args.data_dir(settings);
    let node_name = settings.text("nodename");
    let security = certificates::open(settings)?;
    let reachable = listeners.reachable(&node_name);
    let opened = quoit_data_dir::open(&data_dir, &node_name, reachable.clone(), settings)?;
    let store = &opened.node.store;
    opened.node.connect(&reachable.node);
    let context =
        server_context(store, settings, security, descriptor_limit, &data_dir, &listeners)?;
    opened_context.get_or_init(|| Arc::clone(&context));
    warn_of_new_cluster(opened.is_new_node, settings, &data_dir);
    warn_of_remote_operators(settings, &listeners, store.control().read().security().is_enabled());
    let readiness = store.control().readiness(settings.seeds());
    // Set before a client can connect.
    readiness::set(&context.readiness, &readiness.borrow());
    let server = Server::new(Arc::clone(&context));
    let Listeners { clients, node, at } = listeners;
    opened.node.listen(Box::new(node)).context("listening for other nodes")?;
    recover_lost_records(&opened.node).await?;
    let local = LocalSocket::open(&data_dir, settings);
    if let Some(path) = local.path() {
        let _ = context.admin_socket.set(path.to_owned());
    }
    let background = spawn_background(&context, Reserve::of(&data_dir));
    let sinks = spawn_replication(&context, &data_dir, settings)?;
    // Created before the node is announced, because a program that knows of the node may stop it at once.
    let mut stop = args.stop_request()?;
    readiness::decided(&context.readiness, readiness.clone()).await;
    local.serve_on(&server);
    clients.serve_on(&server);
    let announcement = Announcement {
        node_name: &node_name,
        at: &at,
        data_dir: &data_dir,
        note: &opened.note,
        ready_file: args.ready_file.as_deref(),
    };
    let serving = announcement.maintain_gate(&context.readiness, readiness);
    let departure = tokio::select! {
        biased;
        departure = until_stopped(&mut stop, store) => departure,
        failed = serving => return failed,
    };
    notify_supervisor(&NotifyState::Stopping);
    sinks.abort();
    stop_in_order(opened.node, server, &background).await?;
    local.remove();
    if let Some(path) = &args.ready_file {
        ready_file::remove(path);
    }
    tracing::info!("stopped");
    match departure {
        None | Some(Departure::Left) => Ok(()),
        Some(departure) => Err(departure.into()),
    }
}

/// Creates the state that all client connections share, with their security and the audit log.
fn server_context(
    store: &Arc<ReplicatedStore>,
    settings: &Settings,
    security: ConnectionSecurity,
    descriptor_limit: Option<u64>,
    data_dir: &Path,
    listeners: &Listeners,
) -> Result<Arc<ServerContext>> {
    let context = ServerContext::new(
        Arc::clone(store),
        settings.text("nodename"),
        settings.storage().name(),
        server_settings(settings, descriptor_limit),
    );
    let context =
        Arc::new(context.with_security(security).with_audit(audit_log(settings, data_dir)?));
    // The cell is only set here.
    let _ = context.reachable_from_afar.set(listeners.reachable_from_afar());
    Ok(context)
}

/// Starts the background tasks, which run until the node stops.
fn spawn_background(context: &Arc<ServerContext>, reserve: Reserve) -> JoinHandle<()> {
    let certificates = certificates::keep(Arc::clone(context));
    let background = background(Arc::clone(context), reserve);
    tokio::spawn(async {
        tokio::join!(background, certificates);
    })
}

/// Opens replication from other clusters and starts its sinks.
fn spawn_replication(
    context: &ServerContext,
    data_dir: &Path,
    settings: &Settings,
) -> Result<JoinHandle<()>> {
    let replication = quoit_data_dir::open_replication(data_dir, &context.store, settings)?;
    replication.serve_commands();
    let _ = context.replication.set(Arc::clone(&replication));
    Ok(tokio::spawn(replication.run()))
}

async fn recover_lost_records(node: &Node) -> Result<()> {
    let removed_count = node.recover_lost_records().await?;
    if let Some((loss, removed_count)) = node.loss().zip(removed_count) {
        tracing::warn!(
            reason = loss.reason(),
            dropped_record_count = removed_count,
            "the store has lost records: those that differ from whole copies of other nodes are copied from \
             there"
        );
    }
    Ok(())
}

/// Stops the parts of the node, each when no other part needs it any more.
async fn stop_in_order(node: Node, server: Server, background: &JoinHandle<()>) -> Result<()> {
    let clients = server.stop(STOP_LIMITS.requests);
    let unfinished = node.finish(STOP_LIMITS, clients, &background.abort_handle()).await;
    if unfinished.requests {
        tracing::warn!("some connections did not end in time and are cut off");
    }
    if unfinished.answers {
        tracing::warn!(
            "other nodes have not taken all that was sent to them; it is repaired later"
        );
    }
    let closed = tokio::task::spawn_blocking(move || node.close()).await;
    closed.context("closing the storage engine")?.context("closing the storage engine")
}

/// Waits until the process is told to stop, or the node must stop because it no longer belongs to its
/// cluster. Returns the reason in the latter case.
async fn until_stopped(stop: &mut StopRequest, store: &ReplicatedStore) -> Option<Departure> {
    let mut departure = store.control().departure();
    let departed = async {
        match departure.wait_for(Option::is_some).await {
            Ok(departure) => departure.clone(),
            // The control plane lives as long as the store.
            Err(_) => std::future::pending().await,
        }
    };
    let (reason, departure) = tokio::select! {
        biased;
        reason = stop.wait() => (reason, None),
        departure = departed => ("the node no longer belongs to its cluster", departure),
    };
    tracing::info!(reason, "stopping: finishing the requests in hand");
    departure
}

fn audit_log(settings: &Settings, data_dir: &Path) -> Result<AuditLog> {
    let settings = settings.audit(data_dir).context("reading audit.buckets")?;
    let Some(settings) = settings else { return Ok(AuditLog::off()) };
    let file = settings.file.clone();
    AuditLog::open(settings).with_context(|| {
        format!("opening the audit log {}: check audit.file, or set audit = off", file.display())
    })
}

fn server_settings(settings: &Settings, descriptor_limit: Option<u64>) -> ServerSettings {
    let server = settings.server();
    let connection_count_max =
        descriptors::connection_count_max(server.connection_count_max, descriptor_limit);
    ServerSettings { connection_count_max, ..server }
}

fn warn_of_new_cluster(is_new_node: bool, settings: &Settings, data_dir: &Path) {
    if is_new_node && settings.seeds().is_empty() {
        readiness::warn_of_new_cluster(&settings.text("nodename"), data_dir);
    }
}

/// Warns if the administration API can be reached from the network without a password. While security is on,
/// the permissions of users decide.
fn warn_of_remote_operators(settings: &Settings, listeners: &Listeners, is_secured: bool) {
    let open = listeners.at.http.iter().find(|at| !at.ip().is_loopback());
    let admits_all = !is_secured && settings.flag("admin_remote");
    if let Some(address) = open.filter(|_| admits_all) {
        tracing::warn!(
            %address,
            "admin_remote = on: whoever reaches this address can remove nodes and change the cluster without \
             a password; let only operators reach it, or set admin_remote = off"
        );
    }
}

/// Warns about a configuration file in the current directory, which is not read without `--config`.
fn report_unread_file(args: &ServeArgs) {
    if args.config.is_none() && Path::new(FILE_NAME).is_file() {
        tracing::warn!("./{FILE_NAME} is not read: start with `--config {FILE_NAME}` to use it");
    }
}

fn report_ignored(settings: &Settings) {
    for (entry, why) in settings.unsupported_settings() {
        let set_at = entry.origin.to_string();
        tracing::warn!(
            key = entry.key,
            value = if entry.key == SECRET_KEY { "(not shown)" } else { &entry.value },
            set_at,
            "a setting of Riak is not kept: {why}"
        );
    }
    for variable in &settings.foreign_variables {
        tracing::warn!(variable, "no setting has a name like this variable: it is ignored");
    }
    if settings.ignored.is_empty() {
        return;
    }
    let names: Vec<&str> = settings.ignored.iter().map(|entry| entry.key.as_str()).collect();
    tracing::info!(keys = names.join(" "), "keys of Riak that have no meaning here are ignored");
}
