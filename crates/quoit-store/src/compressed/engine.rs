//! The engine that wraps another one.

use super::transact::CompressingTransaction;
use crate::engine::{
    Applied, BatchWrite, BeforeImage, ChangeFn, Compare, DataLocation, Decision, Engine,
    EngineStats, Fetch, InPlaceRead, IndexPage, IoMode, KeyPage, KeyRange, LargeChange,
    Maintenance, PointAccess, Record, RecordAt, RecordMeta, RecordPage, RecordPlace, RecordRef,
    RecordVisitor, RecordWalk, ScanAccess, SizeBound, Ticket, TransactionFn, Verified,
    VisitedRecord,
};
use crate::error::StoreError;
use crate::frame;
use crate::index::Tag;
use crate::index_activity::IndexActivity;
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::secondary_index::{IndexPosition, IndexRange};
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Maximum size in bytes of values that are shown in a buffer that the thread keeps. Larger ones are shown
/// in a buffer that can be shared.
const KEPT_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    static KEPT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Decides which buckets' values are compressed. Called for each stored value that is not small.
pub trait CompressionChoice: Send + Sync {
    /// True if values of a bucket are compressed from now on. Cheap.
    fn compresses(&self, bucket: BucketRef<'_>) -> bool;
}

/// An engine that may store values compressed. See the module's documentation.
///
/// Reading a plain value costs a test of its first byte. Storing a value that is not small also costs a
/// call of [`CompressionChoice::compresses`]. Values are compressed under the record's stripe lock, and
/// decompressed under it for a change that wants the whole stored value. For a read they are decompressed
/// without a lock.
pub struct CompressedEngine {
    engine: Arc<dyn Engine>,
    choice: Arc<dyn CompressionChoice>,
}

impl CompressedEngine {
    /// Wraps an engine.
    #[must_use]
    pub const fn new(engine: Arc<dyn Engine>, choice: Arc<dyn CompressionChoice>) -> Self {
        Self { engine, choice }
    }

    /// Packs the value in `out[start..]` into its stored form, in place.
    #[expect(clippy::indexing_slicing, reason = "the value was appended behind `start`")]
    pub(super) fn pack(&self, key: KeyRef<'_>, out: &mut Vec<u8>, start: usize) {
        if frame::may_be_framed(&out[start..]) {
            frame::pack(out, start, self.compresses(key));
        }
    }

    /// The stored form of a value, if it differs from the value.
    pub(super) fn packed(&self, key: KeyRef<'_>, value: &[u8]) -> Option<Vec<u8>> {
        let compresses = frame::may_be_framed(value).then(|| self.compresses(key))?;
        frame::packed(value, compresses)
    }

    /// True if the values of a record's bucket are compressed. A piece is treated like its record.
    fn compresses(&self, key: KeyRef<'_>) -> bool {
        let owner = key.is_piece().then(|| KeyRef::decode(key.bucket.bucket));
        match owner {
            Some(Ok(owner)) => self.choice.compresses(owner.bucket),
            Some(Err(_)) => false,
            None => self.choice.compresses(key.bucket),
        }
    }

