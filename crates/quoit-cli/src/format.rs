//! Output formats.

use clap::ValueEnum;

/// Output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// Text for people.
    Human,
    /// JSON for programs.
    Json,
}
