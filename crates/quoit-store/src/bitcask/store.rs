//! State that the parts of the engine share.

use super::commit::LogCommitter;
use super::indexes::{EntryChange, LogIndexes};
use super::log::Log;
use super::read::{Entries, Lookup, ReadPart, Reader};
use super::record::RecordHeader;
use super::segment::SegmentTable;
use super::settings::BitcaskSettings;
use crate::buckets::BucketList;
use crate::compare::compared_digest;
use crate::engine::{DataLocation, IoMode, RecordAt, RecordMeta};
use crate::error::StoreError;
use crate::found_damage::FoundDamage;
use crate::identity::StoreIdentity;
use crate::index::{IndexEntry, Location, PartitionIndex, SizeClass, Tag};
use crate::keyfile::KeyFile;
use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock, RwLockUpgradableReadGuard, RwLockWriteGuard};
use quoit_model::hash::Partition;
use quoit_seam::{Clock, Disk, DiskLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The index of a partition behind its lock.
///
/// A reader takes the lock shared. A writer takes it upgradable, which serializes the changes of a
/// partition, and makes it exclusive only for the moment in which the index changes. So readers never wait
/// for a write to the log.
pub(super) type IndexStripe = RwLock<PartitionIndex>;

/// Upgradable guard of a stripe.
pub(super) type StripeGuard<'s> = RwLockUpgradableReadGuard<'s, PartitionIndex>;

pub(super) struct LogStore {
    pub(super) settings: BitcaskSettings,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reader: Reader,
    pub(super) stripes: Box<[IndexStripe]>,
    pub(super) table: Arc<ArcSwap<SegmentTable>>,
    /// Key files of the closed segments that have one, by segment number.
    pub(super) key_files: Mutex<BTreeMap<u32, Arc<KeyFile>>>,
    pub(super) log: Arc<Log>,
    pub(super) committer: Arc<LogCommitter>,
    pub(super) indexes: LogIndexes,
    pub(super) buckets: BucketList,
    /// Held while a key file is written.
    pub(super) sealing: Mutex<()>,
    /// Held while a snapshot is written.
    pub(super) checkpointing: Mutex<()>,
    pub(super) identity: Arc<StoreIdentity>,
    pub(super) counters: Counters,
    pub(super) found_damage: FoundDamage,
    /// Held until the store is dropped.
    pub(super) _lock: Box<dyn DiskLock>,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) corrupt_records: AtomicU64,
    /// [`Log::written_bytes`] when the last snapshot was begun.
    pub(super) checkpointed_bytes: AtomicU64,
    /// Next sequence when the last snapshot was begun.
    pub(super) checkpointed_sequence: AtomicU64,
    /// True if a snapshot is due, however little was written since the last one.
    pub(super) checkpoint_wanted: AtomicBool,
    pub(super) merges: AtomicU64,
    pub(super) merged_bytes: AtomicU64,
}

