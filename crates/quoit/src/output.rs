//! Writing to a standard output that its reader may have closed.

pub(crate) use quoit_cli::output::is_lost;
pub(crate) use quoit_cli::say;
