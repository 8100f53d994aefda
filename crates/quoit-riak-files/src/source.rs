//! Buffered files that are read from front to back.

use crate::RiakFilesError;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Size of a read in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// A file that is read from front to back.
pub(crate) struct Source {
    path: PathBuf,
    reader: BufReader<File>,
    at: u64,
    len: u64,
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, RiakFilesError> {
        let file = File::open(path).map_err(RiakFilesError::io(path))?;
        let len = file.metadata().map_err(RiakFilesError::io(path))?.len();
        let reader = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(Self { path: path.to_owned(), reader, at: 0, len })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    /// Size of the file in bytes when it was opened.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    pub(crate) const fn left(&self) -> u64 {
        self.len.saturating_sub(self.at)
    }

    pub(crate) fn seek(&mut self, at: u64) -> Result<(), RiakFilesError> {
        let step = i64::try_from(i128::from(at) - i128::from(self.at)).unwrap_or(i64::MAX);
        self.reader.seek_relative(step).map_err(RiakFilesError::io(&self.path))?;
        self.at = at;
        Ok(())
    }

    /// Reads a fixed number of bytes; returns `None` if fewer are left.
    pub(crate) fn array<const LEN: usize>(&mut self) -> Result<Option<[u8; LEN]>, RiakFilesError> {
        let mut bytes = [0; LEN];
        Ok(self.fill(&mut bytes)?.then_some(bytes))
    }

    /// Reads `len` bytes; returns `None` if fewer are left.
    pub(crate) fn take(&mut self, len: usize) -> Result<Option<Vec<u8>>, RiakFilesError> {
        // A length from damaged bytes must not allocate memory.
        if (len as u64) > self.left() {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        Ok(self.fill(&mut bytes)?.then_some(bytes))
    }

    /// Fills `bytes`; returns false if fewer bytes are left.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, RiakFilesError> {
        if (bytes.len() as u64) > self.left() {
            return Ok(false);
        }
        match self.reader.read_exact(bytes) {
            Ok(()) => {
                self.at += bytes.len() as u64;
                Ok(true)
            }
            // The file has been truncated since it was opened.
            Err(fault) if fault.kind() == std::io::ErrorKind::UnexpectedEof => {
                let end = self.reader.seek(SeekFrom::End(0));
                self.len = end.map_err(RiakFilesError::io(&self.path))?;
                self.at = self.len;
                Ok(false)
            }
            Err(source) => Err(RiakFilesError::Io { path: self.path.clone(), source }),
        }
    }
}

/// Reads a whole file.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, RiakFilesError> {
    std::fs::read(path).map_err(RiakFilesError::io(path))
}

/// The entries of a directory, sorted by name; empty if the directory does not exist.
pub(crate) fn entries(path: &Path) -> Result<Vec<PathBuf>, RiakFilesError> {
    let listed = match std::fs::read_dir(path) {
        Ok(listed) => listed,
        Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(RiakFilesError::Io { path: path.to_owned(), source }),
    };
    let mut found = Vec::new();
    for entry in listed {
        found.push(entry.map_err(RiakFilesError::io(path))?.path());
    }
    found.sort();
    Ok(found)
}

/// The number before `suffix` in a file's name.
pub(crate) fn numbered(path: &Path, suffix: &str) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(suffix)?.parse().ok()
}
