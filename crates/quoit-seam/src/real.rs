//! Data directories of the operating system.

use crate::disk::{Disk, DiskFile, DiskLock, ReadAt};
use crate::error::DiskError;
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const LOCK_NAME: &str = "LOCK";
/// Mode of new files; the process's umask clears bits of it.
const FILE_MODE: u32 = 0o666;
/// Mode of new files that only their owner may use.
const PRIVATE_FILE_MODE: u32 = 0o600;

/// A data directory of the operating system.
#[derive(Debug)]
pub struct RealDisk {
    directory: PathBuf,
    /// Mode of files that are created.
    file_mode: u32,
    /// True while the file system may support `RWF_NOWAIT`. Cleared permanently once the file system refuses
    /// it.
    nowait: Arc<AtomicBool>,
}

impl RealDisk {
    /// Opens `directory`, which is created if it is missing, with its parents.
    ///
    /// # Errors
    ///
    /// If the directory can't be created.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, DiskError> {
        let directory = directory.into();
        std::fs::create_dir_all(&directory)
            .map_err(|error| failed("create directory", &directory, 0, &error))?;
        let nowait = Arc::new(AtomicBool::new(true));
        Ok(Self { directory, file_mode: FILE_MODE, nowait })
    }

    /// Creates files that only their owner may read and write.
    #[must_use]
    pub fn with_private_files(mut self) -> Self {
        self.file_mode = PRIVATE_FILE_MODE;
        self
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

fn failed(action: &'static str, path: &Path, size_bytes: u64, error: &io::Error) -> DiskError {
    let path = path.display().to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            DiskError::DiskFull { path, size_bytes }
        }
        _ => DiskError::Io { action, path, reason: error.to_string() },
    }
}

impl Disk for RealDisk {
    fn open(&self, name: &str, create_new: bool) -> Result<Arc<dyn DiskFile>, DiskError> {
        let path = self.path_of(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(create_new).mode(self.file_mode);
        // Access times are never used, and updating them costs each read.
        let quiet = options.clone().custom_flags(OFlags::NOATIME.bits().cast_signed()).open(&path);
        let opened = match quiet {
            // Only the owner of a file may use `O_NOATIME`.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => options.open(&path),
            opened => opened,
        };
        let file = opened.map_err(|error| failed("open", &path, 0, &error))?;
        Ok(Arc::new(RealFile { file, path, nowait: Arc::clone(&self.nowait) }))
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        let failed = |error: io::Error| failed("list", &self.directory, 0, &error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // A name that is not UTF-8 is not one of the node's files; its approximate form is enough
            // for a report.
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let path = self.path_of(name);
        std::fs::remove_file(&path).map_err(|error| failed("remove", &path, 0, &error))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let (from, to) = (self.path_of(from), self.path_of(to));
        std::fs::rename(&from, &to).map_err(|error| failed("rename", &from, 0, &error))
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| failed("sync directory", &self.directory, 0, &error))
    }

    fn lock(&self) -> Result<Box<dyn DiskLock>, DiskError> {
        Ok(Box::new(RealLock::take(self)?))
    }

    fn available_bytes(&self) -> Option<u64> {
        let room = rustix::fs::statvfs(&self.directory).ok()?;
        Some(room.f_bavail.saturating_mul(room.f_frsize))
    }

    fn path(&self) -> String {
        self.directory.display().to_string()
    }
}

/// A lock of an open file. It ends when this is dropped, or the process ends.
struct RealLock {
    file: File,
}

impl RealLock {
    fn take(disk: &RealDisk) -> Result<Self, DiskError> {
        let path = disk.path_of(LOCK_NAME);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| failed("open", &path, 0, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(DiskError::Locked { path: disk.path() }),
            Err(TryLockError::Error(error)) => Err(failed("lock", &path, 0, &error)),
        }
    }
}

impl DiskLock for RealLock {}

impl Drop for RealLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child that another thread is starting holds the file open until
        // it executes its program. If unlocking fails, closing is the only remaining way.
        let _ = self.file.unlock();
    }
}

struct RealFile {
    file: File,
    path: PathBuf,
    nowait: Arc<AtomicBool>,
}

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, DiskError> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("read", &self.path, 0, &error)),
            }
        }
        Ok(done)
    }

    fn read_at_nowait(&self, buffer: &mut [u8], offset: u64) -> Result<ReadAt, DiskError> {
        while self.nowait.load(Ordering::Relaxed) {
            let mut slices = [IoSliceMut::new(buffer)];
            match rustix::io::preadv2(&self.file, &mut slices, offset, ReadWriteFlags::NOWAIT) {
                Ok(count) => return Ok(ReadAt::Read(count)),
                Err(Errno::AGAIN) => return Ok(ReadAt::WouldBlock),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    self.nowait.store(false, Ordering::Relaxed);
                }
                Err(error) => return Err(failed("read", &self.path, 0, &error.into())),
            }
        }
        self.read_at(buffer, offset).map(ReadAt::Read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.file
            .write_all_at(bytes, offset)
            .map_err(|error| failed("write", &self.path, bytes.len() as u64, &error))
    }

    /// One system call, unless the system takes only a part.
    fn write_parts_at(&self, parts: &[&[u8]], offset: u64) -> Result<(), DiskError> {
        let size_bytes = parts.iter().map(|part| part.len() as u64).sum();
        let failed = |error: &io::Error| failed("write", &self.path, size_bytes, error);
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut left = &mut slices[..];
        let mut at = offset;
        // Removes empty parts at the beginning, for which the system would write nothing.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match rustix::io::pwritev(&self.file, left, at) {
                Ok(0) => return Err(failed(&io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    at += count as u64;
                    IoSlice::advance_slices(&mut left, count);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed(&error.into())),
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(|error| failed("sync", &self.path, 0, &error))
    }

    fn size_bytes(&self) -> Result<u64, DiskError> {
        let metadata =
            self.file.metadata().map_err(|error| failed("inspect", &self.path, 0, &error))?;
        Ok(metadata.len())
    }

    fn truncate(&self, len: u64) -> Result<(), DiskError> {
        self.file.set_len(len).map_err(|error| failed("truncate", &self.path, 0, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_written_one_after_the_other() {
        let directory = tempfile::tempdir().unwrap();
        let file = RealDisk::open(directory.path()).unwrap().open("file", true).unwrap();
        file.write_at(b"0123456789", 0).unwrap();
        let large = vec![b'v'; 3 << 20];
        file.write_parts_at(&[b"", b"ab", b"", &large, b"yz", b""], 3).unwrap();
        file.write_parts_at(&[b"", b""], 1).unwrap();
        let expected = [b"012ab", &large[..], b"yz"].concat();
        let mut read = vec![0; expected.len() + 1];
        assert_eq!(file.read_at(&mut read, 0).unwrap(), expected.len());
        assert!(read[..expected.len()] == expected);
    }

    #[test]
    fn a_lock_is_held_until_it_is_dropped_whoever_has_its_file_open() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        let held = RealLock::take(&disk).unwrap();
        // As a child holds the file between fork and exec.
        let _inherited = held.file.try_clone().unwrap();
        assert!(matches!(disk.lock(), Err(DiskError::Locked { .. })));
        drop(held);
        disk.lock().unwrap();
    }
}
