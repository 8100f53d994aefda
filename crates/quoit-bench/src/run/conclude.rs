//! The end of a run: writing the last files, the report, and the messages for the terminal.

use super::agents::AgentSummary;
use super::conduct::RunOutcome;
use super::expectations::{Judgement, MeasuredResults};
use super::junit::{JUNIT_FILE, write_junit};
use super::recording::{RecordedRun, Recording};
use super::summary::{SUMMARY_FILE, SummaryInputs};
use super::{RunReport, expectations, failures, verdict};
use crate::config::{Config, Pacing};
use crate::measure::{ClientLoad, Stall, stalls};
use crate::output::{RunDirectory, RunLog, Terminal};
use crate::verify::VerifyReport;

/// Maximum number of stalls that are printed. `summary.json` has all of them.
const STALLS_TOLD_MAX: usize = 5;

/// Writes the remarkable facts about a run to the terminal and the log.
pub(super) fn print_report(report: &RunReport, terminal: &mut Terminal, log: &RunLog) {
    if let Some(warning) = report.client.warning() {
        log.warning(&warning);
        terminal.line(&warning);
    }
    tell_stalls(&report.stalls, terminal, log);
    failures::print_failures(report, terminal, log);
    expectations::print_judgements(&report.judgements, terminal, log);
    if let Some(verification) = &report.verification {
        verdict::print_verification(verification, terminal, log);
    }
}

/// Writes the remaining files and returns the report.
pub(super) fn conclude(
    config: &Config,
    directory: &RunDirectory,
    conducted: RunOutcome,
    agents: Vec<AgentSummary>,
    verification: Option<VerifyReport>,
    mut recording: Recording<'_>,
) -> RunReport {
    let RunOutcome { end, started_at, elapsed, process_cpu, loads, gaps, unstarted, rest } =
        conducted;
    if unstarted > 0 {
        recording.notice(&format!(
            "{unstarted} operations were due and never started: the schedule could not be kept"
        ));
    }
    let mut recorded = recording.finish(&rest, elapsed, end);
    let noise_floor = recorded.total.breakdown().canary().latencies();
    let client = ClientLoad::new(process_cpu, loads, noise_floor);
    let offered_per_s = match config.pacing {
        Pacing::Open { rate_per_s, .. } => Some(rate_per_s),
        Pacing::Max | Pacing::Rate(_) | Pacing::Trace(_) => None,
    };
    let stalls = stalls(&gaps, elapsed, recorded.total.success_count(), offered_per_s);
    let measured = MeasuredResults {
        operations: &recorded.operations,
        total: &recorded.total,
        rates_per_s: &recorded.rates_per_s,
        stalls: &stalls,
        unstarted,
    };
    let judgements: Vec<Judgement> =
        config.expectations.iter().map(|expectation| expectation.judge(&measured)).collect();
    if !judgements.is_empty()
        && let Err(error) = write_junit(directory.path(), &judgements, elapsed)
    {
        recorded.lost.push(format!("{JUNIT_FILE} ({error})"));
    }
    let inputs = SummaryInputs {
        config,
        started_at,
        end,
        elapsed,
        recorded: &recorded,
        unstarted,
        client: &client,
        agents: &agents,
        stalls: &stalls,
        judgements: &judgements,
        verification: verification.as_ref(),
    };
    if let Err(error) = inputs.summary().write(directory.path()) {
        recorded.lost.push(format!("{SUMMARY_FILE} ({error})"));
    }
    let directory = directory.path().to_owned();
    let RecordedRun { operations, total, lost, .. } = recorded;
    RunReport {
        directory,
        end,
        elapsed,
        operations,
        total,
        unstarted,
        client,
        stalls,
        judgements,
        verification,
        lost,
    }
}

/// Writes the longest times without a success to the terminal and the log.
fn tell_stalls(stalls: &[Stall], terminal: &mut Terminal, log: &RunLog) {
    let mut lines: Vec<String> = stalls.iter().take(STALLS_TOLD_MAX).map(Stall::text).collect();
    let left = stalls.len().saturating_sub(STALLS_TOLD_MAX);
    if left > 0 {
        lines.push(format!("  and {left} shorter ones: summary.json has all of them"));
    }
    for line in lines {
        log.warning(&line);
        terminal.line(&line);
    }
}
