//! Reading and drawing the table of `quoit bench crdt-growth`.

use std::path::{Path, PathBuf};

use super::csv::CsvLines;
use super::panels::{ChartLayout, Facet, Panel, PanelSeries, draw_panels};
use super::{ChartOptions, ReportError};
use crate::growth::{COLUMNS, GrowthRow, TIMES};
use crate::output::GROWTH_FILE;

/// Style classes of the times, in the order of the times.
pub(super) const CLASSES: [&str; 5] = ["median", "mean", "p95", "p99", "max"];

/// Results of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// Directory that they were read from.
    pub directory: PathBuf,
    /// The rows, in the order of the requests; at least one.
    pub rows: Vec<GrowthRow>,
    /// Notes about rows that were ignored.
    pub notes: Vec<String>,
}

impl Growth {
    /// True if the directory has the table of an experiment.
    pub(super) fn is_in(directory: &Path) -> bool {
        directory.join(GROWTH_FILE).is_file()
    }

    /// Reads the table in `directory`. An incomplete last row is ignored with a note.
    ///
    /// # Errors
    ///
    /// When there is no row, or a line does not have the form of the table.
    pub fn read(directory: &Path) -> Result<Self, ReportError> {
        let path = directory.join(GROWTH_FILE);
        let mut notes = Vec::new();
        let rows = CsvLines::read(&path)?.table(&COLUMNS, &mut notes, |row| {
            Ok(GrowthRow {
                item_count: row.count(0)?,
                container: row.count(1)?,
                size_bytes: row.count(2)?,
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

    /// The range from 0 to the largest number of items in a container.
    pub(super) fn item_range(&self) -> (f64, f64) {
        let most = self.rows.iter().map(|row| row.item_count).max().unwrap_or(1);
        (0.0, most as f64)
    }

    /// Draws the chart as an SVG document. It shows the size and each of the times over the number of
    /// items.
    ///
    /// # Errors
    ///
    /// [`ReportError::Size`] if a side is not between 300 and 20 000 pixels.
    pub fn draw_chart(&self, options: &ChartOptions) -> Result<String, ReportError> {
        let size = Panel {
            title: "Size of the record",
            y_label: "KiB",
            facets: vec![Facet {
                name: None,
                series: vec![PanelSeries {
                    class: "ok",
                    name: "size",
                    points: self.points(|row| row.size_bytes as f64 / 1024.0),
                    gaps: Vec::new(),
                }],
            }],
        };
        let times = TIMES.iter().zip(CLASSES).map(|(time, class)| Facet {
            name: Some(time.name),
            series: vec![PanelSeries {
                class,
                name: time.name,
                points: self.points(|row| (time.seconds)(row) * 1000.0),
                gaps: Vec::new(),
            }],
        });
        let times =
            Panel { title: "Time of each request", y_label: "Time (ms)", facets: times.collect() };
        let sheet = ChartLayout {
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

    /// The points of a column over the number of items. Values of 0 get no point.
    fn points(&self, value: impl Fn(&GrowthRow) -> f64) -> Vec<(f64, f64)> {
        let points = self.rows.iter().map(|row| (row.item_count as f64, value(row)));
        points.filter(|(_, value)| *value > 0.0).collect()
    }
}