    /// Comparison of the wrapped engine's copies. The engine must have such copies.
    pub(super) fn copies(&self) -> &dyn Compare {
        self.engine.compared().expect("asked only where the engine's copies can be compared")
    }
}

/// The error for an invalid frame of a record's value.
fn damaged(key: KeyRef<'_>, fault: &frame::FrameError) -> StoreError {
    let path = format!("the value of {}", key.key.escape_ascii());
    StoreError::Corrupt { path, offset: 0, reason: fault.to_string() }
}

/// The record as it was written, decompressed if necessary.
pub(super) fn unpacked(key: KeyRef<'_>, record: Record) -> Result<Record, StoreError> {
    if !frame::is_framed(&record.value) {
        return Ok(record);
    }
    let value = frame::unpack(&record.value).map_err(|fault| damaged(key, &fault))?;
    Ok(Record { value: value.into_owned().into(), ..record })
}

/// The tag of a record.
fn tag_of(encoded: &[u8], partition: Partition) -> Option<Tag> {
    let key = KeyRef::decode(encoded).ok()?;
    Some(Tag::of(RecordAt::of(key, encoded, partition).identity))
}

/// The records as they were written. Leaves damaged ones out, and calls `note` with the encoded name of each.
pub(super) fn unpacked_all(
    mut entries: Vec<(Bytes, Record)>,
    mut note: impl FnMut(&[u8]),
) -> Vec<(Bytes, Record)> {
    if entries.iter().all(|(_, record)| !frame::is_framed(&record.value)) {
        return entries;
    }
    entries.retain_mut(|(key, record)| match frame::unpack(&record.value) {
        Ok(Cow::Borrowed(_)) => true,
        Ok(Cow::Owned(value)) => {
            record.value = value.into();
            true
        }
        Err(fault) => {
            tracing::error!(key = %key.escape_ascii(), %fault, "a compressed record is damaged");
            note(key);
            false
        }
    });
    entries
}

/// Shows a record whose value has a frame.
#[expect(clippy::indexing_slicing, reason = "`unpack_into` returns a size within the buffer")]
fn show_unpacked(
    record: &RecordRef<'_>,
    look: &mut dyn FnMut(&RecordRef<'_>),
) -> Result<(), frame::FrameError> {
    // The buffer is taken out, not borrowed: a nested read gets another buffer.
    let mut buffer = KEPT.take();
    let size_bytes = frame::unpack_into(record.value, &mut buffer)?;
    if buffer.capacity() <= KEPT_BYTES_MAX {
        look(&RecordRef { value: &buffer[..size_bytes], owner: None, ..*record });
        KEPT.set(buffer);
    } else {
        buffer.truncate(size_bytes);
        look(&RecordRef::shared(&Record { meta: record.meta, value: buffer.into() }));
    }
    Ok(())
}

/// Calls a change function with the stored record as it was written. Leaves the fault in `shown` if the frame
/// of its value is damaged.
fn decide(
    stored: Option<&RecordRef<'_>>,
    before: BeforeImage,
    shown: &mut Result<(), frame::FrameError>,
    mut change: impl FnMut(Option<&RecordRef<'_>>) -> Decision,
) -> Decision {
    let Some(record) = stored.filter(|record| frame::is_framed(record.value)) else {
        return change(stored);
    };
    let mut decision = Decision::Keep;
    *shown = if before == BeforeImage::Front {
        frame::front_of(record.value).map(|value| {
            let front = RecordRef { value, is_whole: false, owner: None, ..*record };
            decision = change(Some(&front));
        })
    } else {
        show_unpacked(record, &mut |record| decision = change(Some(record)))
    };
    decision
}

/// Shows records as they were written.
struct UnpackingVisitor<'v> {
    visitor: &'v mut dyn RecordVisitor,
}

impl RecordVisitor for UnpackingVisitor<'_> {
    fn wants(&mut self, encoded: &[u8], meta: &RecordMeta) -> Option<RecordPlace> {
        self.visitor.wants(encoded, meta)
    }

    fn visit(&mut self, encoded: &[u8], record: VisitedRecord<'_>) {
        let VisitedRecord::Found(stored) = record else {
            return self.visitor.visit(encoded, record);
        };
        if !frame::is_framed(stored.value) {
            return self.visitor.visit(encoded, record);
        }
        let mut look =
            |record: &RecordRef<'_>| self.visitor.visit(encoded, VisitedRecord::Found(record));
        if let Err(fault) = show_unpacked(stored, &mut look) {
            tracing::error!(key = %encoded.escape_ascii(), %fault, "a compressed record is damaged");
            self.visitor.visit(encoded, VisitedRecord::Damaged);
        }
    }
}

impl PointAccess for CompressedEngine {
    fn get(&self, at: &RecordAt<'_>, access: IoMode) -> Result<Fetch, StoreError> {
        match self.engine.get(at, access)? {
            Fetch::Found(record) => Ok(Fetch::Found(unpacked(at.key, record)?)),
            other => Ok(other),
        }
    }

