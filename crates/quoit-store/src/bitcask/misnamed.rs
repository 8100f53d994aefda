//! Segments whose files have wrong names, because an operator moved or restored them by hand.
//!
//! The header of a segment has the number under which it was begun, and the checksum of each record depends
//! on that number, so no record can be read under another name. This step renames such files back, if the
//! right names are free or taken by other misnamed segments. Each file is first renamed to its right name
//! with the suffix `.moved`, so that a crash in between loses nothing.

use super::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::error::StoreError;
use crate::file_names::META_NAME;
use crate::file_names::{log_name, number_of_log};
use crate::store_file::MetaFile;
use quoit_model::store_opening::StoreId;
use quoit_number::index;
use quoit_seam::Disk;
use std::collections::{BTreeMap, BTreeSet};

const MOVED_SUFFIX: &str = ".moved";

/// Renames segments to the names under which they were begun.
///
/// # Errors
///
/// If the disk fails, or a newer release wrote the file `STORE`.
pub(super) fn restore_segment_names(disk: &dyn Disk) -> Result<(), StoreError> {
    let names = disk.list()?;
    if !names.iter().any(|name| name == META_NAME) {
        return Ok(());
    }
    let Some(meta) = MetaFile::open(disk, &names)? else { return Ok(()) };
    let misnamed = misnamed(disk, &names, meta.meta().store_id)?;
    for (number, begun_as) in &misnamed {
        let (from, to) = (log_name(*number), log_name(*begun_as));
        tracing::warn!(from, to, "a segment is named as it was begun");
        disk.rename(&from, &(to + MOVED_SUFFIX))?;
    }
    let names = if misnamed.is_empty() { names } else { disk.list()? };
    for moved in names.iter().filter(|name| name.ends_with(MOVED_SUFFIX)) {
        let name = moved.trim_end_matches(MOVED_SUFFIX);
        if number_of_log(name).is_some() && !names.iter().any(|other| other == name) {
            disk.rename(moved, name)?;
            disk.sync_directory()?;
        }
    }
    Ok(())
}

/// Misnamed segments of a store that can be renamed: current number to right number.
fn misnamed(
    disk: &dyn Disk,
    names: &[String],
    store_id: StoreId,
) -> Result<BTreeMap<u32, u32>, StoreError> {
    let mut misnamed = BTreeMap::new();
    for number in names.iter().filter_map(|name| number_of_log(name)) {
        let mut bytes = [0; index(SEGMENT_HEADER_BYTES)];
        let count = disk.open(&log_name(number), false)?.read_at(&mut bytes, 0)?;
        if let Ok(header) = SegmentHeader::decode(bytes.split_at(count).0)
            && header.store_id == store_id
            && header.number != number
        {
            misnamed.insert(number, header.number);
        }
    }
    let has = |name: String| names.contains(&name);
    loop {
        let mut wanted = BTreeSet::new();
        let stuck = misnamed.iter().find(|(_, begun_as)| {
            let name = log_name(**begun_as);
            // If two files claim one name, the second keeps its name.
            !wanted.insert(**begun_as)
                || has(format!("{name}{MOVED_SUFFIX}"))
                || has(name) && !misnamed.contains_key(begun_as)
        });
        let Some(stuck) = stuck.map(|(number, _)| *number) else { return Ok(misnamed) };
        misnamed.remove(&stuck);
    }
}
