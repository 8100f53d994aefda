//! Log files of reap records, and reading entries from them.

use super::entry::{EntryHead, HEAD_BYTES};
use super::manifest::NamedFile;
use super::table::TableRow;
use super::{ReapRecord, ReapSequence};
use bytes::Bytes;
use quoit_number::{index, length_u32};
use quoit_seam::{Disk, DiskFile, ReadAt};
use quoit_store::engine::IoMode;
use quoit_store::error::StoreError;
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes before the first entry: magic "QUOITRR\n", format version 1 in 4 bytes, the file's number in 4,
/// its salt in 8, and the XXH3-64 of these in 8. They are used only if the manifest is lost.
pub(super) const FILE_HEAD_BYTES: usize = 32;
const MAGIC: [u8; 8] = *b"QUOITRR\n";
const VERSION: u32 = 1;
/// Beginning of the names of log files. The file's number follows in 8 hexadecimal digits.
const NAME_PREFIX: &str = "reaped-";
/// Bytes of an entry that the first read asks for. Most entries are shorter.
const READ_BYTES: usize = 512;

/// An open log file.
pub(super) struct LogFile {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) salt: u64,
    /// Bytes that are durable. Later bytes of the file do not count.
    pub(super) durable_bytes: u32,
    /// Number of entries that were written or found.
    pub(super) entry_count: usize,
    /// Number of those that the table refers to.
    pub(super) live_count: usize,
    /// True if there are damaged bytes between the entries.
    pub(super) is_damaged: bool,
}

impl LogFile {
    /// Returns a file of which no byte is known to be durable.
    pub(super) const fn new(file: Arc<dyn DiskFile>, salt: u64) -> Self {
        Self { file, salt, durable_bytes: 0, entry_count: 0, live_count: 0, is_damaged: false }
    }

    /// Creates an empty log file. It counts only when a manifest names it.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(super) fn create(disk: &dyn Disk, number: u32, entropy: u64) -> Result<Self, StoreError> {
        let salt = xxh3_64_with_seed(&number.to_le_bytes(), entropy);
        let file = disk.open(&name(number), true)?;
        file.write_at(&file_head(number, salt), 0)?;
        file.sync()?;
        disk.sync_directory()?;
        Ok(Self { durable_bytes: length_u32(FILE_HEAD_BYTES), ..Self::new(file, salt) })
    }

    /// Returns the entry of this file in the manifest.
    pub(super) fn named(&self, number: u32) -> NamedFile {
        NamedFile { number, durable_bytes: self.durable_bytes.into(), salt: self.salt }
    }

    /// True if the live entries should be moved to another file: few are left, or there is damage between
    /// them, which the next start would find again.
    pub(super) const fn is_worth_moving(&self) -> bool {
        self.live_count * 2 < self.entry_count || self.is_damaged
    }
}

fn file_head(number: u32, salt: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&salt.to_le_bytes());
    let checksum = xxh3_64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Returns the salt in the head of a log file; `None` if the bytes are not a head of this format.
pub(super) fn salt_of(bytes: &[u8]) -> Option<u64> {
    let bytes: &[u8; FILE_HEAD_BYTES] = bytes.first_chunk()?;
    let (content, checksum) = bytes.split_last_chunk::<8>()?;
    let (_, salt) = content.split_last_chunk()?;
    let is_whole = xxh3_64(content).to_le_bytes() == *checksum;
    let is_ours = bytes[..8] == MAGIC && bytes[8..12] == VERSION.to_le_bytes();
    (is_whole && is_ours).then(|| u64::from_le_bytes(*salt))
}

pub(super) fn name(number: u32) -> String {
    format!("{NAME_PREFIX}{number:08x}")
}

/// Returns the number of a log file by its name; `None` for other names.
pub(super) fn number_of(file_name: &str) -> Option<u32> {
    let number = u32::from_str_radix(file_name.strip_prefix(NAME_PREFIX)?, 16).ok()?;
    (name(number) == file_name).then_some(number)
}

/// Reads a whole file.
pub(super) fn read_all(file: &dyn DiskFile) -> Result<Bytes, StoreError> {
    let size_bytes = file.size_bytes()?.min(u32::MAX.into());
    let mut bytes = vec![0; index(size_bytes)];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes.into())
}

/// Result of reading an entry.
pub(super) enum ReadEntry {
    Whole(ReapRecord),
    /// Its bytes are damaged.
    Damaged,
    /// Its bytes are not in memory.
    WouldBlock,
}

/// The place of an entry, with an open file, so that no lock has to be held while it is read.
pub(super) struct EntrySource {
    file: Arc<dyn DiskFile>,
    salt: u64,
    offset: u32,
    /// The sequence number that the entry must have.
    sequence: ReapSequence,
}

impl EntrySource {
    /// Returns the place of a row's entry.
    pub(super) fn new(file: &LogFile, row: &TableRow) -> Self {
        let file_handle = Arc::clone(&file.file);
        Self {
            file: file_handle,
            salt: file.salt,
            offset: row.place.offset,
            sequence: row.sequence,
        }
    }

    /// Reads the entry, with one read, or two if it is longer than [`READ_BYTES`].
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(super) fn read(&self, access: IoMode) -> Result<ReadEntry, StoreError> {
        let mut bytes = vec![0; READ_BYTES];
        let Some(count) = self.read_at(&mut bytes, access)? else {
            return Ok(ReadEntry::WouldBlock);
        };
        let head = EntryHead::read(bytes.get(..count).unwrap_or(&bytes), self.salt);
        let head = match head {
            Some(head) if head.sequence == self.sequence => head,
            // Without waiting, a read returns only the bytes that are in memory.
            _ if count < HEAD_BYTES && access == IoMode::NoWait => {
                return Ok(ReadEntry::WouldBlock);
            }
            _ => return Ok(ReadEntry::Damaged),
        };
        let mut count = count;
        if head.entry_bytes() > READ_BYTES {
            bytes.resize(head.entry_bytes(), 0);
            let again = self.read_at(&mut bytes, access)?;
            let Some(all) = again else { return Ok(ReadEntry::WouldBlock) };
            count = all;
        }
        if count < head.entry_bytes() && access == IoMode::NoWait {
            return Ok(ReadEntry::WouldBlock);
        }
        bytes.truncate(count);
        let record = head.record(&bytes.into(), self.salt);
        Ok(record.map_or(ReadEntry::Damaged, ReadEntry::Whole))
    }

    /// Reads bytes and returns their number; `None` if they are not in memory and the caller does not
    /// wait.
    fn read_at(&self, bytes: &mut [u8], access: IoMode) -> Result<Option<usize>, StoreError> {
        let offset = self.offset.into();
        if access == IoMode::Wait {
            return Ok(self.file.read_at(bytes, offset).map(Some)?);
        }
        Ok(match self.file.read_at_nowait(bytes, offset)? {
            ReadAt::Read(count) => Some(count),
            ReadAt::Kept => Some(bytes.len()),
            ReadAt::WouldBlock => None,
        })
    }
}
