//! Search for the knee: the highest rate of an open loop whose 99th percentile of latency stays within a
//! bound.
//!
//! The search raises the rate step by step until a step exceeds the bound. If already the first step exceeds
//! it, the search halves the rate until a step stays within the bound. Then it tries the geometric mean of
//! the highest rate within the bound and the lowest rate beyond it, until the two are close. A step is
//! measured again until its samples agree.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::knee_table::{KNEE_COLUMNS, KNEE_FILE, KneeRow};
use super::{RunEnd, RunError, RunReport, RunSetup};
use crate::config::{Config, KneePlan, Pacing, RunLength};
use crate::measure::OperationStats;
use crate::output::{OutputError, RunDirectory, RunLog, Terminal};

/// Warm-up of a step, unless the configuration sets one.
const WARMUP: Duration = Duration::from_secs(2);

/// Factor by which the rate grows while every step is within the bound.
const GROWTH: f64 = 1.5;

/// The search ends when the lowest rate beyond the knee exceeds the highest rate within by at most this
/// factor.
const PRECISION: f64 = 1.05;

/// Maximum number of steps of a search.
const STEP_COUNT_MAX: usize = 40;

/// Number of samples by which one verdict must lead over the other.
const LEAD: usize = 2;

/// Maximum number of samples of a step that count towards its verdict.
const SAMPLE_COUNT_MAX: usize = 5;

/// Number of client-bound samples after which a step is given up.
const CLIENT_BOUND_COUNT_MAX: usize = 2;

/// Maximum share of a step's operations that may fail or stay unstarted.
const UNDONE_SHARE_MAX: f64 = 0.01;

/// State of the search, which decides the next rate.
#[derive(Debug, Clone, Copy)]
struct Search {
    next: f64,
    /// The highest rate found within the bound.
    within: Option<f64>,
    /// The lowest rate found beyond the bound.
    beyond: Option<f64>,
    /// True if the lowest rate beyond was the limit of the load generator, not of the server.
    is_bound_by_client: bool,
}

impl Search {
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

/// One measurement of a step.
#[derive(Debug, Clone, Copy)]
struct Sample {
    successful_per_s: f64,
    p99_us: u64,
    /// Number of operations that failed, or were due and never started.
    undone: u64,
    client_bound: bool,
    is_within: bool,
}

impl Sample {
    fn new(plan: KneePlan, report: &RunReport) -> Self {
        let mut all = OperationStats::new();
        report.total.operations().iter().for_each(|stats| all.add(stats));
        let undone = all.error_count() + report.unstarted;
        let asked = (all.count() + undone).max(1);
        let p99_us = p99_us(&all, undone);
        let is_quick = Duration::from_micros(p99_us) <= plan.p99_max;
        let is_done = undone as f64 <= UNDONE_SHARE_MAX * asked as f64;
        Self {
            successful_per_s: all.count() as f64 / report.elapsed.as_secs_f64().max(1e-6),
            p99_us,
            undone,
            client_bound: report.client.client_bound,
            is_within: is_quick && is_done && all.count() > 0,
        }
    }
}

/// The 99th percentile over all operations that were due, in microseconds. Operations that failed or never
/// started rank after the slowest success, because the time after which they would have succeeded is
/// unknown.
fn p99_us(successes: &OperationStats, undone: u64) -> u64 {
    let count = successes.count().max(1);
    let rank_share = 0.99 * (count + undone) as f64 / count as f64;
    successes.histogram_ns().value_at_quantile(rank_share.min(1.0)) / 1000
}

/// The verdict on a step, from all of its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepVerdict {
    Within,
    Beyond,
    /// The load generator was saturated, so the samples say nothing about the server.
    ClientBound,
}

/// A rate that was tried, with its samples.
#[derive(Debug)]
struct Step {
    offered_per_s: f64,
    samples: Vec<Sample>,
}

impl Step {
    /// The verdict on the step; `None` if more samples are needed.
    ///
    /// This is a sequential test of the share of samples within the bound (Wald, "Sequential Tests of
    /// Statistical Hypotheses", 1945). Between shares of 4/5 and 1/5, a lead of two samples is wrong in one
    /// of 17 cases. After five samples the majority decides. A first sample within half of the bound
    /// decides alone. Client-bound samples do not count; two of them end the step.
    fn verdict(&self, plan: KneePlan) -> Option<StepVerdict> {
        let count = |test: fn(&Sample) -> bool| self.samples.iter().filter(|s| test(s)).count();
        let within = count(|sample| !sample.client_bound && sample.is_within);
        let beyond = count(|sample| !sample.client_bound && !sample.is_within);
        if count(|sample| sample.client_bound) >= CLIENT_BOUND_COUNT_MAX {
            return Some(StepVerdict::ClientBound);
        }
        let is_clear = |sample: &Sample| {
            sample.is_within && Duration::from_micros(sample.p99_us) * 2 <= plan.p99_max
        };
        if (within, beyond) == (1, 0) && self.accepted().next().is_some_and(is_clear) {
            return Some(StepVerdict::Within);
        }
        let is_decided = within.abs_diff(beyond) >= LEAD || within + beyond >= SAMPLE_COUNT_MAX;
        is_decided.then_some(if within > beyond {
            StepVerdict::Within
        } else {
            StepVerdict::Beyond
        })
    }

