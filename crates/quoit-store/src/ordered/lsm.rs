//! Log-structured merge trees: `fjall`, one keyspace for each space.
//!
//! `fjall` sleeps in the thread that writes when its own work falls behind, for ever when that work has
//! died, and after an error of the disk it takes no more writes until it is opened again. So its counters are
//! looked at before each batch, and so is the room on the disk: it is never asked for more than it can do.
//!
//! `fjall` looks for tables to merge a few times after each flush, and at no other time. Where that was not
//! enough it would stay behind for ever once writes are refused for that: then tables are merged from here.

use super::backend::{Figures, OrderedStore, Space, Visit};
use super::half_made;
use super::overlay::Batch;
use super::retired::Retired;
use crate::error::StoreError;
use bytes::Bytes;
use fjall::compaction::Leveled;
use fjall::config::{BlockSizePolicy, CompressionPolicy, RestartIntervalPolicy};
use fjall::{
    AbstractTree, CompressionType, Database, Error, Keyspace, KeyspaceCreateOptions,
    KvSeparationOptions, PersistMode, SeqNo,
};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sealed memtables of a keyspace from which on no batch is written: `fjall` sleeps at four.
const SEALED_COUNT_MAX: usize = 3;

/// Young tables of a keyspace from which on no batch is written: `fjall` slows down at twenty.
const YOUNG_TABLE_COUNT_MAX: usize = 19;

/// Young tables of a keyspace from which on they are merged from here, if `fjall` does not. It begins at
/// four.
const LAGGING_TABLE_COUNT: usize = 12;

/// Nothing that was written again goes: scans that go on may still read what was there before, and only
/// `fjall` knows of them. It goes with the next merge of these tables.
const KEEP_ALL: SeqNo = 0;

/// Pause between two looks at what is done with while there is such.
const RELEASE_PAUSE_US: u64 = 20_000;

/// The same while nothing changes: it takes longer until something is done with.
const RELEASE_IDLE_PAUSE_US: u64 = 500_000;

/// Keys are stored with a length of 16 bits.
const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Values of this size and more are kept apart from the tree, where bodies are.
const SEPARATED_BYTES_MIN: u32 = 1_024;

/// How many threads flush and compact. The first one only flushes: asked for a compaction it passes it on,
/// and does so again and again, a processor's worth, while no other thread is free to take it. With two
/// others that is seldom: one has a long compaction, the other takes what else is asked for.
const WORKER_COUNT: usize = 3;

/// Of so many entries of a block one is written in full. Heads are small, and looked up by each write: blocks
/// with more of them are found through faster, and take a tenth more room.
const HEADS_RESTART_INTERVAL: u8 = 4;

/// What an operator can choose.
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
pub(super) type Room = dyn Fn() -> Option<u64> + Send + Sync;

pub(super) struct LsmStore {
    /// For each keyspace.
    retired: Mutex<[Retired; Space::ALL.len()]>,
    database: Database,
    keyspaces: [Keyspace; Space::ALL.len()],
    path: PathBuf,
    room: Box<Room>,
    room_bytes_min: u64,
}

impl LsmStore {
    pub(super) fn open(
        path: &Path,
        settings: &LsmSettings,
        bodies_apart: bool,
        room: Box<Room>,
    ) -> Result<Self, StoreError> {
        let failed = |error| store_error("open", path, &error);
        half_made::clear(path)?;
        let database = Database::builder(path)
            .cache_size(settings.cache_bytes)
            .worker_threads(WORKER_COUNT)
            .open()
            .map_err(failed)?;
        let mut keyspaces = Vec::new();
        for space in Space::ALL {
            let options = || match (bodies_apart, space) {
                (true, Space::Bodies) => {
                    options_of(settings).with_kv_separation(separation(settings))
                }
                (true, Space::Records) => {
                    let policy = RestartIntervalPolicy::all(HEADS_RESTART_INTERVAL);
                    options_of(settings).data_block_restart_interval_policy(policy)
                }
                _ => options_of(settings),
            };
            keyspaces.push(database.keyspace(space.name(), options).map_err(failed)?);
        }
        let keyspaces = keyspaces.try_into().map_err(|_| ()).expect("one for each space");
        let room_bytes_min = settings.room_bytes_min;
        let (retired, path) = (Mutex::default(), path.to_owned());
        Ok(Self { retired, database, keyspaces, path, room, room_bytes_min })
    }

    fn keyspace(&self, space: Space) -> &Keyspace {
        &self.keyspaces[space as usize]
    }

    /// Refuses what `fjall` would sleep over.
    fn check_pace(&self) -> Result<(), StoreError> {
        let is_behind = |keyspace: &Keyspace| {
            keyspace.sealed_memtable_count() >= SEALED_COUNT_MAX
                || keyspace.l0_table_count() >= YOUNG_TABLE_COUNT_MAX
        };
        if self.keyspaces.iter().any(is_behind) { Err(StoreError::Overloaded) } else { Ok(()) }
    }

