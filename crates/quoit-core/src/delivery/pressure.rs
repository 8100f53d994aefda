//! Calculates how much transfers must yield to the requests of clients. Plain state: it takes latencies
//! and returns the share of the time in which transfers may work.
//!
//! It uses three ideas from congestion control. Background work compares present latencies with those at
//! rest, and yields when they rise, as in LEDBAT (RFC 6817). The share grows by small steps and shrinks
//! by halving, so that several senders come to equal shares without talking to each other: additive
//! increase, multiplicative decrease (Chiu and Jain, 1989). After a pause the share begins small and
//! doubles until requests are slow for the first time, as in TCP's slow start (RFC 5681); otherwise many
//! short transfers that begin together would be over before any of them had yielded.

/// Smallest number of requests of a kind in an interval for which their latency counts.
pub(super) const SAMPLES_MIN: u64 = 10;
/// Ratio to the calm latency up to which latencies are tolerated.
const TOLERATED_RATIO: f64 = 1.25;
/// Latency in microseconds that is tolerated in addition: differences this small also occur without
/// transfers.
const TOLERATED_US: f64 = 250.0;
/// Weight of the newest interval in a mean, from 0 to 1.
#[derive(Clone, Copy)]
struct NewestWeight(f64);

/// Weight of the newest interval in the present latency.
const PRESENT_WEIGHT: NewestWeight = NewestWeight(0.5);
/// Weight of the newest interval in the calm latency.
const CALM_WEIGHT: NewestWeight = NewestWeight(0.2);
/// The same while transfers do the minimum. Transfers, and writes by two layouts, may then still be a
/// reason for slow requests. If slow times soon counted as calm, transfers would do more at once.
const LEAST_WEIGHT: NewestWeight = NewestWeight(0.002);
/// Growth of the share in an interval without pressure, as a part of the whole time.
const SHARE_STEP: f64 = 1.0 / 16.0;
/// Largest growth as a part of the share itself. Without this limit, one step would make a share at the
/// minimum several times as large.
const SHARE_STEP_OF_SMALL: f64 = 0.25;

/// Amount of data that transfers moved in an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TransferActivity {
    /// No data moved.
    Nothing,
    /// Transfers did only the minimum.
    Least,
    /// Transfers did more than the minimum.
    More,
}

/// Compares the present latencies of one kind of requests with the calm ones.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct LatencyJudge {
    /// The 99th percentile while no transfer moves data, in microseconds.
    calm_us: Option<f64>,
    /// The same over the last intervals.
    present_us: Option<f64>,
}

impl LatencyJudge {
    /// Takes the 99th percentile of an interval in microseconds; `None` if there were too few requests.
    pub(super) fn observe(&mut self, interval_us: Option<u64>, moved: TransferActivity) {
        let Some(interval_us) = interval_us.map(|interval_us| interval_us as f64) else {
            // Without requests nothing is slow.
            self.present_us = None;
            return;
        };
        let present_us = mixed(self.present_us, interval_us, PRESENT_WEIGHT);
        self.present_us = Some(present_us);
        self.calm_us = Some(match (self.calm_us, moved) {
            (None, _) => interval_us,
            (Some(_), TransferActivity::Nothing) => mixed(self.calm_us, interval_us, CALM_WEIGHT),
            (Some(_), TransferActivity::Least) => mixed(self.calm_us, interval_us, LEAST_WEIGHT),
            (Some(calm_us), TransferActivity::More) => calm_us.min(present_us),
        });
        debug_assert!(
            self.pressure().is_some_and(|pressure| pressure >= 0.0 && pressure.is_finite()),
            "latencies that are known have a ratio"
        );
    }

    /// Returns the present latency divided by the tolerated one: above 1 is too slow. `None` while
    /// nothing is known.
    pub(super) fn pressure(&self) -> Option<f64> {
        Some(self.present_us? / (self.calm_us? * TOLERATED_RATIO + TOLERATED_US))
    }
}

fn mixed(before: Option<f64>, newest: f64, weight: NewestWeight) -> f64 {
    before.map_or(newest, |before| before + (newest - before) * weight.0)
}

