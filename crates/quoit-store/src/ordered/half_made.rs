//! A log-structured merge store whose making was cut short.
//!
//! `fjall` makes a store step by step, and its version marker last; what comes after that it finishes by
//! itself when it opens the store again. A process that is killed before leaves files that it refuses to
//! open, and to make anew. There is nothing in them, so they are removed, and the store is made again.

use crate::error::StoreError;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// The marker, and how many bytes it has when it is whole.
const MARKER: &str = "version";
const MARKER_BYTES: u64 = 4;

/// What else there is before the marker: a lock, a directory and the first journal, which is of zero bytes
/// until something is written to it.
const LOCK: &str = "lock";
const KEYSPACES: &str = "keyspaces";
const JOURNAL: &str = "0.jnl";

/// As many bytes of a journal as tell whether something was written to it.
const JOURNAL_FRONT_BYTES: u64 = 4_096;

/// Removes a store whose making was cut short. Nobody else may have the directory that it is in.
///
/// # Errors
///
/// When the disk refuses, and when there is no whole marker beside what may be data: nothing is removed then.
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
        let reason = "it is missing or cut short, and there are data beside it; put it back from a copy, or \
                      move the engine's directory away and let the node get its data from the others";
        return Err(StoreError::Corrupt { path, offset: 0, reason: reason.to_owned() });
    }
    tracing::warn!(path = %path.display(), "the making of a store was cut short; it is made again");
    fs::remove_dir_all(path).map_err(failed("remove"))
}

fn is_whole(marker: &Path) -> bool {
    fs::metadata(marker).is_ok_and(|found| found.len() >= MARKER_BYTES)
}

/// Whether there is nothing but what there is before the marker.
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
