//! Hints: durable notes of the writes that other nodes have missed.
//!
//! A primary misses a write if it is down, or fails or refuses during the write. If a fallback took the
//! write, no hint is needed: the fallback's copy is a stray, which goes to all primaries. Otherwise the
//! coordinator, which is a primary and keeps the record, notes a reference to the record for each primary
//! that it did not reach. A reference is a partition and an identity, without name or value: delivery
//! reads the record as it is by then, so a hint never brings back a value that was replaced or deleted.
//!
//! - [`recorder`] notes hints, also for calls that fail after their write was answered.
//! - [`references`] holds them in memory, bounded: beyond `hints.maximum`, single references become whole
//!   partitions.
//! - [`file`] keeps them on disk. Entries are gathered for 100 ms and synced together; no write waits for
//!   that. A crash loses the hints of the last 100 ms, which are left to anti-entropy.
//! - The transfers (`crate::transfer`) deliver them when the node is back.

mod file;
#[cfg(any(test, feature = "testing"))]
mod fuzz;
mod recorder;
mod references;

#[cfg(any(test, feature = "testing"))]
pub use fuzz::{fuzz_hint_file, hint_file_samples};
pub(crate) use recorder::HintRecorder;

use bytes::Bytes;
use file::{HintEntry, HintFile};
use parking_lot::Mutex;
use quoit_cluster::{LateFailureListener, NodeId};
use quoit_model::hash::{Partition, RingSize};
use quoit_planted::planted;
use quoit_seam::Disk;
use quoit_store::error::StoreError;
use references::{HintReference, NoteResult, References};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Notify;

/// Largest size of the entries that wait to be written, in bytes. If they grow beyond it, they are
/// dropped and the whole file is rewritten from memory.
const UNWRITTEN_BYTES_MAX: usize = 4 << 20;
/// Largest number of late failures that wait to become hints. If there are more, all partitions of this
/// node count as missed by their other primaries.
const LATE_COUNT_MAX: usize = 100_000;

/// The hints of a node, in memory and on disk.
pub(crate) struct Hints {
    state: Mutex<HintState>,
    /// Lock order: `file` before `state`. `None` if the node keeps nothing on disk.
    file: Mutex<Option<HintFile>>,
    /// Wakes the task that makes hints of late failures and writes them to disk.
    wanted: Notify,
}

struct HintState {
    references: References,
    /// True if there is a file to write entries to.
    is_kept: bool,
    /// Entries that are not in the file yet.
    unwritten: Vec<u8>,
    /// True if the file has to be rewritten as a whole, since entries were dropped or a write failed.
    rewrite_needed: bool,
    /// Encoded names of records for which a call failed after the write was answered.
    late: Vec<Bytes>,
    /// True if further late failures were dropped.
    late_overflow: bool,
}

impl HintState {
    fn new(references: References, is_kept: bool) -> Self {
        Self {
            references,
            is_kept,
            unwritten: Vec::new(),
            rewrite_needed: false,
            late: Vec::new(),
            late_overflow: false,
        }
    }

    /// Adds an entry to those that wait to be written.
    fn write(&mut self, entry: HintEntry) {
        if !self.is_kept || self.rewrite_needed {
            return;
        }
        entry.append_to(&mut self.unwritten);
        if self.unwritten.len() > UNWRITTEN_BYTES_MAX {
            self.unwritten = Vec::new();
            self.rewrite_needed = true;
        }
    }

    fn note(&mut self, to: NodeId, reference: HintReference) -> bool {
        let noted = self.references.note(to, reference);
        match noted {
            NoteResult::Known => {}
            NoteResult::New => self.write(HintEntry::Missed(to, reference)),
            NoteResult::Whole => self.write(HintEntry::WholeMissed(to, reference.0)),
        }
        noted != NoteResult::Known
    }

    /// Returns all references as entries of a new file.
    fn all(&self) -> Vec<u8> {
        let mut entries = Vec::new();
        for (to, partition) in self.references.whole() {
            HintEntry::WholeMissed(to, partition).append_to(&mut entries);
        }
        for (to, reference) in self.references.single() {
            HintEntry::Missed(to, reference).append_to(&mut entries);
        }
        entries
    }
}

impl Hints {
    /// Returns hints that are kept in memory only, at most `count_max` single ones.
    pub(crate) fn in_memory(count_max: usize) -> Self {
        let state = HintState::new(References::new(count_max), false);
        Self { state: Mutex::new(state), file: Mutex::default(), wanted: Notify::new() }
    }

