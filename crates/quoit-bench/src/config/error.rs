//! Reasons why a configuration cannot be run.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use super::expectation::ExpectationError;
use super::load_line::LoadOptionsError;
use super::toml_form::TomlError;
use crate::keygen::GeneratorError;
use crate::link::LinkError;
use crate::script::ScriptError;
use crate::term::{SyntaxError, Term};

/// The origin of a setting: file, line and column, or an option of the command line, or a default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingPlace {
    /// A line of a file.
    Line {
        /// Path of the file, as the caller gave it.
        file: Arc<PathBuf>,
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
    },
    /// An option of the command line.
    Option(&'static str),
    /// The setting is a default.
    Default,
}

impl Display for SettingPlace {
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

/// Reasons why a configuration cannot be run. Each message names the place, the value and what to write
/// instead.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// No configuration file was named.
    #[error(
        "no configuration file was named: quoit bench CONFIG..., or a URL such as pb://127.0.0.1:8087"
    )]
    NoFile,
    /// The files set no key, so they are probably the wrong files. The defaults must not be run in their
    /// place, because the default load deletes keys.
    #[error(
        "{}: the configuration sets no key; write at least the driver, its servers and the operations, \
         as {{operations, [{{get, 4}}, {{put, 1}}]}}", .path.display()
    )]
    Empty {
        /// The path of the first file.
        path: PathBuf,
    },
    /// The command line does not describe a load.
    #[error(transparent)]
    Line(LoadOptionsError),
    /// Agents can't share the run.
    #[error("agents: {0}")]
    Agents(String),
    /// A token or certificate can't be used.
    #[error("agents: {0}")]
    AgentSecurity(Box<LinkError>),
    /// A file cannot be read.
    #[error("{}: the configuration cannot be read: {error}", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        error: std::io::Error,
    },
    /// A file is not a sequence of Erlang terms.
    #[error("{}:{error}", .path.display())]
    Syntax {
        /// Path of the file.
        path: PathBuf,
        /// Position in the file, and the problem.
        error: SyntaxError,
    },
    /// A file is not a configuration in TOML.
    #[error("{}:{error}", .path.display())]
    Toml {
        /// Path of the file.
        path: PathBuf,
        /// Position in the file, and the problem.
        error: TomlError,
    },
    /// A file cannot be written.
    #[error("{}: cannot be written: {error}", .path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        error: std::io::Error,
    },
    /// The configuration cannot be expressed in TOML.
    #[error("{}: TOML cannot hold it: at {error}; nest its values less deeply", .path.display())]
    Unconvertible {
        /// Path of the configuration.
        path: PathBuf,
        /// The fault of the converted text, with a position in it.
        error: TomlError,
    },
    /// An unknown key that would decide where the load goes or which requests are sent.
    #[error(
        "{place}the key `{key}` is not known, and without it the load would go elsewhere or be another\
         {hint}; remove it if no driver of this configuration needs it"
    )]
    UnknownKey {
        /// Place of the setting.
        place: SettingPlace,
        /// The key.
        key: String,
        /// The nearest known key, as a question, or an empty text.
        hint: String,
    },
    /// A text is not an expectation, or the run can't be judged by it.
    #[error("{place}{error}")]
    Expectation {
        /// Place of the setting.
        place: SettingPlace,
        /// The fault.
        error: Box<ExpectationError>,
    },
    /// The value of a key does not have the required form.
    #[error("{place}{key} is {value}: {expected}")]
    Value {
        /// Place of the setting.
        place: SettingPlace,
        /// The key.
        key: String,
        /// The value as the file spells it.
        value: String,
        /// The required form.
        expected: String,
    },
    /// A generator cannot be built.
    #[error("{place}{key}: {error}")]
    Generator {
        /// Place of the setting.
        place: SettingPlace,
        /// `key_generator` or `value_generator`.
        key: &'static str,
        /// The problem.
        error: GeneratorError,
    },
    /// A file of keys or values cannot be read.
    #[error("{place}{key}: the file {} cannot be read: {error}", .path.display())]
    KeyFile {
        /// Place where the generator is set.
        place: SettingPlace,
        /// The key: `key_generator`, `value_generator` or `value_generator_blob_file`.
        key: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        error: std::io::Error,
    },
    /// A script can't be run.
    #[error("{place}{key}: {error}")]
    Script {
        /// Place of the setting.
        place: SettingPlace,
        /// The key that names it.
        key: &'static str,
        /// The problem.
        error: Box<ScriptError>,
    },
    /// A command before or after the run failed.
    #[error("{key}: the command `{command}` failed: {reason}")]
    Hook {
        /// `pre_hook` or `post_hook`.
        key: &'static str,
        /// The command.
        command: String,
        /// How the command ended.
        reason: String,
    },
    /// No driver has this name.
    #[error("{place}driver {name} is not offered: {remedy}")]
    Driver {
        /// Place of the setting.
        place: SettingPlace,
        /// The name without its prefix.
        name: String,
        /// The drivers that exist, or another remedy.
        remedy: String,
    },
    /// The driver has no such operation.
    #[error("{place}the driver {driver} has no operation `{operation}`: it has {known}")]
    Operation {
        /// Place of the setting.
        place: SettingPlace,
        /// The driver.
        driver: &'static str,
        /// The operation.
        operation: Box<Term>,
        /// The operations that the driver has.
        known: String,
    },
    /// An operation that basho_bench's driver has and this driver does not offer.
    #[error("{place}the operation `{operation}` of the driver {driver} is not offered: {reason}")]
    OperationMissing {
        /// Place of the setting.
        place: SettingPlace,
        /// The driver.
        driver: &'static str,
        /// The operation.
        operation: Box<Term>,
        /// The part of the system that the operation would need, and the alternative.
        reason: &'static str,
    },
    /// A duration on the command line is malformed.
    #[error(
        "the duration `{0}` is not valid: write a number with ms, s, m or h, as in 60s, or infinity"
    )]
    Duration(String),
    /// A target on the command line is malformed.
    #[error("the target `{0}` is not valid: write host:port, as in 127.0.0.1:8098")]
    Target(String),
    /// A target on the command line is for a list of servers that the driver does not have.
    #[error("--target: the driver {driver} has no list of servers `{list}`: {known}")]
    TargetList {
        /// The driver.
        driver: &'static str,
        /// Name of the list on the command line.
        list: String,
        /// Lists that the driver has.
        known: String,
    },
    /// The command line has a target, and the driver has no servers.
    #[error("--target has no effect: the driver {driver} has no servers; leave it out")]
    TargetUnused {
        /// The driver.
        driver: &'static str,
    },
}
