//! References to records that other nodes have missed, in memory.
//!
//! A reference is a partition and an identity: enough to find the record in the own store, whatever has
//! become of it meanwhile. Of many writes of one record one reference is left. When there are too many,
//! those of a partition become one for the whole partition.

use quoit_cluster::NodeId;
use quoit_model::hash::{Identity, Partition};
use std::collections::{BTreeMap, BTreeSet};

/// A record that a node has missed.
pub(super) type HintReference = (Partition, Identity);

/// Result of noting a reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoteResult {
    /// It was known, or all of its partition is due anyway.
    Known,
    /// It is new.
    New,
    /// There are too many: all of the partition is due from now on.
    Whole,
}

/// References of one node.
#[derive(Default)]
struct Target {
    waiting: BTreeSet<HintReference>,
    /// References that are being delivered. A write meanwhile makes them wait again.
    under_way: BTreeSet<HintReference>,
    whole_waiting: BTreeSet<Partition>,
    whole_under_way: BTreeSet<Partition>,
}

impl Target {
    fn count(&self) -> usize {
        self.waiting.len() + self.under_way.len()
    }

    fn is_empty(&self) -> bool {
        self.count() == 0 && self.whole_waiting.is_empty() && self.whole_under_way.is_empty()
    }

    fn drop_partition(&mut self, partition: Partition) -> usize {
        let last = (partition, Identity(u64::MAX));
        let mut rest = self.waiting.split_off(&(partition, Identity(0)));
        let after: BTreeSet<HintReference> = rest.split_off(&last);
        let mut dropped = rest.len();
        self.waiting.extend(after);
        dropped += usize::from(self.waiting.remove(&last));
        dropped
    }
}

/// References of all nodes. Bounded.
pub(super) struct References {
    targets: BTreeMap<NodeId, Target>,
    count: usize,
    count_max: usize,
}

impl References {
    pub(super) fn new(count_max: usize) -> Self {
        Self { targets: BTreeMap::new(), count: 0, count_max }
    }

    /// A node has missed a record.
    pub(super) fn note(&mut self, to: NodeId, (partition, identity): HintReference) -> NoteResult {
        let target = self.targets.entry(to).or_default();
        if target.whole_waiting.contains(&partition) {
            return NoteResult::Known;
        }
        if !target.waiting.insert((partition, identity)) {
            return NoteResult::Known;
        }
        self.count += 1;
        if self.count > self.count_max {
            self.note_whole(to, partition);
            return NoteResult::Whole;
        }
        NoteResult::New
    }

    /// A node has missed an unknown part of a partition.
    pub(super) fn note_whole(&mut self, to: NodeId, partition: Partition) {
        let target = self.targets.entry(to).or_default();
        self.count -= target.drop_partition(partition);
        target.whole_waiting.insert(partition);
    }

    /// A reference that was noted before is done with.
    pub(super) fn forget(&mut self, to: NodeId, reference: HintReference) {
        let Some(target) = self.targets.get_mut(&to) else { return };
        self.count -= usize::from(target.waiting.remove(&reference));
        self.tidy(to);
    }

    /// A whole partition is done with.
    pub(super) fn forget_whole(&mut self, to: NodeId, partition: Partition) {
        let Some(target) = self.targets.get_mut(&to) else { return };
        target.whole_waiting.remove(&partition);
        self.tidy(to);
    }

    /// As [`References::note`] when read from the log, where what comes after a whole partition was
    /// written while that was under way.
    pub(super) fn restore(&mut self, to: NodeId, reference: HintReference) {
        let target = self.targets.entry(to).or_default();
        self.count += usize::from(target.waiting.insert(reference));
    }

    /// Some references of one partition to deliver now, in order; empty when there is none. They are
    /// done with by [`References::delivered`] or wait again by [`References::put_back`].
    pub(super) fn take(&mut self, to: NodeId, limit: usize) -> Vec<HintReference> {
        let Some(target) = self.targets.get_mut(&to) else { return Vec::new() };
        let Some((partition, _)) = target.waiting.first().copied() else { return Vec::new() };
        let of_partition = target.waiting.iter().take_while(|(other, _)| *other == partition);
        let taken: Vec<HintReference> = of_partition.take(limit).copied().collect();
        for reference in &taken {
            target.waiting.remove(reference);
            target.under_way.insert(*reference);
        }
        taken
    }

