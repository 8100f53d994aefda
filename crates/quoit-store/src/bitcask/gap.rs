//! Cuts the log off at the first gap after an unclean stop.
//!
//! A power failure may lose any part of the log that no sync had covered, and leave later records. Those
//! must not be used, because changes depend on earlier ones: without one of its pages, a large set would
//! have a root that refers to a missing record. So after an unclean stop the log ends before its first gap,
//! as if the machine had stopped then. No write after the gap was acknowledged as durable, since a sync
//! covers all writes before it.
//!
//! Damage of durable records is not a gap: it loses only the damaged records, and the log is not cut. The
//! two are distinguished by what records ([`SyncedDistance`]) and segments ([`SegmentHeader::previous`]) say
//! of the log before them, by key files, by the snapshot, and by `STORE`. Records that were written before
//! version 4 of `STORE` say nothing of the log before them, so such a log is not cut.
//!
//! [`SyncedDistance`]: super::synced::SyncedDistance

use super::candidates::SegmentFile;
use super::checkpoint::CheckpointState;
use super::directory::{Directory, SNAPSHOT_NAME};
use super::open::LogOpening;
use super::planted;
use super::scan::{Damage, Scan};
use super::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, SegmentOrigin};
use crate::error::StoreError;
use crate::file_names::log_name;
use crate::snapshot::Snapshot;
use crate::store_file::Meta;
use quoit_model::store_opening::StoreId;
use quoit_planted::PlantedFault;
use quoit_seam::DiskFile;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A segment of the log, as far as the search for gaps needs it.
struct LogSegment {
    number: u32,
    file: Arc<dyn DiskFile>,
    size_bytes: u64,
    /// `None` if the header is damaged.
    header: Option<SegmentHeader>,
    first_sequence: u64,
    /// Offset at which the last usable record ends.
    end: u64,
    /// Ranges without usable records before `end`.
    damages: Vec<Damage>,
    /// Offset up to which the segment was certainly durable; 0 = unknown, `u64::MAX` = all of it.
    durable: u64,
}

/// A position in the log: index of a piece, and offset in it. Offset 0 stands for the missing log before
/// the piece.
type PieceOffset = (usize, u64);

