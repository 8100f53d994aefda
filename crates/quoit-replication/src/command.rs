//! Commands of operators, in the form in which the administration API takes them and nodes forward
//! them.

use crate::bootstrap::BootstrapError;
use crate::full_sync::{CheckKind, RebaseFrom};
use crate::sinks::ChangeSinkError;
use quoit_core::{ChangeQueueError, VisitedCluster};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::pin::Pin;
use thiserror::Error;

/// A command about replication.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum ReplicationCommand {
    /// Returns all figures.
    Status,
    /// Adds a source queue, or replaces the filter of an existing one.
    QueueAdd {
        /// Its name.
        name: String,
        /// Filter of the writes that it takes.
        filter: String,
    },
    /// Removes a source queue with all its entries.
    QueueRemove {
        /// Its name.
        name: String,
    },
    /// Makes a source queue discard new entries.
    QueueSuspend {
        /// Its name.
        name: String,
    },
    /// Makes a source queue accept entries again.
    QueueResume {
        /// Its name.
        name: String,
    },
    /// Drops all entries of a source queue.
    QueueClear {
        /// Its name.
        name: String,
    },
    /// Lets a stale source queue be consumed again.
    AcceptResurrection {
        /// Its name.
        name: String,
    },
    /// Makes both clusters of a stale queue equal, with one of them deciding about deletes, and lets
    /// the queue be consumed again on all nodes.
    Rebase {
        /// Its name.
        name: String,
        /// Cluster that is right about records which the other one lacks.
        from: RebaseFrom,
        /// A node of the other cluster, as HOST:PORT:pb; `None` for the peer of full-sync.
        #[serde(default)]
        peer: Option<String>,
        /// True to only count what would be done.
        #[serde(default)]
        dry_run: bool,
    },
    /// Begins to consume a queue of another cluster.
    SinkAdd {
        /// Name of the queue.
        name: String,
        /// Nodes that have the queue, as HOST:PORT:pb.
        peers: Vec<String>,
        /// Number of entries that are stored at the same time.
        workers: Option<usize>,
        /// Number of connections to each peer; `None` for as many as `replrtq_sinkpeerlimit` allows.
        per_peer: Option<usize>,
    },
    /// Ends the consumption of a queue.
    SinkRemove {
        /// Name of the queue.
        name: String,
    },
    /// Suspends the consumption of a queue.
    SinkSuspend {
        /// Name of the queue.
        name: String,
    },
    /// Resumes the consumption of a queue.
    SinkResume {
        /// Name of the queue.
        name: String,
    },
    /// Changes the parallelism of a sink.
    SinkWorkers {
        /// Name of the queue.
        name: String,
        /// Number of entries that are stored at the same time.
        workers: usize,
        /// Number of connections to each peer; `None` for as many as `replrtq_sinkpeerlimit` allows.
        per_peer: Option<usize>,
    },
    /// Asks peers for the other nodes of their clusters.
    SinkDiscover,
    /// Copies all records of another cluster, on all nodes of this one.
    Bootstrap {
        /// Nodes of the other cluster, as HOST:PORT:pb.
        peers: Vec<String>,
    },
    /// Copies partitions of another cluster on the receiving node.
    BootstrapTake {
        /// Nodes of the other cluster, as HOST:PORT:pb.
        peers: Vec<String>,
        /// Partitions for each node of this cluster, by name.
        shares: BTreeMap<String, Vec<u16>>,
    },
    /// Stops a bootstrap.
    BootstrapStop,
    /// Resumes a bootstrap.
    BootstrapResume,
    /// Adopts changes of links that apply to all nodes.
    Share {
        /// The changes.
        changes: SharedChanges,
    },
    /// Returns the changes of links that apply to all nodes.
    Shared,
    /// Compares with the other cluster now.
    FullSyncRun {
        /// Scope of the repair.
        check: CheckKind,
    },
    /// Reports that a node begins to compare all records with another cluster.
    FullSyncBegun {
        /// Number of the comparison.
        check: u64,
    },
    /// Reports that the other cluster of a comparison lacks no record of this one.
    FullSyncEnded {
        /// Number of the comparison.
        check: u64,
        /// Queue here that the comparison used.
        queue: String,
        /// Id of the other cluster; `None` for a Riak cluster.
        cluster: Option<VisitedCluster>,
    },
    /// Pauses scheduled checks.
    FullSyncPause,
    /// Resumes scheduled checks.
    FullSyncResume,
    /// Skips the next auto checks.
    FullSyncSuppress {
        /// Number of checks to skip.
        count: u32,
    },
    /// Sets the records that the next range check repairs.
    FullSyncRangeSet {
        /// Bucket type and bucket, separated by a slash; `None` for all buckets.
        bucket: Option<String>,
        /// Time of modification before which records are left out, seconds since 1970.
        from_secs: u64,
        /// Time of modification after which records are left out, seconds since 1970.
        until_secs: Option<u64>,
    },
    /// Makes the next range check repair records that were modified since both clusters were in sync.
    FullSyncRangeClear,
    /// Sets the peer of full-sync.
    FullSyncSet {
        /// Address of the peer, as HOST:PORT:pb.
        peer: String,
        /// Queue here for records that are newer here.
        #[serde(default)]
        queue: Option<String>,
        /// Queue there for records that are newer there.
        #[serde(default)]
        peer_queue: Option<String>,
        /// With a Riak cluster, `n_val` here of the buckets that are compared.
        #[serde(default)]
        local_n_val: Option<u32>,
        /// With a Riak cluster, `n_val` there of these buckets.
        #[serde(default)]
        remote_n_val: Option<u32>,
    },
}

