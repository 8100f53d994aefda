//! The steps of a conversion before and after the copying.

use super::error::ConvertError;
use super::state::{ConversionState, StartedConversion};
use crate::error::StoreError;
use crate::file_names::META_NAME;
use crate::marker::{self, UNMARKED_ENGINE};
use crate::store_file::{Meta, MetaFile};
use quoit_model::hash::{Identity, RingSize};
use quoit_model::store_opening::StoreId;
use quoit_seam::{Disk, RealDisk};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the directory of a conversion, in the base directory.
const WORK: &str = "converting";
/// Name in it of the new engine's data, until that is complete.
const NEW: &str = "new";
/// Name in it of the old engine's data, until that is removed.
const OLD: &str = "old";

/// A conversion. See the module's documentation.
///
/// The caller keeps other processes away from the base directory meanwhile.
#[derive(Debug)]
pub struct Conversion {
    base: PathBuf,
    pub(super) ring_size: RingSize,
    pub(super) state: ConversionState,
}

/// The conversion that has begun in a base directory; `None` if there is none.
///
/// # Errors
///
/// If the disk fails, or the state file is damaged or of a newer release.
pub fn started_conversion(base: &Path) -> Result<Option<StartedConversion>, StoreError> {
    Ok(ConversionState::load(&base.join(WORK))?.map(|state| state.started))
}

fn io_error(action: &'static str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io { action, path: path.display().to_string(), reason: error.to_string() }
}

fn remove_directory(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", path, &error))
        }
        _ => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).map_err(|error| io_error("rename", from, &error))
}

/// Names of the entries of a directory; empty if the directory does not exist.
fn names_in(path: &Path) -> Result<Vec<String>, StoreError> {
    if path.exists() { Ok(RealDisk::open(path)?.list()?) } else { Ok(Vec::new()) }
}

/// True if a name in the directory of a conversion belongs to the conversion.
fn is_own(name: &str) -> bool {
    [NEW, OLD].contains(&name) || ConversionState::is_name(name)
}

/// Removes a conversion's files from its directory, and the directory unless it has other files.
fn remove_work(work: &Path) -> Result<(), StoreError> {
    remove_directory(&work.join(NEW))?;
    remove_directory(&work.join(OLD))?;
    let files = names_in(work)?.into_iter().filter(|name| ConversionState::is_name(name));
    for name in files {
        RealDisk::open(work)?.remove(&name)?;
    }
    match fs::remove_dir(work) {
        Err(error)
            if ![io::ErrorKind::NotFound, io::ErrorKind::DirectoryNotEmpty]
                .contains(&error.kind()) =>
        {
            Err(io_error("remove", work, &error))
        }
        _ => Ok(()),
    }
}

fn sync(directory: &Path) -> Result<(), StoreError> {
    Ok(RealDisk::open(directory)?.sync_directory()?)
}

/// Reads the file `STORE` of an engine's directory.
pub(super) fn meta_of(directory: &Path) -> Result<(RealDisk, Option<MetaFile>), StoreError> {
    let disk = RealDisk::open(directory)?;
    let names = disk.list()?;
    let meta = MetaFile::open(&disk, &names)?;
    Ok((disk, meta))
}

/// Notes durably that one of several engines in `base` may have forgotten events, so that their common
/// store begins a new incarnation at its next opening. Does nothing if there is no store of several
/// engines: a single engine notes its losses in its own directory.
///
/// Only the opening of an engine reports its losses. A caller that opens one of several engines alone has
/// to note them here before it closes the engine cleanly.
///
/// # Errors
///
/// If the disk fails, or a newer release wrote the file `STORE`.
pub fn note_loss(base: &Path) -> Result<(), StoreError> {
    // An unreadable file makes it another store anyway.
    let Some(mut of_all) = meta_of(base)?.1 else { return Ok(()) };
    let last = of_all.meta().clone();
    if last.clean { of_all.write(Meta { clean: false, ..last }) } else { Ok(()) }
}

fn no_identity(directory: &Path) -> StoreError {
    StoreError::Corrupt {
        path: directory.join(META_NAME).display().to_string(),
        offset: 0,
        reason: "it does not say whose store this is".to_owned(),
    }
}

