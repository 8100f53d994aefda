//! Search for the knee: the highest rate of an open loop whose 99th percentile of latency stays within a
//! bound.
//!
//! The search raises the rate step by step until a step exceeds the bound. If already the first step exceeds
//! it, the search halves the rate until a step stays within the bound. Then it tries the geometric mean of
//! the highest rate within the bound and the lowest rate beyond it, until the two are close. A step is
//! measured again until its samples agree.

mod step;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::knee_table::{KNEE_COLUMNS, KNEE_FILE, KneeRow};
use super::{RunEnd, RunError, RunReport, RunSetup};
use crate::config::{Config, KneePlan, Pacing, RunLength};
use crate::output::{OutputError, RunDirectory, RunLog, Terminal};
use step::{Sample, Step, StepVerdict};

/// Warm-up of a step, unless the configuration sets one.
const WARMUP: Duration = Duration::from_secs(2);

/// Factor by which the rate grows while every step is within the bound.
const GROWTH: f64 = 1.5;

/// The search ends when the lowest rate beyond the knee exceeds the highest rate within by at most this
/// factor.
const PRECISION: f64 = 1.05;

/// Maximum number of steps of a search.
const STEP_COUNT_MAX: usize = 40;

/// State of the search, which decides the next rate.
#[derive(Debug, Clone, Copy)]
struct KneeSearch {
    next: f64,
    /// The highest rate found within the bound.
    within: Option<f64>,
    /// The lowest rate found beyond the bound.
    beyond: Option<f64>,
    /// True if the lowest rate beyond was the limit of the load generator, not of the server.
    is_bound_by_client: bool,
}

impl KneeSearch {
    fn from(rate_per_s: f64) -> Self {
        Self { next: rate_per_s, within: None, beyond: None, is_bound_by_client: false }
    }

    /// Takes the verdict on the last step and chooses the next rate. Returns false if the search is over.
    fn go_on(&mut self, verdict: StepVerdict) -> bool {
        match verdict {
            StepVerdict::Within => self.within = Some(self.next),
            StepVerdict::Beyond | StepVerdict::ClientBound => {
                self.beyond = Some(self.next);
                // The lowest rate beyond decides whose limit was found.
                self.is_bound_by_client = verdict == StepVerdict::ClientBound;
            }
        }
        self.next = match (self.within, self.beyond) {
            (Some(within), None) => within * GROWTH,
            (None, Some(beyond)) => beyond / 2.0,
            (Some(within), Some(beyond)) if beyond > within * PRECISION => (within * beyond).sqrt(),
            _ => return false,
        };
        self.next >= 1.0
    }
}

