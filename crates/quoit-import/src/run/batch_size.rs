//! Batch size: as many records as the cluster can store in about a second.
//!
//! A killed import loses the work on its unacknowledged batches. There are at most four such batches for
//! each sending thread, including those that were acknowledged out of order. The threads work in parallel,
//! so at one second for each batch that is some four seconds of work, however slow the cluster is.

use super::BATCH_RECORDS_MAX;
use std::time::Duration;

/// Longest time that a batch should take.
const TARGET: Duration = Duration::from_secs(1);
/// Fewest records of a batch.
const RECORDS_MIN: usize = 8;
/// Records of the first batch, before anything is known about the cluster.
const RECORDS_FIRST: usize = 64;
/// Factor by which a batch may be larger than the one before.
const GROWTH_MAX: usize = 2;

/// The current batch size, adapted to the speed of the cluster.
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

    /// Adapts the size to the time that a batch took, including the time in which the cluster could not
    /// take records.
    pub(super) fn took(&mut self, record_count: usize, time: Duration) {
        if record_count == 0 {
            return;
        }
        let in_time = record_count as u128 * TARGET.as_micros() / time.as_micros().max(1);
        let in_time = usize::try_from(in_time).unwrap_or(usize::MAX);
        // A batch may be small because there were no more records; its time says nothing about larger
        // batches.
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
