//! Tiles, tables and lists of the page.

use std::fmt::Write as _;

use crate::output::environment::{Environment, Server};
use crate::output::text::{ms_text, size_text};
use crate::plot::{escape, grouped};
use crate::report::figures::Figures;
use crate::report::results::ErrorCount;

/// More kinds of errors than this are only counted.
const ERRORS_SHOWN_MAX: usize = 20;

/// A section with a heading and an explanation.
pub(super) fn section(id: &str, heading: &str, hint: &str, content: &str) -> String {
    let hint = match hint {
        "" => String::new(),
        hint => format!("<p class=\"hint\">{}</p>\n", escape(hint)),
    };
    format!(
        "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{}</h2>\n{hint}{content}</section>\n",
        escape(heading)
    )
}

/// Large figures: a name, a value and its unit each.
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

/// The table of operations, in milliseconds.
pub(super) fn operations(figures: &[Figures]) -> String {
    const HEADS: [&str; 11] = [
        "operation",
        "successful",
        "op/s",
        "failed",
        "min",
        "mean",
        "median",
        "95 %",
        "99 %",
        "99.9 %",
        "max",
    ];
    let mut html = String::from("<div class=\"scroll\"><table class=\"sortable\">\n<thead><tr>");
    for head in HEADS {
        let _ = write!(html, "<th scope=\"col\">{head}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for figures in figures {
        let latencies = figures.latencies;
        let _ = write!(html, "<tr><td>{}</td>", escape(&figures.name));
        number(&mut html, figures.count as f64, &grouped(figures.count as f64, 0));
        number(&mut html, figures.rate_per_s, &grouped(figures.rate_per_s, 1));
        number(&mut html, figures.error_count as f64, &grouped(figures.error_count as f64, 0));
        for us in [
            latencies.min_us as f64,
            latencies.mean_us,
            latencies.median_us as f64,
            latencies.p95_us as f64,
            latencies.p99_us as f64,
            latencies.p99_9_us as f64,
            latencies.max_us as f64,
        ] {
            let text = if figures.count > 0 { ms_text(us) } else { "-".to_owned() };
            number(&mut html, us, &text);
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
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

/// Pairs of a name and a text; nothing for texts that are not known.
pub(super) fn facts(facts: &[(String, String)]) -> String {
    let mut html = String::from("<dl class=\"facts\">\n");
    for (name, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(text));
    }
    html + "</dl>\n"
}

/// Where the run was made: the plan, the client's machine, the servers.
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

/// Texts as a list.
pub(super) fn list(texts: &[String]) -> String {
    let items: String = texts.iter().map(|text| format!("<li>{}</li>\n", escape(text))).collect();
    format!("<ul class=\"plain\">\n{items}</ul>\n")
}

/// Files with their text.
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