/// The part of the time in which transfers may work; they rest otherwise.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct WorkingShare {
    share: f64,
    share_min: f64,
    /// True while no transfer is under way.
    is_resting: bool,
    /// True if there was no pressure yet since the present transfers began.
    is_rising: bool,
}

impl WorkingShare {
    /// Returns a share of the whole time, which never falls below `percent_min` percent. A minimum of 0
    /// counts as 1.
    pub(super) fn new(percent_min: u8) -> Self {
        let share_min = f64::from(percent_min.clamp(1, 100)) / 100.0;
        Self { share: 1.0, share_min, is_resting: true, is_rising: true }
    }

    /// Returns the share, above 0 and at most 1.
    pub(super) fn get(&self) -> f64 {
        self.share
    }

    /// True if the share is the minimum.
    pub(super) fn is_minimum_rate(&self) -> bool {
        self.share <= self.share_min
    }

    /// Notes that no transfer is under way. The share is the whole time again.
    pub(super) fn rest(&mut self) {
        self.share = 1.0;
        self.is_resting = true;
        self.check();
    }

    /// Notes that a transfer begins. If it is the first after a pause and there are requests, the share
    /// begins with the minimum.
    pub(super) fn begin(&mut self, has_requests: bool) {
        if !self.is_resting {
            return;
        }
        self.is_resting = false;
        self.is_rising = true;
        if has_requests {
            self.share = self.share_min;
        }
        self.check();
    }

    /// Adjusts the share after an interval. `pressure` is the highest of all nodes concerned.
    pub(super) fn adjust(&mut self, pressure: Option<f64>) {
        self.is_resting = false;
        let is_pressed = pressure.is_some_and(|pressure| pressure > 1.0);
        self.is_rising &= !is_pressed;
        let wanted = match (is_pressed, self.is_rising) {
            (true, _) => self.share / 2.0,
            (false, true) => self.share * 2.0,
            (false, false) => self.share + (self.share * SHARE_STEP_OF_SMALL).min(SHARE_STEP),
        };
        self.share = wanted.clamp(self.share_min, 1.0);
        self.check();
    }

