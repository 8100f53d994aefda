//! Random programs.

use proptest::prelude::*;
use quoit_store::engine::RecordMeta;

/// Names of a program: `BUCKETS` buckets of three types, `KEYS` keys each.
pub const KEYS: usize = 12;

/// A record of a program, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Which {
    /// Which bucket.
    pub bucket: usize,
    /// Which of its keys.
    pub key: usize,
}

/// A value of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content {
    /// All bytes of the value.
    pub fill: u8,
    /// Their number.
    pub size: usize,
    /// Metadata that the engine is given.
    pub meta: RecordMeta,
    /// Seconds from now to expiry, 0 = never; replaces what `meta` says.
    pub expires_in_secs: u32,
    /// Which entries of secondary indexes the value has, a bit each: [`TERMS`] of the one field and as many
    /// of the other. With any the value is an object.
    pub entries: u16,
}

/// Terms of each field of a program's indexes.
pub const TERMS: usize = 5;

/// Which part of the keys a listing wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All.
    All,
    /// Those of the bucket's type.
    BucketType(usize),
    /// Those of the bucket.
    Bucket(usize),
    /// Those of the bucket that start like this key.
    Prefix(Which),
    /// Those of the bucket from this key to that, or to the end.
    Between(Which, Option<usize>),
}

/// Which entries a query wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query {
    /// Of which bucket.
    pub bucket: usize,
    /// Of integers, not of bytes.
    pub of_integers: bool,
    /// The first term and the last one.
    pub terms: (usize, usize),
    /// Of which partitions, a bit each.
    pub partitions: u8,
    /// How many at a time.
    pub limit: usize,
}

/// One step of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Store without looking.
    Put(Which, Content),
    /// Append to what is there.
    Append(Which, Content),
    /// Look and leave as it is.
    Keep(Which),
    /// Remove.
    Remove(Which),
    /// Read.
    Get(Which),
    /// Ask the index.
    Head(Which),
    /// Write several at once; `None` removes.
    Batch(Vec<(Which, Option<Content>)>),
    /// Append to several of one partition at once, that of the first; `None` removes. What is false is
    /// written without looking.
    Transact(Vec<(Which, Option<Content>, bool)>),
    /// List keys, so many at a time.
    ListKeys(Part, usize),
    /// Query a secondary index.
    Query(Query),
    /// List the buckets of one's type, so many at a time.
    ListBuckets(usize, usize),
    /// Fold a partition, so many at a time.
    Fold {
        /// The partition's number.
        partition: u16,
        /// Records a page.
        limit: usize,
        /// Whether only tombstones are wanted.
        tombstones_only: bool,
    },
    /// Drop a partition.
    DropPartition(u16),
    /// Let time go by.
    Advance {
        /// How much.
        secs: u32,
    },
    /// Make everything durable.
    Sync,
    /// Close and open again.
    Restart,
    /// Do background work.
    Maintain,
}

/// Programs.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..160)
}

fn step() -> impl Strategy<Value = Step> {
    let write = (which(), prop::option::weighted(0.8, content()));
    let change = (which(), prop::option::weighted(0.8, content()), any::<bool>());
    let limit = prop_oneof![1..4usize, Just(1000)];
    prop_oneof![
        12 => (which(), content()).prop_map(|(which, content)| Step::Put(which, content)),
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

fn which() -> impl Strategy<Value = Which> {
    (0..super::model::BUCKETS.len(), 0..KEYS).prop_map(|(bucket, key)| Which { bucket, key })
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
