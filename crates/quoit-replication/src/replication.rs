//! Replication of a node: its sinks and its full-sync, in one object for the program and for operators.

use crate::address::{PeerAddress, Protocol};
use crate::bootstrap::Bootstrap;
use crate::bucket_types::TypeFollower;
use crate::dialer::PeerDialer;
use crate::figures::SinkStatus;
use crate::full_sync::{CheckKind, FullSync, FullSyncChange, FullSyncReport, FullSyncStatus};
use crate::kept_changes::{KeptFullSync, kept_file};
use crate::links::SharedLinks;
use crate::log_lines::{QueueLines, SinkLines};
use crate::settings::SinkSettings;
use crate::sink_definition::SinkDefinition;
use crate::sinks::{ChangeSinkError, Sinks, WorkerLimits};
use quoit_core::ReplicatedStore;
use quoit_seam::Disk;
use quoit_store::error::StoreError;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Shortest time between two requests for the nodes of other clusters, in seconds
/// (`replrtq_prompt_min_seconds`).
const PROMPT_SECS_MIN: u64 = 60;
/// Interval between two log lines about a sink.
const SINK_LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Time in which a peer has to name the nodes of its cluster.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Replication of a node from other clusters. It does nothing before [`Replication::run`].
pub struct Replication {
    store: Arc<ReplicatedStore>,
    settings: SinkSettings,
    dialer: PeerDialer,
    sinks: Sinks,
    full_sync: FullSync,
    bootstrap: Bootstrap,
    types: TypeFollower,
    links: SharedLinks,
    discovery: Notify,
}

impl Replication {
    /// Restores sinks and settings from the configuration and earlier commands. `disk` keeps changes by
    /// command.
    ///
    /// # Errors
    ///
    /// Disk faults.
    pub fn new(
        store: Arc<ReplicatedStore>,
        settings: SinkSettings,
        disk: Option<Arc<dyn Disk>>,
    ) -> Result<Self, StoreError> {
        let dialer = PeerDialer::new(settings.login.as_ref());
        let bootstrap = Bootstrap::new(Arc::clone(&store), dialer.clone(), disk.clone())?;
        let sinks =
            Sinks::new(Arc::clone(&store), &settings, dialer.clone(), kept_file(disk.clone()))?;
        let links = SharedLinks::new(disk)?;
        let full_sync =
            FullSync::new(Arc::clone(&store), settings.full_sync.clone(), dialer.clone());
        if let Some(KeptFullSync { peer, change }) = sinks.full_sync() {
            full_sync.set(peer, change);
        }
        let types = TypeFollower::new(Arc::clone(&store), dialer.clone(), settings.bucket_types);
        let discovery = Notify::new();
        Ok(Self { store, settings, dialer, sinks, full_sync, bootstrap, types, links, discovery })
    }

    /// Consumes queues, discovers peers, and compares with other clusters by the schedule, until the
    /// task is dropped.
    pub async fn run(self: Arc<Self>) {
        let _stopping = StopOnDrop(&self.sinks);
        self.sinks.start();
        let is_paused = || self.sinks.is_full_sync_paused();
        tokio::join!(
            self.discover_peers(),
            self.full_sync.run(is_paused),
            self.bootstrap.run(),
            self.types.run(|| self.peers_of_other_clusters()),
            self.follow_shared_links(),
            self.log_queues(),
            self.log_sinks(),
        );
    }

    /// Logs the lengths of source queues at intervals.
    async fn log_queues(&self) {
        let mut lines = QueueLines::default();
        loop {
            sleep(self.settings.log_interval).await;
            let queues = self.store.source_queues().status();
            for line in lines.next(queues.iter().map(|queue| (&*queue.name, queue.lengths))) {
                tracing::info!("{line}");
            }
        }
    }

    /// Logs the work of sinks each minute.
    async fn log_sinks(&self) {
        let mut lines = SinkLines::default();
        loop {
            sleep(SINK_LOG_INTERVAL).await;
            for line in lines.next(&self.sinks()) {
                tracing::info!("{line}");
            }
        }
    }

    async fn discover_peers(&self) {
        if !self.settings.discovers {
            // Operators may still request a discovery.
            loop {
                self.discovery.notified().await;
                self.discover().await;
            }
        }
        let span = self.settings.prompt_secs_max.saturating_sub(PROMPT_SECS_MIN);
        loop {
            self.discover().await;
            let random = self.store.clock().monotonic_us() % (span + 1);
            let wait = Duration::from_secs(PROMPT_SECS_MIN + random);
            // An operator requests a discovery, or the time has come.
            let _ = timeout(wait, self.discovery.notified()).await;
        }
    }

    async fn discover(&self) {
        for (queue, peers) in self.sinks.configured_peers() {
            let mut found = BTreeSet::new();
            for peer in peers.iter().filter(|peer| peer.protocol == Protocol::Pb) {
                match members_of(&self.dialer, peer).await {
                    Some(members) => found.extend(members),
                    None => {
                        tracing::info!(%peer, "sink: the peer does not name its cluster's nodes")
                    }
                }
            }
            // Without an answer, peers that are known stay in use.
            if !found.is_empty() {
                self.sinks.discovered(&queue, found.into_iter().collect());
            }
        }
    }

