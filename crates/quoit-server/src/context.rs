//! What every connection shares.

use quoit_core::ReplicatedStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The version of Riak KV whose interface is spoken. Clients find out features by it and expect three
/// numbers.
pub const RIAK_KV_VERSION: &str = "3.2.2";

/// Limits of the client interfaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerSettings {
    /// Largest Protocol Buffers frame and HTTP body, in bytes. Larger ones end the connection.
    pub request_bytes_max: usize,
    /// Whether names in URLs are percent-decoded (`http_url_encoding`).
    pub http_url_decoding: bool,
    /// Whether requests with a foreign `Referer` are refused (`secure_referer_check`).
    pub secure_referer_check: bool,
    /// Whether the administration API answers other machines.
    pub admin_remote: bool,
    /// Connections served at once, of both protocols together. Further ones wait to be accepted.
    pub connection_count_max: usize,
    /// Operations that an operator switched off (`cluster.job.riak_kv.*`).
    pub jobs: JobClasses,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            request_bytes_max: 1 << 30,
            http_url_decoding: true,
            secure_referer_check: true,
            admin_remote: false,
            connection_count_max: 65_536,
            jobs: JobClasses::default(),
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
}

impl Default for JobClasses {
    fn default() -> Self {
        Self {
            list_buckets: true,
            stream_list_buckets: true,
            list_keys: true,
            stream_list_keys: true,
        }
    }
}

/// Shared by all connections of a node.
pub struct ServerContext {
    /// The store behind both protocols.
    pub store: Arc<ReplicatedStore>,
    /// The node's name, for example `riak@127.0.0.1`.
    pub node_name: String,
    /// Limits.
    pub settings: ServerSettings,
    /// Protocol Buffers connections open and opened.
    pub pb_connections: ConnectionCounts,
    /// HTTP connections open and opened.
    pub http_connections: ConnectionCounts,
}

/// Connections of one protocol.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    opened: AtomicU64,
    closed: AtomicU64,
}

impl ConnectionCounts {
    /// Counts a connection as open until the guard is dropped.
    pub fn open(&self) -> OpenConnection<'_> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        OpenConnection { counts: self }
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
}

/// One open connection.
pub struct OpenConnection<'a> {
    counts: &'a ConnectionCounts,
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.counts.closed.fetch_add(1, Ordering::Relaxed);
    }
}
