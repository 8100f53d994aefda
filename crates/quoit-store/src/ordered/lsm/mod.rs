//! Log-structured merge trees: `fjall`, with one keyspace for each space.
//!
//! `fjall` has three properties that this module works around:
//!
//! - It blocks the writing thread when its background work falls behind, forever if that work has died. And
//!   after a disk error it accepts no more writes until it is opened again. So before each batch this
//!   module checks `fjall`'s counters and the free space on the disk, and never asks for more than `fjall`
//!   can do. If another program fills the disk, the store is opened again when there is space.
//! - It looks for tables to merge only a few times after each flush. If that was not enough, it would stay
//!   behind forever once writes are refused for that reason. Then this module merges tables itself.
//! - It frees memtables and tables while it holds a lock that requests need; see `retired`.

mod opened;

use super::backend::{OrderedStore, Space, StoreStatistics, VisitFn};
use super::files;
use super::open::StoreOpening;
use super::overlay::PendingWrites;
use crate::error::StoreError;
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use fjall::compaction::Leveled;
use fjall::{AbstractTree, Error, Keyspace, SeqNo};
use opened::{KeyspaceSettings, OpenedKeyspaces};
use parking_lot::Mutex;
use quoit_seam::third_party;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Minimum of free space in bytes at which a store that was full is opened again.
const REOPEN_ROOM_BYTES: u64 = 32 << 20;

/// Pause between two checks if all reads have left a store that has to be closed.
const READS_PAUSE: Duration = Duration::from_millis(1);

/// A sequence number that makes a merge keep all old versions. Running scans may still read them, and only
/// `fjall` knows these scans. The next merge of the tables by `fjall` removes them.
const KEEP_ALL: SeqNo = 0;

/// Pause between two releases while the store changes, in microseconds.
const RELEASE_PAUSE_US: u64 = 20_000;

/// Pause between two releases while the store does not change, in microseconds.
const RELEASE_IDLE_PAUSE_US: u64 = 500_000;

/// Maximum size of a key in bytes: `fjall` stores the size in 16 bits.
const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Settings of the engines on log-structured merge trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LsmSettings {
    /// Size of the cache of blocks in bytes.
    pub cache_bytes: u64,
    /// Size in bytes at which a memtable is written to a table, for each of three or four trees. Up to
    /// three more memtables of that size may wait in memory.
    pub write_buffer_bytes: u64,
    /// Approximate size of a block in bytes, from 1 KiB to 1 MiB.
    pub block_bytes: u32,
    /// True if tables and large values are compressed.
    pub compression: bool,
    /// Minimum of free space on the disk in bytes. Writes that would leave less are refused, because
    /// memtables still need space.
    pub disk_free_bytes_min: u64,
}

impl Default for LsmSettings {
    fn default() -> Self {
        Self {
            cache_bytes: 192 << 20,
            write_buffer_bytes: 32 << 20,
            block_bytes: 4 << 10,
            compression: true,
            disk_free_bytes_min: 256 << 20,
        }
    }
}

/// Returns the free space on the disk in bytes; `None` if it is unknown.
pub(super) type DiskSpace = dyn Fn() -> Option<u64> + Send + Sync;

pub(super) struct LsmStore {
    /// `None` while the store is opened again, and after that has failed.
    opened: ArcSwapOption<OpenedKeyspaces>,
    /// Held while the store is opened again.
    reopening: Mutex<()>,
    /// True after the disk was full: `fjall` accepts no more writes until it is opened again.
    is_stuck: AtomicBool,
    /// True if there was little free space since the last write for which there was enough.
    had_little_room: AtomicBool,
    /// True if `fjall` accepts no more writes for another reason: a write has failed, or a merge has found
    /// damage.
    is_broken: AtomicBool,
    /// Result of the search for damage that may have caused a failure.
    damage: OnceLock<Option<StoreError>>,
    place: KeyspaceSettings,
    disk_space: Box<DiskSpace>,
}

impl LsmStore {
    pub(super) fn open(
        path: &Path,
        settings: &LsmSettings,
        bodies_apart: bool,
        disk_space: Box<DiskSpace>,
        opening: &mut StoreOpening<'_>,
    ) -> Result<Self, StoreError> {
        let (path, store_id) = (path.to_owned(), opening.store_id());
        let place = KeyspaceSettings { path, settings: *settings, bodies_apart, store_id };
        let clean = opening.clean;
        let opened = OpenedKeyspaces::open(&place, clean, &mut |reason| opening.note_loss(reason))?;
        let opened = ArcSwapOption::from_pointee(opened);
        Ok(Self {
            opened,
            reopening: Mutex::default(),
            is_stuck: AtomicBool::new(false),
            had_little_room: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            damage: OnceLock::new(),
            place,
            disk_space,
        })
    }

    /// Calls a function with the opened store. Waits while it is opened again. Costs no write to memory
    /// that threads share.
    fn with<T>(
        &self,
        run: impl FnOnce(&OpenedKeyspaces) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut opened = self.opened.load();
        if opened.is_none() {
            drop(self.reopening.lock());
            opened = self.opened.load();
        }
        let closed = || StoreError::Io {
            action: "read",
            path: self.place.path.display().to_string(),
            reason: "it was closed when the disk was full, and could not be opened again"
                .to_owned(),
        };
        run(opened.as_ref().ok_or_else(closed)?)
    }

