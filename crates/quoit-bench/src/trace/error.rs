//! Reasons why a trace can't be replayed.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Reasons why a trace can't be replayed. Each message names the file and, if there is one, the line.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file can't be read.
    #[error("the trace {} can't be read: {error}", .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// A line does not have the form of a trace.
    #[error(
        "{}:{line}: {problem}; a line is time,operation,key,value_size below a header with these names, or \
         timestamp,key,key_size,value_size,client,operation,ttl as in the traces of Twitter's caches",
        .path.display()
    )]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// The fault.
        problem: String,
    },
    /// The file has no operation.
    #[error("the trace {} has no operation", .0.display())]
    Empty(PathBuf),
    /// The configuration lacks an operation of a kind that the trace has.
    #[error(
        "{}:{line}: the trace has an operation of the kind {kind}, and the configuration none: add one to \
         `operations`, as one of {names}",
        .path.display()
    )]
    NoOperation {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Name of the kind.
        kind: &'static str,
        /// Names that drivers have for operations of the kind.
        names: String,
    },
}