    /// Checks in debug builds that transfers always work for some time and never for more than all of it.
    fn check(&self) {
        debug_assert!(self.share_min > 0.0, "transfers never stop");
        debug_assert!(
            (self.share_min..=1.0).contains(&self.share),
            "the share is a part of the time, and not below the minimum"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judge(calm_us: u64) -> LatencyJudge {
        let mut judge = LatencyJudge::default();
        (0..20).for_each(|_| judge.observe(Some(calm_us), TransferActivity::Nothing));
        judge
    }

    fn is_pressed(judge: &LatencyJudge) -> bool {
        judge.pressure().is_some_and(|pressure| pressure > 1.0)
    }

    #[test]
    fn calm_latencies_press_nobody_and_much_slower_ones_do_at_once() {
        let mut slow = judge(2_000);
        assert!(!is_pressed(&slow));
        slow.observe(Some(10_000), TransferActivity::More);
        assert!(is_pressed(&slow));
        (0..5).for_each(|_| slow.observe(Some(2_000), TransferActivity::More));
        assert!(!is_pressed(&slow));
        let mut quick = judge(100);
        quick.observe(Some(370), TransferActivity::More);
        assert!(!is_pressed(&quick), "a quarter of a millisecond is no trouble");
    }

    #[test]
    fn slow_requests_do_not_become_the_measure_while_transfers_may_be_the_reason() {
        let mut judge = judge(2_000);
        (0..1_000).for_each(|_| judge.observe(Some(10_000), TransferActivity::More));
        assert!(is_pressed(&judge));
        (0..1_000).for_each(|_| judge.observe(Some(10_000), TransferActivity::Nothing));
        assert!(!is_pressed(&judge), "without transfers just as slow: they are not the reason");
    }

    #[test]
    fn a_node_without_requests_presses_nobody() {
        let mut judge = judge(2_000);
        judge.observe(Some(10_000), TransferActivity::More);
        judge.observe(None, TransferActivity::More);
        assert_eq!(judge.pressure(), None);
        assert_eq!(LatencyJudge::default().pressure(), None);
    }

    #[test]
    fn the_share_halves_under_pressure_and_grows_back_by_steps() {
        let mut share = WorkingShare::new(5);
        share.adjust(Some(3.0));
        share.adjust(Some(1.01));
        assert_eq!(share.get(), 0.25);
        (0..10).for_each(|_| share.adjust(Some(2.0)));
        assert!(share.is_minimum_rate() && share.get() == 0.05);
        let mut steps = 0;
        while share.get() < 1.0 {
            let before = share.get();
            share.adjust(Some(0.9));
            assert!(share.get() > before);
            steps += 1;
        }
        assert_eq!(steps, 20);
    }

    #[test]
    fn a_share_that_begins_small_doubles_until_requests_are_slow() {
        let mut share = WorkingShare::new(5);
        share.begin(false);
        assert_eq!(share.get(), 1.0, "nobody is held up");
        share.rest();
        share.begin(true);
        let mut seen = vec![share.get()];
        for pressure in [None, Some(0.5), Some(2.0), Some(0.5)] {
            share.adjust(pressure);
            share.begin(true);
            seen.push(share.get());
        }
        assert_eq!(seen, [0.05, 0.1, 0.2, 0.1, 0.125]);
        share.rest();
        share.begin(true);
        (0..5).for_each(|_| share.adjust(Some(1.0)));
        assert_eq!(share.get(), 1.0);
    }

    /// Simulates requests that take `calm_us`, and longer the more transfers work. Returns the mean
    /// latency in microseconds.
    fn after(
        calm_us: f64,
        cost: f64,
        intervals: usize,
        share: &mut WorkingShare,
        judge: &mut LatencyJudge,
    ) -> f64 {
        let mut sum_us = 0.0;
        for _ in 0..intervals {
            let latency_us = calm_us * (1.0 + cost * share.get());
            sum_us += latency_us;
            let moved = if share.is_minimum_rate() {
                TransferActivity::Least
            } else {
                TransferActivity::More
            };
            judge.observe(Some(latency_us as u64), moved);
            share.adjust(judge.pressure());
        }
        sum_us / intervals as f64
    }

    proptest! {
        #[test]
        fn the_share_is_never_out_of_its_bounds(
            percent_min in 0u8..=100,
            pressures in prop::collection::vec(prop::option::of(0.0f64..100.0), 0..200),
        ) {
            let mut share = WorkingShare::new(percent_min);
            let share_min = f64::from(percent_min.max(1)) / 100.0;
            for pressure in pressures {
                share.adjust(pressure);
                prop_assert!((share_min..=1.0).contains(&share.get()));
            }
        }

        #[test]
        fn requests_are_protected_from_costly_transfers_and_cheap_ones_are_not_held_back(
            calm_us in 2_000.0f64..100_000.0,
            cost in 0.0f64..20.0,
        ) {
            let (mut share, mut judge) = (WorkingShare::new(1), judge(calm_us as u64));
            after(calm_us, cost, 50, &mut share, &mut judge);
            let mean_us = after(calm_us, cost, 200, &mut share, &mut judge);
            let unthrottled_us = calm_us * (1.0 + cost) + 1.0;
            prop_assert!(mean_us <= (calm_us * 2.5 + TOLERATED_US).min(unthrottled_us), "{mean_us}");
            if cost < 0.2 {
                prop_assert_eq!(share.get(), 1.0);
            }
        }

        #[test]
        fn a_load_that_has_changed_for_good_does_not_hold_transfers_at_the_least_for_ever(
            calm_us in 1_000.0f64..10_000.0,
            factor in 2.0f64..50.0,
        ) {
            let (mut share, mut judge) = (WorkingShare::new(5), judge(calm_us as u64));
            after(calm_us * factor, 0.0, 1200, &mut share, &mut judge);
            prop_assert_eq!(share.get(), 1.0);
        }
    }
}
