//! Progress of long commands, shown to the waiting operator in the same form by all commands.
//!
//! On a terminal one line is rewritten: a bar if the total is known, the amount that is done, the rate,
//! and the time that is left. If the standard error is not a terminal, a plain line is written from time
//! to time. A command that ends at once shows nothing.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

pub mod figures;

use figures::{count, duration, size};
use quoit_number::rounded;
use std::io::{IsTerminal, Stderr, Write};
use std::time::{Duration, Instant};

/// Interval at which the line on a terminal is rewritten; also the time before the first line.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which a line is written to a file or a pipe.
const FILE_INTERVAL: Duration = Duration::from_secs(10);
/// Number of characters of a bar.
const BAR_WIDTH: u64 = 24;
/// Minimum time from which a rate is computed, in seconds.
const RATE_SECS_MIN: f64 = 0.001;

/// Unit of the counted amounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Things with this name, in the plural.
    Items(&'static str),
}

impl Unit {
    fn amount(self, number: u64) -> String {
        match self {
            Self::Bytes => size(number as f64),
            Self::Items(name) => format!("{} {name}", count(number)),
        }
    }

    fn rate(self, per_sec: f64) -> String {
        match self {
            Self::Bytes => format!("{}/s", size(per_sec)),
            Self::Items(_) => format!("{}/s", count(rounded(per_sec))),
        }
    }
}

/// An amount of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkAmount {
    /// The part that is done.
    pub done: u64,
    /// All of the work.
    pub total: u64,
}

/// Returns a bar that is filled in proportion to the amount that is done.
#[must_use]
pub fn bar(amount: WorkAmount) -> String {
    let WorkAmount { done, total } = amount;
    let filled = u128::from(done.min(total)) * u128::from(BAR_WIDTH) / u128::from(total.max(1));
    let bar = (0..u128::from(BAR_WIDTH)).map(|at| if at < filled { '#' } else { '.' });
    format!("[{}]", bar.collect::<String>())
}

/// Progress of one piece of work.
#[derive(Debug)]
pub struct Progress<W: Write = Stderr> {
    out: W,
    is_terminal: bool,
    /// Name of the work, as in `copying`.
    work: &'static str,
    unit: Unit,
    total: Option<u64>,
    /// Amount that was done before this run.
    from: u64,
    began: Instant,
    /// Time at which the last line was written, or at which the work began.
    shown_at: Instant,
    /// Number of characters of the line on the terminal.
    line_length: usize,
}

impl Progress<Stderr> {
    /// Creates the progress of a piece of work, shown on the standard error, so that it is not part of the
    /// command's output. Without a total it shows neither a bar nor the time that is left.
    #[must_use]
    pub fn on_stderr(work: &'static str, unit: Unit, total: Option<u64>) -> Self {
        let out = std::io::stderr();
        let is_terminal = out.is_terminal();
        Self::new(out, is_terminal, work, unit).of(total)
    }
}

impl<W: Write> Progress<W> {
    fn new(out: W, is_terminal: bool, work: &'static str, unit: Unit) -> Self {
        let began = Instant::now();
        let (total, from, shown_at, line_length) = (None, 0, began, 0);
        Self { out, is_terminal, work, unit, total, from, began, shown_at, line_length }
    }

    fn of(mut self, total: Option<u64>) -> Self {
        self.total = total;
        self
    }

    /// Sets the amount that was done before this run. The rate is that of this run.
    #[must_use]
    pub fn beginning_at(mut self, from: u64) -> Self {
        self.from = from;
        self
    }

    /// Shows the progress, followed by a note, unless it was shown a moment ago.
    pub fn show(&mut self, done: u64, note: impl FnOnce() -> String) {
        self.show_at(done, note, Instant::now());
    }

    fn show_at(&mut self, done: u64, note: impl FnOnce() -> String, now: Instant) {
        let interval = if self.is_terminal { TERMINAL_INTERVAL } else { FILE_INTERVAL };
        if now.duration_since(self.shown_at) < interval {
            return;
        }
        self.shown_at = now;
        let line = self.line(done, &note(), now.duration_since(self.began));
        // A failed write has no consequences.
        let _ = if self.is_terminal {
            let width = self.line_length;
            self.line_length = line.chars().count();
            write!(self.out, "\r{line:<width$}").and_then(|()| self.out.flush())
        } else {
            writeln!(self.out, "{line}")
        };
    }

