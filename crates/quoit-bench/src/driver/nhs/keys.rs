//! Names of records and documents, and which of them are popular.

use crate::random::{Random, mix};

/// Bits of the hashes that keys are made of.
const HASH_BITS: u32 = 27;

/// 2^27 divided by the golden ratio, as an odd number.
const GOLDEN_MULTIPLIER: u64 = 82_951_117;

/// Bits of a worker's identity that its keys leave out.
const IDENTITY_SHIFT: u32 = 6;

/// The 27-bit hash of a number: its multiple of [`GOLDEN_MULTIPLIER`] modulo 2^27 (Fibonacci
/// hashing, Knuth, volume 3, section 6.4).
///
/// It is ours and never changes, for keys of one run are read by the next. It gives different
/// numbers below 2^27 different hashes, and keeps successive ones so far apart that a hundred
/// thousand workers differ in the upper 21 bits, too.
pub(super) fn number_hash(number: u64) -> u32 {
    (number.wrapping_mul(GOLDEN_MULTIPLIER) & ((1 << HASH_BITS) - 1)) as u32
}

/// The 27-bit hash of a name: its bytes mixed in one after the other, the upper bits of the sum.
/// It never changes either.
pub(super) fn name_hash(name: &[u8]) -> u32 {
    let hash = name.iter().fold(name.len() as u64, |hash, byte| mix(hash ^ u64::from(*byte)));
    (hash >> (u64::BITS - HASH_BITS)) as u32
}

/// Number that keeps the keys of one worker of one load generator apart from all others: 21 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WorkerIdentity(u32);

impl WorkerIdentity {
    /// The identity of worker `worker` of the load generator that is called `node_name`.
    pub(super) fn new(worker: u32, node_name: &[u8]) -> Self {
        Self((number_hash(u64::from(worker)) ^ name_hash(node_name)) >> IDENTITY_SHIFT)
    }

    /// Key number `number` of this worker: nine digits of the number or of its hash, nine digits
    /// of the identity.
    pub(super) fn key(self, number: u64, order: Order) -> String {
        let first = match order {
            Order::Key => number,
            Order::Skew => number_hash(number).into(),
        };
        format!("{first:09}{:09}", self.0)
    }
}

/// How the keys of a worker follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Ascending.
    Key,
    /// Scattered over all keys.
    Skew,
}

/// One of the numbers `1..=count`, of which low ones are the most popular: some nine draws in ten
/// fall on the lowest fifth, and there the lowest are the hottest again. `count` is at least 1.
pub(super) fn pick(random: &mut Random, count: u64) -> u64 {
    let threshold = random.uniform((count / 5).max(1));
    if random.uniform(count) < threshold {
        random.uniform(count - threshold) + threshold
    } else {
        random.uniform(threshold)
    }
}
