//! The terminal, view or stream on which a run shows its progress.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::Duration;

use super::live::{Live, LiveRow};
use super::text;
use super::viewed::ViewedSecond;
use crate::view::{Screen, ServerBoard, ViewError, ViewPhase, ViewState};

/// An output for lines and, on a real terminal, one progress line that is overwritten.
pub struct Terminal {
    writer: Box<dyn Write + Send>,
    rewrites: bool,
    has_progress: bool,
    /// Number of columns before a line wraps; `None` to ask the terminal on standard output each time.
    columns: Option<usize>,
    live: Live,
    view: View,
    /// Figures of the watched servers.
    servers: ServerBoard,
}

/// State of the full-screen view.
enum View {
    /// No view is wanted, or it is closed.
    Off,
    /// The view opens when the run begins, with this title.
    Wanted(String),
    /// The view is open. Its lines are printed again when it closes, because the alternate screen
    /// disappears with it.
    Open { screen: Screen, lines: VecDeque<String> },
}

/// Maximum number of lines that are printed when the view closes; the last ones are kept.
const VIEWED_LINES_MAX: usize = 10_000;

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal").field("rewrites", &self.rewrites).finish_non_exhaustive()
    }
}

impl Terminal {
    /// Writes to standard output.
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
            view: View::Off,
            servers: ServerBoard::default(),
        }
    }

    /// Writes to `writer`. With `rewrites`, the progress line is overwritten with terminal codes.
    pub fn to(writer: Box<dyn Write + Send>, rewrites: bool) -> Self {
        let (columns, live) = (Some(usize::MAX), Live::default());
        let (view, servers) = (View::Off, ServerBoard::default());
        Self { writer, rewrites, has_progress: false, columns, live, view, servers }
    }

    /// Shows runs on the full screen.
    ///
    /// # Errors
    ///
    /// When standard output or standard input is not a terminal.
    pub fn with_view(self) -> Result<Self, ViewError> {
        Screen::check()?;
        Ok(Self { view: View::Wanted(String::new()), ..self })
    }

    /// Sets the title of the view.
    pub(crate) fn set_title(&mut self, title: String) {
        match &mut self.view {
            View::Off => {}
            View::Wanted(wanted) => *wanted = title,
            View::Open { screen, .. } => screen.update(|state| state.title = title),
        }
    }

    /// The board on which figures of servers are posted for the view.
    pub(crate) fn servers(&self) -> &ServerBoard {
        &self.servers
    }

    /// Shows that a run of this planned length enters a phase. The first phase opens the view, whose quit
    /// keys call `quit`.
    pub(crate) fn enter_phase(&mut self, phase: ViewPhase, length: Option<Duration>, quit: fn()) {
        if let View::Wanted(title) = &mut self.view {
            match Screen::open(ViewState::new(std::mem::take(title)), quit) {
                Ok(screen) => self.view = View::Open { screen, lines: VecDeque::new() },
                Err(error) => {
                    self.view = View::Off;
                    self.line(&format!("warning: {error}"));
                }
            }
        }
        if let View::Open { screen, .. } = &self.view {
            screen.update(|state| (state.phase, state.length) = (phase, length));
        }
    }

    /// Shows a second in the view. Returns false if no view is open.
    pub(crate) fn view(&self, second: &ViewedSecond<'_>) -> bool {
        let View::Open { screen, .. } = &self.view else { return false };
        let second = second.view(self.servers.lines());
        screen.update(|state| state.take(second));
        true
    }

    /// Closes the view, if it is open, and prints the lines that it has shown.
    pub(crate) fn close_view(&mut self) {
        if let View::Open { screen, lines } = std::mem::replace(&mut self.view, View::Off) {
            drop(screen);
            lines.iter().for_each(|line| self.line(line));
        }
    }

    /// Also writes each row of a run to `rows`, as a line of JSON.
    #[must_use]
    pub fn with_rows(mut self, rows: Box<dyn Write + Send>) -> Self {
        self.live.rows = Some(rows);
        self
    }

    /// Also writes each row of a run to an OpenMetrics file, which the next row replaces.
    #[must_use]
    pub fn with_metrics(mut self, file: Option<PathBuf>) -> Self {
        self.live.metrics = file;
        self
    }

    /// Passes a row to other programs.
    ///
    /// # Errors
    ///
    /// When the OpenMetrics file cannot be written.
    pub(crate) fn row(&mut self, row: &LiveRow<'_>) -> io::Result<()> {
        self.live.tell(row)
    }

    /// Sets the width of the terminal instead of asking it.
    pub fn with_columns(self, columns: usize) -> Self {
        Self { columns: Some(columns), ..self }
    }

    /// Number of columns that the progress line may take.
    pub(crate) fn columns(&self) -> usize {
        match (self.rewrites, self.columns) {
            (false, _) => usize::MAX,
            // Leave the last column free: some terminals wrap when it is written.
            (true, columns) => columns.unwrap_or_else(stdout_columns).saturating_sub(1),
        }
    }

    /// True if the progress line is overwritten instead of repeated.
    pub(crate) fn rewrites(&self) -> bool {
        self.rewrites
    }

    /// Prints a line. A closed terminal does not stop the run.
    pub(crate) fn line(&mut self, text: &str) {
        if let View::Open { screen, lines } = &mut self.view {
            if lines.len() == VIEWED_LINES_MAX {
                lines.pop_front();
            }
            lines.push_back(text.to_owned());
            screen.update(|state| state.tell(&printable(text)));
            return;
        }
        let erase = if self.has_progress { "\r\x1b[K" } else { "" };
        self.has_progress = false;
        let _ = writeln!(self.writer, "{erase}{}", printable(text));
        let _ = self.writer.flush();
    }

    /// Prints an important line, in red if the terminal has colours.
    pub(crate) fn alarm(&mut self, text: &str) {
        match self.rewrites && !matches!(self.view, View::Open { .. }) {
            true => self.line(&format!("\x1b[31m{text}\x1b[0m")),
            false => self.line(text),
        }
    }

    /// Shows the progress line, over the last one if possible.
    pub(crate) fn progress(&mut self, text: &str) {
        if matches!(self.view, View::Open { .. }) {
            return;
        }
        if !self.rewrites {
            self.line(text);
            return;
        }
        self.has_progress = true;
        // A line that wraps could not be overwritten.
        let text = printable(text);
        let shown = text::cut(&text, self.columns());
        let _ = write!(self.writer, "\r\x1b[K{shown}");
        let _ = self.writer.flush();
    }
}

/// Width of the terminal on standard output; unlimited if standard output is not a terminal.
fn stdout_columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(usize::MAX)
}

/// Replaces control characters, because texts contain names from configurations that could control the
/// terminal.
fn printable(text: &str) -> Cow<'_, str> {
    let steers = |character: char| character.is_control() && character != '\n';
    if text.contains(steers) {
        Cow::Owned(text.replace(steers, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}
