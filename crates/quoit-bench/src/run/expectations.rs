//! Judging the results of a run by its expectations.

use serde::{Deserialize, Serialize};

use super::ReportedOperation;
use crate::config::{Config, ConfigError, Expectation, ExpectationError, Figure};
use crate::measure::{OperationStats, Stall, Window};
use crate::output::text::ms_text;
use crate::output::{RunLog, Terminal};

/// Results of a run, or of its first part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeasuredResults<'a> {
    pub(crate) operations: &'a [ReportedOperation],
    pub(crate) total: &'a Window,
    /// Successful operations per second, for each operation.
    pub(crate) rates_per_s: &'a [f64],
    /// Stalls, the longest first.
    pub(crate) stalls: &'a [Stall],
    pub(crate) unstarted: u64,
}

/// The judgement of one expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The expectation as it was written.
    pub expectation: String,
    /// True if the run met it.
    pub is_met: bool,
    /// The deciding figure, as text for people.
    pub measured: String,
}

/// A measured figure.
struct MeasuredFigure {
    value: f64,
    /// The true value may be greater, because operations failed before they were answered.
    is_lower_bound: bool,
    /// The operation that the figure belongs to; `None` if it is about the whole run.
    operation: Option<String>,
}

impl MeasuredFigure {
    fn of_run(value: f64) -> Vec<Self> {
        vec![Self { value, is_lower_bound: false, operation: None }]
    }
}

impl Expectation {
    /// Checks that the mix has the operation that the expectation names.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub(crate) fn check_operation(
        &self,
        operations: &[ReportedOperation],
    ) -> Result<(), ExpectationError> {
        let Some(wanted) = &self.operation else { return Ok(()) };
        if operations.iter().any(|operation| is_called(operation, wanted)) {
            return Ok(());
        }
        let names = operations.iter().map(ReportedOperation::name).collect::<Vec<_>>().join(", ");
        let (text, operation) = (self.text.clone(), wanted.clone());
        Err(ExpectationError::Operation { text, operation, names })
    }

    fn is_about(&self, operation: &ReportedOperation) -> bool {
        self.operation.as_ref().is_none_or(|wanted| is_called(operation, wanted))
    }

    /// True if the first part of a run can be judged. Stalls and unstarted arrivals are only known at the
    /// end.
    pub(crate) fn is_judged_early(&self) -> bool {
        !matches!(self.figure, Figure::Stall | Figure::Unstarted)
    }

    /// Judges the figures. An expectation without any measured figure is missed.
    pub(crate) fn judge(&self, measured: &MeasuredResults<'_>) -> Judgement {
        let found = self.found(measured);
        // The worst figure decides: one that misses the bound ranks before one that meets it, then the one
        // that is further on the wrong side of the bound.
        let worst = found.iter().max_by(|a, b| {
            let badness = |found: &MeasuredFigure| {
                let distance = found.value - self.bound;
                let signed = if self.relation.is_upper_bound() { distance } else { -distance };
                (!self.meets(found), signed)
            };
            let ((a_misses, a_by), (b_misses, b_by)) = (badness(a), badness(b));
            a_misses.cmp(&b_misses).then(a_by.total_cmp(&b_by))
        });
        Judgement {
            expectation: self.text.clone(),
            is_met: worst.is_some_and(|worst| self.meets(worst)),
            measured: worst
                .map_or_else(|| "nothing was measured".to_owned(), |it| self.text_of(it)),
        }
    }

    fn meets(&self, found: &MeasuredFigure) -> bool {
        let is_unknown = found.is_lower_bound && self.relation.is_upper_bound();
        !is_unknown && self.holds(found.value)
    }

    fn found(&self, measured: &MeasuredResults<'_>) -> Vec<MeasuredFigure> {
        let MeasuredResults { operations, total, rates_per_s, stalls, unstarted } = *measured;
        let concerned = || {
            let stats = total.operations().iter().zip(total.breakdown().failed());
            operations.iter().zip(stats).filter(|(operation, _)| self.is_about(operation))
        };
        let name = self.operation.clone();
        match self.figure {
            Figure::Latency(figure) => concerned()
                .filter_map(|(operation, stats)| latency(figure, stats, operation.name()))
                .collect(),
            Figure::Errors => {
                let stats = || concerned().map(|(_, (stats, _))| stats);
                let failed: u64 = stats().map(|stats| stats.error_count()).sum();
                let all = failed + stats().map(|stats| stats.count()).sum::<u64>();
                if all == 0 {
                    return Vec::new();
                }
                let value = failed as f64 / all as f64;
                vec![MeasuredFigure { value, is_lower_bound: false, operation: name }]
            }
            Figure::Rate => {
                let rates = operations.iter().zip(rates_per_s);
                let value = rates.filter(|(it, _)| self.is_about(it)).map(|(_, rate)| rate).sum();
                vec![MeasuredFigure { value, is_lower_bound: false, operation: name }]
            }
            Figure::Stall => {
                let longest_s = stalls.first().map_or(0.0, |stall| stall.length_s);
                MeasuredFigure::of_run(longest_s * 1e6)
            }
            Figure::Unstarted => MeasuredFigure::of_run(unstarted as f64),
        }
    }

    fn text_of(&self, found: &MeasuredFigure) -> String {
        let at_least = if found.is_lower_bound { "at least " } else { "" };
        let value = match self.figure {
            Figure::Latency(_) | Figure::Stall => format!("{} ms", ms_text(found.value)),
            Figure::Errors => format!("{:.3} %", found.value * 100.0),
            Figure::Rate => format!("{:.1} op/s", found.value),
            Figure::Unstarted => format!("{:.0}", found.value),
        };
        match &found.operation {
            Some(operation) => format!("{at_least}{value} of {operation}"),
            None => format!("{at_least}{value}"),
        }
    }
}

