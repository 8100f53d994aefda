//! Full-sync with a Riak cluster, by Riak's hash trees over all records of buckets with one `n_val`.

use super::range::CheckRange;
use super::report::FullSyncReport;
use super::settings::{CheckKind, FullSyncScope, FullSyncSettings};
use super::walk::{FullSyncError, bucket_name};
use crate::address::PeerAddress;
use crate::dialer::PeerDialer;
use bytes::Bytes;
use quoit_core::{
    ArcRange, ClusterQuestion, FoldFound, FoldKind, QueuePriority, RecordRange, ReplicatedStore,
    RequestError, TreeClock,
};
use quoit_model::context::decode_context;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE, KeyRef};
use quoit_model::props::ReplMode;
use quoit_model::segments::{Segments, TreeSize};
use quoit_riak::{RangeFilter, Tree};
use quoit_riak_peer::{
    BucketName, ExchangePlan, ExchangeScope, PeerError, RecordClock, Side, SyncState, exchange,
};
use std::sync::Arc;
use std::time::Duration;

/// Pause between two comparisons of trees.
const PAUSE: Duration = Duration::from_secs(1);
/// Seconds from now up to which a time of modification may lie in the future.
const AHEAD_SECS: u64 = 5;

/// Compares with a Riak cluster, queues records that are newer here, and pushes references to records
/// that are newer there.
pub(super) async fn run(
    store: &Arc<ReplicatedStore>,
    settings: &FullSyncSettings,
    (kind, range): (CheckKind, &CheckRange),
    (dialer, address): (&PeerDialer, &PeerAddress),
    report: &mut FullSyncReport,
) -> Result<(), FullSyncError> {
    check_no_stale_queue(store).await?;
    let mut peer = dialer.connect_riak(address, address.protocol).await?;
    let mut here = LocalCluster(Arc::clone(store));
    let modified_secs = modified_between(range, store.clock().unix_secs());
    let plan = ExchangePlan {
        scope: scope_of(settings, kind),
        modified_secs,
        segment_count_max: segment_count_max(settings, kind),
        pause: PAUSE,
    };
    let found = exchange(&mut here, &mut peer, &plan).await?;
    if let SyncState::Differs { differing_count, compared_count } = found.state {
        report.differing_arc_count = differing_count as u64;
        report.compared_count = compared_count as u64;
    }
    let has_compared =
        matches!(found.state, SyncState::Differs { compared_count, .. } if compared_count > 0);
    if has_compared
        && modified_secs.is_none()
        && found.local_ahead.is_empty()
        && found.remote_ahead.is_empty()
    {
        // No record differs, so the hashes that this cluster keeps do not match the records.
        store.riak_trees().forget().await?;
    }
    let is_wanted = |record: &RecordClock| {
        let bucket = bucket_of(record);
        let name = bucket_name(bucket);
        takes_full_sync(store, bucket) && range.bucket.as_ref().is_none_or(|only| *only == name)
    };
    let ahead: Vec<RecordClock> = found.local_ahead.into_iter().filter(is_wanted).collect();
    let behind: Vec<RecordClock> = found.remote_ahead.into_iter().filter(is_wanted).collect();
    count_records(report, &ahead, &behind);
    queue_here(store, &settings.queue, &ahead)?;
    if let Some(queue) = settings.peer_queue.as_ref().filter(|_| !behind.is_empty())
        && peer.push(queue, &behind).await?.is_none()
    {
        let place = "in the other cluster";
        return Err(FullSyncError::NoQueue(queue.clone(), place, "ttaaefs_queuename_peer"));
    }
    Ok(())
}

/// Fails if any node has a stale queue: a question to this cluster's nodes is then refused.
async fn check_no_stale_queue(store: &Arc<ReplicatedStore>) -> Result<(), FullSyncError> {
    let question = ClusterQuestion {
        arc_count: 1,
        hour_min: 0,
        ranges: &[ArcRange { arc: 0, range: 1 }],
        wants_records: false,
        other: None,
        is_rebase: false,
    };
    store.replication().cluster_digests(question).await?;
    Ok(())
}

/// First and last time of modification, in seconds since 1970, of the records that a check repairs;
/// `None` for all records.
fn modified_between(range: &CheckRange, now_secs: u64) -> Option<(u64, u64)> {
    let from_secs = range.modified_from_us / 1_000_000;
    let until_secs = (range.modified_until_us / 1_000_000).min(now_secs + AHEAD_SECS);
    (from_secs > 0 || range.modified_until_us < u64::MAX).then_some((from_secs, until_secs))
}

/// Number of segments whose records a check compares. Range checks compare fewer records of each
/// segment, and so more segments.
const fn segment_count_max(settings: &FullSyncSettings, kind: CheckKind) -> usize {
    match kind {
        CheckKind::Range => settings.segment_count_max.saturating_mul(settings.range_boost),
        _ => settings.segment_count_max,
    }
}

/// True if full-sync replicates a bucket.
fn takes_full_sync(store: &ReplicatedStore, bucket: BucketRef<'_>) -> bool {
    let state = store.control().read();
    let mode = state.bucket_props(bucket).ok().and_then(|props| props.repl);
    !matches!(mode, Some(ReplMode::Off | ReplMode::Realtime))
}

/// Counts the records that are newer here and there, also by bucket.
fn count_records(report: &mut FullSyncReport, ahead: &[RecordClock], behind: &[RecordClock]) {
    (report.source_ahead, report.sink_ahead) = (ahead.len() as u64, behind.len() as u64);
    for record in ahead.iter().chain(behind) {
        let bucket = bucket_name(bucket_of(record));
        *report.buckets.entry(bucket).or_default() += 1;
    }
}

