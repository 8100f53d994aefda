//! The load generator of `quoit bench`: it runs basho_bench configurations.
//!
//! A configuration (a file of Erlang terms, [`config`]) names a driver ([`driver`]), a mix of
//! operations, a key generator ([`keygen`]) and a value generator ([`valgen`]), how many workers
//! there are and how they are paced. A run ([`run`]) connects the workers, releases them
//! together, and measures every operation ([`measure`]). It leaves basho_bench's tables and logs
//! in a directory and shows a progress line and a summary ([`cli`]); a report draws what is in
//! such a directory ([`report`]), and runs are held against each other ([`compare`]). A campaign
//! runs a matrix of them with servers of its own ([`campaign`]).
//!
//! One worker has one operation in flight at a time, always: nothing is pipelined or batched.
//!
//! This crate is not a server and knows none: it reaches the system under test as any client
//! does, or runs a storage engine in this process.
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