fn is_called(operation: &ReportedOperation, name: &str) -> bool {
    operation.name() == name || operation.file_label == name
}

/// A latency figure of an operation, from the statistics of its successes and of its failures; `None` if the
/// operation was never attempted.
#[expect(clippy::indexing_slicing, reason = "`figure` is the number of one of the seven figures")]
fn latency(
    figure: usize,
    (stats, failed): (&OperationStats, &OperationStats),
    operation: String,
) -> Option<MeasuredFigure> {
    let attempts = stats.attempts(failed);
    let (latencies, is_lower_bound) = match attempts {
        Some(attempts) => (attempts.latencies, attempts.lower_bounds()[figure]),
        None => (stats.latencies(), false),
    };
    let value = latencies.figures_us()[figure];
    (latencies.count > 0).then_some(MeasuredFigure {
        value,
        is_lower_bound,
        operation: Some(operation),
    })
}

/// Checks that the run can be judged by the expectations of its configuration.
///
/// # Errors
///
/// When an expectation names an operation that the run does not have, or the run is a search.
pub(crate) fn check_expectations(
    config: &Config,
    operations: &[ReportedOperation],
) -> Result<(), ConfigError> {
    for expectation in &config.expectations {
        let checked = match config.knee {
            Some(_) => Err(ExpectationError::Search { text: expectation.text.clone() }),
            None => expectation.check_operation(operations),
        };
        let place = expectation.place.clone();
        checked.map_err(|error| ConfigError::Expectation { place, error: Box::new(error) })?;
    }
    Ok(())
}

/// Writes the judgements to the terminal and the log, missed ones in red.
pub(super) fn print_judgements(judgements: &[Judgement], terminal: &mut Terminal, log: &RunLog) {
    for Judgement { expectation, is_met, measured } in judgements {
        if *is_met {
            let line = format!("Expected {expectation}: met, it is {measured}");
            log.info(&line);
            terminal.line(&line);
        } else {
            let line = format!("Expected {expectation}: MISSED, it is {measured}");
            log.error(&line);
            terminal.alarm(&line);
        }
    }
}
