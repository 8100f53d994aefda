//! The damaged records that statistics have counted and that are not replaced yet. Requests, verification and
//! repeated attempts meet one record many times, and it counts once.
//!
//! Nothing tells this list of a write that replaces a damaged record. A round of verification reads all data,
//! so a record that a whole round has not met is not damaged any more. Two sets are enough for that: the
//! records met in this round, and those met in the round before.

use parking_lot::Mutex;
use quoit_model::hash::Partition;
use quoit_store::index::Tag;
use std::collections::BTreeSet;
use std::mem;

/// Largest number of records that are known. Further ones are replaced as well, but not counted.
const KNOWN_COUNT_MAX: usize = 131_072;

/// The name under which damage is counted: the partition and the tag of the record.
pub(super) type DamagedName = (Partition, Tag);

/// Damaged records that were counted and not replaced.
#[derive(Default)]
pub(super) struct CountedDamage(Mutex<KnownDamage>);

#[derive(Default)]
struct KnownDamage {
    /// Records that were found since the last round of verification ended.
    recent: BTreeSet<DamagedName>,
    /// Records that were found in the round before, and not since.
    former: BTreeSet<DamagedName>,
    /// True if a record was found while the sets were full. Records that wait for repair may then be missing
    /// from the sets.
    has_unknown: bool,
}

impl CountedDamage {
    /// Notes records that were found, and returns the number of those that were not counted before.
    pub(super) fn note(&self, met: &[DamagedName]) -> usize {
        let mut known = self.0.lock();
        let KnownDamage { recent, former, has_unknown } = &mut *known;
        let mut new_count = 0;
        for record in met {
            let was_known = former.remove(record);
            if recent.contains(record) {
                continue;
            }
            if !was_known && recent.len() + former.len() >= KNOWN_COUNT_MAX {
                *has_unknown = true;
                continue;
            }
            recent.insert(*record);
            new_count += usize::from(!was_known);
        }
        known.check();
        new_count
    }

    /// Removes records that were replaced, and returns the number of those that were counted.
    pub(super) fn remove(&self, replaced: &[DamagedName]) -> usize {
        let mut known = self.0.lock();
        let mut count = 0;
        for record in replaced {
            let (was_recent, was_former) =
                (known.recent.remove(record), known.former.remove(record));
            count += usize::from(was_recent || was_former);
        }
        count
    }

    /// Keeps those of the waiting records that were not replaced meanwhile. If the sets were full, keeps all
    /// of them, because some may be missing from the sets.
    pub(super) fn retain(&self, waiting: &mut BTreeSet<DamagedName>) {
        let known = self.0.lock();
        let KnownDamage { recent, former, has_unknown } = &*known;
        if !has_unknown {
            waiting.retain(|record| recent.contains(record) || former.contains(record));
        }
    }

    /// Forgets records that a round of verification, which reads all data, has not found: a write has
    /// replaced them.
    pub(super) fn end_round(&self) {
        let mut known = self.0.lock();
        known.former = mem::take(&mut known.recent);
        known.check();
    }
}

impl KnownDamage {
    /// Number of records up to which debug builds compare the two sets.
    const CHECKED_COUNT_MAX: usize = 64;

    /// Checks in debug builds that each record is known once, and that the records keep to their bound.
    fn check(&self) {
        let Self { recent, former, .. } = self;
        let count = recent.len() + former.len();
        debug_assert!(count <= KNOWN_COUNT_MAX, "the known records keep to their bound");
        debug_assert!(
            count > Self::CHECKED_COUNT_MAX || recent.is_disjoint(former),
            "a record that was met again is known from this round alone"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::hash::Identity;

    fn record(number: u16) -> DamagedName {
        (Partition(number), Tag::of(Identity(7)))
    }

    #[test]
    fn a_record_counts_once_until_it_is_replaced() {
        let counted = CountedDamage::default();
        assert_eq!(counted.note(&[record(1), record(2), record(2)]), 2);
        counted.end_round();
        assert_eq!(counted.note(&[record(1), record(2), record(3)]), 1);
        assert_eq!(counted.remove(&[record(1), record(4)]), 1);
        assert_eq!(counted.remove(&[record(1)]), 0, "another attempt replaced it before");
        assert_eq!(counted.note(&[record(1)]), 1, "it is damaged anew");
    }

    #[test]
    fn a_record_that_was_replaced_waits_no_longer() {
        let counted = CountedDamage::default();
        counted.note(&[record(1), record(2)]);
        counted.end_round();
        counted.remove(&[record(1)]);
        let mut waiting = BTreeSet::from([record(1), record(2)]);
        counted.retain(&mut waiting);
        assert_eq!(waiting, BTreeSet::from([record(2)]));
    }

    #[test]
    fn a_record_that_was_not_counted_because_too_many_are_known_goes_on_waiting() {
        let counted = CountedDamage::default();
        let numbered = |number| (Partition(0), Tag::from_number(number));
        let known: Vec<_> = (0..).map(numbered).take(KNOWN_COUNT_MAX).collect();
        assert_eq!(counted.note(&known), KNOWN_COUNT_MAX);
        let further = numbered(KNOWN_COUNT_MAX as u64);
        assert_eq!(counted.note(&[further]), 0);
        assert_eq!(counted.remove(&known[..1]), 1);
        let mut waiting = BTreeSet::from([further]);
        counted.retain(&mut waiting);
        assert_eq!(waiting, BTreeSet::from([further]));
    }

    #[test]
    fn a_record_that_a_whole_round_has_not_met_counts_again() {
        let counted = CountedDamage::default();
        counted.note(&[record(1), record(2)]);
        counted.end_round();
        counted.note(&[record(1)]);
        counted.end_round();
        assert_eq!(counted.note(&[record(1), record(2)]), 1);
    }
}
