//! State that the connections to a peer share, and faults that end a connection.

use crate::address::PeerAddress;
use crate::dialer::PeerDialer;
use crate::figures::{PeerFigures, PeerKind};
use crate::peer_delay::PeerDelay;
use crate::task_end::TaskEnd;
use bytes::Bytes;
use quoit_client::Error;
use quoit_core::ReplicatedStore;
use quoit_riak_peer::PeerError;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

/// State that a connection's task shares with its owner and with the other connections to the peer.
#[derive(Clone)]
pub(crate) struct PeerContext {
    pub(crate) store: Arc<ReplicatedStore>,
    pub(crate) dialer: PeerDialer,
    pub(crate) node_name: Bytes,
    pub(crate) queue: Bytes,
    pub(crate) address: PeerAddress,
    pub(crate) figures: Arc<PeerFigures>,
    pub(crate) delay: Arc<PeerDelay>,
    /// Limits the number of objects that are stored at the same time.
    pub(crate) workers: Arc<Semaphore>,
    pub(crate) is_suspended: watch::Receiver<bool>,
    /// Kind of the peer, which its first connection finds out.
    pub(crate) kind: watch::Sender<Option<PeerKind>>,
    /// End of this connection's task.
    pub(crate) end: Arc<TaskEnd>,
}

/// Reason why a connection to a peer was given up.
#[derive(Debug)]
pub(crate) enum PeerFault {
    Client(Error),
    Riak(PeerError),
    Silent,
    Malformed,
    /// The peer is a node of this cluster.
    Itself,
    NoQuoit,
}

impl From<Error> for PeerFault {
    fn from(fault: Error) -> Self {
        match fault {
            Error::Server(ref said) if said.message.starts_with("Unknown message code") => {
                Self::NoQuoit
            }
            fault => Self::Client(fault),
        }
    }
}

impl From<PeerError> for PeerFault {
    fn from(fault: PeerError) -> Self {
        Self::Riak(fault)
    }
}

impl PeerFault {
    pub(crate) fn text(&self, address: &PeerAddress) -> String {
        match self {
            Self::Client(fault) => format!("{address}: {fault}"),
            Self::Riak(fault) => format!("{address}: {fault}"),
            Self::Silent => format!("{address} does not answer"),
            Self::Malformed => format!("{address} sends malformed answers"),
            Self::Itself => format!(
                "{address} is a node of this cluster: take it out of the sink's peers (quoit repl sink add)"
            ),
            Self::NoQuoit => format!("{address} is not a node of Quoit any more"),
        }
    }
}
