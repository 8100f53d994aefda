//! Random numbers that follow from the seed.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};
use std::num::TryFromIntError;
use std::ops::Range;

/// A stream of random numbers. Each part of a run has its own stream, so that a part which draws more
/// numbers does not change the numbers of others.
#[derive(Debug, Clone)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Returns the stream of a part of a run, identified by `name` and `number`.
    #[must_use]
    pub fn new(seed: u64, name: &str, number: u64) -> Self {
        let bytes = name.bytes().map(u64::from).chain([number]);
        let mixed = bytes.fold(mix(seed), |hash, byte| mix(hash ^ byte));
        Self(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// Draws any number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The remainder is slightly biased, which does not matter for the small ranges used here.
        self.number().checked_rem(end).unwrap_or(0)
    }

    /// Draws a number of a range; its start if the range is empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end.saturating_sub(range.start))
    }

    /// Draws a number of a range of numbers of at most 32 bits, by the same rule as [`Random::within`].
    pub fn within_narrow<T>(&mut self, range: Range<T>) -> T
    where
        T: Into<u64> + TryFrom<u64, Error = TryFromIntError>,
    {
        let drawn = self.within(range.start.into()..range.end.into());
        T::try_from(drawn).expect("the number lies in the range")
    }

    /// Draws an index of a collection of `count` elements; 0 if the collection is empty.
    pub fn index_below(&mut self, count: usize) -> usize {
        quoit_number::index(self.below(count as u64))
    }

    /// Draws a number of a range such that each order of magnitude is equally likely: as many between one
    /// and ten seconds as between one and ten milliseconds. Such durations lie on both sides of every
    /// time limit of the store.
    pub fn within_by_magnitude(&mut self, range: Range<u64>) -> u64 {
        let doublings = |number: u64| u64::from(number.max(1).ilog2());
        let doubling = self.within(doublings(range.start)..doublings(range.end) + 1);
        let least = 1 << doubling;
        self.within(least..2 * least).clamp(range.start, range.end - 1)
    }

    /// Draws true with a probability of `percent` in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Picks an element of a slice.
    ///
    /// # Panics
    ///
    /// If the slice is empty.
    pub fn pick<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[self.index_below(things.len())]
    }
}

/// Mixes a number with the finalizer of SplitMix64 (Sebastiano Vigna).
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_follow_from_seed_name_and_number() {
        let first = |seed, name, number| Random::new(seed, name, number).number();
        assert_eq!(first(1, "clients", 2), first(1, "clients", 2));
        let others = [first(2, "clients", 2), first(1, "faults", 2), first(1, "clients", 3)];
        assert!(others.iter().all(|other| *other != first(1, "clients", 2)), "{others:?}");
    }

    #[test]
    fn the_type_of_a_number_does_not_change_the_draw() {
        let drawn = || Random::new(7, "types", 0);
        let expected = drawn().within(5..200);
        assert_eq!(u64::from(drawn().within_narrow(5_u8..200)), expected);
        assert_eq!(u64::from(drawn().within_narrow(5_u32..200)), expected);
        assert_eq!(drawn().index_below(195) as u64 + 5, expected);
    }

    #[test]
    fn numbers_stay_in_their_ranges() {
        let mut random = Random::new(7, "ranges", 0);
        assert!((0..100).all(|_| (5..8).contains(&random.within(5..8))));
        assert_eq!((random.below(0), random.within(5..5)), (0, 5));
        assert!((0..100).all(|_| (5_u8..8).contains(&random.within_narrow(5_u8..8))));
        assert!((0..100).all(|_| (0..3).contains(&random.index_below(3))));
        assert_eq!((random.index_below(0), random.within_narrow(5_u32..5)), (0, 5));
        assert!((0..100).all(|_| !random.percent(0) && random.percent(100)));
        let drawn: Vec<u64> = (0..1_000).map(|_| random.within_by_magnitude(20..60_000)).collect();
        assert!(drawn.iter().all(|number| (20..60_000).contains(number)));
        assert!(drawn.iter().filter(|number| **number < 1_000).count() > 300);
        assert!(drawn.iter().filter(|number| **number > 10_000).count() > 100);
    }
}
