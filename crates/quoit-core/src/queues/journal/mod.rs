//! Journal of source queues: the real-time entries that are still to be sent, on disk.
//!
//! The request that writes a record appends its entry without a sync, so the entry survives the death
//! of the process, as the write does. A background task syncs the journal once a second, also the files
//! of an earlier process, which may have died before it synced them. All queues of
//! the node share the journal; an entry lists the queues that it waits in. Files are named `source-`
//! followed by their number in hexadecimal. A file is removed when no queue needs an entry in it. The
//! log of change feeds uses the same files for its own entries.
//!
//! A process never appends to files that it found at its start, because their last entry may be torn.
//! It begins a new file, also after a failed append.

mod format;

use super::entry::{EntrySequence, QueueEntry};
use bytes::Bytes;
use quoit_seam::{Disk, DiskFile};
use quoit_store::error::StoreError;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

#[cfg(any(test, feature = "testing"))]
pub(super) use format::journal_bytes;
use format::{FILE_HEAD_BYTES, PREFIX, decode, encode, length_of, read_head};
pub(super) use format::{file_head, file_name};

/// Size in bytes at which a file is full, and the next one is begun.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Number of a queue in the journal. Never given to another queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct QueueNumber(pub(crate) u32);

/// Queues that an entry waits in.
pub(crate) type QueueNumbers = SmallVec<[QueueNumber; 4]>;

/// A position in the journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Cursor {
    pub(crate) file: u32,
    pub(crate) offset: u64,
}

/// An entry and the queues that it waits in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JournalEntry {
    pub(crate) entry: QueueEntry,
    pub(crate) queues: QueueNumbers,
}

/// Entries that were read, and the position after them.
#[derive(Debug)]
pub(crate) struct JournalRead {
    pub(crate) entries: Vec<JournalEntry>,
    /// Offset of the end of each entry.
    pub(crate) ends: Vec<u64>,
    pub(crate) next: Cursor,
    /// True if no entries follow.
    pub(crate) at_end: bool,
    /// True if an entry could not be read, and the rest of the file was skipped.
    pub(crate) has_lost: bool,
}

/// The part of the journal after a position. Reading it does not block appends.
pub(crate) struct JournalReader {
    /// File of the position, or the next one if that has been removed; `None` at the end.
    file: Option<JournalFile>,
    /// Number of the file after it.
    next_file: Option<u32>,
    from: Cursor,
}

/// A file of the journal.
#[derive(Clone)]
pub(crate) struct JournalFile {
    number: u32,
    file: Arc<dyn DiskFile>,
    size_bytes: u64,
    /// Bytes at the beginning of the file that a sync has covered.
    synced_bytes: u64,
    /// Lower bound of the sequence numbers in the file.
    first: EntrySequence,
    /// True if the damage of the file was reported already.
    is_loss_told: bool,
}

impl JournalFile {
    fn of(number: u32, file: Arc<dyn DiskFile>, size_bytes: u64, first: EntrySequence) -> Self {
        Self { number, file, size_bytes, synced_bytes: 0, first, is_loss_told: false }
    }

    /// Syncs the file. Blocks.
    ///
    /// # Errors
    ///
    /// Disk faults.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        Ok(self.file.sync()?)
    }
}

/// The open journal.
pub(crate) struct Journal {
    disk: Arc<dyn Disk>,
    files: VecDeque<JournalFile>,
    next_number: u32,
    /// True if the last file may be appended to. False at the start and after a failed append, because
    /// the end of the file is then unknown.
    is_active: bool,
    /// True if files may have been created since the directory was synced last.
    has_new_files: bool,
    buffer: Vec<u8>,
}

impl Journal {
    /// Opens the journal. Reads no entries; the caller reads them from [`Journal::start`] on.
    ///
    /// # Errors
    ///
    /// Disk faults, and files of a newer release.
    pub(crate) fn open(disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        let numbered = |name: &String| {
            let number = u32::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok()?;
            // Skips files of similar names that do not belong to the journal, and a file with the highest
            // number, after which no file could follow.
            (file_name(number) == *name && number < u32::MAX).then_some(number)
        };
        let mut numbers: Vec<u32> = disk.list()?.iter().filter_map(numbered).collect();
        numbers.sort_unstable();
        let next_number = numbers.last().map_or(1, |number| number + 1);
        let mut files = VecDeque::new();
        for number in numbers {
            let file = disk.open(&file_name(number), false)?;
            let size_bytes = file.size_bytes()?;
            let mut head = [0; FILE_HEAD_BYTES];
            let is_whole = file.read_at(&mut head, 0)? == FILE_HEAD_BYTES;
            let first = if is_whole { read_head(&head, &disk.path(), number)? } else { None };
            // The head was never written completely, so the file has no entries.
            let Some(first) = first else { continue };
            files.push_back(JournalFile::of(number, file, size_bytes, first));
        }
        Ok(Self {
            disk,
            has_new_files: !files.is_empty(),
            files,
            next_number,
            is_active: false,
            buffer: Vec::new(),
        })
    }

