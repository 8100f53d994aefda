//! An assembled node: its start and its stop.

use crate::engine::FoundLoss;
use quoit_cluster::{ControlPlane, Internode, Listener};
use quoit_core::{ReplicatedStore, RequestError};
use quoit_store::error::StoreError;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::task::AbortHandle;

/// A node.
pub struct Node {
    /// The store that serves clients' requests.
    pub store: Arc<ReplicatedStore>,
    /// The node's part of the control plane.
    pub control: Arc<ControlPlane>,
    /// Connections to other nodes.
    pub internode: Arc<Internode>,
    pub(crate) loss: Option<FoundLoss>,
}

/// Time limits of a stop.
#[derive(Clone, Copy, Debug)]
pub struct StopLimits {
    /// Limit for requests under way, of clients and of other nodes.
    pub requests: Duration,
    /// Limit for other nodes to answer the requests that this node has sent them.
    pub answers: Duration,
}

/// Work that did not end in time when a node was stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnfinishedWork {
    /// True if connections were cut with requests under way.
    pub requests: bool,
    /// True if other nodes have not answered all requests that this node has sent them.
    pub answers: bool,
}

/// Reason why a node could not recover from the loss of records.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// Records of the store can't be compared or copied.
    #[error("recovering from a loss of records")]
    Records(#[source] RequestError),
    /// The completion could not be recorded on disk.
    #[error("recording the recovery from a loss of records")]
    Note(#[source] StoreError),
}

impl Node {
    /// Durable records that the node has lost, if any.
    #[must_use]
    pub const fn loss(&self) -> Option<&FoundLoss> {
        self.loss.as_ref()
    }

    /// Connects the control plane with other nodes, which reach this node at `address` (`host:port`).
    pub fn connect(&self, address: &str) {
        self.internode.set_address(address);
        self.control.connect(&self.internode);
    }

    /// Accepts connections of other nodes.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn listen(&self, listener: Box<dyn Listener>) -> io::Result<()> {
        self.internode.serve(listener)
    }

    /// Recovers from the loss of records, before the node answers other nodes. Each step can be repeated, so
    /// the process may be killed at any moment. Returns the number of records that were removed because
    /// complete copies on other nodes differ; `None` if nothing was lost.
    ///
    /// # Errors
    ///
    /// Faults of the disk or of the comparison. The next start begins again.
    pub async fn recover_lost_records(&self) -> Result<Option<u64>, RecoveryError> {
        let Some(loss) = &self.loss else { return Ok(None) };
        let removed_count = self.store.recover_losses().await.map_err(RecoveryError::Records)?;
        loss.settle().map_err(RecoveryError::Note)?;
        self.store.serve_replicas();
        Ok(Some(removed_count))
    }

    /// Ends all traffic. `clients` ends the requests of clients, and returns true if all ended in time.
    ///
    /// Client traffic and traffic between nodes end at the same time. Requests of clients may need other
    /// nodes until they end, and other nodes stop sending requests once this node has told them to ask
    /// another node. A primary that has not answered in time may have missed a write. The node stores a hint
    /// for that write before [`Node::close`] closes the hints.
    pub async fn finish(
        &self,
        limits: StopLimits,
        clients: impl Future<Output = bool>,
        background: &AbortHandle,
    ) -> UnfinishedWork {
        let ended = tokio::join!(clients, self.internode.stop(limits.requests));
        background.abort();
        let answered = self.internode.answered(limits.answers).await;
        self.control.stop().await;
        self.internode.give_up_calls();
        UnfinishedWork { requests: ended != (true, true), answers: !answered }
    }

    /// Closes everything on disk, so that the next start finds it complete. Waits for the disk.
    ///
    /// # Errors
    ///
    /// The first fault of a disk. The next start recovers what could not be closed.
    pub fn close(&self) -> Result<(), StoreError> {
        let store = &self.store;
        let hints = store.flush_hints();
        let reaped = store.flush_reap_records();
        let queues = store.source_queues().close();
        let now_us = store.clock().unix_us();
        let changes = store.change_feeds().log().map_or(Ok(()), |log| log.close(now_us));
        hints.and(reaped).and(queues).and(changes).and(store.engine().close())
    }
}
