//! Latency over time as a heat map, with the number of operations by latency in each span of the run.

use super::plot::{Cell, PlotCaption, PlotSeries, YScale};
use super::time_plots::{ms, over_time};
use crate::measure::{Latencies, OperationStats};
use crate::report::Results;
use crate::report::time_spans::Span;

/// Number of columns of a heat map.
pub(super) const COLUMN_COUNT: usize = 120;
/// Number of rows of a heat map, which are logarithmic in latency.
const ROW_COUNT: usize = 40;
/// Number of shades of a cell, which are logarithmic in its count.
pub(super) const SHADE_COUNT: usize = 8;

const NS_PER_MS: f64 = 1e6;

/// The heat map of the spans of a run, with lines of the median and of the 99th percentile. Failed
/// operations count with the time until they failed. A span in which nothing ended is empty. `None` if no
/// operation ended in any span.
pub(super) fn heat_map(results: &Results, spans: &[Span]) -> Option<String> {
    let parts = || spans.iter().flat_map(|span| [&span.stats, &span.failed]);
    let known = || parts().filter(|stats| stats.count() > 0).map(OperationStats::latencies);
    // A latency below one microsecond counts as one, because the scale is logarithmic.
    let low_ms = known().map(|latencies| latencies.min_us).min()?.max(1) as f64 / 1e3;
    let high_ms = known().map(|latencies| latencies.max_us).max()?.max(1) as f64 / 1e3;
    let y = YScale::logarithmic("milliseconds, logarithmic", [low_ms, high_ms].into_iter());
    let line = |class: &str, name: &str, us: fn(&Latencies) -> u64| PlotSeries {
        class: class.to_owned(),
        name: name.to_owned(),
        values: spans
            .iter()
            .map(|span| {
                (span.stats.count() > 0).then(|| us(&span.latencies().0).max(1) as f64 / 1e3)
            })
            .collect(),
    };
    let lines = vec![
        line("p99", "99 %", |latencies| latencies.p99_us),
        line("median", "median", |latencies| latencies.median_us),
    ];
    let middles = spans.iter().map(|span| (span.start_s + span.end_s) / 2.0).collect();
    let caption = PlotCaption {
        id: "heat-map".to_owned(),
        about: "Counts of operations by latency over the time of the run".to_owned(),
    };
    let mut plot = over_time(results, caption, (1120.0, 340.0), middles, y, lines);
    plot.cells = cells(spans, y.range());
    plot.value_text = ms;
    Some(plot.figure())
}

/// The cells with operations and their shades: the cells of successes, then those of failures.
fn cells(spans: &[Span], (low_ms, high_ms): (f64, f64)) -> Vec<Cell> {
    let range = (low_ms, high_ms);
    let counts = |stats: fn(&Span) -> &OperationStats| -> Vec<[u64; ROW_COUNT]> {
        spans.iter().map(|span| counts_of(stats(span), range)).collect()
    };
    let (done, failed) = (counts(|span| &span.stats), counts(|span| &span.failed));
    let most = done.iter().chain(&failed).flatten().copied().max().unwrap_or(0);
    let shades = CountShades { most };
    let edge_ms = |row: usize| low_ms * (high_ms / low_ms).powf(row as f64 / ROW_COUNT as f64);
    let mut cells = Vec::new();
    for (counts, is_failed) in [(done, false), (failed, true)] {
        for (span, counts) in spans.iter().zip(counts) {
            for (row, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
                cells.push(Cell {
                    x: (span.start_s, span.end_s),
                    y: (edge_ms(row), edge_ms(row + 1)),
                    shade: shades.of(count),
                    is_failed,
                });
            }
        }
    }
    cells
}

#[expect(clippy::indexing_slicing, reason = "`row` is below the number of rows")]
fn counts_of(stats: &OperationStats, (low_ms, high_ms): (f64, f64)) -> [u64; ROW_COUNT] {
    let mut counts = [0; ROW_COUNT];
    for step in stats.histogram_ns().iter_recorded() {
        let ms = step.value_iterated_to() as f64 / NS_PER_MS;
        let share = (ms / low_ms).max(1.0).ln() / (high_ms / low_ms).ln();
        let row =
            quoit_number::index(quoit_number::whole(share * ROW_COUNT as f64)).min(ROW_COUNT - 1);
        counts[row] += step.count_since_last_iteration();
    }
    counts
}

/// The shades of counts relative to the greatest count.
#[derive(Debug, Clone, Copy)]
struct CountShades {
    most: u64,
}

impl CountShades {
    /// The shade of a count: 1 for a single operation, `SHADE_COUNT` for the greatest count.
    fn of(self, count: u64) -> usize {
        if self.most <= 1 {
            return SHADE_COUNT;
        }
        let share = (count as f64).ln() / (self.most as f64).ln();
        1 + quoit_number::index(quoit_number::rounded(share * (SHADE_COUNT - 1) as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(at: usize, latencies_us: &[u64]) -> Span {
        let mut stats = OperationStats::new();
        latencies_us.iter().for_each(|us| stats.record(us * 1000));
        Span { start_s: at as f64, end_s: at as f64 + 1.0, stats, failed: OperationStats::new() }
    }

    #[test]
    fn every_operation_is_in_a_cell_of_its_time_and_latency() {
        let spans = [span(0, &[100, 100, 5_000]), span(1, &[]), span(2, &[1_000_000])];
        let range = (0.1, 1000.0);
        let cells = cells(&spans, range);
        assert_eq!(cells.len(), 3, "{cells:?}");
        for (cell, (x, ms)) in cells.iter().zip([(0.0, 0.1), (0.0, 5.0), (2.0, 1000.0)]) {
            assert_eq!(cell.x.0, x);
            let (low, high) = (cell.y.0 * 0.999, cell.y.1 * 1.001);
            assert!(low <= ms && ms <= high, "{ms} in {cell:?}");
        }
        assert_eq!(counts_of(&spans[0].stats, range).iter().sum::<u64>(), 3);
    }

    #[test]
    fn failed_operations_have_cells_of_their_own() {
        let mut only_failed = span(1, &[]);
        only_failed.failed.record(5_000_000_000);
        let cells = cells(&[span(0, &[5_000_000, 100]), only_failed], (0.1, 5_000.0));
        let at = |cell: &Cell| (cell.x.0 as u64, cell.y.1 > 4_000.0, cell.is_failed);
        let found: Vec<_> = cells.iter().map(at).collect();
        assert_eq!(found, [(0, false, false), (0, true, false), (1, true, true)]);
    }

    #[test]
    fn shades_tell_one_from_many() {
        let shades = CountShades { most: 1_000_000 };
        assert_eq!([1, 1_000, 1_000_000].map(|count| shades.of(count)), [1, 5, SHADE_COUNT]);
        assert_eq!(CountShades { most: 1 }.of(1), SHADE_COUNT);
    }
}