    /// Position of the oldest entry.
    pub(crate) fn start(&self) -> Cursor {
        let file = self.files.front().map_or(self.next_number, |file| file.number);
        Cursor { file, offset: FILE_HEAD_BYTES as u64 }
    }

    /// Position at which the next entry will be appended.
    pub(crate) fn end(&self) -> Cursor {
        match self.files.back() {
            Some(file) if self.is_active => Cursor { file: file.number, offset: file.size_bytes },
            _ => Cursor { file: self.next_number, offset: FILE_HEAD_BYTES as u64 },
        }
    }

    /// Lower bound of all sequence numbers; `None` without files.
    pub(crate) fn first(&self) -> Option<EntrySequence> {
        self.files.front().map(|file| file.first)
    }

    /// Beginning of the file that would contain the entry with this sequence number.
    pub(crate) fn file_of(&self, sequence: EntrySequence) -> Cursor {
        let file = self.files.iter().rev().find(|file| file.first <= sequence);
        let begin =
            |file: &JournalFile| Cursor { file: file.number, offset: FILE_HEAD_BYTES as u64 };
        file.map_or_else(|| self.start(), begin)
    }

    /// Beginning of the newest file, and the lower bound of the sequence numbers in it.
    pub(crate) fn newest_file(&self) -> Option<(Cursor, EntrySequence)> {
        let file = self.files.back()?;
        Some((Cursor { file: file.number, offset: FILE_HEAD_BYTES as u64 }, file.first))
    }

    /// Bytes of all files.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).sum()
    }

    /// Appends an entry and returns its position. Costs one write and no sync.
    ///
    /// # Errors
    ///
    /// Disk faults. The entry may nevertheless be in the journal after a restart.
    pub(crate) fn append(
        &mut self,
        entry: &QueueEntry,
        queues: &[QueueNumber],
    ) -> Result<Cursor, StoreError> {
        let is_full = |file: &JournalFile| file.size_bytes >= FILE_BYTES_MAX;
        if !self.is_active || self.files.back().is_none_or(is_full) {
            self.begin_file(entry.sequence)?;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        encode(entry, queues, &mut buffer);
        let file = self.files.back_mut().expect("a file was begun");
        debug_assert!(
            entry.sequence >= file.first,
            "an entry has no lower number than the head of its file, by which files are removed"
        );
        let at = Cursor { file: file.number, offset: file.size_bytes };
        let written = file.file.write_at(&buffer, file.size_bytes);
        file.size_bytes += if written.is_ok() { buffer.len() as u64 } else { 0 };
        self.is_active = written.is_ok();
        self.buffer = buffer;
        Ok(written.map(|()| at)?)
    }

    fn begin_file(&mut self, first: EntrySequence) -> Result<(), StoreError> {
        // The next flush syncs the full file, so that writers do not wait for the disk.
        let number = self.next_number;
        debug_assert!(
            self.files.back().is_none_or(|last| last.number < number && last.first <= first),
            "files come in the order of their numbers and of their entries"
        );
        self.next_number += 1;
        let file = self.disk.open(&file_name(number), true)?;
        file.write_at(&file_head(number, first), 0)?;
        let size_bytes = FILE_HEAD_BYTES as u64;
        self.files.push_back(JournalFile::of(number, file, size_bytes, first));
        self.is_active = true;
        self.has_new_files = true;
        Ok(())
    }

    /// True if files were created since the last call, so that the directory has to be synced.
    pub(crate) fn take_new_files(&mut self) -> bool {
        std::mem::take(&mut self.has_new_files)
    }

    /// Files with entries that are not synced. The caller syncs them without the lock, so that appends
    /// continue, and then calls [`Journal::note_synced`].
    pub(crate) fn unsynced(&self) -> Vec<JournalFile> {
        let is_unsynced = |file: &&JournalFile| file.synced_bytes < file.size_bytes;
        self.files.iter().filter(is_unsynced).cloned().collect()
    }

    /// Notes that files are synced as far as [`Journal::unsynced`] has returned them.
    pub(crate) fn note_synced(&mut self, synced: &[JournalFile]) {
        for file in &mut self.files {
            if let Some(as_synced) = synced.iter().find(|synced| synced.number == file.number) {
                file.synced_bytes = as_synced.size_bytes;
            }
            debug_assert!(file.synced_bytes <= file.size_bytes, "only written bytes are synced");
        }
    }

    /// Directory of the journal, to be synced after files were created or removed.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Removes files that only have entries below `needed`. Returns their number.
    ///
    /// # Errors
    ///
    /// Disk faults.
    pub(crate) fn retire(&mut self, needed: EntrySequence) -> Result<usize, StoreError> {
        let mut count = 0;
        while self.files.get(1).is_some_and(|next| next.first <= needed) {
            let Some(file) = self.files.front() else { break };
            self.disk.remove(&file_name(file.number))?;
            self.files.pop_front();
            count += 1;
        }
        Ok(count)
    }

    /// Removes the oldest files until all files together have at most `bytes_max` bytes; the newest
    /// file always stays. Returns the number of removed files.
    ///
    /// # Errors
    ///
    /// Disk faults.
    pub(crate) fn shrink(&mut self, bytes_max: u64) -> Result<usize, StoreError> {
        let mut count = 0;
        while self.size_bytes() > bytes_max
            && let Some(second) = self.files.get(1)
        {
            let retired = self.retire(second.first)?;
            debug_assert!(retired > 0, "each pass removes a file, so the loop ends");
            count += retired.max(1);
        }
        Ok(count)
    }

    /// Reads about 64 KiB of entries from a position on.
    ///
    /// # Errors
    ///
    /// Disk faults.
    pub(crate) fn read(&self, from: Cursor) -> Result<JournalRead, StoreError> {
        self.reader(from).read()
    }

    /// Notes that a read from a position has found damage. Returns true if the damage of that file was not
    /// reported before. Nothing is appended to the file any more, because readers skip all bytes after the
    /// damage.
    pub(crate) fn tell_loss(&mut self, from: Cursor) -> bool {
        let newest = self.files.back().map(|file| file.number);
        let Some(file) = self.files.iter_mut().find(|file| file.number >= from.file) else {
            return true;
        };
        self.is_active &= newest != Some(file.number);
        !std::mem::replace(&mut file.is_loss_told, true)
    }

    /// The part of the journal after a position.
    pub(crate) fn reader(&self, from: Cursor) -> JournalReader {
        // A position in a file that was removed stands for the beginning of the next one.
        let place = self.files.iter().position(|file| file.number >= from.file);
        let at = |place: usize| self.files.get(place);
        JournalReader {
            file: place.and_then(at).cloned(),
            next_file: place.and_then(|place| at(place + 1)).map(|file| file.number),
            from,
        }
    }
}

