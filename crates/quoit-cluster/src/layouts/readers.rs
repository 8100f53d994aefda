//! The nodes that answer reads, for clients that send requests to them directly.

use super::Layouts;
use crate::NodeId;
use quoit_model::hash::Partition;
use std::collections::BTreeSet;

/// The nodes that answer the reads of each partition. They take its writes, too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Readers {
    /// The nodes, sorted by identity.
    pub nodes: Vec<NodeId>,
    /// Indexes into `nodes`, the same number for each partition, most preferred first. A partition with
    /// fewer readers than others repeats its own.
    pub places: Vec<u16>,
}

impl Layouts {
    /// Returns the nodes that answer reads of buckets with this `n_val`. While partitions move, copies of
    /// the newest layout may be incomplete, and a request to a node with an incomplete copy would cost
    /// another hop. The cost is proportional to the length of the result.
    #[must_use]
    pub fn readers(&self, n_val: u32) -> Readers {
        let partitions = || self.newest().partitions();
        if let [only] = self.live() {
            let places = partitions().flat_map(|partition| only.primaries(partition, n_val));
            return Readers { nodes: only.nodes().to_vec(), places: places.copied().collect() };
        }
        let of = |partition: Partition| {
            let layout = self.for_reads(partition);
            let places = layout.primaries(partition, n_val).iter();
            places.map(|place| layout.node_at(*place))
        };
        let nodes: BTreeSet<NodeId> = partitions().flat_map(of).collect();
        let nodes: Vec<NodeId> = nodes.into_iter().collect();
        let count = partitions().map(|partition| of(partition).len()).max().unwrap_or_default();
        // In a cluster that grows from one node, some partitions have one reader and others three.
        let readers = partitions().flat_map(|partition| of(partition).cycle().take(count));
        let place = |id: NodeId| {
            let index = nodes.binary_search(&id);
            debug_assert!(index.is_ok(), "the nodes are all those that answer reads");
            let index = index.unwrap_or_default();
            u16::try_from(index).expect("all live layouts together have fewer nodes")
        };
        let places: Vec<u16> = readers.map(place).collect();
        debug_assert_eq!(
            places.len(),
            count * partitions().count(),
            "each partition has the same number of readers"
        );
        Readers { nodes, places }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{after, node};
    use super::*;
    use quoit_model::hash::RingSize;
    use quoit_model::layout::Layout;
    use std::sync::Arc;

    /// Returns the readers of a partition.
    fn of(readers: &Readers, partition: Partition) -> Vec<NodeId> {
        let count = readers.places.len() / 16;
        let places = &readers.places[usize::from(partition.0) * count..][..count];
        places.iter().map(|place| readers.nodes[usize::from(*place)]).collect()
    }

    #[test]
    fn partitions_are_read_where_they_were_until_their_copies_are_complete() {
        let mut layouts =
            Layouts::new(Arc::new(Layout::single(node(1), RingSize::new(16).unwrap())));
        assert_eq!(layouts.readers(3), Readers { nodes: vec![node(1)], places: vec![0; 16] });
        layouts.push(after(layouts.newest(), 1..=3), &[3]);
        let moved = Partition(5);
        for number in 2..=3 {
            layouts.complete(node(number), &[moved]);
        }
        let readers = layouts.readers(3);
        assert_eq!(readers.nodes, [node(1), node(2), node(3)]);
        for partition in layouts.newest().partitions() {
            let readers = of(&readers, partition);
            match partition == moved {
                true => {
                    let primaries = layouts.newest().primaries(partition, 3).iter();
                    let nodes = layouts.newest().nodes();
                    let named: Vec<_> = primaries.map(|place| nodes[usize::from(*place)]).collect();
                    assert_eq!(readers, named);
                }
                false => assert_eq!(readers, [node(1); 3]),
            }
        }
    }

    #[test]
    fn nodes_without_a_complete_copy_are_not_named() {
        let single = Layout::single(node(1), RingSize::new(16).unwrap());
        let mut layouts = Layouts::new(after(&single, 1..=3));
        layouts.push(after(layouts.newest(), 2..=5), &[3]);
        assert_eq!(layouts.readers(3).nodes, [node(1), node(2), node(3)]);
    }
}
