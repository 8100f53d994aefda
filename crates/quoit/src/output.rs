//! Standard output that may have lost its reader.

pub(crate) use quoit_cli::output::is_lost;
pub(crate) use quoit_cli::say;