/// Future of a command's outcome. It is boxed, because some commands execute others.
pub type CommandOutcome<'a> =
    Pin<Box<dyn Future<Output = Result<Value, CommandError>> + Send + 'a>>;

/// Reason why a command was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CommandError {
    /// A source queue could not be changed.
    #[error(transparent)]
    Queue(#[from] ChangeQueueError),
    /// A sink could not be changed.
    #[error(transparent)]
    Sink(#[from] ChangeSinkError),
    /// A bootstrap could not begin.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
}

/// Version of a change. Changes are ordered by time, then by the node that received the command.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ChangeVersion {
    /// Microseconds since 1970; later than in all changes that the node knew.
    pub time_us: u64,
    /// Name of the node.
    pub node: String,
}

/// A change that applies to all nodes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SharedChange {
    /// Version of the change.
    pub version: ChangeVersion,
    /// Command that makes the change.
    pub command: Box<ReplicationCommand>,
}

/// The last change of each part of a link, by its name.
pub type SharedChanges = BTreeMap<String, SharedChange>;

impl ReplicationCommand {
    /// The queue, sink or full-sync that a command for all nodes changes, and the part of it; `None`
    /// for commands that change no link.
    pub(crate) fn target(&self) -> Option<(String, &'static str)> {
        use ReplicationCommand as C;
        Some(match self {
            C::QueueAdd { name, .. } | C::QueueRemove { name } => {
                (format!("queue {name}"), DEFINITION)
            }
            C::QueueSuspend { name } | C::QueueResume { name } => {
                (format!("queue {name}"), "suspension")
            }
            C::SinkAdd { name, .. } | C::SinkRemove { name } => {
                (format!("sink {name}"), DEFINITION)
            }
            C::SinkSuspend { name } | C::SinkResume { name } => {
                (format!("sink {name}"), "suspension")
            }
            C::SinkWorkers { name, .. } => (format!("sink {name}"), "workers"),
            C::FullSyncPause | C::FullSyncResume => ("full-sync".to_owned(), "pause"),
            C::FullSyncSet { .. } => ("full-sync".to_owned(), "peer"),
            _ => return None,
        })
    }
}

/// The part of a link whose change invalidates earlier changes of its other parts.
pub(crate) const DEFINITION: &str = "definition";
