//! Reasons why a command line does not describe a load.

use thiserror::Error;

/// Reasons why a command line does not describe a load. Each message names the value and the remedy.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LoadOptionsError {
    /// Options that describe a load were given with configuration files.
    #[error(
        "--get, --put, --update, --delete, --workers, --rate, --keys, --spread, --value-size, --workload, \
         --fill, --trace and --speed describe a load of a URL: give one, such as pb://127.0.0.1:8087, or \
         set the keys in the configuration file"
    )]
    OptionsOfFiles,
    /// URLs and configuration files were given together.
    #[error(
        "{url} is a URL and {file} a file: give servers or configurations (and --target with these)"
    )]
    Mixed {
        /// The first URL.
        url: String,
        /// The first file.
        file: String,
    },
    /// A text is not the URL of a server.
    #[error(
        "{url}: {problem}; write for example pb://127.0.0.1:8087 or http://127.0.0.1:8098/TYPE/BUCKET"
    )]
    Url {
        /// The text.
        url: String,
        /// The fault.
        problem: String,
    },
    /// Two servers differ in protocol or bucket.
    #[error("{first} and {other} differ in protocol or bucket: one load has one of each")]
    Differ {
        /// The first URL.
        first: String,
        /// The first URL that differs from it.
        other: String,
    },
    /// All weights are 0.
    #[error("all weights are 0: set at least one of --get, --put, --update and --delete above 0")]
    NoOperation,
    /// A named workload was given with an option that it already decides.
    #[error("--workload has a mix and a spread of its own: leave out {0}")]
    WorkloadConflict(&'static str),
    /// The workload has an operation that the protocol does not have.
    #[error(
        "this workload has operations that only other protocols have: E needs pb://, F needs pb:// or http://"
    )]
    WorkloadUnsupported,
    /// `--fill` was given with an option that contradicts it.
    #[error("--fill writes each key once: leave out {0}")]
    FillConflict(&'static str),
    /// A trace was given with an option that the trace already decides.
    #[error("the operations, keys, sizes and times come from --trace: leave out {0}")]
    TraceConflict(&'static str),
    /// A speed was given without a trace.
    #[error("--speed applies only to a trace: add --trace FILE")]
    SpeedWithoutTrace,
    /// The protocol does not have the operation.
    #[error("redis and memcached have no --update: use --get and --put")]
    NoUpdate,
}
