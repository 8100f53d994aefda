//! The page of a run: one HTML file that needs no network. Its script only adds conveniences.

mod agents;
mod campaign;
mod campaign_ratios;
mod comparison;
mod configuration;
mod events;
mod growth;
mod header;
mod heat_map;
mod html_page;
mod knee;
mod parts;
mod plot;
mod servers;
mod spectrum;
mod time_plots;
mod verification;

use std::fmt::Write as _;
use std::path::Path;

pub(crate) use self::campaign::{
    CampaignPage, CampaignPageCell, CampaignPageRow, draw_campaign_page,
};
pub(crate) use self::comparison::{ComparisonPage, draw_comparison_page};
pub(super) use self::growth::draw_growth_page;
use self::header::header;
use self::html_page::HtmlPage;
pub(super) use self::knee::draw_knee_page;
use self::parts::Section;
use self::spectrum::NamedDistribution;
use super::attempt_rows::attempt_rows;
use super::figures::{Figures, GeneratorLatencies, figures, generator_latencies};
use super::periods::periods;
use super::steadiness::Steadiness;
use super::time_spans::{seconds, time_spans};
use super::{ReportError, Results, thinned};
use crate::measure::{Latencies, OperationStats, Stall};
use crate::output::environment::Environment;
use crate::output::text::ms_text;
use crate::plot::{escape, grouped};
use crate::run::{RunSummary, SUMMARY_FILE};

/// Draws the page of a run as an HTML document.
///
/// # Errors
///
/// When the histograms of its intervals cannot be read.
pub fn draw_page(results: &Results) -> Result<String, ReportError> {
    let mut notes = results.notes.clone();
    let summary = read_summary(results, &mut notes);
    let mut results = results.clone();
    if let Some(summary) = &summary {
        name_as_configured(&mut results, summary);
    }
    let results = &results;
    let figures = figures(results)?;
    let environment = Environment::read(&results.directory).ok();
    let mut main = parts::tiles(&tiles(results, &figures));
    if summary.as_ref().is_some_and(|summary| summary.client.client_bound) {
        main.push_str(&client_bound());
    }
    if let Some(summary) = &summary {
        main.push_str(&agents::section(&summary.agents));
    }
    if let Some(report) = summary.as_ref().and_then(|summary| summary.verification.as_ref()) {
        main.push_str(&verification::section(report));
    }
    let generator_latencies = generator_latencies(results)?;
    let noise_floor =
        generator_latencies.as_ref().map(|parts| parts.canary.latencies()).unwrap_or_default();
    main.push_str(&stalls_section(summary.as_ref()));
    main.push_str(&operations_section(&figures, &noise_floor));
    if !results.events.is_empty() {
        main.push_str(&events::section(results, &seconds(results)?));
    }
    main.push_str(&throughput_section(results));
    main.push_str(&latency_section(results)?);
    main.push_str(&heat_map_section(results)?);
    main.push_str(&periods_section(results)?);
    if let Some(of_servers) = &super::servers::servers(results)? {
        main.push_str(&servers::section(results, of_servers));
    }
    main.push_str(&spectrum_section(&figures));
    main.push_str(&breakdown_section(generator_latencies.as_ref(), &figures));
    main.push_str(&errors_section(results));
    if let Some(environment) = &environment {
        let html = parts::environment(environment);
        Section { id: "setup", heading: "Setup", hint: "", content: &html }.add_to(&mut main);
    }
    let files = configuration::read(&results.directory, environment.as_ref());
    if !files.is_empty() {
        Section {
            id: "configuration",
            heading: "Configuration",
            hint: "",
            content: &parts::files(&files),
        }
        .add_to(&mut main);
    }
    if !notes.is_empty() {
        Section {
            id: "notes",
            heading: "What is missing",
            hint: "",
            content: &parts::list(&notes),
        }
        .add_to(&mut main);
    }
    let header = header(results, summary.as_ref());
    Ok(HtmlPage { name: &directory_name(&results.directory), header: &header, main: &main }.html())
}

/// The summary of the run, if the run left one that can be read.
fn read_summary(results: &Results, notes: &mut Vec<String>) -> Option<RunSummary> {
    if !results.directory.join(SUMMARY_FILE).exists() {
        return None;
    }
    match RunSummary::read(&results.directory) {
        Ok(summary) => Some(summary),
        Err(error) => {
            notes.push(error.to_string());
            None
        }
    }
}

/// Gives the operations the names and the order of the configuration.
fn name_as_configured(results: &mut Results, summary: &RunSummary) {
    let place =
        |file_label: &str| summary.operations.iter().position(|o| o.file_label == file_label);
    for operation in &mut results.operations {
        let place = place(&operation.file_label);
        if let Some(configured) = place.and_then(|place| summary.operations.get(place)) {
            operation.name.clone_from(&configured.name);
        }
    }
    results.operations.sort_by_key(|o| place(&o.file_label).unwrap_or(usize::MAX));
}

