//! References to records that other nodes have missed, in memory.
//!
//! A reference is a partition and an identity, enough to find the record in this node's store. However
//! often a record was written, it has one reference for each node. If there are too many references,
//! those of one node and partition become a note that the node has missed the whole partition.
//!
//! A reference is waiting, or under way to its node. A reference that is noted again while it is under
//! way is both: the delivery may have read the record before that write, so it is delivered once more.

use quoit_cluster::NodeId;
use quoit_model::hash::{Identity, Partition};
use std::collections::{BTreeMap, BTreeSet};

/// A record that a node has missed.
pub(super) type HintReference = (Partition, Identity);

/// Result of noting a reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoteResult {
    /// It was noted before, or its whole partition is.
    Known,
    /// It is new.
    New,
    /// There were too many: the whole partition is noted instead.
    Whole,
}

/// References of one node.
#[derive(Default)]
struct Target {
    waiting: BTreeSet<HintReference>,
    /// References that are being delivered. A further missed write adds the reference to `waiting` again.
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

    /// Drops the waiting references of a partition, and returns their number.
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

/// References of all nodes, at most `count_max` of them beside those of whole partitions.
pub(super) struct References {
    targets: BTreeMap<NodeId, Target>,
    count: usize,
    count_max: usize,
}

impl References {
    pub(super) fn new(count_max: usize) -> Self {
        Self { targets: BTreeMap::new(), count: 0, count_max }
    }

    /// Notes that a node has missed a record.
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
        self.check();
        NoteResult::New
    }

    /// Notes that a node may have missed any record of a partition, and drops its waiting references of
    /// that partition.
    pub(super) fn note_whole(&mut self, to: NodeId, partition: Partition) {
        let target = self.targets.entry(to).or_default();
        self.count -= target.drop_partition(partition);
        target.whole_waiting.insert(partition);
        self.check();
    }

    /// Removes a reference, as an entry of the file says.
    pub(super) fn forget(&mut self, to: NodeId, reference: HintReference) {
        let Some(target) = self.targets.get_mut(&to) else { return };
        self.count -= usize::from(target.waiting.remove(&reference));
        self.tidy(to);
    }

    /// Removes a whole partition, as an entry of the file says.
    pub(super) fn forget_whole(&mut self, to: NodeId, partition: Partition) {
        let Some(target) = self.targets.get_mut(&to) else { return };
        target.whole_waiting.remove(&partition);
        self.tidy(to);
    }

    /// Adds a reference that was read from the file. Unlike [`References::note`], it keeps a reference
    /// whose partition is noted as a whole: in the file, a reference after a whole partition was noted
    /// while that partition was under way.
    pub(super) fn restore(&mut self, to: NodeId, reference: HintReference) {
        let target = self.targets.entry(to).or_default();
        self.count += usize::from(target.waiting.insert(reference));
        self.check();
    }

    /// Takes up to `limit` waiting references of one partition, in order, to be delivered now. Returns
    /// nothing if none wait. The caller ends each by [`References::delivered`] or
    /// [`References::put_back`].
    pub(super) fn take(&mut self, to: NodeId, limit: usize) -> Vec<HintReference> {
        let Some(target) = self.targets.get_mut(&to) else { return Vec::new() };
        let Some((partition, _)) = target.waiting.first().copied() else { return Vec::new() };
        let of_partition = target.waiting.iter().take_while(|(other, _)| *other == partition);
        let taken: Vec<HintReference> = of_partition.take(limit).copied().collect();
        for reference in &taken {
            target.waiting.remove(reference);
            // A reference that was noted again is under way already, and counts once from now on.
            self.count -= usize::from(!target.under_way.insert(*reference));
        }
        self.check();
        taken
    }

    /// Removes references that were taken and delivered. Returns those that were not noted again
    /// meanwhile.
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

