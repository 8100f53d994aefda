//! How much transfers must hold back for clients' requests.
//!
//! Pure: it is told latencies and answers with figures. Two ideas are others'. Background work measures how
//! long things take while it does little, and yields when they take longer: LEDBAT (RFC 6817). The share that
//! it takes grows by steps and shrinks by halves, so that many who do the same without talking to each other
//! come to equal parts: additive increase, multiplicative decrease (Chiu and Jain, 1989). Until requests are
//! slow for the first time the share doubles, as TCP's slow start has it (RFC 5681): many short transfers
//! that all begin at once with all of the time would be over before a client could notice.

/// Requests of a kind in an interval, at least, for their latency to say anything.
pub(super) const SAMPLES_MIN: u64 = 10;
/// Latencies may be so many times the calm ones.
const TOLERATED_RATIO: f64 = 1.25;
/// And so much above that, microseconds: differences that small come and go by themselves.
const TOLERATED_US: f64 = 250.0;
/// Weight of the newest interval in what counts as present.
const PRESENT_WEIGHT: f64 = 0.5;
/// Weight of the newest interval in what counts as calm.
const CALM_WEIGHT: f64 = 0.2;
/// The same while transfers do the least that they may. Some of what is slow then is their fault, and that of
/// writes that go by two layouts: taken for calm soon, it would have transfers do more at once.
const LEAST_WEIGHT: f64 = 0.002;
/// Growth of the share in an interval without pressure.
const SHARE_STEP: f64 = 1.0 / 16.0;
/// At most this part of itself: a share at the least would come back to a multiple of it at once.
const SHARE_STEP_OF_SMALL: f64 = 0.25;

/// Directions in which data moved in an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moved {
    /// Nothing that could make requests slower.
    Nothing,
    /// As little as transfers may.
    Least,
    /// More than that.
    More,
}

/// Judges the latencies of one kind of requests.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Judge {
    /// High percentile while no transfer is in the way, microseconds.
    calm_us: Option<f64>,
    /// The same of the last intervals.
    present_us: Option<f64>,
}

impl Judge {
    /// Takes the high percentile of an interval, if there were enough requests.
    pub(super) fn observe(&mut self, interval_us: Option<u64>, moved: Moved) {
        let Some(interval_us) = interval_us.map(|interval_us| interval_us as f64) else {
            // Without requests nothing is slow.
            self.present_us = None;
            return;
        };
        let present_us = mixed(self.present_us, interval_us, PRESENT_WEIGHT);
        self.present_us = Some(present_us);
        self.calm_us = Some(match (self.calm_us, moved) {
            (None, _) => interval_us,
            (Some(_), Moved::Nothing) => mixed(self.calm_us, interval_us, CALM_WEIGHT),
            (Some(_), Moved::Least) => mixed(self.calm_us, interval_us, LEAST_WEIGHT),
            (Some(calm_us), Moved::More) => calm_us.min(present_us),
        });
    }

    /// Present latency in relation to what is tolerated: above 1 is too slow. `None` while nothing is known.
    pub(super) fn pressure(&self) -> Option<f64> {
        Some(self.present_us? / (self.calm_us? * TOLERATED_RATIO + TOLERATED_US))
    }
}

fn mixed(before: Option<f64>, newest: f64, weight: f64) -> f64 {
    before.map_or(newest, |before| before + (newest - before) * weight)
}

/// The part of the time in which transfers may work; they rest in between.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct WorkingShare {
    share: f64,
    share_min: f64,
    /// Whether nothing is handed over.
    is_resting: bool,
    /// Whether there was no pressure yet since something is.
    is_rising: bool,
}

impl WorkingShare {
    /// All of the time, and never less than `percent_min` of it, which counts as 1 if it is 0.
    pub(super) fn new(percent_min: u8) -> Self {
        let share_min = f64::from(percent_min.clamp(1, 100)) / 100.0;
        Self { share: 1.0, share_min, is_resting: true, is_rising: true }
    }

    /// The share, at most 1 and never 0.
    pub(super) fn get(&self) -> f64 {
        self.share
    }

    /// Whether transfers do the least that they may.
    pub(super) fn is_least(&self) -> bool {
        self.share <= self.share_min
    }

    /// Nothing is handed over.
    pub(super) fn rest(&mut self) {
        self.share = 1.0;
        self.is_resting = true;
    }

    /// Something is handed over: with the least part of the time at first where there are requests.
    pub(super) fn begin(&mut self, has_requests: bool) {
        if !self.is_resting {
            return;
        }
        self.is_resting = false;
        self.is_rising = true;
        if has_requests {
            self.share = self.share_min;
        }
    }

    /// One interval has passed, with this pressure on the node that had most.
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judge(calm_us: u64) -> Judge {
        let mut judge = Judge::default();
        (0..20).for_each(|_| judge.observe(Some(calm_us), Moved::Nothing));
        judge
    }

    fn is_pressed(judge: &Judge) -> bool {
        judge.pressure().is_some_and(|pressure| pressure > 1.0)
    }

    #[test]
    fn calm_latencies_press_nobody_and_much_slower_ones_do_at_once() {
        let mut slow = judge(2_000);
        assert!(!is_pressed(&slow));
        slow.observe(Some(10_000), Moved::More);
        assert!(is_pressed(&slow));
        (0..5).for_each(|_| slow.observe(Some(2_000), Moved::More));
        assert!(!is_pressed(&slow));
        let mut quick = judge(100);
        quick.observe(Some(370), Moved::More);
        assert!(!is_pressed(&quick), "a quarter of a millisecond is no trouble");
    }

    #[test]
    fn slow_requests_do_not_become_the_measure_while_transfers_may_be_the_reason() {
        let mut judge = judge(2_000);
        (0..1_000).for_each(|_| judge.observe(Some(10_000), Moved::More));
        assert!(is_pressed(&judge));
        (0..1_000).for_each(|_| judge.observe(Some(10_000), Moved::Nothing));
        assert!(!is_pressed(&judge), "without transfers just as slow: they are not the reason");
    }

    #[test]
    fn a_node_without_requests_presses_nobody() {
        let mut judge = judge(2_000);
        judge.observe(Some(10_000), Moved::More);
        judge.observe(None, Moved::More);
        assert_eq!(judge.pressure(), None);
        assert_eq!(Judge::default().pressure(), None);
    }

    #[test]
    fn the_share_halves_under_pressure_and_grows_back_by_steps() {
        let mut share = WorkingShare::new(5);
        share.adjust(Some(3.0));
        share.adjust(Some(1.01));
        assert_eq!(share.get(), 0.25);
        (0..10).for_each(|_| share.adjust(Some(2.0)));
        assert!(share.is_least() && share.get() == 0.05);
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

    /// Requests that take `calm_us`, and longer the more transfers work.
    fn after(
        calm_us: f64,
        cost: f64,
        intervals: usize,
        share: &mut WorkingShare,
        judge: &mut Judge,
    ) -> f64 {
        let mut sum_us = 0.0;
        for _ in 0..intervals {
            let latency_us = calm_us * (1.0 + cost * share.get());
            sum_us += latency_us;
            let moved = if share.is_least() { Moved::Least } else { Moved::More };
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
