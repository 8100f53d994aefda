//! The report of a campaign: a page, and its tables for programs.

use super::cell::CampaignCell;
use super::error::CampaignError;
use super::file::Campaign;
use super::published::figure_text;
use super::scale::{CampaignScale, LENGTH_MIN};
use super::state::{CampaignState, write_whole};
use super::table::{CampaignCellRow, CampaignRow, CampaignTables};
use crate::output::environment::Environment;
use crate::output::text::size_text;
use crate::report::{
    CAMPAIGN_PAGE, CampaignPage, CampaignPageCell, CampaignPageRow, draw_campaign_page,
};
use std::path::Path;

const CSV_FILE: &str = "summary.csv";
const JSON_FILE: &str = "summary.json";

/// Writes the page and the tables of a campaign with the results so far.
pub(super) fn write_report(
    campaign: &Campaign,
    cells: &[CampaignCell],
    state: &CampaignState,
    directory: &Path,
    scale: CampaignScale,
) -> Result<CampaignTables, CampaignError> {
    let tables = CampaignTables::read(campaign, cells, state, directory, &scale.to_string());
    write_whole(&directory.join(CSV_FILE), tables.csv().as_bytes())?;
    let mut json = serde_json::to_vec_pretty(&tables).expect("it has no map with other keys");
    json.push(b'\n');
    write_whole(&directory.join(JSON_FILE), &json)?;
    let page = page(campaign, cells, &tables, directory, scale);
    write_whole(&directory.join(CAMPAIGN_PAGE), page.as_bytes())?;
    Ok(tables)
}

fn page(
    campaign: &Campaign,
    cells: &[CampaignCell],
    tables: &CampaignTables,
    directory: &Path,
    scale: CampaignScale,
) -> String {
    let (compared, others): (Vec<&CampaignRow>, Vec<&CampaignRow>) =
        tables.figures.iter().partition(|row| row.published.is_some());
    let machine = Environment::look(Vec::new(), Vec::new());
    let host = &machine.host;
    let facts = [
        ("campaign", campaign.name.clone()),
        ("published", campaign.source.clone()),
        ("scale", scale.to_string()),
        ("processor", host.cpu_model.clone()),
        ("cores", host.core_count.to_string()),
        ("memory", size_text(host.memory_bytes)),
        ("kernel", host.kernel.clone()),
        ("quoit bench", machine.quoit_version.clone()),
        ("command", machine.command_line.join(" ")),
    ];
    let others = others.into_iter().filter(|row| row.ours.is_some());
    draw_campaign_page(&CampaignPage {
        title: &format!("{}: {}", campaign.name, campaign.title),
        about: &campaign.about,
        badges: badges(tables, scale),
        axes: campaign.axes.iter().map(|axis| axis.name.clone()).collect(),
        cells: tables.cells.iter().map(|row| page_cell(row, directory)).collect(),
        compared: compared.into_iter().map(page_row).collect(),
        others: others.map(page_row).collect(),
        differences: differences(campaign, cells, scale, host.core_count),
        facts: facts.map(|(name, text)| (name.to_owned(), text)).to_vec(),
        file: (format!("{}.campaign", campaign.name), campaign.text.clone()),
    })
}

fn badges(tables: &CampaignTables, scale: CampaignScale) -> Vec<(&'static str, String)> {
    let count = |end: &str| tables.cells.iter().filter(|cell| cell.end == end).count();
    let (done, all) = (count("done"), tables.cells.len());
    let class = if done == all { "good" } else { "warn" };
    let mut badges = vec![(class, format!("{done} of {all} cells done"))];
    for (end, class) in [("failed", "bad"), ("skipped", "warn")] {
        match count(end) {
            0 => {}
            count => badges.push((class, format!("{count} {end}"))),
        }
    }
    match scale.is_whole() {
        true => badges.push(("good", "as published".to_owned())),
        false => badges.push(("warn", format!("scale {scale}"))),
    }
    badges
}

/// Facts that a reader must know before comparing figures.
fn differences(
    campaign: &Campaign,
    cells: &[CampaignCell],
    scale: CampaignScale,
    core_count: usize,
) -> Vec<String> {
    let mut told = Vec::new();
    let started = cells.iter().filter(|cell| cell.server.running.is_none());
    if let Some(nodes) = started.map(|cell| cell.server.nodes_in_all()).max() {
        let nodes = if nodes == 1 { "the node".to_owned() } else { format!("up to {nodes} nodes") };
        told.push(format!(
            "Hardware: {nodes} and the load generator share a machine of {core_count} cores and its disk."
        ));
    }
    if !scale.is_whole() {
        told.push(format!(
            "Scale: durations are {scale} of the published ones, but {} s at least, and so are the numbers \
             that the campaign marks as scaled: so few keys fit into caches that the published data did not.",
            LENGTH_MIN.as_secs()
        ));
    }
    told.extend(campaign.differences.iter().cloned());
    told
}

fn page_cell(row: &CampaignCellRow, directory: &Path) -> CampaignPageCell {
    let class = match row.end {
        "done" => "good",
        "failed" => "bad",
        _ => "warn",
    };
    let report = format!("{}/report.html", row.cell);
    let bound = row.is_client_bound.then(|| "the load generator was the limit".to_owned());
    let notes: Vec<String> = row.note.iter().cloned().chain(bound).collect();
    CampaignPageCell {
        label: row.cell.clone(),
        report: Some(report).filter(|report| directory.join(report).is_file()),
        values: row.values.iter().map(|(_, label)| label.clone()).collect(),
        end: (class, row.end.to_owned()),
        rate_per_s: row.rate_per_s,
        failed_percent: row.failed_percent,
        note: notes.join("; "),
    }
}

fn page_row(row: &CampaignRow) -> CampaignPageRow {
    let told = |value: Option<f64>| value.map(|value| (value, figure_text(value)));
    CampaignPageRow {
        cell: row.cell.clone(),
        figure: row.figure.clone(),
        unit: row.unit,
        ours: told(row.ours),
        published: row.published.clone().unwrap_or_default(),
        ratio: told(row.ratio),
        source: row.source.clone().unwrap_or_default(),
    }
}
