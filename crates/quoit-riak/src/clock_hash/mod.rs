//! Values of records in Riak's trees.

use crate::erlang_hash::TermHasher;
use quoit_model::clock::{Dot, VersionVector};
use quoit_model::key::BucketRef;
use quoit_model::segments::TreePosition;
use smallvec::SmallVec;

/// Place of a record in a tree, and its contribution. A leaf is the XOR of the values of its records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TreeEntry {
    /// Number of the segment in a tree of 2^32 segments. In a smaller tree it is taken modulo the
    /// number of segments.
    pub segment: u32,
    /// Value that the record contributes to its leaf.
    pub value: u32,
}

impl TreeEntry {
    /// The entry of a record with this clock, as kept trees have it.
    #[must_use]
    pub fn new(bucket: BucketRef<'_>, key: &[u8], clock: &VersionVector) -> Self {
        Self::of_hash(bucket, key, clock_hash(clock))
    }

    /// The entry of a record in a tree with salted hashes. Two versions whose hashes are equal by
    /// chance differ under another salt.
    #[must_use]
    pub fn salted(bucket: BucketRef<'_>, key: &[u8], clock: &VersionVector, salt: u32) -> Self {
        Self::of_hash(bucket, key, salted_clock_hash(clock, salt))
    }

    fn of_hash(bucket: BucketRef<'_>, key: &[u8], hash: u32) -> Self {
        let place = TreePosition::of(bucket, key);
        Self { segment: place.segment, value: place.mask ^ hash }
    }
}

/// Hash of a clock: of its sorted list of `{Actor, {Counter, Time}}`. Below 2^27.
#[must_use]
pub fn clock_hash(clock: &VersionVector) -> u32 {
    let mut hasher = TermHasher::default();
    put_clock(&mut hasher, clock);
    hasher.finish()
}

/// Hash of `{Salt, Clock}`. Below 2^27.
#[must_use]
pub fn salted_clock_hash(clock: &VersionVector, salt: u32) -> u32 {
    let mut hasher = TermHasher::default();
    hasher.tuple(2);
    hasher.integer(salt.into());
    put_clock(&mut hasher, clock);
    hasher.finish()
}

fn put_clock(hasher: &mut TermHasher, clock: &VersionVector) {
    let mut entries: SmallVec<[&Dot; 4]> = clock.entries().iter().collect();
    entries.sort_unstable_by(|one, other| one.actor.cmp(&other.actor));
    for entry in entries {
        hasher.tuple(2);
        hasher.binary(&entry.actor.0);
        hasher.tuple(2);
        hasher.integer(entry.counter);
        hasher.integer(entry.time_secs);
    }
    hasher.list_end();
}

#[cfg(test)]
mod tests;
