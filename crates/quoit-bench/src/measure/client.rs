//! Processor time of the load generator, by thread.
//!
//! If a thread is always busy, or waits for a processor that other threads use, the run measures the thread
//! and not the server. The kernel reports both times for each thread (`schedstat`). If it does not, the
//! time of waiting is taken as 0.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::stats::Latencies;

/// A percentile below this many times the canary's is within the noise: at least half of it may be delay of
/// the load generator.
pub(crate) const NOISE_FACTOR: u64 = 2;

/// A thread is near saturation in a second if it was busy or waiting for a processor for at least this
/// share of it.
pub const SATURATED_SHARE: f64 = 0.9;

/// A run is client-bound if one of its threads was near saturation for at least this share of the time.
pub const CLIENT_BOUND_SHARE: f64 = 0.1;

/// Processor times of the calling thread since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadTime {
    busy: Duration,
    waiting: Duration,
}

impl ThreadTime {
    /// Reads the times from the kernel. Costs one small read of `/proc`.
    pub(super) fn now() -> Self {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let mut numbers = text.split_ascii_whitespace().map_while(|word| word.parse().ok());
        match (numbers.next(), numbers.next()) {
            (Some(busy_ns), Some(waiting_ns)) => Self {
                busy: Duration::from_nanos(busy_ns),
                waiting: Duration::from_nanos(waiting_ns),
            },
            _ => Self { busy: cpu_time(ClockId::ThreadCPUTime), waiting: Duration::ZERO },
        }
    }
}

/// Processor time of the whole process, including system calls.
pub(crate) fn process_cpu_time() -> Duration {
    cpu_time(ClockId::ProcessCPUTime)
}

fn cpu_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

/// Use of time of one thread of the load generator.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ThreadLoad {
    /// Observed time in seconds.
    pub watched_s: f64,
    /// Time on a processor, including system calls, in seconds.
    pub busy_s: f64,
    /// Time in which the thread was ready to run but had no processor, in seconds.
    pub waiting_s: f64,
    /// Time near saturation, in seconds.
    pub saturated_s: f64,
}

impl ThreadLoad {
    /// Adds a span of time. `before` and `after` are the thread's times at its ends.
    pub(super) fn add(&mut self, span: Duration, before: ThreadTime, after: ThreadTime) {
        let span_s = span.as_secs_f64();
        let busy_s = after.busy.saturating_sub(before.busy).as_secs_f64();
        let waiting_s = after.waiting.saturating_sub(before.waiting).as_secs_f64();
        self.watched_s += span_s;
        self.busy_s += busy_s;
        self.waiting_s += waiting_s;
        if busy_s + waiting_s >= SATURATED_SHARE * span_s {
            self.saturated_s += span_s;
        }
    }

    /// True if the thread was near saturation long enough to limit what the run could measure.
    pub fn is_bound(&self) -> bool {
        self.saturated_s > 0.0 && self.saturated_s >= CLIENT_BOUND_SHARE * self.watched_s
    }

    /// Share of the observed time that the thread was on a processor.
    pub fn busy_share(&self) -> f64 {
        if self.watched_s > 0.0 { self.busy_s / self.watched_s } else { 0.0 }
    }
}

/// Use of time of the whole load generator.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClientLoad {
    /// True if a thread was near saturation: the results then show the limits of the client, not of the
    /// server.
    pub client_bound: bool,
    /// Processor time of the process since the release of the workers, in seconds.
    pub process_cpu_s: f64,
    /// The threads that run workers.
    pub threads: Vec<ThreadLoad>,
    /// Latencies of the canaries, which ask no server. All 0 in summaries of older versions.
    #[serde(default)]
    pub noise_floor: Latencies,
}

impl ClientLoad {
    /// Combines the loads of the threads of a run.
    pub(crate) fn new(
        process_cpu: Duration,
        threads: Vec<ThreadLoad>,
        noise_floor: Latencies,
    ) -> Self {
        Self {
            client_bound: threads.iter().any(ThreadLoad::is_bound),
            process_cpu_s: process_cpu.as_secs_f64(),
            threads,
            noise_floor,
        }
    }

    /// The warning about a client-bound run, if the run is one.
    pub(crate) fn warning(&self) -> Option<String> {
        let worst = self.threads.iter().map(|thread| thread.saturated_s / thread.watched_s);
        let worst = worst.filter(|share| share.is_finite()).fold(0.0, f64::max);
        self.client_bound.then(|| {
            format!(
                "CLIENT-BOUND: a thread of the load generator was near saturation for {:.0} % of \
                 the time; latencies and rates are the client's, not the server's. Give it more \
                 cores (client_threads) or a machine of its own, or ask for less",
                worst * 100.0
            )
        })
    }
}

impl Latencies {
    /// For each figure of `latencies`, true if it is within the noise. `self` is the noise floor. Such a
    /// figure says more about the load generator than about the server.
    #[must_use]
    pub fn noisy_figures(&self, latencies: &Self) -> [bool; 7] {
        let within = |us: u64, floor_us: u64| us < NOISE_FACTOR * floor_us;
        [
            within(latencies.min_us, self.min_us),
            latencies.mean_us < NOISE_FACTOR as f64 * self.mean_us,
            within(latencies.median_us, self.median_us),
            within(latencies.p95_us, self.p95_us),
            within(latencies.p99_us, self.p99_us),
            within(latencies.p99_9_us, self.p99_9_us),
            within(latencies.max_us, self.max_us),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(busy_ms: u64, waiting_ms: u64) -> ThreadTime {
        let ms = Duration::from_millis;
        ThreadTime { busy: ms(busy_ms), waiting: ms(waiting_ms) }
    }

    #[test]
    fn a_thread_that_is_busy_or_waits_for_a_processor_binds_the_client() {
        let second = Duration::from_secs(1);
        let load_of = |busy_ms: u64, waiting_ms: u64| {
            let mut load = ThreadLoad::default();
            load.add(second, time(5, 5), time(5 + busy_ms, 5 + waiting_ms));
            (0..9).for_each(|_| load.add(second, time(0, 0), time(10, 0)));
            load
        };
        assert!(load_of(900, 0).is_bound());
        assert!(load_of(300, 650).is_bound());
        assert!(!load_of(500, 300).is_bound());
        assert!(!ThreadLoad::default().is_bound());
        let client =
            ClientLoad::new(second, vec![load_of(10, 0), load_of(950, 0)], Latencies::default());
        assert!(client.client_bound);
        assert!(client.warning().expect("a warning").contains("10 %"), "{:?}", client.warning());
        let idle = ClientLoad::new(second, vec![load_of(10, 0)], Latencies::default());
        assert_eq!(idle.warning(), None);
    }

    #[test]
    fn figures_below_twice_the_noise_floor_are_noisy() {
        let floor =
            Latencies { median_us: 50, p99_us: 20_000, max_us: 30_000, ..Latencies::default() };
        let latencies = Latencies { median_us: 100, p99_us: 21_000, max_us: 59_999, ..floor };
        let noisy = floor.noisy_figures(&latencies);
        assert_eq!(noisy, [false, false, false, false, true, false, true]);
    }

    #[test]
    fn work_of_this_thread_is_seen() {
        let (before, process_before) = (ThreadTime::now(), process_cpu_time());
        let some = Duration::from_millis(10);
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        // The kernel accounts for both times separately, so that of the process may lag by some
        // milliseconds.
        while ThreadTime::now().busy <= before.busy + some
            || process_cpu_time() < process_before + some
        {
            assert!(std::time::Instant::now() < deadline, "the two times do not grow");
        }
    }
}
