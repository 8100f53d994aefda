//! The two hashes of a record and the partition that it belongs to.
//!
//! The **placement** hash decides the partition; the **identity** hash names the record in indexes
//! and digests. Both are halves of the XXH3-128 with seed 0 of the encoded record key
//! ([`crate::key::KeyRef::encoded`]). They are the same in every cluster and must never change:
//! stored indexes, digests that nodes exchange, and the placement of data depend on them.

use crate::key::BucketRef;
use quoit_number::{low_u8, low_u16, low_u32, low_u64};
use xxhash_rust::xxh3::xxh3_128;

/// Hash that decides the partition of a record: its highest bits are the partition's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PlacementHash(pub u64);

/// Hash that names a record within its partition. Two records may have the same one, so a read
/// compares the keys as well.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity(pub u64);

/// Rule for the placement of a bucket's records (property `chash_keyfun`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PlacementRule {
    /// Hash of bucket type, bucket and key: the records of a bucket spread over all partitions.
    #[default]
    BucketAndKey,
    /// Hash of bucket type and bucket: all records of a bucket are in one partition.
    BucketOnly,
}

/// Both hashes of one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyHash {
    /// Placement, which decides the partition.
    pub placement: PlacementHash,
    /// Identity, which names the record within the partition.
    pub identity: Identity,
}

impl KeyHash {
    /// Hashes a checked name. `encoded` is its encoded form. Costs one XXH3 of that form;
    /// [`PlacementRule::BucketOnly`] costs a second one, of the bucket's name.
    #[must_use]
    pub fn of(encoded: &[u8], bucket: BucketRef<'_>, rule: PlacementRule) -> Self {
        let both = xxh3_128(encoded);
        let placement = match rule {
            PlacementRule::BucketAndKey => high(both),
            PlacementRule::BucketOnly => high(xxh3_128(&bucket.key(&[]).encoded())),
        };
        Self { placement: PlacementHash(placement), identity: Identity(low_u64(both)) }
    }

    /// Hashes the encoded name of a piece, a name in
    /// [`BucketRef::of_pieces`](crate::key::BucketRef::of_pieces). A piece has the placement of its record.
    #[must_use]
    pub fn of_piece(encoded: &[u8], record: PlacementHash) -> Self {
        Self { placement: record, identity: Identity(low_u64(xxh3_128(encoded))) }
    }
}

fn high(hash: u128) -> u64 {
    (hash >> 64) as u64
}

/// Number of partitions of a cluster: a power of two from 8 to 4096.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RingSize(u16);

impl RingSize {
    /// Default number of partitions of a new cluster.
    pub const DEFAULT: Self = Self(64);

    /// Returns `None` unless the count is a power of two from 8 to 4096.
    #[must_use]
    pub const fn new(partition_count: u16) -> Option<Self> {
        if partition_count.is_power_of_two() && partition_count >= 8 && partition_count <= 4096 {
            Some(Self(partition_count))
        } else {
            None
        }
    }

    /// Number of partitions.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The partition of a record with this placement.
    #[must_use]
    pub const fn partition(self, placement: PlacementHash) -> Partition {
        // At most 12 bits remain, since a ring has at most 4096 partitions.
        Partition(low_u16(placement.0 >> (64 - self.0.trailing_zeros())))
    }
}

/// A partition's number, from 0 to the ring size less one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Partition(pub u16);

impl Partition {
    /// The index that clients and operators see: number * 2^160 / ring size, in decimal.
    #[must_use]
    #[expect(
        clippy::indexing_slicing,
        reason = "a shift of at most 160 bits is five limbs, of six"
    )]
    pub fn index_decimal(self, ring_size: RingSize) -> String {
        // The index is number << (160 - log2 ring size), which takes five 32-bit limbs. Each
        // division by ten yields one decimal digit. A quotient fits its limb, since the remainder is
        // less than ten.
        let shift = 160 - ring_size.0.trailing_zeros();
        let mut limbs = [0u32; 6];
        let placed = u64::from(self.0) << (shift % 32);
        limbs[(shift / 32) as usize] = low_u32(placed);
        limbs[(shift / 32 + 1) as usize] = (placed >> 32) as u32;
        let mut digits = Vec::new();
        loop {
            let mut remainder = 0u64;
            for limb in limbs.iter_mut().rev() {
                let value = (remainder << 32) | u64::from(*limb);
                *limb = low_u32(value / 10);
                remainder = value % 10;
            }
            digits.push(b'0' + low_u8(remainder));
            if limbs.iter().all(|limb| *limb == 0) {
                break;
            }
        }
        digits.iter().rev().map(|digit| char::from(*digit)).collect()
    }
}
