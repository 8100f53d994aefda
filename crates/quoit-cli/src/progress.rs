//! How far something has come, for somebody who waits.

use std::io::{IsTerminal, Stderr, Write};
use std::time::{Duration, Instant};

/// How often the line on a terminal is written anew.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(500);
/// How often a line is written where nobody looks at it as it comes.
const FILE_INTERVAL: Duration = Duration::from_secs(10);

/// Shows progress: one line that changes on a terminal, else a line now and then.
pub struct Progress<W> {
    out: W,
    is_terminal: bool,
    /// When the last line was written, or the work began.
    shown_at: Instant,
    /// Characters of the line that stands on the terminal.
    standing: usize,
}

impl Progress<Stderr> {
    /// On the standard error, which is not the output of the command.
    pub fn on_stderr() -> Self {
        let out = std::io::stderr();
        let is_terminal = out.is_terminal();
        Self::new(out, is_terminal)
    }
}

impl<W: Write> Progress<W> {
    fn new(out: W, is_terminal: bool) -> Self {
        Self { out, is_terminal, shown_at: Instant::now(), standing: 0 }
    }

    /// Shows how far it is, unless that was shown a moment ago.
    pub fn show(&mut self, line: &str) {
        self.show_at(line, Instant::now());
    }

    fn show_at(&mut self, line: &str, now: Instant) {
        let interval = if self.is_terminal { TERMINAL_INTERVAL } else { FILE_INTERVAL };
        if now.duration_since(self.shown_at) < interval {
            return;
        }
        self.shown_at = now;
        // Nothing depends on whether somebody reads it.
        let _ = if self.is_terminal {
            let width = self.standing;
            self.standing = line.chars().count();
            write!(self.out, "\r{line:<width$}").and_then(|()| self.out.flush())
        } else {
            writeln!(self.out, "{line}")
        };
    }

    /// Takes the line off the terminal, before something else is written.
    pub fn clear(&mut self) {
        let width = std::mem::take(&mut self.standing);
        if width > 0 {
            let _ = write!(self.out, "\r{:width$}\r", "").and_then(|()| self.out.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_terminal: bool) -> String {
        let mut out = Vec::new();
        let mut progress = Progress::new(&mut out, is_terminal);
        let began = progress.shown_at;
        for tenth in 0..=210 {
            progress
                .show_at(&format!("{} s", tenth / 10), began + Duration::from_millis(tenth * 100));
        }
        progress.clear();
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_file_gets_a_line_now_and_then() {
        assert_eq!(shown(false), "10 s\n20 s\n");
    }

    #[test]
    fn a_terminal_has_one_line_that_changes_and_goes() {
        let shown = shown(true);
        assert!(shown.contains("\r0 s\r1 s") && !shown.contains('\n'), "{shown:?}");
        assert!(shown.ends_with("\r21 s\r    \r"), "{shown:?}");
    }
}
