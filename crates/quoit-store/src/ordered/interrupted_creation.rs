//! Stores whose creation was interrupted.
//!
//! `fjall` creates a store step by step, with the version marker as the last step that matters: it finishes
//! later steps itself when it opens the store again. `redb` extends its file to its size, and writes last
//! the bytes by which it recognizes the file. A process that is killed before that leaves files that
//! `fjall` or `redb` neither opens nor creates again. They contain no data, so they are removed, and the
//! store is created again.

use crate::error::StoreError;
use quoit_seam::DiskFile;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Name of the marker, and its size in bytes.
const MARKER: &str = "version";
const MARKER_BYTES: u64 = 4;

/// Files that are created before the marker: a lock, a directory, and the first journal, which has only
/// zeros until a batch is written to it.
const LOCK: &str = "lock";
const KEYSPACES: &str = "keyspaces";
const JOURNAL: &str = "0.jnl";

/// Number of bytes at the start of a journal that show if a batch was written to it.
const JOURNAL_FRONT_BYTES: u64 = 4_096;

/// Number of bytes at the start of a `redb` file by which `redb` recognizes it, and size of the header that
/// begins with them.
const KNOWN_BY_BYTES: usize = 9;
const HEADER_BYTES: u64 = 320;

/// Number of bytes of a `redb` file that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Removes a log-structured merge store whose creation was interrupted. No other process may have the
/// directory above it open.
///
/// # Errors
///
/// If the disk fails, or if the marker is missing or cut off beside files that may be data. Nothing is
/// removed then.
pub(super) fn clear(path: &Path) -> Result<(), StoreError> {
    let failed = |action| {
        move |error: io::Error| StoreError::Io {
            action,
            path: path.display().to_string(),
            reason: error.to_string(),
        }
    };
    if is_whole(&path.join(MARKER)) || !path.exists() {
        return Ok(());
    }
    if !is_empty(path).map_err(failed("read"))? {
        let path = path.join(MARKER).display().to_string();
        let reason = "it is missing or truncated, although the directory has data; put it back from a copy \
                      if there is one";
        return Err(StoreError::Corrupt { path, offset: 0, reason: reason.to_owned() });
    }
    tracing::warn!(path = %path.display(), "the making of a store was cut short; it is made again");
    fs::remove_dir_all(path).map_err(failed("remove"))
}

fn is_whole(marker: &Path) -> bool {
    fs::metadata(marker).is_ok_and(|found| found.len() >= MARKER_BYTES)
}

/// True if there are only files that are created before the marker.
fn is_empty(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let is_empty = match entry.file_name().to_str() {
            Some(LOCK | MARKER) => true,
            Some(KEYSPACES) => fs::read_dir(entry.path())?.next().is_none(),
            Some(JOURNAL) => is_unwritten(&entry.path())?,
            _ => false,
        };
        if !is_empty {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_unwritten(journal: &Path) -> io::Result<bool> {
    let mut front = Vec::new();
    File::open(journal)?.take(JOURNAL_FRONT_BYTES).read_to_end(&mut front)?;
    Ok(front.iter().all(|byte| *byte == 0))
}

/// Empties a `redb` file whose creation was interrupted. Returns true if it was. Costs a read of a few
/// bytes.
///
/// # Errors
///
/// If the disk fails.
pub(super) fn clear_tree(file: &dyn DiskFile, path: &str) -> Result<bool, StoreError> {
    if file.size_bytes()? == 0 || !is_unmade(file)? {
        return Ok(false);
    }
    tracing::warn!(path, "the making of a store was cut short; it is made again");
    file.truncate(0)?;
    Ok(true)
}

/// True if the file has at most a header without its first bytes.
fn is_unmade(file: &dyn DiskFile) -> Result<bool, StoreError> {
    let mut front = [0; KNOWN_BY_BYTES];
    file.read_at(&mut front, 0)?;
    if front != [0; KNOWN_BY_BYTES] {
        return Ok(false);
    }
    let (mut piece, mut offset) = (vec![0; PIECE_BYTES], HEADER_BYTES);
    loop {
        let count = file.read_at(&mut piece, offset)?;
        if piece.iter().take(count).any(|byte| *byte != 0) {
            return Ok(false);
        }
        if count == 0 {
            return Ok(true);
        }
        offset += count as u64;
    }
}
