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

/// Form of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// For people.
    Human,
    /// For programs.
    Json,
}

/// Moves data from Riak KV into Quoit.
#[derive(Subcommand, Debug)]
pub enum ImportCommand {
    /// Report the contents of directories of Riak: engine, ring size, partitions, keys, buckets, damage.
    ///
    /// DIR is a node's data directory (the parent of bitcask, leveldb or leveled), an engine's directory,
    /// or the directory of one partition. The node must be stopped. Exit status 1 if anything is damaged.
    Inspect(InspectArgs),
    /// Write the contents of directories of Riak into a running node or cluster.
    ///
    /// Give the directories of one stopped node, or of all nodes: the cluster merges copies of a record by
    /// their vector clocks. Objects keep vector clocks, siblings, metadata, index entries and times; data
    /// types become data types. Start an interrupted import again in the same working directory, and it
    /// continues where it was. Exit status 0 only if every record is in the cluster afterwards.
    Run(RunArgs),
    /// Check a running Riak and a running cluster, and print the steps of a live move as commands.
    ///
    /// The default is a move in both directions, so that going back to Riak loses nothing. It is refused
    /// unless both sides keep tombstones and expire no records; --one-way plans a move with Riak as the
    /// authority. The command changes nothing. Exit status 0 only if there is a plan.
    Plan(PlanArgs),
    /// Have a running Riak queue all its records for a sink of the cluster, and wait until the sink has
    /// fetched them.
    ///
    /// This is one step of the plan. Exit status 0 only if all records are fetched, or with --no-wait if
    /// all are queued.
    Bootstrap(BootstrapArgs),
    /// Copy bucket types and their properties from a running Riak.
    ///
    /// Without --create the command only shows the differences. Exit status 1 if there are differences.
    Types(TypesArgs),
    /// Count the records of a running Riak and a running cluster, compare versions by bucket, sample values.
    ///
    /// Exit status 1 if they differ.
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
