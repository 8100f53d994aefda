//! Opens what a node keeps in its data directory.

use anyhow::{Context, Result, bail};
use quoit::config::{Settings, Storage};
use quoit_cluster::{
    Addresses, ControlPlane, Internode, InternodeSettings, NodeId, TokioNetwork, VersionRange,
};
use quoit_core::{CounterReserve, DotSequence, ReplicatedStore, Unreserved};
use quoit_model::clock::Actor;
use quoit_model::hash::RingSize;
use quoit_model::props::{BucketProps, PropUpdates, Scope};
use quoit_store::bitcask::{
    BitcaskEngine, BitcaskSettings, Durability, MergePolicy, MergeSettings, is_store,
};
use quoit_store::engine::Engine;
use quoit_store::error::StoreError;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use quoit_store::seam::{Clock, Disk, RealDisk, SystemClock, Threads};
use std::path::Path;
use std::sync::Arc;

/// The control plane's file in the data directory.
const CONTROL_FILE: &str = "control.redb";
/// The Bitcask engine's directory in the data directory.
const BITCASK_DIR: &str = "bitcask";
/// The directory of hints in the data directory.
const HINTS_DIR: &str = "hints";

/// An opened node.
pub(crate) struct Opened {
    pub(crate) store: Arc<ReplicatedStore>,
    /// The way to other nodes.
    pub(crate) internode: Arc<Internode>,
    /// What a person should know of how it was opened.
    pub(crate) note: String,
}

/// Opens or makes everything in `data_dir`.
pub(crate) fn open(
    data_dir: &Path,
    node_name: &str,
    addresses: Addresses,
    settings: &Settings,
) -> Result<Opened> {
    std::fs::create_dir_all(data_dir).with_context(|| {
        format!(
            "can't make the data directory {}; choose one that may be written with --data-dir",
            data_dir.display()
        )
    })?;
    let is_new_node = !data_dir.join(CONTROL_FILE).exists();
    if is_new_node {
        refuse_orphaned_data(data_dir)?;
    }
    let control = Arc::new(open_control(data_dir, node_name, addresses, settings)?);
    let ring_size = control.ring_size();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let (engine, dots, note) = match settings.storage() {
        Storage::Bitcask => open_bitcask(data_dir, is_new_node, ring_size, &clock, settings)?,
        Storage::Memory => open_memory(ring_size, &clock, settings)?,
    };
    let internode = open_internode(&control, settings.versions())?;
    let of_store = Arc::clone(&internode);
    let store = ReplicatedStore::new(engine, control, of_store, clock, dots, settings.store());
    let store = match settings.storage() {
        Storage::Bitcask => {
            let disk = RealDisk::open(data_dir.join(HINTS_DIR)).context("opening the hints")?;
            store.with_hints(Arc::new(disk)).context("reading the hints")?
        }
        // The records that hints refer to end with the process.
        Storage::Memory => store,
    };
    Ok(Opened { store: Arc::new(store), internode, note })
}

/// The node's end of all traffic between nodes. It does not listen yet.
fn open_internode(control: &ControlPlane, versions: VersionRange) -> Result<Arc<Internode>> {
    let random = || getrandom::u64().context("asking the system for random bytes");
    let (boot_id, seed) = (random()?, random()?);
    let state = control.read();
    let settings = InternodeSettings {
        versions,
        unix_us: Some(|| SystemClock::default().unix_us()),
        ..InternodeSettings::new(state.node_id(), state.node_name(), boot_id, seed)
    };
    let internode = Internode::new(settings, Arc::new(TokioNetwork));
    Ok(internode)
}

/// A new control file beside old data would give the data another number of partitions, forget all bucket
/// types, and hide both behind a start that looks good.
fn refuse_orphaned_data(data_dir: &Path) -> Result<()> {
    let store = data_dir.join(BITCASK_DIR);
    if !store.exists() {
        return Ok(());
    }
    let names = RealDisk::open(&store).and_then(|disk| disk.list());
    if is_store(names.context("looking into the data directory")?) {
        bail!(
            "{} has data, but {} is missing, which holds the node's identity, its ring_size and its \
             bucket types; restore it from a backup of the same node, or choose an empty data \
             directory with --data-dir",
            store.display(),
            data_dir.join(CONTROL_FILE).display()
        );
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
    // Only a setting that somebody made is held against what is stored.
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
        ..quoit_cluster::Settings::new(node_name, NodeId(node_id))
    };
    let disk = RealDisk::open(data_dir).context("opening the data directory")?;
    ControlPlane::open(Arc::new(disk), settings).context("opening the control plane")
}

/// Properties of untyped buckets as configured.
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
    BucketProps::untyped()
        .updated(Scope::UntypedBucket, &updates)
        .context("the settings buckets.default.*")
}

type OpenedEngine = (Arc<dyn Engine>, DotSequence, String);

