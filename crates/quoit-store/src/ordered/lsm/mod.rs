//! Log-structured merge trees: `fjall`, one keyspace for each space.
//!
//! `fjall` sleeps in the thread that writes when its own work falls behind, for ever when that work has
//! died, and after an error of the disk it takes no more writes until it is opened again. So its counters are
//! looked at before each batch, and so is the room on the disk: it is never asked for more than it can do.
//! Where something else has filled the disk even so, it is opened again when there is room.
//!
//! `fjall` looks for tables to merge a few times after each flush, and at no other time. Where that was not
//! enough it would stay behind for ever once writes are refused for that: then tables are merged from here.

mod opened;

use super::backend::{Figures, OrderedStore, Space, Visit};
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
use quoit_seam::rented;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A store that was full is not opened again with less room than this, in bytes.
const REOPEN_ROOM_BYTES: u64 = 32 << 20;

/// Pause between two looks whether reads are through that a store was opened for which is to be closed.
const READS_PAUSE: Duration = Duration::from_millis(1);

/// Nothing that was written again goes: scans that go on may still read what was there before, and only
/// `fjall` knows of them. It goes with the next merge of these tables.
const KEEP_ALL: SeqNo = 0;

/// Pause between two looks at what is done with while there is such.
const RELEASE_PAUSE_US: u64 = 20_000;

/// The same while nothing changes: it takes longer until something is done with.
const RELEASE_IDLE_PAUSE_US: u64 = 500_000;

/// Keys are stored with a length of 16 bits.
const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Settings of the engines on log-structured merge trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LsmSettings {
    /// Memory for blocks that were read, in bytes.
    pub cache_bytes: u64,
    /// Size at which what was written lately is moved from memory to a table, in bytes; for each of three or
    /// four trees. Up to three more of the size may wait in memory.
    pub write_buffer_bytes: u64,
    /// Blocks are about so large, in bytes, from 1 KiB to 1 MiB.
    pub block_bytes: u32,
    /// Whether tables and large values are compressed.
    pub compression: bool,
    /// Writes are refused while the disk has less room than this, in bytes: what is in memory must find its
    /// place.
    pub room_bytes_min: u64,
}

impl Default for LsmSettings {
    fn default() -> Self {
        Self {
            cache_bytes: 192 << 20,
            write_buffer_bytes: 32 << 20,
            block_bytes: 4 << 10,
            compression: true,
            room_bytes_min: 256 << 20,
        }
    }
}

/// Says how many bytes the disk has room for; `None` when that can't be told.
pub(super) type DiskRoom = dyn Fn() -> Option<u64> + Send + Sync;

pub(super) struct LsmStore {
    /// `None` while it is opened again, and where that failed.
    opened: ArcSwapOption<OpenedKeyspaces>,
    /// Held while it is opened again.
    reopening: Mutex<()>,
    /// Whether it takes no more writes since the disk was full, until it is opened again.
    is_stuck: AtomicBool,
    /// Whether there was little room since the last write for which there was enough.
    had_little_room: AtomicBool,
    /// Whether it takes no more writes for another reason: one failed, or a merge has met damage.
    is_broken: AtomicBool,
    /// Result of the search for damage that may be the reason of a failure.
    damage: OnceLock<Option<StoreError>>,
    place: KeyspaceSettings,
    room: Box<DiskRoom>,
}

