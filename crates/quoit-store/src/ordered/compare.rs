//! Comparison of this engine's copies of partitions.

use super::list::HashWalk;
use super::store::StoreShared;
use super::tallies::leaf_of;
use crate::compare::{Digests, HashRange, Leaf, LeafPage, Scope, class_place, contribution};
use crate::engine::Compare;
use crate::engine::Record;
use crate::error::StoreError;
use crate::index::Tag;
use bytes::Bytes;
use quoit_model::hash::Partition;

/// Number of heads that are read at once.
const WALKED_COUNT: usize = 256;

impl Compare for StoreShared {
    fn digests(&self, partition: Partition, hour_min: u32) -> Result<Digests, StoreError> {
        self.check_open()?;
        Ok(self.partition(partition).tallies.read().summary().digests(hour_min))
    }

    fn range_digests(
        &self,
        partition: Partition,
        scope: Scope,
        ranges: &[HashRange],
    ) -> Result<Vec<u64>, StoreError> {
        self.check_open()?;
        ranges.iter().map(|range| self.range_digest(partition, scope, *range)).collect()
    }

    fn leaves(
        &self,
        partition: Partition,
        scope: Scope,
        range: HashRange,
        from: Tag,
        limit: usize,
    ) -> Result<LeafPage, StoreError> {
        self.check_open()?;
        let mut leaves = Vec::new();
        let mut place = Some(range.first().max(from));
        while let Some(first) = place.filter(|first| *first <= range.last()) {
            place = self.walk_leaves(partition, scope, first, range.last(), &mut leaves)?;
            if leaves.len() > limit.max(1) {
                break;
            }
        }
        let mut page = LeafPage::of(leaves.into_iter(), limit);
        page.next = page.next.or(place.filter(|next| *next <= range.last()));
        Ok(page)
    }

    fn tagged(
        &self,
        partition: Partition,
        tags: &[Tag],
    ) -> Result<Vec<(Bytes, Record)>, StoreError> {
        self.check_open()?;
        let mut records = Vec::with_capacity(tags.len());
        for tag in tags {
            let mut place = Some(tag.identity_min());
            while let Some(from) = place.filter(|from| Tag::of(*from) == *tag) {
                let HashWalk { records: walked, next, .. } = self.walk(partition, from, 1)?;
                for each in walked {
                    if Tag::of(each.identity) == *tag
                        && !each.head.meta.is_piece()
                        && let Some(record) =
                            self.record_of(partition, each.identity, &each.encoded)?
                    {
                        records.push((each.encoded, record));
                    }
                }
                place = next;
            }
        }
        Ok(records)
    }
}

impl StoreShared {
    /// The digest of a range. Uses the counted digests of tally buckets that are wholly in the range and
    /// have no expiring records, and reads the heads of other buckets.
    fn range_digest(
        &self,
        partition: Partition,
        scope: Scope,
        range: HashRange,
    ) -> Result<u64, StoreError> {
        let class = class_place(scope.n_val_class);
        let mut digest = 0;
        let mut walks = Vec::new();
        {
            let tallies = self.partition(partition).tallies.read();
            for (first, last, bucket) in tallies.buckets() {
                if last < range.first() || first > range.last() {
                    continue;
                }
                let is_whole = first >= range.first() && last <= range.last();
                if is_whole && bucket.expiring_count == 0 {
                    digest ^= bucket.lasting(class);
                } else {
                    walks.push((first.max(range.first()), last.min(range.last())));
                }
            }
        }
        for (first, last) in walks {
            let mut place = Some(first);
            while let Some(from) = place.filter(|from| *from <= last) {
                let mut leaves = Vec::new();
                place = self.walk_leaves(partition, scope, from, last, &mut leaves)?;
                digest ^= leaves.iter().fold(0, |bits, leaf| bits ^ contribution(leaf));
            }
        }
        Ok(digest)
    }

    /// Adds some of the leaves between two tags to `leaves`. Returns the tag from which the next call
    /// continues.
    fn walk_leaves(
        &self,
        partition: Partition,
        scope: Scope,
        from: Tag,
        last: Tag,
        leaves: &mut Vec<Leaf>,
    ) -> Result<Option<Tag>, StoreError> {
        let class = class_place(scope.n_val_class);
        let HashWalk { mut records, mut next, .. } =
            self.walk(partition, from.identity_min(), WALKED_COUNT)?;
        // The records of one tag stay together.
        while let Some(identity) = next
            && records.last().is_some_and(|last| Tag::of(last.identity) == Tag::of(identity))
        {
            let more = self.walk(partition, identity, 1)?;
            records.extend(more.records);
            next = more.next;
        }
        for each in records {
            let meta = &each.head.meta;
            let leaf = leaf_of(each.identity, meta);
            let is_wanted = leaf.tag <= last
                && !meta.is_piece()
                && class_place(meta.n_val_class) == class
                && scope.has_hour(meta.expires_at_secs != 0, leaf.digest);
            if is_wanted {
                leaves.push(leaf);
            }
        }
        Ok(next.map(Tag::of))
    }
}
