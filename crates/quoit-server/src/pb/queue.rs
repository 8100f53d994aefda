//! Replication queues and digests for other clusters of Quoit; see `docs/design/replication.md`.

use super::connection::PbConnection;
use super::fault::Fault;
use bytes::Bytes;
use quoit_core::{
    ArcRange, BatchBounds, ClusterQuestion, CopiedRecord, EntrySequence, QueuePriority, QueueWait,
    QueuedObject, QueuedValue, RangesQuestion, RecordVersion, VisitedCluster,
};
use quoit_model::context::encode_context;
use quoit_model::key::KeyRef;
use quoit_replication::BucketTypeMode;
use quoit_wire::messages::{
    RpbBucketTypesReq, RpbBucketTypesResp, RpbClusterDigestsReq, RpbClusterDigestsResp,
    RpbComparedRecord, RpbCopiedRecord, RpbCopyPageReq, RpbCopyPageResp, RpbCopyRangesReq,
    RpbCopyRangesResp, RpbDeleteSeenReq, RpbDeleteSeenResp, RpbQueuePutReq, RpbQueuePutResp,
    RpbQueueTakeReq, RpbQueueTakeResp, RpbQueuedObject, RpbStoredProps,
};
use std::sync::Arc;
use std::time::Duration;

/// Largest number of entries in one answer.
const BATCH_COUNT_MAX: u32 = 1_024;
/// Number of entries in one answer if the sink does not set it.
const BATCH_COUNT_DEFAULT: u32 = 64;
/// Bytes of objects in one answer. The last object may exceed it.
const BATCH_BYTES_MAX: u32 = 16 << 20;

impl PbConnection {
    /// Removes the entries that the sink has confirmed, and sends it the next ones.
    pub(super) async fn take_queued(&mut self, request: RpbQueueTakeReq) -> Result<(), Fault> {
        let name = queue_name(&request.queue_name)?;
        let sink = cluster_id(&request.sink_cluster)?;
        let store = Arc::clone(&self.context.store);
        let queues = store.source_queues();
        if let Some(lease) = self.lease.take() {
            let confirmed: Vec<_> = request.confirmed.into_iter().map(EntrySequence).collect();
            queues.confirm(&name, &lease, &confirmed);
            let whole: Vec<_> = request.wanted_whole.into_iter().map(EntrySequence).collect();
            queues.request_whole(&name, &lease, &whole);
            // The old lease ends here, and returns the entries that the sink has not confirmed to the
            // queue.
        }
        let mut answer = RpbQueueTakeResp {
            source_cluster: Bytes::copy_from_slice(&store.replication().cluster()),
            queue_exists: queues.lengths(&name).is_some(),
            entries: Vec::new(),
            waiting: None,
        };
        let count_max = request.count_max.unwrap_or(BATCH_COUNT_DEFAULT).min(BATCH_COUNT_MAX);
        if count_max == 0 || sink == store.replication().cluster() {
            return self.send(&answer);
        }
        let bounds = BatchBounds {
            count_max: count_max as usize,
            bytes_max: request.bytes_max.unwrap_or(BATCH_BYTES_MAX).min(BATCH_BYTES_MAX) as usize,
            sink: Some(sink),
            takes_deltas: request.takes_deltas.unwrap_or(false),
        };
        let patience = Duration::from_millis(request.wait_ms.unwrap_or(0).into());
        let lease = queues.lease();
        let batch = {
            let (store, lease, name) = (Arc::clone(&store), &lease, &name);
            let take = async move {
                let patience = QueueWait::UpTo(patience);
                let taken = store.replication().take_queued(name, lease, bounds, patience).await;
                taken.map_err(Fault::from)
            };
            self.unless_disconnected(Box::pin(take)).await?
        };
        self.lease = Some(lease);
        answer.waiting = queues
            .lengths(&name)
            .map(|lengths| lengths.real_time + lengths.full_sync + lengths.fold);
        answer.entries = batch.into_iter().map(queued).collect();
        self.send(&answer)
    }

