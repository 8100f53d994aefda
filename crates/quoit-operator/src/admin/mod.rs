//! `quoit admin`: administration of a running node, and of the storage engine of a stopped one.

mod aae;
mod bucket_types;
mod cluster;
mod data_type;
mod engine;
mod fold;
mod jobs;
mod salvage;
mod security;
mod status;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use quoit_cli::api::segment;
use quoit_cli::target::TargetArgs;
use quoit_cli::{Answer, Api, Format, say};
use serde_json::Value;

/// Administers a running node.
#[derive(Args, Debug)]
pub struct AdminArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Output format.
    #[arg(long, global = true, value_enum, default_value = "human")]
    format: Format,
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Subcommand, Debug)]
enum AdminCommand {
    /// Check that the node answers; prints pong.
    Ping,
    /// Print all statistics and the figures of the storage engine.
    Status,
    /// Print statistics by their hierarchical names.
    #[command(subcommand)]
    Stat(status::StatCommand),
    /// Create, activate and change bucket types.
    #[command(subcommand)]
    BucketType(bucket_types::TypeCommand),
    /// Change the members of the cluster and their shares: stage, plan, commit.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Print the members and their shares.
    #[command(alias = "member_status")]
    MemberStatus,
    /// Print the claimant, pending transfers and unreachable nodes.
    #[command(alias = "ring_status")]
    RingStatus,
    /// Print whether all nodes agree on the ring; exit status 1 if they do not.
    Ringready,
    /// Mark a node as down, so that other nodes no longer wait for it.
    Down {
        /// Name of the node.
        node: String,
    },
    /// Print the services of the node.
    Services,
    /// Wait until a node has a service.
    WaitForService(cluster::WaitArgs),
    /// Acknowledge that records of the partitions that status lists may be lost for good.
    AcceptLosses,
    /// Print the transfers between nodes.
    Transfers,
    /// Print or change the number of partitions that nodes hand over at the same time: [[NODE] N].
    #[command(alias = "transfer_limit")]
    TransferLimit(cluster::LimitArgs),
    /// Print or change the rate in bytes per second at which nodes hand over data: [[NODE] SIZE].
    TransferRate(cluster::LimitArgs),
    /// Show transfers, and switch them on and off.
    #[command(subcommand)]
    Handoff(cluster::HandoffCommand),
    /// Print the times of the last exchanges with other nodes, and their repairs.
    #[command(alias = "aae_status")]
    AaeStatus,
    /// Compare the node's copies with other nodes' now.
    AaeExchange {
        /// Number of a partition [default: all].
        partition: Option<u16>,
    },
    /// Join a cluster at once, with -f; see cluster join.
    Join(cluster::UnstagedArgs),
    /// Leave the cluster at once, with -f; see cluster leave.
    Leave(cluster::UnstagedArgs),
    /// Remove a node at once, with -f; records that only it has are lost; see cluster force-remove.
    #[command(alias = "remove", alias = "force_remove")]
    ForceRemove(cluster::UnstagedArgs),
    /// Show and change properties of a bucket.
    #[command(subcommand)]
    Bucket(bucket_types::BucketCommand),
    /// Count, find, delete or reap the records of a bucket, in the background.
    #[command(subcommand)]
    Fold(fold::FoldCommand),
    /// Print the running MapReduce jobs of the node, or stop one.
    Jobs {
        #[command(subcommand)]
        command: Option<jobs::JobsCommand>,
    },
    /// Query a large set or map: its size, an element, a field, or everything page by page.
    DataType(data_type::DataTypeArgs),
    /// Convert the data of a stopped node to another storage engine, or repair damaged data.
    #[command(subcommand)]
    Engine(engine::EngineCommand),
    /// Manage users, groups, sources of logins and grants.
    Security(security::SecurityArgs),
    /// List the keys of a bucket in order: all of them, by prefix or by range.
    Keys(quoit_cli::data::KeyRange),
}

