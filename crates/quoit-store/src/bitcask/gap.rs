//! Cuts the log off where a power failure has taken a part of it and left later records.
//!
//! Any part that no sync had covered may be lost. Were later records kept, changes that build on each
//! other would be torn apart: a page of a large set would be gone, and the root that tells of it there. So
//! after a stop that was not in good order the log ends before the first gap, as if the machine had stopped
//! then. Nothing behind it was acknowledged as durable: a sync covers all that was written before it.
//!
//! A gap is told from damage of what was durable by what records and segments say of the log before them
//! ([`SyncedBefore`], [`SegmentHeader::previous`]), by key files, by the snapshot, and by `STORE`. Damage
//! costs the records that it hits, and nothing is cut off. Nor is anything that releases before version 4 of
//! `STORE` wrote, whose records say nothing.
//!
//! [`SyncedBefore`]: super::synced::SyncedBefore

use super::candidates::SegmentFile;
use super::checkpoint::CheckpointState;
use super::directory::{Directory, SNAPSHOT_NAME};
use super::open::LogOpening;
use super::planted;
use super::scan::{Damage, Scan};
use super::segment::{Origin, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::error::StoreError;
use crate::file_names::log_name;
use crate::snapshot::Snapshot;
use crate::store_file::Meta;
use quoit_planted::PlantedFault;
use quoit_seam::DiskFile;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A segment of the log, in the order in which they were written.
struct LogPiece {
    number: u32,
    file: Arc<dyn DiskFile>,
    size_bytes: u64,
    /// `None` when the header is damaged.
    header: Option<SegmentHeader>,
    first_sequence: u64,
    /// Where the last usable record ends.
    end: u64,
    /// Stretches without usable records before `end`.
    damages: Vec<Damage>,
    /// Up to where it was durable, as far as it is known; 0 = nothing is, `u64::MAX` = all of it.
    durable: u64,
}

/// A place of the log: a piece, and an offset in it. Offset 0 stands for what should be before the piece.
type At = (usize, u64);

impl LogOpening<'_> {
    /// Cuts the log off before the first gap, and writes off that were cut short. Whether anything was cut
    /// off.
    pub(super) fn cut_at_gap(
        &mut self,
        directory: &Directory,
        candidates: &[SegmentFile],
        meta: &Meta,
    ) -> Result<bool, StoreError> {
        if self.report.clean || !self.has_marks || planted::has(PlantedFault::IgnoresGaps) {
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
            // The last ones first: were the machine to stop meanwhile, the gap would be found again.
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
            // A write that was cut short. Were it left, a later start could take it for damage.
            self.report.torn_bytes += piece.size_bytes - piece.end;
            piece.file.truncate(piece.end)?;
            piece.file.sync()?;
            is_cut = true;
        }
        Ok(is_cut)
    }

    /// The pieces of the log. Only what may have a gap is read: no segment with a key file, and nothing that
    /// the snapshot knows.
    fn pieces(
        &self,
        directory: &Directory,
        candidates: &[SegmentFile],
        meta: &Meta,
    ) -> Result<Vec<LogPiece>, StoreError> {
        let store_id = self.report.store_id;
        let known = self.known_sizes(directory, store_id);
        let is_own = |header: &&SegmentHeader| header.store_id == store_id;
        let headers =
            || candidates.iter().filter_map(|each| each.header.as_ref().ok()).filter(is_own);
        let in_log = || headers().filter(|header| header.origin == Origin::Log);
        let last_sequence = in_log().map(|header| header.first_sequence).max().unwrap_or(0);
        let is_previous = |number| {
            headers()
                .any(|header| header.previous.is_some_and(|previous| previous.number == number))
        };
        let (mut pieces, mut unlinked) = (Vec::new(), Vec::new());
        for SegmentFile { number, file, header } in candidates {
            let header = header.as_ref().ok();
            if header.is_some_and(|header| !is_own(&header) || header.origin != Origin::Log) {
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
            let mut piece = LogPiece {
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
            if self.begun_segment == *number {
                piece.durable = piece.durable.max(SEGMENT_HEADER_BYTES);
            }
            let first = piece.scan(store_id)?;
            if header.is_none() {
                let Some(first) = first else { continue };
                piece.first_sequence = first;
                // A merge has records of any age, and is not linked. So is a piece of the log whose next one
                // lost its header too.
                if first <= last_sequence && !is_previous(*number) {
                    unlinked.push(piece);
                    continue;
                }
            }
            pieces.push(piece);
        }
        Ok(in_order(pieces, unlinked, meta))
    }

    /// Notes what of the pieces was durable: damage before the end of that is a loss.
    fn note_durable(&mut self, pieces: &[LogPiece], (last, end): At) {
        for (place, piece) in pieces.iter().enumerate().take(last + 1) {
            let durable = if place < last { u64::MAX } else { end };
            self.note_durable_bytes(piece.number, durable);
        }
    }

    /// Sizes of the segments that the snapshot knows, with what tells them apart.
    fn known_sizes(&self, directory: &Directory, store_id: u64) -> BTreeMap<u32, (u64, u64)> {
        if !directory.names.iter().any(|name| name == SNAPSHOT_NAME) {
            return BTreeMap::new();
        }
        // A damaged one is told of when it is loaded.
        let state = Snapshot::open(self.disk, SNAPSHOT_NAME).ok();
        let state = state.and_then(|snapshot| CheckpointState::decode(snapshot.state()));
        let state = state.filter(|state| state.store_id == store_id);
        let segments = state.into_iter().flat_map(|state| state.segments);
        segments.map(|known| (known.number, (known.uid, known.size_bytes))).collect()
    }

    /// The first place from which on records are missing that may never have been durable, and later ones are
    /// there. Segments that are missing and were durable are noted as lost.
    fn gap(&mut self, pieces: &[LogPiece], durable: At, meta: &Meta) -> Option<At> {
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
                    let LogPiece { number, size_bytes, .. } = pieces[place - 1];
                    // What is there and can't be read is damaged.
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

/// The pieces in the order of the log, with those of the pieces without a header, and that no other one
/// names, which may be of the log.
fn in_order(mut pieces: Vec<LogPiece>, unlinked: Vec<LogPiece>, meta: &Meta) -> Vec<LogPiece> {
    pieces.sort_by_key(|piece| piece.first_sequence);
    for piece in pieces.iter_mut().filter(|piece| piece.first_sequence < meta.opened_sequence) {
        piece.durable = u64::MAX;
    }
    // A merge that was durable has its key file. One that was not has copies, whose originals are there.
    let durable = pieces.get(durable_end(&pieces).0).map_or(0, |piece| piece.first_sequence);
    let durable = durable.max(meta.opened_sequence.saturating_sub(1));
    pieces.extend(unlinked.into_iter().filter(|piece| piece.first_sequence > durable));
    pieces.sort_by_key(|piece| piece.first_sequence);
    pieces
}

/// Up to where the log was durable for certain.
fn durable_end(pieces: &[LogPiece]) -> At {
    let durable = (0..).zip(pieces).filter(|(_, piece)| piece.durable > 0);
    durable.map(|(place, piece)| (place, piece.durable)).max().unwrap_or((0, 0))
}

/// The part that is missing before a piece of the log.
enum MissingPart {
    Nothing,
    /// The segment before says nothing, or need not be there.
    Unknown,
    /// The whole segment before.
    Segment(u32),
    /// The records of the segment before that should follow after this offset.
    End(u64),
    /// The header of the piece, which tells what is before it.
    Header,
}

impl LogPiece {
    /// Reads the records. The sequence of the first.
    fn scan(&mut self, store_id: u64) -> Result<Option<u64>, StoreError> {
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

    /// Whether another piece says that it follows where the records of this one end.
    fn is_followed(&self, next: Option<&Self>) -> bool {
        let previous = next.and_then(|next| next.header).and_then(|header| header.previous);
        previous.is_some_and(|previous| {
            previous.number == self.number && previous.end_bytes == self.end
        })
    }

    /// Whether the file is as long as the next piece says.
    fn reaches(&self, next: &Self) -> bool {
        let previous = next.header.and_then(|header| header.previous);
        previous.is_none_or(|previous| previous.end_bytes <= self.size_bytes)
    }

    /// The part that is missing before this piece, which follows another one.
    fn misses(&self, before: Option<&Self>, settled_sequence: u64) -> MissingPart {
        let Some(header) = self.header else { return MissingPart::Header };
        let Some(previous) = header.previous else { return MissingPart::Unknown };
        match before.filter(|before| before.number == previous.number) {
            Some(before) if before.end < previous.end_bytes => MissingPart::End(before.end),
            Some(_) => MissingPart::Nothing,
            // A merge may have replaced it, or an earlier start has missed it.
            None if self.first_sequence < settled_sequence => MissingPart::Unknown,
            None => MissingPart::Segment(previous.number),
        }
    }
}
