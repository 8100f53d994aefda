//! Comparison of copies. It uses only metadata, so it does not depend on compression.

use super::engine::{CompressedEngine, unpacked_all};
use crate::compare::{Digests, HashRange, LeafPage, Scope};
use crate::engine::Compare;
use crate::engine::Record;
use crate::error::StoreError;
use crate::index::Tag;
use bytes::Bytes;
use quoit_model::hash::Partition;

impl Compare for CompressedEngine {
    fn digests(&self, partition: Partition, hour_min: u32) -> Result<Digests, StoreError> {
        self.copies().digests(partition, hour_min)
    }

    fn range_digests(
        &self,
        partition: Partition,
        scope: Scope,
        ranges: &[HashRange],
    ) -> Result<Vec<u64>, StoreError> {
        self.copies().range_digests(partition, scope, ranges)
    }

    fn leaves(
        &self,
        partition: Partition,
        scope: Scope,
        range: HashRange,
        from: Tag,
        limit: usize,
    ) -> Result<LeafPage, StoreError> {
        self.copies().leaves(partition, scope, range, from, limit)
    }

    fn tagged(
        &self,
        partition: Partition,
        tags: &[Tag],
    ) -> Result<Vec<(Bytes, Record)>, StoreError> {
        self.copies().tagged(partition, tags).map(|entries| unpacked_all(entries, |_| {}))
    }
}
