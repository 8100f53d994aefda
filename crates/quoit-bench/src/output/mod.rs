//! Output of a run: the directory with basho_bench's tables and logs, the progress line, and the summary.

mod directory;
pub mod environment;
mod live;
mod log;
mod reporter;
mod tables;
mod terminal;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod viewed;

use std::io;
use std::path::PathBuf;

pub(crate) use crate::result_file::ResultFile;
pub(crate) use directory::GROWTH_FILE;
pub(crate) use directory::RunDirectory;
pub(crate) use log::RunLog;
pub(crate) use reporter::{Reporter, RunTotals};
pub use terminal::Terminal;
use thiserror::Error;

/// Reasons why the results of a run cannot be kept.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The name is not allowed for a run.
    #[error("the run cannot be named {0:?}: give a plain file name other than `current`")]
    Name(String),
    /// The directory has the results of another run.
    #[error("{} already holds the results of a run: give another name or remove it", .0.display())]
    Occupied(PathBuf),
    /// A file or directory cannot be written.
    #[error("{} cannot be written: {error}; choose a results directory with -d", .path.display())]
    Write {
        /// Path of the file or directory.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
}

impl OutputError {
    /// Creates an [`OutputError::Write`] for `path`.
    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::Write { path, error }
    }
}
