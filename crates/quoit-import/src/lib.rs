//! `quoit import`: moves data from Riak KV into a running node or cluster.
//!
//! - [`ImportCommand::Inspect`] reports the contents of directories of Riak.
//! - [`ImportCommand::Run`] reads these directories and writes every object into the cluster, with its
//!   version vector, siblings and metadata.
//! - [`ImportCommand::Types`] copies bucket types and their properties from a running Riak.
//! - [`ImportCommand::Plan`] checks a running Riak and a running cluster, and prints the commands of a live
//!   move.
//! - [`ImportCommand::Bootstrap`] has a running Riak queue all its records for the cluster.
//! - [`ImportCommand::Compare`] counts and compares the records of a running Riak and a running cluster.
//!
//! The import never writes into a directory of Riak. The program `quoit` calls this crate, which prints its
//! results.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod advanced_config;
mod api;
mod bootstrap;
mod compare;
pub mod facade;
mod inspect;
mod names;
mod output;
mod plan;
mod riak_node;
mod run;
mod types;

pub use advanced_config::{AdvancedSetting, advanced_settings};
pub use bootstrap::BootstrapArgs;
pub use compare::CompareArgs;
pub use inspect::InspectArgs;
pub use plan::PlanArgs;
pub use run::RunArgs;
pub use types::TypesArgs;

use anyhow::Result;
use clap::{Subcommand, ValueEnum};

/// Output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// Text for people.
    Human,
    /// JSON for programs.
    Json,
}

/// Moves data from Riak KV into Quoit.
#[derive(Subcommand, Debug)]
pub enum ImportCommand {
    /// Show the contents of directories of Riak: engine, ring, partitions, keys, buckets, damage.
    ///
    /// DIR is the data directory of a Riak node (with bitcask, leveldb or leveled in it), one of these
    /// directories, or the directory of one partition. The node must be stopped. Exit status 1 if anything is
    /// damaged.
    Inspect(InspectArgs),
    /// Write the records in directories of Riak to a running node or cluster.
    ///
    /// Give the directories of one stopped Riak node, or of all: the cluster merges copies of a record by
    /// their vector clocks. Objects keep their clocks, siblings, metadata, index entries and times; data
    /// types stay data types. To continue an interrupted import, run the same command in the same directory.
    /// Exit status 0 only if the cluster has every record at the end.
    Run(RunArgs),
    /// Check a running Riak cluster and a running Quoit cluster, and print a plan for a live move.
    ///
    /// The plan lists the steps as commands; this command itself changes nothing. By default both clusters
    /// replicate to each other, so that you can go back to Riak without losing writes. That requires that
    /// neither cluster removes tombstones and old records; otherwise the command refuses, and --one-way plans
    /// replication from Riak to Quoit only. Exit status 0 only if there is a plan.
    Plan(PlanArgs),
    /// Queue all records of a running Riak cluster for Quoit, and wait until Quoit has fetched them.
    ///
    /// This is a step of the plan that `quoit import plan` prints. Exit status 0 only if all records are
    /// fetched, or queued with --no-wait.
    Bootstrap(BootstrapArgs),
    /// Copy bucket types and their properties from a running Riak.
    ///
    /// Without --create, the command only prints the differences. Exit status 1 if differences remain.
    Types(TypesArgs),
    /// Compare the records of a running Riak cluster and a running Quoit cluster.
    ///
    /// Compares the number of records and their versions in each bucket, and a sample of the values. Exit
    /// status 1 if they differ.
    Compare(CompareArgs),
}

/// Runs a command and prints its result.
///
/// # Errors
///
/// The fault, in words for the operator.
pub fn run(command: &ImportCommand) -> Result<()> {
    match command {
        ImportCommand::Inspect(args) => inspect::inspect(args),
        ImportCommand::Run(args) => run::import(args),
        ImportCommand::Plan(args) => plan::plan(args),
        ImportCommand::Bootstrap(args) => bootstrap::bootstrap(args),
        ImportCommand::Types(args) => types::types(args),
        ImportCommand::Compare(args) => compare::compare(args),
    }
}
