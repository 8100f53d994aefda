//! Counts and digests of a set of entries, kept up with every change.

use super::entry::{Entry, N_VAL_CLASS_COUNT, Tag};

/// XOR digests of a set of entries, one for each n_val class. Entries that expire are left out:
/// when they vanish differs between replicas, so they are compared by other means.
///
/// Equal sets have equal digests on every node and in every release: the function is
/// `finish(digest ^ finish(tag))`, with `finish` the output function of SplitMix64 (Steele, Lea,
/// Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digests(pub [u64; N_VAL_CLASS_COUNT]);

impl Digests {
    /// Adds an entry, or takes it out again.
    pub fn toggle(&mut self, entry: &Entry) {
        if !entry.expires {
            let class = usize::from(entry.n_val_class) % N_VAL_CLASS_COUNT;
            self.0[class] ^= contribution(entry.tag, entry.digest);
        }
    }
}

fn contribution(tag: Tag, digest: u64) -> u64 {
    finish(digest ^ finish(tag.number()))
}

/// The output function of SplitMix64 after one step of its state.
const fn finish(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What is known of all entries of a partition without looking at them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sums {
    pub(super) entry_count: u64,
    pub(super) tombstone_count: u64,
    pub(super) digests: Digests,
}

impl Sums {
    pub(super) fn add(&mut self, entry: &Entry) {
        self.entry_count += 1;
        self.tombstone_count += u64::from(entry.tombstone);
        self.digests.toggle(entry);
    }

    pub(super) fn subtract(&mut self, entry: &Entry) {
        self.entry_count -= 1;
        self.tombstone_count -= u64::from(entry.tombstone);
        self.digests.toggle(entry);
    }
}
