//! Opens the stores of a node's data directory.

use crate::engines;
use crate::reserve::Reserve;
use anyhow::{Context, Result, bail};
use quoit_cluster::{
    Addresses, ControlPlane, Internode, InternodeSettings, InternodeTlsMode, JitterSeed,
    LinkSecurity, NodeClock, NodeId, TokioNetwork,
};
use quoit_config::{Settings, Storage};
use quoit_core::{
    ChangeLog, DiskSpace, MachineBoot, ReplicatedStore, SourceQueueSettings, SourceQueues,
};
use quoit_model::hash::RingSize;
use quoit_model::props::{BucketProps, PropUpdates, Scope};
use quoit_node::{AuxiliaryData, Node, NodeParts};
use quoit_replication::Replication;
use quoit_riak_files::{discover, is_riak_directory};
use quoit_seam::{Clock, Disk, DiskError, RealDisk, SystemClock};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// The control plane's file in the data directory.
const CONTROL_FILE: &str = "control.redb";
/// File for a certificate obtained with a join token, until the node is a member of the cluster.
const CERTIFICATE_FILE: &str = "internode-certificate.pem";
/// Directory of hints in the data directory.
const HINTS_DIR: &str = "hints";
/// Directory of the log of change feeds in the data directory.
const CHANGES_DIR: &str = "changes";
/// Directory of reap records in the data directory.
const REAPED_DIR: &str = "reaped";
/// Directory of Riak's hash trees in the data directory.
const RIAK_TREES_DIR: &str = "riak-trees";
/// File in which Linux gives each boot of the machine an id.
const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// An opened node.
pub struct OpenedNode {
    /// The node, which neither listens nor is connected yet.
    pub node: Node,
    /// Note for the operator about how the store was opened.
    pub note: String,
    /// True if the data directory was empty.
    pub is_new_node: bool,
}

/// Refuses to start a new node on the data of a Riak node, which the new node would ignore.
fn refuse_riak_data(data_dir: &Path) -> Result<()> {
    if !is_riak_directory(data_dir) {
        return Ok(());
    }
    let found = match discover(data_dir) {
        Ok(found) => format!(
            "{} partitions of {}",
            found.partitions.len(),
            found.partitions.first().map_or("", |partition| partition.engine.as_str())
        ),
        Err(_) => "a ring file".to_owned(),
    };
    let dir = data_dir.display();
    bail!(
        "{dir} holds data of Riak ({found}), and a new node would start empty beside it; look at it by quoit \
         import inspect {dir}, start the node with another --data-dir, and then move the data by quoit \
         import run {dir} --to http://HOST:8098"
    )
}

