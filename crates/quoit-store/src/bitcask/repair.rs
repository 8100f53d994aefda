//! Rewrites a damaged key file from the records of its segment.

use super::key_facts::note_key;
use super::keys::ActiveKeys;
use super::scan::Scan;
use super::segment::SEGMENT_HEADER_BYTES;
use super::store::LogStore;
use crate::error::StoreError;
use crate::file_names::keys_name;
use std::sync::Arc;

/// Maximum number of key files that one listing has rewritten.
const REPAIRED_MAX: usize = 16;

impl LogStore {
    /// Runs a listing. Repeats it after a key file turned out to be damaged and was rewritten.
    pub(super) fn repairing<T>(
        &self,
        mut list: impl FnMut() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        for _ in 0..REPAIRED_MAX {
            match list() {
                Err(error) if self.repair(&error) => {}
                listed => return listed,
            }
        }
        list()
    }

    /// Rewrites the key file that the error names as damaged. Returns false if the damage is elsewhere, or
    /// if the key file cannot be rewritten because records that the index refers to are damaged as well:
    /// their keys would be missing.
    pub(super) fn repair(&self, error: &StoreError) -> bool {
        let StoreError::Corrupt { path, .. } = error else {
            return false;
        };
        let numbers: Vec<u32> = self.key_files.lock().keys().copied().collect();
        let is_of = |number: &u32| *path == format!("{}/{}", self.disk.path(), keys_name(*number));
        let Some(number) = numbers.into_iter().find(is_of) else {
            return false;
        };
        self.note_damage(error);
        match self.write_keys_again(number) {
            Ok(is_written) => is_written,
            Err(error) => {
                tracing::warn!(%error, "a damaged key file could not be written again");
                false
            }
        }
    }

    fn write_keys_again(&self, number: u32) -> Result<bool, StoreError> {
        let _one_at_a_time = self.sealing.lock();
        let table = self.table.load_full();
        let Some(segment) = table.get(number) else {
            // A merge has removed the segment meanwhile.
            return Ok(true);
        };
        let keys = ActiveKeys::new(number);
        let file = Arc::clone(&segment.file);
        let mut scan = Scan::new(file, self.reader.store_id, number, SEGMENT_HEADER_BYTES)?;
        while let Some(record) = scan.next()? {
            note_key(&keys, record.key(), &record.header, record.offset);
        }
        if !self.records_within(segment, scan.damages()).is_empty() {
            return Ok(false);
        }
        let written = keys.write_file(&*self.disk)?;
        if let Some(known) = self.key_files.lock().get_mut(&number) {
            *known = written;
        }
        tracing::info!(segment = number, "a damaged key file was written again");
        Ok(true)
    }
}
