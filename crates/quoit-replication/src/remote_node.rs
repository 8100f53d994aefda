//! Requests in Quoit's own messages to a node of another cluster, with time limits.

use crate::address::PeerAddress;
use crate::dialer::PeerDialer;
use bytes::Bytes;
use quoit_client::{Connection, Error};
use quoit_core::VisitedCluster;
use quoit_wire::Body;
use std::time::Duration;
use thiserror::Error as ThisError;
use tokio::time::timeout;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of a frame that a peer may send. A page may exceed its limit by one large record, and
/// the properties of 100,000 buckets take about 100 MB.
const FRAME_BYTES_MAX: u32 = 256 << 20;

/// Reason why a request has no answer.
#[derive(Debug, ThisError)]
pub(crate) enum PeerRequestError {
    #[error("{0}")]
    Client(Error),
    #[error("it does not answer")]
    Silent,
    #[error("it sends a malformed answer")]
    Malformed,
    #[error("it is a node of this cluster: name nodes of the other one")]
    Itself,
    #[error("it does not know Quoit's messages: it is another program")]
    NoQuoit,
}

impl From<Error> for PeerRequestError {
    fn from(fault: Error) -> Self {
        match fault {
            Error::Server(ref said) if said.message.starts_with("Unknown message code") => {
                Self::NoQuoit
            }
            fault => Self::Client(fault),
        }
    }
}

/// A connection to a node of another cluster.
pub(crate) struct RemoteNode {
    connection: Connection,
    own: Bytes,
    answer_timeout: Duration,
}

impl RemoteNode {
    /// Connects on behalf of this cluster, whose id is `own`.
    pub(crate) async fn connect(
        dialer: &PeerDialer,
        address: &PeerAddress,
        own: VisitedCluster,
        answer_timeout: Duration,
    ) -> Result<Self, PeerRequestError> {
        let host_and_port = address.host_and_port();
        let connect = timeout(CONNECT_TIMEOUT, dialer.connect(&host_and_port)).await;
        let connection = connect.map_err(|_| PeerRequestError::Silent)??;
        let connection = connection.with_frame_length_max(FRAME_BYTES_MAX);
        Ok(Self { connection, own: Bytes::copy_from_slice(&own), answer_timeout })
    }

    /// Id of the cluster that asks.
    pub(crate) const fn own(&self) -> &Bytes {
        &self.own
    }

    /// Sends a request. `cluster_of` returns the id of the answering cluster, which must be another
    /// one.
    pub(crate) async fn ask<Q: Body, A: Body>(
        &mut self,
        question: &Q,
        cluster_of: impl FnOnce(&A) -> &Bytes,
    ) -> Result<A, PeerRequestError> {
        let call = self.connection.call::<Q, A>(question);
        let answer =
            timeout(self.answer_timeout, call).await.map_err(|_| PeerRequestError::Silent)??;
        match *cluster_of(&answer) == self.own {
            true => Err(PeerRequestError::Itself),
            false => Ok(answer),
        }
    }
}