impl LsmStore {
    pub(super) fn open(
        path: &Path,
        settings: &LsmSettings,
        bodies_apart: bool,
        room: Box<DiskRoom>,
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
            room,
        })
    }

    /// Calls with the store as it is opened; waits while it is opened again. Costs no write to memory that
    /// threads share.
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

    /// Refuses what there is no room for. Whether there is little.
    fn check_room(&self, size_bytes: u64) -> Result<bool, StoreError> {
        let wanted_bytes = size_bytes + self.place.settings.room_bytes_min;
        let room_bytes = (self.room)().unwrap_or(u64::MAX);
        let is_little = room_bytes < wanted_bytes.saturating_add(REOPEN_ROOM_BYTES);
        if is_little {
            self.had_little_room.store(true, Ordering::Release);
        }
        if room_bytes < wanted_bytes { Err(self.full(size_bytes)) } else { Ok(is_little) }
    }

    fn lacks_room(&self, size_bytes: u64) -> bool {
        (self.room)().is_some_and(|room_bytes| room_bytes < size_bytes)
    }

    fn full(&self, size_bytes: u64) -> StoreError {
        StoreError::DiskFull { path: self.place.path.display().to_string(), size_bytes }
    }

    /// Opens the store again that the disk was too small for, if there is room.
    fn reopen_if_stuck(&self) -> Result<(), StoreError> {
        if !self.is_stuck.load(Ordering::Acquire) {
            return Ok(());
        }
        let room_bytes = self.place.settings.room_bytes_min.max(REOPEN_ROOM_BYTES);
        if self.lacks_room(room_bytes) {
            return Err(self.full(room_bytes));
        }
        let _reopening = self.reopening.lock();
        // The journals have all that was committed. Reads wait until it is open again.
        let mut closing = self.opened.swap(None);
        while let Some(shared) = closing {
            // Its last holder closes it, and can't be opened before.
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

    /// The error of a write that failed. Where the disk is full that passes; else the store takes no more
    /// writes.
    fn failed_write(&self, error: StoreError) -> StoreError {
        let is_full = match &error {
            StoreError::DiskFull { .. } => true,
            // What has failed before is not told: a thread of its own may have met the full disk.
            StoreError::SyncFailed { .. } => {
                self.had_little_room.load(Ordering::Acquire) || self.lacks_room(REOPEN_ROOM_BYTES)
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
        // `fjall` panics over keys that can't be there.
        if key.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        self.with(|opened| {
            let found = guarded("read", &self.place.path, || opened.keyspace(space).get(key));
            Ok(found?.map(Bytes::from))
        })
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        // A key below a longer one is not above its front.
        let front = &from[..from.len().min(KEY_BYTES_MAX)];
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
        // A store without room is behind as well, and that is why.
        let is_little = self.check_room(batch.bytes())?;
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
            // It was not tried.
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
        self.check_room(0)?;
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

    /// Nothing can be mended here. But where writes have ended, the file is looked for, once: `fjall` does
    /// not say which one a merge could not read.
    fn mend(&self) -> Result<bool, StoreError> {
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

    fn figures(&self) -> Figures {
        let opened = self.opened.load();
        let Some(opened) = &*opened else { return Figures::default() };
        let of_all =
            |figure: fn(&Keyspace) -> u64| opened.keyspaces.iter().map(figure).sum::<u64>();
        Figures {
            disk_bytes: opened.database.disk_space().unwrap_or_default(),
            dead_bytes: of_all(Keyspace::fragmented_blob_bytes),
            file_count: of_all(|keyspace| {
                (keyspace.table_count() + keyspace.blob_file_count()) as u64
            }),
            merge_count: opened.database.compactions_completed() as u64,
        }
    }
}

/// Calls `fjall`. It panics over some damage, and holds no lock then that others need for reading.
fn guarded<T>(
    action: &'static str,
    path: &Path,
    run: impl FnOnce() -> Result<T, Error>,
) -> Result<T, StoreError> {
    match rented::catch(run) {
        Ok(done) => done.map_err(|error| store_error(action, path, &error)),
        Err(thrown) => Err(StoreError::Corrupt {
            path: path.display().to_string(),
            offset: 0,
            reason: format!("the tables contradict each other ({})", rented::words_of(&thrown)),
        }),
    }
}

/// Names the file that is damaged, if one is.
fn diagnosed(path: &Path, error: StoreError) -> StoreError {
    match error {
        // Merges of damaged tables fail, and all writes after them.
        StoreError::Corrupt { .. } | StoreError::SyncFailed { .. } => {
            files::diagnose(path).unwrap_or(error)
        }
        error => error,
    }
}

/// A failed write: the store takes no more of them.
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
            // It has read what makes no sense.
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
