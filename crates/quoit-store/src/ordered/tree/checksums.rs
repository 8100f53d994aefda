//! The file of checksums beside a tree's file.
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 0..4096, 4096..8192 | two slots, written in turn, each with two copies |
//! | 8192.. | a checksum of 4 bytes for each block of 4 KiB of the tree's file; 0 = unknown |
//!
//! The last commit of a tree may depend on the newest slot alone. So that a flipped bit does not lose the
//! slot, both copies are written at once, and either is enough.
//!
//! A slot:
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 0..8 | `QUOITSUM` |
//! | 8..16 | number of the slot; the slot with the higher number is the valid one |
//! | 16..24 | XXH3-64 of the pieces that were written with it |
//! | 24..28 | number of these pieces |
//! | 32..352 | `redb`'s header |
//! | 352..1952 | numbers of these pieces |
//! | 2040..2048 | XXH3-64 of all bytes before |
//!
//! A piece is 4 KiB of checksums. Numbers are little-endian. The checksum of a block is the low half of the
//! XXH3-64 of its bytes, with the number of the block as seed, and 1 instead of 0.

use super::header::{HEADER_BYTES, TreeHeader};
use crate::error::StoreError;
use quoit_number::{index, length_u32, low_u32};
use quoit_seam::DiskFile;
use std::collections::BTreeSet;
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// Size of a block in bytes: the unit that has a checksum.
pub(super) const BLOCK_BYTES: usize = 4_096;

const SUM_BYTES: usize = 4;
const PIECE_BYTES: usize = 4_096;
/// Number of checksums in a piece.
pub(super) const PIECE_SUMS: usize = PIECE_BYTES / SUM_BYTES;

const SLOT_BYTES: usize = 2_048;
/// Size in bytes of both copies of a slot.
const COPIES_BYTES: usize = 2 * SLOT_BYTES;
const TABLE_AT: u64 = 2 * COPIES_BYTES as u64;
const MAGIC: [u8; 8] = *b"QUOITSUM";
const HEADER_AT: usize = 32;
const PIECES_AT: usize = HEADER_AT + HEADER_BYTES;
const SLOT_SUM_AT: usize = SLOT_BYTES - 8;

/// Maximum number of pieces that a slot names. If more were written, they are synced before the slot is
/// written.
const NAMED_PIECES_MAX: usize = 400;

/// An unknown checksum.
pub(super) const UNKNOWN: u32 = 0;

/// The checksum of a block.
pub(super) fn sum_of(block: u64, bytes: &[u8]) -> u32 {
    let sum = low_u32(xxh3_64_with_seed(bytes, block));
    if sum == UNKNOWN { 1 } else { sum }
}

/// The checksums of all blocks of a file.
pub(super) type ChecksumTable = Vec<u32>;

/// Contents of a file of checksums.
pub(super) struct Saved {
    pub(super) header: TreeHeader,
    /// `None` if a slot, or a piece of the newest one, is torn or damaged.
    pub(super) table: Option<ChecksumTable>,
}

pub(super) struct ChecksumFile {
    file: Arc<dyn DiskFile>,
    /// Number of the slot that was written last.
    number: u64,
}

impl ChecksumFile {
    pub(super) const fn new(file: Arc<dyn DiskFile>) -> Self {
        Self { file, number: 0 }
    }

    /// Deletes all checksums.
    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        Ok(self.file.truncate(0)?)
    }

    /// Reads the last saved state; `None` if no slot is valid.
    pub(super) fn load(&mut self) -> Result<Option<Saved>, StoreError> {
        let mut front = vec![0; index(TABLE_AT)];
        self.file.read_at(&mut front, 0)?;
        let (first, second) = front.split_at(COPIES_BYTES);
        let slots = [ChecksumSlot::read_copies(first), ChecksumSlot::read_copies(second)];
        // If a slot is torn, the last save was interrupted and may have changed pieces of the table.
        let is_torn = slots.iter().any(Result::is_err);
        let Some(newest) = slots.into_iter().flatten().flatten().max_by_key(|slot| slot.number)
        else {
            return Ok(None);
        };
        self.number = newest.number;
        let table_bytes = self.file.size_bytes()?.saturating_sub(TABLE_AT);
        let mut bytes = vec![0; usize::try_from(table_bytes).unwrap_or_default()];
        self.file.read_at(&mut bytes, TABLE_AT)?;
        let (sums, _) = bytes.as_chunks();
        let table: ChecksumTable = sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect();
        let is_whole = !is_torn && hash_of(&newest.pieces, &table) == newest.pieces_hash;
        Ok(Some(Saved { header: newest.header, table: is_whole.then_some(table) }))
    }

    /// Saves pieces of the table durably, together with the header.
    pub(super) fn save(
        &mut self,
        header: &TreeHeader,
        pieces: &BTreeSet<usize>,
        table: &ChecksumTable,
    ) -> Result<(), StoreError> {
        for piece in pieces {
            self.file
                .write_at(&piece_of(*piece, table), TABLE_AT + (piece * PIECE_BYTES) as u64)?;
        }
        let mut named: Vec<usize> = pieces.iter().copied().collect();
        if named.len() > NAMED_PIECES_MAX {
            self.file.sync()?;
            named.clear();
        }
        let pieces_hash = hash_of(&named, table);
        let slot =
            ChecksumSlot { number: self.number + 1, pieces_hash, header: *header, pieces: named };
        let copies = slot.encode().repeat(2);
        self.file.write_at(&copies, slot.number % 2 * COPIES_BYTES as u64)?;
        self.file.sync()?;
        self.number += 1;
        Ok(())
    }
}

