//! Comparison of copies that are spread over several engines.

use super::engine::MultiEngine;
use super::merge;
use crate::compare::{Digests, HashRange, LeafPage, Scope};
use crate::engine::Compare;
use crate::engine::Record;
use crate::error::StoreError;
use crate::index::Tag;
use bytes::Bytes;
use quoit_model::hash::Partition;

/// Engines that evict records to keep their bounds are left out, because their copies are not complete on
/// any node.
impl Compare for MultiEngine {
    fn digests(&self, partition: Partition, hour_min: u32) -> Result<Digests, StoreError> {
        let mut digests = Digests::default();
        for engine in self.complete() {
            digests.toggle_all(&engine.digests(partition, hour_min)?);
        }
        Ok(digests)
    }

    fn range_digests(
        &self,
        partition: Partition,
        scope: Scope,
        ranges: &[HashRange],
    ) -> Result<Vec<u64>, StoreError> {
        let mut digests = vec![0; ranges.len()];
        for engine in self.complete() {
            let of_engine = engine.range_digests(partition, scope, ranges)?;
            digests.iter_mut().zip(of_engine).for_each(|(digest, other)| *digest ^= other);
        }
        Ok(digests)
    }

    fn leaves(
        &self,
        partition: Partition,
        scope: Scope,
        range: HashRange,
        from: Tag,
        limit: usize,
    ) -> Result<LeafPage, StoreError> {
        let page = |engine: &dyn Compare| engine.leaves(partition, scope, range, from, limit);
        Ok(merge::leaves(self.complete().map(page).collect::<Result<_, _>>()?))
    }

    fn tagged(
        &self,
        partition: Partition,
        tags: &[Tag],
    ) -> Result<Vec<(Bytes, Record)>, StoreError> {
        let mut records = Vec::new();
        for engine in self.complete() {
            records.append(&mut engine.tagged(partition, tags)?);
        }
        Ok(records)
    }
}
