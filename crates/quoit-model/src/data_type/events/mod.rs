//! Sets of events, as runs of consecutive counters for each actor.

use super::CausalClock;
use crate::clock::{Actor, Dot};
use smallvec::SmallVec;

mod codec;

/// A run of consecutive events of one actor, both ends included. Counters begin at 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Counter of the first event.
    pub first: u64,
    /// Counter of the last event, not below that of the first.
    pub last: u64,
}

impl Run {
    /// A run of one event.
    #[must_use]
    pub const fn one(counter: u64) -> Self {
        Self { first: counter, last: counter }
    }

    const fn is_valid(self) -> bool {
        0 < self.first && self.first <= self.last
    }

    const fn has(self, other: Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

/// Runs of one actor: sorted, with a gap between each two.
type Runs = SmallVec<[Run; 1]>;

/// A set of events of any actors. Equal sets compare equal.
///
/// Costs depend on the number of runs, not on the number of events. A set of one run takes no
/// allocation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventSet {
    /// Sorted by actor; every actor has a run.
    runs: SmallVec<[(Actor, Runs); 1]>,
}

/// Number of runs up to which a whole set is checked in debug builds. Each change checks the runs
/// around it, whatever their number.
const CHECKED_RUN_COUNT_MAX: usize = 64;

impl EventSet {
    /// In debug builds, asserts that equal sets of events have equal runs.
    fn assert_invariants(&self) {
        if !cfg!(debug_assertions) || self.run_count() > CHECKED_RUN_COUNT_MAX {
            return;
        }
        assert!(self.runs.is_sorted_by(|a, b| a.0 < b.0), "actors are sorted: {self:?}");
        for (_, runs) in &self.runs {
            assert!(!runs.is_empty(), "every actor has a run: {self:?}");
            assert!(runs.iter().all(|run| run.is_valid()), "runs are in order: {self:?}");
            assert!(runs.is_sorted_by(is_gap_between), "a gap is between two runs: {self:?}");
        }
    }

    /// True if the set has no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs of each actor. Actors and runs are in ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Actor, &[Run])> {
        self.runs.iter().map(|(actor, runs)| (actor, runs.as_slice()))
    }

    /// Total number of runs.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.runs.iter().map(|(_, runs)| runs.len()).sum()
    }

    /// True if the event is in the set.
    #[must_use]
    pub fn contains(&self, dot: &Dot) -> bool {
        self.has_run(&dot.actor, Run::one(dot.counter))
    }

    /// Adds events of one actor.
    ///
    /// # Panics
    ///
    /// Panics if the run begins at 0 or ends before it begins.
    #[expect(clippy::indexing_slicing, reason = "`place_of` returns the number of an element")]
    pub fn insert(&mut self, actor: &Actor, run: Run) {
        assert!(run.is_valid(), "{run:?} is no run of events");
        match self.place_of(actor) {
            Ok(place) => add_run(&mut self.runs[place].1, run),
            Err(place) => self.runs.insert(place, (actor.clone(), Runs::from_buf([run]))),
        }
    }

    /// Adds one event.
    pub fn insert_dot(&mut self, dot: &Dot) {
        self.insert(&dot.actor, Run::one(dot.counter));
    }

    /// Adds every event of `other`.
    #[expect(clippy::indexing_slicing, reason = "`place_of` returns the number of an element")]
    pub fn merge(&mut self, other: &Self) {
        for (actor, runs) in &other.runs {
            match self.place_of(actor) {
                Ok(place) => runs.iter().for_each(|run| add_run(&mut self.runs[place].1, *run)),
                Err(place) => self.runs.insert(place, (actor.clone(), runs.clone())),
            }
        }
        self.assert_invariants();
    }

    /// Removes the events of a clock.
    pub fn subtract(&mut self, clock: &CausalClock) {
        self.runs.retain(|(actor, runs)| {
            let known = clock.vector().counter(actor);
            if known > 0 {
                subtract_runs(runs, &[Run { first: 1, last: known }]);
            }
            subtract_runs(runs, clock.cloud().of(actor));
            !runs.is_empty()
        });
        self.assert_invariants();
    }

    /// True if any event is in both sets.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        other.runs.iter().any(|(actor, runs)| {
            let own = self.of(actor);
            runs.iter().any(|run| {
                let candidate = own.partition_point(|own| own.last < run.first);
                own.get(candidate).is_some_and(|own| own.first <= run.last)
            })
        })
    }

    pub(super) fn has_run(&self, actor: &Actor, run: Run) -> bool {
        let runs = self.of(actor);
        let candidate = runs.partition_point(|own| own.last < run.last);
        runs.get(candidate).is_some_and(|own| own.has(run))
    }

    /// Removes and returns the first run of an actor if it begins at `counter` or before. The
    /// result is the run's last counter.
    pub(super) fn take_from(&mut self, actor: &Actor, counter: u64) -> Option<u64> {
        let place = self.place_of(actor).ok()?;
        let (_, runs) = self.runs.get_mut(place)?;
        let last = runs.first().filter(|run| run.first <= counter)?.last;
        runs.remove(0);
        if runs.is_empty() {
            self.runs.remove(place);
        }
        Some(last)
    }

    /// Counter of the last event of an actor; 0 if there is none.
    pub(super) fn last(&self, actor: &Actor) -> u64 {
        self.of(actor).last().map_or(0, |run| run.last)
    }

    fn of(&self, actor: &Actor) -> &[Run] {
        let found = self.place_of(actor).ok().and_then(|place| self.runs.get(place));
        found.map_or(&[], |(_, runs)| runs)
    }

    fn place_of(&self, actor: &Actor) -> Result<usize, usize> {
        self.runs.binary_search_by(|(own, _)| own.cmp(actor))
    }
}

/// Adds a run and joins it with the runs that it overlaps or adjoins.
fn add_run(runs: &mut Runs, new: Run) {
    let from = runs.partition_point(|run| run.last < new.first && new.first - run.last > 1);
    let to = runs.partition_point(|run| run.first <= new.last.saturating_add(1));
    let joined = runs.drain(from..to).fold(new, |joined, run| Run {
        first: joined.first.min(run.first),
        last: joined.last.max(run.last),
    });
    runs.insert(from, joined);
    debug_assert!(joined.has(new), "the joined run has the new one");
    debug_assert!(
        runs.iter().skip(from.saturating_sub(1)).take(3).is_sorted_by(|a, b| is_gap_between(a, b)),
        "the joined run adjoins no other: {runs:?}"
    );
}

/// True if the second run begins beyond a gap after the first.
fn is_gap_between(one: &Run, other: &Run) -> bool {
    one.last < other.first && other.first - one.last > 1
}

fn subtract_runs(runs: &mut Runs, minus: &[Run]) {
    if minus.is_empty() {
        return;
    }
    let mut left = Runs::new();
    for run in runs.iter() {
        let from = minus.partition_point(|other| other.last < run.first);
        let mut rest = Some(*run);
        for other in minus.iter().skip(from).take_while(|other| other.first <= run.last) {
            let Some(Run { first, last }) = rest else { break };
            if first < other.first {
                left.push(Run { first, last: other.first - 1 });
            }
            rest = (other.last < last).then(|| Run { first: other.last + 1, last });
        }
        left.extend(rest);
    }
    *runs = left;
}
