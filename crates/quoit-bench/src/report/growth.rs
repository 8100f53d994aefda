//! The table of `quoit bench crdt-growth` read back, and its chart.

use std::path::{Path, PathBuf};

use super::csv::CsvLines;
use super::panels::{Facet, Panel, PanelSeries, Sheet, draw_panels};
use super::{ChartOptions, ReportError};
use crate::growth::{COLUMNS, GrowthRow, TIMES};
use crate::output::GROWTH_FILE;

/// The colours of the times, in their order.
pub(super) const CLASSES: [&str; 5] = ["median", "mean", "p95", "p99", "max"];

/// Results of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// Where it was read.
    pub directory: PathBuf,
    /// In the order of the requests; at least one.
    pub rows: Vec<GrowthRow>,
    /// Rows that were passed over.
    pub notes: Vec<String>,
}

impl Growth {
    /// True where an experiment left its table.
    pub(super) fn is_in(directory: &Path) -> bool {
        directory.join(GROWTH_FILE).is_file()
    }

    /// Reads the table in `directory`. A last row without its line end is passed over, with a note.
    ///
    /// # Errors
    ///
    /// When there is no row, or a line is not of the table's form.
    pub fn read(directory: &Path) -> Result<Self, ReportError> {
        let path = directory.join(GROWTH_FILE);
        let mut notes = Vec::new();
        let rows = CsvLines::read(&path)?.table(&COLUMNS, &mut notes, |row| {
            Ok(GrowthRow {
                item_count: row.number(0)? as u64,
                container: row.number(1)? as u64,
                size_bytes: row.number(2)? as u64,
                kv_read_s: row.number(3)?,
                read_before_s: row.number(4)?,
                write_s: row.number(5)?,
                read_after_s: row.number(6)?,
                read_again_s: row.number(7)?,
            })
        })?;
        match rows {
            Some(rows) if !rows.is_empty() => {
                Ok(Self { directory: directory.to_owned(), rows, notes })
            }
            _ => Err(ReportError::NoRows(path)),
        }
    }

    /// From 0 to the most items of a container.
    pub(super) fn item_range(&self) -> (f64, f64) {
        let most = self.rows.iter().map(|row| row.item_count).max().unwrap_or(1);
        (0.0, most as f64)
    }

    /// Draws the chart as an SVG document: the size, and each of the times, over the items.
    ///
    /// # Errors
    ///
    /// [`ReportError::Size`] when a side is not of 300 to 20 000 pixels.
    pub fn draw_chart(&self, options: &ChartOptions) -> Result<String, ReportError> {
        let size = Panel {
            title: "Size of the record",
            y_label: "KiB",
            facets: vec![Facet {
                name: None,
                series: vec![self.series("ok", "size", |row| row.size_bytes as f64 / 1024.0)],
            }],
        };
        let times = TIMES.iter().zip(CLASSES).map(|(time, class)| Facet {
            name: Some(time.name),
            series: vec![self.series(class, time.name, |row| (time.seconds)(row) * 1000.0)],
        });
        let times =
            Panel { title: "Time of each request", y_label: "Time (ms)", facets: times.collect() };
        let sheet = Sheet {
            size: (options.width, options.height),
            title: format!("{}: cost of a growing data type", self.directory.display()),
            about: "Two panels over the items of a container: the size of its record in KiB, and \
                    the times of reads and of the write in milliseconds."
                .to_owned(),
            x_label: "Items",
            x_range: self.item_range(),
            events: Vec::new(),
        };
        draw_panels(&sheet, &[size, times])
    }

    /// A column over the items. Items without a value have no point.
    fn series(
        &self,
        class: &'static str,
        name: &'static str,
        value: impl Fn(&GrowthRow) -> f64,
    ) -> PanelSeries {
        let points = self.rows.iter().map(|row| (row.item_count as f64, value(row)));
        let points = points.filter(|(_, value)| *value > 0.0).collect();
        PanelSeries { class, name, points, gaps: Vec::new() }
    }
}
