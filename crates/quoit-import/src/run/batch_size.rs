//! Size of batches: so many records as the cluster deals with in about a second.
//!
//! The end of the process costs the work on the batches that are under way. These are at most as many as
//! threads send, and three times as many that were acknowledged before an earlier one: at a second each, with
//! the threads side by side, some four seconds of work, however slow the cluster is.

use super::BATCH_RECORDS_MAX;
use std::time::Duration;

/// Time that a batch should take at most.
const TARGET: Duration = Duration::from_secs(1);
/// Least records of a batch.
const RECORDS_MIN: usize = 8;
/// Records of the first batch, when nothing is known of the cluster.
const RECORDS_FIRST: usize = 64;
/// How much more records a batch may have than the one before.
const GROWTH_MAX: usize = 2;

/// The number of records of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSize {
    records_max: usize,
}

impl Default for BatchSize {
    fn default() -> Self {
        Self { records_max: RECORDS_FIRST }
    }
}

impl BatchSize {
    /// Most records of the next batch.
    pub(super) const fn records_max(self) -> usize {
        self.records_max
    }

    /// Takes note of the time that a batch of so many records took, waiting for the cluster included.
    pub(super) fn took(&mut self, record_count: usize, time: Duration) {
        if record_count == 0 {
            return;
        }
        let in_time = record_count as u128 * TARGET.as_micros() / time.as_micros().max(1);
        let in_time = usize::try_from(in_time).unwrap_or(usize::MAX);
        // A batch that was small for want of records says nothing about larger ones.
        let grown = (GROWTH_MAX * self.records_max).min(in_time);
        let is_full = record_count >= self.records_max;
        let next = if is_full { grown } else { self.records_max.min(in_time) };
        self.records_max = next.clamp(RECORDS_MIN, BATCH_RECORDS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_take_about_a_second_however_slow_the_cluster_is() {
        for records_per_sec in [5_usize, 100, 700] {
            let mut size = BatchSize::default();
            for _ in 0..20 {
                let count = size.records_max();
                size.took(count, Duration::from_secs_f64(count as f64 / records_per_sec as f64));
            }
            let expected = records_per_sec.clamp(RECORDS_MIN, BATCH_RECORDS_MAX);
            assert!(size.records_max().abs_diff(expected) <= 1, "{records_per_sec}: {size:?}");
        }
    }

    #[test]
    fn a_fast_cluster_gets_full_batches_soon_and_a_short_one_changes_nothing() {
        let mut size = BatchSize::default();
        for _ in 0..4 {
            size.took(size.records_max(), Duration::from_millis(1));
        }
        assert_eq!(size.records_max(), BATCH_RECORDS_MAX);
        size.took(0, Duration::from_millis(3));
        size.took(3, Duration::from_millis(3));
        assert_eq!(size.records_max(), BATCH_RECORDS_MAX);
        size.took(BATCH_RECORDS_MAX, Duration::from_secs(10));
        assert_eq!(size.records_max(), BATCH_RECORDS_MAX / 10);
    }
}
