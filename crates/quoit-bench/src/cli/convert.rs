//! `quoit bench convert`: rewrites a configuration of basho_bench in TOML.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use super::{ExitStatus, failed};
use crate::config::{ConfigError, to_toml};

/// Converts a file of Erlang terms to TOML, on the standard output or in a new file.
pub fn convert(input: &Path, output: Option<&Path>) -> ExitStatus {
    match try_convert(input, output) {
        Ok(()) => ExitStatus::Success,
        Err(error) => failed(&error),
    }
}

fn try_convert(input: &Path, output: Option<&Path>) -> Result<(), ConfigError> {
    let bytes =
        fs::read(input).map_err(|error| ConfigError::Read { path: input.to_owned(), error })?;
    let toml = to_toml(input, &bytes)?;
    let written = match output {
        // An existing file may be the user's work, so it is never overwritten.
        Some(path) => File::create_new(path).and_then(|mut file| file.write_all(toml.as_bytes())),
        None => io::stdout().lock().write_all(toml.as_bytes()),
    };
    written.map_err(|error| ConfigError::Write {
        path: output.map_or_else(|| "the standard output".into(), Path::to_owned),
        error,
    })
}