fn piece_of(piece: usize, table: &ChecksumTable) -> [u8; PIECE_BYTES] {
    let mut bytes = [0; PIECE_BYTES];
    let sums = table.iter().skip(piece * PIECE_SUMS);
    for (place, sum) in bytes.as_chunks_mut().0.iter_mut().zip(sums) {
        *place = sum.to_le_bytes();
    }
    bytes
}

fn hash_of(pieces: &[usize], table: &ChecksumTable) -> u64 {
    let mut hash = Xxh3::new();
    for piece in pieces {
        hash.update(&(*piece as u64).to_le_bytes());
        hash.update(&piece_of(*piece, table));
    }
    hash.digest()
}

struct ChecksumSlot {
    number: u64,
    pieces_hash: u64,
    header: TreeHeader,
    pieces: Vec<usize>,
}

/// The slot is torn or damaged.
struct IsTorn;

impl ChecksumSlot {
    fn encode(&self) -> [u8; SLOT_BYTES] {
        assert!(self.pieces.len() <= NAMED_PIECES_MAX, "the caller names no more than fit");
        let mut bytes = [0; SLOT_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.pieces_hash.to_le_bytes());
        bytes[24..28].copy_from_slice(&length_u32(self.pieces.len()).to_le_bytes());
        bytes[HEADER_AT..PIECES_AT].copy_from_slice(&self.header.0);
        for (place, piece) in bytes[PIECES_AT..].as_chunks_mut().0.iter_mut().zip(&self.pieces) {
            let piece = u32::try_from(*piece).expect("2^32 pieces belong to a file of 16 PiB");
            *place = piece.to_le_bytes();
        }
        let sum = xxh3_64(&bytes[..SLOT_SUM_AT]);
        bytes[SLOT_SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a slot from either of its copies. `None` if it was not written yet.
    fn read_copies(bytes: &[u8]) -> Result<Option<Self>, IsTorn> {
        let (first, second) = bytes.split_at(SLOT_BYTES);
        let copies = [Self::read(first), Self::read(second)];
        let is_unwritten = copies.iter().all(|copy| matches!(copy, Ok(None)));
        match copies.into_iter().flatten().flatten().max_by_key(|slot| slot.number) {
            None if !is_unwritten => Err(IsTorn),
            slot => Ok(slot),
        }
    }

    /// `None` if the slot was not written yet.
    fn read(bytes: &[u8]) -> Result<Option<Self>, IsTorn> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let (front, sum) = bytes.split_last_chunk().ok_or(IsTorn)?;
        let number = |at: usize| {
            front
                .get(at..)
                .and_then(<[u8]>::first_chunk)
                .map_or(0, |read| u64::from_le_bytes(*read))
        };
        let count = low_u32(number(24)) as usize;
        if xxh3_64(front) != u64::from_le_bytes(*sum)
            || !front.starts_with(&MAGIC)
            || count > NAMED_PIECES_MAX
        {
            return Err(IsTorn);
        }
        let header =
            front.get(HEADER_AT..).and_then(<[u8]>::first_chunk).map(|read| TreeHeader(*read));
        let header = header.ok_or(IsTorn)?;
        let (named, _) = front.get(PIECES_AT..).ok_or(IsTorn)?.as_chunks();
        let pieces = named.iter().take(count).map(|read| u32::from_le_bytes(*read) as usize);
        let pieces = pieces.collect();
        Ok(Some(Self { number: number(8), pieces_hash: number(16), header, pieces }))
    }
}
