//! The ready file, which tells scripts that a node or cluster serves, and at which addresses.

use anyhow::{Context, Result};
use serde_json::Value;
use std::io::ErrorKind;
use std::path::Path;

/// Removes the file of a killed process, whose addresses are out of date.
///
/// # Errors
///
/// If the file exists and can't be removed.
pub fn remove_stale(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(fault) if fault.kind() != ErrorKind::NotFound => Err(fault)
            .with_context(|| format!("can't remove the old ready file {}", path.display())),
        _ => Ok(()),
    }
}

/// Writes the file atomically, so that a waiting program never reads a part of it.
///
/// # Errors
///
/// If the file can't be written.
pub fn write(path: &Path, record: &Value) -> Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, format!("{record}\n"))
        .and_then(|()| std::fs::rename(&partial, path))
        .with_context(|| format!("can't write the ready file {}", path.display()))
}

/// Removes the file when the node stops.
pub fn remove(path: &Path) {
    // A missing file is not an error.
    let _ = std::fs::remove_file(path);
}