    /// Lets references that were taken and not delivered wait again.
    pub(super) fn put_back(&mut self, to: NodeId, taken: &[HintReference]) {
        let Some(target) = self.targets.get_mut(&to) else { return };
        for reference in taken {
            let was_under_way = target.under_way.remove(reference);
            let is_new =
                !target.whole_waiting.contains(&reference.0) && target.waiting.insert(*reference);
            self.count -= usize::from(was_under_way);
            self.count += usize::from(is_new);
        }
        self.check();
    }

    /// Takes a whole partition to deliver now.
    pub(super) fn take_partition(&mut self, to: NodeId) -> Option<Partition> {
        let target = self.targets.get_mut(&to)?;
        let partition = target.whole_waiting.pop_first()?;
        let is_new = target.whole_under_way.insert(partition);
        debug_assert!(is_new, "a partition is delivered to a node once at a time");
        self.check();
        Some(partition)
    }

    /// Ends the delivery of a whole partition that was taken. If it is not `done`, it waits again.
    /// Returns true if it neither waits again nor was noted again meanwhile.
    pub(super) fn finish_partition(
        &mut self,
        to: NodeId,
        partition: Partition,
        done: bool,
    ) -> bool {
        let Some(target) = self.targets.get_mut(&to) else { return false };
        target.whole_under_way.remove(&partition);
        if !done {
            target.whole_waiting.insert(partition);
        }
        let is_done = !target.whole_waiting.contains(&partition);
        self.tidy(to);
        is_done
    }

    /// Removes the references of a node that has left the cluster.
    pub(super) fn forget_node(&mut self, to: NodeId) {
        if let Some(target) = self.targets.remove(&to) {
            self.count -= target.count();
        }
        self.check();
    }

    /// Returns the nodes that have references or whole partitions.
    pub(super) fn targets(&self) -> Vec<NodeId> {
        self.targets.keys().copied().collect()
    }

    /// Returns the partitions of which some node has missed something.
    pub(super) fn partitions(&self) -> BTreeSet<Partition> {
        let of_target = |target: &Target| -> BTreeSet<Partition> {
            let references = target.waiting.iter().chain(&target.under_way);
            let whole = target.whole_waiting.iter().chain(&target.whole_under_way);
            references.map(|(partition, _)| *partition).chain(whole.copied()).collect()
        };
        self.targets.values().flat_map(of_target).collect()
    }

    /// Returns for each node the number of its references and of its whole partitions.
    pub(super) fn counts(&self) -> BTreeMap<NodeId, (u64, u64)> {
        let counts = |target: &Target| {
            let whole = target.whole_waiting.len() + target.whole_under_way.len();
            (target.count() as u64, whole as u64)
        };
        self.targets.iter().map(|(to, target)| (*to, counts(target))).collect()
    }

    /// Returns all whole partitions, with their nodes.
    pub(super) fn whole(&self) -> Vec<(NodeId, Partition)> {
        let of_target = |(to, target): (&NodeId, &Target)| -> Vec<(NodeId, Partition)> {
            let partitions = target.whole_waiting.union(&target.whole_under_way);
            partitions.map(|partition| (*to, *partition)).collect()
        };
        self.targets.iter().flat_map(of_target).collect()
    }

    /// Returns all references, with their nodes.
    pub(super) fn single(&self) -> Vec<(NodeId, HintReference)> {
        let of_target = |(to, target): (&NodeId, &Target)| -> Vec<(NodeId, HintReference)> {
            let references = target.waiting.union(&target.under_way);
            references.map(|reference| (*to, *reference)).collect()
        };
        self.targets.iter().flat_map(of_target).collect()
    }

    /// Returns the number of references.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    fn tidy(&mut self, to: NodeId) {
        if self.targets.get(&to).is_some_and(Target::is_empty) {
            self.targets.remove(&to);
        }
        self.check();
    }

    /// Checks, in debug builds, the number of references, which bounds them, and that each known node has
    /// missed something. Called at the end of each change.
    fn check(&self) {
        let count = || self.targets.values().map(Target::count).sum::<usize>();
        debug_assert_eq!(self.count, count(), "each reference counts, also while it is under way");
        debug_assert!(
            !self.targets.values().any(Target::is_empty),
            "a node that has missed nothing is no target"
        );
    }
}
