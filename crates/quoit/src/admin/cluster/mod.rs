//! `quoit admin cluster` and the commands about members that stand beside it.

mod looks;
mod words;

pub(super) use looks::{
    WaitArgs, member_status, ring_ready, ring_status, services, wait_for_service,
};

use super::{Api, done, plain, print, segment};
use crate::config_command::Format;
use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub(crate) enum ClusterCommand {
    /// Print the members, whether they can be reached, and their shares.
    Status,
    /// Print the partitions of a node.
    Partitions {
        /// The node's name [default: the node asked].
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
        /// The node's name.
        #[arg(long, short)]
        node: Option<String>,
    },
}

/// Runs a command of `quoit admin cluster`.
pub(crate) fn cluster(api: &Api, command: &ClusterCommand, format: Format) -> Result<()> {
    use ClusterCommand as C;
    match command {
        C::Status => looks::cluster_status(api, format),
        C::Partitions { node } => looks::partitions(api, node.as_deref(), format),
        C::Partition { partition } => looks::partition(api, partition, format),
        C::PartitionCount { node } => looks::partition_count(api, node.as_deref(), format),
    }
}

/// A query that names a node, if there is one to name.
fn of_node(path: &str, node: Option<&str>) -> String {
    node.map_or_else(|| path.to_owned(), |node| format!("{path}?node={}", segment(node)))
}
