use super::*;
use crate::test_objects::{actor, dot};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A set of events, one by one.
type Naive = BTreeSet<(Actor, u64)>;

fn any_run() -> impl Strategy<Value = (Actor, Run)> {
    (0u8..3, 1u64..12, 0u64..4)
        .prop_map(|(name, first, more)| (actor(&[name]), Run { first, last: first + more }))
}

fn any_runs() -> impl Strategy<Value = Vec<(Actor, Run)>> {
    vec(any_run(), 0..12)
}

fn clock_of(runs: &[(Actor, Run)]) -> CausalClock {
    let mut clock = CausalClock::default();
    runs.iter().for_each(|(actor, run)| clock.add_run(actor, *run, 7));
    clock
}

fn set_of(runs: &[(Actor, Run)]) -> EventSet {
    let mut set = EventSet::default();
    runs.iter().for_each(|(actor, run)| set.insert(actor, *run));
    set
}

fn naive_of(runs: &[(Actor, Run)]) -> Naive {
    let events = |(actor, run): &(Actor, Run)| {
        let actor = actor.clone();
        (run.first..=run.last).map(move |counter| (actor.clone(), counter))
    };
    runs.iter().flat_map(events).collect()
}

/// Every event that the runs of a test can have, and some more.
fn everything() -> impl Iterator<Item = Dot> {
    (0u8..4).flat_map(|name| (1..20).map(move |counter| dot(&[name], counter)))
}

fn events(contains: impl Fn(&Dot) -> bool) -> Naive {
    everything().filter(contains).map(|dot| (dot.actor, dot.counter)).collect()
}

fn clock_events(clock: &CausalClock) -> Naive {
    events(|dot| clock.contains(dot))
}

/// Checks the normal form: gaps between the runs, and between the vector and the first run.
fn check_form(clock: &CausalClock) -> Result<(), TestCaseError> {
    for (actor, runs) in clock.cloud().iter() {
        prop_assert!(!runs.is_empty());
        let mut known = clock.vector().counter(actor);
        for run in runs {
            prop_assert!(run.first > known + 1, "{clock:?}");
            known = run.last;
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_clock_is_the_set_of_its_events(left in any_runs(), right in any_runs()) {
        let (clock, other) = (clock_of(&left), clock_of(&right));
        let (naive, other_naive) = (naive_of(&left), naive_of(&right));
        check_form(&clock)?;
        prop_assert_eq!(clock_events(&clock), naive.clone());
        prop_assert_eq!(clock.covers(&other), naive.is_superset(&other_naive));
        prop_assert_eq!(clock == other, naive == other_naive);
        prop_assert_eq!(clock.is_empty(), naive.is_empty());

        let beyond = clock.beyond(&other);
        let difference: Naive = naive.difference(&other_naive).cloned().collect();
        prop_assert_eq!(events(|dot| beyond.contains(dot)), difference);

        let mut both = clock.clone();
        both.merge(&other);
        check_form(&both)?;
        let union: Naive = naive.union(&other_naive).cloned().collect();
        prop_assert_eq!(clock_events(&both), union);
        prop_assert_eq!(CausalClock::new(clock.vector().clone(), set_of(&right)).covers(&other), true);
    }

    #[test]
    fn the_next_event_is_behind_all_known_ones(runs in any_runs(), name in 0u8..4) {
        let clock = clock_of(&runs);
        let own = |(event_of, counter): (Actor, u64)| (event_of == actor(&[name])).then_some(counter);
        let last = naive_of(&runs).into_iter().filter_map(own).max().unwrap_or(0);
        prop_assert_eq!(clock.next_counter(&actor(&[name])), Some(last + 1));
    }

    #[test]
    fn sets_of_events_are_sets(left in any_runs(), right in any_runs()) {
        let (mut set, other) = (set_of(&left), set_of(&right));
        prop_assert_eq!(events(|dot| set.contains(dot)), naive_of(&left));
        prop_assert_eq!(set == other, naive_of(&left) == naive_of(&right));
        prop_assert_eq!(set.run_count(), set.iter().map(|(_, runs)| runs.len()).sum::<usize>());
        let mut less = set.clone();
        less.subtract(&clock_of(&right));
        set.merge(&other);
        prop_assert_eq!(
            events(|dot| less.contains(dot)),
            naive_of(&left).difference(&naive_of(&right)).cloned().collect::<Naive>()
        );
        prop_assert_eq!(
            events(|dot| set.contains(dot)),
            naive_of(&left).union(&naive_of(&right)).cloned().collect::<Naive>()
        );
        prop_assert_eq!(less.is_empty(), less.iter().next().is_none());
    }
}

#[test]
fn a_closed_gap_empties_the_cloud() {
    let mut clock = CausalClock::default();
    for counter in [3, 1, 5] {
        clock.add(&dot(b"a", counter));
    }
    assert_eq!((clock.vector().counter(&actor(b"a")), clock.cloud().run_count()), (1, 2));
    clock.add(&dot(b"a", 4));
    assert_eq!((clock.vector().counter(&actor(b"a")), clock.cloud().run_count()), (1, 1));
    clock.add(&dot(b"a", 2));
    assert_eq!((clock.vector().counter(&actor(b"a")), clock.cloud().is_empty()), (5, true));
}

#[test]
fn the_ends_of_the_numbers_do_not_overflow() {
    let mut clock = CausalClock::default();
    let last = Run { first: u64::MAX - 1, last: u64::MAX };
    clock.add_run(&actor(b"a"), last, 0);
    clock.add_run(&actor(b"a"), Run::one(u64::MAX), 0);
    assert_eq!(clock.next_counter(&actor(b"a")), None);
    clock.add_run(&actor(b"a"), Run { first: 1, last: u64::MAX - 2 }, 0);
    assert_eq!(clock.vector().counter(&actor(b"a")), u64::MAX);
    assert!(clock.cloud().is_empty() && clock.beyond(&clock).is_empty());
}

#[test]
fn entries_keep_the_time_of_the_event_that_made_them() {
    let at = |counter, time_secs| Dot { time_secs, ..dot(b"a", counter) };
    let mut clock = CausalClock::default();
    clock.add(&at(1, 10));
    clock.add(&at(3, 30));
    assert_eq!(clock.vector().entries()[0].time_secs, 10);
    clock.add(&at(2, 20));
    assert_eq!(clock.vector().entries()[0].time_secs, 20);
    assert_eq!(clock.vector().entries()[0].counter, 3);
}
