//! The load generator behind `quoit bench`. It runs configurations of basho_bench.
//!
//! A configuration (a file of Erlang terms or of TOML, [`config`]) names a driver ([`driver`]), a mix of
//! operations, a key generator ([`keygen`]) and a value generator ([`valgen`]), the number of workers, and
//! how the workers are paced. A run ([`run`]) connects the workers, releases them together, and measures
//! every operation ([`measure`]). It writes basho_bench's tables and logs to a directory, and shows a
//! progress line and a summary ([`cli`]). A report ([`report`]) draws the contents of such a directory, and
//! a comparison ([`compare`]) tests whether runs differ. A campaign ([`campaign`]) runs a matrix of
//! configurations, each against servers that it starts itself.
//!
//! A worker never has more than one operation in flight: it neither pipelines nor batches.
//!
//! This crate contains no server and depends on none. It reaches the system under test over a client
//! protocol, or runs a storage engine in this process.
//!
//! ```no_run
//! use quoit_bench::cli::{BenchOptions, run};
//!
//! let options = BenchOptions {
//!     config_paths: vec!["get-put.config".into()],
//!     duration: Some("60s".to_owned()),
//!     ..BenchOptions::default()
//! };
//! std::process::exit(run(&options).code().into());
//! ```
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

pub mod agent;
pub mod campaign;
pub mod capacity;
pub mod cli;
pub mod compare;
pub mod config;
pub mod driver;
mod exit_status;
mod generators;
#[cfg(test)]
mod goodness_of_fit;
pub mod growth;
pub mod growth_command;
mod http;
pub mod link;
mod log_level;
mod login;
pub mod measure;
mod names;
pub mod notices;
pub mod output;
mod plot;
pub mod random;
pub mod report;
mod reported_operation;
mod result_file;
pub mod run;
mod run_end;
pub mod script;
mod sent;
pub mod share;
pub mod term;
pub mod trace;
pub mod verify;
pub mod view;
mod watch;
pub mod worker_place;

pub use generators::{keygen, valgen};
