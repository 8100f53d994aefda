//! Secondary indexes: entries in a tree beside the log.
//!
//! An entry carries the digest of the record that wrote it, and counts if the index in memory has a record
//! of that identity and digest. So what is left behind (by writes that did not look at the old record, by
//! dropped partitions, by expiry) is harmless; queries that meet it remove it. What must never be missing is
//! an entry of a record that is there:
//!
//! - An entry changes in memory in the moment in which the index does, under the stripe's exclusive lock.
//! - Entries are moved from memory to the tree after the log was synced: the tree never has an entry of a
//!   record that a crash may lose, in the place of an older one.
//! - A snapshot is written after all entries of records before its position were moved, and says to which
//!   tree. A start reads the log from there on, and finds the others.
//! - If there is no snapshot or another tree, entries are taken from all records that the index knows to have
//!   some; until then there are no queries.
//! - A record that is damaged then has unknown entries: queries of its partition are errors until
//!   it is written again or removed.
//! - So they are when the tree turns out to be damaged, or its file can't be read or written twice in a row:
//!   the operation that meets the fault begins a new file.
//!
//! Lock order: a stripe, then what waits in memory. Neither is held while the disk is waited for, but for a
//! move of entries or an opening of the tree, of which there is one at a time.

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
use quoit_planted::PlantedFault;
use quoit_seam::{Disk, WorkerHandle};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tree::LazyTree;
use xxhash_rust::xxh3::xxh3_64;

/// Name of the tree's file.
pub(super) const INDEXES_NAME: &str = "SECONDARY";

/// The key in the side space under which the id of the tree is, 8 bytes, big-endian.
const ID_KEY: &[u8] = b"id";

/// Identity, digest and expiry of the record to which an entry belongs. Big-endian in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct EntryOf {
    identity: Identity,
    digest: u64,
    expires_at_secs: u32,
}

impl EntryOf {
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

/// The key of an entry: its place, and the partition.
fn entry_key(place: &[u8], partition: Partition) -> Bytes {
    Bytes::from([place, &partition.0.to_be_bytes()].concat())
}

/// Changes that a write makes to the index entries of its record.
#[derive(Default)]
pub(super) struct EntryChange {
    /// The places of the entries that the record had, as far as they are known.
    pub(super) old: Vec<Vec<u8>>,
    /// The places of those that it has.
    pub(super) new: Vec<Vec<u8>>,
}

/// How far the tree has what it should.
enum IndexTreeState {
    /// It was not looked at since the store was opened.
    Unknown,
    /// Entries are missing: of records of this partition and those after it.
    Rebuilding {
        next: Partition,
        /// Records whose entries were taken so far.
        record_count: u64,
    },
    Complete,
}

/// Which tree has a place in a snapshot: never 0, and different for each file.
pub(super) type TreeId = u64;

/// Whose entries are known when a store is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KnownEntries {
    /// Those of all records.
    All,
    /// Those of all records if the tree is this one.
    InTree(TreeId),
    /// Perhaps of none.
    None,
}

/// Facts about the entries that are known when a store is opened.
#[derive(Clone, Copy)]
pub(super) struct Start {
    /// Whether a record may have entries.
    pub(super) is_used: bool,
    pub(super) known: KnownEntries,
    /// Where the log goes on: which incarnation, and which sequence comes next.
    pub(super) incarnation: u64,
    pub(super) next_sequence: u64,
}

/// See the module.
pub(super) struct LogIndexes {
    store_id: u64,
    tree: Arc<LazyTree>,
    overlay: Overlay,
    /// Bytes in memory from which on writers move entries themselves; from a quarter of them on they are
    /// moved in the background.
    buffer_bytes: u64,
    /// Whether a record may have entries. As long as none has, there is no file.
    is_used: AtomicBool,
    state: Mutex<IndexTreeState>,
    /// Facts that are known since the store was opened.
    start: OnceLock<Start>,
    /// How often the tree was lost.
    losses: AtomicU64,
    /// Records whose entries could not be read when the tree was made again.
    unread: Mutex<Vec<(Partition, IndexEntry)>>,
    has_unread: AtomicBool,
    /// Counts of changes by writes; entries that are read from the log or rebuilt are not counted.
    pub(super) counters: IndexCounters,
    /// Held while entries are moved, and while the tree is replaced.
    moving: Mutex<()>,
    worker: OnceLock<Arc<dyn WorkerHandle>>,
}

impl LogIndexes {
    pub(super) fn new(disk: Arc<dyn Disk>, store_id: u64, buffer_bytes: u64) -> Self {
        let tree = Arc::new(LazyTree::new(disk));
        Self {
            store_id,
            overlay: Overlay::new(Box::new(Arc::clone(&tree))),
            tree,
            buffer_bytes,
            is_used: AtomicBool::new(false),
            state: Mutex::new(IndexTreeState::Unknown),
            start: OnceLock::new(),
            losses: AtomicU64::new(0),
            unread: Mutex::new(Vec::new()),
            has_unread: AtomicBool::new(false),
            counters: IndexCounters::default(),
            moving: Mutex::new(()),
            worker: OnceLock::new(),
        }
    }