    fn show(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<InPlaceRead, StoreError> {
        let mut shown = Ok(());
        let outcome = self.engine.show(at, access, &mut |record| {
            if frame::is_framed(record.value) {
                shown = show_unpacked(record, look);
            } else {
                look(record);
            }
        })?;
        shown.map_err(|fault| damaged(at.key, &fault))?;
        Ok(outcome)
    }

    fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError> {
        self.engine.head(at)
    }

    /// For a compressed record, the bound of its compressed size.
    fn size_bound(&self, at: &RecordAt<'_>, access: IoMode) -> SizeBound {
        self.engine.size_bound(at, access)
    }

    fn update(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut ChangeFn<'_>,
    ) -> Result<Applied, StoreError> {
        let mut shown = Ok(());
        let applied = self.engine.update(at, before, access, &mut |stored, out| {
            let start = out.len();
            let decision = decide(stored, before, &mut shown, |stored| change(stored, out));
            if matches!(decision, Decision::Put(_)) {
                self.pack(at.key, out, start);
            }
            decision
        })?;
        shown.map_err(|fault| damaged(at.key, &fault))?;
        Ok(applied)
    }

    #[expect(clippy::indexing_slicing, reason = "`change` appends to `out`")]
    fn update_large(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut LargeChange<'_>,
    ) -> Result<Applied, StoreError> {
        let mut shown = Ok(());
        let applied = self.engine.update_large(at, before, access, &mut |stored, out, rest| {
            let start = out.len();
            let decision = decide(stored, before, &mut shown, |stored| change(stored, out, rest));
            let first = if out.len() > start { &out[start..] } else { &rest[..] };
            if matches!(decision, Decision::Put(_))
                && (frame::is_framed(first) || self.compresses(at.key))
            {
                out.extend_from_slice(&std::mem::take(rest));
                self.pack(at.key, out, start);
            }
            decision
        })?;
        shown.map_err(|fault| damaged(at.key, &fault))?;
        Ok(applied)
    }

    fn transact(
        &self,
        partition: Partition,
        access: IoMode,
        body: &mut TransactionFn<'_>,
    ) -> Result<Applied, StoreError> {
        self.engine.transact(partition, access, &mut |inner| {
            body(&mut CompressingTransaction { of: self, inner })
        })
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> Result<Ticket, StoreError> {
        let packed: Vec<Option<Vec<u8>>> = writes
            .iter()
            .map(|write| match write {
                BatchWrite::Put { at, value, .. } => self.packed(at.key, value),
                BatchWrite::Remove { .. } => None,
            })
            .collect();
        if packed.iter().all(Option::is_none) {
            return self.engine.batch(writes);
        }
        let stored: Vec<BatchWrite<'_>> = writes
            .iter()
            .zip(&packed)
            .map(|(write, packed)| match (write, packed) {
                (BatchWrite::Put { at, meta, .. }, Some(value)) => {
                    BatchWrite::Put { at: *at, meta: *meta, value }
                }
                _ => *write,
            })
            .collect();
        self.engine.batch(&stored)
    }

    fn poll_durable(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<(), StoreError>> {
        self.engine.poll_durable(ticket, waker)
    }

    fn joined(&self, one: Ticket, other: Ticket) -> Ticket {
        self.engine.joined(one, other)
    }
}

impl ScanAccess for CompressedEngine {
    fn list_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<KeyPage, StoreError> {
        self.engine.list_keys(range, after, limit)
    }

    fn visit_records(
        &self,
        walk: RecordWalk<'_>,
        visitor: &mut dyn RecordVisitor,
    ) -> Result<Option<Bytes>, StoreError> {
        self.engine.visit_records(walk, &mut UnpackingVisitor { visitor })
    }

    fn query_index(
        &self,
        range: &IndexRange<'_>,
        partitions: &dyn Fn(Partition) -> bool,
        after: Option<&IndexPosition>,
        limit: usize,
    ) -> Result<IndexPage, StoreError> {
        self.engine.query_index(range, partitions, after, limit)
    }

    fn list_buckets(
        &self,
        bucket_type: &[u8],
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.engine.list_buckets(bucket_type, after, limit)
    }

    fn fold(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
        tombstones_only: bool,
    ) -> Result<RecordPage, StoreError> {
        let RecordPage { entries, mut damaged, next } =
            self.engine.fold(partition, from, limit, tombstones_only)?;
        let entries = unpacked_all(entries, |encoded| damaged.extend(tag_of(encoded, partition)));
        damaged.sort_unstable();
        damaged.dedup();
        Ok(RecordPage { entries, damaged, next })
    }

    fn compared(&self) -> Option<&dyn Compare> {
        self.engine.compared().is_some().then_some(self)
    }
}

impl Maintenance for CompressedEngine {
    fn take_found_damage(&self) -> Vec<(Partition, Tag)> {
        self.engine.take_found_damage()
    }

    fn verify(&self, from: Option<DataLocation>, limit_bytes: u64) -> Result<Verified, StoreError> {
        self.engine.verify(from, limit_bytes)
    }

    fn drop_partition(&self, partition: Partition) -> Result<Ticket, StoreError> {
        self.engine.drop_partition(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.engine.sync()
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }

    fn index_activity(&self) -> IndexActivity {
        self.engine.index_activity()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.engine.close()
    }
}
