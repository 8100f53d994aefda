//! The figures of all cells compared with the published ones: for the page, as CSV and as JSON.

use super::cell::CampaignCell;
use super::figure::{CampaignFigure, Statistic};
use super::file::Campaign;
use super::measured::MeasuredCell;
use super::published::figure_text;
use super::state::CampaignState;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

/// A figure of a cell, with a published value if there is one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct CampaignRow {
    /// Label of the cell.
    pub cell: String,
    /// The figure as text.
    pub figure: String,
    /// Unit of the figure; empty for a ratio.
    pub unit: &'static str,
    /// The measured value; `None` for a cell without results.
    pub ours: Option<f64>,
    /// The published value, as text.
    pub published: Option<String>,
    /// Place, time and system of the published measurement.
    pub source: Option<String>,
    /// The measured value as a multiple of the published one.
    pub ratio: Option<f64>,
}

/// The results of a cell as a whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct CampaignCellRow {
    /// Label of the cell.
    pub cell: String,
    /// The state of the cell: `done`, `failed`, `skipped` or `open`.
    pub end: &'static str,
    /// The reason of a failure or a skip, or a note for readers.
    pub note: Option<String>,
    /// Successful operations per second; `None` without results.
    pub rate_per_s: Option<f64>,
    /// Failed operations in percent.
    pub failed_percent: Option<f64>,
    /// True if the load generator was the limit.
    pub is_client_bound: bool,
    /// Seconds from the start of the servers to their end.
    pub seconds: Option<f64>,
    /// Names of the axes, each with the label of the cell's value.
    pub values: Vec<(String, String)>,
    /// Number of nodes in all clusters.
    pub nodes: u16,
}

/// The tables of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct CampaignTables {
    /// Name of the campaign.
    pub campaign: String,
    /// The scale.
    pub scale: String,
    /// The cells, in the order of the matrix.
    pub cells: Vec<CampaignCellRow>,
    /// The figures of all cells, cell by cell.
    pub figures: Vec<CampaignRow>,
}

impl CampaignTables {
    /// Reads the results of all cells below a directory.
    pub(super) fn read(
        campaign: &Campaign,
        cells: &[CampaignCell],
        state: &CampaignState,
        directory: &Path,
        scale: &str,
    ) -> Self {
        let mut tables = Self {
            campaign: campaign.name.clone(),
            scale: scale.to_owned(),
            cells: Vec::new(),
            figures: Vec::new(),
        };
        for cell in cells {
            let record = state.record(&cell.label);
            let own = directory.join(&cell.label);
            // Ignore results of a cell that is not done.
            let measured = match state.is_done(&cell.label) {
                true => MeasuredCell::read(&own, cell.server.node_count),
                false => MeasuredCell::nothing(cell.server.node_count),
            };
            tables.cells.push(CampaignCellRow {
                cell: cell.label.clone(),
                end: record.map_or("open", |record| record.end.name()),
                note: record.and_then(|record| record.note.clone()),
                rate_per_s: CampaignFigure::Rate.measure(&measured),
                failed_percent: CampaignFigure::Failed.measure(&measured),
                is_client_bound: measured.summary().is_some_and(|one| one.client.client_bound),
                seconds: record.map(|record| record.seconds),
                values: cell.coordinates.clone(),
                nodes: cell.server.nodes_in_all(),
            });
            tables.figures.extend(rows(campaign, cell, &measured));
        }
        tables
    }

    /// The table of figures as CSV.
    pub(super) fn csv(&self) -> String {
        let mut text = String::from("cell,figure,unit,ours,published,source,ratio\n");
        let number = |number: Option<f64>| number.map_or_else(String::new, |n| n.to_string());
        for row in &self.figures {
            let [published, source] =
                [&row.published, &row.source].map(|text| quoted(text.as_deref().unwrap_or("")));
            let (cell, figure) = (quoted(&row.cell), quoted(&row.figure));
            let (ours, ratio) = (number(row.ours), number(row.ratio));
            let _ =
                writeln!(text, "{cell},{figure},{},{ours},{published},{source},{ratio}", row.unit);
        }
        text
    }

    /// The figures that have a published counterpart, as lines for a terminal.
    pub(super) fn lines(&self) -> Vec<String> {
        let compared =
            self.figures.iter().filter(|row| row.published.is_some() && row.ours.is_some());
        let value = |row: &CampaignRow| row.ours.map_or_else(|| "-".to_owned(), figure_text);
        compared
            .map(|row| {
                let ratio = row
                    .ratio
                    .map_or_else(String::new, |ratio| format!(" ({} times)", figure_text(ratio)));
                format!(
                    "  {}: {} {} {}{ratio}; published {} ({})",
                    row.cell,
                    row.figure,
                    value(row),
                    row.unit,
                    row.published.as_deref().unwrap_or_default(),
                    row.source.as_deref().unwrap_or_default(),
                )
            })
            .collect()
    }
}

