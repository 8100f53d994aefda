//! Reading and drawing the table of a search for the knee.

use std::path::{Path, PathBuf};

use super::csv::CsvLines;
use super::panels::{ChartLayout, Facet, Panel, PanelSeries, draw_panels};
use super::{ChartOptions, ReportError};
use crate::run::{KNEE_COLUMNS, KNEE_FILE, KneeRow};

/// Results of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct KneeResults {
    /// Directory that they were read from.
    pub directory: PathBuf,
    /// The rows, ordered by offered rate; at least one.
    pub rows: Vec<KneeRow>,
    /// Notes about rows that were ignored.
    pub notes: Vec<String>,
}

impl KneeResults {
    /// True if the directory has the table of a search.
    pub(super) fn is_in(directory: &Path) -> bool {
        directory.join(KNEE_FILE).is_file()
    }

    /// Reads the table in `directory`. An incomplete last row is ignored with a note.
    ///
    /// # Errors
    ///
    /// When there is no row, or a line does not have the form of the table.
    pub fn read(directory: &Path) -> Result<Self, ReportError> {
        let path = directory.join(KNEE_FILE);
        let mut notes = Vec::new();
        let rows = CsvLines::read(&path)?.table(&KNEE_COLUMNS, &mut notes, |row| {
            Ok(KneeRow {
                offered_per_s: row.number(0)?,
                successful_per_s: row.number(1)?,
                p99_us: row.number(2)?,
                undone: row.number(3)?,
                is_client_bound: row.truth(4)?,
                is_within: row.truth(5)?,
                sample_count: row.count(6)?,
                p99_us_min: row.number(7)?,
                p99_us_max: row.number(8)?,
            })
        })?;
        match rows {
            Some(mut rows) if !rows.is_empty() => {
                rows.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
                Ok(Self { directory: directory.to_owned(), rows, notes })
            }
            _ => Err(ReportError::NoRows(path)),
        }
    }

    /// The highest offered rate within the bound.
    pub(super) fn knee_per_s(&self) -> Option<f64> {
        let within = self.rows.iter().filter(|row| row.is_within);
        within.map(|row| row.offered_per_s).max_by(f64::total_cmp)
    }

    /// The range from 0 to the highest offered rate.
    pub(super) fn rate_range(&self) -> (f64, f64) {
        (0.0, self.rows.last().map_or(1.0, |row| row.offered_per_s))
    }

    /// Draws the chart as an SVG document. It shows the successful rate and the 99th percentile over the
    /// offered rate.
    ///
    /// # Errors
    ///
    /// [`ReportError::Size`] if a side is not between 300 and 20 000 pixels.
    pub fn draw_chart(&self, options: &ChartOptions) -> Result<String, ReportError> {
        let series = |class, name, value: fn(&KneeRow) -> f64| {
            let points = self.rows.iter().map(|row| (row.offered_per_s, value(row)));
            // A gap after all points selects straight lines between the points, because a smooth curve
            // would hide the knee.
            let gaps = vec![f64::INFINITY];
            PanelSeries { class, name, points: points.collect(), gaps }
        };
        let panel = |title, y_label, series| Panel {
            title,
            y_label,
            facets: vec![Facet { name: None, series }],
        };
        let rate = panel(
            "Successful operations",
            "Ops/sec",
            vec![series("ok", "successful", |row| row.successful_per_s)],
        );
        let latency = panel(
            "99th percentile of all operations",
            "Latency (ms)",
            vec![
                series("max", "greatest", |row| row.p99_us_max / 1e3),
                series("p99", "median", |row| row.p99_us / 1e3),
                series("median", "least", |row| row.p99_us_min / 1e3),
            ],
        );
        let sheet = ChartLayout {
            size: (options.width, options.height),
            title: format!("{}: search for the knee", self.directory.display()),
            about: "Two panels over the offered operations a second: successful operations a second, and \
                    the least, median and greatest 99th percentile of the samples in milliseconds."
                .to_owned(),
            x_label: "Offered operations a second",
            x_range: self.rate_range(),
            events: Vec::new(),
        };
        draw_panels(&sheet, &[rate, latency])
    }
}
