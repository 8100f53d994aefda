//! Recording of the completed seconds of a run: into tables, the terminal, and the histogram logs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::expectations::{Judgement, MeasuredResults};
use super::signals::interrupt;
use super::{ReportedOperation, RunEnd, RunError};
use crate::config::{Config, Expectation};
use crate::measure::Window;
use crate::measure::intervals::IntervalWriter;
use crate::output::{OutputError, Reporter, RunDirectory, RunLog, RunTotals, Terminal};
use crate::view::ViewPhase;

/// Length of an interval of the histogram logs.
const INTERVAL: Duration = Duration::from_secs(1);

/// Seconds of measurement before expectations are judged for the first time, because a run is slower at its
/// beginning.
const JUDGED_FROM_S: f64 = 10.0;

/// Records a run second by second. It keeps totals only, not the seconds.
pub(super) struct Recording<'a> {
    reporter: Reporter<'a>,
    directory: PathBuf,
    operations: Vec<ReportedOperation>,
    /// Created when the workers are released.
    intervals: Option<IntervalWriter>,
    steady: SteadyCounts,
}

/// Totals and rates of a run.
pub(super) struct RecordedRun {
    pub(super) operations: Vec<ReportedOperation>,
    pub(super) total: Window,
    /// Successful operations per second, for each operation.
    pub(super) rates_per_s: Vec<f64>,
    /// Descriptions, for people, of data that could not be written.
    pub(super) lost: Vec<String>,
}

/// Successes within the whole seconds of the planned length. Operations that end later, while the workers
/// stop one after another, do not belong to the steady rate.
struct SteadyCounts {
    seconds: u64,
    counts: Vec<u64>,
}

impl SteadyCounts {
    fn take(&mut self, windows: &[(u64, Window)]) {
        for (_, window) in windows.iter().filter(|(second, _)| *second < self.seconds) {
            for (count, stats) in self.counts.iter_mut().zip(window.operations()) {
                *count += stats.count();
            }
        }
    }

    /// The rates of a run that lasted `elapsed`. If the run ended before its planned length, or was planned
    /// for less than a second, the rates are over the whole time.
    fn rates_per_s(&self, total: &Window, elapsed: Duration) -> Vec<f64> {
        if self.seconds > 0 && elapsed.as_secs() >= self.seconds {
            return self.counts.iter().map(|count| *count as f64 / self.seconds as f64).collect();
        }
        let seconds = elapsed.as_secs_f64().max(1e-6);
        total.operations().iter().map(|stats| stats.count() as f64 / seconds).collect()
    }
}

impl<'a> Recording<'a> {
    /// Creates the recording and its files.
    ///
    /// # Errors
    ///
    /// When a file can't be created.
    pub(super) fn create(
        config: &Config,
        directory: &RunDirectory,
        terminal: &'a mut Terminal,
        log: Arc<RunLog>,
        operations: Vec<ReportedOperation>,
    ) -> Result<Self, OutputError> {
        let (path, interval) = (directory.path(), config.report_interval);
        let length = config.length.bound();
        let reporter = Reporter::create(path, operations.clone(), terminal, log, interval, length)?;
        let counts = vec![0; operations.len()];
        let steady = SteadyCounts { seconds: length.map_or(0, |length| length.as_secs()), counts };
        let directory = path.to_owned();
        Ok(Self { reporter, directory, operations, intervals: None, steady })
    }

    /// Begins the histogram logs. `start` is the start of the measurement.
    pub(super) fn begin(&mut self, start: SystemTime) -> Result<(), RunError> {
        let writer = IntervalWriter::create(&self.directory, &self.operations, start)?;
        self.intervals = Some(writer);
        Ok(())
    }

    /// Shows that the run enters a phase.
    pub(super) fn enter_phase(&mut self, phase: ViewPhase) {
        self.reporter.enter_phase(phase, interrupt);
    }

    /// Shows the share of the trace that has been replayed, from 0 to 1.
    pub(super) fn set_replayed(&mut self, share: Option<f64>) {
        self.reporter.set_replayed(share);
    }

    /// Prints a line above the progress line.
    pub(super) fn notice(&mut self, message: &str) {
        self.reporter.notice(message);
    }

    /// Records all seconds before `through_second`. `windows` only has the seconds in which something
    /// happened.
    pub(super) fn take(&mut self, windows: &[(u64, Window)], through_second: u64) {
        if self.reporter.seconds_done() == 0 && through_second > 0 {
            self.enter_phase(ViewPhase::Measuring);
        }
        self.log_intervals(windows, None);
        self.steady.take(windows);
        let mut windows = windows.iter().peekable();
        while self.reporter.seconds_done() < through_second {
            let window = windows.next_if(|(second, _)| *second == self.reporter.seconds_done());
            self.reporter.second(window.map(|(_, window)| window));
        }
    }

    /// The first expectation that the seconds so far miss.
    pub(super) fn missed_so_far(&self, expectations: &[Expectation]) -> Option<Judgement> {
        let total = self.reporter.total();
        let elapsed_s = self.reporter.seconds_done() as f64;
        if elapsed_s < JUDGED_FROM_S {
            return None;
        }
        let rates = total.operations().iter().map(|stats| stats.count() as f64 / elapsed_s);
        let rates_per_s: Vec<f64> = rates.collect();
        let measured = MeasuredResults {
            operations: &self.operations,
            total,
            rates_per_s: &rates_per_s,
            stalls: &[],
            unstarted: 0,
        };
        let judged = expectations.iter().filter(|expectation| expectation.is_judged_early());
        judged.map(|expectation| expectation.judge(&measured)).find(|judgement| !judgement.is_met)
    }

    /// Records the remaining seconds of a run that lasted `elapsed`.
    pub(super) fn finish(
        mut self,
        rest: &[(u64, Window)],
        elapsed: Duration,
        end: RunEnd,
    ) -> RecordedRun {
        self.log_intervals(rest, Some(elapsed));
        self.steady.take(rest);
        let of_intervals = self.intervals.as_ref().map(IntervalWriter::lost).unwrap_or_default();
        let RunTotals { operations, total, mut lost } = self.reporter.finish(rest, elapsed, end);
        lost.extend(of_intervals);
        let rates_per_s = self.steady.rates_per_s(&total, elapsed);
        RecordedRun { operations, total, rates_per_s, lost }
    }

    fn log_intervals(&mut self, windows: &[(u64, Window)], elapsed: Option<Duration>) {
        let Some(intervals) = &mut self.intervals else { return };
        for (second, window) in windows {
            let start = Duration::from_secs(*second);
            let left = elapsed.map_or(INTERVAL, |elapsed| elapsed.saturating_sub(start));
            let written = intervals.append(&(start..start + left.min(INTERVAL)), window);
            self.reporter.tell_loss(written);
        }
    }
}
