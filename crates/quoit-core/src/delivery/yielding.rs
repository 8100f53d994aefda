//! Transfers yield to clients' requests: they rest while those take longer than usual, here or at a
//! receiver.

use super::Deliveries;
use super::pressure::{Judge, Moved, SAMPLES_MIN, WorkingShare};
use crate::stats::{Distribution, Times};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// How often latencies are looked at while something moves.
const MOVING_INTERVAL: Duration = Duration::from_millis(250);
/// How often they are looked at while nothing does, to know what is usual.
const CALM_INTERVAL: Duration = Duration::from_secs(5);
/// Time for which a receiver's pressure counts, and for which records that came in count as moving.
const MEMORY: Duration = Duration::from_secs(2);
/// The smallest part of a page or batch: each has a cost of its own.
const STRIDE_MIN: f64 = 1.0 / 16.0;
/// The longest rest after one batch.
const REST_MAX: Duration = Duration::from_secs(5);
/// The requests that are looked at.
const KINDS: [Distribution; 2] = [Distribution::GetTimeUs, Distribution::PutTimeUs];

/// State from which a node decides how much its transfers yield.
pub(crate) struct Yielding {
    state: Mutex<Watched>,
    /// Something has begun to move.
    moves: Notify,
}

struct Watched {
    judges: [Judge; KINDS.len()],
    share: WorkingShare,
    /// Highest pressure that receivers have told since the last look.
    told: Option<(Instant, f64)>,
    /// When another node has last handed over something.
    received_at: Option<Instant>,
    /// The same of nodes that do more than the least.
    pressed_at: Option<Instant>,
}

impl Yielding {
    pub(super) fn new(share_min_percent: u8) -> Self {
        let watched = Watched {
            judges: Default::default(),
            share: WorkingShare::new(share_min_percent),
            told: None,
            received_at: None,
            pressed_at: None,
        };
        Self { state: Mutex::new(watched), moves: Notify::new() }
    }

    /// The part of the time in which transfers work, above 0 up to 1.
    pub(crate) fn share(&self) -> f64 {
        self.state.lock().share.get()
    }

    /// Whether transfers do the least that they may.
    pub(super) fn is_least(&self) -> bool {
        self.state.lock().share.is_least()
    }

    /// How much is done at once of what is done at once with all of the time. A request that comes meanwhile
    /// may have to wait for all of it, so less of the time alone would make fewer requests slow, not less so.
    pub(crate) fn stride(&self, whole: usize) -> usize {
        let share = self.share().max(STRIDE_MIN);
        (whole as f64 * share).ceil() as usize
    }

    /// Rests after work, by the share of the time that transfers have at present.
    pub(crate) async fn rest_after(&self, worked: Duration) {
        let share = self.share();
        if share < 1.0 {
            sleep(worked.mul_f64(1.0 / share - 1.0).min(REST_MAX)).await;
        }
    }

    /// A receiver has told its pressure, in percent; 0 = it does not know.
    pub(super) fn told(&self, pressure_percent: u32) {
        let mut state = self.state.lock();
        let pressure = f64::from(pressure_percent) / 100.0;
        let newest = state.told.map_or(pressure, |(_, earlier)| pressure.max(earlier));
        state.told = (pressure_percent > 0).then_some((Instant::now(), newest)).or(state.told);
    }

    /// Something comes in, from a node that does the least that it may, or more. The pressure on this node in
    /// percent, at least 1; 0 while nothing is known.
    pub(super) fn receives(&self, is_least: bool) -> u32 {
        let mut state = self.state.lock();
        if !state.is_receiving() {
            self.moves.notify_one();
        }
        let now = Some(Instant::now());
        state.received_at = now;
        state.pressed_at = if is_least { state.pressed_at } else { now };
        state.own_pressure().map_or(0, |pressure| (pressure * 100.0).clamp(1.0, 1e6) as u32)
    }

    /// Something goes out.
    pub(super) fn sends(&self) {
        let mut state = self.state.lock();
        let has_requests = state.own_pressure().is_some();
        state.share.begin(has_requests);
        self.moves.notify_one();
    }

    /// An interval has passed in which records were moving or not; in one in which they were not something
    /// may have begun (`begins`).
    fn look(
        &self,
        latencies_us: [Option<u64>; KINDS.len()],
        is_moving: bool,
        is_sending: bool,
        begins: bool,
    ) {
        let mut state = self.state.lock();
        let is_pressed = state.pressed_at.is_some_and(is_recent);
        let moved = match is_moving {
            false => Moved::Nothing,
            true if !is_pressed && (!is_sending || state.share.is_least()) => Moved::Least,
            true => Moved::More,
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

impl Watched {
    fn own_pressure(&self) -> Option<f64> {
        self.judges.iter().filter_map(Judge::pressure).reduce(f64::max)
    }

    fn is_receiving(&self) -> bool {
        self.received_at.is_some_and(is_recent)
    }
}

fn is_recent(at: Instant) -> bool {
    at.elapsed() <= MEMORY
}

impl Deliveries {
    /// Watches latencies, and has transfers yield to requests, until the task is dropped.
    pub(super) async fn run_yielding(&self) {
        let yielding = &self.yielding;
        let mut before = self.local.stats.times(KINDS);
        let mut sent_at: Option<Instant> = None;
        loop {
            // From one partition to the next there may be a moment without any.
            let is_sending = sent_at.is_some_and(is_recent);
            let is_moving = is_sending || yielding.state.lock().is_receiving();
            match is_moving {
                true => sleep(MOVING_INTERVAL).await,
                false => _ = timeout(CALM_INTERVAL, yielding.moves.notified()).await,
            }
            let now = self.local.stats.times(KINDS);
            let is_active = self.active.is_moving();
            yielding.look(high_percentiles(&before, &now), is_moving, is_sending, is_active);
            before = now;
            if is_active {
                sent_at = Some(Instant::now());
            }
        }
    }
}

/// The 99th percentile of each kind of requests between two looks, if there were enough of them.
fn high_percentiles(
    before: &Times<{ KINDS.len() }>,
    now: &Times<{ KINDS.len() }>,
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
        let calm = [Some(1_000), None];
        yielding.look(calm, false, false, false);
        assert_eq!(yielding.share(), 1.0);
        yielding.sends();
        assert!(yielding.is_least());
        // The look that it has woken.
        yielding.look(calm, false, false, true);
        assert!(yielding.is_least());
        yielding.look(calm, true, true, true);
        assert_eq!(yielding.share(), 0.1);
        yielding.look(calm, false, false, false);
        assert_eq!(yielding.share(), 1.0);
    }
}
