//! The chart that basho_bench's `summary.r` draws: five panels, one below the other.

use super::attempt_rows::attempt_rows;
use super::panels::{ChartLayout, Facet, Panel, PanelSeries, draw_panels};
use super::results::{Column, LatencyRow, OperationRows};
use super::{ReportError, Results};

/// Minimum length of the last window, as a share of the first one's, with which it is drawn.
const WINDOW_SHARE_MIN: f64 = 0.9;

/// Appearance of a chart. The defaults are those of `summary.r`.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartOptions {
    /// Width in pixels (`-x`).
    pub width: u32,
    /// Height in pixels (`-y`).
    pub height: u32,
    /// Title of the first panel (`-t`).
    pub title: String,
    /// Label of the first panel's y axis (`-Y`).
    pub y_label: String,
}

impl Default for ChartOptions {
    fn default() -> Self {
        Self { width: 1280, height: 960, title: "Throughput".into(), y_label: "Ops/sec".into() }
    }
}

const MEAN: Column = Column { class: "mean", name: "mean", value_us: |row| row.mean_us };
const MEDIAN: Column = Column { class: "median", name: "median", value_us: |row| row.median_us };
const P95: Column = Column { class: "p95", name: "95th", value_us: |row| row.p95_us };
const P99: Column = Column { class: "p99", name: "99th", value_us: |row| row.p99_us };
const P99_9: Column = Column { class: "p999", name: "99.9th", value_us: |row| row.p99_9_us };
const MAX: Column = Column { class: "max", name: "max", value_us: |row| row.max_us };

/// The panels of latencies, from top to bottom.
const LATENCY_PANELS: [(&str, &[Column]); 4] = [
    ("Mean, Median, and 95th Percentile Latency", &[MEAN, MEDIAN, P95]),
    ("99th Percentile Latency", &[P99]),
    ("99.9th Percentile Latency", &[P99_9]),
    ("Maximum Latency", &[MAX]),
];

/// Draws the chart as an SVG document.
///
/// # Errors
///
/// [`ReportError::Size`] if a side is not between 300 and 20 000 pixels. Also when an interval log can't be
/// read.
pub fn draw_chart(results: &Results, options: &ChartOptions) -> Result<String, ReportError> {
    let directory = results.directory.display();
    let operations = attempt_rows(results)?;
    let names: Vec<&str> = results.operations.iter().map(|o| o.name.as_str()).collect();
    let sheet = ChartLayout {
        size: (options.width, options.height),
        title: format!("{directory}: throughput and latencies over time"),
        about: format!(
            "Five panels over elapsed seconds: throughput; mean, median and 95th, 99th and\n\
             99.9th percentile and greatest latency in milliseconds of {}.",
            names.join(", ")
        ),
        x_label: "Elapsed Secs",
        x_range: results.elapsed_range_s(),
        events: results.events.iter().map(|event| (event.elapsed_s, event.name.as_str())).collect(),
    };
    draw_panels(&sheet, &panels_of(results, &operations, options))
}

/// The rows, without a last row whose window was cut short, for instance by Ctrl-C. Workers that stop one
/// after another do less in it, so the line would drop although the server was not slower.
fn whole_windows(rows: &[super::SummaryRow]) -> impl Iterator<Item = &super::SummaryRow> {
    let usual_s = rows.first().map_or(0.0, |row| row.window_s);
    let whole = match rows {
        [others @ .., last] if !others.is_empty() && last.window_s < usual_s * WINDOW_SHARE_MIN => {
            others
        }
        _ => rows,
    };
    whole.iter().filter(|row| row.window_s > 0.0)
}

fn panels_of<'a>(
    results: &Results,
    operations: &'a [OperationRows],
    options: &'a ChartOptions,
) -> Vec<Panel<'a>> {
    let rates = |count: fn(&super::SummaryRow) -> f64| {
        let rows = whole_windows(&results.summary);
        rows.map(|row| (row.elapsed_s, count(row) / row.window_s)).collect()
    };
    let throughput = Facet {
        name: None,
        series: vec![
            rate_series("ok", rates(|row| row.successful), results),
            rate_series("error", rates(|row| row.failed), results),
        ],
    };
    let mut panels =
        vec![Panel { title: &options.title, y_label: &options.y_label, facets: vec![throughput] }];
    for (title, columns) in LATENCY_PANELS {
        let facets = operations.iter().map(|operation| Facet {
            name: Some(&operation.name),
            series: columns
                .iter()
                .map(|column| series_of(column, &operation.rows, results))
                .collect(),
        });
        panels.push(Panel { title, y_label: "Latency (ms)", facets: facets.collect() });
    }
    panels
}

/// A rate, which is known in every window. A smooth line would show a positive rate where nothing
/// succeeded. So a run with such windows gets straight lines from window to window, which a gap after all
/// points selects.
fn rate_series(name: &'static str, points: Vec<(f64, f64)>, results: &Results) -> PanelSeries {
    let is_silent = results.summary.iter().any(|row| row.successful <= 0.0);
    let gaps = if is_silent { vec![f64::INFINITY] } else { Vec::new() };
    PanelSeries { class: name, name, points, gaps }
}

/// A column in milliseconds. A row without latencies has no point, because it is not a latency of zero. The
/// line is interrupted at a row in which operations failed or nothing succeeded.
fn series_of(column: &Column, rows: &[LatencyRow], results: &Results) -> PanelSeries {
    let (seen, unseen): (Vec<&LatencyRow>, Vec<&LatencyRow>) =
        rows.iter().partition(|row| row.count > 0.0);
    let points = seen.iter().map(|row| (row.elapsed_s, column.value_ms(row))).collect();
    let is_gap = |row: &&&LatencyRow| row.error_count > 0.0 || results.is_silent_at(row.elapsed_s);
    let gaps = unseen.iter().filter(is_gap).map(|row| row.elapsed_s).collect();
    PanelSeries { class: column.class, name: column.name, points, gaps }
}

#[cfg(test)]
mod tests {
    use super::super::SummaryRow;
    use super::*;

    #[test]
    fn a_last_window_that_was_cut_short_is_not_drawn() {
        let row =
            |elapsed_s, window_s| SummaryRow { elapsed_s, window_s, successful: 1.0, failed: 0.0 };
        let ends =
            |rows: &[SummaryRow]| whole_windows(rows).map(|row| row.elapsed_s).collect::<Vec<_>>();
        assert_eq!(ends(&[row(10.0, 10.0), row(20.0, 10.0), row(23.5, 3.5)]), [10.0, 20.0]);
        assert_eq!(ends(&[row(10.0, 10.0), row(20.0, 10.0)]), [10.0, 20.0]);
        assert_eq!(ends(&[row(3.5, 3.5)]), [3.5], "it is all there is");
    }
}
