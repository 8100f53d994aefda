//! One log file and its older parts.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use jiff::civil::{Date, DateTime};

use crate::output::OutputError;

/// Maximum size of a part of a log, in bytes.
const SIZE_BYTES_MAX: u64 = 10 << 20;

/// Number of older parts that are kept: `name.0`, the newest, to `name.4`.
const OLDER_COUNT: u32 = 5;

/// A log file. If it rotates, a new part begins at 10 MiB and at midnight.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    date: Date,
    rotates: bool,
    lost_line_count: u64,
}

impl LogFile {
    pub(super) fn create(path: PathBuf, now: &DateTime) -> Result<Self, OutputError> {
        let file = File::create(&path).map_err(OutputError::write(&path))?;
        let date = now.date();
        Ok(Self { path, file, size_bytes: 0, date, rotates: false, lost_line_count: 0 })
    }

    pub(super) fn rotating(self) -> Self {
        Self { rotates: true, ..self }
    }

    /// Writes a line, which includes its line break. A failure is counted.
    pub(super) fn append(&mut self, line: &str, now: &DateTime) {
        let is_full = self.size_bytes > 0 && self.size_bytes + line.len() as u64 > SIZE_BYTES_MAX;
        if self.rotates && (is_full || self.date != now.date()) {
            self.date = now.date();
            // A log that cannot rotate continues in the same file.
            let _ = self.rotate();
        }
        match self.file.write_all(line.as_bytes()) {
            Ok(()) => self.size_bytes += line.len() as u64,
            Err(_) => self.lost_line_count += 1,
        }
    }

    fn rotate(&mut self) -> std::io::Result<()> {
        for number in (1..OLDER_COUNT).rev() {
            let (newer, older) = (self.part(number - 1), self.part(number));
            if newer.exists() {
                fs::rename(newer, older)?;
            }
        }
        fs::rename(&self.path, self.part(0))?;
        self.file = File::create(&self.path)?;
        self.size_bytes = 0;
        Ok(())
    }

    fn part(&self, number: u32) -> PathBuf {
        self.path.with_added_extension(number.to_string())
    }

    /// A description, for people, of lines that could not be written.
    pub(super) fn lost(&self) -> Option<String> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let count = self.lost_line_count;
        (count > 0).then(|| format!("{name} ({count} lines)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime {
        text.parse().expect("a time")
    }

    fn texts(log: &LogFile) -> Vec<usize> {
        let parts = (0..OLDER_COUNT + 2).map(|number| log.part(number));
        let paths = [log.path.clone()].into_iter().chain(parts);
        paths.filter_map(|path| fs::metadata(path).ok()).map(|data| data.len() as usize).collect()
    }

    #[test]
    fn a_part_ends_at_ten_mebibytes_and_five_older_ones_are_kept() {
        let folder = tempfile::tempdir().expect("a directory");
        let now = at("2026-11-21T12:00:00");
        let log = LogFile::create(folder.path().join("console.log"), &now).expect("a log");
        let mut log = log.rotating();
        let line = "x".repeat(6 << 20);
        for count in 1..=8 {
            log.append(&line, &now);
            assert_eq!(texts(&log), vec![6 << 20; count.min(6)], "after {count} lines");
        }
        log.append("short\n", &now);
        assert_eq!(texts(&log)[0], (6 << 20) + 6);
        assert!(folder.path().join("console.log.4").exists());
        assert_eq!(log.lost(), None);
    }

    #[test]
    fn a_part_ends_at_midnight() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("error.log");
        let evening = at("2026-11-21T23:59:59");
        let mut log = LogFile::create(path.clone(), &evening).expect("a log").rotating();
        log.append("before\n", &evening);
        log.append("after\n", &at("2026-11-22T00:00:00"));
        assert_eq!(fs::read_to_string(&path).expect("the log"), "after\n");
        assert_eq!(fs::read_to_string(log.part(0)).expect("the part"), "before\n");
    }

    #[test]
    fn lines_that_find_no_room_are_counted() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("console.log");
        std::os::unix::fs::symlink("/dev/full", &path).expect("a link");
        let now = at("2026-11-21T12:00:00");
        let mut log = LogFile::create(path, &now).expect("a log");
        log.append("a\n", &now);
        log.append("b\n", &now);
        assert_eq!(log.lost().as_deref(), Some("console.log (2 lines)"));
    }
}