impl JournalReader {
    /// Number of the file that is read.
    pub(crate) fn file_number(&self) -> Option<u32> {
        self.file.as_ref().map(|file| file.number)
    }

    /// Beginning of the file after the one that is read; `None` at the end of the journal.
    pub(crate) fn next_file(&self) -> Option<Cursor> {
        let number = self.file_number()?.checked_add(1)?;
        Some(Cursor { file: number, offset: FILE_HEAD_BYTES as u64 })
    }

    /// Reads about 64 KiB of entries.
    ///
    /// # Errors
    ///
    /// Disk faults.
    pub(crate) fn read(&self) -> Result<JournalRead, StoreError> {
        let mut read = JournalRead {
            entries: Vec::new(),
            ends: Vec::new(),
            next: self.from,
            at_end: false,
            has_lost: false,
        };
        let Some(file) = &self.file else {
            read.at_end = true;
            return Ok(read);
        };
        let begin = Cursor { file: file.number, offset: FILE_HEAD_BYTES as u64 };
        read.next = read.next.max(begin);
        let ended = read_entries(file, &mut read)?;
        if ended {
            match self.next_file {
                Some(next) => {
                    read.next = Cursor { file: next, offset: FILE_HEAD_BYTES as u64 };
                }
                None => read.at_end = true,
            }
        }
        debug_assert_eq!(read.entries.len(), read.ends.len(), "each entry has an end");
        debug_assert!(
            read.at_end || read.next > self.from,
            "a reader that is not at the end goes on, so it comes there"
        );
        Ok(read)
    }
}

/// Reads entries of a file from `read.next` on. True if the rest of the file needs no further read.
fn read_entries(file: &JournalFile, read: &mut JournalRead) -> Result<bool, StoreError> {
    let mut bytes = vec![0; READ_BYTES];
    let left = |read: &JournalRead| file.size_bytes.saturating_sub(read.next.offset);
    bytes.truncate(usize::try_from(left(read)).unwrap_or(READ_BYTES).min(READ_BYTES));
    let count = file.file.read_at(&mut bytes, read.next.offset)?;
    bytes.truncate(count);
    let mut bytes = Bytes::from(bytes);
    while let Some(length) = length_of(&bytes) {
        if length > bytes.len() {
            if !read.entries.is_empty() || length as u64 > left(read) {
                break;
            }
            // A single entry longer than the buffer: read it alone.
            let mut whole = vec![0; length];
            let count = file.file.read_at(&mut whole, read.next.offset)?;
            whole.truncate(count);
            bytes = Bytes::from(whole);
            if count < length {
                break;
            }
        }
        let Some(entry) = decode(&bytes.split_to(length)) else {
            read.has_lost = true;
            return Ok(true);
        };
        read.next.offset += length as u64;
        read.entries.push(entry);
        read.ends.push(read.next.offset);
    }
    if !read.entries.is_empty() {
        return Ok(left(read) == 0);
    }
    // The end of the file, a torn entry there, or damage.
    read.has_lost = left(read) > 0;
    Ok(true)
}
