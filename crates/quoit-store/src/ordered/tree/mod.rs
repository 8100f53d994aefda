//! A copy-on-write B+tree: `redb`, with one table for each space, in one file.
//!
//! `redb` has one writer, and each commit waits for the device, so it gets batches of all writes since the
//! last commit. After a disk error it has to be opened again, which happens before the next batch, or at once
//! if the disk is full, so that reads continue. Opening may take long, because it may have to read the whole
//! file, so no batch is begun if there is hardly enough space. `redb` may panic on a damaged file; the panic
//! is caught and becomes an error.
//!
//! - `checked`: the file with a checksum for each block; `checksums`: the file of checksums; `header`: the
//!   only part of the file that is written in place.
//! - `storage`: the file as a storage backend of `redb`, and failing reads.
//! - `walk`: reading the tree without `redb`.

mod checked;
mod checksums;
mod header;
mod storage;
mod walk;

use super::backend::{OrderedStore, Space, StoreStatistics, VisitFn};
use super::interrupted_creation;
use super::overlay::PendingWrites;
use super::repair;
use crate::error::StoreError;
use bytes::Bytes;
use checked::CheckedFile;
pub(crate) use checked::checksum_file_name;
use parking_lot::RwLock;
use quoit_seam::third_party;
use quoit_seam::{Disk, DiskFile};
use redb::{Builder, Database, ReadableDatabase, TableDefinition};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use storage::{Backend, FailedRead, ReadScope};
pub(super) use walk::{Hole, Take, TreeWalk, visit_leaves};

/// The file of an engine.
pub(super) const ENGINE_FILE: TreeFile =
    TreeFile { name: "tree.redb", quick_repair: false, repair: Some(repair::repair) };

/// Maximum size of a key in bytes: a key of the store contains up to twice the largest name.
const KEY_BYTES_MAX: usize = 1 << 18;

type SpaceTable = TableDefinition<'static, &'static [u8], &'static [u8]>;

const fn table_of(space: Space) -> SpaceTable {
    TableDefinition::new(space.name())
}

/// Settings of the engine on a B+tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeSettings {
    /// Size of the page cache in bytes.
    pub cache_bytes: u64,
    /// Minimum of free space on the disk in bytes, in addition to twice the size of a batch: pages that
    /// change are written to new places. Writes that would leave less are refused.
    pub disk_free_bytes_min: u64,
    /// True if other nodes have the records too. Then a file whose records can only be found by a search of
    /// all pages is given up: the loss is reported, and the node gets the records from the others.
    /// Otherwise such a file is refused, so that it can be salvaged.
    pub has_replicas: bool,
}

impl Default for TreeSettings {
    fn default() -> Self {
        Self { cache_bytes: 192 << 20, disk_free_bytes_min: 256 << 20, has_replicas: false }
    }
}

/// Repairs a file that no process has open.
pub(crate) type RepairFn = fn(&Arc<dyn Disk>, TreeSettings) -> Result<(), StoreError>;

/// A tree's file, with its options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeFile {
    pub(crate) name: &'static str,
    /// True if each commit also writes what opening after a crash needs. Commits take longer, and opening
    /// does not read the whole file.
    pub(crate) quick_repair: bool,
    /// Replaces a damaged file by one with the readable entries.
    pub(crate) repair: Option<RepairFn>,
}

pub(crate) struct TreeStore {
    disk: Arc<dyn Disk>,
    of_file: TreeFile,
    path: String,
    settings: TreeSettings,
    /// `None` after an error, until the file is opened again.
    database: RwLock<Option<Database>>,
    /// True if a read has found damage: the file is repaired before the next write.
    is_damaged: AtomicBool,
    /// The error with which a repair was refused. Another attempt would have the same result.
    unmendable: OnceLock<StoreError>,
}

