//! The file that tells scripts that something serves, and where.

use anyhow::{Context, Result};
use serde_json::Value;
use std::io::ErrorKind;
use std::path::Path;

/// Removes what a killed process has left: addresses at which no node answers.
pub(crate) fn remove_stale(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(fault) if fault.kind() != ErrorKind::NotFound => Err(fault)
            .with_context(|| format!("can't remove the old ready file {}", path.display())),
        _ => Ok(()),
    }
}

/// Writes the file. A program that waits for it never sees half of it.
pub(crate) fn write(path: &Path, record: &Value) -> Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, format!("{record}\n"))
        .and_then(|()| std::fs::rename(&partial, path))
        .with_context(|| format!("can't write the ready file {}", path.display()))
}

/// Removes the file when nothing serves any more.
pub(crate) fn remove(path: &Path) {
    // A file that somebody else has taken away already is as good.
    let _ = std::fs::remove_file(path);
}
