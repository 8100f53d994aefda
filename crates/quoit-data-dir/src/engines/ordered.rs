//! Opens the engines that are based on ordered stores.

use super::opening_progress::OPENING;
use super::{EngineDirectory, durability, sync_interval_us};
use anyhow::{Context, Result};
use quoit_config::Settings;
use quoit_seam::{Clock, Disk, RealDisk, Threads};
use quoit_store::OpenedStore;
use quoit_store::error::StoreError;
use quoit_store::ordered::{
    LsmSettings, OrderedEngine, OrderedReport, OrderedSettings, TreeSettings,
};
use std::sync::Arc;

pub(super) fn open_leveldb(
    place: &EngineDirectory<'_>,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<OpenedStore> {
    let defaults = LsmSettings::default();
    let bytes = |name: &str, default: u64| settings.size_bytes(name).unwrap_or(default);
    let block_bytes = bytes("leveldb.block.size", u64::from(defaults.block_bytes));
    let memory = Memory::of(settings, "leveldb.maximum_memory");
    let of_trees = LsmSettings {
        cache_bytes: memory.block_bytes,
        write_buffer_bytes: bytes("leveldb.write_buffer_size_max", defaults.write_buffer_bytes),
        block_bytes: u32::try_from(block_bytes).unwrap_or(defaults.block_bytes),
        compression: settings.flag("leveldb.compression"),
        ..defaults
    };
    let (clock, common) = (Arc::clone(clock), ordered_settings(place, settings, memory)?);
    opened(OrderedEngine::open_leveldb(place.directory, clock, &Threads, common, of_trees))
}

pub(super) fn open_leveled(
    place: &EngineDirectory<'_>,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<OpenedStore> {
    let memory = Memory::of(settings, "leveled.maximum_memory");
    let of_trees = LsmSettings {
        cache_bytes: memory.block_bytes,
        compression: settings.get("leveled.compression_method") != Some("none"),
        ..LsmSettings::default()
    };
    let (clock, common) = (Arc::clone(clock), ordered_settings(place, settings, memory)?);
    opened(OrderedEngine::open_leveled(place.directory, clock, &Threads, common, of_trees))
}

pub(super) fn open_innostore(
    place: &EngineDirectory<'_>,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<OpenedStore> {
    let memory = Memory::of(settings, "innostore.buffer_pool_size");
    let of_tree = TreeSettings {
        cache_bytes: memory.block_bytes,
        has_replicas: place.has_replicas,
        ..TreeSettings::default()
    };
    let disk = RealDisk::open(place.directory).context("opening the data directory")?;
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let (clock, common) = (Arc::clone(clock), ordered_settings(place, settings, memory)?);
    opened(OrderedEngine::open_innostore(&disk, clock, &Threads, common, of_tree))
}

/// Division of an engine's memory.
#[derive(Clone, Copy)]
struct Memory {
    /// Memory, in bytes, for cached records, which serve calls that must not wait for the disk.
    record_bytes: u64,
    /// Memory in bytes for blocks or pages of the underlying store.
    block_bytes: u64,
}

impl Memory {
    /// The memory of an engine as configured; a quarter is for records.
    fn of(settings: &Settings, name: &str) -> Self {
        let defaults =
            OrderedSettings::new(0).record_cache_bytes + LsmSettings::default().cache_bytes;
        let size_bytes = settings.size_bytes(name).unwrap_or(defaults);
        let record_bytes = size_bytes / 4;
        Self { record_bytes, block_bytes: size_bytes - record_bytes }
    }
}

fn ordered_settings(
    place: &EngineDirectory<'_>,
    settings: &Settings,
    memory: Memory,
) -> Result<OrderedSettings> {
    let defaults =
        OrderedSettings::new(getrandom::u64().context("asking the system for random bytes")?);
    Ok(OrderedSettings {
        is_expected: place.is_expected,
        last_opening: place.last_opening,
        watch: &OPENING,
        ring_size: place.ring_size,
        durability: durability(settings),
        sync_interval_us: sync_interval_us(settings, defaults.sync_interval_us),
        record_cache_bytes: memory.record_bytes,
        ..defaults
    })
}

fn opened(opened: Result<(OrderedEngine, OrderedReport), StoreError>) -> Result<OpenedStore> {
    Ok(opened.context("opening the storage engine")?.into())
}
