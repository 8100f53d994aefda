//! Reading of one record by its index entry.

use super::buffer::ReadBuffer;
use super::record::{self, HEADER_BYTES, Position, RecordHeader};
use super::segment::SegmentTable;
use crate::engine::{FRONT_BYTES, IoMode, Record, RecordAt, RecordRef};
use crate::error::StoreError;
use crate::file_names::log_name;
use crate::frame;
use crate::index::IndexEntry;
use bytes::{Buf, Bytes};
use quoit_model::store_opening::StoreId;
use quoit_number::index;
use quoit_seam::ReadAt;
use smallvec::SmallVec;

/// The index entries that may belong to a record; rarely more than one.
pub(super) type Entries = SmallVec<[IndexEntry; 2]>;

/// Part of a record that a caller wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadPart {
    /// The whole record; the body's checksum is verified.
    Whole,
    /// Header, key and the first bytes of the value; the body's checksum is verified if that is the whole
    /// record.
    Front,
    /// Header and key.
    Key,
}

/// The verified bytes of a record, from its header on.
pub(super) struct StoredRecord {
    pub(super) header: RecordHeader,
    /// Number of bytes that were read.
    size_bytes: usize,
    buffer: ReadBuffer,
}

impl StoredRecord {
    /// True if this is the record `at`.
    fn is_of(&self, at: &RecordAt<'_>) -> bool {
        self.header.identity == at.identity
            && usize::from(self.header.key_bytes) == at.encoded.len()
            && self
                .buffer
                .get(HEADER_BYTES..self.size_bytes)
                .is_some_and(|body| body.starts_with(at.encoded))
    }

    /// True if this record has the identity of `at` but another name.
    fn is_namesake(&self, at: &RecordAt<'_>) -> bool {
        self.header.identity == at.identity && !self.is_of(at)
    }

    /// Shows the record, or its first bytes if no more was read. A large record is shown in a buffer that
    /// can be shared.
    #[expect(
        clippy::indexing_slicing,
        reason = "a record that is shown was read at least up to its value"
    )]
    pub(super) fn shown(self, look: &mut dyn FnMut(&RecordRef<'_>)) {
        let is_whole = self.size_bytes as u64 == self.header.record_bytes();
        if self.buffer.is_kept() {
            let value_at = HEADER_BYTES + usize::from(self.header.key_bytes);
            let value = &self.buffer[value_at..self.size_bytes];
            look(&RecordRef { meta: self.header.meta, value, is_whole, owner: None });
        } else {
            look(&RecordRef { is_whole, ..RecordRef::shared(&self.into_record()) });
        }
    }

    /// The encoded key, as far as it was read.
    #[cfg(test)]
    pub(super) fn key(&self) -> &[u8] {
        let end = self.size_bytes.min(HEADER_BYTES + usize::from(self.header.key_bytes));
        &self.buffer[HEADER_BYTES..end]
    }

    /// The record.
    pub(super) fn into_record(self) -> Record {
        self.into_key_and_record().1
    }

    /// Encoded key and record, which share one buffer.
    pub(super) fn into_key_and_record(self) -> (Bytes, Record) {
        let key_bytes = usize::from(self.header.key_bytes);
        let mut value = Bytes::from(self.buffer.into_vec(self.size_bytes));
        value.advance(HEADER_BYTES);
        let key = value.split_to(key_bytes);
        (key, Record { meta: self.header.meta, value })
    }
}

/// A damaged record among the entries of a tag.
#[derive(Clone, Copy)]
pub(super) struct DamagedRecord {
    pub(super) entry: IndexEntry,
    /// True if the records of all other entries were read and have other names.
    is_only_choice: bool,
}

impl DamagedRecord {
    /// The entry that a write of the wanted record replaces. The damaged record counts as the wanted one if
    /// no other record can be it, so a write repairs damage.
    pub(super) fn replaced(&self) -> Option<IndexEntry> {
        self.is_only_choice.then_some(self.entry)
    }
}

/// Outcome of looking for a record among entries.
pub(super) enum Lookup {
    /// No entry belongs to the record.
    Absent,
    /// This entry belongs to the record.
    Present(IndexEntry, StoredRecord),
    /// The record of an entry is damaged, and may be the wanted one.
    Damaged(DamagedRecord, StoreError),
    /// The record is only on disk, and the caller must not wait.
    WouldBlock,
}

/// Outcome of reading one record.
pub(super) enum LoadedRecord {
    Stored(StoredRecord),
    Damaged(StoreError),
    WouldBlock,
}

/// Reads the records of one store.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) store_id: StoreId,
    /// The data directory, for error messages.
    pub(super) directory: String,
}

