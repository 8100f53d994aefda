//! Values of n_val of the buckets of a run, over time.

use crate::policy::Policy;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Default n_val.
pub const N_VAL_DEFAULT: u32 = 3;

/// A change of a bucket's n_val.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReplicaCountChange {
    policy: Policy,
    before: u32,
    after: u32,
    /// Time at which the change was requested, in simulated microseconds.
    start_us: u64,
    /// Time at which every node in service knew the change; [`u64::MAX`] until then.
    end_us: u64,
}

/// Values of n_val of a run, by policy and time.
#[derive(Debug, Clone, Default)]
pub struct ReplicaCounts {
    initial: BTreeMap<Policy, u32>,
    /// Changes in the order of their starts. Changes of one policy do not overlap.
    changes: Vec<ReplicaCountChange>,
}

impl ReplicaCounts {
    /// Creates the values with which a run begins.
    #[must_use]
    pub const fn new(initial: BTreeMap<Policy, u32>) -> Self {
        Self { initial, changes: Vec::new() }
    }

    /// Returns the n_val with which a policy's bucket begins.
    #[must_use]
    pub fn initial(&self, policy: Policy) -> u32 {
        self.initial.get(&policy).copied().unwrap_or(N_VAL_DEFAULT)
    }

    /// Records the request for a change.
    pub fn begin(&mut self, policy: Policy, after: u32, now_us: u64) {
        let before = self.last_of(policy);
        let (start_us, end_us) = (now_us, u64::MAX);
        self.changes.push(ReplicaCountChange { policy, before, after, start_us, end_us });
    }

    /// Records that every node in service knows the last change of a policy's bucket.
    pub fn end(&mut self, policy: Policy, now_us: u64) {
        let mut changes = self.changes.iter_mut().rev();
        if let Some(change) = changes.find(|change| change.policy == policy) {
            change.end_us = now_us;
        }
    }

    /// True if some n_val was changed.
    #[must_use]
    pub const fn is_changed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// True if n_val changed between two times, or nodes may have used different values.
    #[must_use]
    pub fn changed_within(&self, policy: Policy, within_us: RangeInclusive<u64>) -> bool {
        self.changes_of(policy).any(|change| overlaps(change, &within_us))
    }

    /// True if n_val was only raised, or not changed, between two times.
    #[must_use]
    pub fn only_raised(&self, policy: Policy, within_us: RangeInclusive<u64>) -> bool {
        let mut within = self.changes_of(policy).filter(|change| overlaps(change, &within_us));
        within.all(|change| change.after > change.before)
    }

    /// Returns the values of n_val that nodes may use at a time.
    #[must_use]
    pub fn in_force(&self, policy: Policy, at_us: u64) -> Vec<u32> {
        let mut in_force = vec![self.initial(policy)];
        for change in self.changes_of(policy).filter(|change| change.start_us <= at_us) {
            in_force = match change.end_us < at_us {
                true => vec![change.after],
                false => vec![change.before, change.after],
            };
        }
        in_force
    }

    /// Returns the least n_val of a policy's bucket from a time on; the default if there is no policy.
    #[must_use]
    pub fn least_from(&self, policy: Option<Policy>, from_us: u64) -> u32 {
        let Some(policy) = policy else { return N_VAL_DEFAULT };
        let later = self.changes_of(policy).filter(|change| change.end_us >= from_us);
        let later = later.flat_map(|change| [change.before, change.after]);
        let all = self.in_force(policy, from_us).into_iter().chain(later);
        all.min().unwrap_or(N_VAL_DEFAULT)
    }

    fn last_of(&self, policy: Policy) -> u32 {
        self.changes_of(policy).last().map_or(self.initial(policy), |change| change.after)
    }

    fn changes_of(&self, policy: Policy) -> impl Iterator<Item = &ReplicaCountChange> {
        self.changes.iter().filter(move |change| change.policy == policy)
    }
}

/// True if a change was under way at some time of a range.
fn overlaps(change: &ReplicaCountChange, within_us: &RangeInclusive<u64>) -> bool {
    change.start_us <= *within_us.end() && change.end_us >= *within_us.start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_in_force_beside_the_former_number_until_every_node_knows_it() {
        let mut counts = ReplicaCounts::new(BTreeMap::from([(Policy::Latest, 5)]));
        counts.begin(Policy::Latest, 1, 100);
        counts.end(Policy::Latest, 200);
        counts.begin(Policy::Latest, 3, 300);
        let in_force = |at_us| counts.in_force(Policy::Latest, at_us);
        assert_eq!([in_force(50), in_force(250)], [[5], [1]]);
        assert_eq!([in_force(150), in_force(1_000)], [[5, 1], [1, 3]]);
        assert_eq!(counts.in_force(Policy::Siblings, 150), [N_VAL_DEFAULT]);
    }

    #[test]
    fn changes_count_for_what_they_overlap_and_for_what_came_before_them() {
        let mut counts = ReplicaCounts::default();
        counts.begin(Policy::Latest, 1, 100);
        counts.end(Policy::Latest, 200);
        counts.begin(Policy::Latest, 5, 300);
        counts.end(Policy::Latest, 400);
        let raised = |from_us, until_us| counts.only_raised(Policy::Latest, from_us..=until_us);
        assert!(raised(201, 500) && !raised(150, 500) && !raised(10, 100));
        let changed = |from_us, until_us| counts.changed_within(Policy::Latest, from_us..=until_us);
        assert!(changed(50, 100) && changed(200, 250) && changed(10, 500));
        assert!(!changed(10, 99) && !changed(201, 299) && !changed(401, 900));
        let least = |from_us| counts.least_from(Some(Policy::Latest), from_us);
        assert_eq!([least(10), least(250), least(350), least(450)], [1, 1, 1, 5]);
    }
}
