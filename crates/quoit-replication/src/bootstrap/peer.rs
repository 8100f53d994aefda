//! A node of the other cluster from which pages are read.

use crate::address::PeerAddress;
use crate::dialer::PeerDialer;
use crate::remote_node::{PeerRequestError, RemoteNode};
use quoit_core::{CopiedPage, CopiedRecord, RequestError, VisitedCluster};
use quoit_wire::messages::{RpbCopiedRecord, RpbCopyPageReq, RpbCopyPageResp};
use std::time::Duration;
use thiserror::Error;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Reason why a page could not be copied.
#[derive(Debug, Error)]
pub(super) enum CopyFault {
    #[error("{0}")]
    Ask(#[from] PeerRequestError),
    #[error("{0}{1}")]
    Own(RequestError, &'static str),
}

/// A connection to a node of the other cluster.
pub(super) struct CopyPeer(RemoteNode);

impl CopyPeer {
    pub(super) async fn connect(
        dialer: &PeerDialer,
        address: &PeerAddress,
        own: VisitedCluster,
    ) -> Result<Self, CopyFault> {
        Ok(Self(RemoteNode::connect(dialer, address, own, ANSWER_TIMEOUT).await?))
    }

    /// Number of partitions of the peer's cluster.
    pub(super) async fn ring_size(&mut self) -> Result<u16, CopyFault> {
        let answer = self.ask(None, None).await?;
        u16::try_from(answer.ring_size).map_err(|_| CopyFault::from(PeerRequestError::Malformed))
    }

    /// A page of a partition; `None` if the peer has no complete copy.
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
            return Err(PeerRequestError::Malformed.into());
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
        let request = RpbCopyPageReq { cluster: self.0.own().clone(), partition, from };
        Ok(self.0.ask(&request, |answer: &RpbCopyPageResp| &answer.cluster).await?)
    }
}
