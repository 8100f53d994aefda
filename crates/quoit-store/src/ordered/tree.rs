//! A B+tree with copy on write: `redb`, one table for each space, in one file.
//!
//! `redb` has one writer, and each of its commits waits for the device: what it is given are batches of all
//! that has come in since the last one. After an error of the disk it has to be opened again, which is done
//! before the next batch; beside a full disk at once, so that reads go on. That may take long, since all of
//! the file may have to be read: so no batch is begun that there is hardly room for. It may panic on a
//! damaged file where an error would be right; that is caught.
//!
//! A read of the file that fails would fail all that comes after it, until the file is opened again, for
//! which all of it has to be read. So a read transaction does not get to hear of it: it is left by unwinding,
//! where it holds none of `redb`'s locks, and what others read and write goes on.

use super::backend::{Figures, OrderedStore, Space, Visit};
use super::half_made;
use super::overlay::Batch;
use crate::error::StoreError;
use crate::seam::{Disk, DiskFile};
use bytes::Bytes;
use parking_lot::RwLock;
use redb::{Builder, Database, ReadableDatabase, StorageBackend, TableDefinition};
use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// The file of an engine.
pub(super) const ENGINE_FILE: TreeFile = TreeFile { name: "tree.redb", quick_repair: false };

/// Keys are as large as names can be, twice, and some bytes.
const KEY_BYTES_MAX: usize = 1 << 18;

type Table = TableDefinition<'static, &'static [u8], &'static [u8]>;

const fn table_of(space: Space) -> Table {
    TableDefinition::new(space.name())
}

/// What an operator can choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeSettings {
    /// Memory for pages, in bytes.
    pub cache_bytes: u64,
    /// Writes are refused while the disk has less room than this, in bytes, and twice what is to be written:
    /// pages that change are written anew.
    pub room_bytes_min: u64,
}

impl Default for TreeSettings {
    fn default() -> Self {
        Self { cache_bytes: 192 << 20, room_bytes_min: 256 << 20 }
    }
}

/// Which file, and how it is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeFile {
    pub(crate) name: &'static str,
    /// Whether each commit writes what opening after a crash needs: commits take longer, and opening does
    /// not read the whole file.
    pub(crate) quick_repair: bool,
}

pub(crate) struct TreeStore {
    disk: Arc<dyn Disk>,
    of_file: TreeFile,
    path: String,
    settings: TreeSettings,
    /// `None` after an error, until it is opened again.
    database: RwLock<Option<Database>>,
}

