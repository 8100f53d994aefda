//! Reasons why a campaign cannot be run or resumed.

use super::scale::ScaleError;
use super::servers::ServerFault;
use crate::config::{ConfigError, SettingPlace};
use crate::report::ReportError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Reasons why a campaign cannot be run or resumed. Each message names the place, the value and the remedy.
#[derive(Debug, Error)]
pub enum CampaignError {
    /// Neither a campaign that comes with the program nor a file has this name.
    #[error(
        "there is no campaign and no file `{name}`{hint}: `quoit bench campaign list` names those that \
         come with the program"
    )]
    Unknown {
        /// The name as given.
        name: String,
        /// The nearest name, as a question, or an empty text.
        hint: String,
    },
    /// The file is not in Erlang terms, or cannot be read.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// The campaign is in TOML, which is not supported.
    #[error(
        "{}: campaigns are written in Erlang terms: `quoit bench campaign show ec2-http` prints one",
        .0.display()
    )]
    Toml(PathBuf),
    /// An unknown key.
    #[error("{place}campaigns have no key {key}{hint}; their keys are {known}")]
    UnknownKey {
        /// Place of the setting.
        place: SettingPlace,
        /// The key.
        key: String,
        /// The nearest key, as a question, or an empty text.
        hint: String,
        /// All keys.
        known: String,
    },
    /// A required key is missing.
    #[error("{}: the campaign has no {key}: add {{{key}, ...}}. with {expected}", .file.display())]
    Missing {
        /// Path of the campaign.
        file: PathBuf,
        /// The missing key.
        key: &'static str,
        /// Description of its values.
        expected: &'static str,
    },
    /// The value of a key does not have the required form.
    #[error("{place}{problem}")]
    Value {
        /// Place of the setting.
        place: SettingPlace,
        /// The value, and what to write instead.
        problem: String,
    },
    /// A value can't be used in a cell.
    #[error("{place}in the cell {cell}: {problem}")]
    CellValue {
        /// Place of the setting.
        place: SettingPlace,
        /// The label of the cell.
        cell: String,
        /// The value, and what to write instead.
        problem: String,
    },
    /// A phase of a cell is not a valid configuration.
    #[error("{place}in the phase {phase} of the cell {cell}: {error}")]
    Phase {
        /// Place of the phase.
        place: SettingPlace,
        /// The name of the phase.
        phase: &'static str,
        /// The label of the cell.
        cell: String,
        /// The fault, with its position in the configuration of the phase.
        error: Box<ConfigError>,
    },
    /// No cell matches a pattern.
    #[error("no cell matches `{pattern}`: the cells are {known}")]
    NoCell {
        /// The pattern.
        pattern: String,
        /// All labels.
        known: String,
    },
    /// The scale is malformed.
    #[error(transparent)]
    Scale(#[from] ScaleError),
    /// The directory belongs to another campaign.
    #[error(
        "{} holds {held}, and this is {wanted}: name another directory with -d, or remove that one",
        .directory.display()
    )]
    Occupied {
        /// Path of the directory.
        directory: PathBuf,
        /// The campaign that the directory belongs to.
        held: String,
        /// The campaign that was requested.
        wanted: String,
    },
    /// Another process is running a campaign in the directory.
    #[error(
        "{} belongs to a campaign that is running: wait for its end, or name another directory with -d",
        .0.display()
    )]
    Running(PathBuf),
    /// A file of the campaign can't be read or written.
    #[error("{}: {doing} failed: {error}", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The step that failed.
        doing: &'static str,
        /// The I/O error.
        error: io::Error,
    },
    /// The state can't be read.
    #[error(
        "{}: {problem}: remove the directory to begin anew, or name another one with -d", .path.display()
    )]
    State {
        /// Path of the file.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// The report of a cell can't be read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Servers did not start.
    #[error(transparent)]
    Servers(#[from] ServerFault),
    /// The operating system provides no thread or no signals.
    #[error("can't start a thread or handle signals: {0}")]
    System(io::Error),
}

impl CampaignError {
    /// Creates the error of a failed step on a file.
    pub(super) fn io<'a>(
        path: &'a Path,
        doing: &'static str,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |error| Self::Io { path: path.to_owned(), doing, error }
    }
}
