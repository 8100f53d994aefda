//! Keys that are the lines of a file. All workers of the process share the file, and each line is given out
//! once.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::Exhausted;

/// Maximum length of a line in bytes. A longer line is given out in pieces.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// A reader of lines. Clones share the position in the file.
#[derive(Debug, Clone)]
pub struct LineReader {
    path: PathBuf,
    /// True if the reader starts over at the end of the file.
    is_repeated: bool,
    /// `None` before the file is open.
    reader: Arc<Mutex<Option<BufReader<File>>>>,
}

impl LineReader {
    /// Creates a reader of a file, which it does not open yet.
    pub(super) fn new(path: PathBuf, is_repeated: bool) -> Self {
        Self { path, is_repeated, reader: Arc::default() }
    }

    /// Opens the file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is empty.
    pub(super) fn open(&self) -> io::Result<()> {
        let mut reader = BufReader::new(File::open(&self.path)?);
        if reader.fill_buf()?.is_empty() {
            return Err(io::Error::other("it is empty"));
        }
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader);
        Ok(())
    }

    /// Path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces `bytes` by the next line, without its line break. A read error counts as the end of the
    /// file.
    pub(super) fn next(&self, bytes: &mut Vec<u8>) -> Result<(), Exhausted> {
        bytes.clear();
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = reader.as_mut().ok_or(Exhausted)?;
        let mut read_line = |reader: &mut BufReader<File>| {
            reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', bytes).map_err(|_| Exhausted)
        };
        if read_line(reader)? == 0 {
            if !self.is_repeated {
                return Err(Exhausted);
            }
            reader.rewind().map_err(|_| Exhausted)?;
            if read_line(reader)? == 0 {
                return Err(Exhausted);
            }
        }
        bytes.pop_if(|last| *last == b'\n');
        Ok(())
    }
}
