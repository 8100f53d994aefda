//! Salvage of the files of a `fjall` store, without `fjall`.
//!
//! `fjall` opens a whole store or no part of it. A salvage reads each table by itself ([`super::table`]),
//! and the intact batches of the journals, and finds the latest version of each key by its sequence number.
//! The file of a keyspace's version lists its current tables. If that file cannot be read, the salvage
//! takes all existing tables, which may include some that were merged and not yet removed.
//!
//! Bodies of `leveled` are searched at the keys of their heads, in the tables and in the blob files to which
//! these point. A head has the checksum of its body, so no other body is mistaken for it.
//!
//! ```text
//! blob    "BLOB", XXH3-128 of key and stored value 16, sequence 8, size of the key 2, of the value 4, of the
//!         stored value 4, key, stored value; numbers are little-endian
//! pointer offset, number of the blob file, size of the stored value, size of the value; each has 7 bits in
//!         a byte, the lowest first, and the highest bit of a byte is set if more bytes follow
//! ```

use super::journal::JournalRun;
use super::runs::{MergedRuns, Run};
use super::table::{SalvagedTable, TableEntry, TableEntryKind};
use super::{SalvageSink, Source, UnreadableRange};
use crate::error::StoreError;
use crate::ordered::backend::Space;
use crate::ordered::files;
use crate::ordered::journal::{self, JournalItem, Journals, Mark};
use crate::ordered::keys::GROUP_KEY;
use crate::ordered::tree::Take;
use crate::ordered::value::{HEAD_BYTES, ValueHead};
use bytes::Bytes;
use quoit_model::store_opening::StoreId;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3Default;

const BLOB_HEAD_BYTES: usize = 38;

/// Number of the keyspace with the names of the others, and the first byte of the keys of names in it.
const NAMES_KEYSPACE: u64 = 0;
const NAME_TAG: u8 = b'n';

/// Maximum size of a blob in bytes; values are smaller.
const BLOB_BYTES_MAX: u64 = 1 << 30;

/// The files of a store that no process has open.
pub(super) struct LsmSource {
    directory: PathBuf,
    store_id: StoreId,
    /// Directory and number of the keyspace of each space.
    keyspaces: [(PathBuf, u64); Space::ALL.len()],
    unread: Vec<UnreadableRange>,
    /// True if writes of the journals are known to be lost.
    lacks_writes: bool,
}

impl LsmSource {
    /// Reads the journals and the names of keyspaces. `store_id` and `clean` come from the file `STORE`, if
    /// it can be read.
    pub(super) fn open(
        directory: &Path,
        store_id: StoreId,
        clean: bool,
    ) -> Result<Self, StoreError> {
        let journals = journal::check(directory, clean, store_id)?;
        let folder = directory.join(files::KEYSPACES_NAME);
        let mut source = Self {
            directory: directory.to_owned(),
            store_id,
            // Keyspaces are created in this order.
            keyspaces: Space::ALL.map(|space| {
                let number = space as u64 + 1;
                (folder.join(number.to_string()), number)
            }),
            unread: Vec::new(),
            lacks_writes: false,
        };
        let names = source.names(&folder.join(NAMES_KEYSPACE.to_string()));
        for (space, (path, number)) in Space::ALL.iter().zip(&mut source.keyspaces) {
            if let Some(named) = names.get(space.name().as_bytes()) {
                (*path, *number) = (folder.join(named.to_string()), *named);
            }
        }
        if let Some(reason) = journals.loss() {
            source.lose_writes(reason);
        }
        source.check_last_group(&journals);
        Ok(source)
    }

    fn lose_writes(&mut self, reason: String) {
        let path = self.directory.display().to_string();
        self.unread.push(UnreadableRange { path, start: 0, end: 0, reason });
        self.lacks_writes = true;
    }

