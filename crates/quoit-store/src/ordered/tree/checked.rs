//! A tree's file with a checksum for each block, so that reading a damaged block is an error.
//!
//! `redb` has checksums of its pages, but compares them only when it opens a file that was not closed.
//! Without further checks, damage of a page that is read later would give a wrong or incomplete answer. So
//! each block that is read is compared with a checksum in a second file ([`super::checksums`]).
//!
//! A commit is complete when its header is in the file of checksums, together with the checksums of its
//! blocks. The tree's file was synced before that. So after any crash, the last saved header has an intact
//! tree whose blocks have their checksums, since `redb` does not overwrite blocks of the last commit. When
//! the file is opened, the saved header replaces the header of the file, which also repairs flipped bits in
//! it that no other check would notice.
//!
//! If there are no checksums (a file of an earlier release), if they belong to another state of the file
//! (one of the two was restored), or if a crash has torn them, they are learned: `redb` compares all pages
//! with its own checksums, and the blocks that it reads for that are taken as right.

use super::checksums::{BLOCK_BYTES, ChecksumFile, ChecksumTable, PIECE_SUMS, UNKNOWN, sum_of};
use super::header::{HEADER_BYTES, TreeHeader};
use crate::error::StoreError;
use parking_lot::{Mutex, RwLock};
use quoit_number::index;
use quoit_seam::{Disk, DiskFile};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Name of the file of checksums for the tree's file with this name.
pub(crate) fn checksum_file_name(name: &str) -> String {
    format!("{name}.sums")
}

pub(super) struct CheckedFile {
    path: String,
    file: Arc<dyn DiskFile>,
    /// One checksum for each block.
    table: RwLock<ChecksumTable>,
    /// True if a block without a known checksum is taken as right.
    is_learning: AtomicBool,
    unsaved: Mutex<Unsaved>,
    /// Held while checksums are saved.
    saved: Mutex<LastSaved>,
}

/// Changes of the file that are not saved yet.
struct Unsaved {
    /// True if the file has blocks or a size that no sync has covered.
    is_written: bool,
    /// Pieces of the table of checksums.
    pieces: BTreeSet<usize>,
    header: TreeHeader,
}

struct LastSaved {
    header: TreeHeader,
    sums: ChecksumFile,
}

impl CheckedFile {
    /// Opens a tree's file whose creation was completed. Creates the file of checksums if it is missing;
    /// returns true if it did.
    pub(super) fn open(
        disk: &dyn Disk,
        name: &str,
        file: Arc<dyn DiskFile>,
    ) -> Result<(Self, bool), StoreError> {
        let checksum_file_name = checksum_file_name(name);
        let is_new = !disk.list()?.contains(&checksum_file_name);
        let mut sums = ChecksumFile::new(disk.open(&checksum_file_name, is_new)?);
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
            // The last commit may depend on the saved header alone, which is about to be deleted.
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

    /// True while checksums are learned. The caller has to read and verify all valid pages.
    pub(super) fn is_learning(&self) -> bool {
        self.is_learning.load(Ordering::Acquire)
    }

    /// Ends learning, after all valid pages were read and verified.
    pub(super) fn end_learning(&self) -> Result<(), StoreError> {
        self.unsaved.lock().pieces = (0..self.table.read().len().div_ceil(PIECE_SUMS)).collect();
        // The blocks that were taken as right must be durable before their checksums are.
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
            if table.get(index(block)) != Some(&sum_of(block, bytes)) {
                let offset = block * BLOCK_BYTES as u64;
                return Err(self.damaged(offset, "the bytes are not those that were written"));
            }
        }
        Ok(())
    }

    /// Takes blocks without a known checksum as right.
    fn learn(&self, first: u64, read: &[u8]) {
        let mut table = self.table.write();
        for (block, bytes) in (first..).zip(read.chunks(BLOCK_BYTES)) {
            if let Some(sum) = table.get_mut(index(block)).filter(|sum| **sum == UNKNOWN) {
                *sum = sum_of(block, bytes);
            }
        }
    }

    /// Writes blocks, or a part of the header.
    #[expect(
        clippy::indexing_slicing,
        reason = "`redb` writes within the header, and blocks that the file has"
    )]
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let Some(first) = first_block(offset, data.len()) else {
            let mut unsaved = self.unsaved.lock();
            let start = index(offset);
            unsaved.header.0[start..start + data.len()].copy_from_slice(data);
            return Ok(self.file.write_at(data, offset)?);
        };
        self.file.write_at(data, offset)?;
        let mut unsaved = self.unsaved.lock();
        let mut table = self.table.write();
        for (block, bytes) in (first..).zip(data.chunks(BLOCK_BYTES)) {
            table[index(block)] = sum_of(block, bytes);
            unsaved.pieces.insert(index(block) / PIECE_SUMS);
        }
        unsaved.is_written = true;
        Ok(())
    }

    /// Truncates the file, or extends it with zeros.
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

    /// Makes all writes durable. If the header stands for a new state, that state is the valid one from now
    /// on.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        if self.is_learning() {
            return Ok(self.file.sync()?);
        }
        let (is_written, header) = {
            let mut unsaved = self.unsaved.lock();
            (std::mem::take(&mut unsaved.is_written), unsaved.header)
        };
        let is_changed = header.is_known() && header.differs(&self.saved.lock().header);
        // A file that was closed may be copied without its checksums, so its header must be durable too.
        if is_written || is_changed && header.is_closed() {
            self.file.sync()?;
        }
        if is_changed { self.save() } else { Ok(()) }
    }

    /// Saves the header, and the checksums of all written blocks.
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
    index(size_bytes.div_ceil(BLOCK_BYTES as u64))
}

/// Number of the first block of a range that is read or written; `None` for a range in the header.
///
/// # Panics
///
/// If the range has partial blocks and is not in the header. `redb` reads and writes whole pages.
fn first_block(offset: u64, count: usize) -> Option<u64> {
    if offset + count as u64 <= HEADER_BYTES as u64 {
        return None;
    }
    let block_bytes = BLOCK_BYTES as u64;
    let is_whole = offset.is_multiple_of(block_bytes) && count.is_multiple_of(BLOCK_BYTES);
    assert!(is_whole && offset > 0, "pages are made of whole blocks");
    Some(offset / block_bytes)
}
