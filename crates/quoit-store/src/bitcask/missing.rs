//! Detection of lost durable records, by comparing the segments with the store's notes about them.

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
    /// Compares the segments with their digest from the last clean stop.
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

    /// Checks that the last segment that `STORE` names as created exists. Neither a key file nor the
    /// snapshot may know it yet.
    pub(super) fn check_begun_segment(&mut self, last: &Meta, candidates: &[SegmentFile]) {
        let number = last.last_created_segment;
        if number != 0 && !candidates.iter().any(|candidate| candidate.number == number) {
            self.note_loss(|| format!("{} is missing", log_name(number)));
        }
    }

    /// Checks that the active segment has the length that was synced. If the note is old and names a
    /// segment that a merge has replaced since, there is nothing to check.
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

    /// Finds key files whose segments are missing. A key file without a segment proves a loss: retired
    /// segments were removed with their key files before, and the removal of an empty segment also removes
    /// its key file.
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

    /// Notes that durable records were lost. The first reason is reported.
    pub(super) fn note_loss(&mut self, reason: impl FnOnce() -> String) {
        if planted!(OverlooksLosses) {
            return;
        }
        self.loss.get_or_insert_with(|| RecordLoss { reason: reason() });
    }

    /// Removes the evidence of a loss that `STORE` has noted by now, so that later starts do not find the
    /// same loss again.
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
