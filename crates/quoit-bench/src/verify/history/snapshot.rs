//! The values that a read may find, those that it found, and the difference.

use smallvec::SmallVec;

use super::{WriteKind, WriteSequence};

/// The values that a read may find, taken at its start.
#[derive(Debug, Clone)]
pub(in crate::verify) struct Snapshot {
    pub(super) started: u64,
    pub(super) candidates: SmallVec<[Candidate; 2]>,
    pub(super) before: bool,
    pub(super) lenient: (WriteSequence, bool),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) sequence: WriteSequence,
    pub(super) kind: WriteKind,
    pub(super) is_acknowledged: bool,
    pub(super) is_required: bool,
}

/// One value that a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::verify) enum FoundValue {
    Version(WriteSequence),
    /// A value from before the run.
    Before,
}

/// A fault of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::verify) enum Violation {
    /// An acknowledged write is missing.
    Lost(WriteSequence),
    /// A version that an acknowledged write has replaced.
    Stale(FoundValue),
    /// A version that an acknowledged delete has removed.
    Resurrected(FoundValue),
    /// Siblings that can't exist at the same time.
    Siblings(FoundValue),
}

impl FoundValue {
    pub(in crate::verify) fn sequence(&self) -> Option<WriteSequence> {
        match self {
            Self::Version(sequence) => Some(*sequence),
            Self::Before => None,
        }
    }
}

impl Candidate {
    /// True for an acknowledged write with this number.
    pub(super) fn is(&self, sequence: WriteSequence) -> bool {
        self.is_acknowledged && self.sequence == sequence
    }
}

impl Snapshot {
    /// True if a read may find the version: it is a candidate, or started after the read.
    pub(super) fn may_find(&self, sequence: WriteSequence) -> bool {
        sequence > self.started
            || sequence <= self.lenient.0
            || self.candidates.iter().any(|one| one.sequence == sequence)
    }

    pub(super) fn has_delete(&self) -> bool {
        self.candidates.iter().any(|one| one.kind == WriteKind::Delete)
    }

    /// The newest acknowledged write; 0 if no write was acknowledged.
    pub(in crate::verify) fn newest_acknowledged(&self) -> WriteSequence {
        let acknowledged = self.candidates.iter().filter(|one| one.is_acknowledged);
        acknowledged.map(|one| one.sequence).max().unwrap_or(0)
    }

    pub(in crate::verify) fn sequences(&self) -> impl Iterator<Item = WriteSequence> {
        self.candidates.iter().map(|one| one.sequence)
    }

    pub(in crate::verify) fn has_before(&self) -> bool {
        self.before
    }

    /// A description of the values that a read may find.
    pub(in crate::verify) fn expected(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        for one in &self.candidates {
            words.push(match (one.kind, one.sequence, one.is_acknowledged) {
                (WriteKind::Delete, 0, _) => "nothing".to_owned(),
                (WriteKind::Delete, sequence, true) => {
                    format!("nothing (deleted by write {sequence})")
                }
                (WriteKind::Delete, sequence, false) => {
                    format!("nothing (delete {sequence} in doubt)")
                }
                (WriteKind::Put, sequence, true) => format!("write {sequence}"),
                (WriteKind::Put, sequence, false) => format!("write {sequence} (in doubt)"),
            });
        }
        words.join(" or ")
    }
}
