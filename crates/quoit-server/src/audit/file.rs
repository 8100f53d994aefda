//! A file of lines that is rotated by size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file that is written, and those before it.
#[derive(Debug)]
pub(super) struct RotatedFile {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    size_bytes_max: u64,
    kept_count: u32,
}

impl RotatedFile {
    pub(super) fn open(path: PathBuf, size_bytes_max: u64, kept_count: u32) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = append_to(&path)?;
        let size_bytes = file.metadata()?.len();
        Ok(RotatedFile { path, file, size_bytes, size_bytes_max, kept_count })
    }

    /// Appends a line, whole in one file.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.size_bytes > 0 && self.size_bytes + length > self.size_bytes_max {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.size_bytes += length;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.kept_count).rev() {
            rename(&self.numbered(number), &self.numbered(number + 1))?;
        }
        if self.kept_count == 0 {
            fs::remove_file(&self.path)?;
        } else {
            rename(&self.path, &self.numbered(1))?;
        }
        self.file = append_to(&self.path)?;
        self.size_bytes = 0;
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

/// Renames a file, if there is one.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}
