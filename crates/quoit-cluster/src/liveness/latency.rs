//! Latencies of a node's answers.

use quoit_number::{saturating_u32, whole};

/// Buckets per octave of the histogram. A reported percentile is at most a quarter above the true one.
const BUCKETS_PER_OCTAVE: u32 = 4;
/// Latencies below this share the first buckets.
const LATENCY_US_MIN: u32 = 8;
const BUCKET_COUNT: u32 = 27 * BUCKETS_PER_OCTAVE;
/// Number of latencies at which all counts are halved, so that older latencies count less and less.
const COUNT_MAX: u32 = 1024;
/// Weight of a new latency in the mean.
const MEAN_WEIGHT: f32 = 1.0 / 32.0;
/// Number of answers after which the high percentile is computed again.
const ANSWERS_PER_UPDATE: u32 = 32;

/// Latencies of a node's recent answers, from sending the request to reading the first answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Latency {
    /// Exponentially weighted mean, in microseconds; 0 if there was no answer yet.
    pub mean_us: u32,
    /// 95th percentile, in microseconds, rounded up by at most a quarter; 0 if there was no answer yet.
    pub high_us: u32,
}

/// Running estimate of latencies. Recording costs a few additions and allocates nothing.
#[derive(Debug, Clone)]
pub(crate) struct LatencyEstimate {
    mean_us: f32,
    counts: [u32; BUCKET_COUNT as usize],
    count: u32,
    high_us: u32,
    until_update_count: u32,
}

impl Default for LatencyEstimate {
    fn default() -> LatencyEstimate {
        LatencyEstimate {
            mean_us: 0.0,
            counts: [0; BUCKET_COUNT as usize],
            count: 0,
            high_us: 0,
            until_update_count: 1,
        }
    }
}

impl LatencyEstimate {
    #[expect(clippy::indexing_slicing, reason = "`bucket_of` returns the number of a bucket")]
    pub(crate) fn record(&mut self, latency_us: u32) {
        if self.count == 0 {
            self.mean_us = latency_us as f32;
        }
        self.mean_us += (latency_us as f32 - self.mean_us) * MEAN_WEIGHT;
        self.counts[bucket_of(latency_us) as usize] += 1;
        self.count += 1;
        self.until_update_count -= 1;
        if self.until_update_count == 0 {
            self.until_update_count = ANSWERS_PER_UPDATE.min(self.count);
            self.high_us = self.percentile_us();
        }
        if self.count >= COUNT_MAX {
            for count in &mut self.counts {
                *count /= 2;
            }
            self.count = self.counts.iter().sum::<u32>().max(1);
        }
    }

    pub(crate) fn latency(&self) -> Latency {
        let mean_us = saturating_u32(whole(self.mean_us.into()));
        Latency { mean_us, high_us: self.high_us }
    }

    fn percentile_us(&self) -> u32 {
        let mut above_count = self.count / 20;
        for (bucket, &count) in (0..BUCKET_COUNT).zip(&self.counts).rev() {
            if count > above_count {
                return end_of(bucket);
            }
            above_count -= count;
        }
        LATENCY_US_MIN
    }
}

/// Returns the bucket of a latency: its octave, and the two bits after its highest bit.
fn bucket_of(latency_us: u32) -> u32 {
    let latency_us = latency_us.max(LATENCY_US_MIN);
    let octave = latency_us.ilog2() - LATENCY_US_MIN.ilog2();
    let quarter = (latency_us >> (latency_us.ilog2() - 2)) & (BUCKETS_PER_OCTAVE - 1);
    (octave * BUCKETS_PER_OCTAVE + quarter).min(BUCKET_COUNT - 1)
}

/// Returns the smallest latency above a bucket.
fn end_of(bucket: u32) -> u32 {
    let (octave, quarter) = (bucket / BUCKETS_PER_OCTAVE, bucket % BUCKETS_PER_OCTAVE);
    let quarters = u64::from(BUCKETS_PER_OCTAVE + quarter + 1);
    let end_us = (quarters << (octave + LATENCY_US_MIN.ilog2())) / u64::from(BUCKETS_PER_OCTAVE);
    u32::try_from(end_us).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_latency_is_within_a_quarter_below_the_end_of_its_bucket(latency_us in 8_u32..1 << 29) {
            let end_us = end_of(bucket_of(latency_us));
            prop_assert!(end_us > latency_us);
            prop_assert!(u64::from(end_us) * 4 <= u64::from(latency_us) * 5 + 4);
        }

        #[test]
        fn the_high_percentile_lies_above_most_and_below_the_worst(
            latencies_us in prop::collection::vec(1_u32..10_000_000, 1..400),
        ) {
            let mut estimate = LatencyEstimate::default();
            latencies_us.iter().for_each(|&latency_us| estimate.record(latency_us));
            let high_us = estimate.percentile_us();
            let above_count =
                latencies_us.iter().filter(|&&latency_us| latency_us >= high_us).count();
            prop_assert!(above_count <= latencies_us.len() / 20, "{above_count} lie above");
            let worst_us = latencies_us.iter().copied().max().unwrap_or(0).max(8);
            prop_assert!(u64::from(high_us) * 4 <= u64::from(worst_us) * 5 + 4);
        }
    }

    #[test]
    fn a_node_that_has_become_slow_is_noticed_and_forgiven() {
        let mut estimate = LatencyEstimate::default();
        (0..10_000).for_each(|_| estimate.record(200));
        assert_eq!(estimate.latency().mean_us, 200);
        assert!(estimate.latency().high_us < 300);
        (0..200).for_each(|_| estimate.record(20_000));
        assert!(estimate.latency().mean_us > 15_000);
        assert!(estimate.latency().high_us > 15_000);
        (0..10_000).for_each(|_| estimate.record(200));
        assert!(estimate.latency().high_us < 300);
    }

    #[test]
    fn extremes_have_buckets() {
        let mut estimate = LatencyEstimate::default();
        estimate.record(0);
        estimate.record(u32::MAX);
        assert!(estimate.latency().high_us >= LATENCY_US_MIN);
    }
}
