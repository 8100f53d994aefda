//! Events of a run: commands that run at given times, and marks in the plots.

use super::error::ConfigError;
use super::pacing::time_of;
use super::settings::Settings;
use crate::term::Term;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of an event's name, in characters: longer names do not fit into plots.
const NAME_CHARS_MAX: usize = 40;

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEvent {
    /// Time since the start of the measurement.
    pub at: Duration,
    /// A word for people, such as `kill`.
    pub name: String,
    /// Its effect.
    pub action: EventAction,
}

/// Effect of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventAction {
    /// No effect: a mark in the plots.
    Mark,
    /// Runs a shell command.
    Command(String),
    /// Calls a function of the program that runs the benchmark.
    Call(EventCall),
}

/// A function that an event calls on a thread of its own. If the run ends first, it does not wait for the
/// function.
#[derive(Clone)]
pub struct EventCall(Arc<dyn Fn() -> Result<(), String> + Send + Sync>);

impl EventCall {
    /// Wraps a function to be called at the time of the event. Its error says why it did nothing.
    pub fn new(call: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    pub(crate) fn call(&self) -> Result<(), String> {
        (self.0)()
    }
}

impl Debug for EventCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("EventCall")
    }
}

/// An `EventCall` equals its clones and nothing else.
impl PartialEq for EventCall {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for EventCall {}

/// Reads `events`.
///
/// # Errors
///
/// When the value is not a list of events.
pub(super) fn read_events(settings: &Settings) -> Result<Vec<RunEvent>, ConfigError> {
    let wanted = "write a list of {\"30s\", name, \"command\"}, or {\"30s\", name} for a mark; a name has at \
                  most 40 characters and no comma";
    settings
        .read("events", Vec::new(), wanted, |term| term.as_list()?.iter().map(read_event).collect())
}

fn read_event(term: &Term) -> Option<RunEvent> {
    let (at, name, action) = match term.as_tuple()? {
        [at, name] => (at, name, EventAction::Mark),
        [at, name, command] => {
            let command = command.as_text().filter(|text| !text.is_empty())?;
            (at, name, EventAction::Command(command))
        }
        _ => return None,
    };
    Some(RunEvent { at: time_of(at)?, name: event_name(name)?, action })
}

/// Reads the name of an event: an atom or a text that fits into plots and tables.
pub(crate) fn event_name(term: &Term) -> Option<String> {
    let name = term.as_atom().map(str::to_owned).or_else(|| term.as_text())?;
    let is_short = (1..=NAME_CHARS_MAX).contains(&name.chars().count());
    let is_plain = is_short && !name.chars().any(|c| c == ',' || c.is_control());
    is_plain.then_some(name)
}