impl Reader {
    /// Finds the record `at` among `entries`. Reads one record, unless tags collide or a name is damaged.
    pub(super) fn find(
        &self,
        table: &SegmentTable,
        entries: &[IndexEntry],
        at: &RecordAt<'_>,
        part: ReadPart,
        access: IoMode,
    ) -> Result<Lookup, StoreError> {
        let mut damaged: Option<(DamagedRecord, StoreError)> = None;
        for entry in entries {
            let load = |part| self.load(table, entry, at.encoded.len(), part, access);
            let loaded = match load(part)? {
                // Two names with one 64-bit identity are very unlikely. More likely the name of this record
                // is damaged, and only the checksum of the whole body can tell.
                LoadedRecord::Stored(stored)
                    if stored.is_namesake(at) && part != ReadPart::Whole =>
                {
                    load(ReadPart::Whole)?
                }
                loaded => loaded,
            };
            match loaded {
                LoadedRecord::WouldBlock => return Ok(Lookup::WouldBlock),
                LoadedRecord::Damaged(error) => {
                    let is_only_choice = damaged.is_none();
                    damaged = Some((DamagedRecord { entry: *entry, is_only_choice }, error));
                }
                LoadedRecord::Stored(stored) => {
                    if stored.is_of(at) {
                        return Ok(Lookup::Present(*entry, stored));
                    }
                }
            }
        }
        Ok(damaged.map_or(Lookup::Absent, |(record, error)| Lookup::Damaged(record, error)))
    }

    /// Reads the record that an entry refers to, with one positioned read. With [`ReadPart::Key`], keys
    /// longer than `key_bytes` are cut off.
    #[expect(
        clippy::indexing_slicing,
        reason = "`wanted`, `count` and `needed` are at most the size of the buffer"
    )]
    pub(super) fn load(
        &self,
        table: &SegmentTable,
        entry: &IndexEntry,
        key_bytes: usize,
        part: ReadPart,
        access: IoMode,
    ) -> Result<LoadedRecord, StoreError> {
        let (number, offset) = (entry.location.segment(), entry.location.offset_bytes());
        let damaged = |reason: &str| {
            Ok(LoadedRecord::Damaged(StoreError::Corrupt {
                path: format!("{}/{}", self.directory, log_name(number)),
                offset,
                reason: reason.to_owned(),
            }))
        };
        let Some(segment) = table.get(number) else {
            return damaged("the segment is missing");
        };
        let size_bytes_max = index(entry.size_class.size_bytes_max());
        // In a compressed value, the front follows the header of the frame.
        let front_bytes = HEADER_BYTES + key_bytes + frame::HEADER_BYTES + FRONT_BYTES;
        let wanted = match part {
            ReadPart::Whole => size_bytes_max,
            ReadPart::Front => front_bytes.min(size_bytes_max),
            ReadPart::Key => HEADER_BYTES + key_bytes,
        };
        let wanted = wanted.max(HEADER_BYTES);
        let mut buffer = ReadBuffer::take(wanted);
        let mut checks_body = part != ReadPart::Key;
        let count = match access {
            IoMode::Wait => segment.file.read_at(&mut buffer[..wanted], offset)?,
            IoMode::NoWait => match segment.file.read_at_nowait(&mut buffer[..wanted], offset)? {
                ReadAt::Read(count) => count,
                ReadAt::Kept => {
                    checks_body = false;
                    wanted
                }
                ReadAt::WouldBlock => return Ok(LoadedRecord::WouldBlock),
            },
        };
        let cut_off = |needed: usize| count < needed;
        if cut_off(HEADER_BYTES) && access == IoMode::NoWait {
            return Ok(LoadedRecord::WouldBlock);
        }
        let position = Position { store_id: self.store_id, segment: number, offset };
        let Some((header, check)) = record::decode(&buffer[..count], &position) else {
            return damaged("the header of a record is damaged");
        };
        let needed = match part {
            ReadPart::Whole => index(header.record_bytes()),
            ReadPart::Front => front_bytes.min(index(header.record_bytes())),
            ReadPart::Key => HEADER_BYTES + key_bytes.min(usize::from(header.key_bytes)),
        };
        if cut_off(needed) {
            return match access {
                IoMode::NoWait => Ok(LoadedRecord::WouldBlock),
                IoMode::Wait => damaged("a record is cut off"),
            };
        }
        let body = &buffer[HEADER_BYTES..needed];
        let is_whole = needed as u64 == header.record_bytes();
        if is_whole && checks_body && record::body_check(self.store_id, body) != check {
            return damaged("the body of a record is damaged");
        }
        Ok(LoadedRecord::Stored(StoredRecord { header, size_bytes: needed, buffer }))
    }
}
