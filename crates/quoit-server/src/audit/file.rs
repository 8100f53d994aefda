//! A log file that is rotated by size.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The current file and the older ones.
#[derive(Debug)]
pub(super) struct RotatedFile {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    size_bytes_max: u64,
    kept_count: u32,
    /// True if the file ends in the middle of a line, after a power loss or a full disk.
    is_torn: bool,
}

impl RotatedFile {
    pub(super) fn open(path: PathBuf, size_bytes_max: u64, kept_count: u32) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = append_to(&path)?;
        let metadata = file.metadata()?;
        // Another program may have created it, with other permissions.
        let mode = metadata.permissions().mode();
        if metadata.is_file() && mode & 0o007 != 0 {
            file.set_permissions(Permissions::from_mode(mode & 0o770)).map_err(shown_to_others)?;
        }
        let size_bytes = metadata.len();
        let is_torn = size_bytes > 0 && !ends_with_line(&path, size_bytes)?;
        Ok(RotatedFile { path, file, size_bytes, size_bytes_max, kept_count, is_torn })
    }

    /// Appends a line. A line is never split between two files.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.size_bytes > 0 && self.size_bytes + length > self.size_bytes_max {
            self.rotate()?;
        }
        if self.is_torn {
            self.file.write_all(b"\n")?;
        }
        // The line may be written partly before a fault.
        self.is_torn = true;
        self.file.write_all(line)?;
        self.is_torn = false;
        self.size_bytes += length;
        Ok(())
    }

    /// Renames the current file to number 1 and the older files to the next higher numbers, up to the first
    /// free number. If a kill interrupted an earlier rotation, that number is free, and renaming more files
    /// would overwrite the oldest one too early.
    fn rotate(&mut self) -> io::Result<()> {
        let is_free = |number: &u32| !self.numbered(*number).exists();
        let free = (1..self.kept_count).find(is_free).unwrap_or(self.kept_count);
        for number in (1..free).rev() {
            rename(&self.numbered(number), &self.numbered(number + 1))?;
        }
        if self.kept_count == 0 {
            fs::remove_file(&self.path)?;
        } else {
            rename(&self.path, &self.numbered(1))?;
        }
        self.file = append_to(&self.path)?;
        (self.size_bytes, self.is_torn) = (0, false);
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Adds the remedy to the fault for a file of another user that others may read.
fn shown_to_others(fault: io::Error) -> io::Error {
    let remedy = "others may read the file, and only its owner can change that: give it to the node's user \
                  (chown), or take the permissions of others away (chmod o-rwx)";
    io::Error::new(fault.kind(), format!("{remedy}: {fault}"))
}

fn ends_with_line(path: &Path, size_bytes: u64) -> io::Result<bool> {
    let mut last = [0];
    File::open(path)?.read_exact_at(&mut last, size_bytes - 1)?;
    Ok(last == *b"\n")
}

/// Renames a file, if it exists.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}
