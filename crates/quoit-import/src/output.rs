//! Output: results on the standard output, progress on the standard error.

use std::fmt::Arguments;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often progress is shown where a person looks at it, and where it is written to a file.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(500);
const FILE_INTERVAL: Duration = Duration::from_secs(10);

/// Prints a line. That nobody reads it is no fault of the import.
pub(crate) fn line(text: Arguments<'_>) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Prints a line for the operator beside the result.
pub(crate) fn note(text: Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints a line as `println!` does, and does not panic when nobody reads it.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::output::line(format_args!($($words)*))
    };
}
pub(crate) use say;

/// How far a long command is: bytes done of all, with a bar, a rate and the time left.
pub(crate) struct Progress {
    began: Instant,
    shown: Instant,
    total_bytes: u64,
    /// Bytes that were done before this run.
    from_bytes: u64,
    is_terminal: bool,
}

impl Progress {
    pub(crate) fn new(total_bytes: u64, from_bytes: u64) -> Self {
        let now = Instant::now();
        let is_terminal = std::io::stderr().is_terminal();
        Self { began: now, shown: now, total_bytes, from_bytes, is_terminal }
    }

    /// Shows how far it is, unless that was shown a moment ago.
    pub(crate) fn show(&mut self, done_bytes: u64, record_count: u64) {
        let interval = if self.is_terminal { TERMINAL_INTERVAL } else { FILE_INTERVAL };
        if self.shown.elapsed() < interval {
            return;
        }
        self.shown = Instant::now();
        let line = self.line(done_bytes, record_count, self.began.elapsed());
        let (start, end) = if self.is_terminal { ("\r", "\x1b[K") } else { ("", "\n") };
        let mut out = std::io::stderr().lock();
        let _ = write!(out, "{start}{line}{end}").and_then(|()| out.flush());
    }

    /// Takes the line off a terminal.
    pub(crate) fn clear(&self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }

    fn line(&self, done_bytes: u64, record_count: u64, elapsed: Duration) -> String {
        const WIDTH: u64 = 24;
        let total = self.total_bytes.max(1);
        let done = done_bytes.min(total);
        let filled = (done * WIDTH / total) as usize;
        let bar: String =
            (0..WIDTH as usize).map(|at| if at < filled { '#' } else { '.' }).collect();
        let secs = elapsed.as_secs_f64().max(0.001);
        let rate = done.saturating_sub(self.from_bytes) as f64 / secs;
        let left = match rate > 0.0 {
            true => duration(((total - done) as f64 / rate) as u64),
            false => "unknown".to_owned(),
        };
        format!(
            "[{bar}] {:3}%  {record_count} records  {:.1} MB/s  {left} left",
            done * 100 / total,
            rate / 1e6,
        )
    }
}

fn duration(secs: u64) -> String {
    match (secs / 3600, secs / 60 % 60, secs % 60) {
        (0, 0, secs) => format!("{secs} s"),
        (0, minutes, secs) => format!("{minutes} min {secs} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Bytes of a name as text; what is no text is escaped.
pub(crate) fn shown(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => name.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_rate_of_this_run() {
        let progress = Progress::new(1_000_000_000, 500_000_000);
        let line = progress.line(600_000_000, 7, Duration::from_secs(10));
        assert!(line.contains(" 60%  7 records  10.0 MB/s  40 s left"), "{line}");
        assert_eq!(
            [duration(59), duration(61), duration(7260)],
            ["59 s", "1 min 1 s", "2 h 1 min"]
        );
    }
}
