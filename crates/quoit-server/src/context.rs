//! State that all connections of a node share.

use crate::audit::AuditLog;
use crate::folds::Folds;
use crate::jobs::{Jobs, MapReduceSettings};
use crate::low_priority::LowPriority;
use crate::memory::{MemoryBudget, MemorySettings};
use crate::pace::PaceSettings;
use crate::readiness::ReadinessGate;
use crate::security::ConnectionSecurity;
use quoit_core::{JobSettings, ReplicatedStore};
use quoit_mapreduce::ScriptEngine;
use quoit_number::index;
use quoit_replication::Replication;
use quoit_script::QuickJs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::sync::Semaphore;

/// The version of Riak KV whose interface Quoit implements. Clients detect features by it and expect three
/// numbers.
pub const RIAK_KV_VERSION: &str = "3.2.2";

/// Largest piece of a listing in memory, in bytes.
const PIECE_BYTES: usize = 1 << 20;
/// Number of CPU-heavy answers that may be made at the same time.
const HEAVY_COUNT_MAX: usize = 1;

/// Limits of the client interfaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerSettings {
    /// Largest Protocol Buffers frame and HTTP body, in bytes. Larger ones end the connection.
    pub request_bytes_max: usize,
    /// Memory of requests and answers of all connections together.
    pub memory: MemorySettings,
    /// Slowest rates that are accepted from a client, both sending a request and reading an answer.
    pub pace: PaceSettings,
    /// Memory in bytes that a list may take when it is gathered before it is sent. Protocol Buffers clients
    /// that do not ask for a stream get such lists. A longer list is refused with an error that names the
    /// alternative.
    pub whole_answer_bytes_max: usize,
    /// True if names in URLs are percent-decoded (`http_url_encoding`).
    pub http_url_decoding: bool,
    /// True if requests with a foreign `Referer` are refused (`secure_referer_check`).
    pub secure_referer_check: bool,
    /// True if the administration API answers clients on other machines.
    pub admin_remote: bool,
    /// Number of connections of both protocols that are served at once. The memory budget may lower it,
    /// because each connection takes an allowance. Further connections wait to be accepted.
    pub connection_count_max: usize,
    /// Time limit in milliseconds for an index query whose client sets none (`secondary_index_timeout`); 0
    /// = no limit.
    pub index_timeout_ms: u64,
    /// Operations that an operator switched off (`cluster.job.riak_kv.*`).
    pub jobs: JobClasses,
    /// Bounds of MapReduce jobs.
    pub mapreduce: MapReduceSettings,
}

impl ServerSettings {
    /// Largest request that is accepted, in bytes: the setting, or less if a connection's share of the
    /// memory budget is smaller.
    pub(crate) fn request_bytes_limit(&self) -> usize {
        self.request_bytes_max.min(self.memory.request_bytes_max())
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            request_bytes_max: 51 << 20,
            memory: MemorySettings::new(1 << 30, None, 51 << 20),
            pace: PaceSettings::default(),
            whole_answer_bytes_max: 512 << 20,
            http_url_decoding: true,
            secure_referer_check: true,
            admin_remote: false,
            connection_count_max: 65_536,
            index_timeout_ms: 0,
            jobs: JobClasses::default(),
            mapreduce: MapReduceSettings::default(),
        }
    }
}

/// Expensive operations that an operator may switch off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobClasses {
    /// Listing buckets in one answer.
    pub list_buckets: bool,
    /// Listing buckets as a stream.
    pub stream_list_buckets: bool,
    /// Listing keys in one answer.
    pub list_keys: bool,
    /// Listing keys as a stream.
    pub stream_list_keys: bool,
    /// Index queries with one answer.
    pub secondary_index: bool,
    /// Index queries answered as a stream.
    pub stream_secondary_index: bool,
    /// MapReduce jobs.
    pub map_reduce: bool,
    /// MapReduce jobs with scripts in JavaScript.
    pub map_reduce_js: bool,
}