    /// The samples that are not client-bound.
    fn accepted(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| !sample.client_bound)
    }

    /// The row of the step, with the medians of its samples.
    fn row(&self, verdict: StepVerdict) -> KneeRow {
        let are_bound = verdict == StepVerdict::ClientBound;
        let samples: Vec<&Sample> =
            self.samples.iter().filter(|sample| sample.client_bound == are_bound).collect();
        let sorted = |value: fn(&Sample) -> f64| {
            let mut values: Vec<f64> = samples.iter().map(|sample| value(sample)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let median = |values: &[f64]| values[(values.len() - 1) / 2];
        let p99_us = sorted(|sample| sample.p99_us as f64);
        KneeRow {
            offered_per_s: self.offered_per_s,
            successful_per_s: median(&sorted(|sample| sample.successful_per_s)),
            p99_us: median(&p99_us),
            undone: median(&sorted(|sample| sample.undone as f64)),
            is_client_bound: are_bound,
            is_within: verdict == StepVerdict::Within,
            sample_count: self.samples.len() as u64,
            p99_us_min: p99_us[0],
            p99_us_max: p99_us[p99_us.len() - 1],
        }
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
    let mut search = Search::from(plan.from_per_s);
    let mut rows: Vec<KneeRow> = Vec::new();
    let mut best = None;
    let ended = loop {
        let mut step = Step { offered_per_s: search.next, samples: Vec::new() };
        let (verdict, report) = loop {
            let name = match step.samples.len() {
                0 => format!("step-{:02}", rows.len() + 1),
                before => format!("step-{:02}-{}", rows.len() + 1, before + 1),
            };
            let place = RunDirectory::create(directory.path(), Some(&name))?;
            terminal.line(&format!("\nStep {}: {:.1} op/s", &name[5..], step.offered_per_s));
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
    tell(plan, search, &rows, log, terminal);
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

fn tell(plan: KneePlan, search: Search, rows: &[KneeRow], log: &RunLog, terminal: &mut Terminal) {
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

    const PLAN: KneePlan = KneePlan {
        p99_max: Duration::from_millis(10),
        from_per_s: 100.0,
        step: Duration::from_secs(1),
        arrivals: crate::config::Arrivals::Constant,
    };

    fn verdict_of(is_within: bool) -> StepVerdict {
        if is_within { StepVerdict::Within } else { StepVerdict::Beyond }
    }

    /// A step whose samples have these 99th percentiles in milliseconds; 0 stands for a client-bound
    /// sample.
    fn step(p99s_ms: &[u64]) -> Step {
        let sample = |ms: &u64| Sample {
            successful_per_s: 100.0,
            p99_us: ms * 1000,
            undone: 0,
            client_bound: *ms == 0,
            is_within: *ms <= 10,
        };
        Step { offered_per_s: 100.0, samples: p99s_ms.iter().map(sample).collect() }
    }

    #[test]
    fn a_verdict_takes_as_many_samples_as_it_needs() {
        let verdict = |p99s_ms: &[u64]| step(p99s_ms).verdict(PLAN);
        assert_eq!(verdict(&[]), None);
        assert_eq!(verdict(&[5]), Some(StepVerdict::Within), "half of the bound is clear");
        assert_eq!(verdict(&[8]), None);
        assert_eq!(verdict(&[500]), None, "one stall of the machine is not the knee");
        assert_eq!(verdict(&[8, 9]), Some(StepVerdict::Within));
        assert_eq!(verdict(&[500, 12]), Some(StepVerdict::Beyond));
        assert_eq!(verdict(&[500, 5]), None);
        assert_eq!(verdict(&[500, 5, 5, 5]), Some(StepVerdict::Within));
        assert_eq!(verdict(&[12, 9, 12, 9, 12]), Some(StepVerdict::Beyond));
        assert_eq!(verdict(&[0]), None);
        assert_eq!(
            verdict(&[0, 5]),
            Some(StepVerdict::Within),
            "a client-bound sample does not count"
        );
        assert_eq!(verdict(&[0, 9, 0]), Some(StepVerdict::ClientBound));
    }

    #[test]
    fn what_failed_or_never_started_is_slower_than_what_succeeded() {
        let mut successes = OperationStats::new();
        (1..=1000).for_each(|ms| successes.record(ms * 1_000_000));
        let near = |us: u64, ms: u64| us.abs_diff(ms * 1000) <= ms;
        assert!(near(p99_us(&successes, 0), 990), "{}", p99_us(&successes, 0));
        // Of 1005 operations, the 99th percentile is at rank 995.
        assert!(near(p99_us(&successes, 5), 995), "{}", p99_us(&successes, 5));
        assert!(near(p99_us(&successes, 500), 1000), "{}", p99_us(&successes, 500));
        assert_eq!(p99_us(&OperationStats::new(), 5), 0);
    }

    #[test]
    fn a_row_has_the_medians_of_the_samples_that_count() {
        let row = step(&[500, 0, 7, 8]).row(StepVerdict::Within);
        assert_eq!((row.p99_us, row.p99_us_min, row.p99_us_max), (8000.0, 7000.0, 500_000.0));
        assert_eq!((row.sample_count, row.is_client_bound), (4, false));
    }

    #[test]
    fn a_search_closes_in_on_the_knee_from_either_side() {
        for from in [1.0, 900.0, 1000.0, 1e6] {
            let mut search = Search::from(from);
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
        let mut search = Search::from(100.0);
        while search.go_on(StepVerdict::Beyond) {}
        assert_eq!(search.within, None);
    }

    #[test]
    fn the_limit_of_the_client_is_no_knee_of_the_server() {
        let mut search = Search::from(100.0);
        let verdict =
            |rate: f64| if rate > 1000.0 { StepVerdict::ClientBound } else { StepVerdict::Within };
        while search.go_on(verdict(search.next)) {}
        assert!(search.is_bound_by_client);
    }
}
