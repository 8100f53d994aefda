//! Secondary indexes: entries in a tree beside the log.
//!
//! An entry in the tree contains the digest of the record that wrote it. A query returns it only if the
//! index in memory has a record with that identity and digest. So outdated entries (left behind by writes
//! that did not read the old record, by dropped partitions, by expiry) are harmless, and queries that meet
//! them remove them. An entry of an existing record must never be missing:
//!
//! - An entry changes in memory in the moment in which the index changes, under the stripe's exclusive
//!   lock.
//! - Entries move from memory to the tree only after the log was synced. So the tree never replaces an
//!   entry by that of a record which a crash may lose.
//! - A snapshot is written after all entries of records before its position were moved, and it names the
//!   tree. A start reads the log from the position on, and finds the other entries there.
//! - If there is no snapshot, or the tree is another one, the entries are rebuilt from all records that
//!   have the flag for entries in the index. Until then queries fail.
//! - If such a record is damaged, its entries are unknown: queries of its partition fail until the record
//!   is written again or removed.
//! - If the tree is damaged, or reading or writing its file fails twice in a row, the operation that meets
//!   the fault begins a new file, and queries fail until it is rebuilt.
//!
//! Lock order: a stripe, then the waiting entries in memory. No thread waits for the disk while it holds
//! one of these locks. Moving entries and opening the tree wait for the disk under a lock of their own.

mod query;
mod rebuild;
mod tree;

use super::planted;
use super::record::RecordHeader;
use super::store::LogStore;
use crate::compare::compared_digest;
use crate::error::StoreError;
use crate::index::IndexEntry;
use crate::index_activity::IndexCounters;
use crate::index_page::places_of;
use crate::ordered::{OrderedStore, Overlay, PendingWrites, Space};
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::KeyRef;
use quoit_model::store_opening::StoreId;
use quoit_planted::PlantedFault;
use quoit_seam::{Disk, WorkerHandle};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tree::LazyTree;
use xxhash_rust::xxh3::xxh3_64;

/// Name of the file of the tree.
pub(super) const INDEXES_NAME: &str = "SECONDARY";

/// Key in the side space whose value is the id of the tree: 8 bytes, big-endian.
const ID_KEY: &[u8] = b"id";

/// The value of an entry: identity, digest and expiry of its record. Big-endian in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct EntryValue {
    identity: Identity,
    digest: u64,
    expires_at_secs: u32,
}

impl EntryValue {
    fn of(header: &RecordHeader) -> Self {
        Self {
            identity: header.identity,
            digest: compared_digest(&header.meta),
            expires_at_secs: header.meta.expires_at_secs,
        }
    }

    fn encode(&self) -> Bytes {
        let (identity, digest) = (self.identity.0.to_be_bytes(), self.digest.to_be_bytes());
        Bytes::from([&identity[..], &digest, &self.expires_at_secs.to_be_bytes()].concat())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (identity, rest) = bytes.split_first_chunk()?;
        let (digest, rest) = rest.split_first_chunk()?;
        Some(Self {
            identity: Identity(u64::from_be_bytes(*identity)),
            digest: u64::from_be_bytes(*digest),
            expires_at_secs: u32::from_be_bytes(rest.try_into().ok()?),
        })
    }
}

/// The key of an entry in the tree: the encoded entry and the partition.
fn entry_key(place: &[u8], partition: Partition) -> Bytes {
    Bytes::from([place, &partition.0.to_be_bytes()].concat())
}

/// Changes that a write makes to the index entries of its record.
#[derive(Default)]
pub(super) struct EntryChange {
    /// Encoded entries that the record had, as far as they are known.
    pub(super) old: Vec<Vec<u8>>,
    /// Encoded entries that the record has now.
    pub(super) new: Vec<Vec<u8>>,
}

/// Completeness of the tree.
enum IndexTreeState {
    /// The tree was not opened since the store was opened.
    Unknown,
    /// Entries of the records of partition `next` and of those after it are missing.
    Rebuilding {
        next: Partition,
        /// Number of records whose entries were rebuilt so far.
        record_count: u64,
    },
    Complete,
}