impl LogOpening<'_> {
    /// Cuts the log off before the first gap, and cuts torn writes off the ends of segments. Returns true
    /// if anything was cut off.
    #[expect(clippy::indexing_slicing, reason = "the gap is in one of the pieces")]
    pub(super) fn cut_at_gap(
        &mut self,
        directory: &Directory,
        candidates: &[SegmentFile],
        meta: &Meta,
    ) -> Result<bool, StoreError> {
        if self.report.clean || !self.records_durability || planted::has(PlantedFault::IgnoresGaps)
        {
            return Ok(false);
        }
        let mut pieces = self.pieces(directory, candidates, meta)?;
        let durable = durable_end(&pieces);
        self.note_durable(&pieces, durable);
        let gap = self.gap(&pieces, durable, meta);
        if let Some((place, offset)) = gap {
            tracing::warn!(
                segment = pieces[place].number,
                offset,
                "the log ends before writes that no sync had covered: others before them are missing"
            );
            // The last segment is removed first: after a crash in between, the next start finds the gap
            // again.
            for piece in pieces.split_off(place + usize::from(offset > 0)).into_iter().rev() {
                self.report.torn_bytes += piece.size_bytes.saturating_sub(SEGMENT_HEADER_BYTES);
                self.disk.remove(&log_name(piece.number))?;
                self.disk.sync_directory()?;
            }
            if let Some(piece) = pieces.get_mut(place) {
                piece.end = offset;
            }
        }
        let mut is_cut = gap.is_some();
        for (place, piece) in pieces.iter().enumerate() {
            let is_whole = piece.size_bytes <= piece.end;
            if is_whole || (place, piece.end) < durable && !piece.is_followed(pieces.get(place + 1))
            {
                continue;
            }
            // A torn write. If it stayed, a later start could take it for damage.
            self.report.torn_bytes += piece.size_bytes - piece.end;
            piece.file.truncate(piece.end)?;
            piece.file.sync()?;
            is_cut = true;
        }
        Ok(is_cut)
    }

    /// The pieces of the log in order. Reads only segments that may have a gap: no segment with a key file,
    /// and no part that the snapshot knows.
    fn pieces(
        &self,
        directory: &Directory,
        candidates: &[SegmentFile],
        meta: &Meta,
    ) -> Result<Vec<LogSegment>, StoreError> {
        let store_id = self.report.store_id;
        let known = self.known_sizes(directory, store_id);
        let is_own = |header: &&SegmentHeader| header.store_id == store_id;
        let headers =
            || candidates.iter().filter_map(|each| each.header.as_ref().ok()).filter(is_own);
        let in_log = || headers().filter(|header| header.origin == SegmentOrigin::Log);
        let last_sequence = in_log().map(|header| header.first_sequence).max().unwrap_or(0);
        let is_previous = |number| {
            headers()
                .any(|header| header.previous.is_some_and(|previous| previous.number == number))
        };
        let (mut pieces, mut unlinked) = (Vec::new(), Vec::new());
        for SegmentFile { number, file, header } in candidates {
            let header = header.as_ref().ok();
            if header.is_some_and(|header| !is_own(&header) || header.origin != SegmentOrigin::Log)
            {
                continue;
            }
            let size_bytes = file.size_bytes()?;
            let uid = header.map(SegmentHeader::uid);
            let known = known.get(number).filter(|(known, _)| Some(*known) == uid);
            let is_keyed = directory.key_files.binary_search(number).is_ok();
            let from = match known {
                _ if is_keyed => size_bytes,
                Some((_, size_bytes)) => *size_bytes,
                None => SEGMENT_HEADER_BYTES,
            };
            let mut piece = LogSegment {
                number: *number,
                file: Arc::clone(file),
                size_bytes,
                header: header.copied(),
                first_sequence: header.map_or(0, |header| header.first_sequence),
                end: from,
                damages: Vec::new(),
                durable: match known {
                    _ if is_keyed => u64::MAX,
                    Some((_, size_bytes)) => *size_bytes,
                    None => 0,
                },
            };
            if let Some(durable) = self.durable.get(number) {
                piece.durable = piece.durable.max(*durable);
            }
            if self.last_created_segment == *number {
                piece.durable = piece.durable.max(SEGMENT_HEADER_BYTES);
            }
            let first = piece.scan(store_id)?;
            if header.is_none() {
                let Some(first) = first else { continue };
                piece.first_sequence = first;
                // A segment without header that no other segment names is the output of a merge, with
                // records of any age, or a piece of the log whose successor lost its header too.
                if first <= last_sequence && !is_previous(*number) {
                    unlinked.push(piece);
                    continue;
                }
            }
            pieces.push(piece);
        }
        Ok(in_order(pieces, unlinked, meta))
    }

    /// Notes up to where the pieces were durable: damage before that is a loss.
    fn note_durable(&mut self, pieces: &[LogSegment], (last, end): PieceOffset) {
        for (place, piece) in pieces.iter().enumerate().take(last + 1) {
            let durable = if place < last { u64::MAX } else { end };
            self.note_durable_bytes(piece.number, durable);
        }
    }

    /// Unique numbers and sizes of the segments that the snapshot knows.
    fn known_sizes(&self, directory: &Directory, store_id: StoreId) -> BTreeMap<u32, (u64, u64)> {
        if !directory.names.iter().any(|name| name == SNAPSHOT_NAME) {
            return BTreeMap::new();
        }
        // Loading the snapshot reports its damage later.
        let state = Snapshot::open(self.disk, SNAPSHOT_NAME).ok();
        let state = state.and_then(|snapshot| CheckpointState::decode(snapshot.state()));
        let state = state.filter(|state| state.store_id == store_id);
        let segments = state.into_iter().flat_map(|state| state.segments);
        segments.map(|known| (known.number, (known.uid, known.size_bytes))).collect()
    }

    /// The first position at which records are missing that may never have been durable, while later ones
    /// exist. Notes missing segments that were durable as lost.
    #[expect(
        clippy::indexing_slicing,
        reason = "only a piece that has one before it misses the end of that one"
    )]
    fn gap(
        &mut self,
        pieces: &[LogSegment],
        durable: PieceOffset,
        meta: &Meta,
    ) -> Option<PieceOffset> {
        let settled_sequence = meta.retired_sequence.max(meta.opened_sequence);
        let mut first = None;
        for (place, piece) in pieces.iter().enumerate() {
            let before = pieces[..place].last();
            let found = match piece.misses(before, settled_sequence) {
                MissingPart::Segment(number) if (place, 0) < durable => {
                    self.note_loss(|| format!("{} is missing", log_name(number)));
                    None
                }
                MissingPart::Segment(_) | MissingPart::Header => Some((place, 0)),
                MissingPart::End(end) if (place - 1, end) < durable => {
                    let LogSegment { number, size_bytes, .. } = pieces[place - 1];
                    // Records that exist and cannot be read are reported as damage elsewhere.
                    let is_cut = !pieces[place - 1].reaches(piece);
                    if is_cut && piece.first_sequence >= settled_sequence {
                        let name = log_name(number);
                        self.note_loss(|| format!("{name} was cut to {size_bytes} bytes"));
                    }
                    None
                }
                MissingPart::End(end) => Some((place - 1, end)),
                MissingPart::Nothing | MissingPart::Unknown => None,
            };
            let damages = piece.damages.iter().map(|damage| (place, damage.start));
            let gaps = found.into_iter().chain(damages);
            first = first.or_else(|| gaps.filter(|at| *at >= durable).min());
        }
        first
    }
}