/// Print all statistics of the node and of its storage engine, or those whose hierarchical names match.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  quoit stat\n  quoit stat 'riak.riak_kv.node.**'")]
pub struct StatArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Names such as riak.riak_kv.node.gets; * matches text within a level, ** any number of levels.
    patterns: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Prints statistics.
///
/// # Errors
///
/// If no node answers, or the node refuses.
pub fn statistics(args: &StatArgs) -> Result<()> {
    let api = Api::new(&args.target);
    if args.patterns.is_empty() {
        return status::status(&api, args.format);
    }
    let command = status::StatCommand::Show { patterns: args.patterns.clone() };
    status::stat(&api, &command, args.format)
}

/// Executes an administration command.
///
/// # Errors
///
/// If no node answers, the node refuses, or a command on a stopped node fails.
pub fn run(args: &AdminArgs) -> Result<()> {
    let api = Api::new(&args.target);
    match &args.command {
        AdminCommand::Ping => ping(&api, args.format),
        AdminCommand::Status => status::status(&api, args.format),
        AdminCommand::Stat(command) => status::stat(&api, command, args.format),
        AdminCommand::BucketType(command) => bucket_types::types(&api, command, args.format),
        AdminCommand::DataType(args_of) => data_type::data_type(&api, args_of, args.format),
        AdminCommand::Engine(command) => engine::engine(command, args.format),
        AdminCommand::Fold(command) => fold::fold(&api, command, args.format),
        AdminCommand::Jobs { command } => jobs::jobs(&api, command.as_ref(), args.format),
        AdminCommand::Security(args_of) => security::security(&api, args_of, args.format),
        AdminCommand::Keys(range) => quoit_cli::data::keys_of(&api, range, args.format),
        AdminCommand::Bucket(command) => bucket_types::bucket(&api, command, args.format),
        AdminCommand::Cluster(command) => cluster::cluster(&api, command, args.format),
        AdminCommand::MemberStatus => cluster::member_status(&api, args.format),
        AdminCommand::RingStatus => cluster::ring_status(&api, args.format),
        AdminCommand::Ringready => cluster::ring_ready(&api, args.format),
        AdminCommand::Down { node } => cluster::down(&api, node, args.format),
        AdminCommand::Services => cluster::services(&api, args.format),
        AdminCommand::WaitForService(wait) => cluster::wait_for_service(&api, wait, args.format),
        AdminCommand::AcceptLosses => status::accept_losses(&api, args.format),
        AdminCommand::Transfers => cluster::transfers(&api, args.format),
        AdminCommand::TransferLimit(limit) => cluster::transfer_limit(&api, limit, args.format),
        AdminCommand::TransferRate(rate) => cluster::transfer_rate(&api, rate, args.format),
        AdminCommand::Handoff(command) => cluster::handoff(&api, command, args.format),
        AdminCommand::AaeStatus => aae::status(&api, args.format),
        AdminCommand::AaeExchange { partition } => aae::exchange(&api, *partition, args.format),
        AdminCommand::Join(change) => cluster::join(&api, change, args.format),
        AdminCommand::Leave(change) => cluster::leave(&api, change, args.format),
        AdminCommand::ForceRemove(change) => cluster::force_remove(&api, change, args.format),
    }
}

fn ping(api: &Api, format: Format) -> Result<()> {
    let answer = document_of(api.get("ping")?, format)?;
    print(&answer, format, |_| "pong".to_owned());
    Ok(())
}

/// The document of a successful answer. A refusal becomes an error with the node's message; with JSON, its
/// document is printed as well.
fn document_of(answer: Answer, format: Format) -> Result<Value> {
    match answer {
        Answer::Done(document) => Ok(document),
        Answer::Refused { message, document, .. } => {
            if format == Format::Json {
                say!("{document}");
            }
            bail!("{message}");
        }
    }
}

/// Prints a document as JSON, or the text that `human` makes of it.
fn print(document: &Value, format: Format, human: impl FnOnce(&Value) -> String) {
    match format {
        Format::Json => say!("{document}"),
        Format::Human => say!("{}", human(document)),
    }
}

/// Formats a value on one line, with strings unquoted.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
