//! A connection to a peer, by either protocol.

use crate::error::PeerError;
use crate::http::HttpPeer;
use crate::pb::PbPeer;
use crate::queue_lengths::QueueLengths;
use crate::side::{BucketName, RecordClock, Side};
use bytes::Bytes;
use quoit_client::Login;
use quoit_model::segments::TreeSize;
use quoit_riak::{Fetched, RangeFilter, Tree};
use std::time::Duration;
use tokio::time::timeout;

/// Time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for an entry of a queue, a push, or the members.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a part of a kept tree.
const TREE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for what goes through all records of a range.
const SCAN_TIMEOUT: Duration = Duration::from_secs(3_600);

/// The protocol that a peer is asked by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RiakProtocol {
    /// Protocol Buffers.
    Pb,
    /// HTTP.
    Http,
}

/// A connection to a peer. After an error it is of no use any more: the peer may still answer the request.
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

/// Has the protocol's own method answer within a time.
macro_rules! by_protocol {
    ($peer:expr, $limit:expr, $method:ident ( $($argument:expr),* )) => {
        match &mut $peer.0 {
            Inner::Pb(peer) => within($limit, peer.$method($($argument),*)).await,
            Inner::Http(peer) => within($limit, peer.$method($($argument),*)).await,
        }
    };
}

impl RiakPeer {
    /// Connects to `host:port`, by TLS where there is a login. Over HTTP nothing is sent before the first
    /// question.
    ///
    /// # Errors
    ///
    /// When nothing listens there, or the login is refused.
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
                Inner::Http(HttpPeer::new(address, login, CONNECT_TIMEOUT, SCAN_TIMEOUT))
            }
        }))
    }

    /// Takes the next entry of a queue, for good; `None` when it is empty.
    ///
    /// # Errors
    ///
    /// Lost connections, queues that are not there, and objects that are damaged.
    pub async fn fetch(&mut self, queue: &str) -> Result<Option<Fetched>, PeerError> {
        by_protocol!(self, QUEUE_TIMEOUT, fetch(queue))
    }

    /// Puts references to records into a queue; its lengths afterwards, or `None` where it is not there.
    ///
    /// # Errors
    ///
    /// Lost connections; over HTTP names that are no UTF-8.
    pub async fn push(
        &mut self,
        queue: &str,
        records: &[RecordClock],
    ) -> Result<Option<QueueLengths>, PeerError> {
        by_protocol!(self, QUEUE_TIMEOUT, push(queue, records))
    }

    /// Addresses of the nodes of the peer's cluster that are up, for its own protocol.
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
