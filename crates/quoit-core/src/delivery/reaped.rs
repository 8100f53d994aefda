//! Hands reap records to other primaries: with a copy that they get, and when they turn out to have
//! missed a reap.
//!
//! A node whose data directory was restored from an older copy may hold values that were deleted and reaped
//! since. The node itself can't detect that. If anti-entropy or a transfer brings such a value to a primary
//! that still has the reap record, the primary rejects the value and sends the reap record back. The sender
//! then removes its value. To another cluster the tombstone is sent once more.

use super::RecordDelivery;
use super::hand::{ANSWER_TIMEOUT, TransferError};
use crate::reap_records::ReapRecord;
use quoit_cluster::{Lane, NodeId, Peer};
use quoit_wire::internode::reap::{METHOD_TAKE_REAPED, TakeReaped, Tombstone};
use std::sync::Arc;

impl RecordDelivery {
    /// Hands reap records to another node. When this returns, the node has them on its disk, and has removed
    /// the values that they cover.
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

    /// Sends a node the reap records of records of which it is a primary, because it has missed the reaps. If
    /// the call fails, the next comparison of the copies repeats it.
    pub(crate) async fn send_missed_reap_records(
        self: &Arc<Self>,
        node: NodeId,
        mut records: Vec<ReapRecord>,
    ) {
        records.retain(|record| self.local.is_primary_of(node, record.partition, &record.name));
        let Some(peer) = self.local.reachable(node).filter(|_| !records.is_empty()) else { return };
        match self.hand_reap_records(&peer, records).await {
            Ok(()) => {
                tracing::debug!(peer = %peer.name(), "a node received reap records that it had missed")
            }
            Err(fault) => {
                tracing::debug!(%fault, "a node did not receive reap records that it has missed")
            }
        }
    }
}
