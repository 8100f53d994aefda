//! Copies that have lost records that were durable, because the disk of their node lost them.
//!
//! Such a copy is incomplete, like a copy that a node is still receiving. It is incomplete even in the
//! layouts by which the partition is read. It counts as complete again when its node reports so.

use super::Layouts;
use crate::NodeId;
use quoit_model::hash::Partition;
use std::collections::{BTreeMap, BTreeSet};

/// Copies that have lost records, and partitions that may have lost records for good.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct LostCopies {
    /// Each copy with the number of its loss.
    pub(crate) copies: BTreeMap<(Partition, NodeId), u64>,
    /// Number of losses reported so far.
    pub(crate) loss_count: u64,
    /// Partitions that may lack records for good, until an operator acknowledges it.
    pub(crate) unsure: BTreeSet<Partition>,
}

impl Layouts {
    /// Returns the number of the loss of a copy; `None` if the copy has not lost records, or is complete
    /// again.
    #[must_use]
    pub fn lost(&self, partition: Partition, node: NodeId) -> Option<u64> {
        self.lost.copies.get(&(partition, node)).copied()
    }

    /// Returns the copies that have lost records and are not complete again, in order.
    pub fn lost_copies(&self) -> impl Iterator<Item = (Partition, NodeId)> + '_ {
        self.lost.copies.keys().copied()
    }

    /// Returns the partitions that may have lost records for good, because all copies had lost records at
    /// the same time. They stay listed until an operator acknowledges it.
    #[must_use]
    pub const fn unsure(&self) -> &BTreeSet<Partition> {
        &self.lost.unsure
    }

    pub(crate) const fn lost_state(&self) -> &LostCopies {
        &self.lost
    }

    /// Returns these layouts with the given losses.
    pub(crate) fn with_lost(self, lost: LostCopies) -> Self {
        let mut with = Self { lost, ..self };
        with.settle();
        with
    }

    /// Records that a node has lost records of unknown partitions: all its copies become incomplete.
    /// `n_vals` are those of all buckets, ascending.
    pub(crate) fn lose(&mut self, node: NodeId, n_vals: &[u32]) {
        self.n_val = n_vals.last().map_or(self.n_val, |n_val| self.n_val.max(*n_val));
        self.lost.loss_count += 1;
        let number = self.lost.loss_count;
        for partition in self.newest().partitions() {
            if self.holds(&self.live, partition, node) {
                self.incomplete.insert((partition, node));
                self.lost.copies.insert((partition, node), number);
            }
        }
        self.settle();
        let is_unsure = |partition: &Partition| {
            n_vals.iter().any(|n_val| {
                let holders = self.holders(*partition, *n_val);
                holders.contains(&node)
                    && holders.iter().all(|holder| self.has_lost(*partition, *holder))
            })
        };
        let unsure: Vec<Partition> = self.newest().partitions().filter(is_unsure).collect();
        self.lost.unsure.extend(unsure);
    }

    /// Records that an operator has acknowledged the possible losses.
    pub(crate) fn accept_losses(&mut self) {
        self.lost.unsure.clear();
    }

    fn has_lost(&self, partition: Partition, node: NodeId) -> bool {
        self.lost(partition, node).is_some()
    }

    /// Returns the primaries by which a partition is read.
    fn holders(&self, partition: Partition, n_val: u32) -> BTreeSet<NodeId> {
        let layout = self.for_reads(partition);
        let primaries = layout.primaries(partition, n_val).iter();
        primaries.map(|place| layout.node_at(*place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{after, node};
    use super::*;
    use quoit_model::hash::RingSize;
    use quoit_model::layout::Layout;
    use std::sync::Arc;

    fn of_three() -> Layouts {
        let single = Layout::single(node(1), RingSize::new(16).unwrap());
        Layouts::new(after(&single, 1..=3))
    }

    #[test]
    fn no_copy_of_a_node_that_lost_records_is_complete_until_it_is_told() {
        let mut layouts = of_three();
        layouts.lose(node(2), &[3]);
        let all: Vec<_> = layouts.newest().partitions().collect();
        assert_eq!(layouts.lost_copies().count(), all.len());
        assert!(all.iter().all(|each| layouts.is_incomplete(*each, node(2))));
        assert!(all.iter().all(|each| !layouts.is_incomplete(*each, node(1))));
        assert!(layouts.unsure().is_empty(), "two others are complete");
        layouts.complete(node(2), &all[1..]);
        assert_eq!(layouts.lost(all[0], node(2)), Some(1));
        assert_eq!(layouts.lost(all[1], node(2)), None);
        layouts.complete(node(2), &all);
        assert!(all.iter().all(|each| !layouts.is_incomplete(*each, node(2))));
    }

    #[test]
    fn a_second_loss_has_another_number() {
        let mut layouts = of_three();
        layouts.lose(node(2), &[3]);
        layouts.lose(node(3), &[3]);
        layouts.lose(node(2), &[3]);
        assert_eq!(layouts.lost(Partition(0), node(2)), Some(3));
        assert_eq!(layouts.lost(Partition(0), node(3)), Some(2));
    }

    #[test]
    fn a_partition_all_of_whose_copies_lost_records_is_unsure_until_that_is_accepted() {
        let mut layouts = of_three();
        let all: Vec<_> = layouts.newest().partitions().collect();
        layouts.lose(node(1), &[1, 3]);
        let firsts: BTreeSet<_> = layouts.unsure().clone();
        let is_first = |each: &&Partition| {
            let newest = layouts.newest();
            newest.nodes()[usize::from(newest.order(**each)[0])] == node(1)
        };
        assert_eq!(firsts, all.iter().filter(is_first).copied().collect(), "of n_val 1");
        layouts.lose(node(2), &[3]);
        layouts.lose(node(3), &[3]);
        assert_eq!(layouts.unsure().len(), all.len());
        (1..=3).for_each(|number| layouts.complete(node(number), &all));
        assert_eq!(layouts.unsure().len(), all.len(), "they are as complete as they can be");
        layouts.accept_losses();
        assert!(layouts.unsure().is_empty());
    }

    #[test]
    fn a_layout_does_not_retire_while_a_copy_of_the_newest_one_has_lost_records() {
        let mut layouts = of_three();
        layouts.push(after(layouts.newest(), 1..=4), &[3]);
        let all: Vec<_> = layouts.newest().partitions().collect();
        layouts.lose(node(2), &[3]);
        (1..=4)
            .filter(|number| *number != 2)
            .for_each(|number| layouts.complete(node(number), &all));
        layouts.retire(&[]);
        assert!(layouts.is_moving());
        layouts.complete(node(2), &all);
        layouts.retire(&[]);
        assert!(!layouts.is_moving());
    }

    #[test]
    fn a_node_that_is_removed_leaves_no_lost_copies() {
        let mut layouts = of_three();
        layouts.lose(node(2), &[3]);
        layouts.push(after(layouts.newest(), [1, 3]), &[3]);
        let all: Vec<_> = layouts.newest().partitions().collect();
        [1, 3].into_iter().for_each(|number| layouts.complete(node(number), &all));
        layouts.retire(&[]);
        assert_eq!(layouts.lost_copies().count(), 0);
        assert!(Arc::ptr_eq(&layouts.live()[0], layouts.newest()));
    }
}