/// Id by which a snapshot names a tree: never 0, and different for each file.
pub(super) type TreeId = u64;

/// The records whose index entries are known when a store is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KnownEntries {
    /// All records.
    All,
    /// All records, if the existing tree has this id.
    InTree(TreeId),
    /// Possibly no record.
    None,
}

/// Facts about index entries that opening the store has found.
#[derive(Clone, Copy)]
pub(super) struct OpenedIndexes {
    /// True if a record may have entries.
    pub(super) is_used: bool,
    pub(super) known: KnownEntries,
    /// Incarnation and next sequence with which the log continues.
    pub(super) incarnation: u64,
    pub(super) next_sequence: u64,
}

/// The secondary indexes of a store. See the module's documentation.
pub(super) struct LogIndexes {
    store_id: StoreId,
    tree: Arc<LazyTree>,
    overlay: Overlay,
    /// Bytes of waiting entries from which on writers move entries themselves. From a quarter of it on,
    /// entries are moved in the background.
    buffer_bytes: u64,
    /// True if a record may have entries. Until then there is no file.
    is_used: AtomicBool,
    state: Mutex<IndexTreeState>,
    /// Facts that opening the store has found.
    opened: OnceLock<OpenedIndexes>,
    /// Number of times that the tree was found damaged, and a new one was begun.
    losses: AtomicU64,
    /// Damaged records whose entries could not be read when the tree was rebuilt.
    unread: Mutex<Vec<(Partition, IndexEntry)>>,
    has_unread: AtomicBool,
    /// Counts of changes by writes. Entries that are read from the log or rebuilt do not count.
    pub(super) counters: IndexCounters,
    /// Held while entries are moved or the tree is replaced.
    moving: Mutex<()>,
    worker: OnceLock<Arc<dyn WorkerHandle>>,
}

impl LogIndexes {
    pub(super) fn new(disk: Arc<dyn Disk>, store_id: StoreId, buffer_bytes: u64) -> Self {
        let tree = Arc::new(LazyTree::new(disk));
        Self {
            store_id,
            overlay: Overlay::new(Box::new(Arc::clone(&tree))),
            tree,
            buffer_bytes,
            is_used: AtomicBool::new(false),
            state: Mutex::new(IndexTreeState::Unknown),
            opened: OnceLock::new(),
            losses: AtomicU64::new(0),
            unread: Mutex::new(Vec::new()),
            has_unread: AtomicBool::new(false),
            counters: IndexCounters::default(),
            moving: Mutex::new(()),
            worker: OnceLock::new(),
        }
    }

    /// Sets the facts that opening the store has found.
    pub(super) fn begin(&self, opened: OpenedIndexes) {
        self.is_used.store(opened.is_used, Ordering::Relaxed);
        assert!(self.opened.set(opened).is_ok(), "the indexes begin once");
    }

    /// Sets the handle that wakes the thread which moves entries.
    pub(super) fn attach(&self, worker: Arc<dyn WorkerHandle>) {
        assert!(self.worker.set(worker).is_ok(), "the indexes are attached once");
    }

