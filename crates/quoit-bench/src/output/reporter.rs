//! Converts completed seconds to rows, progress and the summary.

use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::live::LiveRow;
use super::tables::Tables;
use super::viewed::ViewedSecond;
use super::{OutputError, RunLog, Terminal, text};
use crate::measure::Window;
use crate::reported_operation::ReportedOperation;
use crate::run_end::RunEnd;
use crate::view::ViewPhase;

/// Adds up the windows of a run, and writes rows and progress when they are due.
#[derive(Debug)]
pub(crate) struct Reporter<'a> {
    operations: Vec<ReportedOperation>,
    tables: Tables,
    terminal: &'a mut Terminal,
    log: Arc<RunLog>,
    interval_seconds: u64,
    length: Option<Duration>,
    /// Number of seconds taken so far.
    seconds_done: u64,
    row: Window,
    row_start: Duration,
    total: Window,
    /// Share of the trace that has been replayed, if it is known.
    replayed: Option<f64>,
    /// True once a failure to write a table was reported, which happens only once.
    has_told_loss: bool,
}

/// Totals of a run.
#[derive(Debug)]
pub(crate) struct RunTotals {
    /// The operations, in the order of the configuration.
    pub(crate) operations: Vec<ReportedOperation>,
    /// The sum of all windows.
    pub(crate) total: Window,
    /// Descriptions, for people, of data that could not be written.
    pub(crate) lost: Vec<String>,
}

impl<'a> Reporter<'a> {
    /// Creates the tables. `length` is the planned length of the run, if it has one.
    pub(crate) fn create(
        directory: &std::path::Path,
        operations: Vec<ReportedOperation>,
        terminal: &'a mut Terminal,
        log: Arc<RunLog>,
        report_interval: Duration,
        length: Option<Duration>,
    ) -> Result<Self, OutputError> {
        let tables = Tables::create(directory, &operations)?;
        let empty = Window::new(operations.len());
        Ok(Self {
            operations,
            tables,
            terminal,
            log,
            interval_seconds: report_interval.as_secs().max(1),
            length,
            seconds_done: 0,
            row: empty.clone(),
            row_start: Duration::ZERO,
            total: empty,
            replayed: None,
            has_told_loss: false,
        })
    }

    /// Number of seconds taken so far.
    pub(crate) fn seconds_done(&self) -> u64 {
        self.seconds_done
    }

    /// The sum of all windows taken so far.
    pub(crate) fn total(&self) -> &Window {
        &self.total
    }

    /// Makes every further write to a table fail.
    #[cfg(test)]
    pub(super) fn fill_disk_of(&mut self, file_name: &str) {
        self.tables.fill_disk_of(file_name);
    }

    /// Sets the share of the trace that has been replayed, from 0 to 1.
    pub(crate) fn set_replayed(&mut self, share: Option<f64>) {
        self.replayed = share;
    }

    /// Shows that the run enters a phase. The view's quit key calls `quit`.
    pub(crate) fn enter_phase(&mut self, phase: ViewPhase, quit: fn()) {
        self.terminal.enter_phase(phase, self.length, quit);
    }

    /// Prints a line above the progress line, and logs it.
    pub(crate) fn notice(&mut self, message: &str) {
        self.log.info(message);
        self.terminal.line(message);
    }

    /// Takes the next whole second. Writes a row if a report interval is over.
    pub(crate) fn second(&mut self, window: Option<&Window>) {
        self.take(window);
        self.seconds_done += 1;
        let elapsed = Duration::from_secs(self.seconds_done);
        // The row at the planned end waits for the operations still in flight. Otherwise a row of a few
        // milliseconds would follow it.
        let is_last = self.length.is_some_and(|length| elapsed >= length);
        let is_row = self.seconds_done.is_multiple_of(self.interval_seconds) && !is_last;
        let viewed = ViewedSecond {
            operations: &self.operations,
            elapsed,
            second: window,
            total: &self.total,
            replayed: self.replayed,
        };
        if self.terminal.view(&viewed) {
            // The view shows everything that the progress line has.
        } else if self.terminal.rewrites() {
            let nothing = Window::new(0);
            let second = Duration::from_secs(1);
            let line = self.progress(window.unwrap_or(&nothing), elapsed - second..elapsed);
            self.terminal.progress(&line);
        } else if is_row {
            let line = self.progress(&self.row, self.row_start..elapsed);
            self.terminal.progress(&line);
        }
        if is_row {
            self.end_row(elapsed);
        }
    }

    /// The progress line. `times` is the range that the window covers; it ends now.
    fn progress(&self, window: &Window, times: Range<Duration>) -> String {
        let elapsed = times.end;
        let progress = text::Progress {
            operations: &self.operations,
            window,
            span: elapsed - times.start,
            elapsed,
            left: self.length.map(|length| length.saturating_sub(elapsed)),
            replayed: self.replayed,
            error_count: self.total.error_count(),
        };
        progress.text(self.terminal.columns())
    }

    fn take(&mut self, window: Option<&Window>) {
        if let Some(window) = window {
            self.row.add(window);
            self.total.add(window);
        }
    }

    fn end_row(&mut self, elapsed: Duration) {
        let written = self.tables.add_row(self.row_start..elapsed, &self.row);
        self.tell_loss(written);
        let span = elapsed - self.row_start;
        let row = LiveRow {
            operations: &self.operations,
            elapsed,
            span,
            row: &self.row,
            total: &self.total,
        };
        let told = self.terminal.row(&row);
        self.tell_loss(told.map_err(|error| format!("the file of OpenMetrics: {error}")));
        for (operation, reason, count) in self.row.errors_of(&self.operations) {
            let key = operation.error_key(reason);
            self.log.warning(&format!("{count} errors {key}"));
        }
        self.row.clear();
        self.row_start = elapsed;
    }

    /// Reports the first failure to write results. The run continues, because it may be expensive to
    /// repeat.
    pub(crate) fn tell_loss<E: Display>(&mut self, written: Result<(), E>) {
        if let Err(error) = written
            && !self.has_told_loss
        {
            self.has_told_loss = true;
            let message = format!("warning: {error}. The run goes on; its results have gaps.");
            self.log.error(&message);
            self.terminal.line(&message);
        }
    }

    /// Takes the remaining seconds of a run that lasted `elapsed`, writes the last row, the errors and the
    /// summary, and prints how the run ended.
    pub(crate) fn finish(
        mut self,
        rest: &[(u64, Window)],
        elapsed: Duration,
        end: RunEnd,
    ) -> RunTotals {
        let mut rest = rest.iter().peekable();
        while self.seconds_done < elapsed.as_secs() {
            let window = rest.next_if(|(second, _)| *second == self.seconds_done);
            self.second(window.map(|(_, window)| window));
        }
        rest.for_each(|(_, window)| self.take(Some(window)));
        if elapsed > self.row_start {
            self.end_row(elapsed);
        }
        let written = self.tables.write_errors(&self.operations, &self.total);
        self.tell_loss(written);
        let table = text::summary_table(&self.operations, &self.total, elapsed);
        self.terminal.line(&format!("\nLatencies in milliseconds:\n{table}"));
        self.notice(&format!("Test {} after {}.", text::end_text(end), text::clock_text(elapsed)));
        let lost = [self.tables.lost(), self.log.lost()].concat();
        RunTotals { operations: self.operations, total: self.total, lost }
    }
}
