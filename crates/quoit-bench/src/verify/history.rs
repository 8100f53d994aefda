//! Rules for the values that may and must be found under one key, without locks, bytes or I/O.
//!
//! Times are stamps of one counter. A write is known by the stamp of its start, which its value
//! carries. It is *acknowledged* at a later stamp, or stays *in doubt* for ever.
//!
//! A key keeps its *candidates*: the writes that a read may still find. A write leaves them when
//! an acknowledged one replaces it:
//!
//! - [`Semantics::Register`]: one that started after this one was acknowledged. A write in doubt
//!   may take effect at any time and is never replaced.
//! - [`Semantics::Siblings`]: one whose context covers this one, because it was read before, or
//!   because it is a delete, which covers what was acknowledged before it started.
//!
//! A read may find the candidates of its start and whatever started since. Everything else is
//! older than something acknowledged.

use smallvec::SmallVec;

use super::Semantics;

/// Writes in doubt that are told apart, of one key. Of older ones only the newest number is kept:
/// every version up to it is then acceptable.
const IN_DOUBT_MAX: usize = 64;

/// The number of a write: the stamp of its start.
pub(super) type WriteSequence = u64;

/// Numbers of writes, mostly one.
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
    /// Writes that it replaces once it has taken effect.
    covers: Sequences,
    /// A delete of unknown reach ran beside it: it may be gone.
    is_optional: bool,
    /// It was made with the context of a read, so that nothing from before the run stays.
    covers_before: bool,
}

/// The state of one key while something is unsettled about it.
#[derive(Debug, Clone)]
pub(super) struct History {
    writes: SmallVec<[TrackedWrite; 2]>,
    /// Values from before the run may be found.
    before: bool,
    /// Operations in flight.
    pub(super) active: u32,
    /// Start of the newest delete.
    newest_delete: WriteSequence,
    /// Every version up to this one is acceptable, and whether nothing is.
    lenient: (WriteSequence, bool),
    /// The key is in the list of those that were written.
    pub(super) is_noted: bool,
}

/// State of a key when nothing is unsettled: one acknowledged write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settled(u64);

/// Values that a read may find: taken at its start.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    started: u64,
    candidates: SmallVec<[Candidate; 2]>,
    before: bool,
    lenient: (WriteSequence, bool),
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    sequence: WriteSequence,
    kind: WriteKind,
    is_acknowledged: bool,
    is_required: bool,
}

/// One value that a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Version(WriteSequence),
    /// From before the run.
    Before,
}

/// Fault of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Violation {
    /// An acknowledged write is missing.
    Lost(WriteSequence),
    /// A version that an acknowledged one has replaced.
    Stale(Found),
    /// A version that an acknowledged delete has removed.
    Resurrected(Found),
    /// Siblings that cannot be beside each other.
    Siblings(Found),
}

impl Settled {
    pub(super) fn to_bits(self) -> u64 {
        self.0
    }

    pub(super) fn of_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl History {
    /// A key of which nothing was written; `before` when it may hold a value already.
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
        history.writes[0].sequence = bits >> 2;
        history.writes[0].kind = if bits & 1 != 0 { WriteKind::Delete } else { WriteKind::Put };
        // The exact end is of no use any more: whatever starts from now on starts after it.
        history.is_noted = true;
        history
    }

    /// The key as it is when nothing is in flight or in doubt.
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

    /// True when nothing is known of the key that is not known of every key.
    pub(super) fn is_blank(&self) -> bool {
        !self.is_noted
            && self.active == 0
            && self.writes.iter().all(|write| {
                write.kind == WriteKind::Delete
                    && matches!(write.state, WriteState::AcknowledgedAt(_))
            })
    }

    /// A write starts. `context` has the versions that a read before it found.
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

    /// Adds the values that a read found, and those that they had replaced.
    fn add_context(&self, covers: &mut Sequences, context: &[WriteSequence]) {
        // Nothing written yet is replaced by anything.
        covers.push(0);
        for sequence in context {
            covers.push(*sequence);
            if let Some(write) = self.writes.iter().find(|write| write.sequence == *sequence) {
                covers.extend_from_slice(&write.covers);
            }
        }
    }