    fn check_room(&self, size_bytes: u64) -> Result<(), StoreError> {
        match (self.room)() {
            Some(room_bytes) if room_bytes < size_bytes + self.room_bytes_min => {
                let path = self.path.display().to_string();
                Err(StoreError::DiskFull { path, size_bytes })
            }
            _ => Ok(()),
        }
    }

    /// A keyspace with tables to merge that no thread of `fjall` is at.
    fn lagging(&self) -> Option<&Keyspace> {
        if self.database.active_compactions() > 0 || self.database.outstanding_flushes() > 0 {
            return None;
        }
        self.keyspaces.iter().find(|keyspace| keyspace.l0_table_count() >= LAGGING_TABLE_COUNT)
    }
}

const fn compression(settings: &LsmSettings) -> CompressionType {
    if settings.compression { CompressionType::Lz4 } else { CompressionType::None }
}

fn options_of(settings: &LsmSettings) -> KeyspaceCreateOptions {
    // What is young is soon written again: only tables that stay are compressed.
    let policy = [CompressionType::None, CompressionType::None, compression(settings)];
    KeyspaceCreateOptions::default()
        .max_memtable_size(settings.write_buffer_bytes)
        .data_block_size_policy(BlockSizePolicy::all(settings.block_bytes))
        .data_block_compression_policy(CompressionPolicy::new(policy))
}

/// How large values are kept apart.
fn separation(settings: &LsmSettings) -> Option<KvSeparationOptions> {
    let options = KvSeparationOptions::default()
        .separation_threshold(SEPARATED_BYTES_MIN)
        .compression(compression(settings));
    Some(options)
}

impl OrderedStore for LsmStore {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        // `fjall` panics over keys that can't be there.
        if key.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        let found = self.keyspace(space).get(key);
        Ok(found.map_err(|error| store_error("read", &self.path, &error))?.map(Bytes::from))
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        // A key below a longer one is not above its front.
        let front = &from[..from.len().min(KEY_BYTES_MAX)];
        for entry in self.keyspace(space).range(front..) {
            let (key, value) =
                entry.into_inner().map_err(|error| store_error("read", &self.path, &error))?;
            if &key[..] < from {
                continue;
            }
            if visit(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        self.check_pace()?;
        self.check_room(batch.bytes())?;
        let mut writes = self.database.batch().durability(Some(PersistMode::Buffer));
        for (space, key, value) in batch.writes() {
            match value {
                Some(value) => writes.insert(self.keyspace(space), key.clone(), value.clone()),
                None => writes.remove(self.keyspace(space), key.clone()),
            }
        }
        writes.commit().map_err(|error| broken(&self.path, &error))
    }

    fn is_durable_when_applied(&self) -> bool {
        false
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.database.persist(PersistMode::SyncData).map_err(|error| broken(&self.path, &error))
    }

    fn lags(&self) -> bool {
        self.lagging().is_some()
    }

    fn catch_up(&self) -> Result<bool, StoreError> {
        let Some(keyspace) = self.lagging() else { return Ok(false) };
        self.check_room(0)?;
        let merged = keyspace.tree.compact(Arc::new(Leveled::default()), KEEP_ALL);
        merged.map_err(|error| store_error("merge tables of", &self.path, &error.into()))?;
        Ok(true)
    }

    fn release(&self) -> Option<u64> {
        let mut retired = self.retired.lock();
        let mut is_at_work =
            self.database.active_compactions() > 0 || self.database.outstanding_flushes() > 0;
        for (of_keyspace, keyspace) in retired.iter_mut().zip(&self.keyspaces) {
            is_at_work |= of_keyspace.look(keyspace);
        }
        Some(if is_at_work { RELEASE_PAUSE_US } else { RELEASE_IDLE_PAUSE_US })
    }

    fn key_bytes_max(&self) -> usize {
        KEY_BYTES_MAX
    }

    fn figures(&self) -> Figures {
        let of_all = |figure: fn(&Keyspace) -> u64| self.keyspaces.iter().map(figure).sum::<u64>();
        Figures {
            disk_bytes: self.database.disk_space().unwrap_or_default(),
            dead_bytes: of_all(Keyspace::fragmented_blob_bytes),
            file_count: of_all(|keyspace| {
                (keyspace.table_count() + keyspace.blob_file_count()) as u64
            }),
            merge_count: self.database.compactions_completed() as u64,
        }
    }
}

/// A failed write: the store takes no more of them.
fn broken(path: &Path, error: &Error) -> StoreError {
    StoreError::SyncFailed { path: path.display().to_string(), reason: reason_of(error) }
}

fn store_error(action: &'static str, path: &Path, error: &Error) -> StoreError {
    let path = path.display().to_string();
    let reason = reason_of(error);
    match error {
        Error::Locked => StoreError::Locked { path },
        Error::Io(error) | Error::Storage(fjall::LsmError::Io(error)) => match error.kind() {
            std::io::ErrorKind::StorageFull => StoreError::DiskFull { path, size_bytes: 0 },
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
