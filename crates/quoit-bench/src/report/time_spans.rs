//! Equal spans of the time of a run, each with the distribution of its latencies.

use super::figures::open_part;
use super::{ReportError, Results};
use crate::measure::intervals::{self, Interval, IntervalReader};
use crate::measure::{Latencies, OperationStats};
use std::collections::BTreeMap;

/// All operations within one span of the run.
#[derive(Debug)]
pub(super) struct Span {
    /// Start, in seconds since the start of the measurement.
    pub(super) start_s: f64,
    /// End, in seconds since the start of the measurement.
    pub(super) end_s: f64,
    /// Statistics of the operations that ended in it; empty if no operation ended.
    pub(super) stats: OperationStats,
    /// Times until operations failed, if the run recorded them.
    pub(super) failed: OperationStats,
}

impl Span {
    /// Latencies of all operations and, for each figure, if it is a lower bound because operations failed.
    pub(super) fn latencies(&self) -> (Latencies, [bool; 7]) {
        // Without a success, lower bounds would bound nothing.
        match self.stats.attempts(&self.failed).filter(|_| self.stats.count() > 0) {
            Some(attempts) => (attempts.latencies, attempts.lower_bounds()),
            None => (self.stats.latencies(), [false; 7]),
        }
    }
}

/// Spans of the run in ascending order, at most `count_max`, and none shorter than an interval of the logs.
/// Empty for a run without interval logs.
///
/// # Errors
///
/// When a log can't be read.
pub(super) fn time_spans(results: &Results, count_max: usize) -> Result<Vec<Span>, ReportError> {
    let labels = intervals::file_labels(&results.directory)?;
    let known = results.operations.iter().filter(|o| labels.contains(&o.file_label));
    let (start_s, end_s) = results.elapsed_range_s();
    let mut spans: Vec<Span> = Vec::new();
    for operation in known {
        for interval in IntervalReader::open(&results.directory, &operation.file_label)? {
            let interval = interval?;
            let (from_s, length_s) = (interval.start.as_secs_f64(), interval.length.as_secs_f64());
            if spans.is_empty() {
                spans = empty_spans((start_s, end_s), length_s, count_max);
            }
            let middle_s = from_s + length_s / 2.0;
            if middle_s < start_s || middle_s > end_s {
                continue;
            }
            if let Some(span) = span_at(&mut spans, middle_s) {
                span.stats.add(&interval.stats);
            }
        }
        add_failed(results, &operation.file_label, &mut spans)?;
    }
    Ok(spans)
}

/// The span that contains a time, or the last one for a time after all; `None` without spans.
fn span_at(spans: &mut [Span], time_s: f64) -> Option<&mut Span> {
    let index = spans.partition_point(|span| span.end_s <= time_s);
    spans.get_mut(index.min(spans.len().saturating_sub(1)))
}

/// Adds the times until operations failed, if the run recorded them.
fn add_failed(results: &Results, file_label: &str, spans: &mut [Span]) -> Result<(), ReportError> {
    let Some(intervals) = open_part(results, &format!("failed-{file_label}"))? else {
        return Ok(());
    };
    let (start_s, end_s) = results.elapsed_range_s();
    for interval in intervals {
        let interval = interval?;
        let middle_s = interval.start.as_secs_f64() + interval.length.as_secs_f64() / 2.0;
        if (start_s..=end_s).contains(&middle_s)
            && let Some(span) = span_at(spans, middle_s)
        {
            span.failed.add(&interval.stats);
        }
    }
    Ok(())
}

/// All operations within one interval of the logs, which is a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Second {
    pub(super) start_s: f64,
    pub(super) end_s: f64,
    /// Successful operations per second.
    pub(super) rate_per_s: f64,
    pub(super) failed: f64,
    /// The 99th percentile; 0 if no operation succeeded.
    pub(super) p99_us: f64,
}

