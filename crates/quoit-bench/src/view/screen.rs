//! The terminal of the view: taking it over, drawing on it, and restoring it.

use std::io::{self, IsTerminal as _, Stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use thiserror::Error;

use super::{ViewState, draw};

/// Interval at which the key thread checks if the view is closed.
const KEY_PERIOD: Duration = Duration::from_millis(100);

/// The thread that opened the view, while it is open. A panic of this thread closes the view.
static OPENED_BY: Mutex<Option<ThreadId>> = Mutex::new(None);

/// Reasons why the view can't be shown.
#[derive(Debug, Error)]
pub enum ViewError {
    /// Standard output or standard input is not a terminal.
    #[error(
        "--view needs a terminal, and the standard {0} is not a terminal: take --view out, or use \
         --format json for programs"
    )]
    NoTerminal(&'static str),
    /// An error of the terminal.
    #[error("the terminal cannot show the view: {0}")]
    Terminal(#[from] io::Error),
}

/// An open view. Dropping it restores the terminal.
pub(crate) struct Screen {
    shared: Arc<ScreenState>,
    keys: Option<JoinHandle<()>>,
}

struct ScreenState {
    drawn: Mutex<Drawn>,
    is_closed: AtomicBool,
}

struct Drawn {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    state: ViewState,
}

impl Screen {
    /// Checks that there is a terminal to take over.
    ///
    /// # Errors
    ///
    /// When standard output or standard input is not a terminal.
    pub(crate) fn check() -> Result<(), ViewError> {
        if !io::stdout().is_terminal() {
            return Err(ViewError::NoTerminal("output"));
        }
        if !io::stdin().is_terminal() {
            return Err(ViewError::NoTerminal("input"));
        }
        Ok(())
    }

    /// Takes the terminal over. `quit` is called when the user wants the run to end.
    ///
    /// # Errors
    ///
    /// When there is no terminal, or the terminal reports an error.
    pub(crate) fn open(
        state: ViewState,
        quit: impl Fn() + Send + 'static,
    ) -> Result<Self, ViewError> {
        Self::check()?;
        close_at_panic();
        *OPENED_BY.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current().id());
        let opened = take_over().and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        let terminal = opened.inspect_err(|_| give_back())?;
        let drawn = Mutex::new(Drawn { terminal, state });
        let shared = Arc::new(ScreenState { drawn, is_closed: AtomicBool::new(false) });
        let of_keys = Arc::clone(&shared);
        let keys = thread::Builder::new()
            .name("view".to_owned())
            .spawn(move || of_keys.take_keys(&quit))
            .inspect_err(|_| give_back())?;
        let screen = Self { shared, keys: Some(keys) };
        screen.update(|_| ());
        Ok(screen)
    }

    /// Changes the state and draws it. A closed terminal does not stop the run.
    pub(crate) fn update(&self, change: impl FnOnce(&mut ViewState)) {
        let mut drawn = self.shared.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut drawn.state);
        drawn.draw();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        if let Some(keys) = self.keys.take() {
            // A panic of that thread has already been reported.
            let _ = keys.join();
        }
        give_back();
    }
}

impl Drawn {
    fn draw(&mut self) {
        let Self { terminal, state } = self;
        let _ = terminal.draw(|frame| draw(frame, state));
    }
}

impl ScreenState {
    /// Handles keys and changes of the size until the view is closed.
    fn take_keys(&self, quit: &impl Fn()) {
        while !self.is_closed.load(Ordering::Relaxed) {
            match event::poll(KEY_PERIOD)
                .and_then(|is_there| is_there.then(event::read).transpose())
            {
                Ok(Some(Event::Key(key))) if is_quit(key) => quit(),
                Ok(Some(Event::Resize(..))) => {
                    self.drawn.lock().unwrap_or_else(PoisonError::into_inner).draw();
                }
                Ok(_) => {}
                // Without a terminal there are no more keys.
                Err(_) => return,
            }
        }
    }
}

/// True if a key ends the run: q, Escape or Ctrl-C, which is not a signal in raw mode.
pub(super) fn is_quit(key: KeyEvent) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && match key.code {
            KeyCode::Char('q') | KeyCode::Esc => !is_control,
            KeyCode::Char('c') => is_control,
            _ => false,
        }
}

fn take_over() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)
}

/// Restores the terminal. Errors are ignored, because a closed terminal needs no restoring.
fn give_back() {
    let was_open = OPENED_BY.lock().unwrap_or_else(PoisonError::into_inner).take().is_some();
    if was_open {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, ratatui::crossterm::cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// Installs a panic hook. If the thread of the view panics, the hook restores the terminal before it
/// reports the panic. While the view is open, panics of other threads are not printed, because they would
/// overwrite it; those of workers are in crash.log.
fn close_at_panic() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let told = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let opened_by = *OPENED_BY.lock().unwrap_or_else(PoisonError::into_inner);
            match opened_by {
                Some(thread) if thread != thread::current().id() => {}
                Some(_) => {
                    give_back();
                    told(panic);
                }
                None => told(panic),
            }
        }));
    });
}