impl Default for JobClasses {
    fn default() -> Self {
        Self {
            list_buckets: true,
            stream_list_buckets: true,
            list_keys: true,
            stream_list_keys: true,
            secondary_index: true,
            stream_secondary_index: true,
            map_reduce: true,
            map_reduce_js: true,
        }
    }
}

/// State that all connections of a node share.
pub struct ServerContext {
    /// The store behind both protocols.
    pub store: Arc<ReplicatedStore>,
    /// The node's name, for example `riak@127.0.0.1`.
    pub node_name: String,
    /// The storage engine by the name of its setting, for example `bitcask`.
    pub storage_backend: &'static str,
    /// Limits of the client interfaces.
    pub settings: ServerSettings,
    /// Memory of requests and answers of all connections.
    pub memory: Arc<MemoryBudget>,
    /// Permits for CPU-heavy answers, such as all statistics, so that one is made at a time.
    pub heavy: Semaphore,
    /// Threads for long work; started when many clients need it for the first time. The inner value is `None`
    /// if the system could not start a thread.
    low_priority: OnceLock<Option<LowPriority>>,
    /// Protocol Buffers connections open and opened.
    pub pb_connections: ConnectionCounts,
    /// HTTP connections open and opened.
    pub http_connections: ConnectionCounts,
    /// Folds that operators have started.
    pub folds: Folds,
    /// MapReduce jobs of clients.
    pub jobs: Arc<Jobs>,
    /// Engine that runs scripts; `None` if scripts are switched off.
    scripts: Option<Arc<dyn ScriptEngine>>,
    /// Gate that decides whether clients are answered. The administration API and statistics always answer.
    pub readiness: ReadinessGate,
    /// Replication from other clusters; set once the node serves.
    pub replication: OnceLock<Arc<Replication>>,
    /// TLS, logins, and limits for clients that have not logged in.
    pub security: ConnectionSecurity,
    /// Path of the administration socket; set once it is open.
    pub admin_socket: OnceLock<PathBuf>,
    /// Listeners that other machines can reach.
    pub reachable_from_afar: OnceLock<ReachableListeners>,
    /// The audit log: which user did what.
    pub audit: AuditLog,
}

/// Listeners that other machines can reach.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReachableListeners {
    /// Listeners for clients.
    pub clients: Vec<SocketAddr>,
    /// The listener for other nodes.
    pub nodes: Option<SocketAddr>,
}

impl ServerContext {
    /// Creates the context of a node that has served nothing yet. The audit log is off and TLS is not
    /// available.
    #[must_use]
    pub fn new(
        store: Arc<ReplicatedStore>,
        node_name: String,
        storage_backend: &'static str,
        settings: ServerSettings,
    ) -> Self {
        let engine = |limits| Arc::new(QuickJs::new(limits)) as Arc<dyn ScriptEngine>;
        let scripts = settings.mapreduce.javascript.map(engine);
        // Jobs that other nodes coordinate run map phases here, so the store needs the engine, too.
        scripts.iter().cloned().for_each(|engine| store.listings().run_scripts_with(engine));
        Self {
            store,
            node_name,
            storage_backend,
            settings,
            memory: Arc::new(MemoryBudget::new(settings.memory)),
            heavy: Semaphore::new(HEAVY_COUNT_MAX),
            low_priority: OnceLock::new(),
            audit: AuditLog::off(),
            pb_connections: ConnectionCounts::default(),
            http_connections: ConnectionCounts::default(),
            folds: Folds::default(),
            jobs: Arc::default(),
            scripts,
            readiness: ReadinessGate::default(),
            replication: OnceLock::new(),
            security: ConnectionSecurity::closed(),
            admin_socket: OnceLock::new(),
            reachable_from_afar: OnceLock::new(),
        }
    }

    /// Returns the threads for long work of clients, or `None` if the system could not start a thread.
    pub(crate) fn low_priority(&self) -> Option<&LowPriority> {
        let start = || {
            let started = LowPriority::start("long-work");
            let tell = |fault: &std::io::Error| {
                tracing::warn!(%fault, "a thread for large objects could not be started");
            };
            started.inspect_err(tell).ok()
        };
        self.low_priority.get_or_init(start).as_ref()
    }

