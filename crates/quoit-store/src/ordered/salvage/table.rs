//! Reads a table of `fjall` block by block, around those that are damaged.
//!
//! A table begins with its data blocks, one behind the other, in the order of keys; blocks of other kinds
//! follow. Each block has a header with a checksum of its own:
//!
//! ```text
//! "LSM" 3, kind of block 1 (0: data), XXH3-128 of what follows the header 16, its size 4, its size when it
//! is decompressed 4, lowest 4 bytes of the XXH3-128 of all before; numbers are little-endian
//! ```
//!
//! So a table can be read without its index, without its table of contents, and when its end is missing.
//! Behind a damaged header the next header that is whole is looked for.

use super::Unread;
use bytes::Bytes;
use lsm_tree::table::block::decoder::ParsedItem;
use lsm_tree::table::{Block, DataBlock};
use lsm_tree::{CompressionType, InternalValue, ValueType};
use quoit_seam::rented;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

const MAGIC: &[u8] = b"LSM\x03";
const HEADER_BYTES: usize = 33;
const HEADER_SUM_AT: usize = 29;
const DATA_BLOCK: u8 = 0;

/// So many bytes are searched for a header at once.
const PIECE_BYTES: usize = 64 << 10;

/// Where a read fails, the search goes on at the next multiple of this.
const SECTOR_BYTES: u64 = 4 << 10;

/// Kind of an entry: a value, or one of the kinds of removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TableEntryKind {
    Value,
    Removal,
    /// The value is in a blob file; the entry's own bytes say where.
    Elsewhere,
}

/// One version of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TableEntry {
    pub(super) key: Bytes,
    /// Later versions have higher numbers.
    pub(super) sequence: u64,
    pub(super) kind: TableEntryKind,
    pub(super) value: Bytes,
}

/// A table that is read from front to back.
pub(super) struct SalvagedTable {
    path: PathBuf,
    /// Open while it is read: there may be more tables than a process may have files.
    file: Option<File>,
    offset: u64,
    waiting: VecDeque<TableEntry>,
    is_over: bool,
    /// Stretches without a block that can be read.
    pub(super) unread: Vec<Unread>,
}

/// The header of a block, as far as it tells where the next block is.
#[derive(Clone, Copy)]
struct BlockHeader {
    kind: u8,
    stored_bytes: u32,
    bytes: u32,
}

impl BlockHeader {
    fn read(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let sum = xxh3_128(&header[..HEADER_SUM_AT]) as u32;
        let is_whole = header.starts_with(MAGIC) && header[HEADER_SUM_AT..] == sum.to_le_bytes();
        let number = |at: usize| header[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        is_whole.then_some(Self { kind: header[4], stored_bytes: number(21)?, bytes: number(25)? })
    }

    const fn block_bytes(self) -> u64 {
        HEADER_BYTES as u64 + self.stored_bytes as u64
    }
}

impl SalvagedTable {
    pub(super) fn open(path: &Path) -> Self {
        let path = path.to_owned();
        let (waiting, unread) = (VecDeque::new(), Vec::new());
        Self { path, file: None, offset: 0, waiting, is_over: false, unread }
    }

    /// Goes back to the beginning, and closes the file until it is read.
    pub(super) fn rewind(&mut self) {
        *self = Self::open(&self.path);
    }

    /// The next entry; `None` at the end.
    pub(super) fn next(&mut self) -> Option<TableEntry> {
        while self.waiting.is_empty() && !self.is_over {
            if let Err(error) = self.refill() {
                self.note(self.offset, self.offset, &error.to_string());
                self.is_over = true;
            }
        }
        if self.is_over && self.waiting.is_empty() {
            self.file = None;
        }
        self.waiting.pop_front()
    }

    fn note(&mut self, start: u64, end: u64, reason: &str) {
        let (path, reason) = (self.path.display().to_string(), reason.to_owned());
        self.unread.push(Unread { path, start, end, reason });
    }

    /// Reads the next block, or passes a stretch without one.
    fn refill(&mut self) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.path)?,
        };
        let size = file.metadata()?.len();
        let start = self.offset;
        let mut bytes = [0; HEADER_BYTES];
        let is_read = file.read_exact_at(&mut bytes, start).is_ok();
        match BlockHeader::read(&bytes).filter(|_| is_read) {
            Some(header) if header.kind != DATA_BLOCK => self.is_over = true,
            Some(header) => {
                self.offset = start + header.block_bytes();
                match entries_of(&file, start, header) {
                    Some(entries) => self.waiting.extend(entries),
                    None => self.note(start, self.offset.min(size), "a block is damaged"),
                }
            }
            None if start >= size => {
                self.note(size, size, "the file is cut off: what was behind this place is missing");
                self.is_over = true;
            }
            None => {
                let next = next_header(&file, start + 1, size);
                self.offset = next.unwrap_or(size);
                self.is_over = next.is_none();
                self.note(start, self.offset, "blocks are damaged");
            }
        }
        self.file = Some(file);
        Ok(())
    }
}

/// The entries of the data block at a place; `None` if they can't be read.
fn entries_of(file: &File, start: u64, header: BlockHeader) -> Option<Vec<TableEntry>> {
    let mut bytes = vec![0; usize::try_from(header.block_bytes()).ok()?];
    // A read may fail once.
    file.read_exact_at(&mut bytes, start)
        .or_else(|_| file.read_exact_at(&mut bytes, start))
        .ok()?;
    let is_plain = header.stored_bytes == header.bytes;
    let compression = if is_plain { CompressionType::None } else { CompressionType::Lz4 };
    // The crate believes what is in a block: a checksum that is right by chance must not end the salvage.
    let read = rented::catch(|| {
        let block = Block::from_reader(&mut &bytes[..], compression).ok()?;
        let block = DataBlock::new(block);
        Some(block.iter().map(|item| item.materialize(block.as_slice())).collect::<Vec<_>>())
    });
    Some(read.ok()??.into_iter().map(entry_of).collect())
}

fn entry_of(item: InternalValue) -> TableEntry {
    let kind = match item.key.value_type {
        ValueType::Value => TableEntryKind::Value,
        ValueType::Indirection => TableEntryKind::Elsewhere,
        ValueType::Tombstone | ValueType::WeakTombstone => TableEntryKind::Removal,
    };
    // Copies: a slice would keep its whole block in memory.
    let key = Bytes::copy_from_slice(&item.key.user_key);
    let value = Bytes::copy_from_slice(&item.value);
    TableEntry { key, sequence: item.key.seqno, kind, value }
}

/// Where the next header is that is whole, from a place on.
fn next_header(file: &File, from: u64, size: u64) -> Option<u64> {
    let mut position = from;
    let mut piece = vec![0; PIECE_BYTES + HEADER_BYTES];
    while position + HEADER_BYTES as u64 <= size {
        let count = match file.read_at(&mut piece, position) {
            Ok(count) if count >= HEADER_BYTES => count,
            // A bad sector.
            _ => {
                position = (position / SECTOR_BYTES + 1) * SECTOR_BYTES;
                continue;
            }
        };
        let found = piece[..count].windows(HEADER_BYTES).position(|bytes| {
            // The first byte tells most places apart without a checksum.
            bytes.starts_with(MAGIC) && BlockHeader::read(bytes).is_some()
        });
        if let Some(found) = found {
            return Some(position + found as u64);
        }
        position += (count - HEADER_BYTES + 1) as u64;
    }
    None
}
