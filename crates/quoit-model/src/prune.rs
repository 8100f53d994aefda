//! Pruning: keeps the clocks of long-lived objects from growing with every actor that ever was.
//!
//! The rule is Riak's, of the bucket properties `small_vclock`, `big_vclock`, `young_vclock` and
//! `old_vclock`. An event that is pruned is forgotten: a replica that still has its value may bring
//! it back as a sibling. So only entries that are old, or too many, go.

use crate::clock::Dot;
use crate::object::Object;

/// When a clock is pruned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PruneLimits {
    /// Clocks of up to this many entries are never pruned (`small_vclock`).
    pub small_entries: u32,
    /// Clocks of more entries are pruned whatever the age (`big_vclock`).
    pub big_entries: u32,
    /// Entries younger than this are never pruned, in seconds (`young_vclock`).
    pub young_secs: u32,
    /// Entries older than this are pruned while the clock is not small, in seconds (`old_vclock`).
    pub old_secs: u32,
}

impl Object {
    /// Drops the oldest entries of the clock as `limits` say; `now_secs` counts from year 0 as
    /// entries do. An entry of unknown time is as old as can be. Entries that cover a sibling's dot
    /// stay: without them no writer could ever replace that sibling.
    ///
    /// For writes only, not for merges: replicas that prune on their own would never agree. Costs
    /// nothing for clocks of up to `small_entries`, else a sort of the entries.
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

    /// Ages of the entries that are left of a clock with entries of these ages; the value's event
    /// is that of the first one.
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
