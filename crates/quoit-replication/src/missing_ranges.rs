//! Large sets and maps of which this cluster lacks events before a delta. The ranges that differ are
//! fetched from the node that sent the delta; if that fails, the whole object is requested.

use crate::figures::PeerFigures;
use crate::storing::visited_with;
use bytes::Bytes;
use quoit_client::Connection;
use quoit_core::{
    Arrival, ArrivedDelta, DeltaOutcome, OtherClusterCopy, RangesAnswer, RangesQuestion,
    ReplicatedStore, RequestError, VisitedCluster,
};
use quoit_model::props::Quorum;
use quoit_wire::messages::{RpbCopyRangesReq, RpbCopyRangesResp, RpbQueuedObject};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;

/// Time in which the other node has to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Copies of a node of another cluster, and the connection to that node.
struct RemoteCopies<'c> {
    connection: &'c mut Connection,
    own: Bytes,
}

impl OtherClusterCopy for RemoteCopies<'_> {
    fn ask<'a>(
        &'a mut self,
        question: RangesQuestion,
        asked: Bytes,
    ) -> Pin<Box<dyn Future<Output = RangesAnswer> + Send + 'a>> {
        let request = RpbCopyRangesReq {
            cluster: self.own.clone(),
            question: match question {
                RangesQuestion::Compare => 1,
                RangesQuestion::Read => 2,
            },
            ranges: asked,
        };
        Box::pin(async move {
            let call = self.connection.call::<_, RpbCopyRangesResp>(&request);
            let told = timeout(ANSWER_TIMEOUT, call).await.ok()?.ok()?;
            Some((told.answer?, told.items.unwrap_or_default()))
        })
    }
}

/// Joins the delta of an entry.
async fn join(
    store: &ReplicatedStore,
    entry: &RpbQueuedObject,
    arrival: &Arrival,
) -> Result<DeltaOutcome, RequestError> {
    let (delta, modified_us) = (entry.delta.clone(), entry.delta_modified_us);
    let arrived = ArrivedDelta {
        delta: delta.unwrap_or_default(),
        last_modified_us: modified_us.unwrap_or(0),
    };
    store.replication().join_arrived(&entry.key, &arrived, arrival).await
}

/// Fetches what this cluster lacks of each entry's record. Returns the entries that are on this
/// cluster's disks afterwards, and the entries whose whole objects are needed.
pub(crate) async fn fetch_lacking(
    store: &ReplicatedStore,
    connection: &mut Connection,
    source: VisitedCluster,
    lacking: Vec<RpbQueuedObject>,
    figures: &PeerFigures,
) -> (Vec<u64>, Vec<u64>) {
    let (mut stored, mut wanted_whole) = (Vec::new(), Vec::new());
    for entry in lacking {
        let arrival = Arrival {
            visited: Some(visited_with(&entry.visited, source)),
            may_be_redelivery: entry.again,
            dw: Quorum::Quorum,
        };
        let own = Bytes::copy_from_slice(&store.replication().cluster());
        let mut copy = RemoteCopies { connection, own };
        let united =
            store.replication().merge_with_remote_copy(&entry.key, &mut copy, &arrival).await;
        // The other node's copy may differ from the one from which the delta was made, and may lack the delta
        // itself.
        let is_stored = united.is_ok_and(|is_united| is_united)
            && join(store, &entry, &arrival)
                .await
                .is_ok_and(|outcome| outcome == DeltaOutcome::Joined);
        if is_stored {
            stored.push(entry.sequence);
            figures.stored.fetch_add(1, Ordering::Relaxed);
        } else {
            wanted_whole.push(entry.sequence);
        }
    }
    (stored, wanted_whole)
}
