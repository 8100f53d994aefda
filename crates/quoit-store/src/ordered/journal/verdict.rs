//! Decides what the journals are to become, by what was found in them.
//!
//! Of what no sync had covered, a power failure may have taken any part. A hole among such batches ends the
//! log, since changes build on each other: what stands behind it was never durable either. A hole in what was
//! synced is damage, and costs what was in it alone. Groups tell the two apart ([`groups`](super::groups)),
//! and so does an orderly stop, before which everything was synced; a journal is synced before the next one
//! is begun.

use super::batch::{self, START_BYTES};
use super::groups::Mark;
use super::survey::{Batches, JournalPart, JournalPiece, Survey, SurveyedGroups};

/// Facts beside the journals themselves.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct JournalSurroundings {
    /// Whether the store was closed in good order.
    pub(super) clean: bool,
    /// The last group that was synced, as the file beside the journals has it.
    pub(super) synced: u64,
    pub(super) store_id: u64,
}

/// A stretch of what a journal is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// These bytes of it.
    Copy { start: u64, end: u64 },
    /// These bytes, with another start.
    CopyBehind { start: u64, end: u64, front: [u8; START_BYTES] },
    /// Other bytes.
    Write(Vec<u8>),
}

/// The journal that is to be written, and what is lost with it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Outcome {
    pub(super) steps: Vec<Step>,
    /// Whether that is what it is, zeros at its end aside.
    pub(super) is_as_it_is: bool,
}

/// Durable batches that are gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lost {
    /// The journal, and the bytes of it where they stood or should stand.
    pub(super) journal: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    /// How many; `None` when that is not known.
    pub(super) batch_count: Option<u64>,
}

#[derive(Default, Debug)]
pub(super) struct Verdict {
    /// For each journal.
    pub(super) outcomes: Vec<Outcome>,
    pub(super) lost: Vec<Lost>,
    /// From where on what was never durable is cut off: the journal, and the place in it.
    pub(super) torn: Option<(usize, u64)>,
    /// The last group that the journals will have; `None` when they will have no batches.
    pub(super) last_group: Option<u64>,
    /// The last group that was durable, as far as it is known.
    pub(super) synced: u64,
}

/// Judges the journals of a store, the oldest first.
pub(super) fn judge(surveys: &[Survey], known: JournalSurroundings) -> Verdict {
    let of_marks = surveys.iter().map(|survey| survey.synced).max().unwrap_or(0);
    let sealed = surveys.split_last().map_or(&[][..], |(_, sealed)| sealed);
    let of_sealed = sealed.iter().filter_map(Survey::last_group).max();
    let synced = known.synced.max(of_marks).max(of_sealed.unwrap_or(0));
    let durable = if known.clean { u64::MAX } else { synced };
    let mut judge = Judge { known, durable, ..Judge::default() };
    judge.verdict.synced = synced;
    for (journal, survey) in surveys.iter().enumerate() {
        let is_sealed = journal + 1 < surveys.len();
        judge.begin_journal(survey);
        for piece in &survey.pieces {
            judge.take(journal, piece, is_sealed);
        }
    }
    judge.end(surveys)
}

#[derive(Default)]
struct Judge {
    known: JournalSurroundings,
    /// All groups up to this one were durable.
    durable: u64,
    /// The last group that was taken; 0 where batches of an older release were.
    last_group: Option<u64>,
    last_sequence: Option<u64>,
    /// Where the stretches are that came since: journal, start, end.
    holes: Vec<(usize, u64, u64)>,
    verdict: Verdict,
}

/// Batches that are missing between two others.
struct MissingBatches {
    /// How many durable batches; `None` when none are, `Some(None)` when some are and their number is
    /// unknown.
    lost: Option<Option<u64>>,
    /// Whether others are missing too, so that the log ends there.
    ends: bool,
    /// The first group that is missing.
    first: u64,
}

impl Judge {
    fn begin_journal(&mut self, survey: &Survey) {
        let is_as_it_is = self.verdict.torn.is_none() || survey.pieces.is_empty();
        self.verdict.outcomes.push(Outcome { steps: Vec::new(), is_as_it_is });
    }

    fn take(&mut self, journal: usize, piece: &JournalPiece, is_sealed: bool) {
        if self.verdict.torn.is_some() {
            return self.outcome().is_as_it_is = false;
        }
        match &piece.part {
            JournalPart::Hole => {
                self.holes.push((journal, piece.start, piece.end));
                self.outcome().is_as_it_is = false;
            }
            JournalPart::Batches(batches) => self.take_batches(journal, piece, batches, is_sealed),
        }
    }

