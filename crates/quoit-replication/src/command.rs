//! Commands of operators, as the administration API takes them and nodes send them to each other.

use crate::bootstrap::BootstrapError;
use crate::full_sync::{CheckKind, RebaseFrom};
use crate::sinks::ChangeSinkError;
use quoit_core::{ChangeQueueError, CheckNumber, VisitedCluster};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::pin::Pin;
use thiserror::Error;

/// A command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum ReplicationCommand {
    /// Tells all figures.
    Status,
    /// Adds a source queue, or gives one another filter.
    QueueAdd {
        /// Its name.
        name: String,
        /// The writes that it takes.
        filter: String,
    },
    /// Removes a source queue and all that waits in it.
    QueueRemove {
        /// Its name.
        name: String,
    },
    /// Has new entries of a source queue discarded.
    QueueSuspend {
        /// Its name.
        name: String,
    },
    /// Has a source queue take entries again.
    QueueResume {
        /// Its name.
        name: String,
    },
    /// Forgets all that waits in a source queue.
    QueueClear {
        /// Its name.
        name: String,
    },
    /// Has a stale source queue consumed again.
    AcceptResurrection {
        /// Its name.
        name: String,
    },
    /// Makes both clusters of a stale queue equal by what one of them has, and has it consumed again on all
    /// nodes.
    Rebase {
        /// Its name.
        name: String,
        /// The cluster that is right about records that the other one lacks.
        from: RebaseFrom,
        /// A node of the other cluster, HOST:PORT:pb; `None`: that of full-sync.
        #[serde(default)]
        peer: Option<String>,
        /// Whether it is only counted what would be done.
        #[serde(default)]
        dry_run: bool,
    },
    /// Consumes a queue of another cluster.
    SinkAdd {
        /// Name of the queue.
        name: String,
        /// Nodes that have it, HOST:PORT:pb.
        peers: Vec<String>,
        /// Entries that are stored at the same time.
        workers: Option<usize>,
        /// Connections to each peer.
        per_peer: Option<usize>,
    },
    /// Consumes a queue no longer.
    SinkRemove {
        /// Name of the queue.
        name: String,
    },
    /// Has consumption rest.
    SinkSuspend {
        /// Name of the queue.
        name: String,
    },
    /// Has consumption go on.
    SinkResume {
        /// Name of the queue.
        name: String,
    },
    /// Changes how much is done at the same time.
    SinkWorkers {
        /// Name of the queue.
        name: String,
        /// Entries that are stored at the same time.
        workers: usize,
        /// Connections to each peer.
        per_peer: Option<usize>,
    },
    /// Asks peers for the other nodes of their clusters.
    SinkDiscover,
    /// Copies all that another cluster has, by all nodes of this one.
    Bootstrap {
        /// Nodes of the other cluster, HOST:PORT:pb.
        peers: Vec<String>,
    },
    /// Copies partitions of another cluster.
    BootstrapTake {
        /// Nodes of the other cluster, HOST:PORT:pb.
        peers: Vec<String>,
        /// The partitions of each node of this cluster, by name.
        shares: BTreeMap<String, Vec<u16>>,
    },
    /// Has a copy rest.
    BootstrapStop,
    /// Has a copy go on.
    BootstrapResume,
    /// Takes over changes of links that hold on all nodes.
    Share {
        /// The changes.
        changes: SharedChanges,
    },
    /// Tells the changes of links that hold on all nodes.
    Shared,
    /// Compares with the other cluster now.
    FullSyncRun {
        /// Scope of the repair.
        check: CheckKind,
    },
    /// A node tells that it begins to compare all records with another cluster.
    FullSyncBegun {
        /// Number of the comparison.
        check: CheckNumber,
    },
    /// A node tells that the other cluster of a comparison lacks nothing that this one has.
    FullSyncEnded {
        /// Number of the comparison.
        check: CheckNumber,
        /// The queue here that the comparison used.
        queue: String,
        /// The other cluster's id; `None` of a Riak.
        cluster: Option<VisitedCluster>,
    },
    /// Has scheduled checks rest.
    FullSyncPause,
    /// Has scheduled checks go on.
    FullSyncResume,
    /// Leaves out the next auto checks.
    FullSyncSuppress {
        /// How many.
        count: u32,
    },
    /// Has the next range check repair these records.
    FullSyncRangeSet {
        /// Bucket type and bucket, with a slash between them; all buckets if there is none.
        bucket: Option<String>,
        /// Records modified earlier are left out, seconds since 1970.
        from_secs: u64,
        /// Records modified later are left out, seconds since 1970.
        until_secs: Option<u64>,
    },
    /// Has the next range check repair what was modified since both clusters were in sync.
    FullSyncRangeClear,
    /// Has full-sync compare with another peer.
    FullSyncSet {
        /// HOST:PORT:pb.
        peer: String,
        /// The queue here for what is newer here.
        #[serde(default)]
        queue: Option<String>,
        /// The queue there for what is newer there.
        #[serde(default)]
        peer_queue: Option<String>,
        /// With a Riak, the n_val here of the buckets that are compared.
        #[serde(default)]
        local_n_val: Option<u32>,
        /// With a Riak, their n_val there.
        #[serde(default)]
        remote_n_val: Option<u32>,
    },
}

/// The outcome of a command, once it is done. It has a type of its own, since some commands do others.
pub type CommandOutcome<'a> =
    Pin<Box<dyn Future<Output = Result<Value, CommandError>> + Send + 'a>>;

/// Why a command was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CommandError {
    /// A source queue could not be changed.
    #[error(transparent)]
    Queue(#[from] ChangeQueueError),
    /// A sink could not be changed.
    #[error(transparent)]
    Sink(#[from] ChangeSinkError),
    /// A copy of another cluster could not begin.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
}

/// The order of changes: by time, and by the node that was given the command.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ChangeVersion {
    /// Microseconds since 1970, later than those of all changes that the node knew.
    pub time_us: u64,
    /// Name of the node.
    pub node: String,
}

/// A change that holds on all nodes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SharedChange {
    /// Its place in the order.
    pub version: ChangeVersion,
    /// The command that makes it.
    pub command: Box<ReplicationCommand>,
}

/// The last change of each thing.
pub type SharedChanges = BTreeMap<String, SharedChange>;

impl ReplicationCommand {
    /// The thing that a command for all nodes changes, and the part of it; `None` of commands that change no
    /// link.
    pub(crate) fn thing(&self) -> Option<(String, &'static str)> {
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

/// The part of a thing that the others are void without.
pub(crate) const DEFINITION: &str = "definition";
