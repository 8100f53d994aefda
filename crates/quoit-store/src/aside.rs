//! Setting the directory of an engine aside, and replacing it by a salvaged one.
//!
//! No data is removed: the old directory is renamed to `NAME.set-aside-TIME` in the same parent directory.
//! A salvage has these steps:
//!
//! 1. It writes the new data in `NAME.salvaging`.
//! 2. When the data is complete, it creates the file `SALVAGED` in that directory.
//! 3. It renames the old directory to `NAME.set-aside-TIME`.
//! 4. It renames `NAME.salvaging` to `NAME` and removes `SALVAGED`.
//!
//! A crash before step 3 leaves the old data in place. After a crash between steps 3 and 4 no directory has
//! the name: a node refuses to start ([`needs_salvage_to_finish`]), and the next salvage does step 4.

use crate::error::StoreError;
use crate::marker::{self, UNMARKED_ENGINE};
use crate::output::Output;
use crate::store_file::{Meta, MetaFile};
use quoit_model::hash::RingSize;
use quoit_seam::{Disk, DiskLock, RealDisk};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Part of a directory's name between the original name and the time when it was set aside.
const ASIDE_INFIX: &str = ".set-aside-";

/// Suffix of a directory's name while a salvage fills it.
const WORK_SUFFIX: &str = ".salvaging";

/// Name of the file that marks a salvaged directory as complete.
const COMPLETE_NAME: &str = "SALVAGED";

/// True if a directory of this name was set aside, or is being filled by a salvage. Engines must not open
/// it.
#[must_use]
pub fn is_set_aside(name: &str) -> bool {
    name.contains(ASIDE_INFIX) || name.ends_with(WORK_SUFFIX)
}

/// True if a salvage was killed just before it renamed its directory to this name.
#[must_use]
pub fn needs_salvage_to_finish(directory: &Path) -> bool {
    !directory.exists() && with_suffix(directory, WORK_SUFFIX).join(COMPLETE_NAME).exists()
}

fn with_suffix(directory: &Path, suffix: &str) -> PathBuf {
    let mut name = directory.file_name().map(OsString::from).unwrap_or_default();
    name.push(suffix);
    directory.with_file_name(name)
}

fn io_error(action: &'static str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io { action, path: path.display().to_string(), reason: error.to_string() }
}

/// Renames a directory durably. Fails if the new name exists.
fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    if to.exists() {
        return Err(io_error("rename to", to, &io::ErrorKind::AlreadyExists.into()));
    }
    fs::rename(from, to).map_err(|error| io_error("rename", from, &error))?;
    match from.parent() {
        Some(base) => Ok(RealDisk::open(base)?.sync_directory()?),
        None => Ok(()),
    }
}

/// Takes the lock of an existing directory.
fn lock(directory: &Path) -> Result<Box<dyn DiskLock>, StoreError> {
    if !directory.is_dir() {
        return Err(io_error("open", directory, &io::ErrorKind::NotFound.into()));
    }
    Ok(RealDisk::open(directory)?.lock()?)
}

/// Sets the directory of an engine aside and leaves an empty one in its place, with the engine's marker.
/// The next opening that expects data reports it as lost. Returns the new path of the old directory. No
/// process may have the directory open.
///
/// # Errors
///
/// If the directory is missing or in use, or a file operation fails.
pub fn set_aside(
    directory: &Path,
    engine: &str,
    ring_size: RingSize,
    time: &str,
) -> Result<PathBuf, StoreError> {
    let _lock = lock(directory)?;
    let aside = with_suffix(directory, &format!("{ASIDE_INFIX}{time}"));
    rename(directory, &aside)?;
    let left = RealDisk::open(directory)?;
    if engine != UNMARKED_ENGINE {
        marker::write(&left, engine, ring_size)?;
    }
    Ok(aside)
}

/// A salvage of a directory. Holds the directory's lock.
pub struct SalvageWork {
    directory: PathBuf,
    work: PathBuf,
    _lock: Box<dyn DiskLock>,
}

impl SalvageWork {
    /// Begins to salvage a directory that no process has open. Removes the unfinished data of an earlier
    /// salvage.
    ///
    /// # Errors
    ///
    /// If the directory is missing or in use, or a file operation fails.
    pub fn begin(directory: &Path) -> Result<Self, StoreError> {
        let lock = lock(directory)?;
        let (directory, work) = (directory.to_owned(), with_suffix(directory, WORK_SUFFIX));
        let begun = Self { directory, work, _lock: lock };
        begun.abandon()?;
        Ok(begun)
    }

