//! A connection to a peer, over either protocol.

use crate::error::PeerError;
use crate::http::{HttpPeer, HttpTimeouts};
use crate::pb::PbPeer;
use crate::queue_lengths::QueueLengths;
use crate::side::{BucketName, RecordClock, Side};
use bytes::Bytes;
use quoit_client::Login;
use quoit_model::segments::TreeSize;
use quoit_riak::{Fetched, RangeFilter, Tree};
use std::time::Duration;
use tokio::time::timeout;

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for an entry of a queue, a push, or the list of members.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a part of a tree that the peer keeps.
const TREE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for a request that goes through all records of a range.
const SCAN_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Protocol of a connection to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RiakProtocol {
    /// Protocol Buffers.
    Pb,
    /// HTTP.
    Http,
}

/// A connection to a peer. It must not be used after an error, because the peer may still answer the
/// failed request.
#[derive(Debug)]
pub struct RiakPeer(Inner);

#[derive(Debug)]
enum Inner {
    Pb(PbPeer),
    Http(HttpPeer),
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, PeerError>>,
) -> Result<T, PeerError> {
    timeout(limit, work).await.unwrap_or(Err(PeerError::Silent(limit)))
}

/// Calls the method of the connection's protocol, with a time limit.
macro_rules! by_protocol {
    ($peer:expr, $limit:expr, $method:ident ( $($argument:expr),* )) => {
        match &mut $peer.0 {
            Inner::Pb(peer) => within($limit, peer.$method($($argument),*)).await,
            Inner::Http(peer) => {
                within($limit, peer.within($limit).$method($($argument),*)).await
            }
        }
    };
}

impl RiakPeer {
    /// Connects to `host:port`, over TLS if there is a login. Over HTTP nothing is sent before the
    /// first request.
    ///
    /// # Errors
    ///
    /// If nothing listens there, or the login is refused. Over HTTP the first request reports that.
    pub async fn connect(
        address: &str,
        protocol: RiakProtocol,
        login: Option<&Login>,
    ) -> Result<Self, PeerError> {
        Ok(Self(match protocol {
            RiakProtocol::Pb => {
                Inner::Pb(within(CONNECT_TIMEOUT, PbPeer::connect(address, login)).await?)
            }
            RiakProtocol::Http => {
                let limits = HttpTimeouts { connect: CONNECT_TIMEOUT, request: QUEUE_TIMEOUT };
                Inner::Http(HttpPeer::new(address, login, limits))
            }
        }))
    }

    /// Takes the next entry of a queue for good; `None` if the queue is empty.
    ///
    /// # Errors
    ///
    /// Lost connections, queues that do not exist, and damaged objects.
    pub async fn fetch(&mut self, queue: &str) -> Result<Option<Fetched>, PeerError> {
        by_protocol!(self, QUEUE_TIMEOUT, fetch(queue))
    }

    /// Puts references to records into a queue. Returns the queue's lengths afterwards; `None` if it
    /// does not exist.
    ///
    /// # Errors
    ///
    /// Lost connections; over HTTP also names that are not UTF-8.
    pub async fn push(
        &mut self,
        queue: &str,
        records: &[RecordClock],
    ) -> Result<Option<QueueLengths>, PeerError> {
        by_protocol!(self, QUEUE_TIMEOUT, push(queue, records))
    }

    /// Addresses of the live nodes of the peer's cluster, for the same protocol.
    ///
    /// # Errors
    ///
    /// Lost connections.
    pub async fn members(&mut self) -> Result<Vec<(String, u16)>, PeerError> {
        by_protocol!(self, QUEUE_TIMEOUT, members())
    }
}

impl Side for RiakPeer {
    async fn tree_root(&mut self, n_val: u32) -> Result<Bytes, PeerError> {
        by_protocol!(self, TREE_TIMEOUT, tree_root(n_val))
    }

    async fn tree_branches(
        &mut self,
        n_val: u32,
        numbers: &[u32],
    ) -> Result<Vec<(u32, Bytes)>, PeerError> {
        by_protocol!(self, TREE_TIMEOUT, tree_branches(n_val, numbers))
    }

    async fn tree_clocks(
        &mut self,
        n_val: u32,
        segments: &[u32],
        modified_secs: Option<(u64, u64)>,
    ) -> Result<Vec<RecordClock>, PeerError> {
        by_protocol!(self, SCAN_TIMEOUT, tree_clocks(n_val, segments, modified_secs))
    }

    async fn range_tree(
        &mut self,
        bucket: &BucketName,
        size: TreeSize,
        filter: &RangeFilter,
    ) -> Result<Tree, PeerError> {
        by_protocol!(self, SCAN_TIMEOUT, range_tree(bucket, size, filter))
    }

    async fn range_clocks(
        &mut self,
        bucket: &BucketName,
        filter: &RangeFilter,
    ) -> Result<Vec<RecordClock>, PeerError> {
        by_protocol!(self, SCAN_TIMEOUT, range_clocks(bucket, filter))
    }
}
