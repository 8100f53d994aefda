//! Reasons why a script is not run, or has ended a run.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;

/// Reasons why a script can't be run.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("the script {} cannot be read: {error}", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// There is no script for an Erlang module.
    #[error(
        "{module}:{function} is Erlang code, which is not run: write the function {function} in JavaScript \
         in the file {}, or use a built-in generator such as {remedy}",
        .path.display()
    )]
    Module {
        /// Name of the module.
        module: String,
        /// Name of the function.
        function: String,
        /// Path of the script that should exist.
        path: PathBuf,
        /// A built-in alternative.
        remedy: &'static str,
    },
    /// The script is longer than the limit.
    #[error("the script {} has {size_bytes} bytes: up to {limit_bytes} are read", .path.display())]
    Size {
        /// Path of the file.
        path: PathBuf,
        /// Its size in bytes.
        size_bytes: u64,
        /// The limit in bytes.
        limit_bytes: u64,
    },
    /// The script is malformed, or fails when it is tried.
    #[error(transparent)]
    Fault(ScriptFault),
}

/// A fault of a script, with its position.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ScriptFault {
    /// Path of the script.
    pub path: PathBuf,
    /// Line and column, from 1; `None` if they are unknown.
    pub place: Option<(u32, u32)>,
    /// The fault and its remedy.
    pub text: String,
}

impl Display for ScriptFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.text)
    }
}

impl ScriptFault {
    /// A fault of a whole call, without a line.
    pub(super) fn of_call(path: &Path, text: String) -> Self {
        Self { path: path.to_owned(), place: None, text }
    }

    /// A fault at the innermost position of a stack trace that is in the script.
    pub(super) fn of_stack(path: &Path, stack: &str, text: String) -> Self {
        let name = format!("{}:", path.display());
        let rest = stack.split_once(&name).map(|(_, rest)| rest);
        let place = rest.and_then(|rest| {
            let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
            Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
        });
        Self { path: path.to_owned(), place, text }
    }
}

/// Keeps the first fault of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultSlot(Arc<Mutex<Option<ScriptFault>>>);

impl FaultSlot {
    /// Keeps a fault, if it is the first one.
    pub(crate) fn put(&self, fault: ScriptFault) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
    }

    /// The fault, if there is one.
    pub(crate) fn get(&self) -> Option<ScriptFault> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
