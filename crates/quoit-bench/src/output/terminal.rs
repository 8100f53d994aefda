//! Where a run shows itself.

use std::io::{IsTerminal as _, Write};

/// A place for lines and, on a real terminal, one line that is written over.
pub struct Terminal {
    writer: Box<dyn Write + Send>,
    rewrites: bool,
    has_progress: bool,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal").field("rewrites", &self.rewrites).finish_non_exhaustive()
    }
}

impl Terminal {
    /// The standard output.
    pub fn stdout() -> Self {
        let stdout = std::io::stdout();
        let rewrites = stdout.is_terminal();
        Self { writer: Box::new(stdout), rewrites, has_progress: false }
    }

    /// Any writer; with `rewrites` the progress line is written over with terminal codes.
    pub fn to(writer: Box<dyn Write + Send>, rewrites: bool) -> Self {
        Self { writer, rewrites, has_progress: false }
    }

    /// True when the progress line is written over rather than repeated.
    pub(crate) fn rewrites(&self) -> bool {
        self.rewrites
    }

    /// Writes a line. A terminal that is gone does not stop a run.
    pub(crate) fn line(&mut self, text: &str) {
        let erase = if self.has_progress { "\r\x1b[K" } else { "" };
        self.has_progress = false;
        let _ = writeln!(self.writer, "{erase}{text}");
        let _ = self.writer.flush();
    }

    /// Shows the progress line: over the last one where that is possible.
    pub(crate) fn progress(&mut self, text: &str) {
        if !self.rewrites {
            self.line(text);
            return;
        }
        self.has_progress = true;
        // A line that wraps could not be written over.
        let shown: String = text.chars().take(columns().saturating_sub(1)).collect();
        let _ = write!(self.writer, "\r\x1b[K{shown}");
        let _ = self.writer.flush();
    }
}

/// Width of the terminal on the standard output; no limit when it is none.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(usize::MAX)
}
