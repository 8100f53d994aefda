//! A merge of several key files and runs into one ordered stream.

use super::entry::{KeyEntry, KeyWrite};
use super::reader::{FileCursor, KeyFile};
use super::run::KeyRun;
use crate::engine::KeyRange;
use crate::error::StoreError;
use crate::range::{range_contains, range_start};
use quoit_model::key::{BucketRef, KeyRef};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

/// A source of entries in the order of a key file.
#[derive(Clone)]
pub enum KeySource {
    /// A key file.
    File(Arc<KeyFile>),
    /// Keys in memory.
    Run(Arc<KeyRun>),
}

impl KeySource {
    fn seek(&self, key: KeyRef<'_>) -> Result<Cursor, StoreError> {
        Ok(match self {
            Self::File(file) => Cursor::File(FileCursor::seek(file, key)?),
            Self::Run(run) => Cursor::Run(Arc::clone(run), run.lower_bound(key)),
        })
    }
}

/// A position in a source.
enum Cursor {
    File(FileCursor),
    Run(Arc<KeyRun>, usize),
}

impl Cursor {
    fn current(&self) -> Option<KeyEntry<'_>> {
        match self {
            Self::File(cursor) => cursor.current(),
            Self::Run(run, number) => run.get(*number),
        }
    }

    /// The key of the current entry. Cheaper than the whole entry.
    fn current_key(&self) -> Option<KeyRef<'_>> {
        match self {
            Self::File(cursor) => cursor.current().map(|entry| entry.key),
            Self::Run(run, number) => run.key(*number),
        }
    }

    fn advance(&mut self) -> Result<(), StoreError> {
        match self {
            Self::File(cursor) => cursor.advance()?,
            Self::Run(_, number) => *number += 1,
        }
        Ok(())
    }

    fn segment(&self) -> u32 {
        match self {
            Self::File(cursor) => cursor.source().footer().segment,
            Self::Run(run, _) => run.segment(),
        }
    }
}

/// A cursor, ordered so that the lowest current entry is on top of a max-heap.
struct Ranked(Box<Cursor>);

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_key = match (self.0.current_key(), other.0.current_key()) {
            (Some(this), Some(other)) => other.cmp(&this),
            // A cursor at its end goes to the bottom.
            (this, other) => this.is_some().cmp(&other.is_some()),
        };
        by_key.then_with(|| match (self.0.current(), other.0.current()) {
            (Some(this), Some(other)) => other.compare(&this),
            _ => Ordering::Equal,
        })
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

/// An entry that a merge returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MergedEntry<'m> {
    /// The newest write of a record.
    pub entry: KeyEntry<'m>,
    /// The segment that contains the write.
    pub segment: u32,
}

/// The entries of several sources in order: for each record its newest write, removals included.
///
/// Keeps a window of 32 KiB of each key file in memory. Each entry costs comparisons in the order of the
/// logarithm of the number of sources.
pub struct KeyMerge {
    sources: Vec<KeySource>,
    heap: BinaryHeap<Ranked>,
    /// The key and facts of the entry that was returned last.
    key: Vec<u8>,
    last: Option<KeyWrite>,
}

impl KeyMerge {
    /// A merge that starts at the first key not below `from`, whose parts may be empty.
    ///
    /// # Errors
    ///
    /// If the disk fails or a block is damaged.
    pub fn new(sources: Vec<KeySource>, from: KeyRef<'_>) -> Result<Self, StoreError> {
        let mut merge = Self { sources, heap: BinaryHeap::new(), key: Vec::new(), last: None };
        merge.seek(from)?;
        Ok(merge)
    }

    /// Continues at the first key not below `key`, whose parts may be empty.
    ///
    /// # Errors
    ///
    /// If the disk fails or a block is damaged.
    pub fn seek(&mut self, key: KeyRef<'_>) -> Result<(), StoreError> {
        let cursors = self.sources.iter().map(|source| source.seek(key));
        let ranked = cursors.map(|cursor| cursor.map(|cursor| Ranked(Box::new(cursor))));
        self.heap = ranked.collect::<Result<_, _>>()?;
        self.last = None;
        Ok(())
    }

    /// Returns the newest write of the next record. After an error the merge cannot continue.
    ///
    /// # Errors
    ///
    /// If the disk fails or a block is damaged.
    pub fn next_entry(&mut self) -> Result<Option<MergedEntry<'_>>, StoreError> {
        self.pass_last()?;
        let Some(Ranked(top)) = self.heap.peek() else {
            return Ok(None);
        };
        let Some(entry) = top.current() else {
            return Ok(None);
        };
        self.key.clear();
        self.key.extend_from_slice(entry.encoded);
        self.last = Some(entry.facts);
        Ok(Some(MergedEntry { entry, segment: top.segment() }))
    }

    /// Moves all cursors past the record that was returned last.
    fn pass_last(&mut self) -> Result<(), StoreError> {
        let Some(last) = self.last.take() else {
            return Ok(());
        };
        while let Some(mut top) = self.heap.peek_mut() {
            let stays = top.0.current().is_some_and(|entry| {
                !entry.facts.may_share_record(&last) || entry.encoded != self.key
            });
            if stays {
                break;
            }
            top.0.advance()?;
            if top.0.current().is_none() {
                PeekMut::pop(top);
            }
        }
        Ok(())
    }
}

/// The entries of several sources in a range of keys, in order.
pub struct KeyListing<'r> {
    merge: KeyMerge,
    range: KeyRange<'r>,
    after: Option<KeyRef<'r>>,
}

impl<'r> KeyListing<'r> {
    /// The keys of `range` above `after`.
    ///
    /// # Errors
    ///
    /// If the disk fails or a block is damaged.
    pub fn new(
        sources: Vec<KeySource>,
        range: KeyRange<'r>,
        after: Option<KeyRef<'r>>,
    ) -> Result<Self, StoreError> {
        let start = range_start(range);
        let from = after.map_or(start, |after| after.max(start));
        Ok(Self { merge: KeyMerge::new(sources, from)?, range, after })
    }

    /// Continues at the first bucket after `bucket`.
    ///
    /// # Errors
    ///
    /// If the disk fails or a block is damaged.
    pub fn skip_bucket(&mut self, bucket: BucketRef<'_>) -> Result<(), StoreError> {
        let next = [bucket.bucket, &[0]].concat();
        let next = BucketRef { bucket_type: bucket.bucket_type, bucket: &next };
        self.merge.seek(next.key(&[]))
    }

    /// Returns the newest write of the next record, removals included. After an error the listing cannot
    /// continue.
    ///
    /// # Errors
    ///
    /// If the disk fails or a block is damaged.
    pub fn next_entry(&mut self) -> Result<Option<MergedEntry<'_>>, StoreError> {
        if let Some(after) = self.after.take() {
            while self.merge.next_entry()?.is_some_and(|found| found.entry.key <= after) {}
            // The merge has already returned the first entry above `after`. Forgetting that makes it return
            // the entry again.
            self.merge.last = None;
        }
        let found = self.merge.next_entry()?;
        Ok(found.filter(|found| range_contains(self.range, found.entry.key)))
    }
}