    fn line(&self, done: u64, note: &str, elapsed: Duration) -> String {
        let secs = elapsed.as_secs_f64().max(RATE_SECS_MIN);
        let per_sec = done.saturating_sub(self.from) as f64 / secs;
        let (work, rate) = (self.work, self.unit.rate(per_sec));
        let mut line = match self.total {
            Some(total) => {
                let percent = u128::from(done.min(total)) * 100 / u128::from(total.max(1));
                let left = match total.saturating_sub(done) as f64 / per_sec {
                    left if left.is_finite() => format!("{} left", duration(left)),
                    _ => "time left unknown".to_owned(),
                };
                let bar = match self.is_terminal {
                    true => format!("{} ", bar(WorkAmount { done, total })),
                    false => String::new(),
                };
                let (amount, all) = (self.unit.amount(done), self.unit.amount(total));
                format!("{work} {bar}{percent:3} %  {amount} of {all}  {rate}  {left}")
            }
            None => {
                let (amount, elapsed) = (self.unit.amount(done), duration(secs));
                format!("{work} {amount}  {rate}  for {elapsed}")
            }
        };
        if !note.is_empty() {
            line.push_str("  ");
            line.push_str(note);
        }
        line
    }

    /// Removes the line from the terminal, before other output is written.
    pub fn clear(&mut self) {
        let width = std::mem::take(&mut self.line_length);
        if width > 0 {
            let _ = write!(self.out, "\r{:width$}\r", "").and_then(|()| self.out.flush());
        }
    }
}

impl<W: Write> Drop for Progress<W> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_terminal: bool, total: Option<u64>) -> String {
        let mut out = Vec::new();
        let mut progress =
            Progress::new(&mut out, is_terminal, "copying", Unit::Items("keys")).of(total);
        let began = progress.began;
        for tenth in 0..=210 {
            progress.show_at(tenth * 100, String::new, began + Duration::from_millis(tenth * 100));
        }
        progress.clear();
        drop(progress);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_file_gets_a_plain_line_now_and_then() {
        assert_eq!(
            shown(false, Some(40_000)),
            "copying  25 %  10 000 keys of 40 000 keys  1 000/s  30 s left\n\
             copying  50 %  20 000 keys of 40 000 keys  1 000/s  20 s left\n"
        );
        assert!(shown(false, None).starts_with("copying 10 000 keys  1 000/s  for 10 s\n"));
    }

    #[test]
    fn a_terminal_has_one_line_that_changes_and_goes() {
        let shown = shown(true, Some(40_000));
        assert!(!shown.contains('\n'), "{shown:?}");
        assert!(
            shown.contains("\rcopying [############............]  50 %  20 000 keys"),
            "{shown:?}"
        );
        assert!(shown.ends_with(" \r"), "{shown:?}");
    }

    #[test]
    fn what_ends_within_a_second_shows_nothing_in_a_file() {
        let mut out = Vec::new();
        let mut progress = Progress::new(&mut out, false, "copying", Unit::Bytes);
        progress.show_at(1, String::new, progress.began + Duration::from_millis(900));
        drop(progress);
        assert!(out.is_empty());
    }

    #[test]
    fn the_rate_is_that_of_this_run_and_a_note_stands_behind() {
        let progress = Progress::new(Vec::new(), false, "importing", Unit::Bytes)
            .of(Some(1_000 << 20))
            .beginning_at(500 << 20);
        let line = progress.line(600 << 20, "7 records", Duration::from_secs(10));
        let expected = "importing  60 %  600 MB of 1.0 GB  10.0 MB/s  40 s left  7 records";
        assert_eq!(line, expected);
        let stalled = progress.line(500 << 20, "", Duration::from_secs(10));
        assert!(stalled.ends_with("time left unknown"), "{stalled}");
    }
}
