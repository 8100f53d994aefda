//! A file of results that survives a full disk.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// A file that is appended to record by record, so that other programs can follow it.
///
/// Records that cannot be written are lost and counted. Later records are still attempted, because space
/// may be freed on the disk. The file only ever holds whole records.
#[derive(Debug)]
pub(crate) struct ResultFile {
    path: PathBuf,
    file: File,
    /// Length of the whole records, in bytes.
    size_bytes: u64,
    lost_count: u64,
}

impl ResultFile {
    /// Creates or truncates the file and writes `beginning` to it.
    pub(crate) fn create(path: PathBuf, beginning: &[u8]) -> io::Result<Self> {
        let mut file = File::create(&path)?;
        file.write_all(beginning)?;
        Ok(Self { path, file, size_bytes: beginning.len() as u64, lost_count: 0 })
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends `count` records.
    ///
    /// # Errors
    ///
    /// When the records could not be written; they are lost.
    pub(crate) fn append(&mut self, records: &[u8], count: u64) -> io::Result<()> {
        let written = self.file.write_all(records);
        if written.is_ok() {
            self.size_bytes += records.len() as u64;
        } else {
            self.lost_count += count;
            self.truncate_partial_record();
        }
        written
    }

    /// Cuts off a partly written record. If even that fails, readers skip the partial record.
    fn truncate_partial_record(&mut self) {
        let _ = self.file.set_len(self.size_bytes);
        let _ = self.file.seek(SeekFrom::Start(self.size_bytes));
    }

    /// Describes the rows that could not be written, for people, as in `summary.csv (2 rows)`.
    pub(crate) fn lost(&self, record: &str) -> Option<String> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        match self.lost_count {
            0 => None,
            1 => Some(format!("{name} (1 {record})")),
            count => Some(format!("{name} ({count} {record}s)")),
        }
    }

    /// Makes every further write fail, as on a full disk.
    #[cfg(test)]
    pub(crate) fn fill_disk(&mut self) {
        self.file = File::options().write(true).open("/dev/full").expect("the full device");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_record_is_taken_back_and_later_ones_follow_whole_ones() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("x.csv");
        let mut file = ResultFile::create(path.clone(), b"header\n").expect("a file");
        // A file that is open for reading only stands in for the full disk.
        let writable = std::mem::replace(&mut file.file, File::open(&path).expect("a file"));
        file.append(b"1, lost\n", 1).expect_err("no write");
        file.file = writable;
        file.file.write_all(b"2, ha").expect("a write");
        file.truncate_partial_record();
        file.append(b"3, kept\n", 1).expect("a write");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "header\n3, kept\n");
        assert_eq!(file.lost("row").as_deref(), Some("x.csv (1 row)"));
    }
}
