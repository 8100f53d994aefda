//! `servers.csv`: a row for each server and second.

use super::sample::{COLUMNS, FIGURE_COUNT, ServerFigures};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

/// Name of the file in the directory of a run.
pub(crate) const FILE: &str = "servers.csv";

/// The figures of one server in the time since its row before, mostly a second.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerRow {
    /// End of that time, in seconds since the start of the measurement.
    pub(crate) elapsed_s: f64,
    /// Length of that time in seconds; `None` in a table that an older program has written.
    pub(crate) span_s: Option<f64>,
    /// Host and port.
    pub(crate) server: String,
    pub(crate) figures: ServerFigures,
}

/// The open table.
#[derive(Debug)]
pub(crate) struct ServerTable(BufWriter<File>);

impl ServerTable {
    /// Creates the file with its header.
    pub(crate) fn create(directory: &Path) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create(directory.join(FILE))?);
        let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        writeln!(file, "elapsed, server, {}, span", names.join(", "))?;
        file.flush()?;
        Ok(Self(file))
    }

    /// Appends a row. A figure that the server does not report is an empty cell.
    pub(crate) fn append(&mut self, row: &ServerRow) -> io::Result<()> {
        let cell =
            |value: &Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
        let cells: Vec<String> = row.figures.iter().chain([&row.span_s]).map(cell).collect();
        writeln!(self.0, "{:.3}, {}, {}", row.elapsed_s, row.server, cells.join(", "))?;
        self.0.flush()
    }
}

/// The rows of a run; empty if the run watched no servers. An incomplete last row is left out.
///
/// # Errors
///
/// When the file can't be read, or a line is not a row; the error then names the line.
pub(crate) fn read(directory: &Path) -> io::Result<Vec<ServerRow>> {
    let text = match fs::read_to_string(directory.join(FILE)) {
        Ok(text) => text,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(fault) => return Err(fault),
    };
    let whole = text.rfind('\n').and_then(|end| text.get(..=end)).unwrap_or("");
    let rows = whole.lines().enumerate().skip(1).map(|(index, line)| {
        row(line).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("line {}: {line:?} is not a row", index + 1),
            )
        })
    });
    rows.collect()
}

fn row(line: &str) -> Option<ServerRow> {
    let mut cells = line.split(", ");
    let elapsed_s = cells.next()?.parse().ok()?;
    let server = cells.next()?.to_owned();
    let mut figures = [None; FIGURE_COUNT];
    for figure in &mut figures {
        let cell = cells.next()?;
        if !cell.is_empty() {
            *figure = Some(cell.parse().ok()?);
        }
    }
    let span_s = match cells.next() {
        Some(cell) => Some(cell.parse().ok()?),
        None => None,
    };
    cells.next().is_none().then_some(ServerRow { elapsed_s, span_s, server, figures })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_and_a_broken_one_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(read(folder.path()).expect("no file"), []);
        let mut table = ServerTable::create(folder.path()).expect("a table");
        let mut figures = ServerFigures::default();
        (figures[0], figures[9]) = (Some(0.25), Some(3.0));
        let span_s = Some(1.0);
        let first = ServerRow { elapsed_s: 1.0, span_s, server: "a:1".to_owned(), figures };
        let second = ServerRow {
            elapsed_s: 4.0,
            span_s: Some(2.5),
            server: "[::1]:2".to_owned(),
            figures: [None; FIGURE_COUNT],
        };
        for row in [&first, &second] {
            table.append(row).expect("a row");
        }
        let path = folder.path().join(FILE);
        let text = fs::read_to_string(&path).expect("the table");
        fs::write(&path, text.clone() + "3.0, a:").expect("a part of a row");
        assert_eq!(read(folder.path()).expect("rows"), [first, second]);
        fs::write(&path, text + "x, a:1\n").expect("a line that is no row");
        let fault = read(folder.path()).expect_err("no row").to_string();
        assert!(fault.contains("line 4"), "{fault}");
    }

    #[test]
    fn rows_of_a_table_without_spans_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        let cells = ", ".repeat(FIGURE_COUNT - 2);
        let text =
            format!("elapsed, server, {}\n3.000, a:1, 0.250, 1000.000{cells}\n", names.join(", "));
        fs::write(folder.path().join(FILE), text).expect("a table");
        let mut figures = ServerFigures::default();
        (figures[0], figures[1]) = (Some(0.25), Some(1000.0));
        let row = ServerRow { elapsed_s: 3.0, span_s: None, server: "a:1".to_owned(), figures };
        assert_eq!(read(folder.path()).expect("rows"), [row]);
    }
}
