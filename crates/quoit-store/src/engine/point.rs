//! Access to one record, or to a few of one partition.

use super::{BatchWrite, Body, Record, RecordAt, RecordMeta, RecordRef};
use crate::error::StoreError;
use quoit_model::hash::Partition;
use std::task::{Poll, Waker};

/// Whether a call may wait for the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Answer from memory and page cache or say `WouldBlock`.
    NoWait,
    /// Wait for the disk.
    Wait,
}

/// Answer to a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fetch {
    /// Nothing is stored under the key, or what is stored has expired.
    Missing,
    /// The record.
    Found(Record),
    /// The record has to come from the disk: repeat with [`Access::Wait`].
    WouldBlock,
}

/// Answer to a read that shows the record where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Nothing is stored under the key, or what is stored has expired.
    Missing,
    /// The function was called with the record.
    Found,
    /// The record has to come from the disk: repeat with [`Access::Wait`].
    WouldBlock,
}

/// Decision of a change function about a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Leave the record as it is; nothing is written.
    Keep,
    /// Store the bytes that the function appended to its buffer.
    Put(RecordMeta),
    /// Remove the record without a trace (reaping); causality is the caller's business.
    Remove,
}

/// Bytes of a value that [`Before::Front`] shows at least: clock and description of most objects.
pub const FRONT_BYTES: usize = 192;

/// The stored record, as a change function sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// The stored record, read if there is one.
    Read,
    /// As `Read`, but of a value of more than [`FRONT_BYTES`] maybe only the first so many bytes, whose
    /// checksum can't be looked at then: believe of it what the record's digest confirms.
    Front,
    /// Nothing: the new value replaces whatever is there (the function is called with `None`).
    Skip,
}

/// A position in the order of an engine's writes. Later writes have higher tickets; a ticket is good until
/// the engine is closed. It covers the write that it was given for, and the former ones of the same bucket;
/// [`PointAccess::joined`] makes one for writes of several buckets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ticket(pub u64);

/// The size of a record, as far as it can be told without its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeBound {
    /// The record takes so many bytes at most.
    AtMost(u64),
    /// There is no record, or it can't be read: a read of it says which.
    Unknown,
    /// The disk has to be waited for: repeat with [`Access::Wait`].
    WouldBlock,
}

impl SizeBound {
    /// The bound of a record whose size is known, if it is.
    #[must_use]
    pub fn of(size_bytes: Option<u64>) -> Self {
        size_bytes.map_or(Self::Unknown, Self::AtMost)
    }
}

/// Answer to an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applied {
    /// The change function kept the record.
    Kept,
    /// The change is visible to reads; it survives the death of the machine when the ticket is durable. It
    /// survives the death of the process at once, or, in engines that gather writes before they hand them to
    /// the system, soon after, at the latest when the ticket is durable.
    Written(Ticket),
    /// The stored record has to come from the disk: repeat with [`Access::Wait`]. The change function
    /// was not called.
    WouldBlock,
}

/// A change function: gets the stored record (not expired), appends the new value to the buffer, and
/// decides. Called at most once for an update, under the record's stripe lock: it must not call the engine.
pub type Change<'f> = dyn FnMut(Option<&RecordRef<'_>>, &mut Vec<u8>) -> Decision + 'f;

/// Reads and writes of records by their names, and when writes are durable.
pub trait PointAccess: Send + Sync {
    /// Reads a record. At most one disk read.
    fn get(&self, at: &RecordAt<'_>, access: Access) -> Result<Fetch, StoreError>;

    /// As [`PointAccess::get`], but shows the record to a function instead of handing it over: small ones are
    /// shown in a buffer that the thread reads the next one into. Called at most once, without a lock
    /// that the engine needs for other reads.
    fn show(
        &self,
        at: &RecordAt<'_>,
        access: Access,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<Shown, StoreError>;

    /// Metadata of a record from the index. An engine that has all of the index in memory touches the disk
    /// only to tell two keys of one hash apart, and to find out when a record expires. A record that is
    /// missing may be taken for another one that shares its hash (by chance, one in 2^40 for each record of
    /// the partition): compare the answer with other replicas' digests, never show it to a client.
    fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError>;

    /// The size of a record as it is stored, without a look at its value. Costs a look at the index, or at
    /// the head of the record where that is stored.
    fn size_bound(&self, at: &RecordAt<'_>, access: Access) -> SizeBound;

    /// Reads, decides and writes one record in one step: no other change of the record comes between.
    /// A failed write leaves the record as it was. What is stored and damaged fails a change that wants
    /// to see it with [`StoreError::Corrupt`]: with [`Before::Skip`] the change replaces it.
    fn update(
        &self,
        at: &RecordAt<'_>,
        before: Before,
        access: Access,
        change: &mut Change<'_>,
    ) -> Result<Applied, StoreError>;

    /// Reads and changes several records of one partition in one step: no other change of the partition
    /// comes between, and the writes count all or not at all, also across a crash. Without writes the answer
    /// is [`Applied::Kept`].
    ///
    /// The body is called under the partition's stripe lock: it must not call the engine. It may be called
    /// several times, and begins anew each time; only what it writes in its last call counts. Where waiting
    /// is not allowed and a record has to come from the disk, the answer is [`Applied::WouldBlock`] and
    /// nothing was written. A damaged record fails the transaction that reads it, and is replaced by one that
    /// only writes it.
    fn transact(
        &self,
        partition: Partition,
        access: Access,
        body: &mut Body<'_>,
    ) -> Result<Applied, StoreError>;

    /// Writes all or nothing, also across a crash. May wait for the disk.
    fn batch(&self, writes: &[BatchWrite<'_>]) -> Result<Ticket, StoreError>;

    /// Ready when every write up to `ticket` survives the death of the machine; otherwise `waker` is woken
    /// when that may have changed. An error means that durability of the ticket can't be promised.
    fn poll_durable(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<(), StoreError>>;

    /// A ticket that covers two writes: the later one's where all writes are synced in one order.
    fn joined(&self, one: Ticket, other: Ticket) -> Ticket {
        one.max(other)
    }
}
