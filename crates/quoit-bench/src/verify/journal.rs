//! The written keys, in a file. Memory holds no keys, so its use does not depend on their length.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Maximum length of a key that is read back. A greater length means that the file is damaged.
const KEY_SIZE_BYTES_MAX: u32 = 1 << 24;

/// An anonymous file of keys, each once, in the order of their first write. It disappears with the process.
#[derive(Debug)]
pub(super) struct WrittenKeyFile {
    writer: BufWriter<File>,
    count: u64,
    /// The first error. Once it is set, the list of keys is incomplete.
    error: Option<io::Error>,
}

impl WrittenKeyFile {
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(folder)?;
        Ok(Self { writer: BufWriter::new(file), count: 0, error: None })
    }

    /// Adds a key. An error is reported when the keys are read.
    pub(super) fn add(&mut self, key: &[u8]) {
        let size = u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes();
        let added = self.writer.write_all(&size).and_then(|()| self.writer.write_all(key));
        match added {
            Ok(()) => self.count += 1,
            Err(error) => drop(self.error.get_or_insert(error)),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The keys added so far. Further keys can be added meanwhile.
    pub(super) fn keys(&mut self) -> io::Result<WrittenKeys> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.writer.flush()?;
        let file = self.writer.get_ref().try_clone()?;
        Ok(WrittenKeys {
            reader: BufReader::new(OffsetReader { file, offset: 0 }),
            left: self.count,
        })
    }
}

/// A reader with an offset of its own, independent of other users of the file.
#[derive(Debug)]
struct OffsetReader {
    file: File,
    offset: u64,
}

impl Read for OffsetReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.file.read_at(buffer, self.offset)?;
        self.offset += size as u64;
        Ok(size)
    }
}

/// An iterator over the keys that a run has written.
#[derive(Debug)]
pub struct WrittenKeys {
    reader: BufReader<OffsetReader>,
    left: u64,
}

impl WrittenKeys {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut size = [0; 4];
        self.reader.read_exact(&mut size)?;
        let size = u32::from_le_bytes(size);
        if size > KEY_SIZE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut key = vec![0; size as usize];
        self.reader.read_exact(&mut key)?;
        Ok(key)
    }

    /// Number of keys that are left to read.
    pub fn left(&self) -> u64 {
        self.left
    }
}

impl Iterator for WrittenKeys {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(self.read())
    }
}