impl Conversion {
    /// Resumes the conversion in `base`, if there is one.
    ///
    /// # Errors
    ///
    /// As for [`started_conversion`].
    pub fn resume(base: &Path, ring_size: RingSize) -> Result<Option<Self>, ConvertError> {
        let state = ConversionState::load(&base.join(WORK))?;
        let base = base.to_owned();
        Ok(state.map(|state| Self { base, ring_size, state }))
    }

    /// Begins a conversion of an engine in a directory of `base`; the engine is open. Creates the new
    /// directory, with the same store's identity.
    ///
    /// # Errors
    ///
    /// If the new directory exists and has data, the directory of conversions has other files, or the disk
    /// fails.
    pub fn begin(
        base: &Path,
        ring_size: RingSize,
        started: StartedConversion,
    ) -> Result<Self, ConvertError> {
        let target = base.join(&started.new_name);
        if started.new_name != started.old_name && !names_in(&target)?.is_empty() {
            return Err(ConvertError::TargetExists { path: target.display().to_string() });
        }
        let work_path = base.join(WORK);
        if let Some(other) = names_in(&work_path)?.into_iter().find(|name| !is_own(name)) {
            return Err(ConvertError::WorkExists {
                path: work_path.join(other).display().to_string(),
            });
        }
        let (new_path, old_path) = (work_path.join(NEW), base.join(&started.old_name));
        // Remains of a conversion that was abandoned, or that a crash kept from being removed.
        remove_directory(&new_path)?;
        remove_directory(&work_path.join(OLD))?;
        let of_old = meta_of(&old_path)?.1.ok_or_else(|| no_identity(&old_path))?;
        let work = RealDisk::open(work_path)?;
        let new = RealDisk::open(&new_path)?;
        if started.to != UNMARKED_ENGINE {
            marker::write(&new, &started.to, ring_size)?;
        }
        // The rest of the old file is about the old engine's files.
        let old = of_old.meta();
        let of_new = Meta {
            clean: true,
            store_id: old.store_id,
            incarnation: old.incarnation,
            reserved_counter: old.reserved_counter,
            exported_counter: old.exported_counter,
            has_lost: old.has_lost,
            ..Meta::default()
        };
        MetaFile::create(&new, false, of_new)?;
        sync(base)?;
        let state = ConversionState {
            started,
            partition: 0,
            identity: Identity(0),
            record_count: 0,
            byte_count: 0,
            damaged_count: 0,
            lacks_records: false,
        };
        state.write(&work)?;
        Ok(Self { base: base.to_owned(), ring_size, state })
    }

    /// The conversion that has begun.
    #[must_use]
    pub const fn started(&self) -> &StartedConversion {
        &self.state.started
    }

    /// Path of the old data while it is valid.
    #[must_use]
    pub fn old_path(&self) -> PathBuf {
        self.base.join(&self.state.started.old_name)
    }

    /// Path of the new data until it is valid.
    #[must_use]
    pub fn new_path(&self) -> PathBuf {
        self.work().join(NEW)
    }

    /// Number of records that were copied so far.
    #[must_use]
    pub const fn record_count(&self) -> u64 {
        self.state.record_count
    }

    /// True if the new data lacks records that could not be read, in this run or an earlier one.
    #[must_use]
    pub const fn lacks_records(&self) -> bool {
        self.state.lacks_records
    }

    fn work(&self) -> PathBuf {
        self.base.join(WORK)
    }

    /// Fails if the directories belong to different stores: the file `STORE` of one was damaged since the
    /// conversion began, so that it got a new identity.
    pub(super) fn check_same_store(&self) -> Result<(), ConvertError> {
        let store_of = |path: PathBuf| -> Result<StoreId, StoreError> {
            let meta = meta_of(&path)?.1.ok_or_else(|| no_identity(&path))?;
            Ok(meta.meta().store_id)
        };
        if store_of(self.old_path())? == store_of(self.new_path())? {
            return Ok(());
        }
        let shown = |path: PathBuf| path.display().to_string();
        Err(ConvertError::OtherStore { old: shown(self.old_path()), new: shown(self.new_path()) })
    }