    /// References that were taken are done with. Returns those that were not noted again meanwhile.
    pub(super) fn delivered(&mut self, to: NodeId, taken: &[HintReference]) -> Vec<HintReference> {
        let Some(target) = self.targets.get_mut(&to) else { return Vec::new() };
        let mut done = Vec::new();
        for reference in taken {
            self.count -= usize::from(target.under_way.remove(reference));
            if !target.waiting.contains(reference) {
                done.push(*reference);
            }
        }
        self.tidy(to);
        done
    }

    /// References that were taken could not be delivered.
    pub(super) fn put_back(&mut self, to: NodeId, taken: &[HintReference]) {
        let Some(target) = self.targets.get_mut(&to) else { return };
        for reference in taken {
            let was_under_way = target.under_way.remove(reference);
            let is_new =
                !target.whole_waiting.contains(&reference.0) && target.waiting.insert(*reference);
            self.count -= usize::from(was_under_way);
            self.count += usize::from(is_new);
        }
    }

    /// A whole partition to deliver now.
    pub(super) fn take_whole(&mut self, to: NodeId) -> Option<Partition> {
        let target = self.targets.get_mut(&to)?;
        let partition = target.whole_waiting.pop_first()?;
        target.whole_under_way.insert(partition);
        Some(partition)
    }

    /// A whole partition that was taken is delivered, or was not; says whether it is done with.
    pub(super) fn finish_whole(&mut self, to: NodeId, partition: Partition, done: bool) -> bool {
        let Some(target) = self.targets.get_mut(&to) else { return false };
        target.whole_under_way.remove(&partition);
        if !done {
            target.whole_waiting.insert(partition);
        }
        let is_done = !target.whole_waiting.contains(&partition);
        self.tidy(to);
        is_done
    }

    /// A node is no member any more.
    pub(super) fn forget_node(&mut self, to: NodeId) {
        if let Some(target) = self.targets.remove(&to) {
            self.count -= target.count();
        }
    }

    /// Nodes that have missed something.
    pub(super) fn targets(&self) -> Vec<NodeId> {
        self.targets.keys().copied().collect()
    }

    /// Partitions of which some node has missed something.
    pub(super) fn partitions(&self) -> BTreeSet<Partition> {
        let of_target = |target: &Target| -> BTreeSet<Partition> {
            let references = target.waiting.iter().chain(&target.under_way);
            let whole = target.whole_waiting.iter().chain(&target.whole_under_way);
            references.map(|(partition, _)| *partition).chain(whole.copied()).collect()
        };
        self.targets.values().flat_map(of_target).collect()
    }

    /// How many records each node has missed, and of how many partitions it has missed an unknown part.
    pub(super) fn counts(&self) -> BTreeMap<NodeId, (u64, u64)> {
        let counts = |target: &Target| {
            let whole = target.whole_waiting.len() + target.whole_under_way.len();
            (target.count() as u64, whole as u64)
        };
        self.targets.iter().map(|(to, target)| (*to, counts(target))).collect()
    }

    /// Whole partitions that nodes have missed.
    pub(super) fn whole(&self) -> Vec<(NodeId, Partition)> {
        let of_target = |(to, target): (&NodeId, &Target)| -> Vec<(NodeId, Partition)> {
            let partitions = target.whole_waiting.union(&target.whole_under_way);
            partitions.map(|partition| (*to, *partition)).collect()
        };
        self.targets.iter().flat_map(of_target).collect()
    }

    /// Single records that nodes have missed.
    pub(super) fn single(&self) -> Vec<(NodeId, HintReference)> {
        let of_target = |(to, target): (&NodeId, &Target)| -> Vec<(NodeId, HintReference)> {
            let references = target.waiting.union(&target.under_way);
            references.map(|reference| (*to, *reference)).collect()
        };
        self.targets.iter().flat_map(of_target).collect()
    }

    /// How many references there are.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    fn tidy(&mut self, to: NodeId) {
        if self.targets.get(&to).is_some_and(Target::is_empty) {
            self.targets.remove(&to);
        }
    }
}
