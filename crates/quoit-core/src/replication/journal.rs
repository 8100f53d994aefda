//! The journal of source queues: what they still have to send, on the disk.
//!
//! An entry is appended by the request that wrote the record, without a sync of its own, so that it is as
//! durable as the write itself: it survives the death of the process. A background task syncs the journal
//! once a second. All queues of the node share it; an entry names the queues that it waits in. Files are
//! named `source-` and their number in hexadecimal, and are removed when no queue has an entry in them.
//!
//! ```text
//! file head, 32 bytes:
//!   0  8  magic "QUOITSQ\n"
//!   8  4  format version 1
//!  12  4  number of the file
//!  16  8  sequence number that the next entry would have had when the file was made
//!  24  4  0
//!  28  4  the low half of XXH3-64 of all before
//! entry:
//!   0  4  the low half of XXH3-64 of the rest of the entry
//!   4  4  bytes of the entry, these included
//!   8  8  sequence number
//!  16  8  when it was queued, microseconds since 1970
//!  24  1  kind: 0 to be fetched, 1 tombstone, 2 reap; in the log of change feeds 3 put, 4 delete
//!  25  1  count of visited clusters
//!  26  1  count of queues
//!  27  1  0
//!  28  4  bytes of the record's name
//!  32     visited clusters, 16 bytes each; numbers of queues, 4 bytes each; the record's name;
//!         of a tombstone its stored form, of a reap its time (8 bytes) and its clock as clients get it,
//!         of a put or delete the record's clock as clients get it
//! ```
//!
//! Numbers are little-endian.

use super::entry::{
    EntryReference, EntrySequence, QueueEntry, VISITED_COUNT_MAX, Visited, VisitedCluster,
};
use bytes::Bytes;
use quoit_model::context::{decode_context, encode_context};
use quoit_store::error::StoreError;
use quoit_store::seam::{Disk, DiskFile};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

const PREFIX: &str = "source-";
const MAGIC: [u8; 8] = *b"QUOITSQ\n";
const VERSION: u32 = 1;
const FILE_HEAD_BYTES: usize = 32;
const ENTRY_HEAD_BYTES: usize = 32;
/// No entry is longer: a name, a tombstone or a clock, and lists with bounds of their own.
const ENTRY_BYTES_MAX: usize = 64 << 20;
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
        written.map(|()| at)
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

/// The name of the file of a number.
pub(super) fn file_name(number: u32) -> String {
    format!("{PREFIX}{number:08x}")
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    (xxh3_64(bytes) as u32).to_le_bytes()
}

/// The head of a file.
pub(super) fn file_head(number: u32, first: EntrySequence) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&VERSION.to_le_bytes());
    head.extend_from_slice(&number.to_le_bytes());
    head.extend_from_slice(&first.0.to_le_bytes());
    head.extend_from_slice(&[0; 4]);
    let sum = checksum(&head);
    head.extend_from_slice(&sum);
    assert_eq!(head.len(), FILE_HEAD_BYTES, "the head of a file has its length");
    head
}