    /// The numbers of keyspaces, by their names.
    fn names(&self, keyspace: &Path) -> BTreeMap<Vec<u8>, u64> {
        let mut runs: MergedRuns = MergedRuns::new(self.tables(keyspace, &mut Vec::new()).0);
        let mut names = BTreeMap::new();
        while let Some(entry) = runs.next_latest() {
            if let Some((&NAME_TAG, number)) = entry.key.split_first()
                && let (Ok(number), TableEntryKind::Value) = (number.try_into(), entry.kind)
            {
                names.insert(entry.value.to_vec(), u64::from_be_bytes(number));
            }
        }
        names
    }

    /// Checks if journals are missing: if a later batch was durable than the last one that exists.
    fn check_last_group(&mut self, journals: &Journals) {
        let synced = journals.synced();
        let mut side = self.merged(Space::Side, &mut Vec::new(), false).0;
        let mut stored = journals.last_group().unwrap_or(0);
        while let Some(entry) = side.next_latest() {
            if entry.key[..] == GROUP_KEY[..] {
                let mark = Mark::read(&entry.value, self.store_id);
                stored = stored.max(mark.map_or(0, |mark| mark.group));
            }
        }
        if stored < synced {
            self.lose_writes(format!(
                "a journal is missing: batch {synced} of writes was durable, and the last one that is there \
                 is {stored}"
            ));
        }
    }

    /// The tables of a keyspace, and true if it is known which ones are current.
    fn tables(&self, keyspace: &Path, unread: &mut Vec<UnreadableRange>) -> (Vec<Run>, bool) {
        let mut note = |path: &Path, reason: &str| {
            let (path, reason) = (path.display().to_string(), reason.to_owned());
            unread.push(UnreadableRange { path, start: 0, end: 0, reason });
        };
        let folder = keyspace.join(files::TABLES_NAME);
        let (paths, is_known) = match files::listed_tables(keyspace) {
            Ok(Some(listed)) => (listed, true),
            unlisted => {
                let paths: Vec<PathBuf> = fs::read_dir(&folder)
                    .map(|found| found.flatten().map(|entry| entry.path()).collect())
                    .unwrap_or_default();
                // A keyspace that was never written to disk has no list and no tables.
                if let Err(error) = &unlisted {
                    note(keyspace, &error.to_string());
                } else if !paths.is_empty() || !keyspace.exists() {
                    note(keyspace, "nothing says which tables count");
                }
                (paths, matches!(unlisted, Ok(None)) && keyspace.exists())
            }
        };
        let mut runs = Vec::new();
        for path in paths {
            match path.exists() {
                true => runs.push(Run::Table(SalvagedTable::open(&path))),
                false => note(&path, "the file is missing"),
            }
        }
        (runs, is_known)
    }

    /// All entries of a space, and true if it is known which tables are current.
    #[expect(clippy::indexing_slicing, reason = "there is one for each space")]
    fn merged(
        &self,
        space: Space,
        unread: &mut Vec<UnreadableRange>,
        with_journals: bool,
    ) -> (MergedRuns, bool) {
        let (path, number) = &self.keyspaces[space as usize];
        let (mut runs, is_known) = self.tables(path, unread);
        if with_journals {
            let mut items: Vec<JournalItem> = Vec::new();
            let visited = journal::visit_items(&self.directory, self.store_id, &mut |item| {
                if item.keyspace == *number {
                    items.push(item);
                }
            });
            if let Err(error) = visited {
                let (path, reason) = (self.directory.display().to_string(), error.to_string());
                unread.push(UnreadableRange { path, start: 0, end: 0, reason });
            }
            runs.push(Run::Journal(JournalRun::new(items)));
        }
        (MergedRuns::new(runs), is_known)
    }

    /// The body of a head, among the versions of its key.
    fn body_of(&self, bodies: &mut MergedRuns, key: &[u8], head: &ValueHead) -> Option<Bytes> {
        while bodies.next_key().is_some_and(|next| next < key) {
            bodies.next();
        }
        let mut body = None;
        while bodies.next_key() == Some(key) {
            let Some(entry) = bodies.next() else { break };
            let found = match entry.kind {
                _ if body.is_some() => None,
                TableEntryKind::Removal => None,
                TableEntryKind::Value => Some(entry.value),
                TableEntryKind::Elsewhere => self.blob(&entry),
            };
            body = body.or(found.filter(|found| head.has_body(found)));
        }
        body
    }

