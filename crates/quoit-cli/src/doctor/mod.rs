//! `quoit doctor`: what of a machine would hurt a node, each with the remedy.

mod machine;
mod place;

use crate::format::Format;
use crate::say;
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Verdict of a check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// Fine.
    Good,
    /// It can't be found out.
    Unknown,
    /// A node starts, and fares worse.
    Warning,
    /// A node does not start, or is in danger.
    Bad,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Unknown => "?",
            Self::Warning => "warn",
            Self::Bad => "BAD",
        }
    }
}

/// Result of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// The thing that was looked at.
    pub subject: &'static str,
    /// Verdict.
    pub verdict: Verdict,
    /// Its state, as it was found.
    pub found: String,
    /// The remedy; empty if none is needed.
    pub remedy: String,
}

impl Check {
    fn good(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Good, found: found.into(), remedy: String::new() }
    }

    fn unknown(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Unknown, found: found.into(), remedy: String::new() }
    }

    fn warning(subject: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Warning, found: found.into(), remedy: remedy.into() }
    }

    fn bad(subject: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Bad, found: found.into(), remedy: remedy.into() }
    }
}

/// Needs of a node that the machine has to meet.
#[derive(Clone, Debug)]
pub struct Needs {
    /// Its data directory, which need not exist yet.
    pub data_dir: PathBuf,
    /// Addresses that it listens on, with the keys of their settings.
    pub listeners: Vec<(String, String)>,
    /// Connections of clients that it is to serve at once.
    pub connection_count_max: u64,
}

/// Looks at the machine.
#[must_use]
pub fn examine(needs: &Needs) -> Vec<Check> {
    let mut checks = vec![
        machine::open_files(needs.connection_count_max),
        machine::clock(),
        machine::swap(),
        machine::memory(),
        machine::user(),
    ];
    checks.extend(place::directory(&needs.data_dir));
    checks.extend(
        needs.listeners.iter().map(|(key, address)| place::listener(key, address, &needs.data_dir)),
    );
    checks
}

/// Prints what was found.
///
/// # Errors
///
/// When something is bad.
pub fn report(checks: &[Check], format: Format) -> Result<()> {
    match format {
        Format::Json => {
            let shown = checks.iter().map(|check| {
                json!({"subject": check.subject, "verdict": check.verdict.word().to_lowercase(),
                       "found": check.found, "remedy": check.remedy})
            });
            say!("{}", json!({"checks": shown.collect::<Vec<Value>>()}));
        }
        Format::Human => say!("{}", lines(checks)),
    }
    let bad = checks.iter().filter(|check| check.verdict == Verdict::Bad).count();
    if bad > 0 {
        bail!(
            "{bad} of {} checks are bad: a node would not start here, or lose data",
            checks.len()
        );
    }
    Ok(())
}

/// The checks as text, a line each, remedies below.
#[must_use]
pub fn lines(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.subject.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Check { subject, verdict, found, remedy } in checks {
        text.push_str(&format!("{:4}  {subject:width$}  {found}\n", verdict.word()));
        if !remedy.is_empty() {
            text.push_str(&format!("      {:width$}  -> {remedy}\n", ""));
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_stands_below_what_it_is_for() {
        let checks = [Check::good("clock", "in step"), Check::bad("disk", "full", "make room")];
        assert_eq!(
            lines(&checks),
            "ok    clock  in step\nBAD   disk   full\n             -> make room"
        );
        assert!(report(&checks, Format::Human).is_err());
        assert!(report(&checks[..1], Format::Json).is_ok());
    }
}
