//! Figures of a run's servers, on the time axis of the run.

use super::{ReportError, Results, thinned};
use crate::watch::{self, COLUMNS, CPU, FIGURE_COUNT, READ, ServerColumn, ServerRow, WRITTEN};
use std::collections::BTreeMap;
use std::path::Path;

/// The servers of a run and their figures over time.
#[derive(Debug, PartialEq)]
pub(super) struct Servers {
    /// Names of the servers, sorted.
    pub(super) names: Vec<String>,
    /// The ends of the spans that points stand for. A span is a second, or several in a long run.
    pub(super) elapsed_s: Vec<f64>,
    /// For each column of the table, the values of each server at each of the ends.
    pub(super) columns: [Vec<Vec<Option<f64>>>; FIGURE_COUNT],
    /// Resource use of all servers per successful operation. A resource is `None` unless all servers report
    /// it.
    pub(super) per_operation: OperationCost,
}

/// Resources that one operation has used.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct OperationCost {
    pub(crate) cpu_us: Option<f64>,
    pub(crate) read_bytes: Option<f64>,
    pub(crate) written_bytes: Option<f64>,
}

/// Resource use of all servers of a run per successful operation; `None` if the run watched no server.
///
/// # Errors
///
/// When the tables of the run can't be read.
pub(crate) fn used_per_operation(directory: &Path) -> Result<Option<OperationCost>, ReportError> {
    let servers = servers(&Results::read(directory)?)?;
    Ok(servers.map(|servers| servers.per_operation))
}

/// The servers of a run; `None` if the run watched no server.
///
/// # Errors
///
/// When the table of servers can't be read.
pub(super) fn servers(results: &Results) -> Result<Option<Servers>, ReportError> {
    let path = results.directory.join(watch::FILE);
    let rows = watch::read(&results.directory).map_err(ReportError::read(&path))?;
    let (from_s, to_s) = results.elapsed_range_s();
    let rows = rows.into_iter().filter(|row| row.elapsed_s < to_s + 1.0);
    let (earlier, rows): (Vec<_>, Vec<_>) = rows.partition(|row| row.elapsed_s <= from_s);
    if rows.is_empty() {
        return Ok(None);
    }
    let operations: f64 = results.summary.iter().map(|row| row.successful).sum();
    let measured = MeasuredRows { earlier: &earlier, rows: &rows, from_s };
    Ok(Some(measured.arrange(operations)))
}

/// The rows of a run, or of the part of it that a report is about.
struct MeasuredRows<'a> {
    /// Rows that end before the report begins.
    earlier: &'a [ServerRow],
    rows: &'a [ServerRow],
    /// Time at which the report begins.
    from_s: f64,
}

impl MeasuredRows<'_> {
    /// Arranges the rows. `operations` is the number of successful operations.
    #[expect(clippy::indexing_slicing, reason = "a row has one of the names and of the seconds")]
    fn arrange(&self, operations: f64) -> Servers {
        let rows = self.rows;
        let mut names: Vec<String> = rows.iter().map(|row| row.server.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let second = |row: &ServerRow| quoit_number::index(quoit_number::rounded(row.elapsed_s));
        let first = rows.iter().map(second).min().unwrap_or(0);
        let last = rows.iter().map(second).max().unwrap_or(0);
        let span = thinned::rows_a_point(last - first + 1);
        let point_count = (last - first) / span + 1;
        let mut columns: [Vec<Vec<Option<f64>>>; FIGURE_COUNT] =
            std::array::from_fn(|_| vec![vec![None; point_count]; names.len()]);
        let places: BTreeMap<&str, usize> =
            names.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
        for row in rows {
            let (server, point) = (places[row.server.as_str()], (second(row) - first) / span);
            for (column, value) in columns.iter_mut().zip(row.figures) {
                let shown = &mut column[server][point];
                // Keep the greatest of several values, so that no peak is lost.
                *shown = [*shown, value].into_iter().flatten().reduce(f64::max);
            }
        }
        let elapsed_s =
            (0..point_count).map(|point| (first + (point + 1) * span - 1) as f64).collect();
        let per_operation = per_operation(rows, &self.covered_s(), operations);
        Servers { names, elapsed_s, columns, per_operation }
    }

    /// The time that each row covers, in seconds, which is longer than a second if the server was silent
    /// meanwhile. Time before `from_s` does not count. A row without a span covers the time since the row of
    /// the same server before it, or a second at most if it is the first one and there are no `earlier` ones.
    fn covered_s(&self) -> Vec<f64> {
        let Self { earlier, rows, from_s } = *self;
        let mut ends: BTreeMap<&str, f64> =
            earlier.iter().map(|row| (row.server.as_str(), from_s)).collect();
        let covered = |row: &ServerRow, before: Option<f64>| {
            let inside_s = row.elapsed_s - from_s;
            match (row.span_s, before) {
                (Some(span_s), _) => span_s.min(inside_s),
                (None, Some(before)) => row.elapsed_s - before,
                (None, None) => inside_s.min(1.0),
            }
        };
        rows.iter().map(|row| covered(row, ends.insert(&row.server, row.elapsed_s))).collect()
    }
}

