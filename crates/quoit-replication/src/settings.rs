//! Settings of sinks.

use crate::address::PeerAddress;
use crate::bucket_types::BucketTypeMode;
use crate::full_sync::FullSyncSettings;
use quoit_client::LoginSettings;
use std::time::Duration;

/// Settings of the node as a sink of other clusters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SinkSettings {
    /// True if the node consumes queues of other clusters (`replrtq_enablesink`).
    pub is_enabled: bool,
    /// Queue of peers that are configured without one (`replrtq_sinkqueue`).
    pub queue: String,
    /// Nodes of other clusters (`replrtq_sinkpeers`).
    pub peers: Vec<PeerAddress>,
    /// Number of entries of a queue that are stored at the same time (`replrtq_sinkworkers`).
    pub worker_count: usize,
    /// Maximum number of connections to each peer of a queue (`replrtq_sinkpeerlimit`); `None` for as
    /// many as the queue has workers.
    pub peer_limit: Option<usize>,
    /// True if peers are asked for the other nodes of their clusters (`replrtq_peer_discovery`).
    pub discovers: bool,
    /// Longest time between two such requests, in seconds (`replrtq_prompt_max_seconds`).
    pub prompt_secs_max: u64,
    /// Login at peers, over TLS (`repl_username` and related settings).
    pub login: Option<LoginSettings>,
    /// Interval between two log lines about source queues (`replrtq_logfrequency`).
    pub log_interval: Duration,
    /// Name of the node, which it sends to peers.
    pub node_name: String,
    /// Bucket types that are adopted from other clusters (`repl.bucket_types`).
    pub bucket_types: BucketTypeMode,
    /// Settings of full-sync.
    pub full_sync: FullSyncSettings,
}

impl SinkSettings {
    /// Number of connections to each peer of a queue with this number of workers, if no command says
    /// otherwise.
    pub(crate) fn peer_limit_of(&self, worker_count: usize) -> usize {
        self.peer_limit.unwrap_or(worker_count).min(worker_count)
    }
}

impl Default for SinkSettings {
    fn default() -> Self {
        Self {
            is_enabled: false,
            queue: "q1_ttaaefs".to_owned(),
            peers: Vec::new(),
            worker_count: 24,
            peer_limit: None,
            discovers: false,
            prompt_secs_max: 900,
            login: None,
            log_interval: Duration::from_secs(30),
            node_name: String::new(),
            bucket_types: BucketTypeMode::Off,
            full_sync: FullSyncSettings::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_gets_as_many_connections_as_there_are_workers_unless_the_setting_says_fewer() {
        let unset = SinkSettings { worker_count: 8, ..SinkSettings::default() };
        assert_eq!((unset.peer_limit_of(4), unset.peer_limit_of(100)), (4, 100));
        let set = SinkSettings { peer_limit: Some(6), ..unset };
        assert_eq!((set.peer_limit_of(4), set.peer_limit_of(100)), (4, 6));
    }
}