    fn take_batches(
        &mut self,
        journal: usize,
        piece: &JournalPiece,
        batches: &Batches,
        is_sealed: bool,
    ) {
        if let Some(groups) = batches.groups {
            // A journal is begun when the one before is durable.
            let is_of_sealed = is_sealed
                || piece.start == 0 && self.holes.iter().all(|(other, ..)| *other < journal);
            let missing = self.missing_before(groups, is_of_sealed);
            if let Some(batch_count) = missing.lost {
                self.note_lost(journal, piece.start, batch_count);
            }
            if missing.ends {
                let (journal, start, _) =
                    self.holes.first().copied().unwrap_or((journal, piece.start, piece.start));
                self.verdict.torn = Some((journal, start));
                return self.outcome().is_as_it_is = false;
            }
            if missing.lost.is_some() {
                self.fill(missing.first, groups, batches.first_sequence);
            }
        }
        self.holes.clear();
        let (start, end) = (piece.start, piece.end);
        let step = match batches.mended_start {
            None => Step::Copy { start, end },
            Some(front) => Step::CopyBehind { start, end, front },
        };
        let outcome = self.outcome();
        outcome.is_as_it_is &= batches.mended_start.is_none();
        outcome.steps.push(step);
        self.last_group = Some(batches.groups.map_or(0, |groups| groups.last));
        self.last_sequence = Some(batches.last_sequence);
    }

    fn missing_before(&self, groups: SurveyedGroups, is_of_sealed: bool) -> MissingBatches {
        let before = groups.first - 1;
        let durable = if is_of_sealed { u64::MAX } else { self.durable };
        let has_hole = !self.holes.is_empty();
        match self.last_group {
            Some(last) if last > 0 => {
                let lost_count = before.min(durable).saturating_sub(last);
                let lost = (lost_count > 0).then_some(Some(lost_count));
                MissingBatches { lost, ends: before > last.max(durable), first: last + 1 }
            }
            // Batches without marks: they were made durable before the first one with a mark was written.
            Some(_) => {
                let lost = (has_hole || before.min(durable) > 0).then_some(None);
                MissingBatches { lost, ends: before > durable, first: 1 }
            }
            // Those before may be in tables.
            None => {
                let ends = has_hole && before > durable;
                MissingBatches {
                    lost: (has_hole && !ends).then_some(None),
                    ends,
                    first: before.max(1),
                }
            }
        }
    }

    fn note_lost(&mut self, journal: usize, place: u64, batch_count: Option<u64>) {
        let (journal, start, end) = self.holes.first().copied().unwrap_or((journal, place, place));
        self.verdict.lost.push(Lost { journal, start, end, batch_count });
    }

    /// Puts a batch into the place of those that are lost, so that they are missed once.
    fn fill(&mut self, first: u64, next: SurveyedGroups, next_sequence: u64) {
        let sequence =
            self.last_sequence.map_or(next_sequence.checked_sub(1), |last| Some(last + 1));
        let Some(sequence) = sequence.filter(|sequence| *sequence < next_sequence) else { return };
        let group = next.first - 1;
        if group == 0 {
            return;
        }
        let mark = Mark { first, group, synced: first - 1, sequence_min: sequence };
        let bytes = batch::mark_alone(next.keyspace, &mark, sequence, self.known.store_id);
        let outcome = self.outcome();
        outcome.is_as_it_is = false;
        outcome.steps.push(Step::Write(bytes));
    }

    /// Judges what is behind the last batch.
    fn end(mut self, surveys: &[Survey]) -> Verdict {
        let synced = self.verdict.synced;
        let newest = surveys.len().saturating_sub(1);
        if self.verdict.torn.is_none() {
            let last_end = surveys.last().and_then(|survey| survey.pieces.last());
            let place = last_end.map_or(0, |piece| piece.end);
            match self.last_group {
                Some(last) if last < synced => self.note_lost(newest, place, Some(synced - last)),
                // What is not said to be durable was, before an orderly stop.
                _ if self.known.clean && synced == 0 && !self.holes.is_empty() => {
                    self.note_lost(newest, place, None);
                }
                None if self.known.clean && !self.holes.is_empty() => {
                    self.note_lost(newest, place, None);
                }
                _ => {
                    self.verdict.torn =
                        self.holes.first().map(|(journal, start, _)| (*journal, *start))
                }
            }
        }
        self.verdict.last_group = self.last_group;
        self.verdict
    }

    fn outcome(&mut self) -> &mut Outcome {
        self.verdict.outcomes.last_mut().expect("a journal was begun")
    }
}
