//! `quoit admin cluster`, and the commands about members outside of it.

mod handoff;
mod links;
mod member_table;
mod plan;
mod recover;
mod restore;
mod status_pages;
mod unstaged;

pub(super) use handoff::{
    HandoffCommand, LimitArgs, handoff, transfer_limit, transfer_rate, transfers,
};
pub(super) use member_table::bar;
pub(super) use status_pages::{
    WaitArgs, member_status, ring_ready, ring_status, services, wait_for_service,
};
pub(super) use unstaged::{UnstagedArgs, force_remove, join, leave};

use super::{Api, document_of, plain, print, segment};
use anyhow::Result;
use clap::Subcommand;
use quoit_cli::Format;
use serde_json::{Value, json};

#[derive(Subcommand, Debug)]
pub(crate) enum ClusterCommand {
    /// Stage a join of this node to the cluster of another node.
    Join {
        /// Any member: its internode address, for example 10.0.0.1:8099 or riak@10.0.0.1 (port 8099).
        node: String,
        #[command(flatten)]
        token: links::TokenSource,
    },
    /// Create the cluster's certificate authority, which issues the certificates of the members, unless it
    /// exists.
    Init,
    /// Create a token with which a node joins, and print it once; list or revoke tokens.
    Token(links::TokenArgs),
    /// Print the security of connections between nodes; rotate the certificate authority.
    Tls(links::TlsArgs),
    /// Stage a node's departure; the node first hands over its data.
    Leave {
        /// Name of the node [default: the node asked].
        node: Option<String>,
    },
    /// Stage the removal of a node without handing over its data: records that only it has are lost.
    ForceRemove {
        /// Name of the node.
        node: String,
    },
    /// Stage the replacement of a node by another node, to which it first hands over everything.
    Replace {
        /// Name of the node that leaves.
        old: String,
        /// Name of the node that takes its place; it joins in the same plan or has no partitions.
        new: String,
    },
    /// Stage the replacement of a lost node by another, empty node.
    ForceReplace {
        /// Name of the lost node.
        old: String,
        /// Name of the node that takes its place; it joins in the same plan or has no partitions.
        new: String,
    },
    /// Stage the location of a node, a rack or zone; replicas are placed in different locations.
    Location {
        /// Name of the location.
        location: String,
        /// Name of the node [default: the node asked].
        #[arg(long, short)]
        node: Option<String>,
    },
    /// Stage a node's capacity, its share of the data relative to other nodes; 100 is usual.
    Capacity {
        /// The capacity, 1 to 1000000.
        capacity: u32,
        /// Name of the node [default: the node asked].
        #[arg(long, short)]
        node: Option<String>,
    },
    /// Print the staged changes and their effects.
    Plan,
    /// Commit the plan that was printed.
    Commit,
    /// Discard the staged changes.
    Clear,
    /// Print the members, their reachability, and their shares.
    Status,
    /// Print the partitions of a node.
    Partitions {
        /// Name of the node [default: the node asked].
        #[arg(long, short)]
        node: Option<String>,
    },
    /// Print one partition.
    Partition {
        /// id=N or index=N.
        partition: String,
    },
    /// Print the number of partitions, of the cluster or of a node.
    PartitionCount {
        /// Name of the node.
        #[arg(long, short)]
        node: Option<String>,
    },
    /// Let a stopped node decide alone, as the only voter, after a majority of the voters was lost for good.
    Recover(recover::RecoverArgs),
    /// Prepare copies of stopped nodes' data to start as a cluster; without options, show a copy.
    Restore(restore::RestoreArgs),
}

/// Executes a command of `quoit admin cluster`.
pub(crate) fn cluster(api: &Api, command: &ClusterCommand, format: Format) -> Result<()> {
    use ClusterCommand as C;
    let (path, body) = match command {
        C::Plan => return plan::show(api, format),
        C::Commit => return plan::commit(api, format),
        C::Clear => return plan::clear(api, format),
        C::Status => return status_pages::cluster_status(api, format),
        C::Partitions { node } => return status_pages::partitions(api, node.as_deref(), format),
        C::Partition { partition } => return status_pages::partition(api, partition, format),
        C::Recover(args) => return recover::recover(args, format),
        C::Restore(args) => return restore::restore_node(args, format),
        C::PartitionCount { node } => {
            return status_pages::partition_count(api, node.as_deref(), format);
        }
        C::Join { node, token } => {
            ("join", json!({ "address": address(node), "token": token.read()? }))
        }
        C::Init => return links::init(api, format),
        C::Token(args) => return links::token(api, args, format),
        C::Tls(args) => return links::tls(api, args, format),
        C::Leave { node } => ("leave", json!({ "node": node })),
        C::ForceRemove { node } => ("force-remove", json!({ "node": node })),
        C::Replace { old, new } => ("replace", json!({ "old": old, "new": new })),
        C::ForceReplace { old, new } => ("force-replace", json!({ "old": old, "new": new })),
        C::Location { location, node } => {
            ("location", json!({ "location": location, "node": node }))
        }
        C::Capacity { capacity, node } => {
            ("capacity", json!({ "capacity": capacity, "node": node }))
        }
    };
    change(api, path, &body, format)
}

/// Marks a node as down.
pub(crate) fn down(api: &Api, node: &str, format: Format) -> Result<()> {
    change(api, "down", &json!({ "node": node }), format)
}

/// Requests a change, and prints the node's answer.
fn change(api: &Api, path: &str, body: &Value, format: Format) -> Result<()> {
    let answer = document_of(api.post(&format!("cluster/{path}"), Some(body))?, format)?;
    print(&answer, format, |document| plain(&document["message"]));
    Ok(())
}

/// Default port of the internode listener.
const NODE_PORT: u16 = 8099;

/// The address that an operator has given: `host:port`, or a node's name as for Riak's commands.
fn address(node: &str) -> String {
    let host = node.rsplit_once('@').map_or(node, |(_, host)| host);
    let has_port = host.rsplit_once(':').is_some_and(|(host, port)| {
        port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
    });
    if has_port { host.to_owned() } else { format!("{host}:{NODE_PORT}") }
}

/// Adds a query for a node to a path, if one is given.
fn of_node(path: &str, node: Option<&str>) -> String {
    node.map_or_else(|| path.to_owned(), |node| format!("{path}?node={}", segment(node)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_to_join_are_given_by_address_or_by_name() {
        for (given, expected) in [
            ("10.0.0.1:9000", "10.0.0.1:9000"),
            ("riak@10.0.0.1", "10.0.0.1:8099"),
            ("riak@db1.example:9000", "db1.example:9000"),
            ("db1", "db1:8099"),
            ("[::1]:9000", "[::1]:9000"),
            ("[::1]", "[::1]:8099"),
        ] {
            assert_eq!(address(given), expected);
        }
    }
}
