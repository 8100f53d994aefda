//! Hints: what other nodes have missed of writes that this node has made.
//!
//! A primary that is down, or fails in the middle of a write, misses it. Where a node stands in, its copy
//! finds the way back by itself, as a stray. Else a reference to the record is noted here, to be
//! delivered by the transfers when the primary is back. References are kept on disk; a write does not
//! wait for that.

mod file;
#[cfg(any(test, feature = "testing"))]
mod fuzz;
mod missed;
mod references;

#[cfg(any(test, feature = "testing"))]
pub use fuzz::{fuzz_hint_file, hint_file_samples};
pub(crate) use missed::MissedWrites;

use bytes::Bytes;
use file::{HintFile, HintLine};
use parking_lot::Mutex;
use quoit_cluster::{LateFaults, NodeId};
use quoit_model::hash::{Partition, RingSize};
use quoit_planted::planted;
use quoit_seam::Disk;
use quoit_store::error::StoreError;
use references::{HintReference, NoteResult, References};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Notify;

/// Entries that wait to be written, in bytes. With more the whole file is written anew.
const UNWRITTEN_BYTES_MAX: usize = 4 << 20;
/// Writes whose failed calls wait to be looked at. With more all partitions are taken to be concerned.
const LATE_COUNT_MAX: usize = 100_000;

/// Hints: records whose writes other nodes have missed.
pub(crate) struct Hints {
    state: Mutex<HintState>,
    /// Taken before `state`. `None` where nothing outlasts the process anyway.
    file: Mutex<Option<HintFile>>,
    /// Something has to be written or looked at.
    wanted: Notify,
}

struct HintState {
    references: References,
    /// Whether there is a file to write entries to.
    is_kept: bool,
    /// Entries that are not in the file yet.
    unwritten: Vec<u8>,
    rewrite_needed: bool,
    /// Names of records of which some call has failed after its write was answered.
    late: Vec<Bytes>,
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

    fn write(&mut self, entry: HintLine) {
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
            NoteResult::New => self.write(HintLine::Missed(to, reference)),
            NoteResult::Whole => self.write(HintLine::WholeMissed(to, reference.0)),
        }
        noted != NoteResult::Known
    }

    /// Everything as entries of a new file.
    fn all(&self) -> Vec<u8> {
        let mut entries = Vec::new();
        for (to, partition) in self.references.whole() {
            HintLine::WholeMissed(to, partition).append_to(&mut entries);
        }
        for (to, reference) in self.references.single() {
            HintLine::Missed(to, reference).append_to(&mut entries);
        }
        entries
    }
}

impl Hints {
    /// Hints that are kept in memory alone, at most `count_max` of them.
    pub(crate) fn in_memory(count_max: usize) -> Self {
        let state = HintState::new(References::new(count_max), false);
        Self { state: Mutex::new(state), file: Mutex::default(), wanted: Notify::new() }
    }

    /// Hints that are kept on a disk.
    ///
    /// # Errors
    ///
    /// When the disk refuses, or has a file in the place of hints that is none.
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

    /// A node has missed a record.
    pub(crate) fn note(&self, to: NodeId, reference: HintReference) {
        if self.state.lock().note(to, reference) {
            self.wanted.notify_one();
        }
    }

    /// A node has missed an unknown part of a partition.
    pub(crate) fn note_whole(&self, to: NodeId, partition: Partition) {
        let mut state = self.state.lock();
        state.references.note_whole(to, partition);
        state.write(HintLine::WholeMissed(to, partition));
        drop(state);
        self.wanted.notify_one();
    }

    /// References to deliver, as [`References::take`].
    pub(crate) fn take(&self, to: NodeId, limit: usize) -> Vec<HintReference> {
        self.state.lock().references.take(to, limit)
    }

    /// Removes hints that were taken and are now on the node's disk, or need not be.
    pub(crate) fn delivered(&self, to: NodeId, taken: &[HintReference]) {
        let mut state = self.state.lock();
        for reference in state.references.delivered(to, taken) {
            state.write(HintLine::Done(to, reference));
        }
        drop(state);
        self.wanted.notify_one();
    }

    /// Puts hints back that were taken and could not be delivered.
    pub(crate) fn put_back(&self, to: NodeId, taken: &[HintReference]) {
        self.state.lock().references.put_back(to, taken);
    }

    /// A whole partition to deliver.
    pub(crate) fn take_whole(&self, to: NodeId) -> Option<Partition> {
        self.state.lock().references.take_whole(to)
    }

    /// A whole partition that was taken is delivered, or was not.
    pub(crate) fn finish_whole(&self, to: NodeId, partition: Partition, done: bool) {
        let mut state = self.state.lock();
        if state.references.finish_whole(to, partition, done) {
            state.write(HintLine::WholeDone(to, partition));
            drop(state);
            self.wanted.notify_one();
        }
    }

    /// A node is no member any more.
    pub(crate) fn forget_node(&self, to: NodeId) {
        let mut state = self.state.lock();
        state.references.forget_node(to);
        state.unwritten = Vec::new();
        state.rewrite_needed = state.is_kept;
        drop(state);
        self.wanted.notify_one();
    }

    /// Nodes that have missed something.
    pub(crate) fn targets(&self) -> Vec<NodeId> {
        self.state.lock().references.targets()
    }

    /// Partitions of which some node has missed something.
    pub(crate) fn partitions(&self) -> BTreeSet<Partition> {
        self.state.lock().references.partitions()
    }

    /// How many records each node has missed, and of how many partitions it has missed an unknown part.
    pub(crate) fn counts(&self) -> BTreeMap<NodeId, (u64, u64)> {
        self.state.lock().references.counts()
    }

    /// Writes what is not on disk yet.
    ///
    /// # Errors
    ///
    /// When the disk refuses. Everything is written with the next attempt then.
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

    fn take_late(&self) -> (Vec<Bytes>, bool) {
        let mut state = self.state.lock();
        (std::mem::take(&mut state.late), std::mem::take(&mut state.late_overflow))
    }
}

impl LateFaults for Hints {
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
