//! Events of a run, as its results have them.

use super::ReportError;
use super::csv::CsvLines;
use crate::run::EVENTS_FILE;
use std::path::Path;

/// An event that took place.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    /// Time of the event, in seconds since the start of the measurement.
    pub elapsed_s: f64,
    /// Name of the event.
    pub name: String,
    /// Duration of its command, in seconds.
    pub seconds: f64,
    /// Outcome of its command.
    pub outcome: String,
}

/// Reads the events of a run in ascending order of time; empty for a run without events.
///
/// # Errors
///
/// When a line is not an event.
pub(super) fn read_events(
    directory: &Path,
    notes: &mut Vec<String>,
) -> Result<Vec<EventRow>, ReportError> {
    let path = directory.join(EVENTS_FILE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut events = Vec::new();
    for (line, text) in CsvLines::read(&path)?.whole(notes).into_iter().skip(1) {
        let parsed = || {
            let mut cells = text.splitn(4, ", ");
            let elapsed_s = cells.next()?.parse().ok()?;
            let (name, seconds) = (cells.next()?.to_owned(), cells.next()?.parse().ok()?);
            Some(EventRow { elapsed_s, name, seconds, outcome: cells.next()?.to_owned() })
        };
        let problem =
            || format!("found {text:?} where elapsed, event, seconds, outcome was expected");
        let event = parsed();
        events.push(event.ok_or_else(|| ReportError::Line {
            path: path.clone(),
            line,
            problem: problem(),
        })?);
    }
    events.sort_by(|a, b| a.elapsed_s.total_cmp(&b.elapsed_s));
    Ok(events)
}
