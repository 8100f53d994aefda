//! The engine of a node: `bitcask`, or `innostore`, a B+tree in one file (crate `redb`). Both write to
//! the simulated disk. The engines `leveldb` and `leveled` can't: the crate that they use (`fjall`) opens
//! files by itself.

use crate::execution::TaskExecution;
use crate::random::Random;
use crate::slow_sync_disk::SlowSyncDisk;
use quoit_model::hash::RingSize;
use quoit_model::store_opening::LastOpening;
use quoit_seam::{Clock, Disk, FaultyDisk};
use quoit_store::OpenedStore;
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, MergePolicy, MergeSettings};
use quoit_store::error::StoreError;
use quoit_store::ordered::{OrderedEngine, OrderedSettings, TreeSettings};
use std::sync::Arc;

/// Engine of all nodes of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineKind {
    /// A log of segments with an index in memory.
    Bitcask,
    /// A B+tree in one file.
    Innostore,
}

impl EngineKind {
    /// Returns the name of the store in the control plane's file.
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
        opening: EngineOpenOptions<'_>,
    ) -> Result<OpenedStore, StoreError> {
        let disk: Arc<dyn Disk> = Arc::new(SlowSyncDisk::new(disk));
        let EngineOpenOptions { sizes, ring_size, entropy, last_opening, clock, execution } =
            opening;
        match self {
            Self::Bitcask => {
                let settings =
                    BitcaskSettings { last_opening, ..bitcask_settings(ring_size, sizes, entropy) };
                Ok(BitcaskEngine::open(disk, clock, execution, settings)?.into())
            }
            Self::Innostore => {
                let settings =
                    OrderedSettings { last_opening, ring_size, ..OrderedSettings::new(entropy) };
                // A simulated disk that is nearly full has a few thousand free bytes, so the engine reserves
                // no space.
                let of_tree = TreeSettings {
                    cache_bytes: 1 << 20,
                    disk_free_bytes_min: 0,
                    has_replicas: true,
                };
                let opened =
                    OrderedEngine::open_innostore(&disk, clock, execution, settings, of_tree)?;
                Ok(opened.into())
            }
        }
    }
}

/// Sizes of an engine's files and buffers. They are small, so that a short run closes many segments,
/// merges them and writes many snapshots.
#[derive(Clone, Copy, Debug)]
pub struct EngineSizes {
    /// Maximum size of a segment of the log, in bytes.
    segment_bytes: u64,
    /// Bytes that are appended to the log between two index snapshots.
    snapshot_interval_bytes: u64,
    /// Maximum size of the index entries that wait in memory for their tree, in bytes; `None` = the
    /// engine's default.
    entry_buffer_bytes: Option<u64>,
    /// True if segments are merged.
    merges: bool,
}

impl Default for EngineSizes {
    fn default() -> Self {
        Self {
            segment_bytes: 20_000,
            snapshot_interval_bytes: 20_000,
            entry_buffer_bytes: None,
            merges: true,
        }
    }
}

impl EngineSizes {
    /// Draws the sizes of a seed's engines.
    pub(crate) fn draw(random: &mut Random) -> Self {
        Self {
            segment_bytes: *random.pick(&[1_000, 4_000, 20_000]),
            snapshot_interval_bytes: *random.pick(&[2_000, 20_000]),
            entry_buffer_bytes: *random.pick(&[Some(400), Some(2_000), None]),
            merges: true,
        }
    }

    /// Returns these sizes for an engine whose segments are not merged: what was replaced stays in its
    /// segment.
    pub(crate) const fn without_merges(self) -> Self {
        Self { merges: false, ..self }
    }
}

/// Arguments for opening an engine.
pub(crate) struct EngineOpenOptions<'o> {
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
        // A simulated disk that is nearly full has a few thousand free bytes, so the engine reserves no
        // space.
        reserved_disk_bytes: 0,
        merge: MergeSettings {
            policy: if sizes.merges { MergePolicy::Always } else { MergePolicy::Never },
            small_file_threshold_bytes: 2_000,
            check_interval_us: 2_000_000,
            ..MergeSettings::default()
        },
        ..defaults
    }
}
