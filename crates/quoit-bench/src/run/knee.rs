//! The highest rate of an open loop whose 99th percentile stays within a bound, found by runs of
//! growing rate and then by halving the gap.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::{RunEnd, RunError, RunReport, RunSetup};
use crate::config::{Config, KneePlan, Pacing, RunLength};
use crate::measure::OperationStats;
use crate::output::{OutputError, RunDirectory, RunLog, Terminal};

/// Warm-up of a step when the configuration has none.
const WARMUP: Duration = Duration::from_secs(2);

/// Growth of the rate while every step is within the bound.
const GROWTH: f64 = 1.5;

/// The search ends when the lowest rate beyond the knee is at most this much above the highest
/// before it.
const PRECISION: f64 = 1.05;

/// Most steps of a search.
const STEP_COUNT_MAX: usize = 40;

/// Share of the operations of a step that may fail or be left undone.
const UNDONE_SHARE_MAX: f64 = 0.01;

/// Which rate is tried next.
#[derive(Debug, Clone, Copy)]
struct Search {
    next: f64,
    /// The highest rate within the bound.
    within: Option<f64>,
    /// The lowest rate beyond it.
    beyond: Option<f64>,
}

impl Search {
    fn from(rate_per_s: f64) -> Self {
        Self { next: rate_per_s, within: None, beyond: None }
    }

    /// Notes how the last step went; false when nothing is left to try.
    fn go_on(&mut self, is_within: bool) -> bool {
        match is_within {
            true => self.within = Some(self.next),
            false => self.beyond = Some(self.next),
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

/// Result of a step.
#[derive(Debug)]
struct Step {
    offered_per_s: f64,
    successful_per_s: f64,
    p99_us: u64,
    /// Failed, or due and never started.
    undone: u64,
    client_bound: bool,
    is_within: bool,
}

impl Step {
    fn new(offered_per_s: f64, plan: KneePlan, report: &RunReport) -> Self {
        let mut all = OperationStats::new();
        report.total.operations().iter().for_each(|stats| all.add(stats));
        let latencies = all.latencies();
        let undone = all.error_count() + report.unstarted;
        let asked = (latencies.count + undone).max(1);
        let is_quick = Duration::from_micros(latencies.p99_us) <= plan.p99_max;
        let is_done = undone as f64 <= UNDONE_SHARE_MAX * asked as f64;
        Self {
            offered_per_s,
            successful_per_s: latencies.count as f64 / report.elapsed.as_secs_f64().max(1e-6),
            p99_us: latencies.p99_us,
            undone,
            client_bound: report.client.client_bound,
            is_within: is_quick && is_done && latencies.count > 0,
        }
    }

    fn row(&self) -> String {
        let Self { offered_per_s, successful_per_s, p99_us, undone, client_bound, is_within } =
            self;
        format!(
            "{offered_per_s:.1}, {successful_per_s:.1}, {p99_us}, {undone}, {client_bound}, \
             {is_within}\n"
        )
    }
}

/// Runs step after step, each in a directory of its own with a warm-up of its own; gives the report
/// of the highest step within the bound, or of the last one when none was. The steps are told, and
/// kept in `knee.csv`.
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
    let mut steps: Vec<Step> = Vec::new();
    let mut best = None;
    loop {
        let rate_per_s = search.next;
        let name = format!("step-{:02}", steps.len() + 1);
        let place = RunDirectory::create(directory.path(), Some(&name))?;
        terminal.line(&format!("\nStep {}: {rate_per_s:.1} op/s", steps.len() + 1));
        let config = Config {
            pacing: Pacing::Open { rate_per_s, arrivals: plan.arrivals },
            length: RunLength::For(plan.step),
            warmup: if config.warmup.is_zero() { WARMUP } else { config.warmup },
            run_directory: place.path().to_owned(),
            ..config.clone()
        };
        let (log, shown) = (log.clone(), &mut *terminal);
        let report = run(RunSetup { config: &config, directory: &place, log, terminal: shown })?;
        let step = Step::new(rate_per_s, plan, &report);
        let (is_within, is_whole) = (step.is_within, report.end == RunEnd::Completed);
        steps.push(step);
        if is_within || best.is_none() {
            best = Some(report);
        }
        if !is_whole || !search.go_on(is_within) || steps.len() >= STEP_COUNT_MAX {
            break;
        }
    }
    write_steps(directory, &steps).map_err(OutputError::write(directory.path()))?;
    tell(plan, search, &steps, log, terminal);
    Ok(best.expect("there is a first step"))
}

fn write_steps(directory: &RunDirectory, steps: &[Step]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(directory.path().join("knee.csv"))?;
    file.write_all(b"offered, successful, 99th, undone, client_bound, within\n")?;
    steps.iter().try_for_each(|step| file.write_all(step.row().as_bytes()))
}

fn tell(plan: KneePlan, search: Search, steps: &[Step], log: &RunLog, terminal: &mut Terminal) {
    terminal.line("\n     offered    successful  99%, ms");
    for step in steps {
        let remark = match (step.is_within, step.client_bound) {
            (true, false) => "",
            (true, true) => "  client-bound",
            (false, false) => "  beyond",
            (false, true) => "  beyond, client-bound",
        };
        terminal.line(&format!(
            "{:>12.1}  {:>12.1}  {:>7.2}{remark}",
            step.offered_per_s,
            step.successful_per_s,
            step.p99_us as f64 / 1e3
        ));
    }
    let bound = plan.p99_max;
    let verdict = match (search.within, search.beyond) {
        (Some(within), _) => {
            format!("Knee: {within:.1} op/s with a 99th percentile up to {bound:?}")
        }
        (None, _) => format!("No rate that was tried has a 99th percentile up to {bound:?}"),
    };
    log.info(&verdict);
    terminal.line(&verdict);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_closes_in_on_the_knee_from_either_side() {
        for from in [1.0, 900.0, 1000.0, 1e6] {
            let mut search = Search::from(from);
            let mut count = 1;
            while search.go_on(search.next <= 1000.0) {
                count += 1;
            }
            let within = search.within.expect("a rate within");
            assert!((1000.0 / PRECISION..=1000.0).contains(&within), "{within} from {from}");
            assert!(count <= STEP_COUNT_MAX, "{count} steps from {from}");
        }
    }

    #[test]
    fn a_search_ends_where_nothing_is_within() {
        let mut search = Search::from(100.0);
        while search.go_on(false) {}
        assert_eq!(search.within, None);
    }
}