impl TreeStore {
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        of_file: TreeFile,
        settings: TreeSettings,
    ) -> Result<Self, StoreError> {
        let path = format!("{}/{}", disk.path(), of_file.name);
        let store = Self { disk, of_file, path, settings, database: RwLock::new(None) };
        store.reopen()?;
        Ok(store)
    }

    /// Whether it can be read: not after an error, until it is opened again.
    pub(crate) fn is_open(&self) -> bool {
        self.database.read().is_some()
    }

    pub(crate) fn reopen_if_closed(&self) -> Result<(), StoreError> {
        if self.is_open() { Ok(()) } else { self.reopen() }
    }

    fn reopen(&self) -> Result<(), StoreError> {
        let mut database = self.database.write();
        // Two handles would each have their own idea of the pages.
        database.take();
        let exists = self.disk.list()?.iter().any(|name| name == self.of_file.name);
        let file = self.disk.open(self.of_file.name, !exists)?;
        let is_new = half_made::clear_tree(&*file, &self.path)? || !exists;
        let opened = self.guarded("open", || {
            let mut builder = Builder::new();
            builder
                .set_cache_size(usize::try_from(self.settings.cache_bytes).unwrap_or(usize::MAX));
            let opened = builder.create_with_backend(Backend { file })?;
            // Only where one lacks: there may be no room for a commit.
            let reading = opened.begin_read()?;
            if Space::ALL.into_iter().all(|space| reading.open_table(table_of(space)).is_ok()) {
                return Ok(opened);
            }
            // A table is made when it is opened for writing.
            let transaction = opened.begin_write()?;
            for space in Space::ALL {
                transaction.open_table(table_of(space))?;
            }
            transaction.commit()?;
            Ok(opened)
        })?;
        if is_new {
            self.disk.sync_directory()?;
        }
        *database = Some(opened);
        Ok(())
    }

    /// Runs something that looks at the file's bytes.
    fn guarded<T>(
        &self,
        action: &'static str,
        run: impl FnOnce() -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        let corrupt =
            |reason: String| StoreError::Corrupt { path: self.path.clone(), offset: 0, reason };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(self.store_error(action, error)),
            Err(thrown) => Err(match thrown.downcast::<FailedRead>() {
                Ok(failed) => self.store_error(action, redb::Error::Io(failed.0)),
                Err(_) => corrupt("its pages contradict each other".to_owned()),
            }),
        }
    }

    fn store_error(&self, action: &'static str, error: redb::Error) -> StoreError {
        let path = self.path.clone();
        match error {
            redb::Error::Io(error) => match error.downcast::<StoreError>() {
                Ok(error) => error,
                // It has read what makes no sense.
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

    /// Reads in a transaction of its own.
    fn read<T>(
        &self,
        read: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        let database = self.database.read();
        let opened = database.as_ref().ok_or_else(|| self.closed())?;
        self.guarded("read", || {
            let _reading = Reading::begin();
            read(&opened.begin_read()?)
        })
    }

    /// Refuses what there is hardly room for.
    fn check_room(&self, batch: &Batch) -> Result<(), StoreError> {
        let size_bytes = batch.bytes().saturating_mul(2);
        match self.disk.room_bytes() {
            Some(room_bytes)
                if room_bytes < size_bytes.saturating_add(self.settings.room_bytes_min) =>
            {
                Err(StoreError::DiskFull { path: self.path.clone(), size_bytes })
            }
            _ => Ok(()),
        }
    }

    /// Closes the file after an error, and opens it again beside a full disk: reads go on.
    fn give_up(&self, error: &StoreError) {
        if !matches!(error, StoreError::DiskFull { .. }) {
            self.database.write().take();
        } else if let Err(error) = self.reopen() {
            tracing::warn!(%error, "a store could not be opened again beside a full disk");
        }
    }

    fn closed(&self) -> StoreError {
        let reason = "it has to be opened again after an error".to_owned();
        StoreError::Io { action: "read", path: self.path.clone(), reason }
    }

    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
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

impl OrderedStore for TreeStore {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.read(|transaction| {
            let found = transaction.open_table(table_of(space))?.get(key)?;
            Ok(found.map(|value| Bytes::copy_from_slice(value.value())))
        })
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
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

    fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        self.reopen_if_closed()?;
        self.check_room(batch)?;
        self.commit(batch).inspect_err(|error| self.give_up(error))
    }

    fn is_durable_when_applied(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn key_bytes_max(&self) -> usize {
        KEY_BYTES_MAX
    }

    fn figures(&self) -> Figures {
        let file = self.disk.open(self.of_file.name, false);
        let disk_bytes = file.and_then(|file| file.size_bytes()).unwrap_or_default();
        Figures { disk_bytes, file_count: 1, ..Figures::default() }
    }
}

/// A read of the file that has failed in a read transaction.
struct FailedRead(io::Error);

thread_local! {
    /// Whether this thread is in a read transaction.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// A read transaction of this thread.
struct Reading {
    was_reading: bool,
}

impl Reading {
    fn begin() -> Self {
        Self { was_reading: IS_READING.replace(true) }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        IS_READING.set(self.was_reading);
    }
}

/// One file of a [`Disk`] as `redb` wants it.
struct Backend {
    file: Arc<dyn DiskFile>,
}

impl fmt::Debug for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Backend")
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.size_bytes().map_err(io::Error::other)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = match self.file.read_at(out, offset) {
            Ok(count) if count == out.len() => Ok(()),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(io::Error::other(error)),
        };
        match read {
            // `redb` would not read anything more.
            Err(error) if IS_READING.get() => resume_unwind(Box::new(FailedRead(error))),
            read => read,
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len).map_err(io::Error::other)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync().map_err(io::Error::other)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_at(data, offset).map_err(io::Error::other)
    }
}