fn open_bitcask(
    data_dir: &Path,
    is_new_node: bool,
    ring_size: RingSize,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<OpenedEngine> {
    let disk = RealDisk::open(data_dir.join(BITCASK_DIR)).context("opening the data directory")?;
    let settings = bitcask_settings(ring_size, settings)?;
    let opened = BitcaskEngine::open(Arc::new(disk), Arc::clone(clock), &Threads, settings);
    let (engine, report) = opened.context("opening the storage engine")?;
    let engine = Arc::new(engine);
    let note = if report.created {
        if !is_new_node {
            tracing::warn!(
                store = %data_dir.join(BITCASK_DIR).display(),
                "the node is not new, but its store is: if it had data, stop the node and check that the \
                 right disk is mounted"
            );
        }
        "new".to_owned()
    } else {
        let state = if report.clean { "closed in good order" } else { "recovered" };
        format!("{} keys, {state}", engine.stats().key_count)
    };
    if report.damage_count > 0 {
        tracing::warn!(damage_count = report.damage_count, "the store was opened with damage");
    }
    if !report.foreign_files.is_empty() {
        let files = report.foreign_files.join(" ");
        tracing::warn!(files, "files in the data directory that are not ours are left alone");
    }
    let dots = DotSequence::new(
        actor(engine.store_id(), engine.incarnation()),
        Box::new(EngineCounter(Arc::clone(&engine))),
    );
    Ok((engine, dots, note))
}

fn bitcask_settings(ring_size: RingSize, settings: &Settings) -> Result<BitcaskSettings> {
    let defaults = BitcaskSettings::new(getrandom::u64().context("asking for random bytes")?);
    let micros = |name: &str, default: u64| {
        settings.duration(name).map_or(default, |duration| duration.as_micros() as u64)
    };
    let bytes = |name: &str, default: u64| settings.size_bytes(name).unwrap_or(default);
    let hour = |name: &str| {
        settings.integer(name).and_then(|hour| u8::try_from(hour).ok()).unwrap_or_default()
    };
    let merge = &defaults.merge;
    let policy = match settings.get("bitcask.merge.policy") {
        Some("never") => MergePolicy::Never,
        Some("window") => MergePolicy::Window {
            start: hour("bitcask.merge.window.start"),
            end: hour("bitcask.merge.window.end"),
        },
        _ => MergePolicy::Always,
    };
    let merge = MergeSettings {
        policy,
        frag_merge_trigger_percent: settings.percent("bitcask.merge.triggers.fragmentation"),
        dead_bytes_merge_trigger_bytes: bytes(
            "bitcask.merge.triggers.dead_bytes",
            merge.dead_bytes_merge_trigger_bytes,
        ),
        frag_threshold_percent: settings.percent("bitcask.merge.thresholds.fragmentation"),
        dead_bytes_threshold_bytes: bytes(
            "bitcask.merge.thresholds.dead_bytes",
            merge.dead_bytes_threshold_bytes,
        ),
        small_file_threshold_bytes: bytes(
            "bitcask.merge.thresholds.small_file",
            merge.small_file_threshold_bytes,
        ),
        check_interval_us: micros("bitcask.merge_check_interval", merge.check_interval_us),
        check_jitter_percent: settings.percent("bitcask.merge_check_jitter"),
        budget_bytes_per_sec: bytes("bitcask.merge_rate", merge.budget_bytes_per_sec),
        ..merge.clone()
    };
    Ok(BitcaskSettings {
        ring_size,
        durability: durability(settings),
        sync_interval_us: sync_interval_us(settings, defaults.sync_interval_us),
        max_file_size_bytes: bytes("bitcask.max_file_size", defaults.max_file_size_bytes),
        snapshot_interval_bytes: bytes(
            "bitcask.snapshot_interval",
            defaults.snapshot_interval_bytes,
        ),
        recent_writes_bytes: bytes("bitcask.recent_writes_size", defaults.recent_writes_bytes),
        merge,
        ..defaults
    })
}

fn durability(settings: &Settings) -> Durability {
    if settings.get("durability") == Some("relaxed") {
        return Durability::Relaxed;
    }
    if let Some(origin) = settings.origin("bitcask.sync.strategy") {
        tracing::warn!(
            %origin,
            "bitcask.sync.strategy has no effect: durability = strict syncs every write that asks for \
             it; set durability = relaxed to give that up"
        );
    }
    Durability::Strict
}

/// With `relaxed`, Riak's strategy `none` leaves syncing to the operating system.
fn sync_interval_us(settings: &Settings, default: u64) -> u64 {
    let relaxed = settings.get("durability") == Some("relaxed");
    if relaxed && settings.get("bitcask.sync.strategy") == Some("none") {
        return u64::MAX;
    }
    let interval = settings.duration("bitcask.sync.interval");
    interval.map_or(default, |interval| (interval.as_micros() as u64).max(1))
}

fn open_memory(
    ring_size: RingSize,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<OpenedEngine> {
    let memory = MemorySettings {
        partition_bytes_max: settings.size_bytes("memory_backend.max_memory_per_vnode"),
        ttl_secs: settings
            .duration("memory_backend.ttl")
            .map(|age| u32::try_from(age.as_secs()).unwrap_or(u32::MAX)),
    };
    let engine = Arc::new(MemoryEngine::new(memory, ring_size, Arc::clone(clock)));
    // Nothing survives, so every start is a new store with a new actor.
    let id = getrandom::u64().context("asking for random bytes")?;
    let dots = DotSequence::new(actor(id, 1), Box::new(Unreserved));
    Ok((engine, dots, "memory only: nothing is kept across a restart".to_owned()))
}

/// The actor of a store in one of its incarnations: 8 bytes. Incarnations of a store never share one, and
/// different stores only by a chance of 2^-64.
fn actor(store_id: u64, incarnation: u64) -> Actor {
    // An odd factor spreads the incarnations of a store over all values without a collision.
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let id = store_id.wrapping_add(incarnation.wrapping_mul(SPREAD));
    Actor(id.to_be_bytes()[..].into())
}

/// Counters made durable by the engine.
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
