//! The percentile spectrum: latency by percentile, on an axis that stretches the highest percentiles.

use std::f64::consts::LOG10_2;

use super::plot::{Plot, PlotSeries, YScale};
use super::time_plots::ms;
use crate::measure::{OperationStats, PERCENTILE_ERROR};
use crate::plot::Tick;

/// Number of points for each power of ten on the x axis.
const PLACES_A_DECADE: usize = 40;

/// Minimum number of operations of a distribution that is drawn.
const COUNT_MIN: u64 = 10;

/// Number of colours, which operations take in turn.
const COLOUR_COUNT: usize = 8;

/// Named percentiles. Each has as position the negative logarithm of the share of operations above it.
const TICKS: [(f64, &str); 9] = [
    (0.0, "0 %"),
    (LOG10_2, "50 %"),
    (1.0, "90 %"),
    (2.0, "99 %"),
    (3.0, "99.9 %"),
    (4.0, "99.99 %"),
    (5.0, "99.999 %"),
    (6.0, "99.9999 %"),
    (7.0, "99.99999 %"),
];

/// A distribution with its name.
pub(super) struct NamedDistribution<'a> {
    pub(super) name: &'a str,
    /// Latencies of the successful operations.
    pub(super) stats: &'a OperationStats,
    /// Times until other operations failed, if some did. Their true latencies are unknown.
    pub(super) failed: Option<&'a OperationStats>,
}

impl NamedDistribution<'_> {
    /// Number of successes and failures.
    fn count(&self) -> u64 {
        self.stats.count() + self.failed.map_or(0, OperationStats::count)
    }
}

/// The plot of named distributions over percentiles. The x axis is logarithmic in the share of operations
/// above a percentile: each unit to the right leaves a tenth of them. `None` if no distribution has enough
/// operations.
pub(super) fn spectrum(id: &str, lines: &[NamedDistribution<'_>]) -> Option<Plot> {
    let known: Vec<(usize, &NamedDistribution<'_>)> =
        lines.iter().enumerate().filter(|(_, line)| line.stats.count() >= COUNT_MIN).collect();
    let count_max = known.iter().map(|(_, line)| line.count()).max()?;
    // Of n operations, the slowest one has a share of 1/n at or above it.
    let end = (count_max as f64).log10();
    let place_count =
        quoit_number::index(quoit_number::whole((end * PLACES_A_DECADE as f64).ceil()));
    let xs: Vec<f64> =
        (0..=place_count).map(|index| (index as f64 / PLACES_A_DECADE as f64).min(end)).collect();
    let series: Vec<PlotSeries> =
        known.iter().map(|(index, line)| series_of(*index, line, &xs)).collect();
    let values = series.iter().flat_map(|series| series.values.iter().flatten().copied());
    let y = YScale::logarithmic("milliseconds, logarithmic", values);
    let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
    let about = format!("Latency of {} over percentiles", names.join(", "));
    let tick = |(value, label): &(f64, &str)| Tick { value: *value, label: (*label).to_owned() };
    Some(Plot {
        id: id.to_owned(),
        about,
        size: (1120.0, 340.0),
        x_texts: xs.iter().map(|x| percentile_text(*x)).collect(),
        xs,
        x_range: (0.0, end),
        x_ticks: TICKS.iter().filter(|(at, _)| *at <= end + 1e-9).map(tick).collect(),
        y,
        series,
        cells: Vec::new(),
        marks: Vec::new(),
        value_text: ms,
    })
}

fn series_of(index: usize, line: &NamedDistribution<'_>, xs: &[f64]) -> PlotSeries {
    let end = (line.count() as f64).log10();
    let mut all = line.stats.clone();
    let attempts = line.failed.and_then(|failed| line.stats.attempts(failed));
    line.failed.into_iter().for_each(|failed| all.add(failed));
    let known_ms =
        attempts.map_or(f64::INFINITY, |attempts| attempts.earliest_failure_us as f64 / 1e3);
    let most_ms = all.latencies().max_us as f64 / 1e3;
    let value = |x: &f64| {
        let quantile = (*x <= end + 1e-9).then(|| 1.0 - 10_f64.powf(-x))?;
        let value_ms = all.histogram_ns().value_at_quantile(quantile) as f64 / 1e6;
        let value_ms = value_ms.min(most_ms.max(1e-6));
        // Compare within the error of the histogram.
        (value_ms < known_ms * (1.0 - PERCENTILE_ERROR)).then_some(value_ms)
    };
    PlotSeries {
        class: format!("op{}", index % COLOUR_COUNT),
        name: line.name.to_owned(),
        values: xs.iter().map(value).collect(),
    }
}

/// A percentile with enough decimal places to differ from its neighbours.
fn percentile_text(x: f64) -> String {
    let digits = quoit_number::index(quoit_number::whole(x)).max(1);
    format!("{:.digits$} %", (1.0 - 10_f64.powf(-x)) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_where_failures_begin() {
        let (mut stats, mut failed) = (OperationStats::new(), OperationStats::new());
        (1..=950).for_each(|ms| stats.record(ms * 1_000_000));
        (0..50).for_each(|_| failed.record(700_000_000));
        let line = |failed| NamedDistribution { name: "get", stats: &stats, failed };
        let last = |failed| {
            let plot = spectrum("spectrum", &[line(failed)]).expect("a plot");
            let known = plot.series[0].values.iter().rposition(Option::is_some).expect("values");
            (plot.xs[known], plot.series[0].values[known].expect("a value"))
        };
        let (x, ms) = last(Some(&failed));
        // 699 of 1000 operations are faster than the first failure, so percentiles are known up to nearly
        // 70 %.
        assert!(x <= -(0.301_f64.log10()) + 0.02 && (640.0..700.0).contains(&ms), "{x} {ms}");
        let (x, ms) = last(None);
        assert!(x > 2.9 && ms > 949.0, "{x} {ms}");
    }

    #[test]
    fn percentiles_have_the_digits_that_matter() {
        let texts = [0.0, LOG10_2, 1.0, 2.0, 3.0, 4.05].map(percentile_text);
        assert_eq!(texts, ["0.0 %", "50.0 %", "90.0 %", "99.00 %", "99.900 %", "99.9911 %"]);
    }
}
