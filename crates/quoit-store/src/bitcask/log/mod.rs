//! The end of the log, where records are appended.
//!
//! Appending assigns sequence and position under one short lock, and writes there, so the log is in the
//! order of sequences. A failed write leaves the end where it was: the next record overwrites the written
//! part. Its sequence is never used again.

mod position;
mod segments;
mod sync;

pub(super) use position::{LogPosition, LogStart};

use super::disk_reserve::DiskReserve;
use super::keys::ActiveKeys;
use super::log_end::{LogEnd, Sealed};
use super::recent::RecentWrites;
use super::record::{self, ALIGNMENT_BYTES, HEADER_BYTES, Position, RecordHeader, RecordKind};
use super::segment::{SEGMENT_HEADER_BYTES, SegmentOrigin, SegmentTable};
use super::segment_creator::SegmentCreator;
use super::settings::BitcaskSettings;
use super::synced::SyncedDistance;
use crate::engine::RecordMeta;
use crate::error::StoreError;
use crate::index::Location;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use quoit_model::hash::{Identity, Partition};
use quoit_model::store_opening::StoreId;
use quoit_number::{index, length_u32};
use quoit_seam::{Clock, Disk, DiskError, DiskFile, WorkerHandle};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Sequence and location of an appended record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Appended {
    pub(super) sequence: u64,
    pub(super) location: Location,
}

/// The end of the log. Appends hold one lock, for a short time.
pub(super) struct Log {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    table: Arc<ArcSwap<SegmentTable>>,
    recent: Option<Arc<RecentWrites>>,
    limits: LogLimits,
    identity: LogIdentity,
    tail: Mutex<LogEnd>,
    /// Sequence of the last record appended.
    written: AtomicU64,
    /// The position up to which the log is durable, as [`position::packed`].
    synced: AtomicU64,
    /// Bytes appended since the store was opened.
    written_bytes: AtomicU64,
    disk_full: AtomicBool,
    sealed_count: AtomicU64,
    /// Workers that are woken when a segment was closed.
    followers: OnceLock<Vec<Arc<dyn WorkerHandle>>>,
}

/// Disk, clock and shared parts of the store that a log uses.
pub(super) struct LogContext {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) table: Arc<ArcSwap<SegmentTable>>,
    /// Cache of recent writes of requests.
    pub(super) recent: Option<Arc<RecentWrites>>,
}

/// Limits at which a segment is closed, and space that must stay free.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLimits {
    pub(super) file_bytes: u64,
    pub(super) key_buffer_bytes: usize,
    /// Bytes of free space on the disk that appends must leave.
    pub(super) reserved_disk_bytes: u64,
}

impl LogLimits {
    pub(super) fn of(settings: &BitcaskSettings) -> Self {
        Self {
            file_bytes: settings.max_file_size_bytes.min(Location::OFFSET_END_BYTES),
            key_buffer_bytes: settings.key_buffer_bytes,
            reserved_disk_bytes: settings.reserved_disk_bytes,
        }
    }
}

/// Identity of the store, which the headers of its segments contain.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogIdentity {
    pub(super) store_id: StoreId,
    pub(super) incarnation: u64,
}

impl Log {
    /// Begins a segment after `last_number`; it uses the sequence `next_sequence`. `sealed` are older
    /// segments that still need a key file.
    pub(super) fn begin(
        seams: LogContext,
        limits: LogLimits,
        identity: LogIdentity,
        start: LogStart,
        sealed: Vec<Sealed>,
    ) -> Result<Self, StoreError> {
        let LogContext { disk, clock, table, recent } = seams;
        let begun =
            SegmentCreator { disk: &*disk, clock: &*clock, recent: recent.as_ref(), identity };
        let sequence = start.next_sequence;
        let active = begun.segment(
            &table.load(),
            start.last_number,
            (SegmentOrigin::Log, None),
            sequence,
        )?;
        table.store(Arc::new(table.load().with(Arc::clone(&active))));
        let sealed_count = AtomicU64::new(sealed.len() as u64);
        let tail = LogEnd {
            last_number: active.number,
            end: SEGMENT_HEADER_BYTES,
            keys: Arc::new(ActiveKeys::new(active.number)),
            active,
            next_sequence: sequence + 1,
            unsynced: Vec::new(),
            directory_changed: true,
            sealed,
            reserve: DiskReserve::new(limits.reserved_disk_bytes),
            refused: None,
        };
        tail.debug_check(&table.load());
        tail.debug_check_closed();
        Ok(Self {
            disk,
            clock,
            table,
            recent,
            limits,
            identity,
            tail: Mutex::new(tail),
            written: AtomicU64::new(sequence),
            synced: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            disk_full: AtomicBool::new(false),
            sealed_count,
            followers: OnceLock::new(),
        })
    }

