//! The engine of a node: Bitcask, or `innostore`, a tree in one file that a rented crate keeps. Both write to
//! the simulated disk. `leveldb` and `leveled` can't: the crate that they rent opens files by itself.

use crate::execution::TaskExecution;
use crate::random::Random;
use quoit_model::hash::RingSize;
use quoit_model::store_opening::LastOpening;
use quoit_seam::{Clock, Disk, FaultyDisk};
use quoit_store::OpenedStore;
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, MergeSettings};
use quoit_store::error::StoreError;
use quoit_store::ordered::{OrderedEngine, OrderedSettings, TreeSettings};
use std::sync::Arc;

/// The engines of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineKind {
    /// A log and an index in memory.
    Bitcask,
    /// A B+tree.
    Innostore,
}

impl EngineKind {
    /// The store's name in the control plane's file.
    pub(crate) const fn store_name(self) -> &'static str {
        match self {
            Self::Bitcask => "bitcask",
            Self::Innostore => "innostore",
        }
    }

    /// Opens an engine of this kind on a disk.
    pub(crate) fn open(
        self,
        disk: FaultyDisk,
        opening: Opening<'_>,
    ) -> Result<OpenedStore, StoreError> {
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let Opening { sizes, ring_size, entropy, last_opening, clock, execution } = opening;
        match self {
            Self::Bitcask => {
                let settings =
                    BitcaskSettings { last_opening, ..bitcask_settings(ring_size, sizes, entropy) };
                Ok(BitcaskEngine::open(disk, clock, execution, settings)?.into())
            }
            Self::Innostore => {
                let settings =
                    OrderedSettings { last_opening, ring_size, ..OrderedSettings::new(entropy) };
                // Disks have some thousand bytes where they are nearly full.
                let of_tree =
                    TreeSettings { cache_bytes: 1 << 20, room_bytes_min: 0, has_replicas: true };
                let opened =
                    OrderedEngine::open_innostore(&disk, clock, execution, settings, of_tree)?;
                Ok(opened.into())
            }
        }
    }
}

/// Sizes of what an engine keeps in files and in memory: small, so that a short run closes, merges and
/// snapshots many.
#[derive(Clone, Copy, Debug)]
pub struct EngineSizes {
    /// Bytes of a segment of the log.
    segment_bytes: u64,
    /// Bytes that are logged between two snapshots.
    snapshot_interval_bytes: u64,
    /// Bytes of index entries that wait to be moved to their file; `None` = the engine's default.
    entry_buffer_bytes: Option<u64>,
}

impl Default for EngineSizes {
    fn default() -> Self {
        Self { segment_bytes: 20_000, snapshot_interval_bytes: 20_000, entry_buffer_bytes: None }
    }
}

impl EngineSizes {
    /// Sizes of a seed's engines.
    pub(crate) fn draw(random: &mut Random) -> Self {
        Self {
            segment_bytes: *random.pick(&[1_000, 4_000, 20_000]),
            snapshot_interval_bytes: *random.pick(&[2_000, 20_000]),
            entry_buffer_bytes: *random.pick(&[Some(400), Some(2_000), None]),
        }
    }
}

/// All that an engine is opened with.
pub(crate) struct Opening<'o> {
    pub(crate) sizes: EngineSizes,
    pub(crate) ring_size: RingSize,
    pub(crate) entropy: u64,
    pub(crate) last_opening: Option<LastOpening>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) execution: &'o TaskExecution,
}

fn bitcask_settings(ring_size: RingSize, sizes: EngineSizes, entropy: u64) -> BitcaskSettings {
    let defaults = BitcaskSettings::new(entropy);
    BitcaskSettings {
        ring_size,
        sync_interval_us: 1_000_000,
        max_file_size_bytes: sizes.segment_bytes,
        key_buffer_bytes: 20_000,
        snapshot_interval_bytes: sizes.snapshot_interval_bytes,
        entry_buffer_bytes: sizes.entry_buffer_bytes.unwrap_or(defaults.entry_buffer_bytes),
        snapshot_interval_records: 100,
        // Disks have some thousand bytes where they are nearly full.
        kept_room_bytes: 0,
        merge: MergeSettings {
            small_file_threshold_bytes: 2_000,
            check_interval_us: 2_000_000,
            ..MergeSettings::default()
        },
        ..defaults
    }
}
