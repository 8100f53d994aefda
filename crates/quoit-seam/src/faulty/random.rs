//! Random numbers of a faulty disk.

use quoit_number::index;

/// Generator of numbers that follow from a seed: SplitMix64 by Sebastiano Vigna. The field holds the
/// seed first.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number, from the full range.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    ///
    /// # Panics
    ///
    /// If `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// Number of items, out of `count`, that survive: none, all, or any number.
    pub fn surviving_count(&mut self, count: usize) -> usize {
        match self.below(4) {
            0 => 0,
            1 => count,
            _ => index(self.below(count as u64 + 1)),
        }
    }
}
