//! Rules for the values that a read of one key may and must find, without locks, bytes or I/O.
//!
//! Times are stamps of one counter. A write is identified by the stamp of its start, which its value
//! carries. It is *acknowledged* at a later stamp, or stays *in doubt* for ever.
//!
//! A key keeps its *candidates*: the writes that a read may still find. A write stops being a candidate
//! when an acknowledged write replaces it:
//!
//! - [`Semantics::Register`]: the other write started after this one was acknowledged. A write in doubt may
//!   take effect at any time and is never replaced.
//! - [`Semantics::Siblings`]: the context of the other write covers this one, either because a read had
//!   found it, or because the other write is a delete, which covers every write that was acknowledged
//!   before it started.
//!
//! A read may find the candidates at its start, and every write that has started since. Any other version
//! is older than an acknowledged one.

mod snapshot;

use smallvec::SmallVec;

use super::Semantics;
use snapshot::Candidate;
pub(super) use snapshot::{FoundValue, Snapshot, Violation};

/// Maximum number of writes in doubt that are tracked for one key. Of older ones only the newest number is
/// kept; every version up to it is then accepted.
const IN_DOUBT_MAX: usize = 64;

/// The number of a write: the stamp of its start.
pub(super) type WriteSequence = u64;

/// Numbers of writes, mostly a single one.
pub(super) type Sequences = SmallVec<[WriteSequence; 2]>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteKind {
    Put,
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteState {
    InFlight,
    AcknowledgedAt(u64),
    InDoubt,
}

#[derive(Debug, Clone)]
struct TrackedWrite {
    sequence: WriteSequence,
    kind: WriteKind,
    state: WriteState,
    /// The writes that it replaces once it has taken effect.
    covers: Sequences,
    /// True if a delete with unknown reach was concurrent, so this write may be gone.
    is_optional: bool,
    /// True if the write replaces values from before the run, because it is a delete or has the context of
    /// a read.
    covers_before: bool,
}

/// The state of one key while operations are in flight or in doubt.
#[derive(Debug, Clone)]
pub(super) struct History {
    writes: SmallVec<[TrackedWrite; 2]>,
    /// True if values from before the run may be found.
    before: bool,
    /// Number of operations in flight.
    pub(super) active: u32,
    /// Start of the newest delete.
    newest_delete: WriteSequence,
    /// Every version up to this number is accepted; the flag says that finding no value is accepted too.
    lenient: (WriteSequence, bool),
    /// True if the key is already in the list of written keys.
    pub(super) is_noted: bool,
}

/// The state of a key when nothing is in flight or in doubt: one acknowledged write, packed into a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settled(u64);

impl Settled {
    pub(super) fn to_bits(self) -> u64 {
        self.0
    }

    pub(super) fn of_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl History {
    /// A key that the run has not written. `before` says that it may have a value from before the run.
    pub(super) fn new(before: bool) -> Self {
        let nothing = TrackedWrite {
            sequence: 0,
            kind: WriteKind::Delete,
            state: WriteState::AcknowledgedAt(0),
            covers: Sequences::new(),
            is_optional: false,
            covers_before: false,
        };
        Self {
            writes: SmallVec::from_iter([nothing]),
            before,
            active: 0,
            newest_delete: 0,
            lenient: (0, false),
            is_noted: false,
        }
    }

    pub(super) fn of_settled(Settled(bits): Settled) -> Self {
        let mut history = Self::new(bits & 2 != 0);
        debug_assert_eq!(history.writes.len(), 1, "a new history has one write");
        for write in &mut history.writes {
            write.sequence = bits >> 2;
            write.kind = if bits & 1 != 0 { WriteKind::Delete } else { WriteKind::Put };
        }
        // The exact stamp of the acknowledgement no longer matters: every later operation starts after it.
        history.is_noted = true;
        history
    }

    /// The packed state of the key, if nothing is in flight or in doubt.
    pub(super) fn settled(&self) -> Option<Settled> {
        let [write] = self.writes.as_slice() else { return None };
        let is_acknowledged = matches!(write.state, WriteState::AcknowledgedAt(_));
        let is_plain = self.active == 0 && self.lenient.0 == 0 && !write.is_optional;
        let flags = u64::from(self.before) << 1 | u64::from(write.kind == WriteKind::Delete);
        (is_plain && is_acknowledged).then_some(Settled(write.sequence << 2 | flags))
    }

    #[cfg(test)]
    pub(super) fn write_count(&self) -> usize {
        self.writes.len()
    }

    /// True if the history has no information beyond that of a key that was never used.
    pub(super) fn is_blank(&self) -> bool {
        !self.is_noted
            && self.active == 0
            && self.writes.iter().all(|write| {
                write.kind == WriteKind::Delete
                    && matches!(write.state, WriteState::AcknowledgedAt(_))
            })
    }

    /// Begins a write. `context` has the versions that an earlier read found.
    pub(super) fn begin_write(
        &mut self,
        semantics: Semantics,
        sequence: WriteSequence,
        kind: WriteKind,
        context: Option<&[WriteSequence]>,
    ) {
        let mut covers = Sequences::new();
        if semantics == Semantics::Siblings {
            match kind {
                WriteKind::Put => self.add_context(&mut covers, context.unwrap_or_default()),
                WriteKind::Delete => {
                    let acknowledged = |write: &&TrackedWrite| {
                        matches!(write.state, WriteState::AcknowledgedAt(_))
                    };
                    covers.extend(self.writes.iter().filter(acknowledged).map(|w| w.sequence));
                    self.writes
                        .iter_mut()
                        .for_each(|write| write.is_optional |= write.is_in_flight());
                }
            }
        }
        let is_beside_delete = self.writes.iter().any(TrackedWrite::is_open_delete);
        let is_optional = semantics == Semantics::Siblings && (is_beside_delete || self.lenient.1);
        self.writes.push(TrackedWrite {
            sequence,
            kind,
            state: WriteState::InFlight,
            covers,
            is_optional,
            covers_before: context.is_some() || kind == WriteKind::Delete,
        });
        if kind == WriteKind::Delete {
            self.newest_delete = sequence;
        }
        self.active += 1;
    }

    /// Adds the versions that a read found, and the versions that those had replaced.
    fn add_context(&self, covers: &mut Sequences, context: &[WriteSequence]) {
        // The initial state, in which nothing is written, is replaced by any write.
        covers.push(0);
        for sequence in context {
            covers.push(*sequence);
            if let Some(write) = self.writes.iter().find(|write| write.sequence == *sequence) {
                covers.extend_from_slice(&write.covers);
            }
        }
    }

    /// Records the acknowledgement of a write at the stamp `now`.
    pub(super) fn acknowledge(&mut self, semantics: Semantics, sequence: WriteSequence, now: u64) {
        self.active -= 1;
        // The write is no longer tracked if others have already read and replaced it.
        let mut writes = self.writes.iter_mut();
        let Some(write) = writes.find(|write| write.sequence == sequence) else { return };
        write.state = WriteState::AcknowledgedAt(now);
        let write = write.clone();
        match semantics {
            Semantics::Register => {
                self.writes.retain(|other| match other.state {
                    WriteState::AcknowledgedAt(at) => at >= sequence,
                    WriteState::InFlight | WriteState::InDoubt => true,
                });
                self.before = false;
            }
            Semantics::Siblings => {
                let is_done = |other: &TrackedWrite| {
                    // A completed delete has had its effect, and leaves nothing to be found.
                    write.covers.contains(&other.sequence)
                        || (other.kind == WriteKind::Delete && !other.is_open_delete())
                };
                self.writes.retain(|other| !is_done(other));
                if self.writes.is_empty() {
                    self.writes.push(TrackedWrite { covers: Sequences::new(), ..write.clone() });
                }
                self.before &= !write.covers_before;
            }
        }
    }

    /// Records that a write is in doubt.
    pub(super) fn doubt(&mut self, sequence: WriteSequence) {
        self.active -= 1;
        if let Some(write) = self.writes.iter_mut().find(|write| write.sequence == sequence) {
            write.state = WriteState::InDoubt;
        }
        let in_doubt = |write: &TrackedWrite| write.state == WriteState::InDoubt;
        if self.writes.iter().filter(|write| in_doubt(write)).count() > IN_DOUBT_MAX
            && let Some(oldest) = self.writes.iter().position(in_doubt)
        {
            let oldest = self.writes.remove(oldest);
            self.lenient.0 = self.lenient.0.max(oldest.sequence);
            self.lenient.1 |= oldest.kind == WriteKind::Delete;
            // It is no longer known which writes it may have replaced.
            self.writes.iter_mut().for_each(|write| write.is_optional = true);
        }
    }

    /// Begins a read at the stamp `now`.
    pub(super) fn begin_read(&mut self, now: u64) -> Snapshot {
        self.active += 1;
        let candidate = |write: &TrackedWrite| Candidate {
            sequence: write.sequence,
            kind: write.kind,
            is_acknowledged: matches!(write.state, WriteState::AcknowledgedAt(_)),
            is_required: write.is_required(),
        };
        Snapshot {
            started: now,
            candidates: self.writes.iter().map(candidate).collect(),
            before: self.before,
            lenient: self.lenient,
        }
    }

    /// Ends a read.
    pub(super) fn end_read(&mut self) {
        self.active -= 1;
    }

    /// The first fault of a read, if it has one.
    pub(super) fn check(
        &self,
        semantics: Semantics,
        snapshot: &Snapshot,
        found: &[FoundValue],
    ) -> Option<Violation> {
        match (semantics, found) {
            (_, []) if snapshot.lenient.1 => None,
            (Semantics::Register, []) => {
                let is_possible = snapshot.has_delete() || self.newest_delete > snapshot.started;
                let newest = snapshot.newest_acknowledged();
                (!is_possible).then_some(Violation::Lost(newest))
            }
            (Semantics::Register, [one]) => self.check_version(snapshot, *one, false),
            (Semantics::Register, [_, more, ..]) => Some(Violation::Siblings(*more)),
            (Semantics::Siblings, found) => self.check_siblings(snapshot, found),
        }
    }

    fn check_version(
        &self,
        snapshot: &Snapshot,
        found: FoundValue,
        is_beside: bool,
    ) -> Option<Violation> {
        let is_possible = match found {
            FoundValue::Before => snapshot.before,
            FoundValue::Version(sequence) => snapshot.may_find(sequence),
        };
        if is_possible {
            return None;
        }
        let is_deleted = snapshot.candidates.iter().all(|one| one.kind == WriteKind::Delete);
        Some(match (is_beside, is_deleted) {
            (true, _) => Violation::Siblings(found),
            (false, true) => Violation::Resurrected(found),
            (false, false) => Violation::Stale(found),
        })
    }

    /// Forgets writes that a concurrent delete has removed, if a read that should see them did not find
    /// them. While another operation is unsettled, a later read may still find them on another replica.
    pub(super) fn forget_removed(&mut self, snapshot: &Snapshot, found: &[FoundValue]) {
        let is_acknowledged =
            |write: &TrackedWrite| matches!(write.state, WriteState::AcknowledgedAt(_));
        if self.lenient.1 || !self.writes.iter().all(is_acknowledged) {
            return;
        }
        self.writes.retain(|write| {
            let is_missing = !found.contains(&FoundValue::Version(write.sequence));
            let was_there = snapshot.candidates.iter().any(|one| one.is(write.sequence));
            !(write.is_optional && is_missing && was_there)
        });
        if self.writes.is_empty() {
            let before = self.before;
            let kept = (self.active, self.newest_delete, self.is_noted);
            *self = Self::new(before);
            (self.active, self.newest_delete, self.is_noted) = kept;
        }
    }

    fn check_siblings(&self, snapshot: &Snapshot, found: &[FoundValue]) -> Option<Violation> {
        for (index, one) in found.iter().enumerate() {
            let is_twice =
                *one != FoundValue::Before && found.iter().take(index).any(|it| it == one);
            let is_replaced =
                matches!(one, FoundValue::Version(one) if self.is_replaced(*one, found));
            if is_twice || is_replaced {
                return Some(Violation::Siblings(*one));
            }
            let violation = self.check_version(snapshot, *one, found.len() > 1);
            if violation.is_some() {
                return violation;
            }
        }
        let mut required = snapshot.candidates.iter().filter(|one| one.is_required);
        let lost = required.find(|one| !self.is_accounted_for(one.sequence, found, 0));
        lost.map(|one| Violation::Lost(one.sequence))
    }

    /// True if one of the found values replaces this version.
    fn is_replaced(&self, sequence: WriteSequence, found: &[FoundValue]) -> bool {
        self.writes.iter().any(|write| {
            found.contains(&FoundValue::Version(write.sequence)) && write.covers.contains(&sequence)
        })
    }

    /// True if a version was found, or may be missing because another write may have replaced it.
    fn is_accounted_for(
        &self,
        sequence: WriteSequence,
        found: &[FoundValue],
        depth: usize,
    ) -> bool {
        if found.contains(&FoundValue::Version(sequence)) {
            return true;
        }
        let Some(write) = self.writes.iter().find(|write| write.sequence == sequence) else {
            // A write that was acknowledged during the read has replaced it.
            return true;
        };
        let mut others = self.writes.iter().filter(|other| other.covers.contains(&sequence));
        write.is_optional
            || (write.kind == WriteKind::Delete && depth > 0)
            || (depth < self.writes.len()
                && others.any(|other| self.is_accounted_for(other.sequence, found, depth + 1)))
    }
}

impl TrackedWrite {
    fn is_in_flight(&self) -> bool {
        self.state == WriteState::InFlight
    }

    /// True for a delete that may still take effect.
    fn is_open_delete(&self) -> bool {
        self.kind == WriteKind::Delete && !matches!(self.state, WriteState::AcknowledgedAt(_))
    }

    fn is_required(&self) -> bool {
        self.kind == WriteKind::Put
            && matches!(self.state, WriteState::AcknowledgedAt(_))
            && !self.is_optional
    }
}
