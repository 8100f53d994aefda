//! Pruning of clocks, so that the clock of a long-lived object does not keep an entry for every
//! actor that ever wrote it.
//!
//! The rule is Riak's, with the bucket properties `small_vclock`, `big_vclock`, `young_vclock` and
//! `old_vclock`. A pruned event is forgotten: a replica that still has its value may bring it back as a
//! sibling. Therefore a clock only loses entries that are old, or that exceed the maximum number.

use crate::clock::Dot;
use crate::object::Object;

/// Limits by which a clock is pruned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PruneLimits {
    /// A clock of up to this many entries is never pruned (`small_vclock`).
    pub small_entries: u32,
    /// A clock of more than this many entries is pruned even if its entries are not old
    /// (`big_vclock`).
    pub big_entries: u32,
    /// Age in seconds below which an entry is never pruned (`young_vclock`).
    pub young_secs: u32,
    /// Age in seconds above which an entry is pruned, until the clock is small (`old_vclock`).
    pub old_secs: u32,
}

impl Object {
    /// Drops the oldest entries of the clock, within `limits`. `now_secs` counts from year 0, as
    /// the times of entries do. An entry of unknown time counts as the oldest. An entry whose actor
    /// wrote a sibling stays: without it no later write could replace that sibling.
    ///
    /// Only writes prune, not merges: replicas that prune independently would never have equal
    /// clocks. Costs nothing for clocks of up to `small_entries`; longer ones are sorted.
    pub fn prune_clock(&mut self, limits: &PruneLimits, now_secs: u64) {
        let mut left = self.clock.entries().len();
        if left <= limits.small_entries as usize {
            return;
        }
        let covers_sibling = |entry: &Dot| {
            let dots = self.siblings.iter().filter_map(|sibling| sibling.dot.as_ref());
            dots.into_iter().any(|dot| dot.actor == entry.actor)
        };
        let entries = self.clock.entries().iter().filter(|entry| !covers_sibling(entry));
        let mut oldest_first: Vec<Dot> = entries.cloned().collect();
        oldest_first.sort_unstable_by(|a, b| (a.time_secs, &a.actor).cmp(&(b.time_secs, &b.actor)));
        let pruned = oldest_first.iter().take_while(|oldest| {
            let age_secs = now_secs.saturating_sub(oldest.time_secs);
            let prunable =
                left > limits.small_entries as usize && age_secs >= limits.young_secs.into();
            let due = left > limits.big_entries as usize || age_secs > limits.old_secs.into();
            left -= 1;
            prunable && due
        });
        let pruned_count = pruned.count();
        oldest_first.truncate(pruned_count);
        oldest_first.sort_unstable_by(|a, b| a.actor.cmp(&b.actor));
        self.clock.forget(&oldest_first);
        debug_assert!(
            self.clock.entries().len() >= limits.small_entries as usize,
            "a clock that is small is not pruned"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::VersionVector;
    use crate::object::Sibling;
    use crate::test_objects::dot;

    const NOW_SECS: u64 = 63_900_000_000;
    const LIMITS: PruneLimits =
        PruneLimits { small_entries: 2, big_entries: 4, young_secs: 20, old_secs: 1000 };

    /// Checks the ages, in seconds, of the entries that pruning leaves of a clock with entries of
    /// the given ages. The first entry is the event of the object's value.
    fn check(ages_secs: &[u64], expected: &[u64]) {
        let entry = |(name, age_secs): (u8, &u64)| Dot {
            time_secs: NOW_SECS - age_secs,
            ..dot(&[name], 1)
        };
        let clock = VersionVector::from_entries((0..).zip(ages_secs).map(entry));
        let sibling = Sibling { dot: clock.entries().first().cloned(), ..Sibling::default() };
        let mut object = Object { clock, siblings: [sibling].into_iter().collect() };
        object.prune_clock(&LIMITS, NOW_SECS);
        let left = object.clock.entries().iter().map(|entry| NOW_SECS - entry.time_secs);
        assert_eq!(left.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn small_clocks_keep_everything() {
        check(&[0, 99_999], &[0, 99_999]);
    }

    #[test]
    fn old_entries_go_until_the_clock_is_small() {
        check(&[0, 500, 1001], &[0, 500]);
        check(&[0, 500, 1000], &[0, 500, 1000]);
        check(&[0, 3000, 2000, 4000], &[0, 2000]);
    }

    #[test]
    fn big_clocks_lose_their_oldest_entries_whatever_the_age() {
        check(&[0, 30, 60, 50, 40], &[0, 30, 50, 40]);
        check(&[0, 30, 60, 50, 40, 70], &[0, 30, 50, 40]);
    }

    #[test]
    fn young_entries_stay_however_many() {
        check(&[0, 19, 19, 19, 19, 19], &[0, 19, 19, 19, 19, 19]);
        check(&[0, 20, 19, 19, 19, 19], &[0, 19, 19, 19, 19]);
    }

    #[test]
    fn the_event_of_a_value_stays() {
        check(&[9999, 500, 400], &[9999, 500, 400]);
        check(&[9999, 5000, 400], &[9999, 400]);
    }
}
