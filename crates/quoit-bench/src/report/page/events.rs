//! The events of a run and their effects.

use super::parts::Section;
use crate::output::text::clock_text;
use crate::plot::escape;
use crate::report::Results;
use crate::report::impacts::{Impact, impacts};
use crate::report::time_spans::Second;
use std::fmt::Write as _;
use std::time::Duration;

/// The section with the table of events; empty for a run without events.
pub(super) fn section(results: &Results, seconds: &[Second]) -> String {
    if results.events.is_empty() {
        return String::new();
    }
    let hint = "Marked in the plots. An event is noticed in the first second with new failures, less than \
                70 % of the rate before, or more than three times the 99th percentile before; it is over \
                when three seconds in a row have none of that.";
    let mut html = String::from(
        "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">event</th><th scope=\"col\">at</th>\
         <th scope=\"col\">outcome</th><th scope=\"col\">noticed after</th>\
         <th scope=\"col\">over after</th></tr></thead>\n<tbody>\n",
    );
    for (event, impact) in results.events.iter().zip(impacts(results, seconds)) {
        let at = clock_text(Duration::from_secs_f64(event.elapsed_s));
        let (noticed, recovered) = words(impact);
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{at}</td><td>{}</td><td>{noticed}</td><td>{recovered}</td></tr>",
            escape(&event.name),
            escape(&event.outcome),
        );
    }
    html.push_str("</tbody></table></div>\n");
    Section { id: "events", heading: "Events", hint, content: &html }.html()
}

fn words(impact: Impact) -> (String, String) {
    let seconds = |seconds: f64| format!("{seconds:.1} s");
    match impact {
        Impact::Unknown => ("too early in the run to be judged".to_owned(), String::new()),
        Impact::None => ("not at all".to_owned(), String::new()),
        Impact::Felt { noticed_s, recovered_s } => {
            (seconds(noticed_s), recovered_s.map_or_else(|| "not over".to_owned(), seconds))
        }
    }
}
