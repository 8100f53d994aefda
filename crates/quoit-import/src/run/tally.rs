//! Figures of an import, or of a part of it.

use super::NAMED_MAX;
use bytes::Bytes;
use quoit_riak_files::StoredRecord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Figures of an import, or of a part of it. The journal keeps them, so they count all runs of an
/// interrupted and continued import.
#[derive(Default, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) read: u64,
    pub(super) sent: u64,
    pub(super) copies: u64,
    pub(super) tombstones_skipped: u64,
    pub(super) expired_skipped: u64,
    pub(super) buckets: BucketCounts,
    pub(super) damaged_count: u64,
    /// The first damaged pieces and refused records, for the report.
    pub(super) damaged: Vec<String>,
}

impl Tally {
    /// Counts a damaged piece, or a refused record.
    pub(super) fn damaged(&mut self, what: String) {
        self.damaged_count += 1;
        if self.damaged.len() < NAMED_MAX {
            self.damaged.push(what);
        }
    }

    /// Adds the figures of the part that follows. Damage that every run reports again counts once.
    pub(super) fn add(&mut self, later: Self) {
        self.read += later.read;
        self.sent += later.sent;
        self.copies += later.copies;
        self.tombstones_skipped += later.tombstones_skipped;
        self.expired_skipped += later.expired_skipped;
        self.buckets.add_all(later.buckets);
        let unnamed = later.damaged_count - later.damaged.len() as u64;
        self.damaged_count += unnamed;
        for what in later.damaged {
            if !self.damaged.contains(&what) {
                self.damaged(what);
            }
        }
    }
}

/// A figure of one bucket, in the form of the journal.
#[derive(Serialize, Deserialize)]
pub(super) struct BucketFigure<T> {
    bucket_type: Vec<u8>,
    bucket: Vec<u8>,
    figure: T,
}

/// Converts a table by type and bucket to a list. JSON can't have such keys, since names are arbitrary
/// bytes.
pub(super) fn list_of<T>(table: BTreeMap<(Vec<u8>, Vec<u8>), T>) -> Vec<BucketFigure<T>> {
    let entry = |((bucket_type, bucket), figure)| BucketFigure { bucket_type, bucket, figure };
    table.into_iter().map(entry).collect()
}

/// Converts a list back to a table.
pub(super) fn table_of<T>(list: Vec<BucketFigure<T>>) -> BTreeMap<(Vec<u8>, Vec<u8>), T> {
    list.into_iter().map(|entry| ((entry.bucket_type, entry.bucket), entry.figure)).collect()
}

/// Numbers of records by type and bucket.
#[derive(Default, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "Vec<BucketFigure<u64>>", from = "Vec<BucketFigure<u64>>")]
pub(super) struct BucketCounts {
    counts: BTreeMap<(Vec<u8>, Vec<u8>), u64>,
    /// The bucket of the last record. Its count is added to the table only when the bucket changes, because
    /// consecutive records are usually of one bucket.
    last: Option<(Bytes, Bytes)>,
    of_last: u64,
}

impl BucketCounts {
    pub(super) fn add(&mut self, record: &StoredRecord) {
        let (bucket_type, bucket) = (&record.key.bucket_type, &record.key.bucket);
        if self.last.as_ref().is_none_or(|(known, name)| (known, name) != (bucket_type, bucket)) {
            self.settle();
            self.last = Some((bucket_type.clone(), bucket.clone()));
        }
        self.of_last += 1;
    }

    fn add_all(&mut self, other: Self) {
        for (name, count) in other.into_counts() {
            *self.counts.entry(name).or_default() += count;
        }
    }

    fn settle(&mut self) {
        if let Some((bucket_type, bucket)) = &self.last {
            let name = (bucket_type.to_vec(), bucket.to_vec());
            *self.counts.entry(name).or_default() += std::mem::take(&mut self.of_last);
        }
    }

    /// The counts of all records.
    pub(super) fn into_counts(mut self) -> BTreeMap<(Vec<u8>, Vec<u8>), u64> {
        self.settle();
        self.counts
    }
}

impl From<BucketCounts> for Vec<BucketFigure<u64>> {
    fn from(counts: BucketCounts) -> Self {
        list_of(counts.into_counts())
    }
}

impl From<Vec<BucketFigure<u64>>> for BucketCounts {
    fn from(list: Vec<BucketFigure<u64>>) -> Self {
        Self { counts: table_of(list), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_that_is_told_again_counts_once() {
        let with = |texts: &[&str]| {
            let mut tally = Tally { read: 1, ..Tally::default() };
            texts.iter().for_each(|text| tally.damaged((*text).to_owned()));
            tally
        };
        let mut all = with(&["table 3"]);
        all.add(with(&["table 3", "table 4"]));
        assert_eq!((all.read, all.damaged_count), (2, 2));
        assert_eq!(all.damaged, ["table 3", "table 4"]);
    }
}
