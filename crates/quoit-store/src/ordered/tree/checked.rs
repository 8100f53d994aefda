//! A tree's file with a checksum for each of its blocks: a block that is not as it was written is an error to
//! the one that reads it.
//!
//! `redb` keeps checksums of its pages, and compares them only when it opens a file that was not closed. So
//! damage of a page that is read later would be an answer that is wrong or short. Here each block that was
//! read is compared, with checksums in a file beside ([`super::sums`]).
//!
//! A commit is over when its header is in the file of checksums, together with those of its blocks. Before
//! that, the tree's file was synced: so whatever a crash leaves, the header that was saved last is one
//! whose tree is whole, and whose blocks have their checksums. `redb` does not write over blocks of the
//! last commit. When the file is opened, that header is put in the place of the one that is found there:
//! also where a bit of it was flipped, which nothing else would notice.
//!
//! Where there are no checksums (a file of an earlier release), or they are of another time of the file (one
//! of the two was restored), or a crash has torn them, they are learned: `redb` compares all pages with its
//! own checksums, and what it reads for that is taken as right.

use super::header::{HEADER_BYTES, TreeHeader};
use super::sums::{BLOCK_BYTES, ChecksumTable, PIECE_SUMS, SumsFile, UNKNOWN, sum_of};
use crate::error::StoreError;
use parking_lot::{Mutex, RwLock};
use quoit_seam::{Disk, DiskFile};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name of the file of checksums beside the file of this name.
pub(crate) fn sums_name(name: &str) -> String {
    format!("{name}.sums")
}

pub(super) struct CheckedFile {
    path: String,
    file: Arc<dyn DiskFile>,
    /// One for each block.
    table: RwLock<ChecksumTable>,
    /// Whether a block whose checksum is not known is taken as right.
    is_learning: AtomicBool,
    unsaved: Mutex<Unsaved>,
    /// Held while something is saved.
    saved: Mutex<LastSaved>,
}

/// Changes of the file that are not saved yet.
struct Unsaved {
    /// Whether the file has blocks, or a length, that no sync has covered.
    is_written: bool,
    /// Pieces of the table.
    pieces: BTreeSet<usize>,
    header: TreeHeader,
}

struct LastSaved {
    header: TreeHeader,
    sums: SumsFile,
}

impl CheckedFile {
    /// Opens a tree's file that is not half made. Makes the file of checksums if there is none; whether it
    /// did.
    pub(super) fn open(
        disk: &dyn Disk,
        name: &str,
        file: Arc<dyn DiskFile>,
    ) -> Result<(Self, bool), StoreError> {
        let sums_name = sums_name(name);
        let is_new = !disk.list()?.contains(&sums_name);
        let mut sums = SumsFile::new(disk.open(&sums_name, is_new)?);
        let path = format!("{}/{name}", disk.path());
        let size_bytes = file.size_bytes()?;
        let mut header = TreeHeader::NONE;
        file.read_at(&mut header.0, 0)?;
        let loaded = if size_bytes == 0 { None } else { sums.load()? };
        let usable = loaded.filter(|saved| !header.is_of_another_time(&saved.header));
        let mut table = None;
        if let Some(saved) = usable {
            if saved.header != header {
                file.write_at(&saved.header.0, 0)?;
            }
            (header, table) = (saved.header, saved.table);
        }
        let is_learning = table.is_none() && size_bytes > 0;
        if table.is_none() {
            // The last commit may be durable by the saved header alone.
            file.sync()?;
            sums.clear()?;
        }
        let mut table = table.unwrap_or_default();
        if is_learning && !is_new {
            tracing::info!(path, "checksums of a tree's file are made again");
        }
        table.resize(block_count(size_bytes), UNKNOWN);
        let unsaved = Unsaved { is_written: false, pieces: BTreeSet::new(), header };
        let checked = Self {
            path,
            file,
            table: RwLock::new(table),
            is_learning: AtomicBool::new(is_learning),
            unsaved: Mutex::new(unsaved),
            saved: Mutex::new(LastSaved { header, sums }),
        };
        Ok((checked, is_new))
    }

    /// Whether checksums are learned: the caller has to read and compare all valid pages.
    pub(super) fn is_learning(&self) -> bool {
        self.is_learning.load(Ordering::Acquire)
    }

    /// Ends learning, when all that counts was read and found to be right.
    pub(super) fn end_learning(&self) -> Result<(), StoreError> {
        self.unsaved.lock().pieces = (0..self.table.read().len().div_ceil(PIECE_SUMS)).collect();
        // All that was taken as right by then can be relied on.
        self.file.sync()?;
        self.save()?;
        self.is_learning.store(false, Ordering::Release);
        Ok(())
    }

