//! Creates the memory engine.

use super::EngineWithNote;
use anyhow::{Context, Result};
use quoit_config::Settings;
use quoit_model::hash::RingSize;
use quoit_node::{FoundLoss, NodeEngine};
use quoit_seam::Clock;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use std::sync::Arc;

pub(super) fn open(
    ring_size: RingSize,
    forgets: bool,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<EngineWithNote> {
    let engine = engine(ring_size, clock, settings);
    let entropy = getrandom::u64().context("asking for random bytes")?;
    let loss = forgets.then(forgotten);
    let opened = NodeEngine { loss, ..NodeEngine::in_memory(engine, entropy) };
    let note = "memory only: nothing is kept across a restart".to_owned();
    Ok((opened, note))
}

/// The loss of all records that an engine in memory had before the start.
fn forgotten() -> FoundLoss {
    FoundLoss::unreported("the engine keeps records in memory only")
}

/// Creates the engine without its loss.
pub(super) fn engine(
    ring_size: RingSize,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Arc<MemoryEngine> {
    let memory = MemorySettings {
        partition_bytes_max: settings.size_bytes("memory_backend.max_memory_per_vnode"),
        ttl_secs: settings
            .duration("memory_backend.ttl")
            .map(|age| u32::try_from(age.as_secs()).unwrap_or(u32::MAX)),
    };
    Arc::new(MemoryEngine::new(memory, ring_size, Arc::clone(clock)))
}
