//! An open `fjall` store: the database, a keyspace for each space, and the numbers of its batches.

use super::{LsmSettings, diagnosed, guarded, store_error};
use crate::error::StoreError;
use crate::ordered::backend::Space;
use crate::ordered::files;
use crate::ordered::interrupted_creation;
use crate::ordered::journal::{self, Mark, SyncedFile};
use crate::ordered::keys::GROUP_KEY;
use crate::ordered::overlay::PendingWrites;
use crate::ordered::retired::RetiredParts;
use fjall::config::{BlockSizePolicy, CompressionPolicy, RestartIntervalPolicy};
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode,
};
use parking_lot::Mutex;
use quoit_model::store_opening::StoreId;
use std::path::{Path, PathBuf};

/// Number of sealed memtables of a keyspace from which on no batch is written: `fjall` blocks at four.
const SEALED_COUNT_MAX: usize = 3;

/// Number of level-0 tables of a keyspace from which on no batch is written: `fjall` slows down at twenty.
const LEVEL0_TABLE_COUNT_MAX: usize = 19;

/// Number of level-0 tables of a keyspace from which on this module merges them, if `fjall` does not.
/// `fjall` begins at four.
const OWN_MERGE_TABLE_COUNT: usize = 12;

/// Minimum size in bytes of values that are stored apart from the tree, in the keyspace of bodies.
const SEPARATED_BYTES_MIN: u32 = 1_024;

/// Number of threads that flush and compact. The first thread only flushes: it passes a request for a
/// compaction on, again and again, using a whole processor while no other thread is free. With two other
/// threads that is rare: one runs a long compaction, and the other takes further requests.
const WORKER_COUNT: usize = 3;

/// One of this many entries of a block is stored in full. Heads are small, and each write looks one up:
/// more full entries make searching a block faster, and take a tenth more space.
const HEADS_RESTART_INTERVAL: u8 = 4;

/// Facts for opening a store, and opening it again.
pub(super) struct KeyspaceSettings {
    pub(super) path: PathBuf,
    pub(super) settings: LsmSettings,
    /// True if bodies are stored apart from heads.
    pub(super) bodies_apart: bool,
    pub(super) store_id: StoreId,
}

pub(super) struct OpenedKeyspaces {
    pub(super) database: Database,
    pub(super) keyspaces: [Keyspace; Space::ALL.len()],
    /// One for each keyspace.
    pub(super) retired: Mutex<[RetiredParts; Space::ALL.len()]>,
    groups: Mutex<BatchGroups>,
    synced_file: SyncedFile,
    store_id: StoreId,
}

/// Numbers of batches. See [`journal`].
struct BatchGroups {
    /// The first group that the next batch stands for.
    first: u64,
    /// The group of the next batch.
    next: u64,
    synced: u64,
}

/// Notes a loss of durable writes, before the evidence disappears.
pub(super) type NoteLoss<'n> = dyn FnMut(String) -> Result<(), StoreError> + 'n;

