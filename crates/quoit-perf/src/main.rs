//! Benchmarks side by side with peers, in one run, so that what else the machine does hits all alike.
//!
//! Peers: an echo (the least that any server on this kernel can do), a group-committed log writer (the
//! least that any durable server on this disk can do), and Redis.

mod compare;
mod drive;
mod echo;
mod protocol;
mod servers;
mod start;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

#[derive(Parser, Debug)]
#[command(about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What all comparisons need.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// The quoit binary (a release build).
    #[arg(long, default_value = "target/release/quoit")]
    pub(crate) quoit: PathBuf,
    /// Directory for data, on the disk that is to be measured; temporary folders are made in it.
    #[arg(long, default_value = "target")]
    pub(crate) dir: PathBuf,
    /// Interleaved rounds; medians are printed.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Operations of each measurement.
    #[arg(long, default_value_t = 200_000)]
    pub(crate) operations: u64,
    /// Keys.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) keys: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 1024)]
    pub(crate) value_bytes: usize,
    /// Settings of the node.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Server processor time an operation: gets and puts beside the echo and Redis.
    Cpu(Common),
    /// Rate of synced puts beside the bare log writer.
    Durable(Common),
    /// Latency at half the maximum rate with and without a merge running.
    Merge(Common),
    /// Time from start to serving, after a clean stop and after SIGKILL.
    Start {
        #[command(flatten)]
        common: Common,
    },
    /// The echo itself; prints its port.
    #[command(hide = true)]
    Echo {
        #[arg(long)]
        request_bytes: usize,
        #[arg(long)]
        response_bytes: usize,
        #[arg(long)]
        log: Option<PathBuf>,
    },
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Cpu(common) => compare::cpu(&common),
        Command::Durable(common) => compare::durable(&common),
        Command::Merge(common) => compare::merge(&common),
        Command::Start { common } => start::start(&common),
        Command::Echo { request_bytes, response_bytes, log } => {
            let sizes = echo::Sizes { request: request_bytes, response: response_bytes };
            echo::serve(sizes, log.as_deref())
        }
    }
}
