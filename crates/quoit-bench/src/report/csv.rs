//! Lines and cells of basho_bench's tables.

use std::fs;
use std::path::{Path, PathBuf};

use super::ReportError;

/// Maximum size of a table. A week of one row per second takes about 60 MB.
const SIZE_BYTES_MAX: u64 = 256 << 20;

/// The text of a table.
pub(super) struct CsvLines {
    path: PathBuf,
    text: String,
}

/// One row, whose cells are read as numbers. Its error messages do not name the file or the line.
pub(super) struct Row<'a> {
    columns: &'a [&'a str],
    cells: Vec<&'a str>,
    /// Elapsed time of the previous row, in seconds.
    after_s: f64,
}

impl CsvLines {
    /// Reads a file. Bytes that are not UTF-8 become replacement characters.
    pub(super) fn read(path: &Path) -> Result<Self, ReportError> {
        let size_bytes = fs::metadata(path).map_err(ReportError::read(path))?.len();
        if size_bytes > SIZE_BYTES_MAX {
            let path = path.to_owned();
            return Err(ReportError::TooLarge { path, size_bytes, limit_bytes: SIZE_BYTES_MAX });
        }
        let bytes = fs::read(path).map_err(ReportError::read(path))?;
        Ok(Self { path: path.to_owned(), text: String::from_utf8_lossy(&bytes).into_owned() })
    }

    fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The complete lines, numbered from 1. An incomplete last line is left out with a note.
    pub(super) fn whole(&self, notes: &mut Vec<String>) -> Vec<(usize, &str)> {
        let mut lines: Vec<(usize, &str)> = self
            .text
            .split_inclusive('\n')
            .enumerate()
            .map(|(index, line)| (index + 1, line))
            .collect();
        if let Some((number, line)) = lines.pop_if(|(_, line)| !line.ends_with('\n'))
            && !line.trim().is_empty()
        {
            let name = self.file_name();
            notes.push(format!("{name}:{number}: the last line is cut off and was passed over"));
        }
        lines.into_iter().map(|(number, line)| (number, line.trim_end())).collect()
    }

    /// The rows of a table with these columns. `None`, with a note, if even the header is missing.
    pub(super) fn table<T>(
        &self,
        columns: &[&str],
        notes: &mut Vec<String>,
        read: impl Fn(&mut Row<'_>) -> Result<T, String>,
    ) -> Result<Option<Vec<T>>, ReportError> {
        let mut lines = self.whole(notes).into_iter();
        let Some((_, header)) = lines.next() else {
            notes.push(format!("{} is empty and was passed over", self.file_name()));
            return Ok(None);
        };
        let line_error =
            |line, problem| ReportError::Line { path: self.path.clone(), line, problem };
        if cells_of(header).ne(columns.iter().copied()) {
            let wanted = columns.join(", ");
            let problem = format!("found {header:?} where the header {wanted:?} was expected");
            return Err(line_error(1, problem));
        }
        let mut rows = Vec::new();
        let mut after_s = 0.0;
        for (number, line) in lines {
            if line.is_empty() {
                continue;
            }
            let mut row = Row { columns, cells: cells_of(line).collect(), after_s };
            if row.cells.len() != columns.len() {
                let found = row.cells.len();
                let problem = format!("found {found} cells where {} were expected", columns.len());
                return Err(line_error(number, problem));
            }
            rows.push(read(&mut row).map_err(|problem| line_error(number, problem))?);
            after_s = row.after_s;
        }
        Ok(Some(rows))
    }
}

fn cells_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(str::trim)
}

impl Row<'_> {
    /// The number in a column, which must be finite and not negative.
    pub(super) fn number(&self, column: usize) -> Result<f64, String> {
        let cell = self.cells.get(column).copied().unwrap_or_default();
        let number = cell.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| {
            let name = self.columns.get(column).copied().unwrap_or_default();
            format!("{name} is {cell:?} where a number from 0 on was expected")
        })
    }

    /// The whole number in a column.
    pub(super) fn count(&self, column: usize) -> Result<u64, String> {
        let cell = self.cells.get(column).copied().unwrap_or_default();
        cell.parse().map_err(|_| {
            let name = self.columns.get(column).copied().unwrap_or_default();
            format!("{name} is {cell:?} where a whole number from 0 on was expected")
        })
    }

    /// The boolean in a column.
    pub(super) fn truth(&self, column: usize) -> Result<bool, String> {
        let cell = self.cells.get(column).copied().unwrap_or_default();
        cell.parse().map_err(|_| {
            let name = self.columns.get(column).copied().unwrap_or_default();
            format!("{name} is {cell:?} where true or false was expected")
        })
    }

    /// The elapsed seconds in the first column, which must not decrease.
    pub(super) fn elapsed(&mut self) -> Result<f64, String> {
        let elapsed_s = self.number(0)?;
        if elapsed_s < self.after_s {
            return Err(format!(
                "elapsed goes back from {} to {elapsed_s}: rows of two runs in one file?",
                self.after_s
            ));
        }
        self.after_s = elapsed_s;
        Ok(elapsed_s)
    }
}