/// The pieces in the order of the log, including those `unlinked` pieces that may belong to it. An unlinked
/// piece has no header, and no other piece names it.
fn in_order(
    mut pieces: Vec<LogSegment>,
    unlinked: Vec<LogSegment>,
    meta: &Meta,
) -> Vec<LogSegment> {
    pieces.sort_by_key(|piece| piece.first_sequence);
    for piece in pieces.iter_mut().filter(|piece| piece.first_sequence < meta.opened_sequence) {
        piece.durable = u64::MAX;
    }
    // If an unlinked piece is the output of a merge, its records are copies whose originals still exist,
    // because a durable merge would have a key file. So unlinked pieces matter only after the durable part.
    let durable = match durable_end(&pieces) {
        // Nothing is known to be durable, not even what was written before the first piece.
        (_, 0) => 0,
        (place, _) => pieces.get(place).map_or(0, |piece| piece.first_sequence),
    };
    let durable = durable.max(meta.opened_sequence.saturating_sub(1));
    pieces.extend(unlinked.into_iter().filter(|piece| piece.first_sequence > durable));
    pieces.sort_by_key(|piece| piece.first_sequence);
    pieces
}

/// The position up to which the log was certainly durable.
fn durable_end(pieces: &[LogSegment]) -> PieceOffset {
    let durable = (0..).zip(pieces).filter(|(_, piece)| piece.durable > 0);
    durable.map(|(place, piece)| (place, piece.durable)).max().unwrap_or((0, 0))
}

/// The missing part before a piece of the log.
enum MissingPart {
    Nothing,
    /// The piece does not name its predecessor, or the predecessor need not exist.
    Unknown,
    /// The whole segment before the piece, by its number.
    Segment(u32),
    /// The records of the segment before the piece from this offset on.
    End(u64),
    /// The header of the piece, which would name its predecessor.
    Header,
}

impl LogSegment {
    /// Reads the records. Returns the sequence of the first one.
    fn scan(&mut self, store_id: StoreId) -> Result<Option<u64>, StoreError> {
        if self.end >= self.size_bytes {
            return Ok(None);
        }
        let mut first = None;
        let mut scan = Scan::new(Arc::clone(&self.file), store_id, self.number, self.end)?;
        while let Some(record) = scan.next()? {
            let (offset, header) = (record.offset, record.header);
            first.get_or_insert(header.sequence);
            if let Some(durable) = header.synced.end(offset) {
                self.durable = self.durable.max(durable);
            }
            self.end = scan.offset();
        }
        self.damages = scan.damages().to_vec();
        Ok(first)
    }

    /// True if the header of the next piece says that the records of this one end at `end`.
    fn is_followed(&self, next: Option<&Self>) -> bool {
        let previous = next.and_then(|next| next.header).and_then(|header| header.previous);
        previous.is_some_and(|previous| {
            previous.number == self.number && previous.end_bytes == self.end
        })
    }

    /// True if the file is at least as long as the header of the next piece says.
    fn reaches(&self, next: &Self) -> bool {
        let previous = next.header.and_then(|header| header.previous);
        previous.is_none_or(|previous| previous.end_bytes <= self.size_bytes)
    }

    /// The part that is missing before this piece; `before` is its predecessor in order.
    fn misses(&self, before: Option<&Self>, settled_sequence: u64) -> MissingPart {
        let Some(header) = self.header else { return MissingPart::Header };
        let Some(previous) = header.previous else { return MissingPart::Unknown };
        match before.filter(|before| before.number == previous.number) {
            Some(before) if before.end < previous.end_bytes => MissingPart::End(before.end),
            Some(_) => MissingPart::Nothing,
            // A merge may have replaced it, or an earlier start has reported it.
            None if self.first_sequence < settled_sequence => MissingPart::Unknown,
            None => MissingPart::Segment(previous.number),
        }
    }
}
