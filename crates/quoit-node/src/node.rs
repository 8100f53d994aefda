//! A node that was put together: its start and its stop.

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
    /// The store that clients send requests to.
    pub store: Arc<ReplicatedStore>,
    /// Its end of the control plane.
    pub control: Arc<ControlPlane>,
    /// Its connections to other nodes.
    pub internode: Arc<Internode>,
    pub(crate) loss: Option<FoundLoss>,
}

/// How long a stop waits.
#[derive(Clone, Copy, Debug)]
pub struct StopLimits {
    /// For requests in hand, of clients and of other nodes.
    pub requests: Duration,
    /// For other nodes to take what they were sent.
    pub answers: Duration,
}

/// Work that did not end in time when a node was stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unfinished {
    /// Whether connections are cut off, with requests in hand.
    pub requests: bool,
    /// Whether other nodes have not taken all that they were sent.
    pub answers: bool,
}

/// Why a node could not make up for lost records.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// Records of the store can't be compared or copied.
    #[error("making up for lost records")]
    Records(#[source] RequestError),
    /// The disk refuses to note that it is done.
    #[error("noting that lost records were made up for")]
    Note(#[source] StoreError),
}

impl Node {
    /// Durable records that the node has lost.
    #[must_use]
    pub const fn loss(&self) -> Option<&FoundLoss> {
        self.loss.as_ref()
    }

    /// Connects the control plane with other nodes, which reach this one at `address`, `host:port`.
    pub fn connect(&self, address: &str) {
        self.internode.set_address(address);
        self.control.connect(&self.internode);
    }

    /// Takes connections of other nodes.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn listen(&self, listener: Box<dyn Listener>) -> io::Result<()> {
        self.internode.serve(listener)
    }

    /// Makes up for lost records, before the node answers others. The process may be killed meanwhile at any
    /// moment: each step can be made again. Gives the number of records that were removed since whole copies
    /// of other nodes have others; `None` if nothing was lost.
    ///
    /// # Errors
    ///
    /// When the disk refuses; the next start begins again.
    pub async fn make_up_for_loss(&self) -> Result<Option<u64>, RecoveryError> {
        let Some(loss) = &self.loss else { return Ok(None) };
        let removed_count = self.store.settle_loss().await.map_err(RecoveryError::Records)?;
        loss.settle().map_err(RecoveryError::Note)?;
        self.store.serve_replicas();
        Ok(Some(removed_count))
    }

    /// Ends all traffic. `clients` ends the requests of clients, and tells whether all ended in time.
    ///
    /// Clients and other nodes are stopped at once: requests of clients may need other nodes to the end, and
    /// those of other nodes stop coming as soon as they are told to ask another node. Primaries that have not
    /// answered in time may have missed a write: it becomes a hint, before [`Node::close`] closes the hints.
    pub async fn finish(
        &self,
        limits: StopLimits,
        clients: impl Future<Output = bool>,
        background: &AbortHandle,
    ) -> Unfinished {
        let ended = tokio::join!(clients, self.internode.stop(limits.requests));
        background.abort();
        let answered = self.internode.answered(limits.answers).await;
        self.control.stop().await;
        self.internode.give_up_calls();
        Unfinished { requests: ended != (true, true), answers: !answered }
    }

    /// Closes everything on disk, so that the next start finds it whole. Waits for the disk.
    ///
    /// # Errors
    ///
    /// The first refusal of a disk: the next start recovers what could not be closed.
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
