//! Keys of records and documents, and the distribution of reads over them.

use crate::random::{Random, mix};

/// Number of bits of the hashes in keys.
const HASH_BITS: u32 = 27;

/// 2^27 divided by the golden ratio, as an odd number.
const GOLDEN_MULTIPLIER: u64 = 82_951_117;

/// Number of low bits of the hash that a worker's identity drops.
const IDENTITY_SHIFT: u32 = 6;

/// The 27-bit hash of a number: its multiple of [`GOLDEN_MULTIPLIER`] modulo 2^27 (Fibonacci hashing,
/// Knuth, volume 3, section 6.4).
///
/// The function must never change, because one run reads keys that another has written. Different numbers
/// below 2^27 have different hashes. Successive numbers are so far apart that a hundred thousand workers
/// also differ in the upper 21 bits.
pub(super) fn number_hash(number: u64) -> u32 {
    quoit_number::low_u32(number.wrapping_mul(GOLDEN_MULTIPLIER) & ((1 << HASH_BITS) - 1))
}

/// The 27-bit hash of a name: its bytes are mixed in one after another, and the upper bits of the result
/// are taken. It must never change either.
pub(super) fn name_hash(name: &[u8]) -> u32 {
    let hash = name.iter().fold(name.len() as u64, |hash, byte| mix(hash ^ u64::from(*byte)));
    quoit_number::low_u32(hash >> (u64::BITS - HASH_BITS))
}

/// A 21-bit number that keeps the keys of one worker of one load generator apart from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WorkerIdentity(u32);

impl WorkerIdentity {
    /// The identity of worker `worker` on the load generator named `node_name`.
    pub(super) fn new(worker: u32, node_name: &[u8]) -> Self {
        Self((number_hash(u64::from(worker)) ^ name_hash(node_name)) >> IDENTITY_SHIFT)
    }

    /// Key number `number` of this worker: nine digits of the number or of its hash, then nine digits of
    /// the identity.
    pub(super) fn key(self, number: u64, order: Order) -> String {
        let first = match order {
            Order::Key => number,
            Order::Skew => number_hash(number).into(),
        };
        format!("{first:09}{:09}", self.0)
    }
}

/// The order of a worker's successive keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Ascending.
    Key,
    /// Scattered over the key space.
    Skew,
}

/// Draws one of the numbers `1..=count`, low numbers more often. About nine draws in ten fall on the lowest
/// fifth, and within it the lowest numbers are the most popular. `count` must be at least 1.
pub(super) fn pick(random: &mut Random, count: u64) -> u64 {
    let threshold = random.uniform((count / 5).max(1));
    if random.uniform(count) < threshold {
        random.uniform(count - threshold) + threshold
    } else {
        random.uniform(threshold)
    }
}