    /// Notes the progress durably.
    pub(super) fn note(&mut self, state: ConversionState) -> Result<(), ConvertError> {
        let place = |state: &ConversionState| (state.partition, state.identity);
        debug_assert!(place(&self.state) <= place(&state), "copying does not go back");
        let was_complete = self.state.started.is_complete;
        debug_assert!(!was_complete || state.started.is_complete, "new data that counts stays so");
        state.write(&RealDisk::open(self.work())?)?;
        self.state = state;
        Ok(())
    }

    /// Makes the new data the valid one. Both engines must be closed, and all records copied.
    ///
    /// The new store continues with the old one's incarnation and counters. If it lacks records, it begins
    /// a new incarnation, because the missing records may have events of this store that other nodes know.
    /// The store of several engines that it belongs to does the same.
    ///
    /// # Errors
    ///
    /// If the disk fails. The old data remains valid then.
    pub fn complete(&mut self) -> Result<(), ConvertError> {
        let of_old = meta_of(&self.old_path())?.1.ok_or_else(|| no_identity(&self.old_path()))?;
        let of_new = meta_of(&self.new_path())?.1;
        let mut of_new = of_new.ok_or_else(|| no_identity(&self.new_path()))?;
        let (old, new) = (of_old.meta().clone(), of_new.meta().clone());
        assert!(old.store_id == new.store_id, "copying has checked it");
        assert!(old.clean && new.clean, "both engines were closed in good order");
        if self.state.lacks_records {
            // This comes first: once the new data is valid, no other note shows that it lacks records.
            note_loss(&self.base)?;
        }
        of_new.write(Meta {
            // The new store began further incarnations if it was killed, but no events were made in them.
            incarnation: old.incarnation.max(new.incarnation) + u64::from(self.state.lacks_records),
            reserved_counter: old.reserved_counter.max(new.reserved_counter),
            exported_counter: old.exported_counter.max(new.exported_counter),
            has_lost: old.has_lost || new.has_lost || self.state.lacks_records,
            ..new
        })?;
        let started = StartedConversion { is_complete: true, ..self.state.started.clone() };
        self.note(ConversionState { started, ..self.state.clone() })
    }

    /// Puts the new directory in the place of the old one, and removes the old one.
    ///
    /// # Errors
    ///
    /// If the disk fails. The next call continues from there.
    ///
    /// # Panics
    ///
    /// If the new data is not valid yet.
    pub fn switch(self) -> Result<(), ConvertError> {
        while self.step()? {}
        Ok(())
    }

    /// Does the next step; returns false if there is none. Each step is durable before the next one.
    pub(super) fn step(&self) -> Result<bool, StoreError> {
        assert!(self.state.started.is_complete, "the old data still counts");
        let (old, new) = (self.old_path(), self.new_path());
        let (target, away) = (self.base.join(&self.state.started.new_name), self.work().join(OLD));
        if new.exists() {
            if old.exists() {
                rename(&old, &away)?;
            } else {
                // `target` does not exist or is an empty directory.
                rename(&new, &target)?;
            }
            sync(&self.work())?;
            sync(&self.base)?;
            return Ok(true);
        }
        if away.exists() {
            remove_directory(&away)?;
            sync(&self.work())?;
            return Ok(true);
        }
        let work = self.work();
        if ConversionState::load(&work)?.is_some() {
            ConversionState::remove(&RealDisk::open(&work)?)?;
            return Ok(true);
        }
        remove_work(&work)?;
        sync(&self.base)?;
        Ok(false)
    }

    /// Abandons the conversion. The old data is unchanged.
    ///
    /// # Errors
    ///
    /// If the new data is valid already, or the disk fails.
    pub fn abandon(self) -> Result<(), ConvertError> {
        if self.state.started.is_complete {
            return Err(ConvertError::TooLate);
        }
        // The file goes first, so that a half-removed conversion is not resumed.
        ConversionState::remove(&RealDisk::open(self.work())?)?;
        remove_work(&self.work())?;
        Ok(sync(&self.base)?)
    }
}
