//! Merging of pages from several engines. Each record is in only one engine.

use crate::compare::LeafPage;
use crate::engine::{EngineStats, KeyPage, Record, RecordPage};
use crate::index::Tag;
use bytes::Bytes;
use quoit_model::hash::{Identity, KeyHash, PlacementRule};
use quoit_model::key::KeyRef;

/// A name as a sort key in the order of listings. Undecodable names come last.
fn name(encoded: &[u8]) -> (bool, &[u8], &[u8], &[u8]) {
    KeyRef::decode(encoded).map_or((true, encoded, &[], &[]), |key| {
        (false, key.bucket.bucket_type, key.bucket.bucket, key.key)
    })
}

/// Merges pages of listings that started at the same position.
pub(super) fn keys(pages: Vec<KeyPage>, limit: usize) -> KeyPage {
    // An engine may have further keys after the end of its page, so the merged page ends where the first
    // incomplete page ends.
    let end = pages.iter().filter_map(|page| page.next.clone());
    let end = end.min_by(|one, other| name(one).cmp(&name(other)));
    let mut entries: Vec<_> = pages.into_iter().flat_map(|page| page.entries).collect();
    entries.sort_by(|one, other| name(&one.0).cmp(&name(&other.0)));
    let count = end.as_ref().map_or(entries.len(), |end| {
        entries.partition_point(|(encoded, _)| name(encoded) <= name(end))
    });
    if count > limit {
        entries.truncate(limit);
        let next = entries.last().map(|(encoded, _)| encoded.clone());
        return KeyPage { entries, next };
    }
    entries.truncate(count);
    KeyPage { entries, next: end }
}

/// The first `limit` buckets of several lists, each with up to `limit` buckets.
pub(super) fn buckets(lists: Vec<Vec<(Bytes, Bytes)>>, limit: usize) -> Vec<(Bytes, Bytes)> {
    let mut buckets: Vec<_> = lists.into_iter().flatten().collect();
    buckets.sort_unstable();
    buckets.dedup();
    buckets.truncate(limit);
    buckets
}

/// The identity of a record that is not a piece.
fn identity((encoded, _): &(Bytes, Record)) -> Identity {
    let bucket = KeyRef::decode(encoded).map(|key| key.bucket);
    let bucket = bucket.unwrap_or(quoit_model::key::BucketRef::untyped(&[]));
    // The identity does not depend on the bucket's placement rule.
    KeyHash::of(encoded, bucket, PlacementRule::BucketAndKey).identity
}

/// Merges pages of folds that started at the same identity.
pub(super) fn records(pages: Vec<RecordPage>) -> RecordPage {
    let next = pages.iter().filter_map(|page| page.next).min();
    let mut damaged: Vec<Tag> = pages.iter().flat_map(|page| &page.damaged).copied().collect();
    // A damaged record with the tag of `next` may be before `next`, so it is kept.
    damaged.retain(|tag| next.is_none_or(|next| *tag <= Tag::of(next)));
    damaged.sort_unstable();
    damaged.dedup();
    let entries = pages.into_iter().flat_map(|page| page.entries);
    let mut entries: Vec<_> = entries.map(|entry| (identity(&entry), entry)).collect();
    entries.retain(|(identity, _)| next.is_none_or(|next| *identity < next));
    entries.sort_by(|one, other| (one.0, &one.1.0).cmp(&(other.0, &other.1.0)));
    RecordPage { entries: entries.into_iter().map(|(_, entry)| entry).collect(), damaged, next }
}

/// Merges pages of leaves that started at the same tag.
pub(super) fn leaves(pages: Vec<LeafPage>) -> LeafPage {
    let next = pages.iter().filter_map(|page| page.next).min();
    let mut leaves: Vec<_> = pages.into_iter().flat_map(|page| page.leaves).collect();
    leaves.retain(|leaf| next.is_none_or(|next| leaf.tag < next));
    leaves.sort_unstable();
    LeafPage { leaves, next }
}

/// Sums the statistics of all engines.
pub(super) fn stats(all: impl Iterator<Item = EngineStats>) -> EngineStats {
    all.fold(EngineStats::default(), |sum, each| EngineStats {
        key_count: sum.key_count + each.key_count,
        tombstone_count: sum.tombstone_count + each.tombstone_count,
        index_bytes: sum.index_bytes + each.index_bytes,
        disk_bytes: sum.disk_bytes + each.disk_bytes,
        dead_bytes: sum.dead_bytes + each.dead_bytes,
        segment_count: sum.segment_count + each.segment_count,
        sync_count: sum.sync_count + each.sync_count,
        synced_write_count: sum.synced_write_count + each.synced_write_count,
        merge_count: sum.merge_count + each.merge_count,
        merged_bytes: sum.merged_bytes + each.merged_bytes,
        corrupt_record_count: sum.corrupt_record_count + each.corrupt_record_count,
        disk_full: sum.disk_full || each.disk_full,
        write_failure: sum.write_failure.or(each.write_failure),
    })
}