/// Opens or creates all stores in `data_dir`.
///
/// # Errors
///
/// If a file or store can't be opened. The error names it, and the remedy for the operator.
pub fn open(
    data_dir: &Path,
    node_name: &str,
    addresses: Addresses,
    settings: &Settings,
) -> Result<OpenedNode> {
    std::fs::create_dir_all(data_dir).with_context(|| {
        format!(
            "can't make the data directory {}; choose one that may be written with --data-dir",
            data_dir.display()
        )
    })?;
    if Reserve::of(data_dir).release_if_needed()? {
        tracing::warn!(
            "the disk of {} is full: the room kept for a start is used",
            data_dir.display()
        );
    }
    let is_new_node = !data_dir.join(CONTROL_FILE).exists();
    if is_new_node {
        refuse_riak_data(data_dir)?;
    }
    if is_new_node {
        engines::refuse_orphaned_data(data_dir, CONTROL_FILE)?;
    }
    let control = Arc::new(open_control(data_dir, node_name, addresses, settings)?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let (engine, note) = engines::open(data_dir, is_new_node, &control, &clock, settings)?;
    let internode = open_internode(&control, settings, data_dir)?;
    let (settings, auxiliary) = (settings.store(), open_auxiliary_data(data_dir, settings)?);
    let parts = NodeParts { engine, control, internode, clock, settings, auxiliary };
    let node = parts.assemble()?;
    let directory = data_dir.to_owned();
    node.store.set_disk_space_probe(move || room_of(&directory));
    Ok(OpenedNode { node, note, is_new_node })
}

/// Opens the stores besides the engine and the control plane.
fn open_auxiliary_data(data_dir: &Path, settings: &Settings) -> Result<AuxiliaryData> {
    if settings.storage() == Storage::Memory {
        // The records live only as long as the process, and so do the hints and reap records about them.
        let source_queues = Some(SourceQueues::in_memory(source_queue_settings(settings)));
        return Ok(AuxiliaryData { source_queues, ..AuxiliaryData::default() });
    }
    let disk = |name: &str| -> Result<Arc<dyn Disk>, DiskError> {
        Ok(Arc::new(RealDisk::open(data_dir.join(name))?))
    };
    let entropy = getrandom::u64().context("asking the system for random bytes")?;
    let reaped = disk(REAPED_DIR).context("opening the reap records")?;
    Ok(AuxiliaryData {
        source_queues: Some(open_source_queues(data_dir, settings)?),
        change_log: Some(open_change_log(data_dir, settings)?),
        hints: Some(disk(HINTS_DIR).context("opening the hints")?),
        riak_trees: match disk(RIAK_TREES_DIR) {
            Ok(disk) => Some(disk),
            // Nothing is lost without the trees, so the node starts anyway.
            Err(fault) => {
                tracing::warn!(%fault, "trees for Riak are not kept on disk");
                None
            }
        },
        reap_records: Some((reaped, entropy)),
    })
}

fn source_queue_settings(settings: &Settings) -> SourceQueueSettings {
    let (queues, faults) = settings.source_queues();
    for fault in faults {
        tracing::error!("replrtq_srcqueue: {fault}; the queue is left out");
    }
    queues
}

fn open_source_queues(data_dir: &Path, settings: &Settings) -> Result<SourceQueues> {
    let directory = settings.source_queue_directory(data_dir);
    let disk = RealDisk::open(directory).context("opening the source queues")?;
    let queues = source_queue_settings(settings);
    SourceQueues::open(Arc::new(disk), queues, boot_of_machine()?)
        .context("reading the source queues")
}

fn open_change_log(data_dir: &Path, settings: &Settings) -> Result<ChangeLog> {
    let disk = RealDisk::open(data_dir.join(CHANGES_DIR)).context("opening the change feeds")?;
    let entropy = getrandom::u64().context("asking the system for random bytes")?;
    ChangeLog::open(Arc::new(disk), settings.change_feeds(), boot_of_machine()?, entropy)
        .context("reading the change feeds")
}

/// Replication from other clusters, as set by the configuration and by earlier commands.
///
/// # Errors
///
/// If the login at other clusters can't be loaded, or the state of the sinks can't be read.
pub fn open_replication(
    data_dir: &Path,
    store: &Arc<ReplicatedStore>,
    settings: &Settings,
) -> Result<Arc<Replication>> {
    let (sinks, faults) = settings.sinks();
    for fault in faults {
        tracing::error!("replrtq_sinkpeers: {fault}; the peer is left out");
    }
    if let Some(login) = &sinks.login {
        login.load().context("loading the login at other clusters (repl_username)")?;
    }
    let disk: Option<Arc<dyn Disk>> = match settings.storage() {
        Storage::Memory => None,
        _ => {
            let directory = settings.source_queue_directory(data_dir);
            Some(Arc::new(RealDisk::open(directory).context("opening the sinks")?))
        }
    };
    let replication =
        Replication::new(Arc::clone(store), sinks, disk).context("reading the sinks")?;
    Ok(Arc::new(replication))
}

/// The boot of this machine, by the id that Linux gives it.
fn boot_of_machine() -> Result<MachineBoot> {
    let id = std::fs::read_to_string(BOOT_ID_FILE).unwrap_or_default();
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    match u64::from_str_radix(&digits, 16) {
        Ok(boot) => Ok(MachineBoot(boot)),
        // Without an id, each start of the node counts as a boot. At worst, a full-sync is run needlessly.
        Err(_) => getrandom::u64().map(MachineBoot).context("asking the system for random bytes"),
    }
}

/// Free and total space of the disk with this directory.
fn room_of(directory: &Path) -> Option<DiskSpace> {
    let room = rustix::fs::statvfs(directory).ok()?;
    Some(DiskSpace {
        free_bytes: room.f_bavail.saturating_mul(room.f_frsize),
        total_bytes: room.f_blocks.saturating_mul(room.f_frsize),
    })
}

/// The control plane of a node that is not running.
///
/// # Errors
///
/// If the directory has no control plane, or a running node uses it.
pub fn existing_control(data_dir: &Path, settings: &Settings) -> Result<ControlPlane> {
    let file = data_dir.join(CONTROL_FILE);
    if !file.exists() {
        bail!(
            "{} is not the data directory of a node: {CONTROL_FILE} is missing",
            data_dir.display()
        );
    }
    let nowhere = Addresses::default();
    open_control(data_dir, &settings.text("nodename"), nowhere, settings)
}

/// Creates the node's endpoint for internode traffic. It does not listen yet.
fn open_internode(
    control: &ControlPlane,
    configured: &Settings,
    data_dir: &Path,
) -> Result<Arc<Internode>> {
    let random = || getrandom::u64().context("asking the system for random bytes");
    let (boot_id, seed) = (random()?, JitterSeed(random()?));
    let settings = InternodeSettings {
        versions: configured.versions(),
        security: Arc::new(link_security(configured, data_dir)?),
        clock: Some(NodeClock(Arc::new(SystemClock::default()))),
        ..control.internode_settings(boot_id, seed)
    };
    let internode = Internode::new(settings, Arc::new(TokioNetwork));
    Ok(internode)
}

/// The security of connections to other nodes.
fn link_security(settings: &Settings, data_dir: &Path) -> Result<LinkSecurity> {
    let mode = settings.link_mode();
    let secret = match settings.shared_secret() {
        _ if mode == InternodeTlsMode::Plain => None,
        Ok(Some(secret)) => {
            let open = settings.open_secret_file();
            open.inspect(|file| {
                tracing::warn!(
                    "distributed_cookie lets no node join: every user of the machine may read it in {}: \
                     chmod o-rwx, and replace it if others have access to the machine",
                    file.display()
                );
            });
            open.is_none().then_some(secret)
        }
        Ok(None) => None,
        Err(weak) => {
            tracing::warn!("distributed_cookie lets no node join: {weak}");
            None
        }
    };
    let security = LinkSecurity::new(mode, secret);
    security.with_file(data_dir.to_owned(), CERTIFICATE_FILE).with_context(|| {
        format!(
            "the certificate by which the node was joining a cluster can't be used: remove \
             {CERTIFICATE_FILE} and let it join again"
        )
    })
}

/// Restricts the permissions of the control plane's file, because it contains the key of the cluster's
/// certificate authority.
fn close_to_others(file: &Path) -> Result<()> {
    let mut permissions = std::fs::metadata(file)?.permissions();
    if permissions.mode() & 0o077 != 0 {
        permissions.set_mode(0o600);
        std::fs::set_permissions(file, permissions)?;
    }
    Ok(())
}

fn open_control(
    data_dir: &Path,
    node_name: &str,
    addresses: Addresses,
    settings: &Settings,
) -> Result<ControlPlane> {
    let mut node_id = [0; 16];
    getrandom::fill(&mut node_id).context("asking the system for random bytes")?;
    // Only an explicit setting is compared with the stored ring size.
    let ring_size = settings
        .origin("ring_size")
        .and_then(|_| settings.integer("ring_size"))
        .and_then(|count| u16::try_from(count).ok())
        .and_then(RingSize::new);
    let settings = quoit_cluster::Settings {
        addresses,
        ring_size,
        versions: settings.versions(),
        untyped_defaults: untyped_defaults(settings)?,
        backends: settings.named_storages().into_iter().map(|named| named.name).collect(),
        ..quoit_cluster::Settings::new(node_name, NodeId(node_id))
    };
    let disk = RealDisk::open(data_dir).context("opening the data directory")?;
    let control =
        ControlPlane::open(Arc::new(disk), settings).context("opening the control plane")?;
    close_to_others(&data_dir.join(CONTROL_FILE))
        .context("denying other users access to the control file")?;
    Ok(control)
}

/// Default properties of untyped buckets, from the settings.
fn untyped_defaults(settings: &Settings) -> Result<BucketProps> {
    let mut updates = PropUpdates::default();
    for name in ["n_val", "r", "w", "pr", "pw", "dw", "rw"] {
        let value = settings.text(&format!("buckets.default.{name}"));
        match value.parse::<u32>() {
            Ok(count) => updates.set(name, count),
            Err(_) => updates.set(name, value),
        }
    }
    for name in ["notfound_ok", "basic_quorum", "allow_mult", "last_write_wins"] {
        updates.set(name, settings.flag(&format!("buckets.default.{name}")));
    }
    updates.set("dvv_enabled", settings.get("buckets.default.merge_strategy") == Some("2"));
    if settings.get("buckets.default.compression") == Some("lz4") {
        updates.set("compression", "lz4");
    }
    BucketProps::untyped()
        .updated(Scope::UntypedBucket, &updates)
        .context("the settings buckets.default.*")
}
