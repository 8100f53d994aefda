//! The page of a campaign: its cells, their figures next to published ones, and the differences of the
//! setups.

use super::HtmlPage;
use super::campaign_ratios::ratios;
use super::parts::{self, Section};
use crate::plot::{escape, grouped};
use std::fmt::Write as _;

/// The contents of a campaign's page.
pub(crate) struct CampaignPage<'a> {
    /// Name and title.
    pub(crate) title: &'a str,
    /// The introductory paragraph.
    pub(crate) about: &'a str,
    /// Short facts, each with a class: good, warn or bad.
    pub(crate) badges: Vec<(&'static str, String)>,
    /// Column headers for the cells' axes.
    pub(crate) axes: Vec<String>,
    /// The cells.
    pub(crate) cells: Vec<CampaignPageCell>,
    /// The figures with a published counterpart, and the other figures.
    pub(crate) compared: Vec<CampaignPageRow>,
    pub(crate) others: Vec<CampaignPageRow>,
    /// Differences from the published experiments.
    pub(crate) differences: Vec<String>,
    /// Facts about machine and program.
    pub(crate) facts: Vec<(String, String)>,
    /// Name and text of the campaign file.
    pub(crate) file: (String, String),
}

/// A row of the table of cells.
pub(crate) struct CampaignPageCell {
    pub(crate) label: String,
    /// Path of the cell's report; `None` if the cell has no report.
    pub(crate) report: Option<String>,
    /// Values of its axes.
    pub(crate) values: Vec<String>,
    /// The end of its run, with a class.
    pub(crate) end: (&'static str, String),
    pub(crate) rate_per_s: Option<f64>,
    pub(crate) failed_percent: Option<f64>,
    pub(crate) note: String,
}

/// A row of a table of figures.
pub(crate) struct CampaignPageRow {
    pub(crate) cell: String,
    pub(crate) figure: String,
    pub(crate) unit: &'static str,
    /// The measured value, and its text.
    pub(crate) ours: Option<(f64, String)>,
    pub(crate) published: String,
    pub(crate) ratio: Option<(f64, String)>,
    pub(crate) source: String,
}

/// Draws the page of a campaign.
pub(crate) fn draw_campaign_page(page: &CampaignPage<'_>) -> String {
    let badges: String = page
        .badges
        .iter()
        .map(|(class, text)| format!("<li class=\"badge {class}\">{}</li>", escape(text)))
        .collect();
    let header = format!(
        "<header>\n<p class=\"eyebrow\">Quoit bench: campaign</p>\n<h1>{}</h1>\n<p class=\"quiet\">{}</p>\n\
         <ul class=\"badges\">{badges}</ul>\n</header>\n",
        escape(page.title),
        escape(page.about)
    );
    let mut main = String::new();
    if !page.compared.is_empty() {
        let hint = "The figures of this campaign and the published ones. The ratio is this campaign's figure \
                    divided by the published one: a higher ratio is better for rates, a lower one for \
                    latencies. For a published range, the nearest end counts.";
        Section {
            id: "published",
            heading: "Beside the published figures",
            hint,
            content: &(ratios(&page.compared).unwrap_or_default() + &compared(page)),
        }
        .add_to(&mut main);
    }
    if !page.differences.is_empty() {
        let hint = "Read the ratios with this in mind.";
        let list = parts::list(&page.differences);
        Section { id: "differences", heading: "What differs", hint, content: &list }
            .add_to(&mut main);
    }
    let hint = "Each cell is a run of its own on servers of its own; its name leads to its report.";
    Section { id: "cells", heading: "Cells", hint, content: &cells(page) }.add_to(&mut main);
    if !page.others.is_empty() {
        Section { id: "figures", heading: "All other figures", hint: "", content: &others(page) }
            .add_to(&mut main);
    }
    Section { id: "setup", heading: "Setup", hint: "", content: &parts::facts(&page.facts) }
        .add_to(&mut main);
    let file =
        parts::files(std::slice::from_ref(&page.file)).replacen("<details open>", "<details>", 1);
    Section { id: "campaign", heading: "Campaign", hint: "", content: &file }.add_to(&mut main);
    HtmlPage { name: page.title, header: &header, main: &main }.html()
}

fn table(heads: &[&str]) -> String {
    let mut html = String::from("<div class=\"scroll\"><table class=\"sortable\">\n<thead><tr>");
    for head in heads {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(head));
    }
    html + "</tr></thead>\n<tbody>\n"
}

const TABLE_END: &str = "</tbody></table></div>\n";

fn compared(page: &CampaignPage<'_>) -> String {
    let mut html = table(&["cell", "figure", "ours", "published", "unit", "ratio", "source"]);
    for row in &page.compared {
        let _ = write!(html, "<tr><td>{}</td>", escape(&row.cell));
        left(&mut html, &row.figure);
        value(&mut html, row.ours.as_ref());
        let _ = write!(html, "<td>{}</td><td>{}</td>", escape(&row.published), row.unit);
        value(&mut html, row.ratio.as_ref());
        left(&mut html, &row.source);
        html.push_str("</tr>\n");
    }
    html + TABLE_END
}

fn others(page: &CampaignPage<'_>) -> String {
    let mut html = table(&["cell", "figure", "value", "unit"]);
    for row in &page.others {
        let _ = write!(html, "<tr><td>{}</td>", escape(&row.cell));
        left(&mut html, &row.figure);
        value(&mut html, row.ours.as_ref());
        let _ = writeln!(html, "<td>{}</td></tr>", row.unit);
    }
    html + TABLE_END
}

fn cells(page: &CampaignPage<'_>) -> String {
    let mut heads = vec!["cell"];
    heads.extend(page.axes.iter().map(String::as_str));
    heads.extend(["end", "op/s", "failed", "note"]);
    let mut html = table(&heads);
    for cell in &page.cells {
        let label = escape(&cell.label);
        let _ = match &cell.report {
            Some(report) => write!(html, "<tr><td><a href=\"{}\">{label}</a></td>", escape(report)),
            None => write!(html, "<tr><td>{label}</td>"),
        };
        for text in &cell.values {
            let _ = write!(html, "<td>{}</td>", escape(text));
        }
        let (class, end) = &cell.end;
        let _ = write!(html, "<td><span class=\"badge {class}\">{}</span></td>", escape(end));
        value(&mut html, cell.rate_per_s.map(|rate| (rate, grouped(rate, 0))).as_ref());
        let failed = cell.failed_percent.map(|percent| (percent, format!("{percent:.3} %")));
        value(&mut html, failed.as_ref());
        left(&mut html, &cell.note);
        html.push_str("</tr>\n");
    }
    html + TABLE_END
}

fn left(html: &mut String, text: &str) {
    let _ = write!(html, "<td class=\"left words\">{}</td>", escape(text));
}

fn value(html: &mut String, value: Option<&(f64, String)>) {
    let _ = match value {
        Some((number, text)) => write!(html, "<td data-value=\"{number}\">{}</td>", escape(text)),
        None => write!(html, "<td data-value=\"\">-</td>"),
    };
}
