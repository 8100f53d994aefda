//! The storage engine of a node: its type, its directory and its settings.

mod bitcask;
mod convert;
mod directory;
mod memory;
mod multi;
mod opening_progress;
mod ordered;
mod salvage;

pub use convert::{ConversionPlan, Converted, free_bytes};
pub use salvage::{DamagedStore, is_in_cluster, remedy};

pub(crate) use directory::refuse_orphaned_data;

use anyhow::Result;
use quoit_cluster::ControlPlane;
use quoit_config::{Settings, Storage};
use quoit_model::hash::RingSize;
use quoit_model::store_opening::LastOpening;
use quoit_node::{FoundLoss, NodeEngine};
use quoit_number::saturating_u64;
use quoit_seam::Clock;
use quoit_store::OpenedStore;
use quoit_store::bitcask::Durability;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Longest interval, in microseconds, that an engine receives. The sum of the interval and its random part
/// fits in 64 bits.
const INTERVAL_US_MAX: u64 = u64::MAX >> 2;

/// An opened engine, and a note for the operator about how it was opened.
pub(crate) type EngineWithNote = (NodeEngine, String);

/// Opens the configured engine, or creates it in its directory.
pub(crate) fn open(
    data_dir: &Path,
    is_new_node: bool,
    control: &Arc<ControlPlane>,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<EngineWithNote> {
    let storage = settings.storage();
    let ring_size = control.ring_size();
    convert::refuse_converting(data_dir)?;
    let directory = directory::of(data_dir, storage);
    directory::refuse_other_engines(data_dir, storage)
        .map_err(|error| salvage::with_remedy(error, &directory, control))?;
    let (opened, loss) = match storage {
        Storage::Memory => {
            // A node without peers has no replicas to copy from, so there is nothing to report.
            let forgets = !is_new_node && control.read().members().iter().nth(1).is_some();
            return memory::open(ring_size, forgets, clock, settings);
        }
        Storage::Multi => multi::open(&directory, is_new_node, control, clock, settings)?,
        _ => {
            let (name, is_expected) = (storage.name(), !is_new_node);
            let has_replicas = is_in_cluster(control);
            let place = EngineDirectory {
                directory: &directory,
                ring_size,
                is_expected,
                has_replicas,
                last_opening: None,
            };
            let opened = open_noted(storage, name, place, control, clock, settings)?;
            let loss = FoundLoss::of(&opened);
            (opened, loss)
        }
    };
    if let Some(loss) = &loss {
        tracing::error!(
            store = %directory.display(),
            reason = loss.reason(),
            "the store has lost records: check that the right disk is mounted"
        );
    }
    let note = match (opened.created, opened.clean) {
        (true, _) => "new".to_owned(),
        (false, _) if loss.is_some() => {
            format!("{} keys, and others are lost", opened.key_count)
        }
        (false, true) => format!("{} keys, closed in good order", opened.key_count),
        (false, false) => format!("{} keys, recovered", opened.key_count),
    };
    Ok((NodeEngine { loss, ..opened.into() }, note))
}

/// Directory and expected state of an engine.
#[derive(Clone, Copy)]
struct EngineDirectory<'p> {
    directory: &'p Path,
    ring_size: RingSize,
    /// True if the store is known to have existed before.
    is_expected: bool,
    /// True if other nodes may have copies of the records.
    has_replicas: bool,
    /// The last opening of the store that is recorded in the control plane's file.
    last_opening: Option<LastOpening>,
}

/// Opens one engine, and durably records the opening in the control plane's file. The record exposes a store
/// that was restored from an older copy.
fn open_noted(
    storage: Storage,
    name: &str,
    place: EngineDirectory<'_>,
    control: &ControlPlane,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<OpenedStore> {
    quoit_node::open_noted(control, name, |last_opening| {
        salvage::refuse_unfinished(place.directory, control)?;
        open_one(storage, &EngineDirectory { last_opening, ..place }, clock, settings)
            .map_err(|error| salvage::with_remedy(error, place.directory, control))
    })
}

/// Opens one engine that stores its data in a directory.
fn open_one(
    storage: Storage,
    place: &EngineDirectory<'_>,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<OpenedStore> {
    match storage {
        Storage::Bitcask => bitcask::open(place, clock, settings),
        Storage::Leveldb => ordered::open_leveldb(place, clock, settings),
        Storage::Leveled => ordered::open_leveled(place, clock, settings),
        Storage::Innostore => ordered::open_innostore(place, clock, settings),
        Storage::Memory | Storage::Multi => unreachable!("these have openers of their own"),
    }
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

/// Interval of syncs in microseconds. With `durability = relaxed`, Riak's strategy `none` leaves syncing to
/// the operating system.
fn sync_interval_us(settings: &Settings, default: u64) -> u64 {
    let relaxed = settings.get("durability") == Some("relaxed");
    if relaxed && settings.get("bitcask.sync.strategy") == Some("none") {
        return u64::MAX;
    }
    settings.duration("bitcask.sync.interval").map_or(default, interval_us).max(1)
}

/// An interval in microseconds, or [`INTERVAL_US_MAX`] if it is longer.
fn interval_us(interval: Duration) -> u64 {
    saturating_u64(interval.as_micros()).min(INTERVAL_US_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_config::Sources;

    fn sync_interval(text: &str) -> u64 {
        let command_line = vec![format!("bitcask.sync.interval={text}")];
        let settings = quoit_config::load(&Sources { command_line, ..Sources::default() });
        sync_interval_us(&settings.expect("good settings"), 1)
    }

    #[test]
    fn an_interval_of_more_microseconds_than_64_bits_hold_is_not_cut_to_a_short_one() {
        assert_eq!(sync_interval("2s"), 2_000_000);
        // 2^64 microseconds and 384 more.
        assert_eq!(sync_interval("18446744073709552ms"), INTERVAL_US_MAX);
        assert_eq!(interval_us(Duration::MAX), INTERVAL_US_MAX);
    }
}
