//! `quoit doctor`: checks the machine for problems that would harm a node, and names a remedy for each.

mod data_dir;
mod machine;

use crate::format::Format;
use crate::remedy::Remedy;
use crate::say;
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Verdict of a check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// No problem.
    Good,
    /// The state could not be determined.
    Unknown,
    /// A node starts, but does not work as well as it could.
    Warning,
    /// A node does not start, or its data is in danger.
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
    /// Subject of the check.
    pub subject: &'static str,
    /// Verdict.
    pub verdict: Verdict,
    /// State that was found.
    pub found: String,
    /// The remedy; empty if no remedy is needed.
    pub remedy: String,
}

impl Check {
    fn good(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Good, found: found.into(), remedy: String::new() }
    }

    fn unknown(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Unknown, found: found.into(), remedy: String::new() }
    }

    fn warning(subject: &'static str, found: impl Into<String>, remedy: Remedy) -> Self {
        Self { subject, verdict: Verdict::Warning, found: found.into(), remedy: remedy.0 }
    }

    fn bad(subject: &'static str, found: impl Into<String>, remedy: Remedy) -> Self {
        Self { subject, verdict: Verdict::Bad, found: found.into(), remedy: remedy.0 }
    }
}

/// An address that a node listens on.
#[derive(Clone, Debug)]
pub struct ListenerAddress {
    /// The configuration key, or its first part if keys have a part for each address.
    pub key: &'static str,
    /// The address, as `HOST:PORT`.
    pub address: String,
}

/// Requirements of a node that the machine must meet.
#[derive(Clone, Debug)]
pub struct MachineRequirements {
    /// Data directory of the node, which need not exist yet.
    pub data_dir: PathBuf,
    /// Addresses that the node listens on.
    pub listeners: Vec<ListenerAddress>,
    /// Maximum number of concurrent client connections.
    pub connection_count_max: u64,
}

/// Runs all checks.
#[must_use]
pub fn examine(needs: &MachineRequirements) -> Vec<Check> {
    let mut checks = vec![
        machine::open_files(needs.connection_count_max),
        machine::clock(),
        machine::swap(),
        machine::memory(),
        machine::user(),
    ];
    checks.extend(data_dir::directory(&needs.data_dir));
    checks.extend(
        needs.listeners.iter().map(|listener| data_dir::listener(listener, &needs.data_dir)),
    );
    checks
}

/// Prints the results of the checks.
///
/// # Errors
///
/// A check has the verdict [`Verdict::Bad`].
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

/// Formats the checks as text: a line for each check, with the remedy on the next line.
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
        let checks =
            [Check::good("clock", "in step"), Check::bad("disk", "full", Remedy::of("make room"))];
        assert_eq!(
            lines(&checks),
            "ok    clock  in step\nBAD   disk   full\n             -> make room"
        );
        assert!(report(&checks, Format::Human).is_err());
        assert!(report(&checks[..1], Format::Json).is_ok());
    }
}