/// Queues references to records in a queue of this cluster.
fn queue_here(
    store: &ReplicatedStore,
    queue: &str,
    ahead: &[RecordClock],
) -> Result<(), FullSyncError> {
    let keys = ahead.iter().map(|record| encoded(bucket_of(record).key(&record.key)));
    let now_us = store.clock().unix_us();
    let queues = store.source_queues();
    match queues.push_references(queue, QueuePriority::FullSync, keys, now_us) {
        Some(_) => Ok(()),
        None => Err(FullSyncError::NoQueue(queue.to_owned(), "here", "ttaaefs_queuename")),
    }
}

/// The records that a check compares: those of one bucket, with trees made for the check, or those of
/// one `n_val`.
fn scope_of(settings: &FullSyncSettings, kind: CheckKind) -> ExchangeScope {
    let size = match kind {
        CheckKind::Day => TreeSize::Medium,
        CheckKind::Hour | CheckKind::Range => TreeSize::Small,
        CheckKind::All | CheckKind::Auto | CheckKind::None => TreeSize::Large,
    };
    match (settings.scope, &settings.bucket) {
        (FullSyncScope::Bucket, Some((bucket_type, bucket))) => {
            let bucket_type = match bucket_type.is_empty() {
                true => Bytes::from_static(DEFAULT_BUCKET_TYPE),
                false => Bytes::from(bucket_type.clone()),
            };
            let bucket = BucketName { bucket_type, bucket: Bytes::from(bucket.clone()) };
            ExchangeScope::Bucket { bucket, size }
        }
        _ => ExchangeScope::All {
            local_n_val: settings.local_n_val,
            remote_n_val: settings.remote_n_val,
        },
    }
}

fn bucket_of(record: &RecordClock) -> BucketRef<'_> {
    BucketRef { bucket_type: &record.bucket.bucket_type, bucket: &record.bucket.bucket }
}

fn encoded(key: KeyRef<'_>) -> Bytes {
    let mut encoded = Vec::new();
    key.encode_into(&mut encoded);
    encoded.into()
}

/// This cluster as one side of a comparison.
struct LocalCluster(Arc<ReplicatedStore>);

fn own(fault: impl ToString) -> PeerError {
    PeerError::Own(fault.to_string())
}

impl LocalCluster {
    /// Runs a fold over a bucket to its end.
    async fn fold(
        &self,
        bucket: &BucketName,
        filter: &RangeFilter,
        kind: FoldKind,
        mut take: impl FnMut(FoldFound) -> Result<(), PeerError> + Send,
    ) -> Result<(), PeerError> {
        let BucketName { bucket_type, bucket } = bucket;
        let mut range = RecordRange::all(BucketRef { bucket_type, bucket });
        if let Some((first, last)) = &filter.keys {
            range.first_key = first.clone();
            range.last_key = Some(last.clone());
        }
        range.modified_secs = filter.modified_secs;
        let segments = filter.segments.clone();
        let segments = segments.map(|some| Segments::new(some.tree_size, some.segments));
        range.segments = segments.transpose().map_err(own)?;
        let mut fold = self.0.folds().begin(range, kind, u64::MAX).await.map_err(own)?;
        while let Some(found) = fold.step().await.map_err(own)? {
            found.into_iter().try_for_each(&mut take)?;
        }
        Ok(())
    }
}

impl Side for LocalCluster {
    async fn tree_root(&mut self, n_val: u32) -> Result<Bytes, PeerError> {
        self.0.riak_trees().root(n_val).await.map_err(own)
    }

    async fn tree_branches(
        &mut self,
        n_val: u32,
        numbers: &[u32],
    ) -> Result<Vec<(u32, Bytes)>, PeerError> {
        let branches = self.0.riak_trees().branches(n_val, numbers).await.map_err(own)?;
        Ok(numbers.iter().copied().zip(branches).collect())
    }

    async fn tree_clocks(
        &mut self,
        n_val: u32,
        segments: &[u32],
        modified_secs: Option<(u64, u64)>,
    ) -> Result<Vec<RecordClock>, PeerError> {
        let segments = Segments::new(TreeSize::Large, segments.to_vec()).map_err(own)?;
        let clocks: Result<Vec<TreeClock>, RequestError> =
            self.0.riak_trees().clocks(n_val, &segments, modified_secs).await;
        let record = |clock: TreeClock| RecordClock {
            bucket: BucketName { bucket_type: clock.bucket_type, bucket: clock.bucket },
            key: clock.key,
            clock: clock.clock,
        };
        Ok(clocks.map_err(own)?.into_iter().map(record).collect())
    }

    async fn range_tree(
        &mut self,
        bucket: &BucketName,
        size: TreeSize,
        filter: &RangeFilter,
    ) -> Result<Tree, PeerError> {
        let mut tree = Tree::empty(size);
        self.fold(bucket, filter, FoldKind::TreeEntries(filter.salt), |found| {
            if let Some(entry) = found.tree_entry {
                tree.toggle(entry);
            }
            Ok(())
        })
        .await?;
        Ok(tree)
    }

    async fn range_clocks(
        &mut self,
        bucket: &BucketName,
        filter: &RangeFilter,
    ) -> Result<Vec<RecordClock>, PeerError> {
        let mut clocks = Vec::new();
        self.fold(bucket, filter, FoldKind::FetchClocks, |found| {
            let clock = decode_context(&found.clock).map_err(own)?;
            clocks.push(RecordClock { bucket: bucket.clone(), key: found.key, clock });
            Ok(())
        })
        .await?;
        Ok(clocks)
    }
}