impl TreeStore {
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        of_file: TreeFile,
        settings: TreeSettings,
    ) -> Result<Self, StoreError> {
        let path = format!("{}/{}", disk.path(), of_file.name);
        let (database, is_damaged) = (RwLock::new(None), AtomicBool::new(false));
        let unmendable = OnceLock::new();
        let store = Self { disk, of_file, path, settings, database, is_damaged, unmendable };
        store.reopen()?;
        Ok(store)
    }

    /// Removes the files of a store. No process may open it meanwhile.
    pub(crate) fn remove(disk: &dyn Disk, of_file: TreeFile) -> Result<(), StoreError> {
        let names = disk.list()?;
        for name in [of_file.name, &checksum_file_name(of_file.name)] {
            if names.iter().any(|there| there == name) {
                disk.remove(name)?;
            }
        }
        Ok(())
    }

    /// True if the file is open. After an error it is not, until it is opened again.
    pub(crate) fn is_open(&self) -> bool {
        self.database.read().is_some()
    }

    pub(crate) fn reopen_if_closed(&self) -> Result<(), StoreError> {
        if self.is_open() { Ok(()) } else { self.reopen() }
    }

    /// Opens the file again. Repairs it first if it is damaged and can be repaired.
    fn reopen(&self) -> Result<(), StoreError> {
        let mut database = self.database.write();
        // Two handles would each have their own view of the pages, so the old one is closed first.
        self.close(database.take());
        *database = Some(match (self.open_file(), self.of_file.repair) {
            (Err(StoreError::Corrupt { .. }), Some(repair)) => {
                repair(&self.disk, self.settings)?;
                self.open_file()?
            }
            (opened, _) => opened?,
        });
        Ok(())
    }

    /// Repairs the file, although it can be opened, if a read has met damage. Returns true if it did.
    fn mend_if_damaged(&self) -> Result<bool, StoreError> {
        let is_damaged = || self.is_damaged.load(Ordering::Acquire);
        let Some(repair) = self.of_file.repair.filter(|_| is_damaged()) else { return Ok(false) };
        if let Some(refused) = self.unmendable.get() {
            return Err(refused.clone());
        }
        let mut database = self.database.write();
        if !is_damaged() {
            return Ok(true);
        }
        self.close(database.take());
        let repaired = repair(&self.disk, self.settings).inspect_err(|error| {
            if matches!(error, StoreError::Corrupt { .. }) {
                self.unmendable.get_or_init(|| error.clone());
            }
        });
        // If there was no space for a copy, the undamaged part can still be read.
        *database = Some(self.open_file()?);
        repaired?;
        self.is_damaged.store(false, Ordering::Release);
        Ok(true)
    }

    fn open_file(&self) -> Result<Database, StoreError> {
        let exists = self.disk.list()?.iter().any(|name| name == self.of_file.name);
        let file = self.disk.open(self.of_file.name, !exists)?;
        let is_cleared = interrupted_creation::clear_tree(&*file, &self.path)?;
        let (file, has_new_sums) = CheckedFile::open(&*self.disk, self.of_file.name, file)?;
        let file = Arc::new(file);
        let opened = self.guarded("open", || {
            let mut builder = Builder::new();
            builder
                .set_cache_size(usize::try_from(self.settings.cache_bytes).unwrap_or(usize::MAX));
            let mut opened = builder.create_with_backend(Backend { file: Arc::clone(&file) })?;
            if file.is_learning() {
                // The check repairs only the record of free pages.
                opened.check_integrity()?;
                file.end_learning().map_err(io::Error::other)?;
            }
            // Only if a table is missing, because there may be no space for a commit.
            let known_count = opened.begin_read()?.list_tables()?.count();
            if known_count >= Space::ALL.len() {
                return Ok(opened);
            }
            // Opening a table for writing creates it.
            let transaction = opened.begin_write()?;
            for space in Space::ALL {
                transaction.open_table(table_of(space))?;
            }
            transaction.commit()?;
            Ok(opened)
        })?;
        if is_cleared || !exists || has_new_sums {
            self.disk.sync_directory()?;
        }
        Ok(opened)
    }

    /// Closes the file. Closing writes to it, and may find damage.
    fn close(&self, database: Option<Database>) {
        let closed = self.guarded("close", || {
            drop(database);
            Ok(())
        });
        if let Err(error) = closed {
            tracing::warn!(%error, "a store could not be closed in good order");
        }
    }

    /// Runs a function that reads the file's bytes, and turns panics into errors.
    fn guarded<T>(
        &self,
        action: &'static str,
        run: impl FnOnce() -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        let corrupt =
            |reason: String| StoreError::Corrupt { path: self.path.clone(), offset: 0, reason };
        match third_party::catch(run) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(self.store_error(action, error)),
            Err(thrown) => Err(match thrown.downcast::<FailedRead>() {
                Ok(failed) => self.store_error(action, redb::Error::Io(failed.0)),
                Err(thrown) => {
                    let words = third_party::panic_message(&thrown);
                    corrupt(format!("its pages contradict each other ({words})"))
                }
            }),
        }
    }

    fn store_error(&self, action: &'static str, error: redb::Error) -> StoreError {
        let path = self.path.clone();
        match error {
            redb::Error::Io(error) => match error.downcast::<StoreError>() {
                Ok(error) => error,
                // `redb` has read nonsense, so the file is damaged.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
                    ) =>
                {
                    StoreError::Corrupt { path, offset: 0, reason: error.to_string() }
                }
                Err(error) => StoreError::Io { action, path, reason: error.to_string() },
            },
            redb::Error::Corrupted(reason) => StoreError::Corrupt { path, offset: 0, reason },
            error => StoreError::Io { action, path, reason: error.to_string() },
        }
    }

    /// Runs a function in a new read transaction.
    fn read<T>(
        &self,
        read: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        let database = self.database.read();
        let opened = database.as_ref().ok_or_else(|| self.closed())?;
        let done = self.guarded("read", || {
            let _reading = ReadScope::begin();
            read(&opened.begin_read()?)
        });
        done.inspect_err(|error| {
            if matches!(error, StoreError::Corrupt { .. }) {
                self.is_damaged.store(true, Ordering::Release);
            }
        })
    }

    /// Fails if there is hardly enough space.
    fn check_disk_space(&self, batch: &PendingWrites) -> Result<(), StoreError> {
        let size_bytes = batch.bytes().saturating_mul(2);
        match self.disk.available_bytes() {
            Some(available_bytes)
                if available_bytes
                    < size_bytes.saturating_add(self.settings.disk_free_bytes_min) =>
            {
                Err(StoreError::DiskFull { path: self.path.clone(), size_bytes })
            }
            _ => Ok(()),
        }
    }

    /// Closes the file after an error. If the disk is full, opens it again at once, so that reads continue.
    fn give_up(&self, error: &StoreError) {
        if !matches!(error, StoreError::DiskFull { .. }) {
            let mut database = self.database.write();
            self.close(database.take());
        } else if let Err(error) = self.reopen() {
            tracing::warn!(%error, "a store could not be opened again beside a full disk");
        }
    }

    fn closed(&self) -> StoreError {
        let reason = "it has to be opened again after an error".to_owned();
        StoreError::Io { action: "read", path: self.path.clone(), reason }
    }

    fn commit(&self, batch: &PendingWrites) -> Result<(), StoreError> {
        let database = self.database.read();
        let opened = database.as_ref().ok_or_else(|| self.closed())?;
        self.guarded("write", || {
            let mut transaction = opened.begin_write()?;
            transaction.set_quick_repair(self.of_file.quick_repair);
            for space in Space::ALL {
                let writes = batch.writes_of(space);
                if writes.len() == 0 {
                    continue;
                }
                let mut table = transaction.open_table(table_of(space))?;
                for (key, value) in writes {
                    match value {
                        Some(value) => drop(table.insert(&key[..], &value[..])?),
                        None => drop(table.remove(&key[..])?),
                    }
                }
            }
            transaction.commit()?;
            Ok(())
        })
    }
}