/// The name of the run: that of its directory, with links resolved.
fn directory_name(directory: &Path) -> String {
    let real = directory.canonicalize();
    real.as_deref()
        .unwrap_or(directory)
        .file_name()
        .map_or_else(|| directory.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn tiles(results: &Results, figures: &[Figures]) -> Vec<(&'static str, String, &'static str)> {
    let successful: f64 = results.summary.iter().map(|row| row.successful).sum();
    let failed: f64 = results.summary.iter().map(|row| row.failed).sum();
    let span_s: f64 = results.summary.iter().map(|row| row.window_s).sum();
    let rate = successful / span_s.max(1e-6);
    let mut tiles = vec![
        ("Throughput", grouped(rate, usize::from(rate < 100.0)), "op/s"),
        ("Successful", grouped(successful, 0), "ops"),
    ];
    let (mut all, mut all_failed) = (OperationStats::new(), OperationStats::new());
    figures.iter().filter_map(|figures| figures.distribution.as_ref()).for_each(|d| all.add(d));
    figures.iter().filter_map(|figures| figures.failed.as_ref()).for_each(|d| all_failed.add(d));
    if all.count() > 0 {
        let attempts = all.attempts(&all_failed);
        let latencies = attempts.map_or_else(|| all.latencies(), |attempts| attempts.latencies);
        let bounds = attempts.map_or([false; 7], |attempts| attempts.lower_bounds());
        let [_, _, median_us, _, p99_us, ..] = latencies.figures_us();
        let [_, _, is_median_bound, _, is_p99_bound, ..] = bounds;
        for (name, us, is_bound) in
            [("Median latency", median_us, is_median_bound), ("99 % within", p99_us, is_p99_bound)]
        {
            let text = ms_text(us);
            let text = if is_bound { format!("≥ {text}") } else { text };
            tiles.push((name, text, "ms"));
        }
    }
    let share = 100.0 * failed / (successful + failed).max(1.0);
    let unit = if failed > 0.0 { "% of all" } else { "of all" };
    let share = if failed > 0.0 { format!("{share:.3}") } else { "none".to_owned() };
    tiles.push(("Failed", share, unit));
    tiles
}

fn client_bound() -> String {
    let text = "A thread of the load generator had no processor time left for a large part of the run: rates \
                and latencies are those of the client, not of the server. Give it more cores \
                (client_threads), a machine of its own, or ask for less.";
    let html = Section {
        id: "client-bound",
        heading: "The load generator was the limit",
        hint: text,
        content: "",
    }
    .html();
    html.replacen("<section", "<section class=\"notice\"", 1)
}

/// Maximum number of stalls that are shown.
const STALLS_SHOWN_MAX: usize = 20;

fn stalls_section(summary: Option<&RunSummary>) -> String {
    let stalls = summary.map_or(&[][..], |summary| &summary.stalls);
    if stalls.is_empty() {
        return String::new();
    }
    let texts: Vec<String> = stalls.iter().take(STALLS_SHOWN_MAX).map(Stall::text).collect();
    let hint = "Times in which no operation succeeded, the longest first. In a closed loop the \
                percentiles do not show them, since no operations begin while they last.";
    Section { id: "stalls", heading: "Stalls", hint, content: &parts::list(&texts) }
        .html()
        .replacen("<section", "<section class=\"notice\"", 1)
}

fn breakdown_section(own: Option<&GeneratorLatencies>, figures: &[Figures]) -> String {
    let Some(own) = own else { return String::new() };
    let mut rows = vec![
        ("noise floor: operations that ask no server".to_owned(), own.canary.latencies()),
        ("queueing: arrivals for which no worker was free".to_owned(), own.queueing.latencies()),
        ("client delay: begin, and encode the request".to_owned(), own.client_delay.latencies()),
    ];
    rows.extend(figures.iter().filter_map(|figures| {
        let service = figures.service.as_ref()?.latencies();
        Some((format!("service of {}: request to answer", figures.name), service))
    }));
    rows.retain(|(_, latencies)| latencies.count > 0);
    let hint = "In milliseconds. Queueing, client delay and service of an operation add up to its latency.";
    let mut html = parts::distributions(&rows);
    let lines: Vec<NamedDistribution<'_>> = [
        ("noise floor", &own.canary),
        ("queueing", &own.queueing),
        ("client delay", &own.client_delay),
    ]
    .into_iter()
    .chain(figures.iter().filter_map(|f| Some((f.name.as_str(), f.service.as_ref()?))))
    .map(|(name, stats)| NamedDistribution { name, stats, failed: None })
    .collect();
    if let Some(plot) = spectrum::spectrum("breakdown", &lines) {
        html.push_str(&plot.figure());
    }
    Section { id: "breakdown", heading: "Where the time went", hint, content: &html }.html()
}

fn operations_section(figures: &[Figures], noise_floor: &Latencies) -> String {
    let is_exact = figures.iter().all(|f| f.distribution.is_some() || f.count == 0);
    let hint = if is_exact {
        "Latencies of the successful operations in milliseconds, from the whole distribution."
    } else {
        "Latencies of the successful operations in milliseconds. The tables hold ready-made \
         percentiles of each row, which cannot be added up: shown is that of the median row."
    };
    let mut hint = hint.to_owned();
    if figures.iter().any(|figures| figures.attempts.is_some()) {
        hint.push_str(
            " Where operations failed, they count with the time after which they failed, and ≥ \
             marks lower bounds.",
        );
    }
    if figures.iter().any(|f| noise_floor.noisy_figures(&f.latencies).contains(&true)) {
        hint.push_str(
            " Grey figures are within the noise: less than twice those of operations that ask no \
             server.",
        );
    }
    Section {
        id: "operations",
        heading: "Operations",
        hint: &hint,
        content: &parts::operations(figures, noise_floor),
    }
    .html()
}

/// Says that a point stands for several rows, if it does. `rest` is appended to the sentence.
fn thinned_text(results: &Results, rest: &str) -> String {
    match thinned::rows_a_point(results.summary.len()) {
        1 => String::new(),
        count => format!(" Each point stands for {count} rows of the tables{rest}."),
    }
}

fn throughput_section(results: &Results) -> String {
    let hint = format!("Successful and failed operations a second.{}", thinned_text(results, ""));
    let figure = time_plots::throughput(results).figure();
    Section { id: "throughput", heading: "Throughput over time", hint: &hint, content: &figure }
        .html()
}

fn latency_section(results: &Results) -> Result<String, ReportError> {
    let operations = attempt_rows(results)?;
    let plots = time_plots::latencies(results, &operations);
    // A run without times of failures, such as one of basho_bench, has unchanged rows.
    let failures = match operations == results.operations {
        true => "Of the successful operations, on one logarithmic scale.",
        false => {
            "On one logarithmic scale. Failed operations count with the time after which they failed: \
             figures of moments with failures are lower bounds."
        }
    };
    let hint = format!("{failures}{}", thinned_text(results, "; of percentiles, the greatest"));
    let mut html = String::from("<div class=\"columns\">\n");
    for (name, plot) in &plots {
        let _ = write!(html, "<div><h3>{}</h3>\n{}</div>\n", escape(name), plot.figure());
    }
    html.push_str("</div>\n");
    if plots.is_empty() {
        html = "<p class=\"quiet\">No operation succeeded.</p>\n".to_owned();
    }
    Ok(Section { id: "latency", heading: "Latency over time", hint: &hint, content: &html }.html())
}

fn heat_map_section(results: &Results) -> Result<String, ReportError> {
    let spans = time_spans(results, heat_map::COLUMN_COUNT)?;
    let Some(figure) = heat_map::heat_map(results, &spans) else { return Ok(String::new()) };
    let hint = "How many operations took how long. The darkest shade is that of the most, the lightest \
                that of a single one, on a logarithmic scale. Failed operations are red, at the time after \
                which they failed. Where a column is empty, no operation ended.";
    Ok(Section { id: "heat-map", heading: "Latency as a heat map", hint, content: &figure }.html())
}

fn periods_section(results: &Results) -> Result<String, ReportError> {
    let periods = periods(results)?;
    if periods.len() < 2 {
        return Ok(String::new());
    }
    let mut hint =
        "All operations together, in milliseconds, by equal periods of the run.".to_owned();
    if periods.iter().any(|period| period.failed.count() > 0) {
        hint.push_str(
            " Failed operations count with the time after which they failed; ≥ marks lower bounds.",
        );
    }
    if let Some(text) = Steadiness::of(results).text() {
        let _ = write!(hint, " {text}.");
    }
    Ok(Section {
        id: "periods",
        heading: "Periods",
        hint: &hint,
        content: &parts::periods(&periods),
    }
    .html())
}

fn spectrum_section(figures: &[Figures]) -> String {
    let mut hint =
        "How slow the slowest operations were: each step to the right has a tenth of the \
                    operations of the step before."
            .to_owned();
    if figures.iter().any(|figures| figures.failed.is_some()) {
        hint.push_str(
            " A line of an operation that failed ends where failures begin: longer times are not known.",
        );
    }
    let known = figures.iter().filter_map(|f| {
        let (stats, failed) = (f.distribution.as_ref()?, f.failed.as_ref());
        Some(NamedDistribution { name: &f.name, stats, failed })
    });
    let html = match spectrum::spectrum("spectrum", &known.collect::<Vec<_>>()) {
        Some(plot) => plot.figure(),
        None => {
            "<p class=\"quiet\">The run kept no distribution of its latencies (hdr/*.hlog), or \
                 too few operations succeeded; percentiles of rows cannot be added up.</p>\n"
                .to_owned()
        }
    };
    Section { id: "spectrum", heading: "Latency by percentile", hint: &hint, content: &html }.html()
}

fn errors_section(results: &Results) -> String {
    if results.errors.is_empty() {
        return String::new();
    }
    let hint = "Over the entire run: {{label, operation}, reason} as Erlang writes it.";
    Section { id: "errors", heading: "Errors", hint, content: &parts::errors(&results.errors) }
        .html()
}
