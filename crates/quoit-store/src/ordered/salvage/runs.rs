//! Sorted runs of entries, and their merge in the order of keys.

use super::UnreadableRange;
use super::journal::JournalRun;
use super::table::{SalvagedTable, TableEntry};
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Entries in the order of keys, with the latest version of a key first.
pub(super) enum Run {
    Table(SalvagedTable),
    Journal(JournalRun),
}

impl Run {
    fn next(&mut self) -> Option<TableEntry> {
        match self {
            Self::Table(table) => table.next(),
            Self::Journal(journal) => journal.next(),
        }
    }

    fn rewind(&mut self) {
        match self {
            Self::Table(table) => table.rewind(),
            Self::Journal(journal) => journal.rewind(),
        }
    }
}

/// Next entry of a run: key, sequence (the latest first), number of the run.
type RunHead = Reverse<(Bytes, Reverse<u64>, usize)>;

/// The merged entries of several runs, by key, with the latest version first. A run that was not reached
/// yet has only its first key in memory.
pub(super) struct MergedRuns {
    runs: Vec<Run>,
    heads: BinaryHeap<RunHead>,
    /// The entries of the heads, for runs that were reached.
    reached: Vec<Option<TableEntry>>,
}

impl MergedRuns {
    pub(super) fn new(mut runs: Vec<Run>) -> Self {
        let mut heads = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            if let Some(first) = run.next() {
                heads.push(Reverse((first.key, Reverse(first.sequence), number)));
                run.rewind();
            }
        }
        let reached = runs.iter().map(|_| None).collect();
        Self { runs, heads, reached }
    }

    /// The next entry; `None` at the end.
    #[expect(clippy::indexing_slicing, reason = "heads have numbers of runs")]
    pub(super) fn next(&mut self) -> Option<TableEntry> {
        let Reverse((_, _, number)) = self.heads.pop()?;
        let run = &mut self.runs[number];
        let entry = self.reached[number].take().or_else(|| run.next())?;
        self.reached[number] = run.next();
        if let Some(next) = &self.reached[number] {
            self.heads.push(Reverse((next.key.clone(), Reverse(next.sequence), number)));
        }
        Some(entry)
    }

    /// The key of the next entry.
    pub(super) fn next_key(&self) -> Option<&[u8]> {
        self.heads.peek().map(|Reverse((key, ..))| &key[..])
    }

    /// The latest version of the next key. Skips its older versions.
    pub(super) fn next_latest(&mut self) -> Option<TableEntry> {
        let latest = self.next()?;
        while self.next_key() == Some(&latest.key[..]) {
            self.next();
        }
        Some(latest)
    }

    /// Takes the ranges that the runs could not read so far.
    pub(super) fn take_unread(&mut self) -> Vec<UnreadableRange> {
        let of_run = |run: &mut Run| match run {
            Run::Table(table) => std::mem::take(&mut table.unread),
            Run::Journal(journal) => std::mem::take(&mut journal.unread),
        };
        self.runs.iter_mut().flat_map(of_run).collect()
    }
}
