//! Suspected partitions: those in which this node may hold strays, and when it should walk through them.
//!
//! A walk is expensive and useless while all strays wait for primaries that can't be reached. So a walk that
//! left strays notes those primaries, and the next one begins when one of them is back or another stray is
//! written.
//!
//! The set also answers other members' questions for the retirement of reap records (`crate::reaper`): an
//! answer includes each partition that was suspected at any time since the former answer, even if it no
//! longer is.

use quoit_cluster::{ClusterId, NodeId, State};
use quoit_model::hash::Partition;
use quoit_planted::planted;
use std::collections::{BTreeMap, BTreeSet};

/// Result of a walk through a partition for strays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum WalkResult {
    /// No stray is left.
    Clean,
    /// Strays are left, and these of their primaries could not be reached.
    WaitsFor(BTreeSet<NodeId>),
    /// Strays are left that another walk may be able to hand over.
    Unfinished,
}

impl WalkResult {
    /// Combines the results of two parts of a walk.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Clean, other) => other,
            (walked, Self::Clean) => walked,
            (Self::WaitsFor(mut nodes), Self::WaitsFor(more)) => {
                nodes.extend(more);
                Self::WaitsFor(nodes)
            }
            (Self::Unfinished, _) | (_, Self::Unfinished) => Self::Unfinished,
        }
    }
}

/// The partitions that may hold strays.
#[derive(Default)]
pub(crate) struct StraySuspects {
    /// Partitions that wait for a walk, each with the nodes that all its known strays wait for. An empty
    /// set means that a walk can begin at once.
    waiting: BTreeMap<Partition, BTreeSet<NodeId>>,
    /// Partitions in which a walk is under way. A write of a stray during the walk also puts its
    /// partition into `waiting`.
    walked: BTreeSet<Partition>,
    /// The state of the control plane that was reviewed last.
    reviewed: Option<Reviewed>,
    /// Number of the last answer to another member or to this node's own reaper.
    answer: u64,
    /// For partitions that are no longer suspected, the number of the last answer before their walk
    /// ended.
    cleared_after: BTreeMap<Partition, u64>,
}

impl StraySuspects {
    /// Suspects a partition. Its strays wait for the nodes in `missing`; if that is empty, a walk can
    /// begin at once.
    pub(crate) fn suspect(&mut self, partition: Partition, missing: BTreeSet<NodeId>) {
        match self.waiting.get_mut(&partition) {
            // A walk can begin at once anyway.
            Some(nodes) if nodes.is_empty() => {}
            Some(nodes) if missing.is_empty() => nodes.clear(),
            Some(nodes) => nodes.extend(missing),
            None => _ = self.waiting.insert(partition, missing),
        }
    }

    /// Notes the start of a walk through a partition.
    pub(crate) fn begin(&mut self, partition: Partition) {
        self.waiting.remove(&partition);
        let is_new = self.walked.insert(partition);
        debug_assert!(is_new, "one walk goes through a partition at a time");
        self.check();
    }

    /// Notes the end of a walk.
    ///
    /// # Panics
    ///
    /// If no walk through the partition is under way.
    pub(crate) fn end(&mut self, partition: Partition, walked: WalkResult) {
        assert!(self.walked.remove(&partition), "a walk ends that has begun");
        match walked {
            WalkResult::Clean => _ = self.cleared_after.insert(partition, self.answer),
            WalkResult::WaitsFor(missing) => self.suspect(partition, missing),
            WalkResult::Unfinished if planted!(ForgetsUnfinishedWalks) => {
                self.cleared_after.insert(partition, self.answer);
            }
            WalkResult::Unfinished => self.suspect(partition, BTreeSet::new()),
        }
        self.check();
    }

    /// Checks in debug builds that no partition was cleared after an answer that was not given yet.
    fn check(&self) {
        debug_assert!(
            self.cleared_after.values().all(|answer| *answer <= self.answer),
            "a walk ends after an answer that was given"
        );
    }

