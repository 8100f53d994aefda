//! Makes transfers yield to the requests of clients: they rest while requests take longer than usual,
//! here or at a receiver.
//!
//! While records move, the node compares the 99th percentile of its requests with the usual one, four times a
//! second ([`super::pressure`]). Receivers report their pressure in their answers. The highest pressure
//! decides the share of the time in which transfers work. Senders rest after each page, offer and batch
//! accordingly.

use super::RecordDelivery;
use super::pressure::{LatencyJudge, SAMPLES_MIN, TransferActivity, WorkingShare};
use crate::stats::{Distribution, HistogramSnapshot};
use parking_lot::Mutex;
use quoit_number::{index, saturating_u32, whole};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// Interval at which latencies are compared while records move.
const MOVING_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which latencies are measured while no records move, to learn the usual ones.
const CALM_INTERVAL: Duration = Duration::from_secs(5);
/// Time for which a receiver's pressure counts, and for which the node counts as receiving after a
/// message.
const MEMORY: Duration = Duration::from_secs(2);
/// Smallest part to which a page or batch is reduced: each has a fixed cost.
const STRIDE_MIN: f64 = 1.0 / 16.0;
/// Longest rest after one page, offer or batch.
const REST_MAX: Duration = Duration::from_secs(5);
/// The kinds of requests whose latencies count.
const KINDS: [Distribution; 2] = [Distribution::GetTimeUs, Distribution::PutTimeUs];

/// Decides how much the transfers of a node yield.
pub(crate) struct Yielding {
    state: Mutex<YieldingState>,
    /// Wakes the watching task when a transfer begins.
    moves: Notify,
}

struct YieldingState {
    /// A judge for each kind of requests.
    judges: [LatencyJudge; KINDS.len()],
    share: WorkingShare,
    /// Highest pressure that receivers have reported since the last comparison, with the time of the report.
    told: Option<(Instant, f64)>,
    /// Time of the last message with which another node handed records over.
    received_at: Option<Instant>,
    /// Time of the last such message from a node whose transfers do more than the minimum.
    pressed_at: Option<Instant>,
}

/// Latencies and transfers between two checks.
#[derive(Clone, Copy, Default)]
struct WatchedInterval {
    /// 99th percentile of each kind of requests; `None` if there were too few.
    latencies_us: [Option<u64>; KINDS.len()],
    /// True if records were moving, from this node or to it.
    is_moving: bool,
    /// True if this node was sending records.
    is_sending: bool,
    /// True if a transfer from this node is under way at the end.
    begins: bool,
}

impl Yielding {
    pub(super) fn new(share_min_percent: u8) -> Self {
        let watched = YieldingState {
            judges: Default::default(),
            share: WorkingShare::new(share_min_percent),
            told: None,
            received_at: None,
            pressed_at: None,
        };
        Self { state: Mutex::new(watched), moves: Notify::new() }
    }

    /// Returns the part of the time in which transfers work, above 0 up to 1.
    pub(crate) fn share(&self) -> f64 {
        self.state.lock().share.get()
    }

    /// True if transfers do the minimum.
    pub(super) fn is_minimum_rate(&self) -> bool {
        self.state.lock().share.is_minimum_rate()
    }

    /// Returns the size of a step whose full size is `full`, reduced by the share. A request that comes
    /// during a step may have to wait for the whole step. Resting alone would make fewer requests slow,
    /// but those as slow as before.
    pub(crate) fn stride(&self, full: usize) -> usize {
        let share = self.share().max(STRIDE_MIN);
        let stride = index(whole((full as f64 * share).ceil()));
        debug_assert!(
            stride <= full && (stride > 0 || full == 0),
            "a step is a part of its full size"
        );
        stride
    }

    /// Rests after work of this duration, for as long as the present share requires.
    pub(crate) async fn rest_after(&self, worked: Duration) {
        let share = self.share();
        if share < 1.0 {
            sleep(worked.mul_f64(1.0 / share - 1.0).min(REST_MAX)).await;
        }
    }

    /// Notes the pressure that a receiver reports, in percent; 0 if the receiver does not know it.
    pub(super) fn told(&self, pressure_percent: u32) {
        let mut state = self.state.lock();
        let pressure = f64::from(pressure_percent) / 100.0;
        let newest = state.told.map_or(pressure, |(_, earlier)| pressure.max(earlier));
        state.told = (pressure_percent > 0).then_some((Instant::now(), newest)).or(state.told);
    }

