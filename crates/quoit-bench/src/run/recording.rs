//! Where the completed seconds of a run go: tables and terminal, and the interval logs.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::{ReportedOperation, RunError};
use crate::measure::Window;
use crate::measure::intervals::IntervalWriter;
use crate::output::{OutputError, Reporter};

/// Length of an interval of the logs.
const INTERVAL: Duration = Duration::from_secs(1);

/// Takes in a run, second by second. Keeps none of the seconds in memory.
pub(super) struct Recording<'a> {
    reporter: Reporter<'a>,
    directory: PathBuf,
    operations: Vec<ReportedOperation>,
    /// Made when the workers are released.
    intervals: Option<IntervalWriter>,
}

impl<'a> Recording<'a> {
    pub(super) fn new(
        reporter: Reporter<'a>,
        directory: PathBuf,
        operations: Vec<ReportedOperation>,
    ) -> Self {
        Self { reporter, directory, operations, intervals: None }
    }

    /// The measurement starts at `start`.
    pub(super) fn begin(&mut self, start: SystemTime) -> Result<(), RunError> {
        let writer = IntervalWriter::create(&self.directory, &self.operations, start)?;
        self.intervals = Some(writer);
        Ok(())
    }

    /// Shows a line above the progress.
    pub(super) fn notice(&mut self, message: &str) {
        self.reporter.notice(message);
    }

    /// Takes in all seconds before `through_second`; `windows` has those in which anything was.
    pub(super) fn take(
        &mut self,
        windows: &[(u64, Window)],
        through_second: u64,
    ) -> Result<(), RunError> {
        self.log_intervals(windows, None)?;
        let mut windows = windows.iter().peekable();
        while self.reporter.seconds_done() < through_second {
            let window = windows.next_if(|(second, _)| *second == self.reporter.seconds_done());
            self.reporter.second(window.map(|(_, window)| window))?;
        }
        Ok(())
    }

    /// Takes in what is left of a run that went on for `elapsed`; gives the total.
    pub(super) fn finish(
        mut self,
        rest: &[(u64, Window)],
        elapsed: Duration,
    ) -> Result<(Vec<ReportedOperation>, Window), RunError> {
        self.log_intervals(rest, Some(elapsed))?;
        let finished: Result<_, OutputError> = self.reporter.finish(rest, elapsed);
        Ok(finished?)
    }

    fn log_intervals(
        &mut self,
        windows: &[(u64, Window)],
        elapsed: Option<Duration>,
    ) -> Result<(), RunError> {
        let Some(intervals) = &mut self.intervals else { return Ok(()) };
        for (second, window) in windows {
            let start = Duration::from_secs(*second);
            let left = elapsed.map_or(INTERVAL, |elapsed| elapsed.saturating_sub(start));
            intervals.append(start, left.min(INTERVAL), window)?;
        }
        Ok(())
    }
}
