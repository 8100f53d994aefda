//! Reap records that other primaries get: with a copy that they are to complete, and when they show that they
//! have missed a reap.
//!
//! A node whose data directory went back in time may have values that were deleted and reaped meanwhile, and
//! can't know. Where another primary still has the reap record, it keeps such a value out when anti-entropy
//! brings it; and it answers with the reap record, so that the value goes where it comes from. To another
//! cluster the tombstone goes once more.

use super::hand::{ANSWER_TIMEOUT, TransferError};
use crate::error::RequestError;
use crate::reap_records::{ReapRecord, ReapedTombstone};
use crate::replica::{ApplyOutcome, Replicated};
use crate::store::{ReplicatedStore, decode, wait_if_blocked};
use bytes::Bytes;
use quoit_cluster::{Lane, NodeId, Peer};
use quoit_planted::planted;
use quoit_store::engine::{Access, RecordAt};
use quoit_store::error::StoreError;
use quoit_wire::internode::reap::{METHOD_TAKE_REAPED, TakeReaped, Tombstone};
use std::sync::Arc;

impl ReplicatedStore {
    /// The reap record that has kept all of an arrived object out; `None` where nothing or something else
    /// did.
    ///
    /// # Errors
    ///
    /// When the reap record can't be read.
    pub(crate) fn kept_out_by(
        &self,
        at: &RecordAt<'_>,
        taken: Option<ApplyOutcome>,
    ) -> Result<Option<ReapRecord>, RequestError> {
        if taken != Some(ApplyOutcome::Nothing) || planted!(KeepsOutSilently) {
            return Ok(None);
        }
        Ok(self.reap_record_at(at, Access::Wait)?.flatten())
    }

    /// The reap record of a name, if there is one; the outer `None` when the disk has to be waited for.
    fn reap_record_at(
        &self,
        at: &RecordAt<'_>,
        access: Access,
    ) -> Result<Option<Option<ReapRecord>>, RequestError> {
        let RecordAt { partition, identity, .. } = *at;
        Ok(match self.replica.reap_records.get(at, access) {
            Ok(ReapedTombstone::WouldBlock) => None,
            // A damaged one counts as lost.
            Ok(ReapedTombstone::Missing) | Err(StoreError::Corrupt { .. }) => Some(None),
            Ok(ReapedTombstone::Found(tombstone)) => {
                let name = Bytes::copy_from_slice(at.encoded);
                Some(Some(ReapRecord { partition, identity, name, tombstone }))
            }
            Err(fault) => return Err(fault.into()),
        })
    }

    /// The reaped tombstone that has kept all of an object of another cluster out, to be sent to the clusters
    /// that this one replicates to: the other one has missed the delete. `None` where nothing or something
    /// else did, and of a tombstone, which hides nothing.
    ///
    /// # Errors
    ///
    /// When the reap record can't be read.
    pub(crate) fn delete_missed_elsewhere(
        &self,
        at: &RecordAt<'_>,
        arrived: &Replicated,
        taken: ApplyOutcome,
    ) -> Result<Option<Replicated>, RequestError> {
        let is_kept_out = taken == ApplyOutcome::Nothing && !arrived.meta.tombstone;
        if !is_kept_out || planted!(KeepsOutSilently) {
            return Ok(None);
        }
        let record = wait_if_blocked(self.local.settings.blocking, |access| {
            self.reap_record_at(at, access)
        })?;
        let tombstone = record.map(|record| decode(&record.tombstone)).transpose()?;
        let (rule, class) = (arrived.rule, arrived.meta.n_val_class);
        Ok(tombstone.map(|tombstone| Replicated::new(&tombstone, rule, class)))
    }

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

    /// Tells a node of reaps that it has missed, those of records of which it is a primary. What it is not
    /// told now it is told when its copies are compared the next time.
    pub(crate) async fn tell_missed_reaps(
        self: &Arc<Self>,
        node: NodeId,
        mut records: Vec<ReapRecord>,
    ) {
        records.retain(|record| self.is_primary_of(node, record.partition, &record.name));
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