    /// Tells what opening the store has found out.
    pub(super) fn begin(&self, start: Start) {
        self.is_used.store(start.is_used, Ordering::Relaxed);
        assert!(self.start.set(start).is_ok(), "the indexes begin once");
    }

    /// Tells how to wake the thread that moves entries.
    pub(super) fn attach(&self, worker: Arc<dyn WorkerHandle>) {
        assert!(self.worker.set(worker).is_ok(), "the indexes are attached once");
    }

    /// Whether a record may have entries.
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Notes that a record is going to have entries: before it is appended.
    pub(super) fn begin_use(&self) {
        if !self.is_used() {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Changes the entries of a record that is written, and counts that. As [`LogIndexes::change`].
    pub(super) fn write_change(&self, header: &RecordHeader, change: &EntryChange) {
        self.counters.count(&change.old, &change.new);
        self.change(header, change);
    }

    /// Changes the entries of a record. The caller holds its stripe exclusively and changes the index.
    pub(super) fn change(&self, header: &RecordHeader, change: &EntryChange) {
        let EntryChange { old, new } = change;
        if old.is_empty() && new.is_empty() {
            return;
        }
        let key = |place: &Vec<u8>| entry_key(place, header.partition);
        let value = EntryOf::of(header).encode();
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

    /// Takes over the entries of a record that is read from the log when the store is opened.
    pub(super) fn catch_up(&self, header: &RecordHeader, key: &[u8], value: &[u8]) {
        self.begin_use();
        let places = KeyRef::decode(key).ok().map(|key| places_of(key, &header.meta, value));
        let Some(Ok(new)) = places else {
            tracing::warn!("the index entries of a record can't be read");
            return;
        };
        self.change(header, &EntryChange { old: Vec::new(), new });
    }

    /// Notes a damaged record, whose entries are not known until it is written again.
    fn note_unread(&self, partition: Partition, entry: IndexEntry) {
        let mut unread = self.unread.lock();
        unread.push((partition, entry));
        self.has_unread.store(true, Ordering::Release);
    }

    /// Whether so much waits in memory that writers should wait too.
    pub(super) fn is_full(&self) -> bool {
        self.is_used() && self.overlay.waiting_bytes() >= self.buffer_bytes
    }

    /// Whether so much waits in memory that it should be moved in the background.
    fn should_move(&self) -> bool {
        self.overlay.waiting_bytes() >= self.buffer_bytes / 4
    }

    /// Moves all entries that wait to the tree, after `sync` has made their records durable.
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

    /// Moves all entries that there are now. The tree that has all of them then, if there is one.
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

    /// Opens the tree and finds out what it lacks, if that was not done yet.
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
        let is_whole = match self.start.get().map_or(KnownEntries::None, |start| start.known) {
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

    /// Opens the tree, and makes it if there is none. The caller holds `moving`.
    fn open_tree(&self) -> Result<(), StoreError> {
        if self.tree.is_open() {
            return Ok(());
        }
        self.tree.open()?;
        self.name_tree()?;
        // The tree could not be made again when it was lost.
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

    /// Gives a tree without an id one that no other tree of this store has had.
    fn name_tree(&self) -> Result<(), StoreError> {
        if self.id()?.is_some() {
            return Ok(());
        }
        let (incarnation, sequence) =
            self.start.get().map_or((0, 0), |start| (start.incarnation, start.next_sequence));
        // No two starts of an incarnation have the same next sequence.
        let losses = self.losses.load(Ordering::Acquire);
        let unique = [self.store_id, incarnation, sequence, losses].map(u64::to_be_bytes);
        let id = xxh3_64(unique.as_flattened()) | 1;
        let id = Bytes::copy_from_slice(&id.to_be_bytes());
        let key = Bytes::from_static(ID_KEY);
        self.tree.apply(&PendingWrites::of(vec![(Space::Side, key, Some(id))]))
    }

    /// Does something with the tree, and does it with a new one if the old one turns out to be lost. The
    /// caller holds `moving`.
    fn on_tree<T>(&self, action: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
        match twice(&action) {
            Err(error) if is_loss(&error) => {
                self.lose(&error);
                let done = action()?;
                // Not if it has failed again: the worker would try at once, for ever, on a full disk.
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

    /// Begins a new tree: the old one is damaged, or on a bad piece of the disk. The caller holds `moving`.
    fn lose(&self, error: &StoreError) {
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

/// Tries again where the disk has refused: that may pass.
fn twice<T>(action: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    match action() {
        Err(StoreError::Io { .. }) => action(),
        done => done,
    }
}

/// Whether an error says that the tree is of no use any more. A disk that refuses twice has a bad sector.
const fn is_loss(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { .. } | StoreError::Io { .. })
}

impl LogStore {
    /// Makes writers move entries that come faster than they are moved in the background.
    pub(super) fn relieve_indexes(&self) -> Result<(), StoreError> {
        if !self.indexes.is_full() {
            return Ok(());
        }
        self.indexes.prepare()?;
        self.indexes.move_all(&|| self.committer.sync())
    }

    /// Moves the entries of all records that the stripes have seen by now. The tree that has all of them
    /// then; without one, the next start rebuilds it.
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
