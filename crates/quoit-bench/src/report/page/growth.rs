//! The page of an experiment with a growing data type.

use std::fmt::Write as _;

use super::HtmlPage;
use super::parts::{self, Section};
use super::plot::{Plot, PlotCaption, PlotSeries, YScale};
use super::time_plots::ms;
use crate::growth::{GrowthRow, TIMES, TimeColumn, ends, median};
use crate::output::text::{ms_text, size_text};
use crate::plot::{escape, grouped, linear_ticks};
use crate::report::growth::{CLASSES, Growth};
use crate::report::thinned;

const PLOT_SIZE: (f64, f64) = (1120.0, 320.0);

/// Draws the page as an HTML document.
pub(in crate::report) fn draw_growth_page(growth: &Growth) -> String {
    let name = super::directory_name(&growth.directory);
    let containers = growth.rows.iter().map(|row| row.container).max().unwrap_or(0);
    let header = format!(
        "<header>\n<p class=\"eyebrow\">Quoit bench</p>\n<h1>{}</h1>\n<p class=\"quiet\">\
         crdt-growth: one client adds items one by one, and reads around each write</p>\n</header>\n",
        escape(&name)
    );
    let (_, items) = growth.item_range();
    let last_bytes = growth.rows.last().map_or(0, |row| row.size_bytes);
    let mut main = parts::tiles(&[
        ("Items", grouped(items, 0), "in each container"),
        ("Containers", grouped(containers as f64, 0), ""),
        ("Record", size_text(last_bytes), "before the last write"),
        ("Write", growth_text(&growth.rows, |row| row.write_s), "last tenth to first"),
    ]);
    let hint = "Medians of the first and of the last tenth of the items. An operation that \
                costs the same however large the record is has a ratio near 1.";
    Section { id: "growth", heading: "Growth", hint, content: &table(&growth.rows) }
        .add_to(&mut main);
    let groups = groups(&growth.rows);
    let hint = match groups.first().map_or(1, |group| group.len()) {
        1 => String::new(),
        count => format!("Each point is the median of {count} requests."),
    };
    let times = times(growth, &groups).figure();
    Section { id: "times", heading: "Times over items", hint: &hint, content: &times }
        .add_to(&mut main);
    let size = size(growth, &groups).figure();
    let hint = "Bytes that a plain read gives.";
    Section { id: "size", heading: "Size over items", hint, content: &size }.add_to(&mut main);
    if !growth.notes.is_empty() {
        Section {
            id: "notes",
            heading: "What is missing",
            hint: "",
            content: &parts::list(&growth.notes),
        }
        .add_to(&mut main);
    }
    HtmlPage { name: &name, header: &header, main: &main }.html()
}

/// The time of the last tenth of the items as a multiple of the first tenth's.
fn growth_text(rows: &[GrowthRow], time_s: fn(&GrowthRow) -> f64) -> String {
    ends(rows, time_s)
        .map_or_else(|| "-".to_owned(), |(first, last)| format!("{:.2}x", last / first))
}

fn table(rows: &[GrowthRow]) -> String {
    let mut html = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
    for head in ["request", "first tenth, ms", "last tenth, ms", "ratio"] {
        let _ = write!(html, "<th scope=\"col\">{head}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for TimeColumn { name, seconds } in TIMES {
        let ms = |time_s: f64| ms_text(time_s * 1e6);
        let (first, last) = ends(rows, seconds).map_or_else(
            || ("-".to_owned(), "-".to_owned()),
            |(first, last)| (ms(first), ms(last)),
        );
        let ratio = growth_text(rows, seconds);
        let _ = writeln!(
            html,
            "<tr><td>{name}</td><td>{first}</td><td>{last}</td><td>{ratio}</td></tr>"
        );
    }
    html + "</tbody></table></div>\n"
}

/// Groups of consecutive rows; each group becomes one point.
fn groups(rows: &[GrowthRow]) -> Vec<&[GrowthRow]> {
    rows.chunks(thinned::rows_a_point(rows.len())).collect()
}

fn times(growth: &Growth, groups: &[&[GrowthRow]]) -> Plot {
    let columns: Vec<Vec<Option<f64>>> =
        TIMES.iter().map(|time| medians(groups, |row| (time.seconds)(row) * 1000.0)).collect();
    let y = YScale::linear("milliseconds", columns.iter().flatten().flatten().copied());
    let lines = TIMES.iter().zip(CLASSES).zip(columns).map(|((time, class), values)| PlotSeries {
        class: class.to_owned(),
        name: time.name.to_owned(),
        values,
    });
    let caption = PlotCaption {
        id: "times-plot".to_owned(),
        about: "Times of reads and of the write over the items of a container".to_owned(),
    };
    let mut plot = over_items(growth, groups, caption, y, lines.collect());
    plot.value_text = ms;
    plot
}

fn size(growth: &Growth, groups: &[&[GrowthRow]]) -> Plot {
    let values = medians(groups, |row| row.size_bytes as f64 / 1024.0);
    let y = YScale::linear("KiB", values.iter().flatten().copied());
    let line = PlotSeries { class: "ok".to_owned(), name: "size".to_owned(), values };
    let caption = PlotCaption {
        id: "size-plot".to_owned(),
        about: "Size of a record over the items of a container".to_owned(),
    };
    over_items(growth, groups, caption, y, vec![line])
}

fn over_items(
    growth: &Growth,
    groups: &[&[GrowthRow]],
    caption: PlotCaption,
    y: YScale,
    series: Vec<PlotSeries>,
) -> Plot {
    let x_range = growth.item_range();
    let xs: Vec<f64> =
        groups.iter().map(|group| group.last().map_or(0.0, |row| row.item_count as f64)).collect();
    Plot {
        id: caption.id,
        about: caption.about,
        size: PLOT_SIZE,
        x_texts: xs.iter().map(|items| format!("{} items", grouped(*items, 0))).collect(),
        xs,
        x_range,
        x_ticks: linear_ticks(x_range, 10),
        y,
        series,
        cells: Vec::new(),
        marks: Vec::new(),
        value_text: |kib| format!("{} KiB", grouped(kib, 1)),
    }
}

/// The median of each group; `None` if the group has no value above 0.
fn medians(groups: &[&[GrowthRow]], value: impl Fn(&GrowthRow) -> f64) -> Vec<Option<f64>> {
    let of = |group: &&[GrowthRow]| {
        let values: Vec<f64> = group.iter().map(&value).filter(|value| *value > 0.0).collect();
        median(&values)
    };
    groups.iter().map(of).collect()
}
