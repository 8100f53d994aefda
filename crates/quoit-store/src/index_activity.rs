//! Counts of index entries that writes have added and removed.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of index entries that writes have added and removed since the engine was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IndexActivity {
    /// Number of writes of records with index entries.
    pub writes: u64,
    /// Number of entries that writes added.
    pub entries_written: u64,
    /// Number of writes after which a record that had entries has none: it was deleted, removed, or stored
    /// without entries.
    pub deletes: u64,
    /// Number of entries that writes removed. Entries of a record that was replaced without being read are
    /// not counted.
    pub entries_deleted: u64,
}

impl IndexActivity {
    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            writes: self.writes + other.writes,
            entries_written: self.entries_written + other.entries_written,
            deletes: self.deletes + other.deletes,
            entries_deleted: self.entries_deleted + other.entries_deleted,
        }
    }
}

/// The counters of an engine.
#[derive(Default)]
pub(crate) struct IndexCounters {
    writes: AtomicU64,
    entries_written: AtomicU64,
    deletes: AtomicU64,
    entries_deleted: AtomicU64,
}

impl IndexCounters {
    /// Counts a write, given the encoded entries that its record had and has, both sorted. Costs two
    /// comparisons of lengths for a record without entries.
    pub(crate) fn count(&self, old: &[Vec<u8>], new: &[Vec<u8>]) {
        if old.is_empty() && new.is_empty() {
            return;
        }
        let kept = common_count(old, new);
        let per_record = if new.is_empty() { &self.deletes } else { &self.writes };
        per_record.fetch_add(1, Ordering::Relaxed);
        self.entries_written.fetch_add((new.len() - kept) as u64, Ordering::Relaxed);
        self.entries_deleted.fetch_add((old.len() - kept) as u64, Ordering::Relaxed);
    }

    pub(crate) fn activity(&self) -> IndexActivity {
        IndexActivity {
            writes: self.writes.load(Ordering::Relaxed),
            entries_written: self.entries_written.load(Ordering::Relaxed),
            deletes: self.deletes.load(Ordering::Relaxed),
            entries_deleted: self.entries_deleted.load(Ordering::Relaxed),
        }
    }
}

/// Number of elements that two sorted lists have in common.
fn common_count(mut one: &[Vec<u8>], mut other: &[Vec<u8>]) -> usize {
    let mut count = 0;
    while let ([first, rest @ ..], [other_first, other_rest @ ..]) = (one, other) {
        match first.cmp(other_first) {
            Order::Less => one = rest,
            Order::Greater => other = other_rest,
            Order::Equal => {
                (one, other) = (rest, other_rest);
                count += 1;
            }
        }
    }
    count
}
