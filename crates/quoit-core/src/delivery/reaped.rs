//! Reap records that other primaries get: with a copy that they are to complete, and when they show that they
//! have missed a reap.
//!
//! A node whose data directory went back in time may have values that were deleted and reaped meanwhile, and
//! can't know. Where another primary still has the reap record, it keeps such a value out when anti-entropy
//! brings it; and it answers with the reap record, so that the value goes where it comes from. To another
//! cluster the tombstone goes once more.

use super::Deliveries;
use super::hand::{ANSWER_TIMEOUT, TransferError};
use crate::reap_records::ReapRecord;
use quoit_cluster::{Lane, NodeId, Peer};
use quoit_wire::internode::reap::{METHOD_TAKE_REAPED, TakeReaped, Tombstone};
use std::sync::Arc;

impl Deliveries {
    /// Hands reap records to another node, which has them on its disk when this returns, and nothing any more
    /// that they cover.
    pub(crate) async fn hand_reap_records(
        &self,
        peer: &Peer,
        records: Vec<ReapRecord>,
    ) -> Result<(), TransferError> {
        let tombstone = |record: ReapRecord| Tombstone {
            key: record.name,
            partition: u32::from(record.partition.0),
            digest: 0,
            object: record.tombstone,
        };
        let records = records.into_iter().map(tombstone).collect();
        let take = TakeReaped { layout_version: self.local.topology().layout_version(), records };
        let call = peer.call(METHOD_TAKE_REAPED, &take, b"", Lane::Large, ANSWER_TIMEOUT);
        call.await.map_err(|fault| TransferError::Call { to: peer.name(), fault })?;
        Ok(())
    }

    /// Tells a node of reaps that it has missed, those of records of which it is a primary. Of the rest
    /// it hears when its copies are compared the next time.
    pub(crate) async fn tell_missed_reaps(
        self: &Arc<Self>,
        node: NodeId,
        mut records: Vec<ReapRecord>,
    ) {
        records.retain(|record| self.local.is_primary_of(node, record.partition, &record.name));
        let Some(peer) = self.local.reachable(node).filter(|_| !records.is_empty()) else { return };
        match self.hand_reap_records(&peer, records).await {
            Ok(()) => {
                tracing::debug!(peer = %peer.name(), "a node was told of reaps that it has missed")
            }
            Err(fault) => {
                tracing::debug!(%fault, "a node was not told of reaps that it has missed")
            }
        }
    }
}
