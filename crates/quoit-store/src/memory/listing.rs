//! Listings of the keys and buckets of all partitions, in order.

use super::stripe::{MemoryStripe, RecordName, key_of, name_of};
use crate::buckets::KnownKey;
use crate::engine::{DataLocation, KeyPage, KeyRange, RecordMeta};
use crate::range::{range_contains, range_start};
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::Partition;
use quoit_model::key::{BucketRef, KeyRef};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Bound;

/// Minimum and maximum number of names that are fetched from a partition at once. In between it is twice
/// the partition's share of the limit, since keys are spread evenly.
const CHUNK_NAMES_MIN: usize = 4;
const CHUNK_NAMES_MAX: usize = 64;

/// The names of one partition, fetched in chunks.
struct Names<'s> {
    stripe: &'s Mutex<MemoryStripe>,
    chunk: VecDeque<(RecordName, Option<(Bytes, RecordMeta)>)>,
    from: Bound<RecordName>,
    chunk_names: usize,
    now_secs: u64,
}

impl Names<'_> {
    fn next(&mut self) -> Option<(RecordName, Option<(Bytes, RecordMeta)>)> {
        if self.chunk.is_empty() {
            let stripe = self.stripe.lock();
            self.chunk =
                stripe.names_from(self.from.as_ref(), self.chunk_names, self.now_secs).into();
            self.from = Bound::Excluded(self.chunk.back()?.0.clone());
        }
        self.chunk.pop_front()
    }
}

/// The next keys of a range that have not expired, at most `limit`.
#[expect(clippy::indexing_slicing, reason = "heads have numbers of partitions")]
pub(super) fn list_keys(
    stripes: &[Mutex<MemoryStripe>],
    range: KeyRange<'_>,
    after: Option<KeyRef<'_>>,
    limit: usize,
    now_secs: u64,
) -> KeyPage {
    let start = range_start(range);
    let from = match after {
        Some(after) if after >= start => Bound::Excluded(name_of(after)),
        _ => Bound::Included(name_of(start)),
    };
    let share = limit.saturating_mul(2) / stripes.len();
    let chunk_names = share.clamp(CHUNK_NAMES_MIN, CHUNK_NAMES_MAX);
    let names_of = |stripe| {
        let (chunk, from) = (VecDeque::new(), from.clone());
        Names { stripe, chunk, from, chunk_names, now_secs }
    };
    let mut partitions: Vec<Names<'_>> = stripes.iter().map(names_of).collect();
    let mut heads = BinaryHeap::new();
    for (number, names) in partitions.iter_mut().enumerate() {
        heads.extend(names.next().map(|(name, known)| Reverse((name, number, FoundMeta(known)))));
    }
    let mut page = KeyPage::default();
    while let Some(Reverse((name, number, known))) = heads.pop() {
        if !range_contains(range, key_of(&name)) {
            return page;
        }
        if let FoundMeta(Some((encoded, meta))) = known {
            let is_new = page.entries.last().is_none_or(|(last, _)| *last != encoded);
            if is_new && page.entries.len() >= limit.max(1) {
                page.next = page.entries.last().map(|(last, _)| last.clone());
                return page;
            }
            if is_new {
                page.entries.push((encoded, meta));
            }
        }
        let next = partitions[number].next();
        heads.extend(next.map(|(name, known)| Reverse((name, number, FoundMeta(known)))));
    }
    page
}

/// Metadata of a name, which takes no part in the order of names.
struct FoundMeta(Option<(Bytes, RecordMeta)>);

impl Ord for FoundMeta {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl PartialOrd for FoundMeta {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for FoundMeta {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for FoundMeta {}

/// A live key of each of the next buckets that have one, at most `limit`.
pub(super) fn live_keys(
    stripes: &[Mutex<MemoryStripe>],
    range: KeyRange<'_>,
    after: Option<BucketRef<'_>>,
    limit: usize,
    now_secs: u64,
) -> Vec<KnownKey> {
    let mut from = name_of(range_start(range));
    if let Some(after) = after {
        from = from.max(first_name_after(after));
    }
    let mut found = Vec::new();
    while found.len() < limit {
        let first_of = |stripe: &Mutex<MemoryStripe>| {
            stripe.lock().names_from(Bound::Included(&from), 1, now_secs).pop()
        };
        let Some((name, _)) = stripes.iter().filter_map(first_of).min_by(|a, b| a.0.cmp(&b.0))
        else {
            break;
        };
        if !range_contains(range, key_of(&name)) {
            break;
        }
        let bucket = key_of(&name).bucket;
        let live = (0..).map(Partition).zip(stripes).find_map(|(partition, stripe)| {
            let (encoded, identity) = stripe.lock().live_key(bucket, now_secs)?;
            Some(KnownKey { encoded, identity, partition, place: DataLocation::default() })
        });
        found.extend(live);
        from = first_name_after(bucket);
    }
    found
}

/// The lowest possible name after the names of a bucket.
fn first_name_after(bucket: BucketRef<'_>) -> RecordName {
    let next = [bucket.bucket, &[0]].concat();
    name_of(BucketRef { bucket_type: bucket.bucket_type, bucket: &next }.key(&[]))
}