/// Runs step after step until the search is over, and writes the steps to `knee.csv`. Each sample has a
/// directory and a warm-up of its own. Returns the report of the highest step within the bound, or of the
/// first step if no step was within. If a sample ends early, the search stops and returns that sample's
/// report.
///
/// # Errors
///
/// Those of a run.
pub(crate) fn find_knee(
    plan: KneePlan,
    config: &Config,
    directory: &RunDirectory,
    log: &Arc<RunLog>,
    terminal: &mut Terminal,
    run: impl Fn(RunSetup<'_>) -> Result<RunReport, RunError>,
) -> Result<RunReport, RunError> {
    let mut search = KneeSearch::from(plan.from_per_s);
    let mut rows: Vec<KneeRow> = Vec::new();
    let mut best = None;
    let ended = loop {
        let mut step = Step { offered_per_s: search.next, samples: Vec::new() };
        let (verdict, report) = loop {
            let number = match step.samples.len() {
                0 => format!("{:02}", rows.len() + 1),
                before => format!("{:02}-{}", rows.len() + 1, before + 1),
            };
            let place = RunDirectory::create(directory.path(), Some(&format!("step-{number}")))?;
            terminal.line(&format!("\nStep {number}: {:.1} op/s", step.offered_per_s));
            let config = step_config(plan, config, step.offered_per_s, &place);
            let (log, shown) = (log.clone(), &mut *terminal);
            let report =
                run(RunSetup { config: &config, directory: &place, log, terminal: shown })?;
            // An incomplete sample says nothing about its rate.
            if report.end != RunEnd::Completed {
                break (None, report);
            }
            step.samples.push(Sample::new(plan, &report));
            if let Some(verdict) = step.verdict(plan) {
                break (Some(verdict), report);
            }
        };
        let Some(verdict) = verdict else { break Some(report) };
        rows.push(step.row(verdict));
        // Written after each step, so that a search that is killed leaves its findings.
        write_rows(directory, &rows).map_err(OutputError::write(directory.path()))?;
        if verdict == StepVerdict::Within || best.is_none() {
            best = Some(report);
        }
        if !search.go_on(verdict) || rows.len() >= STEP_COUNT_MAX {
            break None;
        }
    };
    print_search(plan, search, &rows, log, terminal);
    if ended.is_some() {
        let told = format!("The search ended early, before {:.1} op/s was judged", search.next);
        log.warning(&told);
        terminal.line(&told);
    }
    Ok(ended.or(best).expect("there is a first step"))
}

fn step_config(plan: KneePlan, config: &Config, rate_per_s: f64, place: &RunDirectory) -> Config {
    Config {
        pacing: Pacing::Open { rate_per_s, arrivals: plan.arrivals },
        length: RunLength::For(plan.step),
        warmup: if config.warmup.is_zero() { WARMUP } else { config.warmup },
        run_directory: place.path().to_owned(),
        ..config.clone()
    }
}

fn write_rows(directory: &RunDirectory, rows: &[KneeRow]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(directory.path().join(KNEE_FILE))?;
    writeln!(file, "{}", KNEE_COLUMNS.join(", "))?;
    rows.iter().try_for_each(|row| writeln!(file, "{}", row.text()))
}

fn print_search(
    plan: KneePlan,
    search: KneeSearch,
    rows: &[KneeRow],
    log: &RunLog,
    terminal: &mut Terminal,
) {
    if rows.is_empty() {
        return;
    }
    terminal.line("\n     offered    successful  99%, ms  samples");
    for row in rows {
        let remark = match (row.is_within, row.is_client_bound) {
            (true, _) => "",
            (false, true) => "  client-bound",
            (false, false) => "  beyond",
        };
        terminal.line(&format!(
            "{:>12.1}  {:>12.1}  {:>7.2}  {:>7}{remark}",
            row.offered_per_s,
            row.successful_per_s,
            row.p99_us / 1e3,
            row.sample_count,
        ));
    }
    let bound = plan.p99_max;
    let verdict = match search.within {
        Some(within) => format!("Knee: {within:.1} op/s with a 99th percentile up to {bound:?}"),
        None => format!("No rate that was tried has a 99th percentile up to {bound:?}"),
    };
    log.info(&verdict);
    terminal.line(&verdict);
    if search.is_bound_by_client {
        let warning = "The load generator was the limit of the search: the server may bear more. Give \
                       the load generator more cores (client_threads) or a machine of its own";
        log.warning(warning);
        terminal.line(warning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(is_within: bool) -> StepVerdict {
        if is_within { StepVerdict::Within } else { StepVerdict::Beyond }
    }

    #[test]
    fn a_search_closes_in_on_the_knee_from_either_side() {
        for from in [1.0, 900.0, 1000.0, 1e6] {
            let mut search = KneeSearch::from(from);
            let mut count = 1;
            while search.go_on(verdict_of(search.next <= 1000.0)) {
                count += 1;
            }
            let within = search.within.expect("a rate within");
            assert!((1000.0 / PRECISION..=1000.0).contains(&within), "{within} from {from}");
            assert!(count <= STEP_COUNT_MAX, "{count} steps from {from}");
            assert!(!search.is_bound_by_client);
        }
    }

    #[test]
    fn a_search_ends_where_nothing_is_within() {
        let mut search = KneeSearch::from(100.0);
        while search.go_on(StepVerdict::Beyond) {}
        assert_eq!(search.within, None);
    }

    #[test]
    fn the_limit_of_the_client_is_no_knee_of_the_server() {
        let mut search = KneeSearch::from(100.0);
        let verdict =
            |rate: f64| if rate > 1000.0 { StepVerdict::ClientBound } else { StepVerdict::Within };
        while search.go_on(verdict(search.next)) {}
        assert!(search.is_bound_by_client);
    }
}