    /// Finishes a salvage that was killed just before its end: see [`needs_salvage_to_finish`].
    ///
    /// # Errors
    ///
    /// If a file operation fails.
    pub fn finish(directory: &Path) -> Result<(), StoreError> {
        rename(&with_suffix(directory, WORK_SUFFIX), directory)?;
        let disk = RealDisk::open(directory)?;
        disk.remove(COMPLETE_NAME)?;
        Ok(disk.sync_directory()?)
    }

    /// The directory for the new data.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.work
    }

    /// Removes the new data.
    ///
    /// # Errors
    ///
    /// If a file operation fails.
    pub fn abandon(&self) -> Result<(), StoreError> {
        match fs::remove_dir_all(&self.work) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error("remove", &self.work, &error))
            }
            _ => Ok(()),
        }
    }

    /// Sets the old directory aside and puts the new one in its place. The engine of the new directory must
    /// be closed. If the new data lacks records, its next opening reports a loss. Returns the new path of
    /// the old directory.
    ///
    /// # Errors
    ///
    /// If a file operation fails.
    pub fn switch(self, lacks_records: bool, time: &str) -> Result<PathBuf, StoreError> {
        let disk = RealDisk::open(&self.work)?;
        if lacks_records {
            let names = disk.list()?;
            let meta = MetaFile::open(&disk, &names)?;
            let mut meta = meta.ok_or_else(|| {
                io_error("read", &self.work, &io::ErrorKind::UnexpectedEof.into())
            })?;
            let noted = Meta { has_lost: true, ..meta.meta().clone() };
            meta.write(noted)?;
        }
        Output::create(&disk, COMPLETE_NAME)?.finish()?;
        let aside = with_suffix(&self.directory, &format!("{ASIDE_INFIX}{time}"));
        rename(&self.directory, &aside)?;
        Self::finish(&self.directory)?;
        Ok(aside)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn engine_directory() -> (tempfile::TempDir, PathBuf) {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("leveldb");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("data"), b"old").unwrap();
        (base, directory)
    }

    #[test]
    fn a_directory_that_is_set_aside_keeps_its_files_and_leaves_a_marker() {
        let (_base, directory) = engine_directory();
        let aside = set_aside(&directory, "leveldb", RingSize::new(8).unwrap(), "now").unwrap();
        assert_eq!(aside, directory.with_file_name("leveldb.set-aside-now"));
        assert_eq!(fs::read(aside.join("data")).unwrap(), b"old");
        let left = RealDisk::open(&directory).unwrap();
        assert_eq!(marker::engine_of(&left).unwrap().as_deref(), Some("leveldb"));
        assert!(!directory.join("data").exists());
    }

    #[test]
    fn a_directory_in_use_is_not_set_aside() {
        let (_base, directory) = engine_directory();
        let _used = RealDisk::open(&directory).unwrap().lock().unwrap();
        let ring_size = RingSize::new(8).unwrap();
        let refused = set_aside(&directory, "leveldb", ring_size, "now").unwrap_err();
        assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
        assert!(SalvageWork::begin(&directory).is_err());
        assert!(directory.join("data").exists());
    }

    #[test]
    fn a_salvage_that_was_killed_leaves_the_old_data_or_is_finished() {
        let (_base, directory) = engine_directory();
        let work = SalvageWork::begin(&directory).unwrap();
        fs::create_dir(work.path()).unwrap();
        fs::write(work.path().join("data"), b"half").unwrap();
        drop(work);
        assert!(!needs_salvage_to_finish(&directory));
        // The next salvage starts from scratch.
        let work = SalvageWork::begin(&directory).unwrap();
        assert!(!work.path().exists());
        fs::create_dir(work.path()).unwrap();
        fs::write(work.path().join("data"), b"new").unwrap();
        // State after a kill between the two renames.
        fs::write(work.path().join(COMPLETE_NAME), b"").unwrap();
        fs::rename(&directory, directory.with_file_name("leveldb.set-aside-now")).unwrap();
        drop(work);
        assert!(needs_salvage_to_finish(&directory));
        SalvageWork::finish(&directory).unwrap();
        assert!(!needs_salvage_to_finish(&directory));
        assert_eq!(fs::read(directory.join("data")).unwrap(), b"new");
        assert!(!directory.join(COMPLETE_NAME).exists());
    }
}