    /// Appends one record: completes its header in `bytes` (header, key, value), pads it and writes it.
    /// After an error nothing was appended.
    pub(super) fn append(
        &self,
        header: &RecordHeader,
        body_check: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<Appended, StoreError> {
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT_BYTES), 0);
        // Otherwise a start would read another record here, or none.
        assert_eq!(bytes.len() as u64, header.padded_bytes(), "the header fits its record");
        self.append_by(header, body_check, bytes, |file, bytes, end| file.write_at(bytes, end))
    }

    /// As [`Log::append`], for a record of which only header, key and the beginning of the value are in
    /// `front`. The rest is written from its own buffer.
    #[expect(clippy::indexing_slicing, reason = "padding is shorter than the alignment")]
    pub(super) fn append_large(
        &self,
        header: &RecordHeader,
        body_check: u64,
        front: &mut [u8],
        rest: &[u8],
    ) -> Result<Appended, StoreError> {
        let record_bytes = (front.len() + rest.len()) as u64;
        // Otherwise a start would read another record here, or none.
        assert_eq!(record_bytes, header.record_bytes(), "the header fits its record");
        let padding = &[0; ALIGNMENT_BYTES][..index(header.padded_bytes() - record_bytes)];
        self.append_by(header, body_check, front, |file, front, end| {
            file.write_parts_at(&[front, rest, padding], end)
        })
    }

    /// Completes the header in `front`, and appends the record with `write`, which gets the file, `front`
    /// and the end of the log.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a record has its key behind the header")]
    fn append_by(
        &self,
        header: &RecordHeader,
        body_check: u64,
        front: &mut [u8],
        write: impl FnOnce(&dyn DiskFile, &[u8], u64) -> Result<(), DiskError>,
    ) -> Result<Appended, StoreError> {
        let size_bytes = header.padded_bytes();
        let mut tail = self.tail.lock();
        self.make_room(&mut tail, size_bytes)?;
        let sequence = tail.next_sequence;
        let position = self.position(&tail);
        let synced = self.synced_before(&position);
        record::encode(&RecordHeader { sequence, synced, ..*header }, body_check, &position, front);
        self.write(&mut tail, size_bytes, 1, |file, end| write(file, front, end))?;
        let key_end = HEADER_BYTES + usize::from(header.key_bytes);
        let key = &front[HEADER_BYTES..key_end];
        let header = RecordHeader { sequence, ..*header };
        Ok(Appended { sequence, location: tail.note(key, &header, position.offset) })
    }

    /// Appends a batch. `bytes` has room for the header of the batch, then [`record::BATCH_PREFIX_BYTES`]
    /// and the padded records, whose headers and body checksums are given in the same order. Returns the
    /// sequence and location of each record.
    #[expect(clippy::indexing_slicing, reason = "the headers fit the batch, which is asserted")]
    pub(super) fn append_batch(
        &self,
        headers: &[RecordHeader],
        checks: &[u64],
        bytes: &mut [u8],
    ) -> Result<Vec<Appended>, StoreError> {
        let content: u64 = headers.iter().map(RecordHeader::padded_bytes).sum();
        let prefix = (HEADER_BYTES + record::BATCH_PREFIX_BYTES) as u64;
        // Otherwise a start would read other records here, or none.
        assert_eq!(bytes.len() as u64, prefix + content, "the headers fit the batch");
        assert_eq!(headers.len(), checks.len(), "each record of a batch has a checksum");
        let mut tail = self.tail.lock();
        self.make_room(&mut tail, bytes.len() as u64)?;
        let first = tail.next_sequence;
        let base = self.position(&tail);
        let mut at = HEADER_BYTES + record::BATCH_PREFIX_BYTES;
        for ((header, check), sequence) in headers.iter().zip(checks).zip(first..) {
            let position = Position { offset: base.offset + at as u64, ..base };
            let header =
                RecordHeader { sequence, synced: self.synced_before(&position), ..*header };
            record::encode(&header, *check, &position, &mut bytes[at..]);
            at += index(header.padded_bytes());
        }
        let frame = batch_frame(first, bytes.len() - HEADER_BYTES);
        let check = record::body_check(base.store_id, &bytes[HEADER_BYTES..]);
        record::encode(&frame, check, &base, bytes);
        let size_bytes = bytes.len() as u64;
        self.write(&mut tail, size_bytes, headers.len() as u64, |file, end| {
            file.write_at(bytes, end)
        })?;
        let mut at = HEADER_BYTES + record::BATCH_PREFIX_BYTES;
        let mut appended = Vec::with_capacity(headers.len());
        for (header, sequence) in headers.iter().zip(first..) {
            let key = &bytes[at + HEADER_BYTES..][..usize::from(header.key_bytes)];
            let header = RecordHeader { sequence, ..*header };
            let location = tail.note(key, &header, base.offset + at as u64);
            appended.push(Appended { sequence, location });
            at += index(header.padded_bytes());
        }
        Ok(appended)
    }

    /// Refuses all further records with this error. The first reason stays.
    pub(super) fn refuse(&self, reason: StoreError) {
        self.tail.lock().refused.get_or_insert(reason);
    }

    /// Sequence of the last record appended. No lock.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Bytes appended since the store was opened. No lock.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// True if the last append failed because the disk was full. No lock.
    pub(super) fn disk_full(&self) -> bool {
        self.disk_full.load(Ordering::Relaxed)
    }

    /// The current end of the log.
    pub(super) fn end(&self) -> LogPosition {
        let tail = self.tail.lock();
        LogPosition { sequence: tail.next_sequence, segment: tail.active.number, offset: tail.end }
    }

    /// Limits at which a segment is closed.
    pub(super) fn limits(&self) -> LogLimits {
        self.limits
    }

    fn position(&self, tail: &LogEnd) -> Position {
        Position { store_id: self.identity.store_id, segment: tail.active.number, offset: tail.end }
    }

    /// Begins a new segment if the active one has no room for this many bytes.
    fn make_room(&self, tail: &mut LogEnd, size_bytes: u64) -> Result<(), StoreError> {
        if let Some(reason) = &tail.refused {
            return Err(reason.clone());
        }
        tail.reserve.take(&*self.disk, size_bytes).inspect_err(|error| self.note_failure(error))?;
        let file_full = tail.end + size_bytes > self.limits.file_bytes;
        let keys_full = tail.keys.memory_bytes() > self.limits.key_buffer_bytes;
        if (file_full || keys_full) && tail.end > SEGMENT_HEADER_BYTES {
            return self.roll_tail(tail).inspect_err(|error| self.note_failure(error));
        }
        Ok(())
    }

    /// Writes `size_bytes` at the end of the log with `write`, which gets the file and the end.
    #[inline]
    fn write(
        &self,
        tail: &mut LogEnd,
        size_bytes: u64,
        sequences: u64,
        write: impl FnOnce(&dyn DiskFile, u64) -> Result<(), DiskError>,
    ) -> Result<(), StoreError> {
        debug_assert!(self.written() < tail.next_sequence, "no sequence is used twice");
        // A failed write uses up its sequences too, so that no two records ever share one.
        tail.next_sequence += sequences;
        if let Err(error) = write(&*tail.active.file, tail.end) {
            // A part may have been written. The next record overwrites it; truncating also gives its space
            // back. If truncating fails too, nothing changes.
            let cut = tail.active.file.truncate(tail.end);
            tracing::warn!(%error, cut = cut.is_ok(), "a record could not be appended");
            let error = StoreError::from(error);
            self.note_failure(&error);
            return Err(error);
        }
        tail.end += size_bytes;
        self.written.store(tail.next_sequence - 1, Ordering::Release);
        self.written_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        if cfg!(debug_assertions) {
            tail.debug_check(&self.table.load());
        }
        if self.disk_full.load(Ordering::Relaxed) {
            self.disk_full.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn note_failure(&self, error: &StoreError) {
        if matches!(error, StoreError::DiskFull { .. }) {
            self.disk_full.store(true, Ordering::Relaxed);
        }
    }
}

fn batch_frame(sequence: u64, body_bytes: usize) -> RecordHeader {
    RecordHeader {
        sequence,
        kind: RecordKind::Batch,
        replaces: false,
        shares_tag: false,
        in_batch: false,
        partition: Partition(0),
        identity: Identity(0),
        key_bytes: 0,
        value_bytes: length_u32(body_bytes),
        meta: RecordMeta::default(),
        synced: SyncedDistance::UNKNOWN,
    }
}
