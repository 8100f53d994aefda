//! Settings of source queues.

use crate::queues::filter::{QueueDefinition, QueueFilter};
use quoit_model::props::Quorum;
use quoit_number::saturating_u64;
use std::time::Duration;

/// Settings of source queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceQueueSettings {
    /// True if writes are queued (`replrtq_enablesrc`).
    pub is_enabled: bool,
    /// Queues at the first start (`replrtq_srcqueue`).
    pub queues: Vec<QueueDefinition>,
    /// Maximum number of entries of a queue with their objects in memory (`replrtq_srcobjectlimit`).
    pub object_count_max: usize,
    /// Maximum bytes of such an object (`replrtq_srcobjectsize`).
    pub object_bytes_max: usize,
    /// Maximum number of entries of a queue and priority (`replrtq_overflow_limit`).
    pub entry_count_max: u64,
    /// Maximum number of real-time entries of a queue in memory; later ones are read from disk.
    pub window_count_max: usize,
    /// True if objects are compressed on their way to Riak sinks (`replrtq_compressonwire`).
    pub compresses: bool,
    /// Number of replicas that have to answer when an entry's object is read for a sink, and that have
    /// to store an object from another cluster (`replrtq_vnodecheck`).
    pub vnode_check: Quorum,
    /// True if reaps are queued (`repl_reap`).
    pub queues_reaps: bool,
    /// True if objects from another Quoit cluster are queued as well (`repl.forward`).
    pub forwards: bool,
    /// Queue of the configured full-sync of all records; `None` if none is configured. Deletes that its
    /// filter leaves out wait for that full-sync.
    pub full_sync_queue: Option<String>,
    /// Longest time that reap records wait for sinks (`repl.retention`). A queue that is behind for
    /// longer is stale.
    pub retention: Duration,
}

impl SourceQueueSettings {
    /// Returns the retention in microseconds.
    pub(super) const fn retention_us(&self) -> u64 {
        saturating_u64(self.retention.as_micros())
    }
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
