//! The secondary indexes of all partitions, in one ordered map.

use crate::engine::IndexPage;
use crate::index_activity::IndexCounters;
use crate::index_page::IndexPageBuilder;
use parking_lot::RwLock;
use quoit_model::hash::Partition;
use quoit_model::secondary_index::IndexSpan;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Estimated memory of an entry in bytes, in addition to its encoding.
const ENTRY_OVERHEAD_BYTES: u64 = 64;

/// Estimated memory of entries in bytes.
pub(super) fn entries_cost_bytes(places: &[Vec<u8>]) -> u64 {
    places.iter().map(|place| place.len() as u64 + ENTRY_OVERHEAD_BYTES).sum()
}

/// The secondary indexes. Lock order: the lock of a partition, then this one.
#[derive(Default)]
pub(super) struct MemoryIndexes {
    /// Time at which each entry expires, in seconds since 1970, 0 = never; by encoded entry and partition.
    entries: RwLock<BTreeMap<Vec<u8>, u32>>,
    /// Counts of changes by writes. Entries that expire or are evicted do not count.
    pub(super) counters: IndexCounters,
}

impl MemoryIndexes {
    /// Replaces the entries of a record in one step: a query sees the old or the new ones, and always the
    /// entries that both have.
    pub(super) fn replace(
        &self,
        partition: Partition,
        old: Vec<Vec<u8>>,
        new: Vec<Vec<u8>>,
        ends_at_secs: u32,
    ) {
        if old.is_empty() && new.is_empty() {
            return;
        }
        let mut entries = self.entries.write();
        for place in old {
            entries.remove(&with_partition(place, partition));
        }
        for place in new {
            entries.insert(with_partition(place, partition), ends_at_secs);
        }
    }

    pub(super) fn query(
        &self,
        span: &IndexSpan,
        partitions: &dyn Fn(Partition) -> bool,
        limit: usize,
        now_secs: u64,
    ) -> IndexPage {
        let mut page = IndexPageBuilder::new(span, partitions, limit);
        if span.is_empty() {
            return page.into_page();
        }
        let entries = self.entries.read();
        let bounds = (Bound::Included(span.from()), Bound::Excluded(span.end()));
        for (entry, ends_at_secs) in entries.range::<[u8], _>(bounds) {
            let Some((place, partition)) = entry.split_last_chunk() else { continue };
            let partition = Partition(u16::from_be_bytes(*partition));
            let is_live = || *ends_at_secs == 0 || u64::from(*ends_at_secs) > now_secs;
            if !page.take(place, partition, is_live) {
                break;
            }
        }
        page.into_page()
    }
}

fn with_partition(mut place: Vec<u8>, partition: Partition) -> Vec<u8> {
    place.extend_from_slice(&partition.0.to_be_bytes());
    place
}
