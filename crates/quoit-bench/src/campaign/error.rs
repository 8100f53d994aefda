//! Why a campaign cannot be run, or not be resumed.

use super::scale::ScaleError;
use super::servers::ServerFault;
use crate::config::{ConfigError, Place};
use crate::report::ReportError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a campaign cannot be run, or not be resumed. Each message names the place, the value and the remedy.
#[derive(Debug, Error)]
pub enum CampaignError {
    /// Neither a campaign that comes with the program nor a file.
    #[error(
        "there is no campaign and no file `{name}`{hint}: `quoit bench campaign list` names those that \
         come with the program"
    )]
    Unknown {
        /// The name as it was given.
        name: String,
        /// The nearest name, as a question, or nothing.
        hint: String,
    },
    /// The file is not in Erlang terms, or cannot be read.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// A campaign in TOML.
    #[error(
        "{}: campaigns are written in Erlang terms: `quoit bench campaign show ec2-http` prints one",
        .0.display()
    )]
    Toml(PathBuf),
    /// A key that campaigns do not have.
    #[error("{place}campaigns have no key {key}{hint}; their keys are {known}")]
    UnknownKey {
        /// Where it is set.
        place: Place,
        /// The key.
        key: String,
        /// The nearest key, as a question, or nothing.
        hint: String,
        /// All keys.
        known: String,
    },
    /// A key that is not there.
    #[error("{}: the campaign has no {key}: add {{{key}, ...}}. with {expected}", .file.display())]
    Missing {
        /// The campaign.
        file: PathBuf,
        /// The key.
        key: &'static str,
        /// Its values.
        expected: &'static str,
    },
    /// A value that its key cannot have.
    #[error("{place}{problem}")]
    Value {
        /// Where it is set.
        place: Place,
        /// The value and what to write.
        problem: String,
    },
    /// A cell with a value that can't be had.
    #[error("{place}in the cell {cell}: {problem}")]
    CellValue {
        /// Where it is set.
        place: Place,
        /// The label of the cell.
        cell: String,
        /// The value and what to write.
        problem: String,
    },
    /// A phase of a cell that is no configuration.
    #[error("{place}in the phase {phase} of the cell {cell}: {error}")]
    Phase {
        /// Where the phase is written.
        place: Place,
        /// The name of the phase.
        phase: &'static str,
        /// The label of the cell.
        cell: String,
        /// The fault, with its place in the configuration of the phase.
        error: Box<ConfigError>,
    },
    /// No cell has such a label.
    #[error("no cell matches `{pattern}`: the cells are {known}")]
    NoCell {
        /// The pattern.
        pattern: String,
        /// All labels.
        known: String,
    },
    /// A scale that is none.
    #[error(transparent)]
    Scale(#[from] ScaleError),
    /// The directory holds something else.
    #[error(
        "{} holds {held}, and this is {wanted}: name another directory with -d, or remove that one",
        .directory.display()
    )]
    Occupied {
        /// The directory.
        directory: PathBuf,
        /// Its campaign.
        held: String,
        /// The campaign that was asked for.
        wanted: String,
    },
    /// Another process is at work in the directory.
    #[error(
        "{} belongs to a campaign that is running: wait for its end, or name another directory with -d",
        .0.display()
    )]
    Running(PathBuf),
    /// A file of the campaign can't be read or written.
    #[error("{}: {doing} failed: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Step that failed.
        doing: &'static str,
        /// Error of the system.
        error: io::Error,
    },
    /// The state can't be read.
    #[error(
        "{}: {problem}: remove the directory to begin anew, or name another one with -d", .path.display()
    )]
    State {
        /// The file.
        path: PathBuf,
        /// Its fault.
        problem: String,
    },
    /// The report of a cell can't be read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Servers did not start.
    #[error(transparent)]
    Servers(#[from] ServerFault),
    /// The system gives no thread or no signals.
    #[error("the system gives no thread or no signals: {0}")]
    System(io::Error),
}

impl CampaignError {
    /// A failed step at a file.
    pub(super) fn io<'a>(
        path: &'a Path,
        doing: &'static str,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |error| Self::Io { path: path.to_owned(), doing, error }
    }
}