    /// Requests a discovery of the nodes of peers' clusters.
    pub fn discover_soon(&self) {
        self.discovery.notify_one();
    }

    /// Begins to consume a queue, or replaces the peers of a sink.
    ///
    /// # Errors
    ///
    /// Invalid names, no peers, too many sinks, and disk faults; after a disk fault the change is made,
    /// but not stored.
    pub fn add_sink(&self, definition: SinkDefinition) -> Result<(), ChangeSinkError> {
        self.sinks.add(definition)
    }

    /// Ends the consumption of a queue.
    ///
    /// # Errors
    ///
    /// Queues that are not consumed, and disk faults as for [`Replication::add_sink`].
    pub fn remove_sink(&self, queue: &str) -> Result<(), ChangeSinkError> {
        self.sinks.remove(queue)
    }

    /// Suspends the consumption of a queue, or resumes it.
    ///
    /// # Errors
    ///
    /// As [`Replication::remove_sink`].
    pub fn suspend_sink(&self, queue: &str, is_suspended: bool) -> Result<(), ChangeSinkError> {
        self.sinks.suspend(queue, is_suspended)
    }

    /// Changes the number of a queue's entries that are stored at the same time, and the number of
    /// connections to each peer; `None` for the number of the settings.
    ///
    /// # Errors
    ///
    /// Invalid numbers, and as [`Replication::remove_sink`].
    pub fn set_workers(
        &self,
        queue: &str,
        worker_count: usize,
        peer_limit: Option<usize>,
    ) -> Result<(), ChangeSinkError> {
        let usual = || self.settings.peer_limit_of(worker_count);
        let peer_limit = peer_limit.unwrap_or_else(usual);
        self.sinks.set_workers(queue, WorkerLimits { worker_count, peer_limit })
    }

    /// The store that is replicated.
    #[must_use]
    pub const fn store(&self) -> &Arc<ReplicatedStore> {
        &self.store
    }

    /// Settings of the node as a sink, as they were at its start.
    #[must_use]
    pub const fn settings(&self) -> &SinkSettings {
        &self.settings
    }

    /// Figures of all sinks.
    #[must_use]
    pub fn sinks(&self) -> Vec<SinkStatus> {
        self.sinks.status()
    }

    /// Pauses scheduled full-syncs, or resumes them. True if that is a change.
    ///
    /// # Errors
    ///
    /// Disk faults; the change is made, but not stored.
    pub fn pause_full_sync(&self, is_paused: bool) -> Result<bool, ChangeSinkError> {
        self.sinks.pause_full_sync(is_paused)
    }

    /// Sets the peer of full-sync, and the queues and `n_val`s that `change` contains. The change
    /// survives restarts.
    ///
    /// # Errors
    ///
    /// Disk faults; the change is made, but not stored.
    pub fn set_full_sync(
        &self,
        peer: PeerAddress,
        change: FullSyncChange,
    ) -> Result<(), ChangeSinkError> {
        self.full_sync.set(peer.clone(), change.clone());
        self.sinks.keep_full_sync(peer, change)
    }

    /// Compares with the other cluster now.
    pub async fn run_full_sync(&self, kind: CheckKind) -> FullSyncReport {
        self.full_sync.check(kind).await
    }

    /// Figures of full-sync.
    #[must_use]
    pub fn full_sync(&self) -> FullSyncStatus {
        self.full_sync.status(self.sinks.is_full_sync_paused())
    }

    /// Peers of other clusters: the peers of each queue, and of a bootstrap.
    fn peers_of_other_clusters(&self) -> Vec<(String, Vec<PeerAddress>)> {
        let mut peers = self.sinks.configured_peers();
        peers.push(("bootstrap".to_owned(), self.bootstrap.peers()));
        peers
    }

    /// Changes of links that apply to all nodes.
    pub(crate) const fn links(&self) -> &SharedLinks {
        &self.links
    }

    /// Fault of the last attempt to adopt bucket types.
    pub(crate) fn types_fault(&self) -> Option<String> {
        self.types.fault()
    }

    /// The bootstrap from another cluster.
    pub(crate) const fn bootstrap(&self) -> &Bootstrap {
        &self.bootstrap
    }

    /// Full-sync, for commands of operators.
    #[must_use]
    pub const fn full_sync_control(&self) -> &FullSync {
        &self.full_sync
    }
}

/// Ends the connections to peers when it is dropped.
struct StopOnDrop<'a>(&'a Sinks);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The nodes of a peer's cluster, as the peer names them; `None` without an answer.
async fn members_of(dialer: &PeerDialer, peer: &PeerAddress) -> Option<Vec<PeerAddress>> {
    let ask = async {
        let mut connection = dialer.connect(&peer.host_and_port()).await.ok()?;
        connection.layout(None).await.ok()?
    };
    let layout = timeout(DISCOVERY_TIMEOUT, ask).await.ok()??;
    let of_node = |address: &str| format!("{address}:pb").parse::<PeerAddress>().ok();
    // A node that listens on all addresses does not report at which one it can be reached.
    let is_somewhere = |peer: &PeerAddress| !matches!(&*peer.host, "0.0.0.0" | "::" | "");
    Some(
        layout
            .nodes()
            .iter()
            .filter_map(|node| of_node(&node.address))
            .filter(is_somewhere)
            .collect(),
    )
}
