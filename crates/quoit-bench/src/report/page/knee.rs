//! The page of a search for the knee.

use std::fmt::Write as _;

use super::HtmlPage;
use super::parts::{self, Section};
use super::plot::{Plot, PlotCaption, PlotSeries, YScale};
use super::time_plots::ms;
use crate::output::text::ms_text;
use crate::plot::{escape, grouped, linear_ticks};
use crate::report::knee::KneeResults;
use crate::run::KneeRow;

const PLOT_SIZE: (f64, f64) = (1120.0, 320.0);

/// Draws the page as an HTML document.
pub(in crate::report) fn draw_knee_page(knee: &KneeResults) -> String {
    let name = super::directory_name(&knee.directory);
    let header = format!(
        "<header>\n<p class=\"eyebrow\">Quoit bench</p>\n<h1>{}</h1>\n<p class=\"quiet\">\
         knee: the highest rate of an open loop whose 99th percentile stays within a bound</p>\n</header>\n",
        escape(&name)
    );
    let at_knee = knee.rows.iter().rfind(|row| row.is_within);
    let samples: u64 = knee.rows.iter().map(|row| row.sample_count).sum();
    let mut main = parts::tiles(&[
        ("Knee", knee.knee_per_s().map_or("none".to_owned(), |rate| grouped(rate, 1)), "op/s"),
        ("99 % there", at_knee.map_or("-".to_owned(), |row| ms_text(row.p99_us)), "ms"),
        ("Rates", knee.rows.len().to_string(), "tried"),
        ("Samples", samples.to_string(), "in all"),
    ]);
    let hint = "The 99th percentile of all operations together: the median of the samples of each rate, \
                with the least and the greatest.";
    Section { id: "latency", heading: "Latency over rate", hint, content: &latency(knee).figure() }
        .add_to(&mut main);
    let hint =
        "Where successful operations stay behind those that were due, the server is at its end.";
    let rate = rate(knee).figure();
    Section { id: "rate", heading: "Successful over offered operations", hint, content: &rate }
        .add_to(&mut main);
    let hint = "Each sample has its files in step-NN. A rate is sampled again until two more samples say \
                one thing than the other, at most five times; client-bound samples do not count.";
    Section { id: "rates", heading: "Rates", hint, content: &table(&knee.rows) }.add_to(&mut main);
    if !knee.notes.is_empty() {
        Section {
            id: "notes",
            heading: "What is missing",
            hint: "",
            content: &parts::list(&knee.notes),
        }
        .add_to(&mut main);
    }
    HtmlPage { name: &name, header: &header, main: &main }.html()
}

fn table(rows: &[KneeRow]) -> String {
    let mut html = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
    for head in
        ["offered, op/s", "successful", "99 %, ms", "least", "greatest", "undone", "samples", ""]
    {
        let _ = write!(html, "<th scope=\"col\">{head}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        let verdict = match (row.is_within, row.is_client_bound) {
            (true, _) => "within",
            (false, true) => "client-bound",
            (false, false) => "beyond",
        };
        let cells = [
            grouped(row.offered_per_s, 1),
            grouped(row.successful_per_s, 1),
            ms_text(row.p99_us),
            ms_text(row.p99_us_min),
            ms_text(row.p99_us_max),
            grouped(row.undone, 0),
            row.sample_count.to_string(),
            verdict.to_owned(),
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        let _ = writeln!(html, "<tr>{cells}</tr>");
    }
    html + "</tbody></table></div>\n"
}

fn latency(knee: &KneeResults) -> Plot {
    let series = |class: &str, name: &str, value: fn(&KneeRow) -> f64| PlotSeries {
        class: class.to_owned(),
        name: name.to_owned(),
        values: knee.rows.iter().map(|row| Some(value(row))).collect(),
    };
    let lines = vec![
        series("max", "greatest", |row| row.p99_us_max / 1e3),
        series("p99", "median", |row| row.p99_us / 1e3),
        series("median", "least", |row| row.p99_us_min / 1e3),
    ];
    let values = lines.iter().flat_map(|line| line.values.iter().flatten().copied());
    let y = YScale::logarithmic("milliseconds, logarithmic", values);
    let caption = PlotCaption {
        id: "latency-plot".to_owned(),
        about: "The 99th percentile over the offered operations a second".to_owned(),
    };
    let mut plot = over_rates(knee, caption, y, lines);
    plot.value_text = ms;
    plot
}

fn rate(knee: &KneeResults) -> Plot {
    let values: Vec<f64> = knee.rows.iter().map(|row| row.successful_per_s).collect();
    let y = YScale::linear("operations a second", values.iter().copied());
    let values = values.into_iter().map(Some).collect();
    let line = PlotSeries { class: "ok".to_owned(), name: "successful".to_owned(), values };
    let caption = PlotCaption {
        id: "rate-plot".to_owned(),
        about: "Successful over offered operations a second".to_owned(),
    };
    over_rates(knee, caption, y, vec![line])
}

fn over_rates(
    knee: &KneeResults,
    caption: PlotCaption,
    y: YScale,
    series: Vec<PlotSeries>,
) -> Plot {
    let x_range = knee.rate_range();
    let xs: Vec<f64> = knee.rows.iter().map(|row| row.offered_per_s).collect();
    Plot {
        id: caption.id,
        about: caption.about,
        size: PLOT_SIZE,
        x_texts: xs.iter().map(|rate| format!("at {} op/s", grouped(*rate, 1))).collect(),
        xs,
        x_range,
        x_ticks: linear_ticks(x_range, 10),
        y,
        series,
        cells: Vec::new(),
        marks: Vec::new(),
        value_text: |rate| format!("{} /s", grouped(rate, usize::from(rate < 100.0))),
    }
}
