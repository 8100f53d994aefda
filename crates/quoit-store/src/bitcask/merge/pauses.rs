//! Pauses of segments whose last merge was futile. Pure.

use quoit_number::saturating_u64;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum ratio of a pause to the first pause.
const GROWTH_MAX: u64 = 512;

/// The pause of a segment.
struct MergePause {
    /// Number of futile merges in a row.
    futile_count: u32,
    /// End of the pause on the monotonic clock.
    until_us: u64,
}

/// The pauses of all segments. They are kept in memory only, so merges try again after a restart.
#[derive(Default)]
pub(super) struct MergePauses {
    segments: BTreeMap<u32, MergePause>,
}

impl MergePauses {
    /// True if merges have to leave a segment alone now.
    pub(super) fn is_paused(&self, number: u32, now_us: u64) -> bool {
        self.segments.get(&number).is_some_and(|pause| now_us < pause.until_us)
    }

    /// The number of futile merges in a row: the maximum over these segments.
    pub(super) fn futile_count(&self, numbers: &[u32]) -> u32 {
        let pauses = numbers.iter().filter_map(|number| self.segments.get(number));
        pauses.map(|pause| pause.futile_count).max().unwrap_or(0)
    }

    /// Begins a pause of `first_pause`, doubled for each futile merge in a row after the first.
    pub(super) fn begin(
        &mut self,
        numbers: &[u32],
        futile_count: u32,
        first_pause: Duration,
        now_us: u64,
    ) {
        let pause_us = saturating_u64(first_pause.as_micros());
        let doublings = futile_count.saturating_sub(1).min(GROWTH_MAX.ilog2());
        let until_us = now_us.saturating_add(pause_us.saturating_mul(1 << doublings));
        for number in numbers {
            self.segments.insert(*number, MergePause { futile_count, until_us });
        }
    }

    /// Forgets segments that were removed.
    pub(super) fn retain(&mut self, is_there: impl Fn(u32) -> bool) {
        self.segments.retain(|number, _| is_there(*number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_end() {
        let mut pauses = MergePauses::default();
        assert!(!pauses.is_paused(3, 0));
        for (futile_count, pause_us) in [(1, 100), (2, 200), (3, 400), (10, 51_200), (99, 51_200)] {
            pauses.begin(&[3, 5], futile_count, Duration::from_micros(100), 1_000);
            assert_eq!(pauses.futile_count(&[4, 5]), futile_count);
            assert!(pauses.is_paused(3, 1_000 + pause_us - 1), "{futile_count}");
            assert!(!pauses.is_paused(3, 1_000 + pause_us), "{futile_count}");
        }
        pauses.begin(&[5], u32::MAX, Duration::MAX, 1_000);
        assert!(pauses.is_paused(5, u64::MAX - 1));
        pauses.retain(|number| number == 3);
        assert_eq!((pauses.futile_count(&[5]), pauses.futile_count(&[3, 5])), (0, 99));
    }
}
