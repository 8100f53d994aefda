//! Access to one record, or to several records of one partition.

use super::{BatchWrite, Record, RecordAt, RecordMeta, RecordRef, TransactionFn};
use crate::error::StoreError;
use bytes::Bytes;
use quoit_model::hash::Partition;
use std::task::{Poll, Waker};

/// Mode of a call: it may wait for the disk, or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoMode {
    /// Answer from memory and page cache, or return `WouldBlock`.
    NoWait,
    /// Wait for the disk.
    Wait,
}

/// Result of a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fetch {
    /// No record is stored under the key, or the record has expired.
    Missing,
    /// The record.
    Found(Record),
    /// The record is only on disk: repeat the call with [`IoMode::Wait`].
    WouldBlock,
}

/// Result of a read that shows the record in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InPlaceRead {
    /// No record is stored under the key, or the record has expired.
    Missing,
    /// The function was called with the record.
    Found,
    /// The record is only on disk: repeat the call with [`IoMode::Wait`].
    WouldBlock,
}

/// Decision of a change function about a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Leave the record as it is; nothing is written.
    Keep,
    /// Store the bytes that the function appended to its buffer.
    Put(RecordMeta),
    /// Remove the record and leave no tombstone (reaping). The caller has to know that no older version of
    /// the record can return from another replica.
    Remove,
}

/// Number of bytes of a value that [`BeforeImage::Front`] shows at least: enough for the clock and the
/// description of most objects.
pub const FRONT_BYTES: usize = 192;

/// Part of the before-image, the stored record, that a change function wants to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BeforeImage {
    /// The whole record, if one is stored.
    Read,
    /// Like `Read`, but the engine may show only the first bytes of a value that is longer than
    /// [`FRONT_BYTES`], at least that many. Their checksum cannot be verified, so the function may rely
    /// only on facts that the record's digest confirms.
    Front,
    /// No part: the new value replaces any stored record, and the function is called with `None`.
    Skip,
}

/// A position in the order of an engine's writes. Later writes have higher tickets. A ticket is valid until
/// the engine is closed. It covers its own write and all earlier writes of the same bucket;
/// [`PointAccess::joined`] makes a ticket for writes of several buckets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ticket(pub u64);

/// An upper bound of a record's size, from facts other than its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeBound {
    /// The record takes at most this many bytes.
    AtMost(u64),
    /// No record is stored, or it is unreadable: reading it tells which.
    Unknown,
    /// The size is only on disk: repeat the call with [`IoMode::Wait`].
    WouldBlock,
}

impl SizeBound {
    /// The bound for a size that may be known: `None` gives `Unknown`.
    #[must_use]
    pub fn of(size_bytes: Option<u64>) -> Self {
        size_bytes.map_or(Self::Unknown, Self::AtMost)
    }
}

/// Result of an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applied {
    /// The change function kept the record.
    Kept,
    /// The change is visible to reads. It survives the death of the machine when the ticket is durable. It
    /// survives the death of the process at once; engines that gather writes before they hand them to the
    /// system need a moment for that, at most until the ticket is durable.
    Written(Ticket),
    /// The stored record is only on disk: repeat the call with [`IoMode::Wait`]. The change function was
    /// not called.
    WouldBlock,
}

/// A change function: gets the stored record unless it has expired, appends the new value to the buffer,
/// and decides. It is called at most once for an update. The engine holds the record's stripe lock
/// meanwhile, so the function must not call the engine.
pub type ChangeFn<'f> = dyn FnMut(Option<&RecordRef<'_>>, &mut Vec<u8>) -> Decision + 'f;

/// A change function for large values. The new value is what the function appends to the buffer, and then
/// the bytes that it leaves in the second one, which an engine can write from there. Otherwise as
/// [`ChangeFn`].
pub type LargeChange<'f> =
    dyn FnMut(Option<&RecordRef<'_>>, &mut Vec<u8>, &mut Bytes) -> Decision + 'f;

/// A change function for large values as one that appends the whole value.
pub fn joined_change<'f>(
    change: &'f mut LargeChange<'_>,
) -> impl FnMut(Option<&RecordRef<'_>>, &mut Vec<u8>) -> Decision + 'f {
    move |stored, out| {
        let mut rest = Bytes::new();
        let decision = change(stored, out, &mut rest);
        if matches!(decision, Decision::Put(_)) {
            out.extend_from_slice(&rest);
        }
        decision
    }
}

/// Reads and writes of records by name, and durability of writes.
pub trait PointAccess: Send + Sync {
    /// Reads a record. At most one disk read.
    fn get(&self, at: &RecordAt<'_>, access: IoMode) -> Result<Fetch, StoreError>;

    /// Like [`PointAccess::get`], but shows the record to the function `look` instead of returning it: a
    /// small record is shown in a buffer that the thread reuses for its next read. `look` is called at most
    /// once, while the engine holds no lock that other reads need.
    fn show(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<InPlaceRead, StoreError>;

    /// Metadata of a record from the index. An engine with the whole index in memory reads the disk only to
    /// distinguish two keys with the same tag, and to learn when a record expires.
    ///
    /// If the record is missing, the answer may be the metadata of another record with the same tag (by
    /// chance, one in 2^40 for each record of the partition). A caller may compare the answer with the
    /// digests of other replicas, but must never return it to a client.
    fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError>;

    /// An upper bound of the size of a stored record, found without reading its value. Costs a lookup in
    /// the index, or in the head of the record for engines that store heads.
    fn size_bound(&self, at: &RecordAt<'_>, access: IoMode) -> SizeBound;

    /// Reads, decides and writes one record in one atomic step. A failed write leaves the record as it was.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] if the stored record is damaged and the change wants to see it. With
    /// [`BeforeImage::Skip`] the change replaces a damaged record.
    fn update(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut ChangeFn<'_>,
    ) -> Result<Applied, StoreError>;

    /// As [`PointAccess::update`], for a change whose new value may be large and is in a buffer that can be
    /// shared. An engine that can't write from there copies the value.
    fn update_large(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut LargeChange<'_>,
    ) -> Result<Applied, StoreError> {
        self.update(at, before, access, &mut joined_change(change))
    }

    /// Reads and changes several records of one partition in one atomic step: no other change of the
    /// partition comes between, and after a crash either all writes are there or no write is. Without
    /// writes the answer is [`Applied::Kept`].
    ///
    /// The engine holds the partition's stripe lock while it calls the body, so the body must not call the
    /// engine. The engine may call the body several times; only the writes of the last call count. If
    /// waiting is not allowed and a record is only on disk, the answer is [`Applied::WouldBlock`] and
    /// nothing was written. A damaged record fails the read of it. A write replaces it, also one of a body
    /// that has tried to read it ([`Interrupted::is_damage`](super::Interrupted::is_damage)).
    fn transact(
        &self,
        partition: Partition,
        access: IoMode,
        body: &mut TransactionFn<'_>,
    ) -> Result<Applied, StoreError>;

    /// Applies all writes or no write, also across a crash. May wait for the disk.
    fn batch(&self, writes: &[BatchWrite<'_>]) -> Result<Ticket, StoreError>;

    /// Ready when every write up to `ticket` survives the death of the machine; otherwise `waker` is woken
    /// when that may have changed. An error means that the engine cannot promise durability of the ticket.
    fn poll_durable(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<(), StoreError>>;

    /// A ticket that covers both writes. The default, the later ticket, is right for an engine that syncs
    /// all writes in one order.
    fn joined(&self, one: Ticket, other: Ticket) -> Ticket {
        one.max(other)
    }
}
