//! Entries of source queues.

use bytes::Bytes;
use quoit_model::clock::VersionVector;
use smallvec::SmallVec;

/// Maximum number of visited clusters that an entry remembers. Further ones are left out: the object
/// may then visit a cluster twice, which changes nothing there.
pub(crate) const VISITED_COUNT_MAX: usize = 32;

/// Id of a cluster in its control plane.
pub type VisitedCluster = [u8; 16];

/// Clusters that an object has visited on its way here.
pub type Visited = SmallVec<[VisitedCluster; 2]>;

/// Priority of an entry. Within a queue, entries of the highest priority are taken first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum QueuePriority {
    /// Records that a fold has found. The lowest priority.
    Fold,
    /// Repairs of full-sync, and references that were pushed through the API.
    FullSync,
    /// Writes at the time they happen, and replicated reaps. The highest priority.
    RealTime,
}

impl QueuePriority {
    /// All priorities, highest first.
    pub const ALL: [Self; 3] = [Self::RealTime, Self::FullSync, Self::Fold];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// Number of an entry in the order in which the node queued entries. Numbers are never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct EntrySequence(pub u64);

/// Content of an entry besides its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum EntryReference {
    /// The object in its stored form.
    Object(Bytes),
    /// No content: the object is read when the entry is taken.
    ToFetch,
    /// A tombstone in its stored form. It is kept because the source may reap its own before the entry
    /// is taken.
    Tombstone(Bytes),
    /// A change of a data type that is too large to be sent whole after each change. It is kept because
    /// it can't be derived from the record later.
    Delta {
        /// Its stored form.
        delta: Bytes,
        /// Time of the change, microseconds since 1970.
        last_modified_us: u64,
    },
    /// The reap of a tombstone with this clock.
    Reap {
        clock: VersionVector,
        /// Time of the reap, microseconds since 1970.
        reaped_us: u64,
    },
    /// A write of a record, for change feeds. Never in a source queue.
    Change {
        is_delete: bool,
        /// Causal context of the record after the write, as clients get it; empty if clients get none.
        context: Bytes,
    },
}

/// A record that is to be sent to another cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct QueueEntry {
    pub(crate) sequence: EntrySequence,
    /// Encoded name of the record.
    pub(crate) key: Bytes,
    pub(crate) reference: EntryReference,
    pub(crate) visited: Visited,
    /// Time at which it was queued, microseconds since 1970.
    pub(crate) queued_us: u64,
    /// True if a consumer may have had the entry before.
    pub(crate) may_be_redelivery: bool,
}

impl QueueEntry {
    /// Bytes of memory that the entry holds besides its fixed part.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.reference {
            EntryReference::Object(stored) | EntryReference::Tombstone(stored) => stored.len(),
            EntryReference::Delta { delta, .. } => delta.len(),
            EntryReference::ToFetch
            | EntryReference::Reap { .. }
            | EntryReference::Change { .. } => 0,
        }
    }

    /// The entry without its object, which is then read again when the entry is taken.
    pub(crate) fn reduced(mut self) -> Self {
        if matches!(self.reference, EntryReference::Object(_)) {
            self.reference = EntryReference::ToFetch;
        }
        self
    }
}
