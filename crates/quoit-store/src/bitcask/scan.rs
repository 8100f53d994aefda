//! Sequential reading of a segment's records, past damage.

use super::planted;
use super::record::{
    self, ALIGNMENT_BYTES, BATCH_PREFIX_BYTES, HEADER_BYTES, Position, RecordHeader, RecordKind,
};
use crate::error::StoreError;
use quoit_model::store_opening::StoreId;
use quoit_number::index;
use quoit_planted::PlantedFault;
use quoit_seam::DiskFile;
use std::sync::Arc;

/// Number of bytes read at once, unless a record is larger.
const WINDOW_BYTES: usize = 1 << 20;

const ALIGNMENT: u64 = ALIGNMENT_BYTES as u64;

/// A verified record of a segment. A batch appears as the records that it contains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scanned<'s> {
    pub(super) header: RecordHeader,
    /// Offset of the record.
    pub(super) offset: u64,
    /// Key and value.
    pub(super) body: &'s [u8],
}

impl<'s> Scanned<'s> {
    /// The encoded key.
    pub(super) fn key(&self) -> &'s [u8] {
        self.body.split_at(self.header.key_bytes.into()).0
    }

    /// The value.
    pub(super) fn value(&self) -> &'s [u8] {
        self.body.split_at(self.header.key_bytes.into()).1
    }
}

/// A range of a segment without usable records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Damage {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// A scan of a segment.
///
/// A record with a good header and a damaged body is skipped by its size. After a damaged header, the scan
/// looks for the next good header at each multiple of 16. A record of a batch counts only within a batch
/// whose checksum is right.
pub(super) struct Scan {
    position: Position,
    window: Window,
    /// Offset at which to look for the next header.
    next: u64,
    /// Records before this offset are in a batch whose checksum was verified.
    batch_end: u64,
    damage_start: Option<u64>,
    damages: Vec<Damage>,
}

impl Scan {
    /// Starts at `from`, where a record must start unless the file ends there.
    pub(super) fn new(
        file: Arc<dyn DiskFile>,
        store_id: StoreId,
        segment: u32,
        from: u64,
    ) -> Result<Self, StoreError> {
        let size_bytes = file.size_bytes()?;
        Ok(Self {
            position: Position { store_id, segment, offset: from },
            window: Window { file, size_bytes, bytes: Vec::new(), at: from },
            next: from,
            batch_end: 0,
            damage_start: None,
            damages: Vec::new(),
        })
    }

    /// The next record; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Scanned<'_>>, StoreError> {
        while let Some(header) = self.next_header()? {
            let (header, check) = header;
            let offset = self.next;
            let in_checked_batch = offset < self.batch_end;
            let accepts_torn = planted::has(PlantedFault::AcceptsTornBatches);
            if header.in_batch != in_checked_batch && !accepts_torn {
                // The record belongs to a batch whose frame is damaged.
                self.skip(header.padded_bytes());
                continue;
            }
            let body_bytes = index(header.record_bytes() - HEADER_BYTES as u64);
            let body = self.window.read(offset + HEADER_BYTES as u64, body_bytes)?;
            let is_cut = body.len() < body_bytes;
            let is_good = !is_cut && record::body_check(self.position.store_id, body) == check;
            let is_batch = header.kind == RecordKind::Batch;
            if !(is_good || is_batch && accepts_torn) {
                // If the file ends within the record, its size may be wrong.
                self.skip(if is_cut { ALIGNMENT } else { header.padded_bytes() });
                continue;
            }
            self.end_damage(offset);
            if is_batch {
                self.batch_end = offset + header.padded_bytes();
                self.next = offset + (HEADER_BYTES + BATCH_PREFIX_BYTES) as u64;
                continue;
            }
            self.next = offset + header.padded_bytes();
            let body = self.window.read(offset + HEADER_BYTES as u64, body_bytes)?;
            return Ok(Some(Scanned { header, offset, body }));
        }
        Ok(None)
    }

    /// Offset that the scan has reached.
    pub(super) fn offset(&self) -> u64 {
        self.next
    }

    /// True if another scan can start at the current offset: it is outside of batches, and a good record
    /// ends there.
    pub(super) fn is_between(&self) -> bool {
        self.next >= self.batch_end && self.damage_start.is_none()
    }

    /// The damaged ranges so far that a good record follows.
    pub(super) fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// Number of bytes at the end of the file without a record: a torn write. Valid only at the end of the
    /// scan.
    pub(super) fn torn_bytes(&self) -> u64 {
        let end = self.window.size_bytes;
        end.saturating_sub(self.damage_start.unwrap_or(self.next))
    }

    /// Moves to the next good header. Returns `None` at the end of the file.
    fn next_header(&mut self) -> Result<Option<(RecordHeader, u64)>, StoreError> {
        loop {
            let offset = self.next;
            let bytes = self.window.read(offset, HEADER_BYTES)?;
            if bytes.len() < HEADER_BYTES {
                return Ok(None);
            }
            let position = Position { offset, ..self.position };
            if record::has_magic(bytes)
                && let Some(found) = record::decode(bytes, &position)
            {
                return Ok(Some(found));
            }
            self.skip(ALIGNMENT);
        }
    }

    fn skip(&mut self, size_bytes: u64) {
        self.damage_start.get_or_insert(self.next);
        self.next += size_bytes;
    }

    fn end_damage(&mut self, end: u64) {
        if let Some(start) = self.damage_start.take() {
            self.damages.push(Damage { start, end });
        }
    }
}

/// A range of the file in memory.
struct Window {
    file: Arc<dyn DiskFile>,
    size_bytes: u64,
    bytes: Vec<u8>,
    /// Offset of the first byte in the file.
    at: u64,
}

impl Window {
    /// The bytes from `offset` on; fewer than `size` only at the end of the file.
    fn read(&mut self, offset: u64, size: usize) -> Result<&[u8], StoreError> {
        let left = self.size_bytes.saturating_sub(offset);
        let size = index(left.min(size as u64));
        let held = self.at..=self.at + self.bytes.len() as u64;
        if !held.contains(&offset) || !held.contains(&(offset + size as u64)) {
            let wanted = index(left.min(size.max(WINDOW_BYTES) as u64));
            self.bytes.resize(wanted, 0);
            let count = self.file.read_at(&mut self.bytes, offset)?;
            self.bytes.truncate(count);
            self.at = offset;
        }
        let start = index(offset - self.at);
        let end = (start + size).min(self.bytes.len());
        Ok(self.bytes.get(start..end).unwrap_or_default())
    }
}
