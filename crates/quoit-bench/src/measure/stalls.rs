//! Stalls: times in which no operation succeeded.
//!
//! Each thread records its own gaps between successes. A stall is a time that lies in a gap of every
//! thread. In a closed loop the percentiles do not show a stall, because no operations begin while it
//! lasts.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Minimum length of a recorded gap of a thread.
const GAP_MIN: Duration = Duration::from_millis(100);

/// Minimum length of a reported stall.
const STALL_MIN: Duration = Duration::from_millis(200);

/// Minimum length of a stall, as a multiple of the mean time between successes in the rest of the run.
/// Otherwise the random gaps of a slow run would count. With Poisson arrivals, one gap in 5e8 is this long.
const MEAN_GAPS_MIN: f64 = 20.0;

/// Maximum number of gaps that a thread keeps.
const GAP_COUNT_MAX: usize = 100_000;

/// Times between successes, measured from the start of the measurement, in ascending order and without
/// overlap.
pub(crate) type Gaps = Vec<(Duration, Duration)>;

/// The gaps of one thread.
#[derive(Debug)]
pub(super) struct ThreadGaps {
    release: Instant,
    last: Instant,
    gaps: Gaps,
}

impl ThreadGaps {
    /// State of a thread without successes. The measurement starts at `release`.
    pub(super) fn new(release: Instant) -> Self {
        Self { release, last: release, gaps: Vec::new() }
    }

    /// Records a success.
    #[inline]
    pub(super) fn success(&mut self, at: Instant) {
        // A thread that was not scheduled may report an earlier end after a later one.
        if at.saturating_duration_since(self.last) >= GAP_MIN {
            self.gap(at.duration_since(self.release));
        }
        self.last = self.last.max(at);
    }

    #[cold]
    fn gap(&mut self, end: Duration) {
        if self.gaps.len() < GAP_COUNT_MAX {
            self.gaps.push((self.last.duration_since(self.release), end));
        }
    }

    /// The gaps of a thread whose workers have ended. The last gap begins at the last success and has no
    /// end.
    pub(super) fn finish(mut self) -> Gaps {
        self.gap(Duration::MAX);
        self.gaps
    }
}

/// A time in which no operation succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Start, in seconds since the start of the measurement.
    pub start_s: f64,
    /// Length in seconds.
    pub length_s: f64,
    /// Number of operations that would have arrived during the stall at the rate of the run.
    pub arrivals: u64,
}

impl Stall {
    /// The stall as a line of text for people.
    pub(crate) fn text(&self) -> String {
        let Self { start_s, length_s, arrivals } = self;
        let waited = match arrivals {
            0 => String::new(),
            1 => "; 1 arrival would have waited".to_owned(),
            _ => format!("; {arrivals} arrivals would have waited"),
        };
        format!("STALL: {length_s:.1} s without a success, from second {start_s:.1} on{waited}")
    }
}

/// The stalls of a run that lasted `elapsed`, the longest first. `threads` has the gaps of each thread. A
/// run in which nothing succeeded has no stalls. Arrivals are counted at the rate `offered_per_s` of an
/// open loop, or else at the run's own rate outside of the stalls.
pub(crate) fn stalls(
    threads: &[Gaps],
    elapsed: Duration,
    success_count: u64,
    offered_per_s: Option<f64>,
) -> Vec<Stall> {
    let whole = vec![(Duration::ZERO, elapsed)];
    let common = threads.iter().fold(whole, |common, gaps| intersection(&common, gaps));
    let elapsed_s = elapsed.as_secs_f64();
    // Compare with the mean gap of the rest of the run only. If the gap itself counted, the death of a
    // server after a few successes would look normal.
    let is_stall = |length_s: f64| {
        let mean_gap_s = (elapsed_s - length_s) / success_count as f64;
        success_count > 0 && length_s >= STALL_MIN.as_secs_f64().max(MEAN_GAPS_MIN * mean_gap_s)
    };
    let lengths =
        common.iter().map(|(start, end)| (start.as_secs_f64(), (*end - *start).as_secs_f64()));
    let mut found: Vec<(f64, f64)> = lengths.filter(|(_, length_s)| is_stall(*length_s)).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    let busy_s = (elapsed_s - found.iter().map(|(_, length_s)| length_s).sum::<f64>()).max(1e-6);
    let rate_per_s = offered_per_s.unwrap_or(success_count as f64 / busy_s);
    let stall = |(start_s, length_s)| Stall {
        start_s,
        length_s,
        arrivals: quoit_number::rounded(rate_per_s * length_s),
    };
    found.into_iter().map(stall).collect()
}

