//! Commands before and after a run.

use std::path::Path;
use std::process::Command;

use super::error::ConfigError;
use super::settings::Settings;
use crate::term::Term;

/// The environment variable that tells a hook the directory of the run's files.
pub(crate) const DIRECTORY_VARIABLE: &str = "QUOIT_BENCH_DIR";

const PRE_HOOK: &str = "pre_hook";

const POST_HOOK: &str = "post_hook";

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
        Ok(Self { before: command_of(PRE_HOOK)?, after: command_of(POST_HOOK)? })
    }

    /// Runs the command before the workers start, if there is one. `directory` is that of the run's files.
    ///
    /// # Errors
    ///
    /// When there is no shell, or the command exits with a status other than 0.
    pub(crate) fn run_before(&self, directory: &Path) -> Result<(), ConfigError> {
        let Some(command) = &self.before else { return Ok(()) };
        Hook { key: PRE_HOOK, command }.run(directory)
    }

    /// Runs the command after the run, as [`run_before`](Self::run_before) does with the other one.
    ///
    /// # Errors
    ///
    /// When there is no shell, or the command exits with a status other than 0.
    pub(crate) fn run_after(&self, directory: &Path) -> Result<(), ConfigError> {
        let Some(command) = &self.after else { return Ok(()) };
        Hook { key: POST_HOOK, command }.run(directory)
    }
}

/// A command, with the key that sets it.
struct Hook<'a> {
    key: &'static str,
    command: &'a str,
}

impl Hook<'_> {
    /// Runs the command in a shell and waits until it ends. The command inherits the standard input of this
    /// process. Its output goes to standard error, so that standard output has only the output of the run.
    /// The environment variable `QUOIT_BENCH_DIR` names the directory of the run's files.
    fn run(&self, directory: &Path) -> Result<(), ConfigError> {
        let status = Command::new("sh")
            .args(["-c", self.command])
            .env(DIRECTORY_VARIABLE, directory)
            .stdout(std::io::stderr())
            .status()
            .map_err(|error| error.to_string());
        let reason = match status {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => status.to_string(),
            Err(reason) => reason,
        };
        Err(ConfigError::Hook { key: self.key, command: self.command.to_owned(), reason })
    }
}
