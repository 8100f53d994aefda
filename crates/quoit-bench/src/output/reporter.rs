//! From completed seconds to rows, progress and the summary.

use std::sync::Arc;
use std::time::Duration;

use super::tables::Tables;
use super::{OutputError, RunLog, Terminal, text};
use crate::measure::Window;
use crate::run::ReportedOperation;

/// Adds up the windows of a run and writes what is due.
#[derive(Debug)]
pub(crate) struct Reporter<'a> {
    operations: Vec<ReportedOperation>,
    tables: Tables,
    terminal: &'a mut Terminal,
    log: Arc<RunLog>,
    interval_seconds: u64,
    length: Option<Duration>,
    /// Seconds that were taken in.
    seconds_done: u64,
    row: Window,
    row_start: Duration,
    total: Window,
}

impl<'a> Reporter<'a> {
    /// Makes the tables. `length` is the planned length of the run, if it has one.
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
        })
    }

    /// Seconds that were taken in.
    pub(crate) fn seconds_done(&self) -> u64 {
        self.seconds_done
    }

    /// Shows a line above the progress.
    pub(crate) fn notice(&mut self, message: &str) {
        self.log.info(message);
        self.terminal.line(message);
    }

    /// Takes in the next whole second; writes a row when a report interval is over.
    pub(crate) fn second(&mut self, window: Option<&Window>) -> Result<(), OutputError> {
        self.take(window);
        self.seconds_done += 1;
        let elapsed = Duration::from_secs(self.seconds_done);
        // The row at the planned end waits for the operations that are still in flight, so that
        // it is not followed by a row of a few milliseconds.
        let is_last = self.length.is_some_and(|length| elapsed >= length);
        let is_row = self.seconds_done.is_multiple_of(self.interval_seconds) && !is_last;
        if self.terminal.rewrites() || is_row {
            let (shown, span) = match (self.terminal.rewrites(), window) {
                (true, Some(window)) => (window, Duration::from_secs(1)),
                _ => (&self.row, elapsed - self.row_start),
            };
            let left = self.length.map(|length| length.saturating_sub(elapsed));
            let errors = self.total.error_count();
            let operations = &self.operations;
            let line = text::progress_text(operations, shown, span, elapsed, left, errors);
            self.terminal.progress(&line);
        }
        if is_row { self.end_row(elapsed) } else { Ok(()) }
    }

    fn take(&mut self, window: Option<&Window>) {
        if let Some(window) = window {
            self.row.add(window);
            self.total.add(window);
        }
    }

    fn end_row(&mut self, elapsed: Duration) -> Result<(), OutputError> {
        self.tables.add_row(elapsed, elapsed - self.row_start, &self.row)?;
        for ((index, reason), count) in self.row.errors() {
            let key = self.operations[*index].error_key(reason);
            self.log.warning(&format!("{count} errors {key}"));
        }
        self.row.clear();
        self.row_start = elapsed;
        Ok(())
    }

    /// Takes in what is left of a run that went on for `elapsed`, writes the last row, the errors
    /// and the summary; gives the operations and what they came to.
    pub(crate) fn finish(
        mut self,
        rest: &[(u64, Window)],
        elapsed: Duration,
    ) -> Result<(Vec<ReportedOperation>, Window), OutputError> {
        let mut rest = rest.iter().peekable();
        while self.seconds_done < elapsed.as_secs() {
            let window = rest.next_if(|(second, _)| *second == self.seconds_done);
            self.second(window.map(|(_, window)| window))?;
        }
        rest.for_each(|(_, window)| self.take(Some(window)));
        if elapsed > self.row_start {
            self.end_row(elapsed)?;
        }
        self.tables.write_errors(&self.operations, &self.total)?;
        let table = text::summary_table(&self.operations, &self.total, elapsed);
        self.terminal.line(&format!("\nLatencies in milliseconds:\n{table}"));
        let ended = format!("Test completed after {}.", text::clock_text(elapsed));
        self.notice(&ended);
        Ok((self.operations, self.total))
    }
}
