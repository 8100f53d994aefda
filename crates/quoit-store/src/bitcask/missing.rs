//! Finds out that durable records are gone, from what the store noted about its segments beside them.

use super::candidates::{SegmentFile, segments_digest};
use super::directory::{Directory, SNAPSHOT_NAME};
use super::open::LogOpening;
use crate::error::StoreError;
use crate::file_names::{keys_name, log_name};
use crate::keyfile::KeyFile;
use crate::record_loss::RecordLoss;
use crate::store_file::{Meta, MetaFile};
use quoit_planted::planted;

impl LogOpening<'_> {
    /// Compares the segments with those of the last stop in good order.
    pub(super) fn check_closed_segments(
        &mut self,
        last: &Meta,
        candidates: &[SegmentFile],
    ) -> Result<(), StoreError> {
        if last.closed_segments == 0 {
            return Ok(());
        }
        if segments_digest(candidates)? != last.closed_segments {
            self.note_loss(|| {
                "segments are missing, cut or others than when the store was closed".to_owned()
            });
        }
        Ok(())
    }

    /// Looks for the last segment of which it is noted that it was made. It has no key file yet, and no
    /// snapshot need know it.
    pub(super) fn check_begun_segment(&mut self, last: &Meta, candidates: &[SegmentFile]) {
        let number = last.begun_segment;
        if number != 0 && !candidates.iter().any(|candidate| candidate.number == number) {
            self.note_loss(|| format!("{} is missing", log_name(number)));
        }
    }

    /// Holds the segment that was appended to against what a sync had covered of it. A note of an older time
    /// may name one that a merge has replaced since.
    pub(super) fn check_synced(
        &mut self,
        meta: &MetaFile,
        candidates: &[SegmentFile],
    ) -> Result<(), StoreError> {
        let Some((number, end)) = meta.synced()? else { return Ok(()) };
        let Some(segment) = candidates.iter().find(|candidate| candidate.number == number) else {
            return Ok(());
        };
        let size_bytes = segment.file.size_bytes()?;
        if size_bytes < end {
            let name = log_name(number);
            self.note_loss(|| format!("{name} was cut from {end} to {size_bytes} bytes"));
        }
        self.note_durable_bytes(number, end);
        Ok(())
    }

    /// Finds key files of segments that are gone: a segment is removed before its key file, and what a merge
    /// replaces was removed before.
    pub(super) fn find_orphaned_keys(&mut self, directory: &Directory) {
        for number in &directory.key_files {
            if directory.segments.binary_search(number).is_ok() {
                continue;
            }
            let keys = KeyFile::open(self.disk, &keys_name(*number));
            if keys.is_ok_and(|keys| keys.footer().entry_count > 0) {
                self.note_loss(|| format!("{} is missing", log_name(*number)));
                self.orphaned_keys.push(*number);
            }
        }
    }

    /// Notes that durable records are gone. The first reason is told.
    pub(super) fn note_loss(&mut self, reason: impl FnOnce() -> String) {
        if planted!(OverlooksLosses) {
            return;
        }
        self.loss.get_or_insert_with(|| RecordLoss { reason: reason() });
    }

    /// Removes what tells of a loss, which is noted by now: each loss is found once.
    pub(super) fn forget_evidence(&self) -> Result<(), StoreError> {
        for number in &self.orphaned_keys {
            self.remove_key_file(*number)?;
        }
        let has_snapshot = self.disk.list()?.iter().any(|name| name == SNAPSHOT_NAME);
        if has_snapshot && !self.report.from_snapshot {
            self.disk.remove(SNAPSHOT_NAME)?;
        }
        Ok(self.disk.sync_directory()?)
    }
}
