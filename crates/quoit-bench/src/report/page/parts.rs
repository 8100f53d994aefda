//! Tiles, tables and lists of the page.

use std::fmt::Write as _;
use std::time::Duration;

use crate::measure::Latencies;
use crate::output::environment::{Environment, Server};
use crate::output::text::{clock_text, ms_text, size_text};
use crate::plot::{escape, grouped};
use crate::report::figures::Figures;
use crate::report::results::ErrorCount;
use crate::report::time_spans::Span;

/// Maximum number of kinds of errors that are listed.
const ERRORS_SHOWN_MAX: usize = 20;

/// A section of the page.
pub(super) struct Section<'a> {
    /// Identifier of the heading, unique within the page.
    pub(super) id: &'a str,
    pub(super) heading: &'a str,
    /// An explanation below the heading; may be empty.
    pub(super) hint: &'a str,
    /// HTML elements.
    pub(super) content: &'a str,
}

impl Section<'_> {
    /// Appends the section to the HTML of a page.
    pub(super) fn add_to(&self, html: &mut String) {
        html.push_str(&self.html());
    }

    /// The section as HTML.
    pub(super) fn html(&self) -> String {
        let Self { id, heading, hint, content } = self;
        let hint = match *hint {
            "" => String::new(),
            hint => format!("<p class=\"hint\">{}</p>\n", escape(hint)),
        };
        format!(
            "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{}</h2>\n{hint}{content}</section>\n",
            escape(heading)
        )
    }
}

/// A row of large figures, each with a name, a value and a unit.
pub(super) fn tiles(tiles: &[(&str, String, &str)]) -> String {
    let mut html = String::from("<dl class=\"tiles\">\n");
    for (name, value, unit) in tiles {
        let (name, value, unit) = (escape(name), escape(value), escape(unit));
        let _ = writeln!(
            html,
            "<div class=\"tile\"><dt>{name}</dt><dd>{value} <small>{unit}</small></dd></div>"
        );
    }
    html + "</dl>\n"
}

/// Headers of the columns of latencies.
const LATENCY_HEADS: [&str; 7] = ["min", "mean", "median", "95 %", "99 %", "99.9 %", "max"];