impl LogStore {
    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        self.identity.check_open()
    }

    /// The stripe of a partition.
    ///
    /// # Panics
    ///
    /// If the partition's number is not below the ring size. That is a bug, because callers compute the
    /// number from a placement.
    #[expect(
        clippy::indexing_slicing,
        reason = "callers compute the number from a placement; others panic, as documented"
    )]
    pub(super) fn stripe(&self, partition: Partition) -> &IndexStripe {
        &self.stripes[usize::from(partition.0)]
    }

    /// True if a record with this metadata has expired. Reads the clock only if the record expires at all.
    pub(super) fn is_expired(&self, meta: &RecordMeta) -> bool {
        meta.expires_at_secs != 0 && u64::from(meta.expires_at_secs) <= self.clock.unix_secs()
    }

    /// Counts and logs a damaged record, and notes it for repair.
    pub(super) fn note_damaged(&self, partition: Partition, tag: Tag, error: &StoreError) {
        self.found_damage.note(partition, tag);
        self.note_damage(error);
    }

    /// Counts and logs damage.
    pub(super) fn note_damage(&self, error: &StoreError) {
        self.counters.corrupt_records.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, "a record is damaged");
    }

    /// Finds a record for a change, and locks its stripe. With [`IoMode::Wait`] the call waits for the disk
    /// without the lock, and repeats the lookup until the index entries are the same before and after the
    /// read. `None` if it would have to wait and must not.
    pub(super) fn find_for_change(
        &self,
        at: &RecordAt<'_>,
        part: ReadPart,
        access: IoMode,
    ) -> Result<Option<HeldRecord<'_>>, StoreError> {
        let tag = Tag::of(at.identity);
        let mut examined: Option<(Entries, Lookup)> = None;
        loop {
            let stripe = self.stripe(at.partition).upgradable_read();
            let entries: Entries = stripe.candidates(tag).collect();
            // Loaded under the stripe's lock: a segment leaves the table only after its entries have left
            // the index, so every entry's segment is in this table.
            let table = self.table.load();
            let lookup = match examined.take() {
                Some((seen, lookup)) if seen == entries => lookup,
                _ => self.reader.find(&table, &entries, at, part, IoMode::NoWait)?,
            };
            if !matches!(lookup, Lookup::WouldBlock) {
                return Ok(Some(HeldRecord { stripe, candidate_count: entries.len(), lookup }));
            }
            drop(stripe);
            if access == IoMode::NoWait {
                return Ok(None);
            }
            let lookup = self.reader.find(&table, &entries, at, part, IoMode::Wait)?;
            examined = Some((entries, lookup));
        }
    }

    /// Adds an appended record to the index of a locked stripe and to secondary indexes.
    pub(super) fn put_entry(
        &self,
        stripe: StripeGuard<'_>,
        at: &RecordAt<'_>,
        old: Option<&IndexEntry>,
        new: IndexEntry,
        header: &RecordHeader,
        change: &EntryChange,
    ) {
        let table = self.table.load();
        let mut index = RwLockUpgradableReadGuard::upgrade(stripe);
        place(&mut index, &table, old, new);
        self.indexes.write_change(header, change);
        // Readers need not wait for the note below.
        let _held = RwLockWriteGuard::downgrade_to_upgradable(index);
        self.note_live(at, old, &new);
    }

    /// Adds a record that has become live to the list of buckets. The record is in the index, and its
    /// stripe is still locked, so no other call changes it meanwhile.
    pub(super) fn note_live(&self, at: &RecordAt<'_>, old: Option<&IndexEntry>, new: &IndexEntry) {
        // A record that expires may have expired, so its replacement is noted too.
        let was_live = old.is_some_and(|old| !old.expires);
        if !was_live && !new.is_piece() {
            self.buckets.note(at, place_of(new.location));
        }
    }

    /// Removes an entry from the index of a locked stripe, and entries from secondary indexes.
    pub(super) fn remove_entry(
        &self,
        stripe: StripeGuard<'_>,
        old: &IndexEntry,
        header: &RecordHeader,
        change: &EntryChange,
    ) {
        let table = self.table.load();
        let mut index = RwLockUpgradableReadGuard::upgrade(stripe);
        take_out(&mut index, &table, old);
        self.indexes.write_change(header, change);
    }
}

/// Result of a lookup, with the record's stripe locked.
pub(super) struct HeldRecord<'s> {
    pub(super) stripe: StripeGuard<'s>,
    /// Number of entries with the record's tag.
    pub(super) candidate_count: usize,
    pub(super) lookup: Lookup,
}

/// Replaces `old` by `new`, or adds `new` if there is no old entry.
pub(super) fn place(
    index: &mut PartitionIndex,
    table: &SegmentTable,
    old: Option<&IndexEntry>,
    new: IndexEntry,
) {
    match old {
        Some(old) => {
            let replaced = index.replace(new.tag, old.location, new);
            assert!(replaced, "the stripe is held: what was found in it is still there");
            count_dead(table, old.location, old.size_class);
        }
        None => index.insert(new),
    }
    if let Some(segment) = table.get(new.location.segment()) {
        segment.count_live(new.size_class);
    }
}

/// Removes an entry from the index.
pub(super) fn take_out(index: &mut PartitionIndex, table: &SegmentTable, old: &IndexEntry) {
    let removed = index.remove(old.tag, old.location);
    debug_assert!(removed.is_some(), "the stripe is held: an entry that was found is still there");
    if removed.is_some() {
        count_dead(table, old.location, old.size_class);
    }
}

/// Counts a record that the index no longer refers to.
pub(super) fn count_dead(table: &SegmentTable, location: Location, class: SizeClass) {
    if let Some(segment) = table.get(location.segment()) {
        segment.count_dead(class);
    }
}

/// A location in the form that all engines use.
pub(super) fn place_of(location: Location) -> DataLocation {
    DataLocation { engine: 0, segment: location.segment(), offset: location.offset_bytes() }
}

/// The index entry of a record.
pub(super) fn entry_of(
    identity: quoit_model::hash::Identity,
    meta: &RecordMeta,
    location: Location,
    record_bytes: u64,
) -> IndexEntry {
    IndexEntry {
        tag: Tag::of(identity),
        location,
        size_class: SizeClass::of(record_bytes),
        tombstone: meta.tombstone,
        expires: meta.expires_at_secs != 0,
        collided: false,
        indexed: meta.indexed,
        n_val_class: meta.n_val_class.min(15),
        digest: compared_digest(meta),
    }
}
