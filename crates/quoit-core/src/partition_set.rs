//! Sets of partitions in the form in which nodes send them to each other.

use bytes::Bytes;
use quoit_model::hash::Partition;
use quoit_planted::planted;

/// A set of partitions, one bit each, lowest bit first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartitionSet(Vec<u8>);

impl PartitionSet {
    pub(crate) fn empty(partition_count: u16) -> Self {
        Self(vec![0; usize::from(partition_count).div_ceil(8)])
    }

    pub(crate) fn all(partition_count: u16) -> Self {
        let mut set = Self::empty(partition_count);
        let end = partition_count - u16::from(planted!(ListsShort));
        (0..end).for_each(|partition| set.insert(Partition(partition)));
        set
    }

    /// An empty set for the same number of partitions.
    pub(crate) fn empty_like(&self) -> Self {
        Self(vec![0; self.0.len()])
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    pub(crate) fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    pub(crate) fn insert(&mut self, partition: Partition) {
        if let Some(byte) = self.0.get_mut(usize::from(partition.0 / 8)) {
            *byte |= 1 << (partition.0 % 8);
        }
    }

    pub(crate) fn remove(&mut self, partition: Partition) {
        if let Some(byte) = self.0.get_mut(usize::from(partition.0 / 8)) {
            *byte &= !(1 << (partition.0 % 8));
        }
    }

    pub(crate) fn contains(&self, partition: Partition) -> bool {
        let byte = self.0.get(usize::from(partition.0 / 8)).copied().unwrap_or_default();
        byte & (1 << (partition.0 % 8)) != 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Partition> {
        let bits = u16::try_from(self.0.len() * 8).unwrap_or(u16::MAX);
        (0..bits).map(Partition).filter(|partition| self.contains(*partition))
    }
}
