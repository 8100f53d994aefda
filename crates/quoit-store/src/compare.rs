//! Comparison of two copies of a partition: hash ranges, their digests, and leaves.
//!
//! A hash range is split into sixteen parts, and each part again, until few records are left. The digest of
//! a range is the XOR over its records, so the digests of the parts combine to the digest of the whole, on
//! every node and engine.

use crate::record::RecordMeta;
use crate::tag::{N_VAL_CLASS_COUNT, N_VAL_CLASS_MAX, TAG_BITS, Tag};
use quoit_number::{low_u32, saturating_u32};

/// Binary logarithm of the number of parts of a range.
pub const SPLIT_BITS: u32 = 4;

/// Number of parts of a range.
pub const SPLIT_COUNT: usize = 1 << SPLIT_BITS;

/// Number of bits of an expiring record's compared digest that hold the hour of its expiry, counted from
/// 1970.
const HOUR_BITS: u32 = 21;

/// Number of bits of the compared digest that are left for the record's own digest.
const STATE_BITS: u32 = 64 - HOUR_BITS;

/// Seconds in an hour.
const HOUR_SECS: u32 = 3_600;

/// All hashes with a common prefix of up to 40 bits.
///
/// Ranges are numbered like the nodes of a binary heap: the whole hash space is 1, and the halves of range
/// `n` are `2 n` and `2 n + 1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HashRange(u64);

impl HashRange {
    /// All hashes.
    pub const ALL: Self = Self(1);

    /// The range with this number; `None` if no range has it.
    #[must_use]
    pub const fn from_number(number: u64) -> Option<Self> {
        if number > 0 && number < 1 << (TAG_BITS + 1) { Some(Self(number)) } else { None }
    }

    /// The range's number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The lowest tag in the range.
    #[must_use]
    pub const fn first(self) -> Tag {
        // `from_number` drops the highest set bit of the number, which only marks the depth.
        Tag::from_number(self.0 << self.free_bits())
    }

    /// The highest tag in the range.
    #[must_use]
    pub const fn last(self) -> Tag {
        Tag::from_number(self.first().number() | ((1 << self.free_bits()) - 1))
    }

    /// The [`SPLIT_COUNT`] parts of the range in ascending order; empty if the range is too small to be
    /// split.
    pub fn parts(self) -> impl ExactSizeIterator<Item = Self> {
        let count = if self.free_bits() < SPLIT_BITS { 0 } else { SPLIT_COUNT };
        (0..count).map(move |part| Self(self.0 << SPLIT_BITS | part as u64))
    }

    /// Number of low bits of a tag that the range does not fix.
    const fn free_bits(self) -> u32 {
        TAG_BITS - self.0.ilog2()
    }
}

/// Selection of the records of a partition that a comparison covers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Scope {
    /// The n_val class: records of buckets with this n_val, capped at 15.
    pub n_val_class: u8,
    /// The first hour of expiry, counted from 1970: expiring records with an earlier hour are left out,
    /// because replicas remove an expired record at different times.
    pub hour_min: u32,
}

/// The hour of a point in time, counted from 1970.
#[must_use]
pub const fn hour_of(unix_secs: u64) -> u32 {
    saturating_u32(unix_secs / HOUR_SECS as u64)
}

/// The part of a record by which copies are compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Leaf {
    /// The highest 40 bits of the record's identity.
    pub tag: Tag,
    /// Digest by which the record is compared: see [`compared_digest`].
    pub digest: u64,
    /// True for a tombstone. Digests of ranges leave tombstones out, because a replica without a tombstone
    /// misses no data.
    pub tombstone: bool,
}

/// A page of the leaves of a range.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeafPage {
    /// Leaves in ascending order.
    pub leaves: Vec<Leaf>,
    /// The tag from which the next call continues; `None` at the end.
    pub next: Option<Tag>,
}

/// The value by which a record is compared. It is the record's digest, or, if the record expires, the hour
/// of expiry in the highest 21 bits and the lowest 43 bits of the digest.
#[must_use]
pub const fn compared_digest(meta: &RecordMeta) -> u64 {
    if meta.expires_at_secs == 0 {
        return meta.digest;
    }
    let hour = (meta.expires_at_secs / HOUR_SECS) as u64;
    hour << STATE_BITS | meta.digest & ((1 << STATE_BITS) - 1)
}

