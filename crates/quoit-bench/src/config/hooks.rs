//! Commands before and after a run.

use std::path::Path;
use std::process::Command;

use super::error::ConfigError;
use super::settings::Settings;
use crate::term::Term;

/// The environment variable that tells a hook the directory of the run's files.
pub(crate) const DIRECTORY_VARIABLE: &str = "QUOIT_BENCH_DIR";

/// Shell commands that run before the workers start and after they have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks {
    /// The command before the workers start (`pre_hook`).
    pub before: Option<String>,
    /// The command after the run (`post_hook`).
    pub after: Option<String>,
}

impl Hooks {
    /// Reads the commands. Erlang functions cannot be run; each gets a warning.
    pub(super) fn read(
        settings: &Settings,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ConfigError> {
        let mut command_of = |key: &str| {
            let expected = "write {shell, \"command\"}";
            let hook = settings.read(key, None, expected, |term| match term.as_tuple()? {
                [Term::Atom(shell), command] if shell == "shell" && command.as_atom().is_none() => {
                    Some(Some(Ok(command.as_text()?)))
                }
                [Term::Atom(module), Term::Atom(function)] => {
                    Some(Some(Err(format!("{module}:{function}"))))
                }
                _ => None,
            })?;
            Ok(match hook {
                Some(Err(function)) => {
                    warnings.push(format!(
                        "{}{key} has no effect: the Erlang function {function} is not run; \
                         {{shell, \"command\"}} would be",
                        settings.place(key)
                    ));
                    None
                }
                Some(Ok(command)) => Some(command),
                None => None,
            })
        };
        Ok(Self { before: command_of("pre_hook")?, after: command_of("post_hook")? })
    }
}

/// Runs a command in a shell and waits until it ends. The command inherits the standard input of this
/// process. Its output goes to standard error, so that standard output has only the output of the run. The
/// environment variable `QUOIT_BENCH_DIR` names the directory of the run's files.
///
/// # Errors
///
/// When there is no shell, or the command exits with a status other than 0.
pub(crate) fn run_hook(
    key: &'static str,
    command: &str,
    directory: &Path,
) -> Result<(), ConfigError> {
    let status = Command::new("sh")
        .args(["-c", command])
        .env(DIRECTORY_VARIABLE, directory)
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| error.to_string());
    let reason = match status {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => status.to_string(),
        Err(reason) => reason,
    };
    Err(ConfigError::Hook { key, command: command.to_owned(), reason })
}
