//! The printed tables, in Markdown.

use super::stage::{Figures, StageLatencies};

/// A line of a table.
pub(super) struct FigureRow {
    pub(super) engine: String,
    pub(super) stage: String,
    pub(super) figures: Figures,
}

/// The table of runs that every profile prints.
pub(super) fn main_table(rows: &[FigureRow]) -> String {
    let mut text = String::from(
        "| engine | run | op/s | failed | get, ms: p50 / p95 / p99 / p99.9 | put or update, ms | CPU us/op \
         | written per byte put | read, bytes/op | space | memory, MB |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for FigureRow { engine, stage, figures } in rows {
        let of = |name: &str| figures.summary.latencies(name);
        let cells = [
            engine.clone(),
            stage.clone(),
            format!("{:.0}", figures.rate()),
            figures.summary.failed.to_string(),
            of("get").map_or_else(none, latencies),
            of("put").or(of("update")).map_or_else(none, latencies),
            format!("{:.0}", figures.cpu_us()),
            figures.written_per_byte().map_or_else(none, |each| format!("{each:.2}")),
            format!("{:.0}", figures.read_per_operation()),
            figures.space().map_or_else(none, |space| format!("{space:.2}")),
            format!("{:.0}", figures.peak_resident_bytes as f64 / 1e6),
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// The course of each run: its rate in each tenth.
pub(super) fn curves(rows: &[FigureRow]) -> String {
    let mut text =
        String::from("| engine | run | op/s in each tenth of the run |\n|---|---|---|\n");
    for FigureRow { engine, stage, figures } in rows {
        text.push_str(&format!("| {engine} | {stage} | {} |\n", course(figures)));
    }
    text
}

/// The rates of the tenths of a run.
fn course(figures: &Figures) -> String {
    let rates: Vec<String> = figures.tenths().iter().map(|rate| format!("{rate:.0}")).collect();
    rates.join(", ")
}

pub(super) fn latencies(latencies: StageLatencies) -> String {
    let StageLatencies { median_us, p95_us, p99_us, p99_9_us, .. } = latencies;
    [median_us, p95_us, p99_us, p99_9_us].map(ms).join(" / ")
}

/// Formats microseconds as milliseconds, with the significant digits.
pub(super) fn ms(us: u64) -> String {
    let ms = us as f64 / 1e3;
    if ms < 10.0 { format!("{ms:.2}") } else { format!("{ms:.0}") }
}

pub(super) fn none() -> String {
    "-".to_owned()
}
