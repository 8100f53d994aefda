//! The journal of source queues: what they still have to send, on the disk.
//!
//! An entry is appended by the request that wrote the record, without a sync of its own, so that it is as
//! durable as the write itself: it survives the death of the process. A background task syncs the journal
//! once a second. All queues of the node share it; an entry names the queues that it waits in. Files are
//! named `source-` and their number in hexadecimal, and are removed when no queue has an entry in them.

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

/// A file that has grown to this is followed by a new one.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// The number of a queue in the journal. Never given to another queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct QueueNumber(pub(crate) u32);

/// The queues that an entry waits in.
pub(crate) type QueueNumbers = SmallVec<[QueueNumber; 4]>;

/// A place in the journal.
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

/// Entries that were read, and where the next ones are.
#[derive(Debug)]
pub(crate) struct JournalRead {
    pub(crate) entries: Vec<JournalEntry>,
    /// The offset behind each entry.
    pub(crate) ends: Vec<u64>,
    pub(crate) next: Cursor,
    /// Whether nothing is behind them.
    pub(crate) at_end: bool,
    /// Whether something between them could not be read.
    pub(crate) has_lost: bool,
}

/// The part of the journal behind a place, to be read without holding up those that append.
pub(crate) struct JournalReader {
    /// The file of the place, or the first one behind it; `None` at the end.
    file: Option<JournalFile>,
    /// The file after that.
    next_file: Option<u32>,
    from: Cursor,
}

#[derive(Clone)]
struct JournalFile {
    number: u32,
    file: Arc<dyn DiskFile>,
    size_bytes: u64,
    /// No entry of the file has a lower sequence number.
    first: EntrySequence,
}

/// The open journal.
pub(crate) struct Journal {
    disk: Arc<dyn Disk>,
    files: VecDeque<JournalFile>,
    next_number: u32,
    /// Whether the last file may be appended to: its end is not known after a fault, or after a restart.
    is_active: bool,
    /// Full files that are not synced yet.
    unsynced: Vec<Arc<dyn DiskFile>>,
    /// Whether files were made since the directory was synced.
    has_new_files: bool,
    buffer: Vec<u8>,
}

impl Journal {
    /// Opens the journal and leaves what is there to [`Journal::read`], from [`Journal::start`] on.
    ///
    /// # Errors
    ///
    /// When the disk refuses, or has files of a newer release.
    pub(crate) fn open(disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        let numbered = |name: &String| {
            let number = name.strip_prefix(PREFIX)?;
            u32::from_str_radix(number, 16).ok()
        };
        let mut numbers: Vec<u32> = disk.list()?.iter().filter_map(numbered).collect();
        numbers.sort_unstable();
        let next_number = numbers.last().map_or(1, |number| number + 1);
        let mut files = VecDeque::new();
        for number in numbers {
            let file = disk.open(&file_name(number), false)?;
            let size_bytes = file.size_bytes()?;
            let mut head = [0; FILE_HEAD_BYTES];
            let count = file.read_at(&mut head, 0)?;
            // A file whose head was never written whole has no entries.
            let Some(first) = read_head(&head[..count], &disk.path(), number)? else { continue };
            files.push_back(JournalFile { number, file, size_bytes, first });
        }
        Ok(Self {
            disk,
            files,
            next_number,
            is_active: false,
            unsynced: Vec::new(),
            has_new_files: false,
            buffer: Vec::new(),
        })
    }

    /// The place of the oldest entry.
    pub(crate) fn start(&self) -> Cursor {
        let file = self.files.front().map_or(self.next_number, |file| file.number);
        Cursor { file, offset: FILE_HEAD_BYTES as u64 }
    }

    /// The place of the next entry.
    pub(crate) fn end(&self) -> Cursor {
        match self.files.back() {
            Some(file) if self.is_active => Cursor { file: file.number, offset: file.size_bytes },
            _ => Cursor { file: self.next_number, offset: FILE_HEAD_BYTES as u64 },
        }
    }

