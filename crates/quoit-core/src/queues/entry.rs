//! Entries of source queues.

use bytes::Bytes;
use quoit_model::clock::VersionVector;
use smallvec::SmallVec;

/// Most clusters that an entry remembers to have visited. Those beyond are forgotten: an object may then
/// visit a cluster twice, which changes nothing there.
pub(crate) const VISITED_COUNT_MAX: usize = 32;

/// The id of a cluster, as its control plane has it.
pub type VisitedCluster = [u8; 16];

/// The clusters that an object has visited on its way here.
pub type Visited = SmallVec<[VisitedCluster; 2]>;

/// How soon an entry has its turn: within a queue those of the highest priority are consumed first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum QueuePriority {
    /// Records that a fold has found.
    Fold,
    /// Repairs of full-sync, and references that were pushed through the API.
    FullSync,
    /// Writes as they happen, and replicated reaps.
    RealTime,
}

impl QueuePriority {
    /// All, most urgent first.
    pub const ALL: [Self; 3] = [Self::RealTime, Self::FullSync, Self::Fold];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// The place of an entry in the order in which the node has queued entries. Never given twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct EntrySequence(pub u64);

/// The part of an entry that its key does not tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum EntryReference {
    /// The object, as it is stored.
    Object(Bytes),
    /// Nothing: the object is read when the entry is consumed.
    ToFetch,
    /// A tombstone, as it is stored. It is kept: the source may reap its own before the entry is consumed.
    Tombstone(Bytes),
    /// The change of a data type that is too large to be sent whole for each change. It is kept: it can't be
    /// told from the record afterwards.
    Delta {
        /// Its stored form.
        delta: Bytes,
        /// When it was made, microseconds since 1970.
        last_modified_us: u64,
    },
    /// The reap of a tombstone of this clock.
    Reap {
        clock: VersionVector,
        /// When it was reaped, microseconds since 1970.
        reaped_us: u64,
    },
    /// The write of a record, as change feeds tell it. In no source queue.
    Change {
        is_delete: bool,
        /// The clock of the record afterwards, as clients get it; empty where clients get none.
        context: Bytes,
    },
}

/// One record to be sent to another cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct QueueEntry {
    pub(crate) sequence: EntrySequence,
    /// Name of the record, encoded.
    pub(crate) key: Bytes,
    pub(crate) reference: EntryReference,
    pub(crate) visited: Visited,
    /// When it was queued, microseconds since 1970.
    pub(crate) queued_us: u64,
    /// Whether a consumer may have had it before.
    pub(crate) is_again: bool,
}

impl QueueEntry {
    /// Bytes of memory that the entry holds beside its fixed part.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.reference {
            EntryReference::Object(stored) | EntryReference::Tombstone(stored) => stored.len(),
            EntryReference::Delta { delta, .. } => delta.len(),
            EntryReference::ToFetch
            | EntryReference::Reap { .. }
            | EntryReference::Change { .. } => 0,
        }
    }

    /// The entry without its object, which is read again when the entry is consumed.
    pub(crate) fn reduced(mut self) -> Self {
        if matches!(self.reference, EntryReference::Object(_)) {
            self.reference = EntryReference::ToFetch;
        }
        self
    }
}
