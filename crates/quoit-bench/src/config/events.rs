//! Events of a run: commands at times of their own, and marks where a phase begins.

use super::error::ConfigError;
use super::pacing::time_of;
use super::settings::Settings;
use crate::term::Term;
use std::time::Duration;

/// Longest name of an event, in characters: it stands in pictures.
const NAME_CHARS_MAX: usize = 40;

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEvent {
    /// Time from the start of what is measured.
    pub at: Duration,
    /// A word for people, such as `kill`.
    pub name: String,
    /// Run by the shell; a mark has none.
    pub command: Option<String>,
}

/// Reads `events`.
///
/// # Errors
///
/// When the value is no list of events.
pub(super) fn read_events(settings: &Settings) -> Result<Vec<RunEvent>, ConfigError> {
    let wanted = "write a list of {\"30s\", name, \"command\"}, or {\"30s\", name} for a mark; a name has at \
                  most 40 characters and no comma";
    settings
        .read("events", Vec::new(), wanted, |term| term.as_list()?.iter().map(read_event).collect())
}

fn read_event(term: &Term) -> Option<RunEvent> {
    let (at, name, command) = match term.as_tuple()? {
        [at, name] => (at, name, None),
        [at, name, command] => (at, name, Some(command.as_text().filter(|text| !text.is_empty())?)),
        _ => return None,
    };
    let name = name.as_atom().map(str::to_owned).or_else(|| name.as_text())?;
    let is_short = (1..=NAME_CHARS_MAX).contains(&name.chars().count());
    let is_plain = is_short && !name.chars().any(|c| c == ',' || c.is_control());
    is_plain.then_some(RunEvent { at: time_of(at)?, name, command })
}
