//! Effects of a run's events: the time until the load was affected and until it had recovered.

use super::steadiness::upper_median;
use super::time_spans::Second;
use super::{EventRow, Results};
use std::ops::Range;

/// Maximum and minimum number of seconds before an event that it is compared with.
const BEFORE_MAX: usize = 30;
const BEFORE_MIN: usize = 3;
/// Number of consecutive untroubled seconds that make a recovery.
const GOOD_SECONDS: usize = 3;
/// A second is troubled if its rate is below this share of the rate before the event.
const RATE_SHARE_MIN: f64 = 0.7;
/// A second is troubled if its 99th percentile exceeds this multiple of the one before the event.
const P99_RATIO_MAX: f64 = 3.0;

/// The effect of an event on the load, in seconds after the event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Impact {
    /// There are too few seconds before the event to compare with.
    Unknown,
    /// No effect until the next event or the end of the run.
    None,
    /// The load was affected after `noticed_s` and recovered after `recovered_s`; `None` if it did not
    /// recover.
    Felt { noticed_s: f64, recovered_s: Option<f64> },
}

/// The effects of a run's events. An effect begins with the first troubled second after the event and ends
/// with the first of three untroubled ones. A second is troubled if operations fail and none failed before
/// the event, if the rate is below 70 % of the median before the event, or if the 99th percentile exceeds
/// three times its median before.
pub(super) fn impacts(results: &Results, seconds: &[Second]) -> Vec<Impact> {
    let ends = results.events.iter().skip(1).map(|event| event.elapsed_s).chain([f64::INFINITY]);
    let of = |(event, end_s): (&EventRow, f64)| impact(event.elapsed_s..end_s, seconds);
    results.events.iter().zip(ends).map(of).collect()
}

/// The effect of an event at the start of `times_s`. The next event is at the end of `times_s`.
fn impact(times_s: Range<f64>, seconds: &[Second]) -> Impact {
    let Range { start: at_s, end: until_s } = times_s;
    // The second that contains the event belongs to neither side.
    let mut before: Vec<&Second> = seconds.iter().filter(|second| second.end_s <= at_s).collect();
    before.drain(..before.len().saturating_sub(BEFORE_MAX));
    if before.len() < BEFORE_MIN {
        return Impact::Unknown;
    }
    let median = |of: fn(&Second) -> f64| {
        upper_median(&before.iter().map(|second| of(second)).collect::<Vec<f64>>())
    };
    let (rate, p99_us) = (median(|second| second.rate_per_s), median(|second| second.p99_us));
    let failed_before = before.iter().any(|second| second.failed > 0.0);
    let is_troubled = |second: &Second| {
        (second.failed > 0.0 && !failed_before)
            || second.rate_per_s < RATE_SHARE_MIN * rate
            || second.p99_us > P99_RATIO_MAX * p99_us
    };
    let after = seconds.iter().filter(|second| second.end_s > at_s && second.end_s <= until_s);
    let after: Vec<&Second> = after.skip_while(|second| !is_troubled(second)).collect();
    let Some(noticed) = after.first() else { return Impact::None };
    let troubles: Vec<bool> = after.iter().map(|second| is_troubled(second)).collect();
    let good = troubles.windows(GOOD_SECONDS).position(|window| !window.contains(&true));
    let length_s = |second: &Second| second.end_s - second.start_s;
    let recovered = good.and_then(|good| after.get(good));
    Impact::Felt {
        noticed_s: noticed.end_s - at_s,
        recovered_s: recovered.map(|second| second.end_s - length_s(second) - at_s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds with 100 operations and a 99th percentile of 10 ms each, as modified by `change`.
    fn seconds(count: usize, change: impl Fn(usize, &mut Second)) -> Vec<Second> {
        let second = |at: usize| {
            let mut second = Second {
                start_s: at as f64,
                end_s: at as f64 + 1.0,
                rate_per_s: 100.0,
                failed: 0.0,
                p99_us: 10_000.0,
            };
            change(at, &mut second);
            second
        };
        (0..count).map(second).collect()
    }

    #[test]
    fn failures_a_lower_rate_and_a_greater_tail_are_felt_until_they_are_over() {
        let changes: [fn(&mut Second); 3] = [
            |second| second.failed = 1.0,
            |second| second.rate_per_s = 60.0,
            |second| second.p99_us = 31_000.0,
        ];
        for change in changes {
            let time_spans = seconds(60, |at, second| {
                if (21..25).contains(&at) || at == 26 {
                    change(second);
                }
            });
            let felt = Impact::Felt { noticed_s: 1.5, recovered_s: Some(6.5) };
            assert_eq!(impact(20.5..f64::INFINITY, &time_spans), felt);
        }
    }

    #[test]
    fn an_event_that_nobody_felt_one_that_lasts_and_one_at_the_beginning_are_told_apart() {
        let calm = seconds(60, |_, _| {});
        assert_eq!(impact(20.5..f64::INFINITY, &calm), Impact::None);
        assert_eq!(impact(2.5..f64::INFINITY, &calm), Impact::Unknown);
        let lasts = seconds(60, |at, second| {
            if at > 30 {
                second.rate_per_s = 0.0;
            }
        });
        let felt = Impact::Felt { noticed_s: 11.5, recovered_s: None };
        assert_eq!(impact(20.5..f64::INFINITY, &lasts), felt);
        assert_eq!(
            impact(20.5..25.0, &lasts),
            Impact::None,
            "the next event is that of what follows"
        );
    }
}