/// The sequence number in a file's head; `None` for a head that is torn.
fn read_head(head: &[u8], path: &str, number: u32) -> Result<Option<EntrySequence>, StoreError> {
    let fits = head.len() == FILE_HEAD_BYTES
        && head.starts_with(&MAGIC)
        && checksum(&head[..28]) == head[28..32];
    if !fits {
        return Ok(None);
    }
    let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    if version != VERSION {
        return Err(StoreError::Corrupt {
            path: format!("{path}/{}", file_name(number)),
            offset: 8,
            reason: format!(
                "source queues of format {version}, of a newer release; start that release, or move the \
                 directory away and run full-sync"
            ),
        });
    }
    Ok(Some(EntrySequence(u64_at(head, 16))))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Appends an entry's bytes.
fn encode(entry: &QueueEntry, queues: &[QueueNumber], out: &mut Vec<u8>) {
    let start = out.len();
    let kind = match &entry.reference {
        EntryReference::Object(_) | EntryReference::ToFetch => 0,
        EntryReference::Tombstone(_) => 1,
        EntryReference::Reap { .. } => 2,
        EntryReference::Change { is_delete: false, .. } => 3,
        EntryReference::Change { is_delete: true, .. } => 4,
    };
    let visited = &entry.visited[..entry.visited.len().min(VISITED_COUNT_MAX)];
    let queues = &queues[..queues.len().min(usize::from(u8::MAX))];
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&entry.sequence.0.to_le_bytes());
    out.extend_from_slice(&entry.queued_us.to_le_bytes());
    out.extend_from_slice(&[kind, visited.len() as u8, queues.len() as u8, 0]);
    out.extend_from_slice(&(entry.key.len() as u32).to_le_bytes());
    visited.iter().for_each(|cluster| out.extend_from_slice(cluster));
    queues.iter().for_each(|queue| out.extend_from_slice(&queue.0.to_le_bytes()));
    out.extend_from_slice(&entry.key);
    match &entry.reference {
        EntryReference::Object(_) | EntryReference::ToFetch => {}
        EntryReference::Tombstone(stored) => out.extend_from_slice(stored),
        EntryReference::Reap { clock, reaped_us } => {
            out.extend_from_slice(&reaped_us.to_le_bytes());
            out.extend_from_slice(&encode_context(clock));
        }
        EntryReference::Change { context, .. } => out.extend_from_slice(context),
    }
    let length = (out.len() - start) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&sum);
}

/// Entries as they stand in a file behind its head.
pub(super) fn journal_bytes(entries: &[QueueEntry], queues: &[QueueNumber]) -> Vec<u8> {
    let mut bytes = Vec::new();
    entries.iter().for_each(|entry| encode(entry, queues, &mut bytes));
    bytes
}

/// The length that an entry says it has; `None` where no entry can be.
fn length_of(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < ENTRY_HEAD_BYTES {
        return None;
    }
    let length = u32_at(bytes, 4) as usize;
    (ENTRY_HEAD_BYTES..=ENTRY_BYTES_MAX).contains(&length).then_some(length)
}

/// Reads the bytes of one entry; `None` for damaged ones.
fn decode(bytes: &Bytes) -> Option<JournalEntry> {
    if length_of(bytes)? != bytes.len() || checksum(&bytes[4..]) != bytes[..4] {
        return None;
    }
    let (kind, visited_count, queue_count) = (bytes[24], bytes[25], bytes[26]);
    let key_len = u32_at(bytes, 28) as usize;
    let mut rest = bytes.slice(ENTRY_HEAD_BYTES..);
    let mut part = |len: usize| (rest.len() >= len).then(|| rest.split_to(len));
    let visited = part(usize::from(visited_count) * 16)?;
    let visited: Visited =
        visited.chunks_exact(16).filter_map(|id| VisitedCluster::try_from(id).ok()).collect();
    let queues = part(usize::from(queue_count) * 4)?;
    let queues = queues.chunks_exact(4).map(|number| QueueNumber(u32_at(number, 0))).collect();
    let key = part(key_len)?;
    let reference = match kind {
        0 => EntryReference::ToFetch,
        1 => EntryReference::Tombstone(rest),
        2 if rest.len() >= 8 => EntryReference::Reap {
            reaped_us: u64_at(&rest, 0),
            clock: decode_context(&rest[8..]).ok()?,
        },
        3 | 4 => EntryReference::Change { is_delete: kind == 4, context: rest },
        _ => return None,
    };
    let sequence = EntrySequence(u64_at(bytes, 8));
    let queued_us = u64_at(bytes, 16);
    let entry = QueueEntry { sequence, key, reference, visited, queued_us, is_again: false };
    Some(JournalEntry { entry, queues })
}
