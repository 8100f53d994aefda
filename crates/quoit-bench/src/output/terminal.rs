//! Where a run shows itself.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;

use super::live::{Live, LiveRow};
use super::text;

/// A place for lines and, on a real terminal, one line that is written over.
pub struct Terminal {
    writer: Box<dyn Write + Send>,
    rewrites: bool,
    has_progress: bool,
    /// Columns of a line that does not wrap; nothing to ask the standard output each time.
    columns: Option<usize>,
    live: Live,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal").field("rewrites", &self.rewrites).finish_non_exhaustive()
    }
}

impl Terminal {
    /// The standard output.
    pub fn stdout() -> Self {
        let stdout = io::stdout();
        let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        let rewrites = stdout.is_terminal() && !is_dumb;
        Self {
            writer: Box::new(stdout),
            rewrites,
            has_progress: false,
            columns: None,
            live: Live::default(),
        }
    }

    /// Any writer; with `rewrites` the progress line is written over with terminal codes.
    pub fn to(writer: Box<dyn Write + Send>, rewrites: bool) -> Self {
        let (columns, live) = (Some(usize::MAX), Live::default());
        Self { writer, rewrites, has_progress: false, columns, live }
    }

    /// Lets each row of a run be told as a line of JSON, too.
    #[must_use]
    pub fn with_rows(mut self, rows: Box<dyn Write + Send>) -> Self {
        self.live.rows = Some(rows);
        self
    }

    /// Lets each row of a run replace a file in the format of OpenMetrics.
    #[must_use]
    pub fn with_metrics(mut self, file: Option<PathBuf>) -> Self {
        self.live.metrics = file;
        self
    }

    /// Tells other programs a row.
    ///
    /// # Errors
    ///
    /// When the file of OpenMetrics cannot be written.
    pub(crate) fn row(&mut self, row: &LiveRow<'_>) -> io::Result<()> {
        self.live.tell(row)
    }

    /// Says how wide the terminal is, instead of asking it.
    pub fn with_columns(self, columns: usize) -> Self {
        Self { columns: Some(columns), ..self }
    }

    /// Columns that the progress line may take.
    pub(crate) fn columns(&self) -> usize {
        match (self.rewrites, self.columns) {
            (false, _) => usize::MAX,
            // The last column is left free: some terminals wrap when it is written.
            (true, columns) => columns.unwrap_or_else(stdout_columns).saturating_sub(1),
        }
    }

    /// True when the progress line is written over rather than repeated.
    pub(crate) fn rewrites(&self) -> bool {
        self.rewrites
    }

    /// Writes a line. A terminal that is gone does not stop a run.
    pub(crate) fn line(&mut self, text: &str) {
        let erase = if self.has_progress { "\r\x1b[K" } else { "" };
        self.has_progress = false;
        let _ = writeln!(self.writer, "{erase}{}", printable(text));
        let _ = self.writer.flush();
    }

    /// Writes an important line: in red where colours can be shown.
    pub(crate) fn alarm(&mut self, text: &str) {
        match self.rewrites {
            true => self.line(&format!("\x1b[31m{text}\x1b[0m")),
            false => self.line(text),
        }
    }

    /// Shows the progress line: over the last one where that is possible.
    pub(crate) fn progress(&mut self, text: &str) {
        if !self.rewrites {
            self.line(text);
            return;
        }
        self.has_progress = true;
        // A line that wraps could not be written over.
        let text = printable(text);
        let shown = text::cut(&text, self.columns());
        let _ = write!(self.writer, "\r\x1b[K{shown}");
        let _ = self.writer.flush();
    }
}

/// Width of the terminal on the standard output; no limit when it is none.
fn stdout_columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(usize::MAX)
}

/// A text that cannot steer the terminal: names come from configurations.
fn printable(text: &str) -> Cow<'_, str> {
    let steers = |character: char| character.is_control() && character != '\n';
    if text.contains(steers) {
        Cow::Owned(text.replace(steers, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}