    /// Sends digests of arcs and ranges of this cluster's records, for full-sync.
    pub(super) async fn cluster_digests(
        &mut self,
        request: RpbClusterDigestsReq,
    ) -> Result<(), Fault> {
        let other = cluster_id(&request.cluster)?;
        let store = Arc::clone(&self.context.store);
        let no_ranges = || Fault::Text("arcs and ranges do not go together".into());
        let arc_count = u16::try_from(request.arc_count).map_err(|_| no_ranges())?;
        let asked: Vec<ArcRange> = match request.arcs.is_empty() {
            true => (0..arc_count).map(|arc| ArcRange { arc, range: 1 }).collect(),
            false if request.arcs.len() == request.ranges.len() => {
                let pairs = request.arcs.iter().zip(&request.ranges);
                let read = |(arc, range): (&u32, &u64)| {
                    Some(ArcRange { arc: u16::try_from(*arc).ok()?, range: *range })
                };
                pairs.map(read).collect::<Option<_>>().ok_or_else(no_ranges)?
            }
            false => return Err(no_ranges()),
        };
        self.hold_pieces()?;
        let told = {
            let store = Arc::clone(&store);
            let ask = async move {
                let question = ClusterQuestion {
                    arc_count,
                    hour_min: request.hour_min,
                    ranges: &asked,
                    wants_records: request.records.unwrap_or(false),
                    other: Some(other),
                    is_rebase: request.rebase.unwrap_or(false),
                };
                store.replication().cluster_digests(question).await.map_err(Fault::from)
            };
            self.unless_disconnected(Box::pin(ask)).await?
        };
        let digests: Vec<u8> =
            told.digests.iter().flat_map(|digest| digest.to_le_bytes()).collect();
        let record = |record: quoit_core::ComparedRecord| RpbComparedRecord {
            key: record.key,
            digest: record.digest,
            tombstone: record.is_tombstone,
            clock: record.clock,
            modified_us: record.modified_us,
        };
        self.send(&RpbClusterDigestsResp {
            cluster: Bytes::copy_from_slice(&store.replication().cluster()),
            ring_size: store.control().read().ring_size().get().into(),
            digests: Some(digests.into()),
            records: told.records.into_iter().map(record).collect(),
            key_count: Some(store.engine().stats().key_count),
            missing_arcs: told.missing.into_iter().map(u32::from).collect(),
        })
    }

    /// Queues records that the other cluster lacks.
    pub(super) fn queue_for(&mut self, request: RpbQueuePutReq) -> Result<(), Fault> {
        let name = queue_name(&request.queue_name)?;
        if request.keys.iter().any(|key| KeyRef::decode(key).is_err()) {
            return Err(Fault::Text("a malformed name of a record".into()));
        }
        let store = &self.context.store;
        let now_us = store.clock().unix_us();
        let keys = request.keys.iter().map(|key| Bytes::copy_from_slice(key));
        let lengths =
            store.source_queues().push_references(&name, QueuePriority::FullSync, keys, now_us);
        self.send(&RpbQueuePutResp {
            queue_exists: lengths.is_some(),
            waiting: lengths.map(|lengths| lengths.full_sync),
        })
    }
}

impl PbConnection {
    /// Deletes records that the other cluster has deleted.
    pub(super) async fn delete_seen(&mut self, request: RpbDeleteSeenReq) -> Result<(), Fault> {
        cluster_id(&request.cluster)?;
        if request.keys.len() != request.clocks.len() {
            return Err(Fault::Text("names and clocks do not go together".into()));
        }
        let pairs = request.keys.iter().zip(&request.clocks);
        let records = pairs.map(|(key, clock)| RecordVersion {
            key: Bytes::copy_from_slice(key),
            clock: Bytes::copy_from_slice(clock),
        });
        let (store, records) = (Arc::clone(&self.context.store), records.collect());
        let done = {
            let delete = async move { Ok(store.replication().delete_seen(records).await) };
            self.unless_disconnected(Box::pin(delete)).await?
        };
        self.send(&RpbDeleteSeenResp {
            deleted: done.deleted_count,
            failed: done.failed_count,
            fault: done.fault.map(Bytes::from),
        })
    }
}