    /// The value to which an entry points.
    #[expect(
        clippy::indexing_slicing,
        reason = "the head was read whole, and there is a keyspace for each space"
    )]
    fn blob(&self, entry: &TableEntry) -> Option<Bytes> {
        let mut pointer = &entry.value[..];
        let [offset, number, stored_bytes] = [(); 3].map(|()| varint(&mut pointer));
        let (offset, number, stored_bytes) = (offset?, number?, stored_bytes?);
        let folder = self.keyspaces[Space::Bodies as usize].0.join(files::BLOBS_NAME);
        let file = File::open(folder.join(number.to_string())).ok()?;
        let front = BLOB_HEAD_BYTES + entry.key.len();
        if stored_bytes > BLOB_BYTES_MAX {
            return None;
        }
        let mut bytes = vec![0; front + usize::try_from(stored_bytes).ok()?];
        file.read_exact_at(&mut bytes, offset).ok()?;
        let (head, stored) = bytes.split_at(front);
        let mut sum = Xxh3Default::new();
        sum.update(&entry.key);
        sum.update(stored);
        let is_whole = head.starts_with(b"BLOB")
            && head[4..20] == sum.digest128().to_le_bytes()
            && head[BLOB_HEAD_BYTES..] == entry.key[..];
        let value_bytes = u32::from_le_bytes(*head[30..].first_chunk()?);
        match is_whole {
            false => None,
            // If the sizes are equal by chance although the value is compressed, the checksum of the body
            // rejects it.
            true if u64::from(value_bytes) == stored_bytes => Some(Bytes::copy_from_slice(stored)),
            true => Some(lz4_flex::decompress(stored, value_bytes as usize).ok()?.into()),
        }
    }
}

/// The next number of a pointer.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

impl Source for LsmSource {
    fn records(&mut self, take: &mut SalvageSink<'_>) -> Result<bool, StoreError> {
        let mut unread = std::mem::take(&mut self.unread);
        let (mut records, is_known) = self.merged(Space::Records, &mut unread, true);
        let mut bodies = self.merged(Space::Bodies, &mut unread, true).0;
        let mut is_whole = is_known && !self.lacks_writes && unread.is_empty();
        unread.drain(..).try_for_each(|stretch| take.unread(stretch))?;
        while let Some(entry) = records.next_latest() {
            if entry.kind == TableEntryKind::Value {
                let body = match ValueHead::read(&entry.key, &entry.value) {
                    Ok(head) if head.is_apart => self.body_of(&mut bodies, &entry.key, &head),
                    _ => entry.value.get(HEAD_BYTES..).map(|body| entry.value.slice_ref(body)),
                };
                is_whole &= take.record(&entry.key, &entry.value, body)?;
            }
            for stretch in records.take_unread().into_iter().chain(bodies.take_unread()) {
                is_whole = false;
                take.unread(stretch)?;
            }
        }
        // Bodies were read only as far as there are heads.
        for stretch in records.take_unread().into_iter().chain(bodies.take_unread()) {
            is_whole = false;
            take.unread(stretch)?;
        }
        Ok(is_whole)
    }

    fn entries(&mut self, space: Space, take: &mut Take<'_>) -> Result<bool, StoreError> {
        let mut unread = Vec::new();
        let (mut merged, is_known) = self.merged(space, &mut unread, true);
        while let Some(entry) = merged.next_latest() {
            if entry.kind == TableEntryKind::Value {
                take(&entry.key, &entry.value)?;
            }
        }
        unread.extend(merged.take_unread());
        Ok(is_known && unread.is_empty() && !self.lacks_writes)
    }

    fn may_repeat(&self) -> bool {
        false
    }
}