/// The seconds of a run in ascending order. The percentile of a second is the greatest of its operations.
///
/// # Errors
///
/// When a log can't be read.
pub(super) fn seconds(results: &Results) -> Result<Vec<Second>, ReportError> {
    let labels = intervals::file_labels(&results.directory)?;
    let mut seconds: BTreeMap<u64, Second> = BTreeMap::new();
    for operation in results.operations.iter().filter(|o| labels.contains(&o.file_label)) {
        for interval in IntervalReader::open(&results.directory, &operation.file_label)? {
            let Interval { start, length, stats } = interval?;
            let (start_s, length_s) = (start.as_secs_f64(), length.as_secs_f64().max(1e-3));
            let second = seconds.entry(quoit_number::rounded(start_s)).or_insert(Second {
                start_s,
                end_s: start_s + length_s,
                rate_per_s: 0.0,
                failed: 0.0,
                p99_us: 0.0,
            });
            second.rate_per_s += stats.count() as f64 / length_s;
            second.failed += stats.error_count() as f64;
            second.p99_us = second.p99_us.max(stats.latencies().p99_us as f64);
        }
    }
    Ok(with_silence(seconds.into_values().collect()))
}

/// Inserts empty seconds where the logs have none, because no operation ended in them.
fn with_silence(seconds: Vec<Second>) -> Vec<Second> {
    let mut filled: Vec<Second> = Vec::with_capacity(seconds.len());
    for second in seconds {
        while let Some(before) = filled.last()
            && before.end_s + 0.5 < second.start_s
        {
            let end_s = (before.end_s + 1.0).min(second.start_s);
            filled.push(Second {
                start_s: before.end_s,
                end_s,
                rate_per_s: 0.0,
                failed: 0.0,
                p99_us: 0.0,
            });
        }
        filled.push(second);
    }
    filled
}

/// Spans of the same number of whole intervals; only the last span may have fewer. Each interval belongs to
/// one span, so the rates of spans can be compared.
fn empty_spans((start_s, end_s): (f64, f64), interval_s: f64, count_max: usize) -> Vec<Span> {
    let interval_count = ((end_s - start_s) / interval_s.max(1e-3)).round().max(1.0);
    let interval_s = (end_s - start_s) / interval_count;
    let intervals_a_span = (interval_count / count_max.max(1) as f64).ceil();
    let count =
        quoit_number::index(quoit_number::whole((interval_count / intervals_a_span).ceil()));
    let at_s = |index: usize| start_s + index as f64 * intervals_a_span * interval_s;
    let span = |index: usize| {
        let end_s = if index + 1 == count { end_s } else { at_s(index + 1) };
        Span {
            start_s: at_s(index),
            end_s,
            stats: OperationStats::new(),
            failed: OperationStats::new(),
        }
    };
    (0..count).map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_without_an_answer_are_there() {
        let second = |start_s: f64, rate_per_s: f64| Second {
            start_s,
            end_s: start_s + 1.0,
            rate_per_s,
            failed: 0.0,
            p99_us: rate_per_s,
        };
        let logged = vec![second(0.0, 5.0), second(1.0, 5.0), second(4.0, 5.0)];
        let filled = with_silence(logged);
        let rates: Vec<f64> = filled.iter().map(|second| second.rate_per_s).collect();
        assert_eq!(rates, [5.0, 5.0, 0.0, 0.0, 5.0]);
        assert!(filled.windows(2).all(|pair| pair[0].end_s == pair[1].start_s));
    }

    #[test]
    fn spans_cover_the_run_with_whole_intervals() {
        let cases = [(1.0, 120, 60), (1.0, 10, 10), (90.0, 10, 1), (1.0, 7, 7)];
        for (interval_s, count_max, count) in cases {
            let spans = empty_spans((0.0, 60.0), interval_s, count_max);
            assert_eq!(spans.len(), count);
            assert_eq!((spans[0].start_s, spans[count - 1].end_s), (0.0, 60.0));
            assert!(spans.windows(2).all(|pair| pair[0].end_s == pair[1].start_s));
            let length_s = spans[0].end_s - spans[0].start_s;
            assert_eq!(length_s % f64::min(interval_s, 60.0), 0.0, "{length_s}");
        }
    }
}
