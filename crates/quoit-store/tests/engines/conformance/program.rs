//! Random programs: lists of steps for the engine and the model.

use proptest::prelude::*;
use quoit_store::engine::RecordMeta;

/// Number of keys of each bucket of a program.
pub const KEYS: usize = 12;

/// A record of a program, as indexes of its bucket and key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RecordIndex {
    /// Index of the bucket in `BUCKETS`.
    pub bucket: usize,
    /// Number of the key in the bucket.
    pub key: usize,
}

/// Content of a value of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content {
    /// Value of all its bytes.
    pub fill: u8,
    /// Number of bytes.
    pub size: usize,
    /// Metadata that is stored with the value.
    pub meta: RecordMeta,
    /// Seconds from now until expiry; 0 = never. Overrides `meta`.
    pub expires_in_secs: u32,
    /// Secondary index entries of the value, as bits: [`TERMS`] for one field, then as many for the other.
    /// A value with entries is an object.
    pub entries: u16,
}

/// Number of terms of each index field of a program.
pub const TERMS: usize = 5;

/// Range of keys of a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All keys.
    All,
    /// The keys of the bucket's type.
    BucketType(usize),
    /// The keys of the bucket.
    Bucket(usize),
    /// The keys of the bucket that start with this key.
    Prefix(RecordIndex),
    /// The keys of the bucket from this key to the other one, or to the end.
    Between(RecordIndex, Option<usize>),
}

/// A secondary index query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query {
    /// Index of the bucket.
    pub bucket: usize,
    /// True to query the field of integers, false for the one of binary terms.
    pub of_integers: bool,
    /// The first and the last term.
    pub terms: (usize, usize),
    /// The queried partitions, as bits.
    pub partitions: u8,
    /// Number of entries of a page.
    pub limit: usize,
}

/// A step of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Puts without reading the stored record.
    Put(RecordIndex, Content),
    /// Puts a value whose end, from this byte on, is in a buffer of its own.
    PutLarge(RecordIndex, Content, usize),
    /// Appends to the stored value.
    Append(RecordIndex, Content),
    /// Reads the record in an update, and keeps it.
    Keep(RecordIndex),
    /// Removes the record.
    Remove(RecordIndex),
    /// Gets the record.
    Get(RecordIndex),
    /// Gets the record's metadata.
    Head(RecordIndex),
    /// Writes several records in one batch; `None` removes.
    Batch(Vec<(RecordIndex, Option<Content>)>),
    /// Appends to several records in one transaction on the first record's partition; `None` removes. If
    /// the flag is false, the record is written without reading it.
    Transact(Vec<(RecordIndex, Option<Content>, bool)>),
    /// Lists keys, in pages of this size.
    ListKeys(Part, usize),
    /// Queries a secondary index.
    Query(Query),
    /// Lists the buckets of a bucket's type, in pages of this size.
    ListBuckets(usize, usize),
    /// Folds a partition.
    Fold {
        /// Number of the partition.
        partition: u16,
        /// Number of records of a page.
        limit: usize,
        /// True to get only tombstones.
        tombstones_only: bool,
    },
    /// Drops a partition.
    DropPartition(u16),
    /// Advances the clock.
    Advance {
        /// Number of seconds.
        secs: u32,
    },
    /// Makes all writes durable.
    Sync,
    /// Closes and reopens the engine.
    Restart,
    /// Runs background work.
    Maintain,
}

/// A strategy for programs.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..160)
}

fn step() -> impl Strategy<Value = Step> {
    let write = (which(), prop::option::weighted(0.8, content()));
    let change = (which(), prop::option::weighted(0.8, content()), any::<bool>());
    let limit = prop_oneof![1..4usize, Just(1000)];
    prop_oneof![
        12 => (which(), content()).prop_map(|(which, content)| Step::Put(which, content)),
        4 => (which(), content(), 0..2_000usize).prop_map(|(which, content, shared_at)| {
            Step::PutLarge(which, content, shared_at)
        }),
        6 => (which(), content()).prop_map(|(which, content)| Step::Append(which, content)),
        1 => which().prop_map(Step::Keep),
        4 => which().prop_map(Step::Remove),
        6 => which().prop_map(Step::Get),
        4 => which().prop_map(Step::Head),
        2 => prop::collection::vec(write, 0..6).prop_map(Step::Batch),
        6 => prop::collection::vec(change, 0..12).prop_map(Step::Transact),
        2 => (part(), limit.clone()).prop_map(|(part, limit)| Step::ListKeys(part, limit)),
        3 => query().prop_map(Step::Query),
        3 => (0..super::model::BUCKETS.len(), limit.clone())
            .prop_map(|(bucket, limit)| Step::ListBuckets(bucket, limit)),
        2 => (0..super::RING_SIZE, limit, any::<bool>()).prop_map(
            |(partition, limit, tombstones_only)| Step::Fold { partition, limit, tombstones_only }
        ),
        1 => (0..super::RING_SIZE).prop_map(Step::DropPartition),
        1 => (1..40u32).prop_map(|secs| Step::Advance { secs }),
        1 => Just(Step::Sync),
        1 => Just(Step::Restart),
        2 => Just(Step::Maintain),
    ]
}

fn which() -> impl Strategy<Value = RecordIndex> {
    (0..super::model::BUCKETS.len(), 0..KEYS).prop_map(|(bucket, key)| RecordIndex { bucket, key })
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        Just(Part::All),
        (0..super::model::BUCKETS.len()).prop_map(Part::BucketType),
        (0..super::model::BUCKETS.len()).prop_map(Part::Bucket),
        which().prop_map(Part::Prefix),
        (which(), prop::option::of(0..KEYS)).prop_map(|(from, to)| Part::Between(from, to)),
    ]
}

fn query() -> impl Strategy<Value = Query> {
    let terms = prop_oneof![Just((0, TERMS - 1)), (0..TERMS, 0..TERMS)];
    let partitions = prop_oneof![Just(u8::MAX), any::<u8>()];
    let limit = prop_oneof![1..4usize, Just(1000)];
    (0..super::model::BUCKETS.len(), any::<bool>(), terms, partitions, limit).prop_map(
        |(bucket, of_integers, terms, partitions, limit)| Query {
            bucket,
            of_integers,
            terms,
            partitions,
            limit,
        },
    )
}

fn content() -> impl Strategy<Value = Content> {
    let size = prop_oneof![4 => 0..100usize, 1 => 0..6000usize];
    let expiry = prop_oneof![4 => Just(0), 1 => 1..60u32];
    let entries = prop_oneof![Just(0), 0..1u16 << (2 * TERMS)];
    (any::<u8>(), size, any::<u64>(), prop::bool::weighted(0.2), 1..16u8, expiry, entries).prop_map(
        |(fill, size, digest, tombstone, n_val_class, expires_in_secs, entries)| Content {
            fill,
            size,
            meta: RecordMeta { digest, tombstone, n_val_class, ..RecordMeta::default() },
            expires_in_secs,
            entries: if tombstone { 0 } else { entries },
        },
    )
}
