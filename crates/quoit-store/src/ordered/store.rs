//! State that the parts of the adapter share.

use super::cache::RecordCache;
use super::commit::StoreCommitter;
use super::keys::{Epoch, record_key, records_from};
use super::overlay::Overlay;
use super::settings::OrderedSettings;
use super::tallies::Tallies;
use crate::buckets::BucketList;
use crate::engine::{Record, RecordAt, RecordMeta};
use crate::error::StoreError;
use crate::expired::after_expiry;
use crate::found_damage::FoundDamage;
use crate::identity::StoreIdentity;
use crate::index_activity::IndexCounters;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use quoit_model::hash::{Identity, Partition};
use quoit_seam::{Clock, DiskLock, WorkerHandle};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// State of a partition in memory.
pub(super) struct PartitionState {
    /// Held by a change of records of the partition, from its first lookup on.
    pub(super) changing: Mutex<()>,
    pub(super) tallies: RwLock<Tallies>,
    epoch: AtomicU32,
}

impl PartitionState {
    pub(super) fn new(tallies: Tallies, epoch: Epoch) -> Self {
        let epoch = AtomicU32::new(epoch.0);
        Self { changing: Mutex::new(()), tallies: RwLock::new(tallies), epoch }
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    pub(super) fn set_epoch(&self, epoch: Epoch) {
        let before = self.epoch.swap(epoch.0, Ordering::Release);
        // Records of a dropped epoch would come back.
        assert!(before < epoch.0, "the epoch of a partition never goes back");
    }
}

pub(super) struct StoreShared {
    /// Name of the engine.
    pub(super) name: &'static str,
    /// True if bodies are stored apart from heads.
    pub(super) bodies_apart: bool,
    /// The data directory.
    pub(super) path: String,
    pub(super) settings: OrderedSettings,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) overlay: Overlay,
    pub(super) cache: Option<RecordCache>,
    pub(super) partitions: Box<[PartitionState]>,
    pub(super) committer: StoreCommitter,
    pub(super) buckets: BucketList,
    /// Key that verification has reached among names or index entries.
    pub(super) verified_to: Mutex<Bytes>,
    pub(super) maintenance: OnceLock<Arc<dyn WorkerHandle>>,
    pub(super) identity: Arc<StoreIdentity>,
    pub(super) corrupt_records: AtomicU64,
    pub(super) found_damage: FoundDamage,
    pub(super) index_counters: IndexCounters,
    /// Held until the store is dropped.
    pub(super) _lock: Box<dyn DiskLock>,
}

impl StoreShared {
    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        self.identity.check_open()
    }

    /// The state of a partition.
    ///
    /// # Panics
    ///
    /// If the partition's number is not below the ring size. That is a bug, because callers compute the
    /// number from a placement.
    #[expect(
        clippy::indexing_slicing,
        reason = "callers compute the number from a placement; others panic, as documented"
    )]
    pub(super) fn partition(&self, partition: Partition) -> &PartitionState {
        &self.partitions[usize::from(partition.0)]
    }

    pub(super) fn key_of(&self, at: &RecordAt<'_>) -> Bytes {
        record_key(at.partition, self.partition(at.partition).epoch(), at.identity, at.encoded)
    }

    /// Lower bound of the keys of a partition's records that have at least this identity.
    pub(super) fn place_of(&self, partition: Partition, identity: Identity) -> Vec<u8> {
        records_from(partition, self.partition(partition).epoch(), identity)
    }

    pub(super) fn is_expired(&self, meta: &RecordMeta) -> bool {
        meta.expires_at_secs != 0 && u64::from(meta.expires_at_secs) <= self.clock.unix_secs()
    }

    /// The record, or the tombstone that replaces it after its expiry.
    pub(super) fn shown(&self, record: Record) -> Option<Record> {
        if self.is_expired(&record.meta) { after_expiry(&record) } else { Some(record) }
    }

    /// The error for a damaged record.
    pub(super) fn damaged(&self, reason: &str) -> StoreError {
        StoreError::Corrupt {
            path: self.path.clone(),
            offset: 0,
            reason: format!("a record is damaged: {reason}"),
        }
    }

    /// Counts and logs damage.
    pub(super) fn note_damage(&self, error: &StoreError) {
        self.corrupt_records.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, engine = self.name, "stored data is damaged");
    }
}
