use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::term::Term;

/// A closed-loop operation that ended at `ended` after `latency`, and sent its request after half of it.
pub(crate) fn closed_loop(latency: Duration, ended: Instant) -> OperationTimes {
    let started = ended.checked_sub(latency).expect("a clock that has run for longer");
    let sent = started + latency / 2;
    OperationTimes { due: None, free: started, started, sent, ended }
}

fn window_of(latencies_us: &[u64]) -> Window {
    let (mut window, base) = (Window::new(1), Instant::now());
    for us in latencies_us {
        let latency = Duration::from_micros(*us);
        window.record(0, &closed_loop(latency, base + latency));
    }
    window
}

#[test]
fn latencies_of_nothing_are_zero() {
    assert_eq!(Window::new(1).operations()[0].latencies(), Latencies::default());
}

#[test]
fn quantiles_are_of_nearest_rank() {
    let of = |us: &[u64]| window_of(us).operations()[0].latencies();
    let one = of(&[7]);
    assert_eq!((one.min_us, one.median_us, one.p99_9_us, one.max_us), (7, 7, 7, 7));
    // round(0.5 * 4) gives the second element, round(0.95 * 4) the fourth.
    let four = of(&[4, 1, 3, 2]);
    assert_eq!((four.count, four.median_us, four.p95_us), (4, 2, 4));
    assert_eq!(four.mean_us, 2.5);
    let thousand: Vec<u64> = (1..=1000).collect();
    let thousand = of(&thousand);
    assert_eq!((thousand.median_us, thousand.p95_us), (500, 950));
    assert_eq!((thousand.p99_us, thousand.p99_9_us, thousand.max_us), (990, 999, 1000));
}

#[test]
fn errors_have_reasons_and_no_latency() {
    let mut window = Window::new(2);
    let second = Duration::from_secs(1);
    window.record_error(1, Term::atom("timeout"), second);
    window.record_error(1, Term::atom("timeout"), second);
    window.record(0, &closed_loop(Duration::ZERO, Instant::now()));
    assert_eq!((window.success_count(), window.error_count()), (1, 2));
    assert_eq!(window.errors().get(&(1, Term::atom("timeout"))), Some(&2));
    assert_eq!(window.operations()[1].latencies().count, 0);
}

#[test]
fn reasons_of_errors_are_bounded() {
    let mut window = Window::new(1);
    (0..20_000).for_each(|reason| window.record_error(0, Term::Integer(reason), Duration::ZERO));
    assert_eq!(window.errors().len(), 10_001);
    assert_eq!(window.errors().get(&(0, Term::atom("other"))), Some(&10_000));
    assert_eq!(window.error_count(), 20_000);
}

#[test]
fn a_sample_is_counted_in_the_second_in_which_it_ended() {
    let collector = Arc::new(Collector::new(CollectorSize { thread_count: 2, operation_count: 1 }));
    let release = Instant::now();
    let at = |ms: u64| release + Duration::from_millis(ms);
    let mut first = Recorder::new(0, collector.clone(), release);
    let mut second = Recorder::new(1, collector.clone(), release);
    let latency = Duration::from_micros(10);
    first.record(0, &closed_loop(latency, at(999)));
    first.record(0, &closed_loop(latency, at(1000)));
    second.record(0, &closed_loop(latency, at(500)));
    assert_eq!(collector.take_completed().through_second, 0);
    // The second thread is idle until its timer fires in second 3.
    second.roll(at(3001));
    let completed = collector.take_completed();
    assert_eq!(completed.through_second, 1);
    assert_eq!(completed.windows.len(), 1);
    assert_eq!((completed.windows[0].0, completed.windows[0].1.success_count()), (0, 2));
    first.record_error(0, Term::atom("late"), latency, at(2500));
    first.flush();
    collector.finish(0);
    second.flush();
    assert!(!collector.take_completed().is_finished);
    collector.finish(1);
    let completed = collector.take_completed();
    assert!(completed.is_finished);
    assert!(completed.windows.is_empty(), "seconds 1 and 2 were complete before");
}

#[test]
fn the_last_partial_window_is_delivered() {
    let collector = Arc::new(Collector::new(CollectorSize { thread_count: 1, operation_count: 1 }));
    let release = Instant::now();
    let mut recorder = Recorder::new(0, collector.clone(), release);
    let ended = release + Duration::from_millis(2300);
    recorder.record(0, &closed_loop(Duration::from_micros(10), ended));
    recorder.flush();
    collector.finish(0);
    let completed = collector.take_completed();
    assert_eq!(completed.windows.len(), 1);
    assert_eq!(completed.windows[0].0, 2);
}

/// Nine of ten operations succeed after 1 to 9 ms, and one times out after 5 ms.
#[test]
fn a_failure_is_a_lower_bound() {
    let mut window = window_of(&[1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000]);
    assert_eq!(window.operations()[0].attempts(&window.breakdown().failed()[0]), None);
    window.record_error(0, Term::atom("timeout"), Duration::from_millis(5));
    let attempts = window.operations()[0].attempts(&window.breakdown().failed()[0]);
    let attempts = attempts.expect("a failure");
    assert_eq!(attempts.latencies.count, 10);
    assert_eq!(attempts.earliest_failure_us, 5000);
    assert!((4995..=5005).contains(&attempts.latencies.median_us), "{attempts:?}");
    // The minimum is exact; the other figures may be greater.
    assert_eq!(attempts.lower_bounds(), [false, true, true, true, true, true, true]);
}

#[test]
fn stalls_are_found_in_what_the_threads_deliver() {
    let collector = Arc::new(Collector::new(CollectorSize { thread_count: 2, operation_count: 1 }));
    let release = Instant::now();
    for thread in 0..2 {
        let mut recorder = Recorder::new(thread, collector.clone(), release);
        for ms in (0..1000).chain(3000..4000) {
            let ended = release + Duration::from_millis(ms);
            recorder.record(0, &closed_loop(Duration::ZERO, ended));
        }
        recorder.flush();
        collector.finish(thread);
    }
    let found = stalls(&collector.gaps(), Duration::from_secs(4), 4000, None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].start_s, found[0].arrivals), (0.999, 4004));
}

proptest! {
    #[test]
    fn quantiles_agree_with_sorting(mut us in prop::collection::vec(1_u64..10_000_000, 1..400)) {
        let latencies = window_of(&us).operations()[0].latencies();
        us.sort_unstable();
        let exact = |p: f64| us[((p * us.len() as f64).round() as usize).max(1) - 1] as f64;
        for (p, value) in [
            (0.5, latencies.median_us),
            (0.95, latencies.p95_us),
            (0.99, latencies.p99_us),
            (0.999, latencies.p99_9_us),
        ] {
            let error = (value as f64 - exact(p)).abs();
            prop_assert!(error <= exact(p) * 0.001 + 1.0, "{} {} {}", p, value, exact(p));
        }
        prop_assert_eq!(latencies.min_us, us[0]);
        prop_assert_eq!(latencies.max_us, us[us.len() - 1]);
    }

    #[test]
    fn windows_add_up_to_the_whole(
        us in prop::collection::vec(1_u64..10_000_000, 1..300),
        cut in any::<prop::sample::Index>(),
    ) {
        let (left, right) = us.split_at(cut.index(us.len()));
        let mut sum = window_of(left);
        sum.add(&window_of(right));
        let whole = window_of(&us);
        prop_assert_eq!(sum.operations()[0].latencies(), whole.operations()[0].latencies());
    }
}
