//! The percentile spectrum: latency over the share of operations that were as fast.

use std::f64::consts::LOG10_2;

use super::plot::{Plot, PlotSeries, YScale};
use super::time_plots::ms;
use crate::measure::OperationStats;
use crate::plot::Tick;

/// Places between two powers of ten of the rest.
const PLACES_A_DECADE: usize = 40;

/// Nothing is read into the distribution of fewer operations than this.
const COUNT_MIN: u64 = 10;

/// The colours of operations, in turn.
const COLOUR_COUNT: usize = 8;

/// Named percentiles with the parts of the operations above them, as powers of ten.
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

/// Named distributions over percentiles. The x axis is logarithmic in what is above: each step to
/// the right has a tenth of the operations. Nothing when there are no distributions.
pub(super) fn spectrum(id: &str, distributions: &[(&str, &OperationStats)]) -> Option<Plot> {
    let known: Vec<(usize, &(&str, &OperationStats))> =
        distributions.iter().enumerate().filter(|(_, (_, d))| d.count() >= COUNT_MIN).collect();
    let count_max = known.iter().map(|(_, (_, distribution))| distribution.count()).max()?;
    // Of n operations the slowest one is above a share of 1/n.
    let end = (count_max as f64).log10();
    let place_count = (end * PLACES_A_DECADE as f64).ceil() as usize;
    let xs: Vec<f64> =
        (0..=place_count).map(|index| (index as f64 / PLACES_A_DECADE as f64).min(end)).collect();
    let series: Vec<PlotSeries> =
        known.iter().map(|(index, (name, d))| series_of(*index, name, d, &xs)).collect();
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

fn series_of(index: usize, name: &str, distribution: &OperationStats, xs: &[f64]) -> PlotSeries {
    let end = (distribution.count() as f64).log10();
    let most_ms = distribution.latencies().max_us as f64 / 1e3;
    let value = |x: &f64| {
        (*x <= end + 1e-9).then(|| {
            let quantile = 1.0 - 10_f64.powf(-x);
            let value_ns = distribution.histogram_ns().value_at_quantile(quantile);
            (value_ns as f64 / 1e6).min(most_ms.max(1e-6))
        })
    };
    PlotSeries {
        class: format!("op{}", index % COLOUR_COUNT),
        name: name.to_owned(),
        values: xs.iter().map(value).collect(),
    }
}

/// A percentile with as many digits as tell it from its neighbours.
fn percentile_text(x: f64) -> String {
    let digits = (x.floor() as usize).saturating_sub(1) + 1;
    format!("{:.digits$} %", (1.0 - 10_f64.powf(-x)) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_the_digits_that_matter() {
        let texts = [0.0, LOG10_2, 1.0, 2.0, 3.0, 4.05].map(percentile_text);
        assert_eq!(texts, ["0.0 %", "50.0 %", "90.0 %", "99.00 %", "99.900 %", "99.9911 %"]);
    }
}
