//! Creation of segment files.

use super::log::LogIdentity;
use super::recent::RecentWrites;
use super::segment::{
    PreviousSegment, Segment, SegmentHeader, SegmentOrigin, SegmentTable, next_number,
};
use crate::error::StoreError;
use crate::file_names::log_name;
use crate::index::Location;
use quoit_seam::{Clock, Disk};
use std::sync::Arc;

/// Creates segments of a store.
pub(super) struct SegmentCreator<'d> {
    pub(super) disk: &'d dyn Disk,
    pub(super) clock: &'d dyn Clock,
    /// Cache of recent writes of requests, if there is one.
    pub(super) recent: Option<&'d Arc<RecentWrites>>,
    pub(super) identity: LogIdentity,
}

impl SegmentCreator<'_> {
    /// Creates the file of a new segment with its header, under the first free number after `last_number`.
    ///
    /// # Errors
    ///
    /// If the disk is full or fails, or all numbers are taken. No file is left then.
    pub(super) fn segment(
        &self,
        table: &SegmentTable,
        last_number: u32,
        (origin, previous): (SegmentOrigin, Option<PreviousSegment>),
        first_sequence: u64,
    ) -> Result<Arc<Segment>, StoreError> {
        let names = self.disk.list()?;
        let taken = |number| table.get(number).is_some() || names.contains(&log_name(number));
        let number = next_number(last_number, taken, &self.disk.path())?;
        debug_assert!((1..=Location::SEGMENT_MAX).contains(&number), "0 stands for no segment");
        debug_assert!(
            previous.is_none_or(|previous| table.get(previous.number).is_some()),
            "a segment names one that readers find"
        );
        let name = log_name(number);
        let mut file = self.disk.open(&name, true)?;
        // A merge copies old records, which do not belong into the cache of recent writes.
        if let (Some(recent), SegmentOrigin::Log) = (self.recent, origin) {
            file = recent.watch(file);
        }
        let header = SegmentHeader {
            origin,
            number,
            store_id: self.identity.store_id,
            incarnation: self.identity.incarnation,
            first_sequence,
            created_unix_secs: self.clock.unix_secs(),
            previous,
        };
        if let Err(error) = file.write_at(&header.encode(), 0) {
            // Best effort: recovery also removes a segment that has no room for a record.
            self.disk.remove(&name).ok();
            return Err(error.into());
        }
        Ok(Arc::new(Segment::new(number, file, Some(&header))))
    }
}