/// A tree's file that no process has open. If its header differs from the last saved one, restores that.
///
/// # Errors
///
/// If the file cannot be opened.
pub(super) fn with_saved_header(
    disk: &dyn Disk,
    name: &str,
) -> Result<Arc<dyn DiskFile>, StoreError> {
    let file = disk.open(name, false)?;
    if let Err(error) = CheckedFile::open(disk, name, Arc::clone(&file)) {
        tracing::warn!(%error, "checksums of a tree's file can't be used");
    }
    Ok(file)
}

impl Drop for TreeStore {
    fn drop(&mut self) {
        let database = self.database.get_mut().take();
        self.close(database);
    }
}

impl OrderedStore for TreeStore {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.read(|transaction| {
            let found = transaction.open_table(table_of(space))?.get(key)?;
            Ok(found.map(|value| Bytes::copy_from_slice(value.value())))
        })
    }

    fn get_each(
        &self,
        space: Space,
        keys: &mut dyn Iterator<Item = (usize, &Bytes)>,
        take: &mut dyn FnMut(usize, Option<Bytes>),
    ) -> Result<(), StoreError> {
        self.read(|transaction| {
            let table = transaction.open_table(table_of(space))?;
            for (place, key) in keys {
                let found = table.get(&key[..])?;
                take(place, found.map(|value| Bytes::copy_from_slice(value.value())));
            }
            Ok(())
        })
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut VisitFn<'_>) -> Result<(), StoreError> {
        self.read(|transaction| {
            for entry in transaction.open_table(table_of(space))?.range(from..)? {
                let (key, value) = entry?;
                if visit(key.value(), value.value()).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    fn apply(&self, batch: &PendingWrites) -> Result<(), StoreError> {
        self.reopen_if_closed()?;
        self.check_disk_space(batch)?;
        match self.mend_if_damaged() {
            // The damaged page may not be needed for this batch.
            Ok(_) | Err(StoreError::DiskFull { .. }) => {}
            Err(error) => return Err(error),
        }
        let done = match self.commit(batch) {
            Err(StoreError::Corrupt { .. }) if self.of_file.repair.is_some() => {
                self.is_damaged.store(true, Ordering::Release);
                self.mend_if_damaged().and_then(|_| self.commit(batch))
            }
            // `redb` refuses all calls after a failed read, until the file is opened again.
            Err(StoreError::Io { action: "read", .. }) => {
                self.reopen()?;
                self.commit(batch)
            }
            done => done,
        };
        done.inspect_err(|error| self.give_up(error))
    }

    fn is_durable_when_applied(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn repair(&self) -> Result<bool, StoreError> {
        self.mend_if_damaged()
    }

    fn can_repair(&self) -> bool {
        self.of_file.repair.is_some()
    }

    fn key_bytes_max(&self) -> usize {
        KEY_BYTES_MAX
    }

    fn figures(&self) -> StoreStatistics {
        let size_bytes = |name: &str| self.disk.open(name, false)?.size_bytes();
        let disk_bytes = [self.of_file.name, &checksum_file_name(self.of_file.name)]
            .into_iter()
            .map(|name| size_bytes(name).unwrap_or_default())
            .sum();
        StoreStatistics { disk_bytes, file_count: 1, ..StoreStatistics::default() }
    }
}
