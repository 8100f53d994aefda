//! Reasons why the experiment can't start or ended early.

use std::io;

use quoit_client::Error;
use thiserror::Error;

use crate::config::ConfigError;
use crate::output::OutputError;

/// Reasons why the experiment can't start or ended early.
#[derive(Debug, Error)]
pub enum GrowthError {
    /// The target is not of the form `host:port`.
    #[error(transparent)]
    Target(#[from] ConfigError),
    /// The results can't be kept.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The rows can't be written to the output.
    #[error("the rows can't be written: {0}")]
    Rows(io::Error),
    /// The operating system provides no event loop or no signals.
    #[error("can't start the event loop: {0}")]
    System(io::Error),
    /// The server can't be reached, or does not have the bucket type.
    #[error("the server can't describe its bucket type {bucket_type}: {source}{remedy}")]
    BucketType {
        /// Name of the bucket type.
        bucket_type: &'static str,
        /// The error of the client or the server.
        source: Box<Error>,
        /// A command that creates the bucket type, if the server lacks it.
        remedy: String,
    },
    /// The bucket type exists and is for another data type.
    #[error(
        "the bucket type {bucket_type} has the datatype {found:?}, not {expected:?}: use another server, \
         for instance a new one"
    )]
    Datatype {
        /// Name of the bucket type.
        bucket_type: &'static str,
        /// Its property `datatype`; empty if it lacks this property.
        found: String,
        /// The required data type.
        expected: &'static str,
    },
    /// A request failed.
    #[error("item {item} of {location}: {doing} failed: {source}")]
    Request {
        /// Number of the item, from 1.
        item: u64,
        /// Location of the container.
        location: String,
        /// The kind of request.
        doing: &'static str,
        /// The error of the client or the server.
        source: Box<Error>,
    },
    /// A read does not show the items that were written.
    #[error(
        "{location} shows {found} items after {expected} were added and acknowledged: another client writes \
         there, or the server loses writes"
    )]
    Items {
        /// Location of the container.
        location: String,
        /// Number of items that were read.
        found: u64,
        /// Number of items that were added.
        expected: u64,
    },
}