impl OpenedKeyspaces {
    /// Opens or creates the store in a directory. `clean` is true if the last stop was clean.
    #[expect(clippy::indexing_slicing, reason = "there is one for each space")]
    pub(super) fn open(
        place: &KeyspaceSettings,
        clean: bool,
        note_loss: &mut NoteLoss<'_>,
    ) -> Result<Self, StoreError> {
        let KeyspaceSettings { path, settings, bodies_apart, store_id } = place;
        let (path, store_id): (&Path, StoreId) = (path, *store_id);
        let failed = |error| store_error("open", path, &error);
        interrupted_creation::clear(path)?;
        let journals = journal::check(path, clean, store_id)?;
        let loss = journals.loss();
        let is_known = loss.is_some();
        loss.map_or(Ok(()), &mut *note_loss)?;
        journals.repair()?;
        // One more keyspace, which is `fjall`'s own.
        files::check(path, journals.last_group().is_some(), Space::ALL.len() + 1)?;
        let builder =
            Database::builder(path).cache_size(settings.cache_bytes).worker_threads(WORKER_COUNT);
        let database = guarded("open", path, || builder.open());
        let database = database.map_err(|error| diagnosed(path, error))?;
        let mut keyspaces = Vec::new();
        for space in Space::ALL {
            let options = || match (*bodies_apart, space) {
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
        let keyspaces: [Keyspace; Space::ALL.len()] = keyspaces;
        let stored = keyspaces[Space::Side as usize].get(GROUP_KEY).map_err(failed)?;
        let stored = stored.and_then(|stored| Mark::read(&stored, store_id));
        let stored = stored.map_or(0, |mark| mark.group);
        if stored < journals.synced() && !is_known {
            let synced = journals.synced();
            note_loss(format!(
                "a journal is missing: batch {synced} of writes was durable, and the last one that is there \
                 is {stored}"
            ))?;
        }
        let last = journals.last_group().unwrap_or(0).max(stored).max(journals.synced());
        // Opening synced all existing batches.
        let first = journals.last_group().unwrap_or(last) + 1;
        let groups = Mutex::new(BatchGroups { first, next: last + 1, synced: last });
        let synced_file = SyncedFile::open(path, store_id)
            .map_err(|error| store_error("open", path, &error.into()))?;
        let retired = Mutex::default();
        Ok(Self { database, keyspaces, retired, groups, synced_file, store_id })
    }

    #[expect(clippy::indexing_slicing, reason = "there is one for each space")]
    pub(super) fn keyspace(&self, space: Space) -> &Keyspace {
        &self.keyspaces[space as usize]
    }

    /// Fails if `fjall` would block.
    pub(super) fn check_pace(&self) -> Result<(), StoreError> {
        let is_behind = |keyspace: &Keyspace| {
            keyspace.sealed_memtable_count() >= SEALED_COUNT_MAX
                || keyspace.l0_table_count() >= LEVEL0_TABLE_COUNT_MAX
        };
        if self.keyspaces.iter().any(is_behind) { Err(StoreError::Overloaded) } else { Ok(()) }
    }

    /// Commits the writes of a batch.
    pub(super) fn commit(&self, path: &Path, batch: &PendingWrites) -> Result<(), StoreError> {
        let mut writes = self.database.batch().durability(Some(PersistMode::Buffer));
        let mut groups = self.groups.lock();
        let &mut BatchGroups { first, next: group, synced } = &mut *groups;
        let mark = Mark { first, group, synced, sequence_min: self.database.seqno() };
        assert!(mark.is_sound(), "a start reads the mark of each batch");
        writes.insert(self.keyspace(Space::Side), *GROUP_KEY, mark.encode(self.store_id));
        for (space, key, value) in batch.writes() {
            match value {
                Some(value) => writes.insert(self.keyspace(space), key.clone(), value.clone()),
                None => writes.remove(self.keyspace(space), key.clone()),
            }
        }
        guarded("write", path, || writes.commit())?;
        (groups.first, groups.next) = (group + 1, group + 1);
        Ok(())
    }

    /// Makes all committed writes durable.
    pub(super) fn sync(&self, path: &Path) -> Result<(), StoreError> {
        let last = self.groups.lock().next - 1;
        guarded("sync", path, || self.database.persist(PersistMode::SyncData))?;
        let before = std::mem::replace(&mut self.groups.lock().synced, last);
        debug_assert!(before <= last, "groups that were durable stay so");
        // Without the note, an unclean stop leaves less knowledge of what was durable.
        if let Err(error) = self.synced_file.write(last) {
            tracing::debug!(%error, "the number of the last synced batch could not be written");
        }
        Ok(())
    }

    /// A keyspace with tables to merge that no thread of `fjall` works on.
    pub(super) fn lagging(&self) -> Option<&Keyspace> {
        if self.database.active_compactions() > 0 || self.database.outstanding_flushes() > 0 {
            return None;
        }
        self.keyspaces.iter().find(|keyspace| keyspace.l0_table_count() >= OWN_MERGE_TABLE_COUNT)
    }
}

const fn compression(settings: &LsmSettings) -> CompressionType {
    if settings.compression { CompressionType::Lz4 } else { CompressionType::None }
}

fn options_of(settings: &LsmSettings) -> KeyspaceCreateOptions {
    // Young tables are soon rewritten, so only older ones are compressed.
    let policy = [CompressionType::None, CompressionType::None, compression(settings)];
    KeyspaceCreateOptions::default()
        .max_memtable_size(settings.write_buffer_bytes)
        .data_block_size_policy(BlockSizePolicy::all(settings.block_bytes))
        .data_block_compression_policy(CompressionPolicy::new(policy))
}

/// Options for storing large values apart.
fn separation(settings: &LsmSettings) -> Option<KvSeparationOptions> {
    let options = KvSeparationOptions::default()
        .separation_threshold(SEPARATED_BYTES_MIN)
        .compression(compression(settings));
    Some(options)
}
