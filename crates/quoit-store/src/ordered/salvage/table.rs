//! Reading of a table of `fjall` block by block, skipping damaged blocks.
//!
//! A table begins with its data blocks, one after the other, in the order of keys. Blocks of other kinds
//! follow. Each block has a header with its own checksum:
//!
//! ```text
//! "LSM" 3, kind of block 1 (0: data), XXH3-128 of the rest of the block 16, size of the rest 4, its
//! decompressed size 4, lowest 4 bytes of the XXH3-128 of all bytes before; numbers are little-endian
//! ```
//!
//! So a table can be read without its index and its table of contents, even if its end is missing. After a
//! damaged header, the reader searches the next intact one.

use super::UnreadableRange;
use bytes::Bytes;
use lsm_tree::table::block::decoder::ParsedItem;
use lsm_tree::table::{Block, DataBlock};
use lsm_tree::{CompressionType, InternalValue, ValueType};
use quoit_seam::third_party;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

const MAGIC: &[u8] = b"LSM\x03";
const HEADER_BYTES: usize = 33;
const HEADER_SUM_AT: usize = 29;
const DATA_BLOCK: u8 = 0;

/// Number of bytes that are searched for a header at once.
const PIECE_BYTES: usize = 64 << 10;

/// After a failed read, the search continues at the next multiple of this number of bytes.
const SECTOR_BYTES: u64 = 4 << 10;

/// Kind of an entry: a value, or one of the kinds of removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TableEntryKind {
    Value,
    Removal,
    /// The value is in a blob file, and `value` has the pointer to it.
    Elsewhere,
}

/// One version of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TableEntry {
    pub(super) key: Bytes,
    /// Later versions have higher sequences.
    pub(super) sequence: u64,
    pub(super) kind: TableEntryKind,
    pub(super) value: Bytes,
}

/// A table that is read sequentially.
pub(super) struct SalvagedTable {
    path: PathBuf,
    /// Open only while the table is read, because there may be more tables than a process may have open
    /// files.
    file: Option<File>,
    offset: u64,
    waiting: VecDeque<TableEntry>,
    is_over: bool,
    /// Ranges without a readable block.
    pub(super) unread: Vec<UnreadableRange>,
}

/// The header of a block, as far as it is needed to find the next block.
#[derive(Clone, Copy)]
struct BlockHeader {
    kind: u8,
    stored_bytes: u32,
    bytes: u32,
}

impl BlockHeader {
    fn read(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let sum = xxh3_128(&header[..HEADER_SUM_AT]).to_le_bytes();
        let is_whole = header.starts_with(MAGIC) && sum.starts_with(&header[HEADER_SUM_AT..]);
        let number = |at: usize| Some(u32::from_le_bytes(*header.get(at..)?.first_chunk()?));
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

    /// Goes back to the beginning. Closes the file until the next read.
    pub(super) fn rewind(&mut self) {
        *self = Self::open(&self.path);
    }

    /// The next entry; `None` at the end.
    pub(super) fn next(&mut self) -> Option<TableEntry> {
        while self.waiting.is_empty() && !self.is_over {
            if let Err(error) = self.refill() {
                self.note(self.offset..self.offset, &error.to_string());
                self.is_over = true;
            }
        }
        if self.is_over && self.waiting.is_empty() {
            self.file = None;
        }
        self.waiting.pop_front()
    }

    fn note(&mut self, Range { start, end }: Range<u64>, reason: &str) {
        let (path, reason) = (self.path.display().to_string(), reason.to_owned());
        self.unread.push(UnreadableRange { path, start, end, reason });
    }

    /// Reads the next block, or skips a range without one.
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
                    None => self.note(start..self.offset.min(size), "a block is damaged"),
                }
            }
            None if start >= size => {
                self.note(
                    size..size,
                    "the file is truncated: everything after this position is missing",
                );
                self.is_over = true;
            }
            None => {
                let next = next_header(&file, start + 1..size);
                self.offset = next.unwrap_or(size);
                self.is_over = next.is_none();
                self.note(start..self.offset, "blocks are damaged");
            }
        }
        self.file = Some(file);
        Ok(())
    }
}

/// The entries of the data block at an offset; `None` if they cannot be read.
fn entries_of(file: &File, start: u64, header: BlockHeader) -> Option<Vec<TableEntry>> {
    let mut bytes = vec![0; usize::try_from(header.block_bytes()).ok()?];
    // Reads are tried twice, because an error may be temporary.
    file.read_exact_at(&mut bytes, start)
        .or_else(|_| file.read_exact_at(&mut bytes, start))
        .ok()?;
    let is_plain = header.stored_bytes == header.bytes;
    let compression = if is_plain { CompressionType::None } else { CompressionType::Lz4 };
    // The crate trusts the contents of a block. A panic over a block whose checksum is right by chance must
    // not end the salvage.
    let read = third_party::catch(|| {
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
    // Copied, because a slice would keep its whole block in memory.
    let key = Bytes::copy_from_slice(&item.key.user_key);
    let value = Bytes::copy_from_slice(&item.value);
    TableEntry { key, sequence: item.key.seqno, kind, value }
}

/// Offset of the next intact header in a range of a file.
fn next_header(file: &File, range: Range<u64>) -> Option<u64> {
    let mut position = range.start;
    let mut piece = vec![0; PIECE_BYTES + HEADER_BYTES];
    while position + HEADER_BYTES as u64 <= range.end {
        let count = match file.read_at(&mut piece, position) {
            Ok(count) if count >= HEADER_BYTES => count,
            // A bad sector.
            _ => {
                position = (position / SECTOR_BYTES + 1) * SECTOR_BYTES;
                continue;
            }
        };
        let found = piece.split_at(count).0.windows(HEADER_BYTES).position(|bytes| {
            // The magic rules most positions out without a checksum.
            bytes.starts_with(MAGIC) && BlockHeader::read(bytes).is_some()
        });
        if let Some(found) = found {
            return Some(position + found as u64);
        }
        position += (count - HEADER_BYTES + 1) as u64;
    }
    None
}
