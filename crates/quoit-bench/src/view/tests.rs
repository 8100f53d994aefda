use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::screen::is_quit;
use super::{OperationLine, ServerLine, Spectrum, ViewPhase, ViewSecond, ViewState, draw};

/// The screen for a state, without trailing spaces.
fn screen(state: &ViewState, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    terminal.draw(|frame| draw(frame, state)).expect("it is drawn");
    let buffer = terminal.backend().buffer();
    let line = |y: u16| -> String {
        (0..width).map(|x| buffer.cell((x, y)).expect("a cell").symbol()).collect()
    };
    let lines: Vec<String> = (0..height).map(|y| line(y).trim_end().to_owned()).collect();
    lines.join("\n")
}

fn operation(name: &str, rate_per_s: f64, error_count: u64) -> OperationLine {
    let latencies_us = Some([480, 1200, 5250, 12_300, 251_000]);
    OperationLine { name: name.to_owned(), rate_per_s, error_count, latencies_us }
}

fn second(elapsed_s: u64) -> ViewSecond {
    let mut spectrum = Spectrum::default();
    for (us, count) in [(500, 900), (1100, 80), (5000, 15), (250_000, 5)] {
        spectrum.add(Duration::from_micros(us), count);
    }
    let figure = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    ViewSecond {
        elapsed: Duration::from_secs(elapsed_s),
        operations: vec![operation("get", 800.0 + elapsed_s as f64, 0), operation("put", 200.0, 3)],
        spectrum,
        errors: vec![("put: timeout".to_owned(), 3)],
        servers: vec![ServerLine {
            server: "127.0.0.1:8098".to_owned(),
            figures: vec![figure("CPU", "0.75"), figure("memory", "120 MB")],
        }],
        replayed: None,
    }
}

fn running() -> ViewState {
    let mut state = ViewState::new("riakc_pb: 20 workers, as fast as they can".to_owned());
    state.phase = ViewPhase::Measuring;
    state.length = Some(Duration::from_secs(60));
    state.tell("Results in tests/20260101_120000\nnotice: the first line");
    (1..=12).for_each(|elapsed_s| state.take(second(elapsed_s)));
    state
}

#[test]
fn a_running_load_is_shown_with_all_that_is_known_of_it() {
    check_screen("running", &screen(&running(), 110, 34));
}

#[test]
fn a_run_that_has_not_begun_and_has_no_end_is_shown_too() {
    check_screen("connecting", &screen(&ViewState::new("null: 3 workers".to_owned()), 80, 24));
}

#[test]
fn a_small_terminal_is_filled_as_far_as_it_goes() {
    let state = running();
    for (width, height) in [(1, 1), (20, 5), (40, 10), (300, 100)] {
        let shown = screen(&state, width, height);
        assert_eq!(shown.lines().count(), usize::from(height), "{width} x {height}");
    }
}

#[test]
fn the_progress_is_that_of_the_length_or_else_of_the_trace() {
    let mut state = running();
    assert_eq!(state.progress(), Some(0.2));
    state.length = None;
    assert_eq!(state.progress(), None);
    state.take(ViewSecond { replayed: Some(0.25), ..second(13) });
    assert_eq!(state.progress(), Some(0.25));
    state.take(second(1000));
    state.length = Some(Duration::from_secs(60));
    assert_eq!(state.progress(), Some(1.0), "the last operations may take longer");
}

#[test]
fn the_history_is_bounded() {
    let mut state = ViewState::default();
    (0..2000).for_each(|elapsed_s| state.take(second(elapsed_s)));
    (0..2000).for_each(|number| state.tell(&number.to_string()));
    assert_eq!(
        (state.rates_per_s.len(), state.spectra.len(), state.messages.len()),
        (600, 600, 100)
    );
    assert_eq!(state.rates_per_s.back(), Some(&2999));
    assert_eq!(state.messages.back().map(String::as_str), Some("1999"));
}

#[test]
fn keys_that_end_the_run_are_q_escape_and_control_c() {
    let key = |code, modifiers| is_quit(KeyEvent::new(code, modifiers));
    assert!(key(KeyCode::Char('q'), KeyModifiers::NONE) && key(KeyCode::Esc, KeyModifiers::NONE));
    assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE));
    assert!(!key(KeyCode::Char('x'), KeyModifiers::NONE));
}

/// Compares a screen with the stored one. `TEST_WRITE_SCREENS=1` rewrites the stored one.
fn check_screen(name: &str, shown: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/view/screens")
        .join(format!("{name}.txt"));
    let shown = format!("{shown}\n");
    if std::env::var_os("TEST_WRITE_SCREENS").is_some() {
        std::fs::write(&path, &shown).expect("the screen is kept");
    }
    let kept = std::fs::read_to_string(&path).expect("a screen that is kept");
    assert_eq!(shown, kept, "TEST_WRITE_SCREENS=1 keeps the new one");
}
