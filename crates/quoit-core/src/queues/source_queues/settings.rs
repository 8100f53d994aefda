//! Settings of source queues.

use crate::queues::filter::{QueueDefinition, QueueFilter};
use quoit_model::props::Quorum;
use std::time::Duration;

/// Settings of source queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceQueueSettings {
    /// Whether writes are queued at all (`replrtq_enablesrc`).
    pub is_enabled: bool,
    /// Queues that there are at first (`replrtq_srcqueue`).
    pub queues: Vec<QueueDefinition>,
    /// Entries of a queue that have their object with them in memory (`replrtq_srcobjectlimit`).
    pub object_count_max: usize,
    /// Bytes of such an object at most (`replrtq_srcobjectsize`).
    pub object_bytes_max: usize,
    /// Entries of a queue and priority at most (`replrtq_overflow_limit`).
    pub entry_count_max: u64,
    /// Real-time entries of a queue that are in memory; those behind are read from the disk.
    pub window_count_max: usize,
    /// Whether objects are compressed on their way to Riak sinks (`replrtq_compressonwire`).
    pub compresses: bool,
    /// Replicas that answer when an entry's object is read from the cluster, and that take an object from
    /// another cluster (`replrtq_vnodecheck`).
    pub vnode_check: Quorum,
    /// Whether reaps are queued (`repl_reap`).
    pub queues_reaps: bool,
    /// Whether what has come from another Quoit cluster is queued, too (`repl.forward`).
    pub forwards: bool,
    /// The queue of a full-sync of all records that is configured: deletes that its filter leaves out wait
    /// for that full-sync. `None` where none is configured.
    pub full_sync_queue: Option<String>,
    /// The longest that reap records wait for sinks (`repl.retention`). A queue with an older entry is stale.
    pub retention: Duration,
}

impl Default for SourceQueueSettings {
    fn default() -> Self {
        let block =
            QueueDefinition { name: "q1_ttaaefs".to_owned(), filter: QueueFilter::BlockRealTime };
        Self {
            is_enabled: false,
            queues: vec![block],
            object_count_max: 1_000,
            object_bytes_max: 200 << 10,
            entry_count_max: 10_000_000,
            window_count_max: 10_000,
            compresses: false,
            vnode_check: Quorum::One,
            queues_reaps: false,
            forwards: true,
            full_sync_queue: None,
            retention: Duration::from_secs(7 * 86_400),
        }
    }
}