    /// A write was acknowledged at the stamp `now`.
    pub(super) fn acknowledge(&mut self, semantics: Semantics, sequence: WriteSequence, now: u64) {
        self.active -= 1;
        // One that others have read and replaced already is gone.
        let Some(index) = self.writes.iter().position(|write| write.sequence == sequence) else {
            return;
        };
        self.writes[index].state = WriteState::AcknowledgedAt(now);
        let write = self.writes[index].clone();
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
                    // A delete has done its work, and nothing is there any more to be found.
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

    /// Whether a write took effect is not known.
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
            // The writes that it may have replaced are not known any more.
            self.writes.iter_mut().for_each(|write| write.is_optional = true);
        }
    }

    /// A read starts at the stamp `now`.
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

    /// A read ends without an answer.
    pub(super) fn end_read(&mut self) {
        self.active -= 1;
    }

    /// The first fault of a read, if it has one.
    pub(super) fn check(
        &self,
        semantics: Semantics,
        snapshot: &Snapshot,
        found: &[Found],
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
        found: Found,
        is_beside: bool,
    ) -> Option<Violation> {
        let is_possible = match found {
            Found::Before => snapshot.before,
            Found::Version(sequence) => snapshot.may_find(sequence),
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

    /// Forgets the writes that a delete beside them has removed, as a read shows that did not
    /// find them. While anything is unsettled, a later read may still find them elsewhere.
    pub(super) fn forget_removed(&mut self, snapshot: &Snapshot, found: &[Found]) {
        let is_acknowledged =
            |write: &TrackedWrite| matches!(write.state, WriteState::AcknowledgedAt(_));
        if self.lenient.1 || !self.writes.iter().all(is_acknowledged) {
            return;
        }
        self.writes.retain(|write| {
            let is_missing = !found.contains(&Found::Version(write.sequence));
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

    fn check_siblings(&self, snapshot: &Snapshot, found: &[Found]) -> Option<Violation> {
        for (index, one) in found.iter().enumerate() {
            let is_twice = *one != Found::Before && found[..index].contains(one);
            let is_replaced = matches!(one, Found::Version(one) if self.is_replaced(*one, found));
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

    /// True when one of the values found replaces this one.
    fn is_replaced(&self, sequence: WriteSequence, found: &[Found]) -> bool {
        self.writes.iter().any(|write| {
            found.contains(&Found::Version(write.sequence)) && write.covers.contains(&sequence)
        })
    }

    /// True when a version is found, or may be missing because of what may have replaced it.
    fn is_accounted_for(&self, sequence: WriteSequence, found: &[Found], depth: usize) -> bool {
        if found.contains(&Found::Version(sequence)) {
            return true;
        }
        let Some(write) = self.writes.iter().find(|write| write.sequence == sequence) else {
            // Replaced by what was acknowledged while the read went on.
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

    /// A delete whose effect may still come.
    fn is_open_delete(&self) -> bool {
        self.kind == WriteKind::Delete && !matches!(self.state, WriteState::AcknowledgedAt(_))
    }

    fn is_required(&self) -> bool {
        self.kind == WriteKind::Put
            && matches!(self.state, WriteState::AcknowledgedAt(_))
            && !self.is_optional
    }
}

impl Found {
    pub(super) fn sequence(&self) -> Option<WriteSequence> {
        match self {
            Self::Version(sequence) => Some(*sequence),
            Self::Before => None,
        }
    }
}

impl Candidate {
    /// True for an acknowledged write of this number.
    fn is(&self, sequence: WriteSequence) -> bool {
        self.is_acknowledged && self.sequence == sequence
    }
}

impl Snapshot {
    /// True when a version may be found: a candidate, or one that started after the read.
    fn may_find(&self, sequence: WriteSequence) -> bool {
        sequence > self.started
            || sequence <= self.lenient.0
            || self.candidates.iter().any(|one| one.sequence == sequence)
    }

    fn has_delete(&self) -> bool {
        self.candidates.iter().any(|one| one.kind == WriteKind::Delete)
    }

    /// The newest acknowledged write, 0 when there is none.
    pub(super) fn newest_acknowledged(&self) -> WriteSequence {
        let acknowledged = self.candidates.iter().filter(|one| one.is_acknowledged);
        acknowledged.map(|one| one.sequence).max().unwrap_or(0)
    }

    pub(super) fn sequences(&self) -> impl Iterator<Item = WriteSequence> {
        self.candidates.iter().map(|one| one.sequence)
    }

    pub(super) fn has_before(&self) -> bool {
        self.before
    }

    /// Describes the values that a read may find.
    pub(super) fn expected(&self) -> String {
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
