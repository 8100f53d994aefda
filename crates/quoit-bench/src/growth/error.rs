//! Why the experiment can't be made, or ended early.

use std::io;

use quoit_client::Error;
use thiserror::Error;

use crate::config::ConfigError;
use crate::output::OutputError;

/// Why the experiment can't be made, or ended early.
#[derive(Debug, Error)]
pub enum GrowthError {
    /// The target is not of the form `host:port`.
    #[error(transparent)]
    Target(#[from] ConfigError),
    /// The results can't be kept.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The rows can't be written where the command was told to.
    #[error("the rows can't be written: {0}")]
    Rows(io::Error),
    /// The system gives no event loop or no signals.
    #[error("the system gives no event loop: {0}")]
    System(io::Error),
    /// The server can't be reached, or doesn't know its bucket types.
    #[error("the server can't describe its bucket type {bucket_type}: {source}{remedy}")]
    BucketType {
        /// The bucket type's name.
        bucket_type: &'static str,
        /// Error of the client or the server.
        source: Box<Error>,
        /// How to make the bucket type, if the server has none of that name.
        remedy: String,
    },
    /// The bucket type is there and holds something else.
    #[error(
        "the bucket type {bucket_type} has the datatype {found:?}, not {expected:?}: use another server, \
         for instance a new one"
    )]
    Datatype {
        /// The bucket type's name.
        bucket_type: &'static str,
        /// Its property `datatype`; empty when it has none.
        found: String,
        /// Expected form.
        expected: &'static str,
    },
    /// A request failed.
    #[error("item {item} of {location}: {doing} failed: {source}")]
    Request {
        /// The item at work, from 1.
        item: u64,
        /// The container.
        location: String,
        /// Which request.
        doing: &'static str,
        /// Error of the client or the server.
        source: Box<Error>,
    },
    /// A read does not show what was written.
    #[error(
        "{location} shows {found} items after {expected} were added and acknowledged: another client writes \
         there, or the server loses writes"
    )]
    Items {
        /// The container.
        location: String,
        /// Items that were read.
        found: u64,
        /// Items that were added.
        expected: u64,
    },
}
