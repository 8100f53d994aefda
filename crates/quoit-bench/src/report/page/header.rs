//! The header of the page of a run.

use std::time::Duration;

use super::{directory_name, verification};
use crate::output::text::{clock_text, ms_text};
use crate::plot::{escape, grouped};
use crate::report::Results;
use crate::run::{OperationSummary, RunSummary};

/// The name of the run, the facts that readers look for first, and badges.
pub(super) fn header(results: &Results, summary: Option<&RunSummary>) -> String {
    let (start_s, end_s) = results.elapsed_range_s();
    let clock = |s: f64| clock_text(Duration::from_secs_f64(s));
    let mut about = vec![format!("{} to {} of the run", clock(start_s), clock(end_s))];
    let mut badges = Vec::new();
    if let Some(summary) = summary {
        about.insert(0, format!("{}, {} workers", summary.driver, summary.workers));
        about.push(format!("started {}", started_text(&summary.started_at)));
        badges.push(match summary.end.as_str() {
            "completed" => ("good", "completed".to_owned()),
            "interrupted" => ("warn", "interrupted".to_owned()),
            other => ("bad", format!("ended early: {other}")),
        });
        badges.push(client_badge(summary));
        badges.extend(summary.verification.as_ref().map(verification::badge));
        if summary.unstarted > 0 {
            badges
                .push(("warn", format!("{} never started", grouped(summary.unstarted as f64, 0))));
        }
    }
    let failed: f64 = results.summary.iter().map(|row| row.failed).sum();
    badges.push(match failed > 0.0 {
        true => ("bad", format!("{} failed", grouped(failed, 0))),
        false => ("good", "no errors".to_owned()),
    });
    let badges: String = badges
        .iter()
        .map(|(class, text)| format!("<li class=\"badge {class}\">{}</li>", escape(text)))
        .collect();
    let (name, about) = (directory_name(&results.directory), about.join(" · "));
    format!(
        "<header>\n<p class=\"eyebrow\">Quoit bench</p>\n<h1>{}</h1>\n<p class=\"quiet\">{}</p>\n\
         <ul class=\"badges\">{badges}</ul>\n</header>\n",
        escape(&name),
        escape(&about)
    )
}

/// A badge that says if the run could measure the server. It judges by the 99th percentiles, which most
/// readers look at.
fn client_badge(summary: &RunSummary) -> (&'static str, String) {
    const P99: usize = 4;
    let floor = &summary.client.noise_floor;
    let is_noisy = |operation: &OperationSummary| floor.noisy_figures(&operation.latencies)[P99];
    let mut measured = summary.operations.iter().filter(|o| o.latencies.count > 0);
    if summary.client.client_bound {
        ("warn", "client-bound".to_owned())
    } else if measured.any(is_noisy) {
        let ms = ms_text(floor.p99_us as f64);
        ("warn", format!("99 % within the noise of the load generator ({ms} ms)"))
    } else {
        ("good", "not client-bound".to_owned())
    }
}

/// A time stamp with a resolution of one second.
fn started_text(started_at: &str) -> String {
    match started_at.parse::<jiff::Timestamp>() {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => started_at.to_owned(),
    }
}