    /// Notes that another node hands something over. `is_minimum_rate` is true if that node's transfers do
    /// the minimum. Returns the pressure on this node in percent, at least 1; 0 if it is not known.
    pub(super) fn receives(&self, is_minimum_rate: bool) -> u32 {
        let mut state = self.state.lock();
        if !state.is_receiving() {
            self.moves.notify_one();
        }
        let now = Some(Instant::now());
        state.received_at = now;
        state.pressed_at = if is_minimum_rate { state.pressed_at } else { now };
        let percent = |pressure: f64| whole((pressure * 100.0).clamp(1.0, 1e6));
        state.own_pressure().map_or(0, |pressure| saturating_u32(percent(pressure)))
    }

    /// Notes the start of a transfer from this node.
    pub(super) fn sends(&self) {
        let mut state = self.state.lock();
        let has_requests = state.own_pressure().is_some();
        state.share.begin(has_requests);
        self.moves.notify_one();
    }

    /// Takes the latencies of an interval and adjusts the share.
    fn look(&self, interval: WatchedInterval) {
        let WatchedInterval { latencies_us, is_moving, is_sending, begins } = interval;
        let mut state = self.state.lock();
        let is_pressed = state.pressed_at.is_some_and(is_recent);
        let moved = match is_moving {
            false => TransferActivity::Nothing,
            true if !is_pressed && (!is_sending || state.share.is_minimum_rate()) => {
                TransferActivity::Least
            }
            true => TransferActivity::More,
        };
        for (judge, latency_us) in state.judges.iter_mut().zip(latencies_us) {
            judge.observe(latency_us, moved);
        }
        let told = state.told.take().filter(|(at, _)| is_recent(*at));
        let pressure = [state.own_pressure(), told.map(|(_, pressure)| pressure)];
        let pressure = pressure.into_iter().flatten().reduce(f64::max);
        match (is_moving, begins) {
            (true, _) => state.share.adjust(pressure),
            (false, true) => {}
            (false, false) => state.share.rest(),
        }
    }
}

impl YieldingState {
    fn own_pressure(&self) -> Option<f64> {
        self.judges.iter().filter_map(LatencyJudge::pressure).reduce(f64::max)
    }

    fn is_receiving(&self) -> bool {
        self.received_at.is_some_and(is_recent)
    }
}

fn is_recent(at: Instant) -> bool {
    at.elapsed() <= MEMORY
}

impl RecordDelivery {
    /// Watches latencies and adjusts the share, until the task is dropped.
    pub(super) async fn run_yielding(&self) {
        let yielding = &self.yielding;
        let mut before = self.local.stats.times(KINDS);
        let mut sent_at: Option<Instant> = None;
        loop {
            // There may be a moment without transfers between two partitions.
            let is_sending = sent_at.is_some_and(is_recent);
            let is_moving = is_sending || yielding.state.lock().is_receiving();
            match is_moving {
                true => sleep(MOVING_INTERVAL).await,
                false => _ = timeout(CALM_INTERVAL, yielding.moves.notified()).await,
            }
            let now = self.local.stats.times(KINDS);
            let is_active = self.active.is_moving();
            let latencies_us = high_percentiles(&before, &now);
            yielding.look(WatchedInterval {
                latencies_us,
                is_moving,
                is_sending,
                begins: is_active,
            });
            before = now;
            if is_active {
                sent_at = Some(Instant::now());
            }
        }
    }
}

/// Returns the 99th percentile of each kind of requests between two snapshots, in microseconds; `None` if
/// there were fewer than [`SAMPLES_MIN`] requests.
fn high_percentiles(
    before: &HistogramSnapshot<{ KINDS.len() }>,
    now: &HistogramSnapshot<{ KINDS.len() }>,
) -> [Option<u64>; KINDS.len()] {
    now.percentiles_since(before, 99)
        .map(|(count, value_us)| (count >= SAMPLES_MIN).then_some(value_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_has_the_least_until_it_was_looked_at_while_it_moves() {
        let yielding = Yielding::new(5);
        let calm = WatchedInterval { latencies_us: [Some(1_000), None], ..Default::default() };
        yielding.look(calm);
        assert_eq!(yielding.share(), 1.0);
        yielding.sends();
        assert!(yielding.is_minimum_rate());
        // The check that `sends` has caused.
        yielding.look(WatchedInterval { begins: true, ..calm });
        assert!(yielding.is_minimum_rate());
        yielding.look(WatchedInterval { is_moving: true, is_sending: true, begins: true, ..calm });
        assert_eq!(yielding.share(), 0.1);
        yielding.look(calm);
        assert_eq!(yielding.share(), 1.0);
    }
}
