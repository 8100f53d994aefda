//! The decision which parts of the journals are kept, lost or cut off.
//!
//! A power failure may lose any part of the batches that no sync had covered. A hole among such batches
//! ends the log, because changes depend on earlier ones; no batch after the hole was durable either. A hole
//! among synced batches is damage, and loses only the batches in it. The two are distinguished by the
//! groups ([`groups`](super::groups)), by a clean stop, before which all batches were synced, and by the
//! rule that a journal is synced before the next one is begun.

use super::batch::{self, START_BYTES};
use super::groups::Mark;
use super::survey::{Batches, JournalPart, JournalPiece, Survey, SurveyedGroups};
use quoit_model::store_opening::StoreId;

/// Facts beside the journals themselves.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct JournalSurroundings {
    /// True if the last stop was clean.
    pub(super) clean: bool,
    /// The last group that was synced, according to the file beside the journals.
    pub(super) synced: u64,
    pub(super) store_id: StoreId,
}

/// A part of a rewritten journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum RewritePart {
    /// These bytes of the old journal.
    Copy { start: u64, end: u64 },
    /// These bytes of the old journal, with another start.
    CopyWithNewStart { start: u64, end: u64, front: [u8; START_BYTES] },
    /// New bytes.
    Write(Vec<u8>),
}

/// The parts of a rewritten journal.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct JournalRewrite {
    pub(super) parts: Vec<RewritePart>,
    /// True if the journal need not be rewritten, except for zeros at its end.
    pub(super) is_unchanged: bool,
}

/// A loss of durable batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LostBatches {
    /// Index of the journal, and the range of its bytes where the batches were or should be.
    pub(super) journal: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Number of the batches; `None` if unknown.
    pub(super) batch_count: Option<u64>,
}

#[derive(Default, Debug)]
pub(super) struct JournalVerdict {
    /// One for each journal.
    pub(super) rewrites: Vec<JournalRewrite>,
    pub(super) lost: Vec<LostBatches>,
    /// Position from which on batches that were never durable are cut off: index of the journal, and offset
    /// in it.
    pub(super) torn: Option<(usize, u64)>,
    /// The last group that the rewritten journals have; `None` if they have no batches.
    pub(super) last_group: Option<u64>,
    /// The last group that is known to have been durable.
    pub(super) synced: u64,
}

/// Judges the journals of a store, the oldest first.
pub(super) fn judge(surveys: &[Survey], known: JournalSurroundings) -> JournalVerdict {
    let of_marks = surveys.iter().map(|survey| survey.synced).max().unwrap_or(0);
    let sealed = surveys.split_last().map_or(&[][..], |(_, sealed)| sealed);
    let of_sealed = sealed.iter().filter_map(Survey::last_group).max();
    let synced = known.synced.max(of_marks).max(of_sealed.unwrap_or(0));
    let durable = if known.clean { u64::MAX } else { synced };
    let mut analysis = JournalAnalysis { known, durable, ..JournalAnalysis::default() };
    analysis.verdict.synced = synced;
    for (journal, survey) in surveys.iter().enumerate() {
        let is_sealed = journal + 1 < surveys.len();
        analysis.begin_journal(survey);
        for piece in &survey.pieces {
            analysis.take(journal, piece, is_sealed);
        }
    }
    analysis.end(surveys)
}

#[derive(Default)]
struct JournalAnalysis {
    known: JournalSurroundings,
    /// All groups up to this one were durable.
    durable: u64,
    /// The last group that was kept; 0 after batches of an older release.
    last_group: Option<u64>,
    last_sequence: Option<u64>,
    /// The holes since the last batch: index of the journal, start, end.
    holes: Vec<(usize, u64, u64)>,
    verdict: JournalVerdict,
}

/// The batches that are missing between two others.
struct MissingBatches {
    /// The durable batches among them: `None` if there are none, `Some(None)` if their number is unknown.
    lost: Option<Option<u64>>,
    /// True if batches that were not durable are missing too, so that the log ends there.
    ends: bool,
    /// The first missing group.
    first: u64,
}

impl JournalAnalysis {
    fn begin_journal(&mut self, survey: &Survey) {
        let is_unchanged = self.verdict.torn.is_none() || survey.pieces.is_empty();
        self.verdict.rewrites.push(JournalRewrite { parts: Vec::new(), is_unchanged });
    }

    fn take(&mut self, journal: usize, piece: &JournalPiece, is_sealed: bool) {
        if self.verdict.torn.is_some() {
            return self.rewrite().is_unchanged = false;
        }
        match &piece.part {
            JournalPart::Hole => {
                self.holes.push((journal, piece.start, piece.end));
                self.rewrite().is_unchanged = false;
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
            // A journal is begun when the one before it is durable.
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
                return self.rewrite().is_unchanged = false;
            }
            if missing.lost.is_some() {
                self.fill(missing.first, groups, batches);
            }
        }
        self.holes.clear();
        let (start, end) = (piece.start, piece.end);
        let part = match batches.repaired_start {
            None => RewritePart::Copy { start, end },
            Some(front) => RewritePart::CopyWithNewStart { start, end, front },
        };
        let rewrite = self.rewrite();
        rewrite.is_unchanged &= batches.repaired_start.is_none();
        rewrite.parts.push(part);
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
            // Batches without marks were made durable before the first batch with a mark was written.
            Some(_) => {
                let lost = (has_hole || before.min(durable) > 0).then_some(None);
                MissingBatches { lost, ends: before > durable, first: 1 }
            }
            // Earlier batches may be in tables already.
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
        self.verdict.lost.push(LostBatches { journal, start, end, batch_count });
    }

    /// Adds a batch that stands for the lost ones, so that later starts do not report them again.
    fn fill(&mut self, first: u64, next: SurveyedGroups, batches: &Batches) {
        let next_sequence = batches.first_sequence;
        let sequence =
            self.last_sequence.map_or(next_sequence.checked_sub(1), |last| Some(last + 1));
        let Some(sequence) = sequence.filter(|sequence| *sequence < next_sequence) else { return };
        let group = next.first - 1;
        if group == 0 {
            return;
        }
        let mark = Mark { first, group, synced: first - 1, sequence_min: sequence };
        let bytes = batch::mark_alone(next.keyspace, &mark, sequence, self.known.store_id);
        let rewrite = self.rewrite();
        rewrite.is_unchanged = false;
        rewrite.parts.push(RewritePart::Write(bytes));
    }

    /// Judges what follows the last batch.
    fn end(mut self, surveys: &[Survey]) -> JournalVerdict {
        let synced = self.verdict.synced;
        let newest = surveys.len().saturating_sub(1);
        if self.verdict.torn.is_none() {
            let last_end = surveys.last().and_then(|survey| survey.pieces.last());
            let place = last_end.map_or(0, |piece| piece.end);
            match self.last_group {
                Some(last) if last < synced => self.note_lost(newest, place, Some(synced - last)),
                // Before a clean stop all batches were durable, even those that no mark names as synced.
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

    fn rewrite(&mut self) -> &mut JournalRewrite {
        self.verdict.rewrites.last_mut().expect("a journal was begun")
    }
}
