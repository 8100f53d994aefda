//! Survey of one journal: its intact batches, and the ranges without one.

use super::batch::{self, BatchSearch, JournalBatch, KeyspaceNumber, START_BYTES};
use quoit_model::store_opening::StoreId;
use std::io::{self, BufRead, Seek, SeekFrom};

/// Maximum distance of a batch's sequence from the lowest that it may have: threads of `fjall` use some
/// sequences in between.
pub(super) const SEQUENCES_AHEAD_MAX: u64 = 1 << 20;

const ZEROS: [u8; 4096] = [0; 4096];

/// A range of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct JournalPiece {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) part: JournalPart,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JournalPart {
    /// Consecutive batches, without a gap in their groups.
    Batches(Batches),
    /// No intact batch, and not only zeros up to the end.
    Hole,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Batches {
    /// `None` for batches of older releases, which have no marks.
    pub(super) groups: Option<SurveyedGroups>,
    pub(super) first_sequence: u64,
    pub(super) last_sequence: u64,
    /// The rebuilt start of the batch. Only for a piece of one batch whose start is damaged.
    pub(super) repaired_start: Option<[u8; START_BYTES]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SurveyedGroups {
    pub(super) first: u64,
    pub(super) last: u64,
    /// The keyspace of the marks.
    pub(super) keyspace: KeyspaceNumber,
}

/// The contents of a journal, in the order of its bytes.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Survey {
    pub(super) pieces: Vec<JournalPiece>,
    /// The last group that was synced, according to the journal.
    pub(super) synced: u64,
    /// The last batch that was read, which is not in a piece yet.
    pending: Option<(u64, JournalBatch)>,
}

/// Surveys a journal. Older journals have groups up to `above`.
pub(super) fn survey(
    journal: &mut (impl BufRead + Seek),
    above: u64,
    store_id: StoreId,
) -> io::Result<Survey> {
    let mut survey = Survey::default();
    let (mut position, mut above) = (0, above);
    // Start of the hole that contains the position, if it is in one.
    let mut hole: Option<u64> = None;
    loop {
        if let Some(batch) = batch::read(journal, store_id)? {
            survey.end_hole(hole.take(), position);
            survey.note_batch(position, batch);
            above = batch.marked.map_or(above, |(mark, _)| above.max(mark.group));
            position += batch.size_bytes;
            continue;
        }
        let start = *hole.get_or_insert(position);
        if let Some(mark) = batch::front_at(journal, position, store_id)? {
            survey.synced = survey.synced.max(mark.synced);
        }
        match batch::seek(journal, BatchSearch { from: position + 1, above }, store_id)? {
            Some(front) => {
                position = front;
                journal.seek(SeekFrom::Start(position))?;
            }
            None => {
                let end = journal.seek(SeekFrom::End(0))?;
                let is_zero = is_zero_from(journal, start)?;
                survey.end_hole((!is_zero).then_some(start), end);
                survey.end_batch(None);
                return Ok(survey);
            }
        }
    }
}

fn is_zero_from(journal: &mut (impl BufRead + Seek), from: u64) -> io::Result<bool> {
    journal.seek(SeekFrom::Start(from))?;
    loop {
        let bytes = journal.fill_buf()?;
        let count = bytes.len();
        let is_zero = |bytes: &[u8]| ZEROS.starts_with(bytes);
        if count == 0 || !bytes.chunks(ZEROS.len()).all(is_zero) {
            return Ok(count == 0);
        }
        journal.consume(count);
    }
}

impl Survey {
    /// The last group of which the journal has an intact batch; 0 if its batches have no marks; `None`
    /// without batches.
    pub(super) fn last_group(&self) -> Option<u64> {
        let of_piece = |piece: &JournalPiece| match piece.part {
            JournalPart::Batches(batches) => Some(batches.groups.map_or(0, |groups| groups.last)),
            JournalPart::Hole => None,
        };
        self.pieces.iter().rev().find_map(of_piece)
    }

    fn end_hole(&mut self, start: Option<u64>, end: u64) {
        if let Some(start) = start.filter(|start| *start < end) {
            self.end_batch(None);
            self.pieces.push(JournalPiece { start, end, part: JournalPart::Hole });
        }
    }

    fn note_batch(&mut self, start: u64, batch: JournalBatch) {
        if let Some((mark, _)) = batch.marked {
            self.synced = self.synced.max(mark.synced);
        }
        self.end_batch(batch.marked.map(|(mark, _)| mark.sequence_min));
        self.pending = Some((start, batch));
    }

    /// Adds the batch that was read last to the last piece, or makes it a new one. `next_min` is the lowest
    /// possible sequence of the next batch, if it is known.
    fn end_batch(&mut self, next_min: Option<u64>) {
        let Some((start, batch)) = self.pending.take() else { return };
        let sequence = match batch.marked {
            Some((mark, _)) => {
                let end = mark.sequence_min.saturating_add(SEQUENCES_AHEAD_MAX);
                let end = next_min.unwrap_or(end).min(end);
                let is_sound = (mark.sequence_min..end).contains(&batch.sequence);
                if is_sound { batch.sequence } else { mark.sequence_min }
            }
            None => batch.sequence,
        };
        let is_sound = batch.is_start_sound && sequence == batch.sequence;
        let end = start + batch.size_bytes;
        let groups = batch.marked.map(|(mark, keyspace)| SurveyedGroups {
            first: mark.first,
            last: mark.group,
            keyspace,
        });
        if is_sound
            && let Some(JournalPiece { end: last_end, part: JournalPart::Batches(last), .. }) =
                self.pieces.last_mut()
            && *last_end == start
            && last.is_followed_by(groups)
        {
            *last_end = end;
            last.groups = last
                .groups
                .zip(groups)
                .map(|(last, next)| SurveyedGroups { last: next.last, ..last });
            last.last_sequence = sequence;
            return;
        }
        let repaired_start = (!is_sound).then(|| batch.start(sequence));
        let batches =
            Batches { groups, first_sequence: sequence, last_sequence: sequence, repaired_start };
        self.pieces.push(JournalPiece { start, end, part: JournalPart::Batches(batches) });
    }
}

impl Batches {
    fn is_followed_by(&self, groups: Option<SurveyedGroups>) -> bool {
        let are_next = match (self.groups, groups) {
            (None, None) => true,
            (Some(own), Some(next)) => next.first == own.last + 1 && next.keyspace == own.keyspace,
            _ => false,
        };
        self.repaired_start.is_none() && are_next
    }
}
