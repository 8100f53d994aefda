//! `quoit import`: moves data from Riak KV into a running node or cluster.
//!
//! - [`ImportCommand::Inspect`] tells what directories of Riak's hold.
//! - [`ImportCommand::Run`] reads them and writes every object, with its clock, siblings and metadata.
//! - [`ImportCommand::Types`] copies bucket types and their properties from a running Riak.
//! - [`ImportCommand::Plan`] checks a running Riak and a running cluster, and writes the commands of a live
//!   move.
//! - [`ImportCommand::Bootstrap`] has a running Riak queue all that it holds for the cluster.
//! - [`ImportCommand::Compare`] counts and compares the records of a running Riak and a running cluster.
//!
//! Nothing is ever written into a directory of Riak's. It is called by the program; what comes out is
//! printed.

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
    /// Tell what directories of Riak's hold: engine, ring, partitions, keys, buckets, damage.
    ///
    /// DIR is a node's data directory (with bitcask, leveldb or leveled in it), one of these, or the
    /// directory of one partition. The node must be stopped. Exit status 1 if anything is damaged.
    Inspect(InspectArgs),
    /// Write what directories of Riak's hold into a running node or cluster.
    ///
    /// Give the directories of one stopped node, or of all: copies of a record are merged by their clocks.
    /// Objects keep clocks, siblings, metadata, index entries and times; data types become data types. An
    /// import that was ended goes on where it was when it is started again in the same place. Exit status 0
    /// only when every record is there afterwards.
    Run(RunArgs),
    /// Check a running Riak and a running cluster, and print the steps of a live move as commands.
    ///
    /// The move goes both ways, so that going back loses nothing, if tombstones and old records stay on both
    /// sides; else it is refused, and --one-way plans it with Riak as the authority. Nothing is changed. Exit
    /// status 0 only with a plan.
    Plan(PlanArgs),
    /// Have a running Riak queue all that it holds, for a sink of the cluster, and wait until it was fetched.
    ///
    /// It is a step of the plan. Exit status 0 only when all is fetched, or queued with --no-wait.
    Bootstrap(BootstrapArgs),
    /// Copy bucket types and their properties from a running Riak.
    ///
    /// Without --create it only shows what differs. Exit status 1 while anything does.
    Types(TypesArgs),
    /// Count the records of a running Riak and a running cluster, compare versions by bucket, sample values.
    ///
    /// Exit status 1 if they differ.
    Compare(CompareArgs),
}

/// Runs a command.
///
/// # Errors
///
/// Describes the fault for the operator.
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
