//! Makes the memory engine.

use super::counter::actor;
use super::{FoundLoss, OpenedEngine};
use anyhow::{Context, Result};
use quoit::config::Settings;
use quoit_core::{DotSequence, Unreserved};
use quoit_model::hash::RingSize;
use quoit_seam::Clock;
use quoit_store::bitcask::RecordLoss;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use std::sync::Arc;

pub(super) fn open(
    ring_size: RingSize,
    forgets: bool,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<OpenedEngine> {
    let engine = engine(ring_size, clock, settings);
    // Nothing survives, so every start is a new store with a new actor.
    let id = getrandom::u64().context("asking for random bytes")?;
    let dots = DotSequence::new(actor(id, 1), Box::new(Unreserved));
    let note = "memory only: nothing is kept across a restart".to_owned();
    let loss = forgets.then(forgotten);
    Ok(OpenedEngine { engine, dots, loss, note })
}

/// The loss of everything that an engine in memory had before the start.
pub(super) fn forgotten() -> FoundLoss {
    let loss = RecordLoss { reason: "the engine keeps records in memory only".to_owned() };
    FoundLoss { loss, settle: Box::new(|| Ok(())) }
}

/// The engine alone.
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