impl PbConnection {
    /// Sends the bucket types, and the buckets with properties of their own.
    pub(super) fn bucket_types(&mut self, request: RpbBucketTypesReq) -> Result<(), Fault> {
        cluster_id(&request.cluster)?;
        let replication = self.context.replication.get();
        let follows = replication.is_some_and(|replication| {
            replication.settings().bucket_types == BucketTypeMode::Follow
        });
        let state = self.context.store.control().read();
        let version = state.version();
        let is_wanted = request.known_version != Some(version);
        let told = state.all_props().filter(|_| is_wanted).map(|told| RpbStoredProps {
            bucket_type: Bytes::copy_from_slice(told.bucket_type),
            bucket: told.bucket.map(Bytes::copy_from_slice),
            props: serde_json::Value::Object(told.props.to_json()).to_string().into(),
        });
        let (told, cluster) = (told.collect(), Bytes::copy_from_slice(&state.cluster_id().0));
        drop(state);
        self.send(&RpbBucketTypesResp { cluster, version, follows, told })
    }

    /// Sends a page of the records of a partition.
    pub(super) async fn copy_page(&mut self, request: RpbCopyPageReq) -> Result<(), Fault> {
        cluster_id(&request.cluster)?;
        let store = Arc::clone(&self.context.store);
        let mut answer = RpbCopyPageResp {
            cluster: Bytes::copy_from_slice(&store.replication().cluster()),
            ring_size: store.control().read().ring_size().get().into(),
            is_here: false,
            records: Vec::new(),
            next: None,
        };
        if let Some(partition) = request.partition {
            let partition = u16::try_from(partition).unwrap_or(u16::MAX);
            let from = request.from.unwrap_or(0);
            let read = async move { Ok(store.replication().copied_page(partition, from).await?) };
            if let Some(page) = self.unless_disconnected(Box::pin(read)).await? {
                let record = |record: CopiedRecord| RpbCopiedRecord {
                    key: record.key,
                    object: record.object,
                };
                answer.records = page.records.into_iter().map(record).collect();
                (answer.is_here, answer.next) = (true, page.next);
            }
        }
        self.send(&answer)
    }
}

impl PbConnection {
    /// Compares or sends ranges of this node's copy of a large set or map.
    pub(super) async fn copy_ranges(&mut self, request: RpbCopyRangesReq) -> Result<(), Fault> {
        cluster_id(&request.cluster)?;
        let question = match request.question {
            1 => RangesQuestion::Compare,
            2 => RangesQuestion::Read,
            other => return Err(Fault::Text(format!("a question {other} about ranges"))),
        };
        let store = Arc::clone(&self.context.store);
        let cluster = Bytes::copy_from_slice(&store.replication().cluster());
        let ask = async move {
            Ok(store.anti_entropy().answer_ranges_question(question, request.ranges).await?)
        };
        let (answer, items) = self.unless_disconnected(Box::pin(ask)).await?.unzip();
        self.send(&RpbCopyRangesResp { cluster, answer, items })
    }
}

fn queue_name(name: &Bytes) -> Result<String, Fault> {
    let text = String::from_utf8(name.to_vec());
    text.map_err(|_| Fault::Text("a name of a queue that is not UTF-8 text".into()))
}

fn cluster_id(id: &Bytes) -> Result<VisitedCluster, Fault> {
    let id = VisitedCluster::try_from(&id[..]);
    id.map_err(|_| Fault::Text("the id of a cluster has 16 bytes".into()))
}

fn queued(queued: QueuedObject) -> RpbQueuedObject {
    let mut told = RpbQueuedObject {
        sequence: queued.sequence.0,
        key: queued.key,
        object: None,
        reap_clock: None,
        reaped_us: None,
        visited: queued.visited.iter().map(|id| Bytes::copy_from_slice(id)).collect(),
        queued_us: queued.queued_us,
        again: queued.may_be_redelivery,
        delta: None,
        delta_modified_us: None,
    };
    match queued.value {
        QueuedValue::Object(stored) | QueuedValue::Tombstone(stored) => told.object = Some(stored),
        QueuedValue::Delta { delta, last_modified_us } => {
            (told.delta, told.delta_modified_us) = (Some(delta), Some(last_modified_us));
        }
        QueuedValue::Reap { clock, reaped_us } => {
            (told.reap_clock, told.reaped_us) = (Some(encode_context(&clock)), Some(reaped_us));
        }
    }
    told
}