/// A cell of CSV, in quotes if necessary.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// The figures of a cell: the published ones, those that the campaign names, and the usual ones.
fn rows(campaign: &Campaign, cell: &CampaignCell, measured: &MeasuredCell) -> Vec<CampaignRow> {
    let of_cell = || campaign.published.iter().filter(|set| set.is_of(&cell.coordinates));
    let mut figures: Vec<CampaignFigure> = Vec::new();
    let mut add = |figure: CampaignFigure| {
        if !figures.contains(&figure) {
            figures.push(figure);
        }
    };
    of_cell().flat_map(|set| &set.figures).for_each(|(figure, _)| add(figure.clone()));
    campaign.figures.iter().cloned().for_each(&mut add);
    if measured.summary().is_some() {
        add(CampaignFigure::Rate);
        add(CampaignFigure::Failed);
    }
    for operation in measured.operations() {
        for statistic in [Statistic::Mean, Statistic::P95, Statistic::P99, Statistic::P99_9] {
            add(CampaignFigure::Latency { statistic, operation: operation.clone() });
        }
    }
    let mut rows = Vec::new();
    for figure in figures {
        let ours = figure.measure(measured);
        let row = CampaignRow {
            cell: cell.label.clone(),
            figure: figure.to_string(),
            unit: figure.unit(),
            ours,
            published: None,
            source: None,
            ratio: None,
        };
        let published: Vec<CampaignRow> = of_cell()
            .flat_map(|set| set.figures.iter().map(move |pair| (pair, &set.source)))
            .filter(|((known, _), _)| *known == figure)
            .map(|((_, value), source)| CampaignRow {
                published: Some(value.to_string()),
                source: Some(source.clone()),
                ratio: ours.and_then(|ours| value.ratio(ours)),
                ..row.clone()
            })
            .collect();
        match published.is_empty() {
            true => rows.push(row),
            false => rows.extend(published),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::CampaignScale;
    use crate::campaign::state::{CellEnd, CellRecord};
    use crate::growth::{COLUMNS, GrowthRow};
    use crate::output::GROWTH_FILE;
    use std::fs;

    const GROWING: &str = r#"{title, "t"}. {server, []}. {matrix, [{type, [sets, maps]}]}.
        {growth, [{type, {axis, type}}, {items, 20}]}. {figures, [{at_end, size}]}.
        {published, [{[{type, sets}], "one, \"quoted\"", [{{growth, write}, 4}]},
                     {[{type, sets}], "other", [{{growth, write}, "flat"}]}]}."#;

    #[test]
    fn each_source_has_a_row_and_cells_that_are_not_done_have_no_figure() {
        let campaign =
            Campaign::parse("g.campaign".as_ref(), GROWING.as_bytes()).expect("a campaign");
        let cells = campaign.cells(CampaignScale::WHOLE).expect("cells");
        let folder = tempfile::tempdir().expect("a folder");
        for label in ["sets", "maps"] {
            let row = |number: u64| GrowthRow {
                item_count: number,
                size_bytes: 10 * number,
                write_s: number as f64 * 1e-3,
                ..GrowthRow::default()
            };
            let rows: String = (1..=20).map(|number| format!("{}\n", row(number))).collect();
            fs::create_dir(folder.path().join(label)).expect("made");
            let text = COLUMNS.join(", ") + "\n" + &rows;
            fs::write(folder.path().join(label).join(GROWTH_FILE), text).expect("written");
        }
        let mut state =
            CampaignState::open(folder.path(), &campaign, CampaignScale::WHOLE).expect("a state");
        for (label, end) in [("sets", CellEnd::Done), ("maps", CellEnd::Failed)] {
            let started_at = String::new();
            let record =
                CellRecord { label: label.to_owned(), end, note: None, started_at, seconds: 1.0 };
            state.note(folder.path(), record).expect("written");
        }
        let tables = CampaignTables::read(&campaign, &cells, &state, folder.path(), "1");
        let ends: Vec<&str> = tables.cells.iter().map(|cell| cell.end).collect();
        assert_eq!(ends, ["done", "failed"]);
        // The median of the last tenth is over items 19 and 20, that of the first tenth over items 1 and 2.
        let csv = tables.csv();
        let lines: Vec<&str> = csv.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "sets,write: last tenth by the first,,10,4,\"one, \"\"quoted\"\"\",2.5",
                "sets,write: last tenth by the first,,10,flat,other,",
                "sets,size in the last tenth,bytes,200,,,",
                "maps,size in the last tenth,bytes,,,,",
            ]
        );
        assert_eq!(tables.lines().len(), 2);
    }
}