    /// Returns the partitions in which a walk should begin: all that wait for a walk, except those whose
    /// strays all wait for nodes that still can't be reached.
    pub(crate) fn ready(&self, is_reachable: impl Fn(NodeId) -> bool) -> Vec<Partition> {
        let is_ready = |(_, missing): &(&Partition, &BTreeSet<NodeId>)| {
            missing.is_empty() || missing.iter().any(|node| is_reachable(*node))
        };
        self.waiting.iter().filter(is_ready).map(|(partition, _)| *partition).collect()
    }

    /// Returns all suspected partitions, and those that were suspected at some time since this answer.
    /// For 0, only those that are suspected now.
    pub(crate) fn since(&self, answer: u64) -> BTreeSet<Partition> {
        let is_since = |(_, cleared): &(&Partition, &u64)| answer != 0 && **cleared >= answer;
        let cleared = self.cleared_after.iter().filter(is_since);
        self.all().into_iter().chain(cleared.map(|(partition, _)| *partition)).collect()
    }

    /// Returns the number of the next answer.
    pub(crate) fn next_answer(&mut self) -> u64 {
        self.answer += 1;
        self.answer
    }

    /// Returns all suspected partitions.
    pub(crate) fn all(&self) -> BTreeSet<Partition> {
        self.waiting.keys().copied().chain(self.walked.iter().copied()).collect()
    }

    /// Notes a newer state of the control plane. Returns true if the caller has to suspect all
    /// partitions: after a start, after a change of the live layouts or of the cluster, and when a
    /// bucket's `n_val` was lowered, even if it was raised again since.
    #[must_use]
    pub(crate) fn review(&mut self, state: &State) -> bool {
        let now = Reviewed::by(state);
        let is_outdated = |before: &Reviewed| before.is_outdated(&now, state.replicas_lowered_at());
        let suspects_all = self.reviewed.as_ref().is_none_or(is_outdated);
        self.reviewed = Some(now);
        if suspects_all {
            self.release();
        }
        suspects_all
    }

    /// Lets a walk through each suspected partition begin at once, whichever nodes it waits for: by
    /// another layout or n_val these nodes may not be primaries, and may never come back. A walk that is
    /// under way may still find them missing, so its partition gets another walk.
    fn release(&mut self) {
        self.waiting.values_mut().for_each(BTreeSet::clear);
        for partition in &self.walked {
            self.waiting.insert(*partition, BTreeSet::new());
        }
    }

    /// Returns the version of the reviewed state, from which the suspicions follow; 0 if that is a state
    /// of another cluster.
    pub(crate) fn reviewed(&self, state: &State) -> u64 {
        let reviewed = self.reviewed.as_ref();
        let same = reviewed.filter(|reviewed| reviewed.cluster_id == state.cluster_id());
        same.map_or(0, |reviewed| reviewed.version)
    }
}

/// The parts of the control plane's state that decide which records are strays.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Reviewed {
    cluster_id: ClusterId,
    version: u64,
    /// Versions of the live layouts.
    live: Vec<u64>,
}

impl Reviewed {
    fn by(state: &State) -> Self {
        let live = state.layouts().live().iter().map(|layout| layout.version());
        let (cluster_id, version) = (state.cluster_id(), state.version());
        Self { cluster_id, version, live: live.collect() }
    }

