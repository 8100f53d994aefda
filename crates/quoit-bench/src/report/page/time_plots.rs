//! Plots over the time of the run.

use super::plot::{Plot, PlotCaption, PlotSeries, YScale};
use crate::output::text::{clock_text, ms_text};
use crate::plot::{Tick, grouped, linear_ticks};
use crate::report::results::{Column, LatencyRow, OperationRows};
use crate::report::{Results, thinned};
use std::time::Duration;

/// Steps between ticks of a clock axis, in seconds.
const CLOCK_STEPS: [u32; 19] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400,
    172_800,
];

/// The lines of a latency plot.
const COLUMNS: [Column; 6] = [
    Column { class: "max", name: "max", value_us: |row| row.max_us },
    Column { class: "p999", name: "99.9 %", value_us: |row| row.p99_9_us },
    Column { class: "p99", name: "99 %", value_us: |row| row.p99_us },
    Column { class: "p95", name: "95 %", value_us: |row| row.p95_us },
    Column { class: "mean", name: "mean", value_us: |row| row.mean_us },
    Column { class: "median", name: "median", value_us: |row| row.median_us },
];

/// Successful and failed operations per second.
pub(super) fn throughput(results: &Results) -> Plot {
    let rows = thinned::summary(&results.summary, thinned::rows_a_point(results.summary.len()));
    let rows: Vec<_> = rows.into_iter().filter(|row| row.window_s > 0.0).collect();
    let ok: Vec<f64> = rows.iter().map(|row| row.successful / row.window_s).collect();
    let failed: Vec<f64> = rows.iter().map(|row| row.failed / row.window_s).collect();
    let y = YScale::linear("operations a second", ok.iter().chain(&failed).copied());
    let series = |class: &str, name: &str, values: Vec<f64>| PlotSeries {
        class: class.to_owned(),
        name: name.to_owned(),
        values: values.into_iter().map(Some).collect(),
    };
    let mut lines = vec![series("ok", "ok", ok)];
    if failed.iter().any(|rate| *rate > 0.0) {
        lines.push(series("error", "failed", failed));
    }
    let elapsed_s = rows.iter().map(|row| row.elapsed_s).collect();
    let caption = PlotCaption {
        id: "throughput".to_owned(),
        about: "Operations a second over the time of the run".to_owned(),
    };
    over_time(results, caption, (1120.0, 250.0), elapsed_s, y, lines)
}

/// A plot for each operation that has latencies, all on a common scale.
pub(super) fn latencies<'a>(
    results: &Results,
    operations: &'a [OperationRows],
) -> Vec<(&'a str, Plot)> {
    let rows_a_point = thinned::rows_a_point(results.summary.len());
    let operations: Vec<(&str, Vec<LatencyRow>)> = operations
        .iter()
        .map(|o| {
            let is_silent = |row: &LatencyRow| results.is_silent_at(row.elapsed_s);
            (o.name.as_str(), thinned::latencies(&o.rows, rows_a_point, is_silent))
        })
        .filter(|(_, rows)| rows.iter().any(|row| row.count > 0.0))
        .collect();
    let rows = operations.iter().flat_map(|(_, rows)| rows).filter(|row| row.count > 0.0);
    let values = rows.flat_map(|row| COLUMNS.map(|column| column.value_ms(row)));
    let y = YScale::logarithmic("milliseconds, logarithmic", values);
    let size = if operations.len() == 1 { (1120.0, 320.0) } else { (552.0, 290.0) };
    let plots = operations.into_iter().enumerate().map(|(index, (name, rows))| {
        let lines = COLUMNS.map(|column| PlotSeries {
            class: column.class.to_owned(),
            name: column.name.to_owned(),
            values: rows
                .iter()
                .map(|row| (row.count > 0.0).then(|| column.value_ms(row)))
                .collect(),
        });
        let caption = PlotCaption {
            id: format!("latency-{index}"),
            about: format!("Latencies of {name} over the time of the run, in milliseconds"),
        };
        let elapsed_s = rows.iter().map(|row| row.elapsed_s).collect();
        let mut plot = over_time(results, caption, size, elapsed_s, y, lines.into());
        plot.value_text = ms;
        (name, plot)
    });
    plots.collect()
}

/// Formats a value in milliseconds.
pub(super) fn ms(ms: f64) -> String {
    format!("{} ms", ms_text(ms * 1000.0))
}

/// A plot of lines over the time of the run.
pub(super) fn over_time(
    results: &Results,
    caption: PlotCaption,
    size: (f64, f64),
    elapsed_s: Vec<f64>,
    y: YScale,
    series: Vec<PlotSeries>,
) -> Plot {
    let x_range = results.elapsed_range_s();
    Plot {
        id: caption.id,
        about: caption.about,
        size,
        x_texts: elapsed_s.iter().map(|s| format!("at {}", moment_text(*s))).collect(),
        xs: elapsed_s,
        x_range,
        x_ticks: clock_ticks(x_range, quoit_number::index(quoit_number::whole(size.0 / 110.0))),
        y,
        series,
        cells: Vec::new(),
        marks: results.events.iter().map(|event| (event.elapsed_s, event.name.clone())).collect(),
        value_text: |rate| format!("{} /s", grouped(rate, usize::from(rate < 100.0))),
    }
}

fn moment_text(seconds: f64) -> String {
    let whole = clock_text(Duration::from_secs_f64(seconds));
    let tenths = quoit_number::whole(seconds.fract() * 10.0);
    if tenths == 0 { whole } else { format!("{whole}.{tenths}") }
}

/// Ticks at round times of a clock. A run of a few seconds gets fractions of seconds.
fn clock_ticks(range: (f64, f64), count_max: usize) -> Vec<Tick> {
    let (low, high) = range;
    let least = (high - low) / count_max.max(1) as f64;
    if least < 1.0 {
        return linear_ticks(range, count_max)
            .into_iter()
            .map(|tick| Tick { label: format!("{} s", tick.label), ..tick })
            .collect();
    }
    let step = CLOCK_STEPS.into_iter().map(f64::from).find(|step| *step >= least);
    let step = step.unwrap_or_else(|| (least / 86_400.0).ceil() * 86_400.0);
    let (first, last) =
        (quoit_number::whole((low / step).ceil()), quoit_number::whole(high / step + 1e-9));
    (first..=last)
        .map(|multiple| multiple as f64 * step)
        .map(|s| Tick { value: s, label: clock_text(Duration::from_secs_f64(s)) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(range: (f64, f64), count_max: usize) -> Vec<String> {
        clock_ticks(range, count_max).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn moments_are_those_of_a_clock() {
        assert_eq!(labels((0.0, 20.0), 5), ["0:00", "0:05", "0:10", "0:15", "0:20"]);
        assert_eq!(labels((0.0, 600.0), 6), ["0:00", "2:00", "4:00", "6:00", "8:00", "10:00"]);
        assert_eq!(
            labels((0.0, 172_800.0), 4),
            ["0:00", "12:00:00", "24:00:00", "36:00:00", "48:00:00"]
        );
        assert_eq!(labels((0.0, 1.0), 2), ["0.0 s", "0.5 s", "1.0 s"]);
        assert_eq!(moment_text(61.25), "1:01.2");
    }
}
