//! Comparison of a store's copies of partitions with the copies of other replicas.

use crate::compare::{Digests, HashRange, LeafPage, Scope};
use crate::error::StoreError;
use crate::record::Record;
use crate::tag::Tag;
use bytes::Bytes;
use quoit_model::hash::Partition;

/// Digests by which an engine's copy of a partition is compared with another replica's copy.
pub trait Compare: Send + Sync {
    /// XOR digests of a partition's records. Every write updates them. Records that expire before the hour
    /// `hour_min`, counted from 1970, are left out. The cost grows with the number of hours from `hour_min`
    /// on in which a record expires.
    fn digests(&self, partition: Partition, hour_min: u32) -> Result<Digests, StoreError>;

    /// The XOR digest of each of the given hash ranges of a partition. Never reads values; an engine that
    /// does not keep all heads in memory may wait for the disk.
    fn range_digests(
        &self,
        partition: Partition,
        scope: Scope,
        ranges: &[HashRange],
    ) -> Result<Vec<u64>, StoreError>;

    /// Leaves of a hash range from tag `from` on, tombstones included. The page has about `limit` leaves:
    /// it has more only to keep the leaves of one tag together. Costs as much as [`Compare::range_digests`]
    /// does.
    fn leaves(
        &self,
        partition: Partition,
        scope: Scope,
        range: HashRange,
        from: Tag,
        limit: usize,
    ) -> Result<LeafPage, StoreError>;

    /// Records with the given tags, whatever their n_val class, with their encoded names. Expired and
    /// damaged records are left out. May wait for the disk.
    fn tagged(
        &self,
        partition: Partition,
        tags: &[Tag],
    ) -> Result<Vec<(Bytes, Record)>, StoreError>;
}
