//! Identity of a store, which lasts over restarts.

use crate::error::StoreError;
use crate::file_names::META_NAME;
use crate::store_file::{Meta, MetaFile};
use quoit_seam::Disk;

/// The opened file that says who a store is.
pub(crate) struct OpenedIdentity {
    pub(crate) meta: MetaFile,
    /// Whether the store was made new.
    pub(crate) created: bool,
    /// Whether it was closed in good order (also true of a new one).
    pub(crate) clean: bool,
}

/// Reads or makes the file that says who the store is, and begins a new incarnation unless the last one ended
/// in good order: events of it may have been lost.
pub(crate) fn open(disk: &dyn Disk, entropy: u64) -> Result<OpenedIdentity, StoreError> {
    let names = disk.list()?;
    if let Some(mut meta) = MetaFile::open(disk, &names)? {
        let last = meta.meta().clone();
        let clean = last.clean;
        let incarnation = last.incarnation + u64::from(!clean);
        meta.write(Meta { clean: false, incarnation, ..last })?;
        return Ok(OpenedIdentity { meta, created: false, clean });
    }
    let exists = names.iter().any(|name| name == META_NAME);
    if exists {
        // Damaged: who the store was is lost, so it becomes another one, which no event belongs to.
        MetaFile::check_overwritable(disk)?;
        tracing::warn!(path = disk.path(), "the file {META_NAME} is damaged and is made again");
    }
    let made = Meta { store_id: entropy, incarnation: 1, ..Meta::default() };
    let meta = MetaFile::create(disk, exists, made)?;
    Ok(OpenedIdentity { meta, created: !exists, clean: !exists })
}
