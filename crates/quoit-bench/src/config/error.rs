//! Why a configuration cannot be run.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use super::expectation::ExpectationError;
use super::load_line::LineError;
use super::toml_form::TomlError;
use crate::keygen::GeneratorError;
use crate::link::LinkError;
use crate::script::ScriptError;
use crate::term::{SyntaxError, Term};

/// The place of a setting: its file, line and column, or nothing for a default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A line of a file.
    Line {
        /// The file as it was named.
        file: Arc<PathBuf>,
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
    },
    /// An option of the command line.
    Option(&'static str),
    /// Not written anywhere.
    Default,
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line, column } => {
                write!(f, "{}:{line}:{column}: ", file.display())
            }
            Self::Option(name) => write!(f, "{name}: "),
            Self::Default => f.write_str("by default: "),
        }
    }
}

/// Why a configuration cannot be run. Each message names the place, the value and what to write.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// No configuration file was named.
    #[error(
        "no configuration file was named: quoit bench CONFIG..., or a URL such as pb://127.0.0.1:8087"
    )]
    NoFile,
    /// No file sets a key: probably the wrong file, and a load of nothing but defaults deletes keys.
    #[error(
        "{}: the configuration sets no key; write at least the driver, its servers and the operations, \
         as {{operations, [{{get, 4}}, {{put, 1}}]}}", .path.display()
    )]
    Empty {
        /// The path of the first file.
        path: PathBuf,
    },
    /// A command line that describes no load.
    #[error(transparent)]
    Line(LineError),
    /// A run that agents can't share.
    #[error("agents: {0}")]
    Agents(String),
    /// A token or certificates that can't be used.
    #[error("agents: {0}")]
    AgentSecurity(Box<LinkError>),
    /// A file cannot be read.
    #[error("{}: the configuration cannot be read: {error}", .path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// Error of reading it.
        error: std::io::Error,
    },
    /// A file is no sequence of Erlang terms.
    #[error("{}:{error}", .path.display())]
    Syntax {
        /// Its path.
        path: PathBuf,
        /// Place in the file and problem.
        error: SyntaxError,
    },
    /// A file is no configuration in TOML.
    #[error("{}:{error}", .path.display())]
    Toml {
        /// Its path.
        path: PathBuf,
        /// Place in the file and problem.
        error: TomlError,
    },
    /// A file cannot be written.
    #[error("{}: cannot be written: {error}", .path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// Error of writing it.
        error: std::io::Error,
    },
    /// A configuration that TOML cannot hold.
    #[error("{}: TOML cannot hold it: at {error}; nest its values less deeply", .path.display())]
    Unconvertible {
        /// The path of the configuration.
        path: PathBuf,
        /// Why the TOML is none, with a place in it.
        error: TomlError,
    },
    /// A key that is not known and would decide where the load goes or what it is.
    #[error(
        "{place}the key `{key}` is not known, and without it the load would go elsewhere or be another\
         {hint}; remove it if no driver of this configuration needs it"
    )]
    UnknownKey {
        /// Where it is set.
        place: Place,
        /// The key.
        key: String,
        /// The nearest key, as a question, or nothing.
        hint: String,
    },
    /// A text that is no expectation, or one that the run can't be judged by.
    #[error("{place}{error}")]
    Expectation {
        /// Where it is set.
        place: Place,
        /// The fault.
        error: Box<ExpectationError>,
    },
    /// A value that its key cannot have.
    #[error("{place}{key} is {value}: {expected}")]
    Value {
        /// Where it is set.
        place: Place,
        /// The key.
        key: String,
        /// The value as it is written.
        value: String,
        /// Expected form.
        expected: String,
    },
    /// A generator that cannot be built.
    #[error("{place}{key}: {error}")]
    Generator {
        /// Where it is set.
        place: Place,
        /// `key_generator` or `value_generator`.
        key: &'static str,
        /// The problem.
        error: GeneratorError,
    },
    /// A file of keys or values that cannot be read.
    #[error("{place}{key}: the file {} cannot be read: {error}", .path.display())]
    KeyFile {
        /// Where the generator is set.
        place: Place,
        /// `key_generator` or `value_generator`.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of reading it.
        error: std::io::Error,
    },
    /// A script that can't be run.
    #[error("{place}{key}: {error}")]
    Script {
        /// Where it is named.
        place: Place,
        /// The key that names it.
        key: &'static str,
        /// The problem.
        error: Box<ScriptError>,
    },
    /// A command before or after the run that failed.
    #[error("{key}: the command `{command}` failed: {reason}")]
    Hook {
        /// `pre_hook` or `post_hook`.
        key: &'static str,
        /// The command.
        command: String,
        /// How it ended.
        reason: String,
    },
    /// A driver that is not offered.
    #[error("{place}driver {name} is not offered: {remedy}")]
    Driver {
        /// Where it is set.
        place: Place,
        /// The name without its prefix.
        name: String,
        /// Which drivers there are.
        remedy: String,
    },
    /// An operation that the driver does not have.
    #[error("{place}the driver {driver} has no operation `{operation}`: it has {known}")]
    Operation {
        /// Where the operations are set.
        place: Place,
        /// The driver.
        driver: &'static str,
        /// The operation.
        operation: Box<Term>,
        /// The operations that the driver has.
        known: String,
    },
    /// An operation of basho_bench's driver that is not to be had here.
    #[error("{place}the operation `{operation}` of the driver {driver} is not offered: {reason}")]
    OperationMissing {
        /// Where the operations are set.
        place: Place,
        /// The driver.
        driver: &'static str,
        /// The operation.
        operation: Box<Term>,
        /// Part of the system that it would need, and the alternative.
        reason: &'static str,
    },
    /// A duration given on the command line that is none.
    #[error(
        "the duration `{0}` is not valid: write a number with ms, s, m or h, as in 60s, or infinity"
    )]
    Duration(String),
    /// A target given on the command line that is none.
    #[error("the target `{0}` is not valid: write host:port, as in 127.0.0.1:8098")]
    Target(String),
    /// A target given on the command line for a list of servers that the driver does not have.
    #[error("--target: the driver {driver} has no list of servers `{list}`: {known}")]
    TargetList {
        /// The driver.
        driver: &'static str,
        /// The list as it was named.
        list: String,
        /// The lists that the driver has.
        known: String,
    },
    /// A target given on the command line for a driver without servers.
    #[error("--target has no effect: the driver {driver} has no servers; leave it out")]
    TargetUnused {
        /// The driver.
        driver: &'static str,
    },
}
