//! Copies of partitions that can be compared with others.

use crate::compare::{Digests, HashRange, LeafPage, Scope};
use crate::error::StoreError;
use crate::record::Record;
use crate::tag::Tag;
use bytes::Bytes;
use quoit_model::hash::Partition;

/// Comparison of an engine's copies of partitions with other copies.
pub trait Compare: Send + Sync {
    /// XOR digests of a partition's records, kept up with every write; without those that expire before
    /// `hour_min`, counted from 1970. Costs a look at each hour from then on in which anything expires.
    fn digests(&self, partition: Partition, hour_min: u32) -> Result<Digests, StoreError>;

    /// The XOR digest of each of some ranges of a partition. Never reads values; engines that do not keep all
    /// heads in memory may wait for the disk.
    fn range_digests(
        &self,
        partition: Partition,
        scope: Scope,
        ranges: &[HashRange],
    ) -> Result<Vec<u64>, StoreError>;

    /// The leaves of a range from a tag on, tombstones among them, `limit` of them or some more: those of
    /// one tag stay together. As [`Compare::range_digests`].
    fn leaves(
        &self,
        partition: Partition,
        scope: Scope,
        range: HashRange,
        from: Tag,
        limit: usize,
    ) -> Result<LeafPage, StoreError>;

    /// The records of some tags that have not expired, whatever their class, with their encoded names.
    /// Damaged records are left out. May wait for the disk.
    fn tagged(
        &self,
        partition: Partition,
        tags: &[Tag],
    ) -> Result<Vec<(Bytes, Record)>, StoreError>;
}