fn per_operation(rows: &[ServerRow], covered_s: &[f64], operations: f64) -> OperationCost {
    let total = |of_row: fn(&ServerRow) -> Option<f64>| {
        let used = rows.iter().zip(covered_s).map(|(row, span)| Some(of_row(row)? * span));
        used.sum::<Option<f64>>()
    };
    let of = |of_row: fn(&ServerRow) -> Option<f64>| {
        Some(total(of_row)? / operations).filter(|_| operations > 0.0)
    };
    OperationCost {
        cpu_us: of(|row| row.figures[CPU]).map(|seconds| seconds * 1e6),
        read_bytes: of(|row| row.figures[READ]),
        written_bytes: of(|row| row.figures[WRITTEN]),
    }
}

impl Servers {
    /// The columns that have a value above 0, each with the values of each server.
    pub(super) fn shown(
        &self,
    ) -> impl Iterator<Item = (&'static ServerColumn, &[Vec<Option<f64>>])> {
        let columns = COLUMNS.iter().zip(self.columns.iter().map(Vec::as_slice));
        columns.filter(|(_, values)| values.iter().flatten().flatten().any(|value| *value > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::ServerFigures;

    fn row(elapsed_s: f64, server: &str, cpu: Option<f64>) -> ServerRow {
        let mut figures = ServerFigures::default();
        (figures[CPU], figures[WRITTEN]) = (cpu, Some(1000.0));
        ServerRow { elapsed_s, span_s: None, server: server.to_owned(), figures }
    }

    /// The servers of rows from the beginning of a run, in which `operations` succeeded.
    fn arranged(rows: &[ServerRow], operations: f64) -> Servers {
        MeasuredRows { earlier: &[], rows, from_s: 0.0 }.arrange(operations)
    }

    #[test]
    fn servers_share_one_time_axis_and_their_silence_is_a_gap() {
        let rows = [
            row(1.01, "b:1", Some(0.5)),
            row(0.98, "a:1", Some(0.1)),
            row(2.02, "a:1", Some(0.2)),
            row(4.0, "b:1", Some(0.3)),
        ];
        let servers = arranged(&rows, 2000.0);
        assert_eq!(servers.names, ["a:1", "b:1"]);
        assert_eq!(servers.elapsed_s, [1.0, 2.0, 3.0, 4.0]);
        let of_a = vec![Some(0.1), Some(0.2), None, None];
        let of_b = vec![Some(0.5), None, None, Some(0.3)];
        assert_eq!(servers.columns[CPU], [of_a, of_b]);
        let shown: Vec<&str> = servers.shown().map(|(column, _)| column.name).collect();
        assert_eq!(shown, [COLUMNS[CPU].name, COLUMNS[WRITTEN].name]);
    }

    #[test]
    fn a_row_after_a_silence_counts_for_all_of_it() {
        let rows = [
            row(1.0, "a:1", Some(0.5)),
            row(1.0, "b:1", Some(0.1)),
            row(2.0, "b:1", Some(0.1)),
            row(4.0, "a:1", Some(0.2)),
        ];
        let OperationCost { cpu_us, read_bytes, written_bytes } =
            arranged(&rows, 2000.0).per_operation;
        // 0.5 + 3 * 0.2 + 0.1 + 0.1 s, and 1000 bytes in each of 6 s.
        assert!((cpu_us.expect("a time") - 650.0).abs() < 1e-6, "{cpu_us:?}");
        assert_eq!((read_bytes, written_bytes), (None, Some(3.0)));
    }

    #[test]
    fn a_row_after_a_silence_counts_from_the_beginning_of_the_report() {
        let (earlier, rows) = ([row(1.0, "a:1", Some(9.0))], [row(5.0, "a:1", Some(0.5))]);
        let measured = MeasuredRows { earlier: &earlier, rows: &rows, from_s: 2.0 };
        let cpu_us = measured.arrange(1000.0).per_operation.cpu_us;
        assert!((cpu_us.expect("a time") - 1500.0).abs() < 1e-6, "{cpu_us:?}");
    }

    #[test]
    fn a_silence_before_the_first_row_of_a_server_counts() {
        let with_span = |elapsed_s, span_s| ServerRow {
            span_s: Some(span_s),
            ..row(elapsed_s, "a:1", Some(0.5))
        };
        let cpu_us = |rows: &[ServerRow], from_s| {
            let measured = MeasuredRows { earlier: &[], rows, from_s };
            measured.arrange(1000.0).per_operation.cpu_us.expect("a time")
        };
        // Polls at 0 and 5 s were answered, and then one in each second.
        let rows = [with_span(5.0, 5.0), with_span(6.0, 1.0)];
        assert!((cpu_us(&rows, 0.0) - 3000.0).abs() < 1e-6, "{}", cpu_us(&rows, 0.0));
        assert!((cpu_us(&rows, 2.0) - 2000.0).abs() < 1e-6, "{}", cpu_us(&rows, 2.0));
    }

    #[test]
    fn a_figure_that_is_not_known_for_all_seconds_is_none_for_an_operation() {
        let rows = [row(1.0, "a:1", Some(0.5)), row(2.0, "a:1", None)];
        assert_eq!(arranged(&rows, 10.0).per_operation.cpu_us, None);
        assert_eq!(arranged(&rows, 0.0).per_operation.written_bytes, None);
    }
}
