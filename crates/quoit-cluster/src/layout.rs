//! Which node holds which partition.

use quoit_model::hash::{Partition, Placement, RingSize};
use std::sync::Arc;

/// The layout of a cluster of one node: it is the primary of every partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    ring_size: RingSize,
    node_name: Arc<str>,
}

/// One position of a preference list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreflistEntry<'a> {
    /// The partition as clients number it.
    pub partition: Partition,
    /// Name of the node that holds it.
    pub node_name: &'a str,
    /// Whether the node is a primary and not a stand-in.
    pub is_primary: bool,
}

impl Layout {
    pub(crate) const fn new(ring_size: RingSize, node_name: Arc<str>) -> Self {
        Self { ring_size, node_name }
    }

    /// Number of partitions.
    #[must_use]
    pub const fn ring_size(&self) -> RingSize {
        self.ring_size
    }

    /// The preference list of a record as clients are shown it: its partition and the following
    /// ones, wrapping around, `n_val` in all but never more than there are partitions. No
    /// allocation.
    pub fn preflist(
        &self,
        placement: Placement,
        n_val: u32,
    ) -> impl Iterator<Item = PreflistEntry<'_>> {
        let partition_count = self.ring_size.get();
        let first = self.ring_size.partition(placement).0;
        let length = n_val.min(u32::from(partition_count)) as u16;
        (0..length).map(move |position| PreflistEntry {
            // A ring has at most 4096 partitions: the sum cannot overflow.
            partition: Partition((first + position) % partition_count),
            node_name: &self.node_name,
            is_primary: true,
        })
    }
}