/// The hour of expiry in the compared digest of an expiring record.
pub(crate) const fn compared_hour(compared: u64) -> u32 {
    (compared >> STATE_BITS) as u32
}

/// XOR digests of a set of records, one for each n_val class.
///
/// Equal sets have equal digests on every node and in every release. A record adds
/// `finish(digest ^ finish(tag))`, with `finish` the output function of SplitMix64 (Steele, Lea, Flood:
/// Fast Splittable Pseudorandom Number Generators, 2014), and its [`compared_digest`]. Tombstones add
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digests(pub [u64; N_VAL_CLASS_COUNT]);

impl Digests {
    /// Adds a leaf, or removes it again.
    #[expect(clippy::indexing_slicing, reason = "`class_place` returns the number of a class")]
    pub fn toggle(&mut self, n_val_class: u8, leaf: &Leaf) {
        self.0[class_place(n_val_class)] ^= contribution(leaf);
    }

    /// Adds the digests of another set of records, or removes them again.
    pub fn toggle_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, others)| *own ^= others);
    }

    /// The digest of one class.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "`class_place` returns the number of a class")]
    pub fn of_class(&self, n_val_class: u8) -> u64 {
        self.0[class_place(n_val_class)]
    }
}

/// A digest cut to 32 bits. Two digests that are equal by chance under one salt differ under another.
#[must_use]
pub const fn salted(digest: u64, salt: u64) -> u32 {
    low_u32(finish(digest ^ salt))
}

pub(crate) fn class_place(n_val_class: u8) -> usize {
    usize::from(n_val_class.min(N_VAL_CLASS_MAX))
}

/// The value that a leaf adds to the digest of its class.
pub(crate) const fn contribution(leaf: &Leaf) -> u64 {
    if leaf.tombstone { 0 } else { finish(leaf.digest ^ finish(leaf.tag.number())) }
}

/// One step of SplitMix64: advances the state and applies the output function.
const fn finish(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_of_a_range_is_its_prefix_after_a_one(depth in 0..=TAG_BITS, bits: u64) {
            let prefix = if depth == 0 { 0 } else { bits >> (64 - depth) };
            let range = HashRange::from_number(1 << depth | prefix).unwrap();
            let shift = TAG_BITS - depth;
            prop_assert_eq!(range.first().number(), prefix << shift);
            prop_assert_eq!(range.last().number(), (prefix << shift) + (1 << shift) - 1);
        }

        #[test]
        fn parts_cover_a_range_without_gaps(number in 1..1u64 << 37) {
            let range = HashRange::from_number(number).unwrap();
            let parts: Vec<_> = range.parts().collect();
            prop_assert_eq!(parts.len(), SPLIT_COUNT);
            prop_assert_eq!(parts[0].first(), range.first());
            prop_assert_eq!(parts[15].last(), range.last());
            for pair in parts.windows(2) {
                prop_assert_eq!(pair[0].last().next(), Some(pair[1].first()));
            }
        }

        #[test]
        fn what_expires_is_compared_with_its_hour(digest: u64, expires_at_secs in 1u32..) {
            let meta = RecordMeta { digest, expires_at_secs, ..RecordMeta::default() };
            let compared = compared_digest(&meta);
            prop_assert_eq!(compared_hour(compared), expires_at_secs / 3_600);
            prop_assert_eq!(compared << HOUR_BITS, digest << HOUR_BITS);
            prop_assert_eq!(compared_hour(compared), hour_of(u64::from(expires_at_secs)));
        }
    }

    #[test]
    fn numbers_beyond_the_tags_are_no_ranges() {
        assert_eq!(HashRange::from_number(0), None);
        assert_eq!(HashRange::from_number(1 << 41), None);
        let smallest = HashRange::from_number((1 << 41) - 1).unwrap();
        assert_eq!((smallest.first(), smallest.last()), (Tag::MAX, Tag::MAX));
        assert_eq!(smallest.parts().len(), 0);
    }

    #[test]
    fn digests_are_the_same_for_ever() {
        let mut digests = Digests::default();
        let tag = Tag::from_number(0x01_0203_0405);
        digests.toggle(3, &Leaf { tag, digest: 0xdead_beef_cafe_f00d, tombstone: false });
        digests.toggle(3, &Leaf { tag, digest: 7, tombstone: true });
        assert_eq!(digests.of_class(3), 0x776e_9968_f057_f30e);
        assert_eq!(digests.of_class(4), 0);
    }
}
