//! A node of the other cluster that pages are read from.

use crate::address::PeerAddress;
use crate::dialer::PeerDialer;
use bytes::Bytes;
use quoit_client::{Connection, Error};
use quoit_core::{CopiedPage, CopiedRecord, RequestError, VisitedCluster};
use quoit_wire::messages::{RpbCopiedRecord, RpbCopyPageReq, RpbCopyPageResp};
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest frame that the other cluster may send: a page has one large record more than its bytes.
const FRAME_BYTES_MAX: u32 = 256 << 20;

/// Why a page could not be copied.
#[derive(Debug, Error)]
pub(super) enum CopyFault {
    #[error("{0}")]
    Client(#[from] Error),
    #[error("it does not answer")]
    Silent,
    #[error("it answers with what is no answer")]
    Malformed,
    #[error("it is a node of this cluster: name nodes of the other one")]
    Itself,
    #[error("{0}{1}")]
    Own(RequestError, &'static str),
}

/// A connection to a node of the other cluster.
pub(super) struct CopyPeer {
    connection: Connection,
    own: Bytes,
}

impl CopyPeer {
    pub(super) async fn connect(
        dialer: &PeerDialer,
        address: &PeerAddress,
        own: VisitedCluster,
    ) -> Result<Self, CopyFault> {
        let host_and_port = address.host_and_port();
        let connect = timeout(CONNECT_TIMEOUT, dialer.connect(&host_and_port)).await;
        let connection = connect.map_err(|_| CopyFault::Silent)??;
        let connection = connection.with_frame_length_max(FRAME_BYTES_MAX);
        Ok(Self { connection, own: Bytes::copy_from_slice(&own) })
    }

    /// The partitions of its cluster.
    pub(super) async fn ring_size(&mut self) -> Result<u16, CopyFault> {
        let answer = self.ask(None, None).await?;
        u16::try_from(answer.ring_size).map_err(|_| CopyFault::Malformed)
    }

    /// A page of a partition; `None` where the node has no complete copy.
    pub(super) async fn page(
        &mut self,
        partition: u16,
        from: u64,
    ) -> Result<Option<CopiedPage>, CopyFault> {
        let answer = self.ask(Some(partition.into()), Some(from)).await?;
        if !answer.is_here {
            return Ok(None);
        }
        if answer.next.is_some_and(|next| next <= from) {
            return Err(CopyFault::Malformed);
        }
        let record =
            |RpbCopiedRecord { key, object }: RpbCopiedRecord| CopiedRecord { key, object };
        let records = answer.records.into_iter().map(record).collect();
        Ok(Some(CopiedPage { records, next: answer.next }))
    }

    async fn ask(
        &mut self,
        partition: Option<u32>,
        from: Option<u64>,
    ) -> Result<RpbCopyPageResp, CopyFault> {
        let request = RpbCopyPageReq { cluster: self.own.clone(), partition, from };
        let call = self.connection.call::<_, RpbCopyPageResp>(&request);
        let answer = timeout(ANSWER_TIMEOUT, call).await.map_err(|_| CopyFault::Silent)??;
        match answer.cluster == self.own {
            true => Err(CopyFault::Itself),
            false => Ok(answer),
        }
    }
}
