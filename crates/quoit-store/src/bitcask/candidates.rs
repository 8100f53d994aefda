//! Files of a directory that are named like segments, before they are checked.

use super::directory::Directory;
use super::log::LogStart;
use super::report::{DigestedSegment, SegmentsDigest};
use super::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::error::StoreError;
use crate::file_names::log_name;
use quoit_number::index;
use quoit_seam::{Disk, DiskFile};
use std::sync::Arc;

/// A file that is named like a segment, with its decoded header.
pub(super) struct SegmentFile {
    pub(super) number: u32,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) header: Result<SegmentHeader, String>,
}

/// Opens the files that are named like segments and decodes their headers.
pub(super) fn candidates(
    disk: &dyn Disk,
    directory: &Directory,
) -> Result<Vec<SegmentFile>, StoreError> {
    let mut candidates = Vec::new();
    for &number in &directory.segments {
        let file = disk.open(&log_name(number), false)?;
        let mut bytes = [0; index(SEGMENT_HEADER_BYTES)];
        let count = file.read_at(&mut bytes, 0)?;
        let header = SegmentHeader::decode(bytes.split_at(count).0).and_then(|header| {
            let named = header.number == number;
            named.then_some(header).ok_or("the segment was begun under another number".into())
        });
        if let Err(reason) = &header
            && SegmentHeader::is_of_newer_version(&bytes)
        {
            let path = format!("{}/{}", disk.path(), log_name(number));
            return Err(StoreError::Corrupt { path, offset: 8, reason: reason.clone() });
        }
        candidates.push(SegmentFile { number, file, header });
    }
    Ok(candidates)
}

pub(super) fn segments_digest(candidates: &[SegmentFile]) -> Result<u64, StoreError> {
    let mut digest = SegmentsDigest::default();
    for SegmentFile { number, file, header } in candidates {
        let uid = header.as_ref().map_or(0, SegmentHeader::uid);
        let size_bytes = file.size_bytes()?;
        // A segment without records may be removed, or may never have been durable.
        if size_bytes > SEGMENT_HEADER_BYTES {
            digest.add(DigestedSegment { number: *number, uid, size_bytes });
        }
    }
    Ok(digest.get())
}

/// The digest of the segments in a directory, as the next start will compute it.
pub(super) fn closed_segments(disk: &dyn Disk, retiring: &[u32]) -> Result<u64, StoreError> {
    disk.sync_directory()?;
    let mut directory = Directory::of(disk.list()?);
    directory.segments.retain(|number| !retiring.contains(number));
    segments_digest(&candidates(disk, &directory)?)
}

impl LogStart {
    /// The position after these segments, where the log continues.
    pub(super) fn after(candidates: &[SegmentFile]) -> Self {
        let headers = candidates.iter().filter_map(|candidate| candidate.header.as_ref().ok());
        let last = headers.max_by_key(|header| header.first_sequence);
        Self {
            last_number: last.map_or(0, |last| last.number),
            next_sequence: last.map_or(1, |last| last.first_sequence + 1),
        }
    }
}

/// True if the header of a file may be a header of ours that never became durable: the file ends within the
/// header, or is all zeros there. Any other invalid header is foreign or damaged.
pub(super) fn may_be_torn_header(file: &dyn DiskFile) -> Result<bool, StoreError> {
    let mut bytes = [0; index(SEGMENT_HEADER_BYTES)];
    let count = file.read_at(&mut bytes, 0)?;
    let (read, missing) = bytes.split_at(count);
    let is_blank = read.iter().all(|byte| *byte == 0);
    let is_cut_off = !missing.is_empty() && SegmentHeader::may_start_with(read);
    Ok(is_blank || is_cut_off)
}