    /// Fails if there is not enough free space. Returns true if there is little.
    fn check_disk_space(&self, size_bytes: u64) -> Result<bool, StoreError> {
        let wanted_bytes = size_bytes + self.place.settings.disk_free_bytes_min;
        let available_bytes = (self.disk_space)().unwrap_or(u64::MAX);
        let is_little = available_bytes < wanted_bytes.saturating_add(REOPEN_ROOM_BYTES);
        if is_little {
            self.had_little_room.store(true, Ordering::Release);
        }
        if available_bytes < wanted_bytes { Err(self.full(size_bytes)) } else { Ok(is_little) }
    }

    fn lacks_disk_space(&self, size_bytes: u64) -> bool {
        (self.disk_space)().is_some_and(|available_bytes| available_bytes < size_bytes)
    }

    fn full(&self, size_bytes: u64) -> StoreError {
        StoreError::DiskFull { path: self.place.path.display().to_string(), size_bytes }
    }

    /// Opens a store again that has run out of space, if there is space now.
    fn reopen_if_stuck(&self) -> Result<(), StoreError> {
        if !self.is_stuck.load(Ordering::Acquire) {
            return Ok(());
        }
        let available_bytes = self.place.settings.disk_free_bytes_min.max(REOPEN_ROOM_BYTES);
        if self.lacks_disk_space(available_bytes) {
            return Err(self.full(available_bytes));
        }
        let _reopening = self.reopening.lock();
        // The journals have all committed writes. Reads wait until the store is open again.
        let mut closing = self.opened.swap(None);
        while let Some(shared) = closing {
            // The last holder closes the store, which cannot be opened before.
            closing = match Arc::try_unwrap(shared) {
                Ok(last) => {
                    drop(last);
                    None
                }
                Err(shared) => {
                    std::thread::sleep(READS_PAUSE);
                    Some(shared)
                }
            };
        }
        let mut refuse = |reason| {
            let path = self.place.path.display().to_string();
            Err(StoreError::SyncFailed { path, reason })
        };
        let opened = OpenedKeyspaces::open(&self.place, false, &mut refuse)?;
        self.opened.store(Some(Arc::new(opened)));
        self.is_stuck.store(false, Ordering::Release);
        tracing::info!(path = %self.place.path.display(), "there is room again, and writes go on");
        Ok(())
    }

    /// The error of a failed write. A full disk is temporary; after any other error the store accepts no
    /// more writes.
    fn failed_write(&self, error: StoreError) -> StoreError {
        let is_full = match &error {
            StoreError::DiskFull { .. } => true,
            // `fjall` does not say what had failed before. One of its own threads may have met the full
            // disk.
            StoreError::SyncFailed { .. } => {
                self.had_little_room.load(Ordering::Acquire)
                    || self.lacks_disk_space(REOPEN_ROOM_BYTES)
            }
            _ => false,
        };
        if is_full {
            self.is_stuck.store(true, Ordering::Release);
            return self.full(0);
        }
        self.is_broken.store(true, Ordering::Release);
        broken(&self.place.path, error)
    }
}

