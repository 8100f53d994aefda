//! Counts of conflicts between clusters, by bucket.

use parking_lot::Mutex;
use quoit_model::key::BucketRef;
use std::collections::BTreeMap;

/// Maximum number of buckets with counts of their own; conflicts in further buckets are counted
/// together.
const BUCKET_COUNT_MAX: usize = 256;

/// Counts of arrived objects that were concurrent with the stored ones.
#[derive(Debug, Default)]
pub(crate) struct ConflictCounts(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Counts by bucket type and bucket.
    buckets: BTreeMap<(Vec<u8>, Vec<u8>), u64>,
    others: u64,
}

/// Conflicts in a bucket since the start of the node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketConflicts {
    /// Bucket type and bucket; `None` for all buckets without a count of their own.
    pub bucket: Option<(Vec<u8>, Vec<u8>)>,
    /// Number of conflicts.
    pub count: u64,
}

impl ConflictCounts {
    pub(super) fn count(&self, bucket: BucketRef<'_>) {
        let mut counts = self.0.lock();
        let name = (bucket.bucket_type.to_vec(), bucket.bucket.to_vec());
        let is_full = counts.buckets.len() >= BUCKET_COUNT_MAX;
        if is_full && !counts.buckets.contains_key(&name) {
            counts.others += 1;
        } else {
            *counts.buckets.entry(name).or_default() += 1;
        }
    }

    /// All counts, by bucket.
    pub(crate) fn read(&self) -> Vec<BucketConflicts> {
        let counts = self.0.lock();
        let of_bucket = |(name, count): (&(Vec<u8>, Vec<u8>), &u64)| BucketConflicts {
            bucket: Some(name.clone()),
            count: *count,
        };
        let others = BucketConflicts { bucket: None, count: counts.others };
        let others = (counts.others > 0).then_some(others);
        counts.buckets.iter().map(of_bucket).chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_beyond_the_bound_are_counted_together() {
        let counts = ConflictCounts::default();
        for number in 0..BUCKET_COUNT_MAX + 3 {
            let name = number.to_string();
            counts.count(BucketRef { bucket_type: b"t", bucket: name.as_bytes() });
        }
        counts.count(BucketRef { bucket_type: b"t", bucket: b"0" });
        let read = counts.read();
        assert_eq!(read.len(), BUCKET_COUNT_MAX + 1);
        assert_eq!(read[0].count, 2, "the first bucket is told apart still");
        assert_eq!(read.last().map(|last| (last.bucket.clone(), last.count)), Some((None, 3)));
    }
}
