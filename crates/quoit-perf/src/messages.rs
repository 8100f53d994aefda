//! Messages, bytes and system calls between nodes for each request, compared with the fewest messages
//! possible.
//!
//! The nodes count what they send. So the figures do not depend on the speed of the machine, except for the
//! number of messages that share a write.

use crate::dev_cluster::DevCluster;
use crate::drive::{Load, drive};
use crate::metrics::gauges;
use crate::processors;
use crate::protocol::Exchange;
use crate::servers::NodeProgram;
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;

/// Number of copies of each record.
const N_VAL: u64 = 3;

/// Options of the count.
#[derive(Args, Clone, Debug)]
pub(crate) struct MessageOptions {
    /// The quoit binary, a release build [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::beside("quoit"), hide_default_value = true)]
    quoit: PathBuf,
    /// Directory for data; temporary folders are made in it [default: where this program is].
    #[arg(long, default_value_os_t = crate::beside("."), hide_default_value = true)]
    dir: PathBuf,
    /// Sizes of the clusters.
    #[arg(long, value_delimiter = ',', default_value = "3,5,9,14")]
    nodes: Vec<usize>,
    /// Numbers of connections to each node, with one request in flight each.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100")]
    connections_per_node: Vec<usize>,
    /// Number of requests of each run.
    #[arg(long, default_value_t = 200_000)]
    operations: u64,
    /// Number of keys.
    #[arg(long, default_value_t = 20_000)]
    keys: u64,
    /// Size of a value, in bytes.
    #[arg(long, default_value_t = 1000)]
    value_bytes: usize,
    /// Settings of the nodes. By default no write waits for the disk.
    #[arg(long = "set", value_name = "KEY=VALUE", default_value = "buckets.default.dw=0")]
    set: Vec<String>,
}

/// Counts of all nodes together.
#[derive(Clone, Copy, Default)]
struct Counts {
    messages: u64,
    bytes: u64,
    writes: u64,
    reads: u64,
    /// Requests of coordinators to replicas.
    requests: u64,
}

impl Counts {
    fn of(cluster: &DevCluster) -> Result<Self> {
        let mut all = Self::default();
        for node in &cluster.nodes {
            let [messages, bytes, writes, reads, fetches, stores, joins, forwards] = gauges(
                node.http,
                [
                    "quoit_internode_sent_messages_total",
                    "quoit_internode_sent_bytes_total",
                    "quoit_internode_writes_total",
                    "quoit_internode_reads_total",
                    "quoit_internode_requests_total{kind=\"fetch\"}",
                    "quoit_internode_requests_total{kind=\"store\"}",
                    "quoit_internode_requests_total{kind=\"join\"}",
                    "quoit_internode_requests_total{kind=\"forward\"}",
                ],
            )?;
            all.messages += messages;
            all.bytes += bytes;
            all.writes += writes;
            all.reads += reads;
            all.requests += fetches + stores + joins + forwards;
        }
        Ok(all)
    }

    const fn since(self, earlier: Self) -> Self {
        Self {
            messages: self.messages - earlier.messages,
            bytes: self.bytes - earlier.bytes,
            writes: self.writes - earlier.writes,
            reads: self.reads - earlier.reads,
            requests: self.requests - earlier.requests,
        }
    }
}

/// Fewest messages of a request of a client that asks any node: `at_primary` if the node is one of the
/// record's primaries, else two more.
fn fewest(node_count: usize, at_primary: u64) -> f64 {
    let primaries = N_VAL.min(node_count as u64) as f64;
    at_primary as f64 + 2.0 * (1.0 - primaries / node_count as f64)
}

/// Counts gets and puts in clusters of each size, and prints a row for each number of connections.
pub(crate) fn messages(options: &MessageOptions) -> Result<()> {
    println!("clients that ask any node, n_val=3, r=w=2, values of {} bytes", options.value_bytes);
    processors::reserve_driver_cpu(true)?;
    println!(
        "| nodes | connections a node | request | fewest messages | messages | above | of requests \
         to replicas | bytes | writes a message | reads a message | op/s |"
    );
    println!("|{}", "---|".repeat(11));
    for node_count in &options.nodes {
        count(options, *node_count).with_context(|| format!("{node_count} nodes"))?;
    }
    Ok(())
}

fn count(options: &MessageOptions, node_count: usize) -> Result<()> {
    let dir = tempfile::tempdir_in(&options.dir)?;
    let program = NodeProgram { binary: &options.quoit, set: &options.set };
    let cluster = DevCluster::start(program, dir.path(), node_count)?;
    let put = Exchange::PbPut { value_bytes: options.value_bytes, dw: None };
    let load = |exchange: Exchange, connections_per_node: usize| Load {
        exchange,
        connections: connections_per_node * node_count,
        operations: options.operations,
        value_bytes: options.value_bytes,
        first_key: 0,
        key_count: options.keys,
        sequential: false,
        rate: None,
        sleeps: true,
        seed: 0,
    };
    let fill = Load { operations: options.keys, sequential: true, ..load(put.clone(), 10) };
    drive(&cluster.target(), &fill).context("filling the store")?;
    // While partitions move, requests go to the primaries of two layouts.
    cluster.settle(&options.quoit)?;
    for connections in &options.connections_per_node {
        for (name, exchange, at_primary) in [("get", Exchange::PbGet, 2), ("put", put.clone(), 4)] {
            let before = Counts::of(&cluster)?;
            let measured = drive(&cluster.target(), &load(exchange, *connections))?;
            let counts = Counts::of(&cluster)?.since(before);
            let operations = measured.operations as f64;
            let least = fewest(node_count, at_primary);
            let messages = counts.messages as f64 / operations;
            println!(
                "| {node_count} | {connections} | {name} | {least:.2} | {messages:.2} | {:+.1} % \
                 | {:.2} | {:.0} | {:.2} | {:.2} | {:.0} |",
                (messages / least - 1.0) * 100.0,
                2.0 * counts.requests as f64 / operations,
                counts.bytes as f64 / operations,
                counts.writes as f64 / counts.messages as f64,
                counts.reads as f64 / counts.messages as f64,
                measured.rate(),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_no_primary_adds_a_request_and_an_answer() {
        assert!((fewest(3, 2) - 2.0).abs() < 1e-9);
        assert!((fewest(14, 2) - (4.0 - 6.0 / 14.0)).abs() < 1e-9);
        assert!((fewest(14, 4) - (6.0 - 6.0 / 14.0)).abs() < 1e-9);
    }
}
