//! Percentiles between any two moments, for code that watches latencies more closely than by the
//! minute.

use super::recorder::{BUCKET_COUNT, add, percentile};
use super::{Distribution, Stats};

/// Histograms of some distributions at one moment.
pub(crate) struct HistogramSnapshot<const COUNT: usize>([Vec<u64>; COUNT]);

impl Stats {
    /// Takes the present histograms of some distributions. Costs about ten microseconds.
    pub(crate) fn times<const COUNT: usize>(
        &self,
        distributions: [Distribution; COUNT],
    ) -> HistogramSnapshot<COUNT> {
        HistogramSnapshot(distributions.map(|distribution| {
            let mut counts = vec![0; BUCKET_COUNT];
            for shard in &self.shards {
                add(&mut counts, shard.buckets(distribution as usize));
            }
            counts
        }))
    }
}

impl<const COUNT: usize> HistogramSnapshot<COUNT> {
    /// For each distribution, the number of values since an earlier moment and a percentile of them (0
    /// if there are none).
    pub(crate) fn percentiles_since(&self, earlier: &Self, percent: u64) -> [(u64, u64); COUNT] {
        let mut told = [(0, 0); COUNT];
        let histograms = self.0.iter().zip(&earlier.0);
        for (told, (now, before)) in told.iter_mut().zip(histograms) {
            let counts: Vec<u64> =
                now.iter().zip(before).map(|(now, before)| now - before).collect();
            *told = (counts.iter().sum(), percentile(&counts, percent));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_came_between() {
        let stats = Stats::default();
        let kinds = [Distribution::GetTimeUs, Distribution::PutTimeUs];
        (0..100).for_each(|_| stats.record_put::<()>(1_000_000, &Ok(())));
        let before = stats.times(kinds);
        (1..=15).for_each(|time_us| stats.record_put::<()>(time_us, &Ok(())));
        let found = stats.times(kinds).percentiles_since(&before, 80);
        assert_eq!(found, [(0, 0), (15, 12)]);
    }
}