/// The times that lie in gaps of all threads; empty without threads.
pub(crate) fn common_gaps(threads: &[Gaps]) -> Gaps {
    let mut rest = threads.iter();
    let first = rest.next().cloned().unwrap_or_default();
    rest.fold(first, |common, gaps| intersection(&common, gaps))
}

/// The times that lie in both lists.
fn intersection(first: &[(Duration, Duration)], second: &[(Duration, Duration)]) -> Gaps {
    let mut common = Vec::new();
    let (mut i, mut j) = (0, 0);
    while let (Some(a), Some(b)) = (first.get(i), second.get(j)) {
        let (start, end) = (a.0.max(b.0), a.1.min(b.1));
        if start < end {
            common.push((start, end));
        }
        if a.1 <= b.1 { i += 1 } else { j += 1 }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The gaps of a thread that has successes at these times, in milliseconds.
    fn gaps_of(successes_ms: impl Iterator<Item = u64>) -> Gaps {
        let release = Instant::now();
        let mut gaps = ThreadGaps::new(release);
        successes_ms.for_each(|at| gaps.success(release + ms(at)));
        gaps.finish()
    }

    #[test]
    fn a_stall_lies_in_the_gaps_of_all_threads() {
        // Both threads stop from 1000 to 3000 ms. The first one also stops alone from 4000 to 4500 ms.
        let first = gaps_of((0..=1000).chain(3000..=4000).chain(4500..5000));
        let second = gaps_of((0..=1010).chain(2990..5000));
        let found = stalls(&[first, second], ms(5000), 6000, None);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].start_s, found[0].length_s), (1.01, 1.98));
        // There are 6000 successes in 3.02 seconds.
        assert_eq!(found[0].arrivals, 3934);
        assert!(found[0].text().contains("2.0 s without a success, from second 1.0 on"));
    }

    #[test]
    fn an_open_loop_counts_the_arrivals_of_its_schedule() {
        let gaps = gaps_of((0..=1000).chain(3000..4000));
        assert_eq!(stalls(&[gaps], ms(4000), 2000, Some(1000.0))[0].arrivals, 2000);
    }

    #[test]
    fn a_server_that_never_answers_again_stalls_to_the_end() {
        let found = stalls(&[gaps_of(0..=1000), gaps_of(0..=900)], ms(4000), 2000, None);
        assert_eq!((found[0].start_s, found[0].length_s), (1.0, 3.0));
    }

    #[test]
    fn a_slow_run_is_no_stall() {
        let slow = gaps_of((0..100).map(|second| second * 1000));
        assert_eq!(stalls(&[slow], ms(100_000), 100, None), []);
        assert_eq!(stalls(&[gaps_of((0..5000).map(|n| n * 150))], ms(750_000), 5000, None), []);
    }

    #[test]
    fn a_server_that_dies_after_a_few_answers_stalls() {
        let found = stalls(&[gaps_of(0..10)], ms(60_000), 10, None);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].start_s, found[0].length_s), (0.009, 59.991));
    }

    #[test]
    fn a_run_in_which_nothing_succeeded_is_told_otherwise() {
        assert_eq!(stalls(&[gaps_of(0..0)], ms(60_000), 0, None), []);
    }
}