    /// True if a node may be a primary of fewer records by `now` than by this state.
    /// `replicas_lowered_at` is the version of the state in which a bucket's `n_val` was lowered last.
    fn is_outdated(&self, now: &Self, replicas_lowered_at: u64) -> bool {
        self.cluster_id != now.cluster_id
            || self.live != now.live
            || self.version < replicas_lowered_at && !planted!(OverlooksLoweredReplicas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITION: Partition = Partition(3);

    fn nodes(numbers: &[u8]) -> BTreeSet<NodeId> {
        numbers.iter().map(|number| NodeId([*number; 16])).collect()
    }

    fn ready(suspects: &StraySuspects, reachable: &[u8]) -> Vec<Partition> {
        suspects.ready(|node| nodes(reachable).contains(&node))
    }

    #[test]
    fn a_partition_whose_strays_wait_for_nodes_is_walked_when_one_of_them_is_back() {
        let mut suspects = StraySuspects::default();
        suspects.suspect(PARTITION, BTreeSet::new());
        assert_eq!(ready(&suspects, &[]), [PARTITION]);
        suspects.begin(PARTITION);
        assert_eq!(ready(&suspects, &[1, 2]), []);
        suspects.end(PARTITION, WalkResult::WaitsFor(nodes(&[1, 2])));
        assert_eq!(ready(&suspects, &[3]), []);
        assert_eq!(ready(&suspects, &[2, 3]), [PARTITION]);
        assert!(suspects.all().contains(&PARTITION), "suspected all the while");
    }

    #[test]
    fn what_is_written_during_a_walk_is_looked_for_by_another_one() {
        let mut suspects = StraySuspects::default();
        suspects.suspect(PARTITION, BTreeSet::new());
        suspects.begin(PARTITION);
        suspects.suspect(PARTITION, BTreeSet::new());
        suspects.end(PARTITION, WalkResult::Clean);
        assert_eq!(ready(&suspects, &[]), [PARTITION]);
        suspects.begin(PARTITION);
        suspects.end(PARTITION, WalkResult::Clean);
        assert!(suspects.all().is_empty());
    }

    #[test]
    fn an_answer_tells_what_was_suspected_since_the_one_before() {
        let mut suspects = StraySuspects::default();
        let walk = |suspects: &mut StraySuspects| {
            suspects.suspect(PARTITION, BTreeSet::new());
            suspects.begin(PARTITION);
            suspects.end(PARTITION, WalkResult::Clean);
        };
        walk(&mut suspects);
        let first = suspects.next_answer();
        assert!(suspects.since(0).is_empty() && suspects.since(first).is_empty());
        walk(&mut suspects);
        assert!(suspects.since(0).is_empty());
        assert!(suspects.since(first).contains(&PARTITION));
        let second = suspects.next_answer();
        assert!(suspects.since(first).contains(&PARTITION));
        assert!(suspects.since(second).is_empty());
    }

    #[test]
    fn a_stray_that_waits_for_nothing_is_not_held_up_by_those_that_do() {
        let mut suspects = StraySuspects::default();
        suspects.suspect(PARTITION, nodes(&[1]));
        assert_eq!(ready(&suspects, &[]), []);
        suspects.suspect(PARTITION, nodes(&[2]));
        assert_eq!(ready(&suspects, &[2]), [PARTITION]);
        suspects.suspect(PARTITION, BTreeSet::new());
        assert_eq!(ready(&suspects, &[]), [PARTITION]);
        suspects.suspect(PARTITION, nodes(&[1]));
        assert_eq!(ready(&suspects, &[]), [PARTITION]);
    }

    #[test]
    fn a_partition_does_not_wait_for_nodes_that_were_primaries_before_a_review() {
        let mut suspects = StraySuspects::default();
        let (waits, walked) = (PARTITION, Partition(4));
        suspects.suspect(waits, nodes(&[1]));
        suspects.suspect(walked, BTreeSet::new());
        suspects.begin(walked);
        suspects.release();
        suspects.end(walked, WalkResult::WaitsFor(nodes(&[1])));
        assert_eq!(ready(&suspects, &[]), [waits, walked]);
    }

    #[test]
    fn all_is_reviewed_after_a_change_of_layouts_of_replicas_or_of_the_cluster() {
        let cluster_id = ClusterId([1; 16]);
        let before = Reviewed { cluster_id, version: 5, live: vec![2] };
        let now = Reviewed { version: 9, ..before.clone() };
        assert!(!before.is_outdated(&now, 5), "by that very change");
        assert!(before.is_outdated(&now, 6));
        assert!(before.is_outdated(&Reviewed { live: vec![2, 3], ..now.clone() }, 0));
        // A node that joins another cluster may have reached a higher version in its own.
        let joined = Reviewed { cluster_id: ClusterId([2; 16]), version: 3, live: vec![2] };
        assert!(before.is_outdated(&joined, 0));
    }
}