impl OrderedStore for LsmStore {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        // `fjall` panics over keys that are too long to exist.
        if key.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        self.with(|opened| {
            let found = guarded("read", &self.place.path, || opened.keyspace(space).get(key));
            Ok(found?.map(Bytes::from))
        })
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut VisitFn<'_>) -> Result<(), StoreError> {
        // A prefix of `from` is not above any key that is not below `from`.
        let front = from.get(..KEY_BYTES_MAX).unwrap_or(from);
        let mut scan = |opened: &OpenedKeyspaces| {
            for entry in opened.keyspace(space).range(front..) {
                let (key, value) = entry.into_inner()?;
                if &key[..] < from {
                    continue;
                }
                if visit(&key, &value).is_break() {
                    break;
                }
            }
            Ok(())
        };
        self.with(|opened| guarded("read", &self.place.path, || scan(opened)))
    }

    fn apply(&self, batch: &PendingWrites) -> Result<(), StoreError> {
        // A store without space also falls behind, so this check comes first and gives the right reason.
        let is_little = self.check_disk_space(batch.bytes())?;
        self.reopen_if_stuck()?;
        self.with(|opened| {
            opened.check_pace()?;
            opened.commit(&self.place.path, batch).map_err(|error| self.failed_write(error))
        })?;
        self.had_little_room.fetch_and(is_little, Ordering::AcqRel);
        Ok(())
    }

    fn is_durable_when_applied(&self) -> bool {
        false
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.reopen_if_stuck()?;
        let synced = self.with(|opened| opened.sync(&self.place.path));
        synced.map_err(|error| match error {
            // An earlier failure had poisoned `fjall`, and the sync was not tried.
            StoreError::SyncFailed { .. } => self.failed_write(error),
            error => broken(&self.place.path, error),
        })
    }

    fn lags(&self) -> bool {
        self.opened.load().as_ref().is_some_and(|opened| opened.lagging().is_some())
    }

    fn catch_up(&self) -> Result<bool, StoreError> {
        let opened = self.opened.load();
        let keyspace = opened.as_ref().and_then(|opened| opened.lagging());
        let Some(keyspace) = keyspace else { return Ok(false) };
        self.check_disk_space(0)?;
        guarded("merge tables of", &self.place.path, || {
            Ok(keyspace.tree.compact(Arc::new(Leveled::default()), KEEP_ALL)?)
        })?;
        Ok(true)
    }

    fn release(&self) -> Option<u64> {
        let opened = self.opened.load();
        let Some(opened) = &*opened else { return Some(RELEASE_IDLE_PAUSE_US) };
        let mut retired = opened.retired.lock();
        let mut is_at_work =
            opened.database.active_compactions() > 0 || opened.database.outstanding_flushes() > 0;
        for (of_keyspace, keyspace) in retired.iter_mut().zip(&opened.keyspaces) {
            is_at_work |= of_keyspace.look(keyspace);
        }
        Some(if is_at_work { RELEASE_PAUSE_US } else { RELEASE_IDLE_PAUSE_US })
    }

    /// Repairs nothing, but after a failure of writes searches the damaged file, once: `fjall` does not say
    /// which file a merge could not read.
    fn repair(&self) -> Result<bool, StoreError> {
        if self.is_broken.load(Ordering::Acquire) {
            self.damage.get_or_init(|| files::diagnose(&self.place.path));
        }
        Ok(false)
    }

    fn known_damage(&self) -> Option<StoreError> {
        self.damage.get().cloned().flatten()
    }

    fn diagnosed(&self, error: StoreError) -> StoreError {
        diagnosed(&self.place.path, error)
    }

    fn key_bytes_max(&self) -> usize {
        KEY_BYTES_MAX
    }

    fn figures(&self) -> StoreStatistics {
        let opened = self.opened.load();
        let Some(opened) = &*opened else { return StoreStatistics::default() };
        let of_all =
            |figure: fn(&Keyspace) -> u64| opened.keyspaces.iter().map(figure).sum::<u64>();
        StoreStatistics {
            disk_bytes: opened.database.disk_space().unwrap_or_default(),
            dead_bytes: of_all(Keyspace::fragmented_blob_bytes),
            file_count: of_all(|keyspace| {
                (keyspace.table_count() + keyspace.blob_file_count()) as u64
            }),
            merge_count: opened.database.compactions_completed() as u64,
        }
    }
}

/// Calls `fjall`. It panics over some damage; it holds no lock then that others need for reading.
fn guarded<T>(
    action: &'static str,
    path: &Path,
    run: impl FnOnce() -> Result<T, Error>,
) -> Result<T, StoreError> {
    match third_party::catch(run) {
        Ok(done) => done.map_err(|error| store_error(action, path, &error)),
        Err(thrown) => Err(StoreError::Corrupt {
            path: path.display().to_string(),
            offset: 0,
            reason: format!(
                "the tables contradict each other ({})",
                third_party::panic_message(&thrown)
            ),
        }),
    }
}

/// Adds the damaged file to an error, if one is found.
fn diagnosed(path: &Path, error: StoreError) -> StoreError {
    match error {
        // A merge of damaged tables fails, and all later writes with it.
        StoreError::Corrupt { .. } | StoreError::SyncFailed { .. } => {
            files::diagnose(path).unwrap_or(error)
        }
        error => error,
    }
}

/// The error for a failed write, after which the store accepts no more.
fn broken(path: &Path, error: StoreError) -> StoreError {
    let reason = match error {
        StoreError::Io { reason, .. }
        | StoreError::Corrupt { reason, .. }
        | StoreError::SyncFailed { reason, .. } => reason,
        error => error.to_string(),
    };
    StoreError::SyncFailed { path: path.display().to_string(), reason }
}

fn store_error(action: &'static str, path: &Path, error: &Error) -> StoreError {
    let path = path.display().to_string();
    let reason = reason_of(error);
    match error {
        Error::Locked => StoreError::Locked { path },
        Error::Poisoned => StoreError::SyncFailed { path, reason },
        Error::Io(error) | Error::Storage(fjall::LsmError::Io(error)) => match error.kind() {
            ErrorKind::StorageFull => StoreError::DiskFull { path, size_bytes: 0 },
            // `fjall` has read nonsense, so a file is damaged.
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput => {
                StoreError::Corrupt { path, offset: 0, reason }
            }
            _ => StoreError::Io { action, path, reason },
        },
        _ => StoreError::Corrupt { path, offset: 0, reason },
    }
}

fn reason_of(error: &Error) -> String {
    match error {
        Error::Io(error) | Error::Storage(fjall::LsmError::Io(error)) => error.to_string(),
        Error::Storage(error) => format!("the tables are damaged ({error:?})"),
        Error::Poisoned => "a write has failed before".to_owned(),
        error => format!("the files are damaged ({error:?})"),
    }
}