/// The table of operations, in milliseconds. Figures within the noise of the load generator are grey.
/// `noise_floor` is 0 if it is unknown.
pub(super) fn operations(figures: &[Figures], noise_floor: &Latencies) -> String {
    let mut html = table_head(&["operation", "successful", "op/s", "failed"]);
    for figures in figures {
        let _ = write!(html, "<tr><td>{}</td>", escape(&figures.name));
        number(&mut html, figures.count as f64, &grouped(figures.count as f64, 0));
        number(&mut html, figures.rate_per_s, &grouped(figures.rate_per_s, 1));
        number(&mut html, figures.error_count as f64, &grouped(figures.error_count as f64, 0));
        let attempts = figures.attempts.filter(|_| figures.count > 0);
        let latencies = attempts.map_or(figures.latencies, |attempts| attempts.latencies);
        let bounds = attempts.map_or([false; 7], |attempts| attempts.lower_bounds());
        let noisy = noise_floor.noisy_figures(&latencies);
        latency_cells(&mut html, &latencies, LatencyMarks { bounds, noisy });
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
}

/// A table of distributions, in milliseconds.
pub(super) fn distributions(rows: &[(String, Latencies)]) -> String {
    let mut html = table_head(&["part", "count"]);
    for (name, latencies) in rows {
        let _ = write!(html, "<tr><td>{}</td>", escape(name));
        number(&mut html, latencies.count as f64, &grouped(latencies.count as f64, 0));
        latency_cells(&mut html, latencies, LatencyMarks::default());
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
}

/// The table of the periods of a run, in milliseconds.
pub(super) fn periods(periods: &[Span]) -> String {
    let mut html = table_head(&["period", "successful", "op/s", "failed"]);
    for span in periods {
        let Span { start_s, end_s, stats, .. } = span;
        let (latencies, bounds) = span.latencies();
        let clock = |seconds: f64| clock_text(Duration::from_secs_f64(seconds));
        let (count, failed) = (stats.count() as f64, stats.error_count() as f64);
        let rate = count / (end_s - start_s).max(1e-6);
        let _ = write!(
            html,
            "<tr><td data-value=\"{start_s}\">{} to {}</td>",
            clock(*start_s),
            clock(*end_s)
        );
        number(&mut html, count, &grouped(count, 0));
        number(&mut html, rate, &grouped(rate, 1));
        number(&mut html, failed, &grouped(failed, 0));
        latency_cells(&mut html, &latencies, LatencyMarks { bounds, noisy: [false; 7] });
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
}

/// The beginning of a table whose last columns are latencies.
fn table_head(first: &[&str]) -> String {
    let mut html = String::from("<div class=\"scroll\"><table class=\"sortable\">\n<thead><tr>");
    for head in first.iter().chain(&LATENCY_HEADS) {
        let _ = write!(html, "<th scope=\"col\">{head}</th>");
    }
    html + "</tr></thead>\n<tbody>\n"
}

/// Remarks about the figures of latencies, in their order.
#[derive(Clone, Copy, Default)]
struct LatencyMarks {
    /// True for figures that are only lower bounds.
    bounds: [bool; 7],
    /// True for figures within the noise of the load generator.
    noisy: [bool; 7],
}

fn latency_cells(html: &mut String, latencies: &Latencies, marks: LatencyMarks) {
    let LatencyMarks { bounds, noisy } = marks;
    for ((us, is_bound), is_noisy) in latencies.figures_us().into_iter().zip(bounds).zip(noisy) {
        if latencies.count == 0 {
            number(html, 0.0, "-");
        } else if is_bound {
            number(html, us, &format!("≥ {}", ms_text(us)));
        } else if is_noisy {
            let _ = write!(html, "<td class=\"noise\" data-value=\"{us}\">{}</td>", ms_text(us));
        } else {
            number(html, us, &ms_text(us));
        }
    }
}

fn number(html: &mut String, value: f64, text: &str) {
    let _ = write!(html, "<td data-value=\"{value}\">{text}</td>");
}

/// The table of errors.
pub(super) fn errors(errors: &[ErrorCount]) -> String {
    let mut html = String::from(
        "<div class=\"scroll\"><table class=\"sortable\">\n<thead><tr>\
         <th scope=\"col\">error</th><th scope=\"col\">count</th></tr></thead>\n<tbody>\n",
    );
    for error in errors.iter().take(ERRORS_SHOWN_MAX) {
        let (text, count) = (escape(&error.error), error.count);
        let _ = writeln!(
            html,
            "<tr><td class=\"text\">{text}</td><td data-value=\"{count}\">{}</td></tr>",
            grouped(count as f64, 0)
        );
    }
    html.push_str("</tbody></table></div>\n");
    let more = errors.len().saturating_sub(ERRORS_SHOWN_MAX);
    if more > 0 {
        let _ = writeln!(html, "<p class=\"hint\">And {more} more kinds: see errors.csv.</p>");
    }
    html
}

/// Pairs of a name and a text, as a list. Pairs with an empty text are left out.
pub(super) fn facts(facts: &[(String, String)]) -> String {
    let mut html = String::from("<dl class=\"facts\">\n");
    for (name, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(text));
    }
    html + "</dl>\n"
}

/// The setup of the run: the plan, the client's machine, and the servers.
pub(super) fn environment(environment: &Environment) -> String {
    let host = &environment.host;
    let memory = match host.memory_bytes {
        0 => String::new(),
        bytes => size_text(bytes),
    };
    let machine = [
        ("machine", host.name.clone()),
        ("processor", host.cpu_model.clone()),
        ("cores", host.core_count.to_string()),
        ("memory", memory),
        ("kernel", host.kernel.clone()),
        ("quoit bench", environment.quoit_version.clone()),
        ("command", environment.command_line.join(" ")),
    ]
    .map(|(name, text)| (name.to_owned(), text));
    let mut html = format!(
        "<div class=\"columns\">\n<div><h3>What was asked</h3>{}</div>\n\
         <div><h3>Load generator</h3>{}</div>\n",
        facts(&environment.plan),
        facts(&machine)
    );
    for server in &environment.servers {
        let _ = writeln!(
            html,
            "<div><h3>Server {}</h3>{}</div>",
            escape(&server.address),
            known(server)
        );
    }
    html + "</div>\n"
}

fn known(server: &Server) -> String {
    match &server.problem {
        Some(problem) => format!("<p class=\"quiet\">Not known: {}</p>", escape(problem)),
        None => facts(&server.facts),
    }
}

/// A list of texts.
pub(super) fn list(texts: &[String]) -> String {
    let items: String = texts.iter().map(|text| format!("<li>{}</li>\n", escape(text))).collect();
    format!("<ul class=\"plain\">\n{items}</ul>\n")
}

/// Files with their contents.
pub(super) fn files(files: &[(String, String)]) -> String {
    let mut html = String::new();
    for (index, (name, text)) in files.iter().enumerate() {
        let open = if index == 0 { " open" } else { "" };
        let (name, text) = (escape(name), escape(text));
        let _ = writeln!(
            html,
            "<details{open}><summary>{name}</summary><pre><code>{text}</code></pre></details>"
        );
    }
    html
}
