//! Hot keys, by the space-saving algorithm (Metwally, Agrawal and El Abbadi, "Efficient Computation of
//! Frequent and Top-k Elements in Data Streams", 2005).
//!
//! The number of counters is bounded. A key without a counter takes over the lowest one together with
//! its count. A key with more than one in `n` of the requests, where `n` is the number of counters,
//! always has a counter.

use super::{HotKey, SAMPLE_INTERVAL};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};

/// Counters of this window and the one before.
pub(super) struct HotKeys {
    count_max: usize,
    window_us: u64,
    began_us: Option<u64>,
    now: KeyCounts,
    before: KeyCounts,
}

/// Numbers of requests by key.
#[derive(Default)]
struct KeyCounts {
    keys: BTreeMap<Bytes, Counted>,
    total: u64,
    /// Lower bound of all counts. It never falls, so a search for the lowest count ends at the first
    /// counter that has it.
    count_min: u64,
}

#[derive(Clone, Copy, Default)]
struct Counted {
    count: u64,
    /// Part of the count that may belong to keys which had the counter before.
    inherited: u64,
}

impl HotKeys {
    pub(super) fn new(count_max: usize, window_us: u64) -> Self {
        Self {
            count_max,
            window_us,
            began_us: None,
            now: KeyCounts::default(),
            before: KeyCounts::default(),
        }
    }

    /// Counts a request of a key.
    pub(super) fn count(&mut self, now_us: u64, key: &[u8]) {
        self.begin_window_if_over(now_us);
        self.now.count(key, self.count_max);
    }

    /// Begins a new window if the present one is over.
    fn begin_window_if_over(&mut self, now_us: u64) {
        let began_us = *self.began_us.get_or_insert(now_us);
        let age_us = now_us.saturating_sub(began_us);
        if age_us >= self.window_us {
            let ended = std::mem::take(&mut self.now);
            self.before = if age_us < 2 * self.window_us { ended } else { KeyCounts::default() };
            self.began_us = Some(now_us);
        }
    }

    /// The hottest keys, hottest first.
    pub(super) fn hottest(&mut self, now_us: u64) -> Vec<HotKey> {
        self.begin_window_if_over(now_us);
        let before_us = if self.before.total > 0 { self.window_us } else { 0 };
        let span_us = now_us.saturating_sub(self.began_us.unwrap_or(now_us)) + before_us;
        let total = self.now.total + self.before.total;
        let mut sums: HashMap<&Bytes, u64> = HashMap::new();
        for (key, counted) in self.now.keys.iter().chain(&self.before.keys) {
            *sums.entry(key).or_default() += counted.count - counted.inherited;
        }
        let mut hottest: Vec<(u64, &Bytes)> =
            sums.into_iter().map(|(key, sum)| (sum, key)).collect();
        hottest.sort_unstable_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(other.1)));
        hottest.truncate(self.count_max);
        let secs = (span_us as f64 / 1e6).max(1.0);
        let told = hottest.into_iter().filter(|(sum, _)| *sum > 0).map(|(sum, key)| HotKey {
            key: key.clone(),
            requests_per_sec: (sum * u64::from(SAMPLE_INTERVAL)) as f64 / secs,
            share: sum as f64 / total.max(1) as f64,
        });
        told.collect()
    }
}

impl KeyCounts {
    fn count(&mut self, key: &[u8], count_max: usize) {
        self.total += 1;
        if let Some(counted) = self.keys.get_mut(key) {
            counted.count += 1;
            return;
        }
        let mut counted = Counted { count: 1, inherited: 0 };
        if self.keys.len() >= count_max {
            let Some((lowest, inherited)) = self.lowest() else { return };
            self.keys.remove(&lowest);
            counted = Counted { count: inherited + 1, inherited };
        }
        self.keys.insert(Bytes::copy_from_slice(key), counted);
    }

    /// A key with the lowest count, and that count.
    fn lowest(&mut self) -> Option<(Bytes, u64)> {
        let mut lowest: Option<(&Bytes, u64)> = None;
        for (key, counted) in &self.keys {
            if lowest.is_none_or(|(_, count)| counted.count < count) {
                lowest = Some((key, counted.count));
                if counted.count <= self.count_min {
                    break;
                }
            }
        }
        let (key, count) = lowest?;
        self.count_min = count;
        Some((key.clone(), count))
    }
}
