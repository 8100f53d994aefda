//! The other cluster of a check, reached over one connection to one of its nodes.

use super::walk::FullSyncError;
use crate::address::{PeerAddress, Protocol};
use crate::dialer::PeerDialer;
use bytes::Bytes;
use quoit_client::{Connection, Error};
use quoit_core::{ArcRange, DeletesOutcome, RecordVersion, VisitedCluster};
use quoit_wire::messages::{
    RpbClusterDigestsReq, RpbClusterDigestsResp, RpbDeleteSeenReq, RpbDeleteSeenResp,
    RpbQueuePutReq, RpbQueuePutResp,
};
use std::time::Duration;
use tokio::time::timeout;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum bytes of a frame that the other cluster may send.
const FRAME_BYTES_MAX: u32 = 256 << 20;

/// A connection to the other cluster of a check.
pub(super) struct OtherCluster {
    connection: Connection,
    /// Approximate number of bytes that went over the network.
    pub(super) exchanged_bytes: u64,
    address: String,
    /// Id of this cluster.
    own: Bytes,
    /// Id of the other cluster, once it has answered.
    pub(super) id: Option<VisitedCluster>,
    /// True to compare in spite of stale queues.
    is_rebase: bool,
}

impl OtherCluster {
    pub(super) async fn connect(
        dialer: &PeerDialer,
        address: &PeerAddress,
        own: VisitedCluster,
        is_rebase: bool,
    ) -> Result<Self, FullSyncError> {
        if address.protocol == Protocol::Http {
            return Err(FullSyncError::Protocol(address.to_string()));
        }
        let host_and_port = address.host_and_port();
        let connect = timeout(CONNECT_TIMEOUT, dialer.connect(&host_and_port)).await;
        let connection = connect.map_err(|_| FullSyncError::Silent)??;
        Ok(Self {
            connection: connection.with_frame_length_max(FRAME_BYTES_MAX),
            exchanged_bytes: 0,
            address: host_and_port,
            own: Bytes::copy_from_slice(&own),
            id: None,
            is_rebase,
        })
    }

    /// Digests of ranges of the other cluster, or the records in them.
    pub(super) async fn ask(
        &mut self,
        arc_count: u16,
        hour_min: u32,
        ranges: &[ArcRange],
        records: bool,
    ) -> Result<RpbClusterDigestsResp, FullSyncError> {
        let request = RpbClusterDigestsReq {
            cluster: self.own.clone(),
            arc_count: arc_count.into(),
            hour_min,
            arcs: ranges.iter().map(|range| u32::from(range.arc)).collect(),
            ranges: ranges.iter().map(|range| range.range).collect(),
            records: records.then_some(true),
            rebase: self.is_rebase.then_some(true),
        };
        let call = self.connection.call::<_, RpbClusterDigestsResp>(&request);
        let answer = match timeout(ANSWER_TIMEOUT, call).await {
            Err(_) => return Err(FullSyncError::Silent),
            Ok(Err(Error::Server(said))) if said.message.starts_with("Unknown message code") => {
                return Err(FullSyncError::NoQuoit);
            }
            Ok(answer) => answer?,
        };
        if answer.cluster == self.own {
            return Err(FullSyncError::Itself(self.address.clone()));
        }
        self.id = VisitedCluster::try_from(&answer.cluster[..]).ok();
        let record_bytes: usize =
            answer.records.iter().map(|record| record.key.len() + record.clock.len() + 24).sum();
        let digest_bytes = answer.digests.as_ref().map_or(0, Bytes::len);
        self.exchanged_bytes += (ranges.len() * 8 + record_bytes + digest_bytes) as u64;
        Ok(answer)
    }

    /// Deletes records there that are still as they were seen.
    pub(super) async fn delete_seen(
        &mut self,
        records: &[RecordVersion],
    ) -> Result<DeletesOutcome, FullSyncError> {
        let bytes: usize = records.iter().map(|each| each.key.len() + each.clock.len() + 8).sum();
        self.exchanged_bytes += bytes as u64;
        let request = RpbDeleteSeenReq {
            cluster: self.own.clone(),
            keys: records.iter().map(|each| each.key.clone()).collect(),
            clocks: records.iter().map(|each| each.clock.clone()).collect(),
        };
        let call = self.connection.call::<_, RpbDeleteSeenResp>(&request);
        let answer = timeout(ANSWER_TIMEOUT, call).await.map_err(|_| FullSyncError::Silent)??;
        let text = |fault: Bytes| String::from_utf8_lossy(&fault).into_owned();
        Ok(DeletesOutcome {
            deleted_count: answer.deleted,
            failed_count: answer.failed,
            fault: answer.fault.map(text),
        })
    }

    /// Puts names of records into a queue there.
    pub(super) async fn queue(
        &mut self,
        queue: &str,
        keys: Vec<Bytes>,
    ) -> Result<(), FullSyncError> {
        self.exchanged_bytes += keys.iter().map(|key| key.len() as u64 + 4).sum::<u64>();
        let queue_name = Bytes::copy_from_slice(queue.as_bytes());
        let request = RpbQueuePutReq { queue_name, keys };
        let call = self.connection.call::<_, RpbQueuePutResp>(&request);
        let answer = timeout(ANSWER_TIMEOUT, call).await.map_err(|_| FullSyncError::Silent)??;
        match answer.queue_exists {
            true => Ok(()),
            false => {
                let (queue, place) = (queue.to_owned(), "in the other cluster");
                Err(FullSyncError::NoQueue(queue, place, "ttaaefs_queuename_peer"))
            }
        }
    }
}
