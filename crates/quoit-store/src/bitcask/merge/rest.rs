//! Which segments are left alone for a while, because the last merge of them was of no use. Pure.

use std::collections::BTreeMap;

/// A pause grows to at most so many times the first one.
const GROWTH_MAX: u64 = 512;

/// The pause of a segment.
struct Rest {
    /// How many merges in a row were of no use.
    futile_count: u32,
    /// End of the pause on the monotonic clock.
    until_us: u64,
}

/// The pauses of all segments. Kept in memory only: a store that was opened again tries once more.
#[derive(Default)]
pub(super) struct Rests {
    segments: BTreeMap<u32, Rest>,
}

impl Rests {
    /// Whether a segment is to be left alone now.
    pub(super) fn is_resting(&self, number: u32, now_us: u64) -> bool {
        self.segments.get(&number).is_some_and(|rest| now_us < rest.until_us)
    }

    /// How many merges of these segments in a row were of no use: of that one with the most.
    pub(super) fn futile_count(&self, numbers: &[u32]) -> u32 {
        let rests = numbers.iter().filter_map(|number| self.segments.get(number));
        rests.map(|rest| rest.futile_count).max().unwrap_or(0)
    }

    /// Leaves segments alone for `pause_us`, doubled with each merge but the first of `futile_count`.
    pub(super) fn begin(&mut self, numbers: &[u32], futile_count: u32, pause_us: u64, now_us: u64) {
        let doublings = futile_count.saturating_sub(1).min(GROWTH_MAX.ilog2());
        let until_us = now_us.saturating_add(pause_us.saturating_mul(1 << doublings));
        for number in numbers {
            self.segments.insert(*number, Rest { futile_count, until_us });
        }
    }

    /// Forgets the segments that are gone.
    pub(super) fn retain(&mut self, is_there: impl Fn(u32) -> bool) {
        self.segments.retain(|number, _| is_there(*number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_end() {
        let mut rests = Rests::default();
        assert!(!rests.is_resting(3, 0));
        for (futile_count, pause_us) in [(1, 100), (2, 200), (3, 400), (10, 51_200), (99, 51_200)] {
            rests.begin(&[3, 5], futile_count, 100, 1_000);
            assert_eq!(rests.futile_count(&[4, 5]), futile_count);
            assert!(rests.is_resting(3, 1_000 + pause_us - 1), "{futile_count}");
            assert!(!rests.is_resting(3, 1_000 + pause_us), "{futile_count}");
        }
        rests.begin(&[5], u32::MAX, u64::MAX, 1_000);
        assert!(rests.is_resting(5, u64::MAX - 1));
        rests.retain(|number| number == 3);
        assert_eq!((rests.futile_count(&[5]), rests.futile_count(&[3, 5])), (0, 99));
    }
}
