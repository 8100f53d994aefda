//! Benchmarks of Quoit. Each compares the node with other servers in interleaved rounds of one run, so that
//! other activity of the machine affects all of them alike.
//!
//! The other servers are an echo server (a lower bound for any server on this kernel), a group-committed
//! log writer (a lower bound for any durable server on this disk), and Redis.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![expect(clippy::print_stdout, reason = "the benchmarks' output")]

mod account;
mod admin;
mod away;
mod client;
mod cluster;
mod compare;
mod connections;
mod data_exchange;
mod data_types;
mod dev_cluster;
mod drive;
mod echo;
mod engines;
mod failover;
mod growth;
mod hostile;
mod idle;
mod import;
mod instructions;
mod ladder;
mod large;
mod link;
mod listing;
mod live;
mod lost;
mod mesh;
mod messages;
mod metrics;
mod processes;
mod processors;
mod protocol;
mod reaping;
mod replication;
mod report;
mod servers;
mod start;
mod summary;
mod tls;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Parser, Debug)]
#[command(about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Options of all comparisons.
#[derive(Args, Clone, Debug)]
pub(crate) struct CommonOptions {
    /// The quoit binary, a release build [default: the one beside this program].
    #[arg(long, default_value_os_t = beside("quoit"), hide_default_value = true)]
    pub(crate) quoit: PathBuf,
    /// Directory for data, on the disk to measure; temporary folders are made in it [default: the directory
    /// of this program].
    #[arg(long, default_value_os_t = beside("."), hide_default_value = true)]
    pub(crate) dir: PathBuf,
    /// Interleaved rounds; medians are printed.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Number of operations of each measurement.
    #[arg(long, default_value_t = 200_000)]
    pub(crate) operations: u64,
    /// Number of keys.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) keys: u64,
    /// Size of a value, in bytes.
    #[arg(long, default_value_t = 1024)]
    pub(crate) value_bytes: usize,
    /// Let the driver sleep while it waits. The servers then also spend time on waking it.
    #[arg(long)]
    pub(crate) sleeping_driver: bool,
    /// Let servers and driver share all processors. Otherwise the driver has a processor of its own.
    #[arg(long)]
    pub(crate) shared_processors: bool,
    /// Settings of the node.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Server processor time per operation: gets and puts, compared with the echo server and Redis.
    Cpu(CommonOptions),
    /// Server processor time of gets and puts of large values, compared with the echo server.
    Large(large::LargeOptions),
    /// Rate of synced puts, compared with the bare log writer.
    Durable(CommonOptions),
    /// Latency at half the maximum rate, with and without a running merge.
    Merge(CommonOptions),
    /// Server processor time of operations on counters, sets and maps of several sizes.
    DataTypes(CommonOptions),
    /// Listing of keys and buckets, alone and concurrent with gets.
    Listing(CommonOptions),
    /// Time from start until the node serves, after a clean stop and after SIGKILL.
    Start {
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Load profiles on all storage engines: rates, latencies, bytes, disk space, memory.
    Engines(engines::EngineOptions),
    /// Processor time of all nodes per operation: three nodes compared with one.
    Cluster(CommonOptions),
    /// Processor time of all nodes per operation for growing clusters, with replica-aware clients and with
    /// others.
    Ladder(ladder::LadderOptions),
    /// Messages, bytes and system calls between nodes per request, compared with the fewest possible.
    Messages(messages::MessageOptions),
    /// Latencies in each second when a node of a cluster under verified load is killed.
    Failover(failover::FailoverOptions),
    /// Healing of a node that was down under verified load.
    Away(away::AwayOptions),
    /// Healing of a node whose store lost its last records.
    Lost(lost::LostOptions),
    /// A cluster that grows under verified load: the data that moves, and the effect on latencies.
    Growth(growth::GrowthOptions),
    /// Instructions of gets and puts, counted by callgrind, compared with another build.
    Instructions(instructions::InstructionOptions),
    /// Breakdown of a get and of puts: instructions by part of the program, cache misses, system calls,
    /// switches.
    Account(CommonOptions),
    /// Reaping of many tombstones: time, processor time, and the effect on gets.
    Reaping(reaping::ReapingOptions),
    /// Replication between two nodes: bootstrap, full-sync, cost of a link, and delay until a write is
    /// readable.
    Replication(replication::ReplicationOptions),
    /// Rate of `quoit import run` for directories of each engine of Riak.
    Import(import::ImportOptions),
    /// Processor time of gets and puts over TLS, compared with unencrypted connections.
    Tls(CommonOptions),
    /// Processor time of gets and puts of three nodes with mutual TLS between them, compared with no TLS.
    NodeTls(CommonOptions),
    /// Processor time of handshakes, and their effect on requests.
    Handshakes(tls::HandshakeOptions),
    /// Latencies of gets, and memory, beside many connections that do not read or do not end.
    Hostile(hostile::HostileOptions),
    /// Memory and processor time of a node with many idle connections, and fairness among many active
    /// ones.
    Connections(connections::ConnectionOptions),
    /// Instructions of a permission check, counted by callgrind.
    Rights(CommonOptions),
    /// The load generator's own processor time per get, compared with redis-benchmark.
    Client(client::ClientOptions),
    /// One kind of exchange against a running node: for profilers.
    Drive {
        #[command(flatten)]
        common: CommonOptions,
        /// The node's address for the exchange's protocol.
        #[arg(long)]
        address: SocketAddr,
        /// The node's process id.
        #[arg(long)]
        pid: u32,
        /// Exchange to drive.
        #[arg(long, value_enum)]
        exchange: compare::NamedExchange,
    },
    /// The echo server. It prints its port.
    #[command(hide = true)]
    Echo {
        #[arg(long)]
        request_bytes: usize,
        #[arg(long)]
        response_bytes: usize,
        #[arg(long)]
        log: Option<PathBuf>,
    },
    /// A process of the mesh. It prints its port and reads the ports of the others.
    #[command(hide = true)]
    Mesh {
        #[arg(long)]
        request_bytes: usize,
        #[arg(long)]
        response_bytes: usize,
    },
}

impl Command {
    const fn common(&self) -> Option<&CommonOptions> {
        match self {
            Self::Cpu(common)
            | Self::Durable(common)
            | Self::Merge(common)
            | Self::DataTypes(common)
            | Self::Listing(common)
            | Self::Cluster(common)
            | Self::Tls(common)
            | Self::NodeTls(common)
            | Self::Rights(common)
            | Self::Account(common)
            | Self::Start { common }
            | Self::Drive { common, .. } => Some(common),
            Self::Instructions(options) => Some(options.common()),
            Self::Large(options) => Some(options.common()),
            Self::Reaping(options) => Some(options.common()),
            Self::Replication(options) => Some(&options.common),
            Self::Handshakes(options) => Some(options.common()),
            Self::Hostile(options) => Some(options.common()),
            Self::Connections(options) => Some(options.common()),
            // The load generator has several threads, and shares the processors with the nodes.
            Self::Engines(_)
            | Self::Ladder(_)
            | Self::Messages(_)
            | Self::Failover(_)
            | Self::Away(_)
            | Self::Growth(_)
            | Self::Lost(_)
            | Self::Import(_)
            | Self::Client(_)
            | Self::Echo { .. }
            | Self::Mesh { .. } => None,
        }
    }
}

/// A path in the directory of this program.
pub(crate) fn beside(name: &str) -> PathBuf {
    std::env::current_exe().map_or_else(|_| name.into(), |program| program.with_file_name(name))
}

fn main() -> Result<()> {
    let command = Cli::parse().command;
    if let Some(common) = command.common() {
        processors::reserve_driver_cpu(common.shared_processors)?;
    }
    match command {
        Command::Cpu(common) => compare::cpu(&common),
        Command::Large(options) => large::large(&options),
        Command::Durable(common) => compare::durable(&common),
        Command::Merge(common) => compare::merge(&common),
        Command::Listing(common) => listing::listing(&common),
        Command::DataTypes(common) => data_types::data_types(&common),
        Command::Start { common } => start::start(&common),
        Command::Cluster(common) => cluster::cluster(&common),
        Command::Ladder(options) => ladder::ladder(&options),
        Command::Messages(options) => messages::messages(&options),
        Command::Failover(options) => failover::failover(&options),
        Command::Away(options) => away::away(&options),
        Command::Replication(options) => replication::replication(&options),
        Command::Import(options) => import::import(&options),
        Command::Lost(options) => lost::lost(&options),
        Command::Growth(options) => growth::growth(&options),
        Command::Engines(options) => engines::engines(&options),
        Command::Instructions(options) => instructions::instructions(&options),
        Command::Account(common) => account::account(&common),
        Command::Reaping(options) => reaping::reaping(&options),
        Command::Tls(common) => tls::tls(&common),
        Command::NodeTls(common) => tls::nodes(&common),
        Command::Handshakes(options) => tls::handshakes(&options),
        Command::Hostile(options) => hostile::hostile(&options),
        Command::Connections(options) => connections::connections(&options),
        Command::Rights(common) => tls::rights(&common),
        Command::Client(options) => client::client(&options),
        Command::Drive { common, address, pid, exchange } => {
            compare::one(&common, address, pid, exchange)
        }
        Command::Echo { request_bytes, response_bytes, log } => {
            let sizes = echo::Sizes { request: request_bytes, response: response_bytes };
            echo::serve(sizes, log.as_deref())
        }
        Command::Mesh { request_bytes, response_bytes } => {
            mesh::serve(echo::Sizes { request: request_bytes, response: response_bytes })
        }
    }
}
