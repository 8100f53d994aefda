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
use crate::engine::{Access, DataPlace, RecordAt, RecordMeta};
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
/// A reader takes the lock shared. A writer takes it upgradable, so that changes of a partition come one
/// after the other, and exclusively for the moment in which the index changes: readers never wait for a write
/// to the log.
pub(super) type IndexStripe = RwLock<PartitionIndex>;

/// An upgradable hold of a stripe.
pub(super) type StripeGuard<'s> = RwLockUpgradableReadGuard<'s, PartitionIndex>;

pub(super) struct LogStore {
    pub(super) settings: BitcaskSettings,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reader: Reader,
    pub(super) stripes: Box<[IndexStripe]>,
    pub(super) table: Arc<ArcSwap<SegmentTable>>,
    /// Key files of the closed segments that have one.
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
    /// Whether the next snapshot is due whatever was written.
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
    /// When the partition's number is not below the ring size: callers compute it from a placement.
    pub(super) fn stripe(&self, partition: Partition) -> &IndexStripe {
        &self.stripes[usize::from(partition.0)]
    }

    /// Whether a record that expires at this time (0: never) has expired. Reads the clock only if it
    /// must.
    pub(super) fn is_expired(&self, meta: &RecordMeta) -> bool {
        meta.expires_at_secs != 0 && u64::from(meta.expires_at_secs) <= self.clock.unix_secs()
    }

    /// Counts and reports a damaged record, and notes it for those who can heal it.
    pub(super) fn note_damaged(&self, partition: Partition, tag: Tag, error: &StoreError) {
        self.found_damage.note(partition, tag);
        self.note_damage(error);
    }

    /// Counts and reports damage.
    pub(super) fn note_damage(&self, error: &StoreError) {
        self.counters.corrupt_records.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, "a record is damaged");
    }

    /// Finds a record for a change and holds its stripe. With [`Access::Wait`] the disk is waited for
    /// without holding the stripe; `None` says that it would have to be.
    pub(super) fn find_for_change(
        &self,
        at: &RecordAt<'_>,
        part: ReadPart,
        access: Access,
    ) -> Result<Option<HeldRecord<'_>>, StoreError> {
        let tag = Tag::of(at.identity);
        let mut examined: Option<(Entries, Lookup)> = None;
        loop {
            let stripe = self.stripe(at.partition).upgradable_read();
            let entries: Entries = stripe.candidates(tag).collect();
            // Loaded under the stripe's lock: an entry's segment leaves the table only after the entry
            // has left the index.
            let table = self.table.load();
            let lookup = match examined.take() {
                Some((seen, lookup)) if seen == entries => lookup,
                _ => self.reader.find(&table, &entries, at, part, Access::NoWait)?,
            };
            if !matches!(lookup, Lookup::WouldBlock) {
                return Ok(Some(HeldRecord { stripe, candidate_count: entries.len(), lookup }));
            }
            drop(stripe);
            if access == Access::NoWait {
                return Ok(None);
            }
            let lookup = self.reader.find(&table, &entries, at, part, Access::Wait)?;
            examined = Some((entries, lookup));
        }
    }

    /// Lets the index of a held stripe, and secondary indexes, know of a record that was appended.
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
        // Readers need not wait for that.
        let _held = RwLockWriteGuard::downgrade_to_upgradable(index);
        self.note_live(at, old, &new);
    }

    /// Lets the list of buckets know of a record that was not live and is now. It is in the index, and its
    /// stripe is still held: no other call changes it meanwhile.
    pub(super) fn note_live(&self, at: &RecordAt<'_>, old: Option<&IndexEntry>, new: &IndexEntry) {
        // What expires may have.
        let was_live = old.is_some_and(|old| !old.expires);
        if !was_live && !new.is_piece() {
            self.buckets.note(at, place_of(new.location));
        }
    }

    /// Takes an entry out of the index of a held stripe, and entries out of secondary indexes.
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

/// A record found, or not, with its stripe held.
pub(super) struct HeldRecord<'s> {
    pub(super) stripe: StripeGuard<'s>,
    /// Entries that have the record's tag.
    pub(super) candidate_count: usize,
    pub(super) lookup: Lookup,
}

/// Puts `new` in the place of `old`, or beside what is there.
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

/// Takes an entry out of the index.
pub(super) fn take_out(index: &mut PartitionIndex, table: &SegmentTable, old: &IndexEntry) {
    if index.remove(old.tag, old.location).is_some() {
        count_dead(table, old.location, old.size_class);
    }
}

/// Counts a record that the index no longer refers to.
pub(super) fn count_dead(table: &SegmentTable, location: Location, class: SizeClass) {
    if let Some(segment) = table.get(location.segment()) {
        segment.count_dead(class);
    }
}

/// A location as others know places.
pub(super) fn place_of(location: Location) -> DataPlace {
    DataPlace { engine: 0, segment: location.segment(), offset: location.offset_bytes() }
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
