//! Opens the engines on ordered stores.

use super::counter::dots;
use super::{OnDisk, durability, sync_interval_us};
use anyhow::{Context, Result};
use quoit::config::Settings;
use quoit_model::hash::RingSize;
use quoit_store::ordered::{
    LsmSettings, OrderedEngine, OrderedReport, OrderedSettings, TreeSettings,
};
use quoit_store::seam::{Clock, Disk, RealDisk, Threads};
use std::path::Path;
use std::sync::Arc;

pub(super) fn open_leveldb(
    directory: &Path,
    ring_size: RingSize,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<OnDisk> {
    let defaults = LsmSettings::default();
    let bytes = |name: &str, default: u64| settings.size_bytes(name).unwrap_or(default);
    let block_bytes = bytes("leveldb.block.size", u64::from(defaults.block_bytes));
    let of_trees = LsmSettings {
        cache_bytes: bytes("leveldb.maximum_memory", defaults.cache_bytes),
        write_buffer_bytes: bytes("leveldb.write_buffer_size_max", defaults.write_buffer_bytes),
        block_bytes: u32::try_from(block_bytes).unwrap_or(defaults.block_bytes),
        compression: settings.flag("leveldb.compression"),
        ..defaults
    };
    let (clock, common) = (Arc::clone(clock), ordered_settings(ring_size, settings)?);
    opened(OrderedEngine::open_leveldb(directory, clock, &Threads, common, of_trees))
}

pub(super) fn open_leveled(
    directory: &Path,
    ring_size: RingSize,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<OnDisk> {
    let defaults = LsmSettings::default();
    let of_trees = LsmSettings {
        cache_bytes: settings.size_bytes("leveled.maximum_memory").unwrap_or(defaults.cache_bytes),
        compression: settings.get("leveled.compression_method") != Some("none"),
        ..defaults
    };
    let (clock, common) = (Arc::clone(clock), ordered_settings(ring_size, settings)?);
    opened(OrderedEngine::open_leveled(directory, clock, &Threads, common, of_trees))
}

pub(super) fn open_innostore(
    directory: &Path,
    ring_size: RingSize,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<OnDisk> {
    let cache_bytes = settings.size_bytes("innostore.buffer_pool_size");
    let defaults = TreeSettings::default();
    let of_tree = TreeSettings { cache_bytes: cache_bytes.unwrap_or(defaults.cache_bytes) };
    let disk = RealDisk::open(directory).context("opening the data directory")?;
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let (clock, common) = (Arc::clone(clock), ordered_settings(ring_size, settings)?);
    opened(OrderedEngine::open_innostore(&disk, clock, &Threads, common, of_tree))
}

fn ordered_settings(ring_size: RingSize, settings: &Settings) -> Result<OrderedSettings> {
    let defaults =
        OrderedSettings::new(getrandom::u64().context("asking the system for random bytes")?);
    Ok(OrderedSettings {
        ring_size,
        durability: durability(settings),
        sync_interval_us: sync_interval_us(settings, defaults.sync_interval_us),
        ..defaults
    })
}

fn opened(
    opened: Result<(OrderedEngine, OrderedReport), quoit_store::error::StoreError>,
) -> Result<OnDisk> {
    let (engine, report) = opened.context("opening the storage engine")?;
    let engine = Arc::new(engine);
    let OrderedReport { created, clean, key_count, .. } = report;
    Ok(OnDisk { dots: dots(&engine), engine, created, clean, key_count })
}