    /// Opens hints that are kept on a disk.
    ///
    /// # Errors
    ///
    /// If the disk fails, or the file is not a hint file or has a newer format.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        ring_size: RingSize,
        count_max: usize,
    ) -> Result<Self, StoreError> {
        let mut references = References::new(count_max);
        let file = HintFile::open(disk, ring_size, &mut references)?;
        let state = HintState::new(references, true);
        Ok(Self { state: Mutex::new(state), file: Mutex::new(Some(file)), wanted: Notify::new() })
    }

    /// Notes that a node has missed a record.
    pub(crate) fn note(&self, to: NodeId, reference: HintReference) {
        if self.state.lock().note(to, reference) {
            self.wanted.notify_one();
        }
    }

    /// Notes that a node may have missed any record of a partition.
    pub(crate) fn note_whole(&self, to: NodeId, partition: Partition) {
        let mut state = self.state.lock();
        state.references.note_whole(to, partition);
        state.write(HintEntry::WholeMissed(to, partition));
        drop(state);
        self.wanted.notify_one();
    }

    /// Takes references to deliver, like [`References::take`].
    pub(crate) fn take(&self, to: NodeId, limit: usize) -> Vec<HintReference> {
        self.state.lock().references.take(to, limit)
    }

    /// Removes hints that were taken and whose records are on the node's disk, or need not be.
    pub(crate) fn delivered(&self, to: NodeId, taken: &[HintReference]) {
        let mut state = self.state.lock();
        for reference in state.references.delivered(to, taken) {
            state.write(HintEntry::Done(to, reference));
        }
        drop(state);
        self.wanted.notify_one();
    }

    /// Puts back hints that were taken and could not be delivered.
    pub(crate) fn put_back(&self, to: NodeId, taken: &[HintReference]) {
        self.state.lock().references.put_back(to, taken);
    }

    /// Takes a partition that the node has missed as a whole.
    pub(crate) fn take_partition(&self, to: NodeId) -> Option<Partition> {
        self.state.lock().references.take_partition(to)
    }

    /// Ends the delivery of a partition that was taken as a whole. If it is not `done`, it waits again.
    pub(crate) fn finish_partition(&self, to: NodeId, partition: Partition, done: bool) {
        let mut state = self.state.lock();
        if state.references.finish_partition(to, partition, done) {
            state.write(HintEntry::WholeDone(to, partition));
            drop(state);
            self.wanted.notify_one();
        }
    }

    /// Removes the hints for a node that has left the cluster.
    pub(crate) fn forget_node(&self, to: NodeId) {
        let mut state = self.state.lock();
        state.references.forget_node(to);
        state.unwritten = Vec::new();
        state.rewrite_needed = state.is_kept;
        drop(state);
        self.wanted.notify_one();
    }

    /// Returns the nodes for which there are hints.
    pub(crate) fn targets(&self) -> Vec<NodeId> {
        self.state.lock().references.targets()
    }

    /// Returns the partitions for which there are hints.
    pub(crate) fn partitions(&self) -> BTreeSet<Partition> {
        self.state.lock().references.partitions()
    }

    /// Returns for each node the number of single hints, and of partitions that it has missed as a whole.
    pub(crate) fn counts(&self) -> BTreeMap<NodeId, (u64, u64)> {
        self.state.lock().references.counts()
    }

    /// Writes hints that are not on disk yet, with one sync.
    ///
    /// # Errors
    ///
    /// If the disk fails. The next attempt then rewrites the whole file.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        let mut file = self.file.lock();
        let file = file.as_mut().filter(|_| !planted!(KeepsHintsInMemory));
        let Some(file) = file else { return Ok(()) };
        let mut state = self.state.lock();
        let entries = std::mem::take(&mut state.unwritten);
        let anew = std::mem::take(&mut state.rewrite_needed)
            || !file.is_written() && !entries.is_empty()
            || file.is_bloated(state.references.count());
        let written = if anew {
            let entries = state.all();
            drop(state);
            file.rewrite(&entries)
        } else if entries.is_empty() {
            return Ok(());
        } else {
            drop(state);
            file.append(&entries)
        };
        if written.is_err() {
            self.state.lock().rewrite_needed = true;
        }
        written
    }

    /// Takes the late failures that have not become hints yet, and whether some were dropped.
    fn take_late(&self) -> (Vec<Bytes>, bool) {
        let mut state = self.state.lock();
        (std::mem::take(&mut state.late), std::mem::take(&mut state.late_overflow))
    }
}

impl LateFailureListener for Hints {
    fn failed(&self, note: Bytes) {
        let mut state = self.state.lock();
        if state.late.len() < LATE_COUNT_MAX {
            state.late.push(note);
        } else {
            state.late_overflow = true;
        }
        drop(state);
        self.wanted.notify_one();
    }
}

#[cfg(test)]
mod tests;
