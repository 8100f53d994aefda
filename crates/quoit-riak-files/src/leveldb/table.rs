//! Sorted tables: blocks of entries, an index block that lists them, and a footer that refers to
//! the index block.

use super::block::{DELETION, Entry, TableKey, entries_of, first_entry_of, has_checksum, varint};
use crate::leveled::inflate_lz4;
use crate::{Damage, OBJECT_BYTES_MAX, RiakFilesError};
use bytes::Bytes;
use quoit_number::index;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const FOOTER_BYTES: usize = 48;
const MAGIC: [u8; 8] = 0xdb47_7524_8b80_fb57u64.to_le_bytes();
/// Size in bytes of a block's trailer: method of compression, and checksum.
const TRAILER_BYTES: usize = 5;

const STORED: u8 = 0;
const SNAPPY: u8 = 1;
const LZ4: u8 = 2;

/// Position of a block.
#[derive(Clone, Copy, Debug)]
struct Handle {
    at: u64,
    len: u64,
}

impl Handle {
    fn read(input: &mut &[u8]) -> Option<Self> {
        Some(Self { at: varint(input)?, len: varint(input)? })
    }
}

/// A table that is read from front to back.
pub(super) struct Table {
    path: Arc<Path>,
    file: File,
    /// Blocks that were not read yet; the next one is the last of the list.
    blocks: Vec<Handle>,
    /// Remaining entries of the current block; the next one is the last of the list.
    entries: Vec<Entry>,
}

impl Table {
    /// Opens a table. If its footer or index is damaged, reports the whole table as lost and
    /// returns `None`.
    pub(super) fn open(
        path: &Path,
        damage: &mut Vec<Damage>,
    ) -> Result<Option<Self>, RiakFilesError> {
        let file = File::open(path).map_err(RiakFilesError::io(path))?;
        let len = file.metadata().map_err(RiakFilesError::io(path))?.len();
        let mut lost = |at, what: &str| {
            damage.push(
                Damage::new(path, at, format!("{what}: all of the table is lost")).with_len(len),
            );
            Ok(None)
        };
        let Some(at) = len.checked_sub(FOOTER_BYTES as u64) else {
            return lost(0, "the table is shorter than its footer");
        };
        let mut footer = [0; FOOTER_BYTES];
        file.read_exact_at(&mut footer, at).map_err(RiakFilesError::io(path))?;
        let Some(index) = index_handle(&footer) else { return lost(at, "the footer is damaged") };
        let Some(block) = read_block(&file, path, len, index)? else {
            return lost(index.at, "the index is damaged");
        };
        let handles = entries_of(&block).and_then(|entries| {
            entries.iter().rev().map(|(_, value)| Handle::read(&mut value.as_ref())).collect()
        });
        let Some(blocks) = handles else { return lost(index.at, "the index is damaged") };
        Ok(Some(Self { path: path.into(), file, blocks, entries: Vec::new() }))
    }

    /// The next entry. Damaged blocks are reported and skipped.
    pub(super) fn next_entry(
        &mut self,
        damage: &mut Vec<Damage>,
    ) -> Result<Option<Entry>, RiakFilesError> {
        loop {
            if let Some(entry) = self.entries.pop() {
                return Ok(Some(entry));
            }
            let Some(handle) = self.blocks.pop() else { return Ok(None) };
            let len = self.file.metadata().map_err(RiakFilesError::io(&*self.path))?.len();
            let block = read_block(&self.file, &self.path, len, handle)?;
            match block.and_then(|block| entries_of(&block)) {
                Some(entries) => {
                    let entry = |(key, value)| self.entry(&key, value, handle.at);
                    self.entries = entries.into_iter().rev().filter_map(entry).collect();
                }
                None => {
                    let what = "a block is damaged: its records are lost, and older versions may appear \
                                instead";
                    damage.push(Damage::new(&self.path, handle.at, what).with_len(handle.len));
                }
            }
        }
    }

    /// Skips the blocks that have only keys up to this one. Keeps all blocks if a damaged block
    /// prevents the search.
    #[expect(clippy::indexing_slicing, reason = "the middle is the number of a block")]
    pub(super) fn skip_to_after(&mut self, key: &Bytes) -> Result<(), RiakFilesError> {
        let len = self.file.metadata().map_err(RiakFilesError::io(&*self.path))?.len();
        // The list is in reverse order. The blocks that begin after the key are kept, and the one
        // before them, which may contain keys after it.
        let (mut behind, mut before) = (0, self.blocks.len());
        while behind < before {
            let middle = behind.midpoint(before);
            let block = read_block(&self.file, &self.path, len, self.blocks[middle])?;
            let first = block.and_then(|block| first_entry_of(&block));
            let Some(first) = first.and_then(|first| TableKey::read(&first)) else {
                return Ok(());
            };
            if first.key > *key { behind = middle + 1 } else { before = middle }
        }
        self.blocks.truncate(behind + 1);
        Ok(())
    }

    fn entry(&self, key: &Bytes, value: Bytes, at: u64) -> Option<Entry> {
        let TableKey { key, sequence, kind, written_secs, expires_at_us } = TableKey::read(key)?;
        let value = (kind != DELETION).then_some(value);
        let file = Arc::clone(&self.path);
        Some(Entry { key, sequence, value, written_secs, expires_at_us, file, at })
    }
}

fn index_handle(footer: &[u8; FOOTER_BYTES]) -> Option<Handle> {
    let mut input = footer.strip_suffix(&MAGIC)?;
    Handle::read(&mut input)?;
    Handle::read(&mut input)
}

/// Reads and decompresses a block; returns `None` if it is damaged.
fn read_block(
    file: &File,
    path: &Path,
    len: u64,
    handle: Handle,
) -> Result<Option<Bytes>, RiakFilesError> {
    let end =
        handle.at.checked_add(handle.len).and_then(|end| end.checked_add(TRAILER_BYTES as u64));
    if handle.len > OBJECT_BYTES_MAX as u64 || end.is_none_or(|end| end > len) {
        return Ok(None);
    }
    let mut stored = vec![0; index(handle.len) + TRAILER_BYTES];
    file.read_exact_at(&mut stored, handle.at).map_err(RiakFilesError::io(path))?;
    Ok(unpacked(Bytes::from(stored)))
}

/// Checks the trailer of a block and decompresses it; returns `None` if it is damaged.
fn unpacked(stored: Bytes) -> Option<Bytes> {
    let (covered, checksum) = stored.split_last_chunk()?;
    if !has_checksum(covered, u32::from_le_bytes(*checksum)) {
        return None;
    }
    let (method, block) = covered.split_last()?;
    match *method {
        STORED => Some(stored.slice(..block.len())),
        SNAPPY => {
            let size = snap::raw::decompress_len(block).ok()?;
            let fits = size <= OBJECT_BYTES_MAX;
            fits.then(|| snap::raw::Decoder::new().decompress_vec(block).ok().map(Bytes::from))?
        }
        LZ4 => inflate_lz4(block).ok(),
        _ => None,
    }
}

/// Decodes bytes as footer, block and entries of a table, for fuzzing. Must return for all bytes.
pub fn fuzz_leveldb_table(bytes: &[u8]) {
    if let Some(footer) = bytes.first_chunk() {
        let _ = index_handle(footer);
    }
    let bytes = Bytes::copy_from_slice(bytes);
    let _ = unpacked(bytes.clone());
    for (key, value) in entries_of(&bytes).unwrap_or_default() {
        let _ = TableKey::read(&key);
        let _ = Handle::read(&mut value.as_ref());
    }
}