    /// The lowest sequence number that an entry may have; `None` without files.
    pub(crate) fn first(&self) -> Option<EntrySequence> {
        self.files.front().map(|file| file.first)
    }

    /// The beginning of the newest file that has no entry of a sequence number behind it only.
    pub(crate) fn file_of(&self, sequence: EntrySequence) -> Cursor {
        let file = self.files.iter().rev().find(|file| file.first <= sequence);
        let begin =
            |file: &JournalFile| Cursor { file: file.number, offset: FILE_HEAD_BYTES as u64 };
        file.map_or_else(|| self.start(), begin)
    }

    /// The place of the newest file, and the lowest sequence number that an entry of it may have.
    pub(crate) fn newest_file(&self) -> Option<(Cursor, EntrySequence)> {
        let file = self.files.back()?;
        Some((Cursor { file: file.number, offset: FILE_HEAD_BYTES as u64 }, file.first))
    }

    /// Bytes of all files.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).sum()
    }

    /// Appends an entry and returns its place: one write, no sync.
    ///
    /// # Errors
    ///
    /// When the disk refuses: the entry may be there after a restart.
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
        let at = Cursor { file: file.number, offset: file.size_bytes };
        let written = file.file.write_at(&buffer, file.size_bytes);
        file.size_bytes += if written.is_ok() { buffer.len() as u64 } else { 0 };
        self.is_active = written.is_ok();
        self.buffer = buffer;
        Ok(written.map(|()| at)?)
    }

    fn begin_file(&mut self, first: EntrySequence) -> Result<(), StoreError> {
        // Those who queue don't wait for the disk: the next flush syncs it.
        self.unsynced.extend(self.active_file());
        let number = self.next_number;
        self.next_number += 1;
        let file = self.disk.open(&file_name(number), true)?;
        file.write_at(&file_head(number, first), 0)?;
        let size_bytes = FILE_HEAD_BYTES as u64;
        self.files.push_back(JournalFile { number, file, size_bytes, first });
        self.is_active = true;
        self.has_new_files = true;
        Ok(())
    }

    /// Whether the directory has to be synced for files that were made since the last call.
    pub(crate) fn take_new_files(&mut self) -> bool {
        std::mem::take(&mut self.has_new_files)
    }

    /// The files to sync, so that the caller does it without holding up those that append.
    pub(crate) fn take_unsynced(&mut self) -> Vec<Arc<dyn DiskFile>> {
        let mut files = std::mem::take(&mut self.unsynced);
        files.extend(self.active_file());
        files
    }

    fn active_file(&self) -> Option<Arc<dyn DiskFile>> {
        self.files.back().filter(|_| self.is_active).map(|file| Arc::clone(&file.file))
    }

    /// The directory, to be synced after files were made or removed.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Removes files all of whose entries come before `needed`. Returns how many.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
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

    /// Removes the oldest files while all of them have more bytes than this; the newest stays. Returns how
    /// many.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub(crate) fn shrink(&mut self, bytes_max: u64) -> Result<usize, StoreError> {
        let mut count = 0;
        while self.size_bytes() > bytes_max
            && let Some(second) = self.files.get(1)
        {
            count += self.retire(second.first)?.max(1);
        }
        Ok(count)
    }

    /// Reads about 64 KiB of entries from a place on.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub(crate) fn read(&self, from: Cursor) -> Result<JournalRead, StoreError> {
        self.reader(from).read()
    }

    /// The part of the journal behind a place.
    pub(crate) fn reader(&self, from: Cursor) -> JournalReader {
        // A place in a file that has gone is the beginning of the next one.
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
    /// The file that is read from.
    pub(crate) fn file_number(&self) -> Option<u32> {
        self.file.as_ref().map(|file| file.number)
    }

    /// Reads about 64 KiB of entries.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
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
        Ok(read)
    }
}

/// Reads entries of a file from `read.next` on; whether its end was reached.
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
            // One that is longer than all that was read.
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
    // The end, what a crash has torn there, or damage.
    read.has_lost = left(read) > 0;
    Ok(true)
}
