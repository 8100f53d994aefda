//! The one trait that every storage engine serves.
//!
//! An engine keeps opaque values under record keys. What the values mean (clocks, siblings) is not its
//! business; it is told what it must know about a record in [`RecordMeta`].
//!
//! Engines are synchronous and are called on the thread that parsed the request. A call made with
//! [`Access::NoWait`] never waits for a disk read: it answers `WouldBlock`, and the caller repeats the call
//! with [`Access::Wait`] where waiting is allowed.

mod compared;
mod pages;
mod transaction;
mod visit;

use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::BucketRef;
use quoit_model::secondary_index::{IndexPosition, IndexRange};
use std::task::{Poll, Waker};

use crate::error::StoreError;
use crate::index_activity::IndexActivity;
use crate::tag::Tag;

pub use crate::record::{Record, RecordAt, RecordMeta, RecordRef};
pub use compared::Compare;
pub(crate) use pages::listing_place;
pub use pages::{DataPlace, IndexPage, KeyPage, KeyRange, RecordPage, Verified};
pub(crate) use transaction::Interruption;
pub use transaction::{BatchWrite, Body, Interrupted, Transaction};
pub use visit::{RecordPlace, RecordVisitor, RecordWalk, Visited};
pub(crate) use visit::{visit_listed, visit_one};

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
/// [`Engine::joined`] makes one for writes of several buckets.
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

/// Figures of an engine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EngineStats {
    /// Records stored, tombstones included.
    pub key_count: u64,
    /// Tombstones among them.
    pub tombstone_count: u64,
    /// Memory of the index, in bytes.
    pub index_bytes: u64,
    /// Bytes of the files on disk.
    pub disk_bytes: u64,
    /// Bytes in them that no key refers to any more.
    pub dead_bytes: u64,
    /// Number of data files.
    pub segment_count: u64,
    /// Device or file syncs made.
    pub sync_count: u64,
    /// Writes that those syncs made durable.
    pub synced_write_count: u64,
    /// Merges completed.
    pub merge_count: u64,
    /// Bytes that merges have written.
    pub merged_bytes: u64,
    /// Records skipped because their bytes were damaged.
    pub corrupt_record_count: u64,
    /// Whether writes are refused for lack of room.
    pub disk_full: bool,
    /// Why all writes are refused until the engine is opened again, where an ordered store has failed for
    /// good.
    pub write_failure: Option<WriteFailure>,
}

/// Why an engine takes no more writes until it is opened again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteFailure {
    /// The engine's directory.
    pub directory: String,
    /// Description of the failure, with the file if it is known.
    pub reason: String,
    /// Whether a file is known to be damaged: to open the engine again is no remedy then.
    pub is_damage: bool,
}

impl EngineStats {
    /// Bytes that what is stored takes: of the files, or of memory where there are none.
    #[must_use]
    pub const fn live_bytes(&self) -> u64 {
        match self.disk_bytes {
            0 => self.index_bytes,
            disk_bytes => disk_bytes.saturating_sub(self.dead_bytes),
        }
    }
}

/// A storage engine. See the module's documentation for who waits where.
pub trait Engine: Send + Sync {
    /// Reads a record. At most one disk read.
    fn get(&self, at: &RecordAt<'_>, access: Access) -> Result<Fetch, StoreError>;

    /// As [`Engine::get`], but shows the record to a function instead of handing it over: small ones are
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

    /// The next `limit` or fewer live keys of a range. Tombstones are included (see `RecordMeta`), expired
    /// records are not. `after` is a former page's `next`. May wait for the disk; never reads values.
    fn list_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<KeyPage, StoreError>;

    /// Shows a visitor those of the next live records of a walk that it wants, within the walk's bounds. As
    /// [`Engine::list_keys`] and a look at each record, where an engine has no cheaper way. Answers what the
    /// next call is to be given as `after`; `None` when the walk is complete. May wait for the disk.
    fn visit_records(
        &self,
        walk: RecordWalk<'_>,
        visitor: &mut dyn RecordVisitor,
    ) -> Result<Option<Bytes>, StoreError> {
        visit_listed(self, walk, visitor)
    }

    /// The next `limit` or fewer entries of a secondary index, of the records of some partitions, in order of
    /// term and key. `after` is a former page's `next`, or any other position: entries at it and before are
    /// left out. A page may have few entries or none though more follow: `next` tells.
    ///
    /// The entries of a record are those of its object (see [`RecordMeta::indexed`]); tombstones, expired
    /// and removed records have none. Every acknowledged write counts, and while records change, those that
    /// keep an entry keep it for all queries. May wait for the disk; reads no values.
    ///
    /// # Errors
    ///
    /// [`StoreError::IndexesUnavailable`] while the entries of all records are not known: an answer is
    /// complete or an error.
    fn query_index(
        &self,
        range: &IndexRange<'_>,
        partitions: &dyn Fn(Partition) -> bool,
        after: Option<&IndexPosition>,
        limit: usize,
    ) -> Result<IndexPage, StoreError>;

    /// The next `limit` or fewer buckets of a bucket type that hold a live key, tombstones included, as
    /// (bucket type, bucket) in order. `after` is the last one of the former call. Who has written a live key
    /// finds its bucket listed. May wait for the disk.
    fn list_buckets(
        &self,
        bucket_type: &[u8],
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError>;

    /// Records of a partition from identity `from` on, about `limit` of them (all records of one identity
    /// stay together). May wait for the disk.
    fn fold(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
        tombstones_only: bool,
    ) -> Result<RecordPage, StoreError>;

    /// Comparison of this engine's copies; `None` where it drops records to keep its bounds, so that no copy
    /// is complete.
    fn compared(&self) -> Option<&dyn Compare>;

    /// Reads a piece of the data on disk, of about `limit_bytes`, and compares checksums. `from` is where the
    /// last piece ended, `None` at the beginning. May wait for the disk.
    fn verify(&self, from: Option<DataPlace>, limit_bytes: u64) -> Result<Verified, StoreError>;

    /// Damaged records that requests, listings and background work have met since the last call. An engine
    /// need not tell of records that [`Engine::get`] or [`Engine::update`] has failed for: their callers know
    /// them.
    fn take_found_damage(&self) -> Vec<(Partition, Tag)>;

    /// Removes all records of a partition; they stay removed after a crash once the ticket is durable.
    fn drop_partition(&self, partition: Partition) -> Result<Ticket, StoreError>;

    /// Makes everything written so far durable and waits for it.
    fn sync(&self) -> Result<(), StoreError>;

    /// Figures for `/stats` and operators.
    fn stats(&self) -> EngineStats;

    /// Counts of the changes that writes made to entries of secondary indexes. Costs a few loads; a write
    /// costs a few additions if its record has entries or had some.
    fn index_activity(&self) -> IndexActivity;

    /// Stops background work, syncs, and writes what makes the next start fast. Later calls fail.
    fn close(&self) -> Result<(), StoreError>;
}