    pub(super) fn size_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.file.size_bytes()?)
    }

    /// Reads blocks, or a part of the header.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), StoreError> {
        if self.file.read_at(out, offset)? < out.len() {
            return Err(self.damaged(offset, "the file is too short"));
        }
        let Some(first) = first_block(offset, out.len()) else { return Ok(()) };
        if self.is_learning() {
            self.learn(first, out);
        }
        let table = self.table.read();
        for (block, bytes) in (first..).zip(out.chunks(BLOCK_BYTES)) {
            if table.get(block as usize) != Some(&sum_of(block, bytes)) {
                let offset = block * BLOCK_BYTES as u64;
                return Err(self.damaged(offset, "the bytes are not those that were written"));
            }
        }
        Ok(())
    }

    /// Takes blocks as right whose checksums are not known.
    fn learn(&self, first: u64, read: &[u8]) {
        let mut table = self.table.write();
        for (block, bytes) in (first..).zip(read.chunks(BLOCK_BYTES)) {
            if let Some(sum) = table.get_mut(block as usize).filter(|sum| **sum == UNKNOWN) {
                *sum = sum_of(block, bytes);
            }
        }
    }

    /// Writes blocks, or the header.
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let Some(first) = first_block(offset, data.len()) else {
            let mut unsaved = self.unsaved.lock();
            let start = offset as usize;
            unsaved.header.0[start..start + data.len()].copy_from_slice(data);
            return Ok(self.file.write_at(data, offset)?);
        };
        self.file.write_at(data, offset)?;
        let mut unsaved = self.unsaved.lock();
        let mut table = self.table.write();
        for (block, bytes) in (first..).zip(data.chunks(BLOCK_BYTES)) {
            table[block as usize] = sum_of(block, bytes);
            unsaved.pieces.insert(block as usize / PIECE_SUMS);
        }
        unsaved.is_written = true;
        Ok(())
    }

    /// Cuts the file off, or extends it with zeros.
    pub(super) fn set_size(&self, size_bytes: u64) -> Result<(), StoreError> {
        self.file.truncate(size_bytes)?;
        let mut unsaved = self.unsaved.lock();
        let mut table = self.table.write();
        let count = block_count(size_bytes);
        let changed = table.len().min(count)..table.len().max(count);
        unsaved.pieces.extend(changed.map(|block| block / PIECE_SUMS));
        table.resize(count, UNKNOWN);
        unsaved.is_written = true;
        Ok(())
    }

    /// Makes what was written durable. A header that stands for a new state counts from now on.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        if self.is_learning() {
            return Ok(self.file.sync()?);
        }
        let (is_written, header) = {
            let mut unsaved = self.unsaved.lock();
            (std::mem::take(&mut unsaved.is_written), unsaved.header)
        };
        let is_changed = header.is_known() && header.differs(&self.saved.lock().header);
        // A file that is closed may go elsewhere without its checksums.
        if is_written || is_changed && header.is_closed() {
            self.file.sync()?;
        }
        if is_changed { self.save() } else { Ok(()) }
    }

    /// Saves the header, and the checksums of all blocks that were written.
    fn save(&self) -> Result<(), StoreError> {
        let mut saved = self.saved.lock();
        let (pieces, header) = {
            let mut unsaved = self.unsaved.lock();
            (std::mem::take(&mut unsaved.pieces), unsaved.header)
        };
        saved.sums.save(&header, &pieces, &self.table.read())?;
        saved.header = header;
        Ok(())
    }

    fn damaged(&self, offset: u64, reason: &str) -> StoreError {
        StoreError::Corrupt { path: self.path.clone(), offset, reason: reason.to_owned() }
    }
}

const fn block_count(size_bytes: u64) -> usize {
    size_bytes.div_ceil(BLOCK_BYTES as u64) as usize
}

/// The number of the first block of some bytes that are read or written; `None` where they are the header's.
///
/// # Panics
///
/// When they are neither blocks nor in the header: `redb` reads and writes whole pages.
fn first_block(offset: u64, count: usize) -> Option<u64> {
    if offset + count as u64 <= HEADER_BYTES as u64 {
        return None;
    }
    let block_bytes = BLOCK_BYTES as u64;
    let is_whole = offset.is_multiple_of(block_bytes) && count.is_multiple_of(BLOCK_BYTES);
    assert!(is_whole && offset > 0, "pages are made of whole blocks");
    Some(offset / block_bytes)
}