    /// True if a record may have entries.
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Notes that a record is going to have entries. Called before the record is appended.
    pub(super) fn begin_use(&self) {
        if !self.is_used() {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Changes and counts the entries of a record that is written. See [`LogIndexes::change`].
    pub(super) fn write_change(&self, header: &RecordHeader, change: &EntryChange) {
        self.counters.count(&change.old, &change.new);
        self.change(header, change);
    }

    /// Changes the entries of a record. The caller holds the stripe exclusively and changes the index in
    /// the same step.
    pub(super) fn change(&self, header: &RecordHeader, change: &EntryChange) {
        let EntryChange { old, new } = change;
        if old.is_empty() && new.is_empty() {
            return;
        }
        let key = |place: &Vec<u8>| entry_key(place, header.partition);
        let value = EntryValue::of(header).encode();
        let removed = old.iter().filter(|place| !new.contains(place));
        let writes = removed
            .map(|place| (Space::Indexes, key(place), None))
            .chain(new.iter().map(|place| (Space::Indexes, key(place), Some(value.clone()))))
            .collect();
        self.write(writes);
    }

    fn write(&self, writes: Vec<(Space, Bytes, Option<Bytes>)>) {
        self.overlay.write(writes);
        if self.should_move() {
            self.wake_worker();
        }
    }

    /// Adds the entries of a record that a start reads from the log.
    pub(super) fn catch_up(&self, header: &RecordHeader, key: &[u8], value: &[u8]) {
        self.begin_use();
        let places = KeyRef::decode(key).ok().map(|key| places_of(key, &header.meta, value));
        let Some(Ok(new)) = places else {
            tracing::warn!("the index entries of a record can't be read");
            return;
        };
        self.change(header, &EntryChange { old: Vec::new(), new });
    }

    /// Notes a damaged record, whose entries are unknown until it is written again.
    fn note_unread(&self, partition: Partition, entry: IndexEntry) {
        let mut unread = self.unread.lock();
        unread.push((partition, entry));
        self.has_unread.store(true, Ordering::Release);
    }

    /// True if so many entries wait in memory that writers have to move them.
    pub(super) fn is_full(&self) -> bool {
        self.is_used() && self.overlay.waiting_bytes() >= self.buffer_bytes
    }

    /// True if so many entries wait in memory that they should be moved in the background.
    fn should_move(&self) -> bool {
        self.overlay.waiting_bytes() >= self.buffer_bytes / 4
    }

    /// Moves all waiting entries to the tree, after `sync` has made their records durable.
    pub(super) fn move_all(
        &self,
        sync: &dyn Fn() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let last_ticket = self.overlay.last_ticket();
        let _one_at_a_time = self.moving.lock();
        while let Some(batch) = self.overlay.take() {
            if !planted::has(PlantedFault::MovesEntriesUnsynced) {
                sync()?;
            }
            self.on_tree(|| {
                self.open_tree()?;
                self.tree.apply(&batch)
            })?;
            self.overlay.settle();
            if batch.last_ticket >= last_ticket {
                break;
            }
        }
        Ok(())
    }

    /// Moves all entries that exist now. Returns the tree that has all of them then; `None` if the tree is
    /// incomplete.
    fn complete(
        &self,
        sync: &dyn Fn() -> Result<(), StoreError>,
    ) -> Result<Option<TreeId>, StoreError> {
        self.prepare()?;
        let losses = self.losses.load(Ordering::Acquire);
        if !planted::has(PlantedFault::ForgetsEntries) {
            self.move_all(sync)?;
        }
        let id = {
            let _one_at_a_time = self.moving.lock();
            self.on_tree(|| self.id())?
        };
        let state = self.state.lock();
        let is_whole = matches!(*state, IndexTreeState::Complete)
            && self.losses.load(Ordering::Acquire) == losses;
        Ok(id.filter(|_| is_whole))
    }

    /// Opens the tree and checks its completeness, unless that was done already.
    fn prepare(&self) -> Result<(), StoreError> {
        if self.tree.is_open() && !matches!(*self.state.lock(), IndexTreeState::Unknown) {
            return Ok(());
        }
        let _one_at_a_time = self.moving.lock();
        let id = self.on_tree(|| {
            self.open_tree()?;
            self.id()
        })?;
        let mut state = self.state.lock();
        if !matches!(*state, IndexTreeState::Unknown) {
            return Ok(());
        }
        let is_whole = match self.opened.get().map_or(KnownEntries::None, |opened| opened.known) {
            KnownEntries::All => true,
            KnownEntries::InTree(known) => id == Some(known),
            KnownEntries::None => false,
        };
        *state = if is_whole {
            IndexTreeState::Complete
        } else {
            tracing::warn!("secondary indexes lack entries: they are rebuilt from the records");
            IndexTreeState::REBUILDING
        };
        Ok(())
    }

    /// Opens or creates the tree. The caller holds `moving`.
    fn open_tree(&self) -> Result<(), StoreError> {
        if self.tree.is_open() {
            return Ok(());
        }
        self.tree.open()?;
        self.name_tree()?;
        // Creating the tree again had failed when it was lost.
        if matches!(*self.state.lock(), IndexTreeState::Rebuilding { .. }) {
            self.wake_worker();
        }
        Ok(())
    }

    /// The id of the tree, if it has one.
    fn id(&self) -> Result<Option<TreeId>, StoreError> {
        let stored = self.tree.get(Space::Side, ID_KEY)?;
        Ok(stored.and_then(|id| id[..].try_into().ok()).map(TreeId::from_be_bytes))
    }

    /// Gives a new tree an id that no other tree of this store has had.
    fn name_tree(&self) -> Result<(), StoreError> {
        if self.id()?.is_some() {
            return Ok(());
        }
        let (incarnation, sequence) =
            self.opened.get().map_or((0, 0), |opened| (opened.incarnation, opened.next_sequence));
        // No two starts of an incarnation have the same next sequence.
        let losses = self.losses.load(Ordering::Acquire);
        let unique = [self.store_id.0, incarnation, sequence, losses].map(u64::to_be_bytes);
        let id = xxh3_64(unique.as_flattened()) | 1;
        let id = Bytes::copy_from_slice(&id.to_be_bytes());
        let key = Bytes::from_static(ID_KEY);
        self.tree.apply(&PendingWrites::of(vec![(Space::Side, key, Some(id))]))
    }

    /// Runs an action on the tree. If the tree turns out to be lost, begins a new one and repeats the
    /// action. The caller holds `moving`.
    fn on_tree<T>(&self, action: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
        match retry_once(&action) {
            Err(error) if is_loss(&error) => {
                self.begin_new_tree(&error);
                let done = action()?;
                // The worker is not woken if the action has failed again: on a full disk it would retry
                // without a pause, forever.
                self.wake_worker();
                Ok(done)
            }
            done => done,
        }
    }

    fn wake_worker(&self) {
        if let Some(worker) = self.worker.get() {
            worker.wake();
        }
    }

    /// Begins a new tree, because the old one is damaged or on a bad sector. The caller holds `moving`.
    fn begin_new_tree(&self, error: &StoreError) {
        tracing::error!(%error, "secondary indexes are damaged: they are rebuilt from the records");
        let mut state = self.state.lock();
        self.losses.fetch_add(1, Ordering::AcqRel);
        if let Err(error) = self.tree.remove() {
            tracing::warn!(%error, "damaged secondary indexes could not be removed");
        }
        *state = IndexTreeState::REBUILDING;
    }
}

impl IndexTreeState {
    const REBUILDING: Self = Self::Rebuilding { next: Partition(0), record_count: 0 };
}

/// Runs an action, and repeats it once after an I/O error, which may be temporary.
fn retry_once<T>(action: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    match action() {
        Err(StoreError::Io { .. }) => action(),
        done => done,
    }
}

/// True if the error means that the tree is unusable. An I/O error that occurs twice counts as a bad sector.
const fn is_loss(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { .. } | StoreError::Io { .. })
}

impl LogStore {
    /// Moves entries in a writing thread, if background work does not keep up.
    pub(super) fn relieve_indexes(&self) -> Result<(), StoreError> {
        if !self.indexes.is_full() {
            return Ok(());
        }
        self.indexes.prepare()?;
        self.indexes.move_all(&|| self.committer.sync())
    }

    /// Moves the entries of all records that the stripes have by now. Returns the tree that has all of them
    /// then; without one, the next start rebuilds the entries.
    pub(super) fn save_indexes(&self) -> Option<TreeId> {
        if !self.indexes.is_used() {
            return None;
        }
        let completed = self.indexes.complete(&|| self.committer.sync());
        completed.unwrap_or_else(|error| {
            tracing::warn!(%error, "secondary indexes could not be brought up to date");
            None
        })
    }
}
