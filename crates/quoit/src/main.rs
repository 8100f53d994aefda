//! The `quoit` binary: a node, its administration, and the load generator.

mod admin;
mod bench;
mod certificates;
mod config_command;
mod descriptors;
mod dev_cluster;
mod engines;
mod listeners;
mod local_socket;
mod logs;
mod open;
mod output;
mod readiness;
mod ready_file;
mod reload;
mod repl;
mod reserve;
mod serve;
mod stop;

use clap::{Parser, Subcommand};
use quoit_cli::data;
use std::process::ExitCode;

/// A Dynamo-class distributed key-value store that speaks Riak KV's client protocols.
#[derive(Parser, Debug)]
#[command(name = "quoit", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Start a node.
    ///
    /// Without options it listens on 127.0.0.1 (Protocol Buffers 8087, HTTP 8098, other nodes
    /// 8099) and keeps its data in ./data.
    Serve(Box<serve::ServeArgs>),
    /// Start several joined nodes on this machine, to try a cluster out.
    DevCluster(dev_cluster::DevClusterArgs),
    Get(data::GetArgs),
    Put(data::PutArgs),
    Del(data::DelArgs),
    Keys(data::KeysArgs),
    Buckets(data::BucketsArgs),
    Index(data::IndexArgs),
    #[command(subcommand)]
    Counter(data::CounterCommand),
    #[command(subcommand)]
    Set(data::SetCommand),
    #[command(subcommand)]
    Gset(data::GsetCommand),
    #[command(subcommand)]
    Map(data::MapCommand),
    #[command(subcommand)]
    Hll(data::HllCommand),
    /// Administrate a running node.
    Admin(admin::AdminArgs),
    /// Replicate between clusters: queues, sinks, full-sync.
    Repl(repl::ReplArgs),
    /// Run basho_bench configurations against a server.
    Bench(Box<bench::BenchArgs>),
    /// Show and check configuration without starting a node.
    #[command(subcommand)]
    Config(config_command::ConfigCommand),
}

#[expect(clippy::print_stderr, reason = "the edge where errors are shown to a person")]
fn main() -> ExitCode {
    quoit_heap::keep_little();
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::DevCluster(args) => dev_cluster::run(&args),
        Command::Get(args) => data::get(&args),
        Command::Put(args) => data::put(&args),
        Command::Del(args) => data::del(&args),
        Command::Keys(args) => data::keys(&args),
        Command::Buckets(args) => data::buckets(&args),
        Command::Index(args) => data::index(&args),
        Command::Counter(command) => data::counter(&command),
        Command::Set(command) => data::set(&command),
        Command::Gset(command) => data::gset(&command),
        Command::Map(command) => data::map(&command),
        Command::Hll(command) => data::hll(&command),
        Command::Admin(args) => admin::run(&args),
        Command::Repl(args) => repl::run(&args),
        Command::Bench(args) => return bench::command(&args),
        Command::Config(command) => config_command::run(&command),
    };
    match result {
        Ok(()) if output::is_lost() => {
            eprintln!("quoit: standard output can't be written; is its disk full?");
            ExitCode::FAILURE
        }
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("quoit: {fault:#}");
            ExitCode::FAILURE
        }
    }
}