    /// Returns the context with this audit log.
    #[must_use]
    pub fn with_audit(self, audit: AuditLog) -> Self {
        Self { audit, ..self }
    }

    /// Returns the limits of a MapReduce job and the engine for its scripts.
    pub(crate) fn job_settings(&self) -> JobSettings {
        let held_bytes_max = self.settings.mapreduce.job_memory_bytes_max;
        JobSettings { held_bytes_max, scripts: self.scripts.clone() }
    }

    /// Returns the context with certificates, and with limits for clients that have not logged in.
    #[must_use]
    pub fn with_security(self, security: ConnectionSecurity) -> Self {
        Self { security, ..self }
    }

    /// Memory in bytes of an answer that is streamed: one piece of each node that takes part, and one on
    /// its way to the client.
    pub(crate) fn pieces_bytes(&self) -> usize {
        let node_count = self.store.control().read().members().iter().count();
        PIECE_BYTES * (node_count + 1)
    }
}

/// Length in seconds of "the last minute".
const WINDOW_SECS: u64 = 60;
/// Low bits of a slot of [`ConnectionCounts`] that hold the count; the high bits hold the second.
const COUNT_BITS: u32 = 32;

/// Counts of the connections of one protocol.
#[derive(Debug)]
pub struct ConnectionCounts {
    opened: AtomicU64,
    closed: AtomicU64,
    start: Instant,
    /// One slot for each second of the last minute: the second (since `start`) and the number of
    /// connections opened in it.
    recent: [AtomicU64; index(WINDOW_SECS)],
}

impl Default for ConnectionCounts {
    fn default() -> Self {
        Self {
            opened: AtomicU64::default(),
            closed: AtomicU64::default(),
            start: Instant::now(),
            recent: [const { AtomicU64::new(0) }; index(WINDOW_SECS)],
        }
    }
}

impl ConnectionCounts {
    /// Counts a connection as open until the guard is dropped.
    pub fn open(&self) -> OpenConnection<'_> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.note(self.start.elapsed().as_secs());
        OpenConnection { counts: self }
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder is the number of a slot")]
    fn note(&self, second: u64) {
        let fresh = second << COUNT_BITS | 1;
        let slot = &self.recent[(second % WINDOW_SECS) as usize];
        let counted = |slot: u64| if slot >> COUNT_BITS == second { slot + 1 } else { fresh };
        slot.update(Ordering::Relaxed, Ordering::Relaxed, counted);
    }

    /// Connections open now.
    pub fn active(&self) -> u64 {
        let closed = self.closed.load(Ordering::Relaxed);
        self.opened.load(Ordering::Relaxed).saturating_sub(closed)
    }

    /// Connections since the start.
    pub fn total(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Connections opened within the last minute.
    pub fn last_minute(&self) -> u64 {
        self.opened_within_minute(self.start.elapsed().as_secs())
    }

    fn opened_within_minute(&self, now: u64) -> u64 {
        let slots = self.recent.iter().map(|slot| slot.load(Ordering::Relaxed));
        slots
            .filter(|slot| now.saturating_sub(slot >> COUNT_BITS) < WINDOW_SECS)
            .map(|slot| slot & ((1 << COUNT_BITS) - 1))
            .sum()
    }
}

/// Guard of one open connection.
pub struct OpenConnection<'a> {
    counts: &'a ConnectionCounts,
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.counts.closed.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_the_last_minute_forget_older_ones() {
        let counts = ConnectionCounts::default();
        counts.note(3);
        counts.note(3);
        counts.note(62);
        assert_eq!(counts.opened_within_minute(62), 3);
        assert_eq!(counts.opened_within_minute(63), 1, "second 3 is a minute ago");
        counts.note(63);
        assert_eq!(counts.opened_within_minute(63), 2, "the slot of second 3 is taken over");
    }

    #[test]
    fn an_open_connection_is_active_until_it_is_dropped() {
        let counts = ConnectionCounts::default();
        let open = counts.open();
        assert_eq!((counts.active(), counts.total()), (1, 1));
        drop(open);
        assert_eq!((counts.active(), counts.total()), (0, 1));
    }
}
