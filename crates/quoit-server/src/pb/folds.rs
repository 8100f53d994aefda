//! Folds over the records of a bucket.

use super::connection::PbConnection;
use super::fault::Fault;
use super::index::ENTRY_BYTES;
use super::kv::bucket_of;
use super::listing::listing_fault;
use super::trees::{tree_size, without_entry};
use crate::riak_queue;
use bytes::Bytes;
use quoit_core::{
    Deadline, FoldFound, FoldKind, FoldMode, FoldProgress, RecordRange, RequestError,
};
use quoit_model::key::DEFAULT_BUCKET_TYPE;
use quoit_model::segments::{Segments, TreeSize};
use quoit_riak::{BRANCH_BYTES, Tree, numbered_branch};
use quoit_wire::messages::{
    ChangeMethod, FindType, RpbAaeFoldBucket, RpbAaeFoldEraseKeysReq,
    RpbAaeFoldFetchClocksRangeReq, RpbAaeFoldFindKeysReq, RpbAaeFoldFindTombsReq,
    RpbAaeFoldKeyCountResp, RpbAaeFoldKeyValueResp, RpbAaeFoldListBucketsReq,
    RpbAaeFoldListBucketsResp, RpbAaeFoldMergeTreesRangeReq, RpbAaeFoldObjectStatsReq,
    RpbAaeFoldReapTombsReq, RpbAaeFoldRepairKeysReq, RpbAaeFoldReplKeysReq, RpbAaeFoldTreeResp,
    RpbKeysCount, RpbKeysValue,
};
use std::sync::Arc;

/// Time limit of a fold: one hour.
const FOLD_TIMEOUT_MS: u64 = 3_600_000;

/// Memory in bytes that the list of all buckets may take before it is sent.
const BUCKETS_BYTES_MAX: usize = 16 << 20;

/// Parameters that all fold requests have.
struct FoldParameters<'a> {
    bucket_type: &'a Option<Bytes>,
    bucket: &'a Bytes,
    /// The first and the last key, if `key_range` is set.
    keys: Option<(&'a Option<Bytes>, &'a Option<Bytes>)>,
    /// The first and the last modification time in seconds, if `modified_range` is set.
    modified: Option<(Option<u32>, Option<u32>)>,
    /// The segments and the number of the tree size, if `segment_filter` is set.
    segments: Option<(&'a [u32], Option<u32>)>,
}

macro_rules! asked {
    ($request:expr) => {
        asked!($request, segments: None)
    };
    ($request:expr, of_segments) => {
        asked!($request, segments: $request
            .segment_filter
            .then_some((&$request.id_filter[..], $request.filter_tree_size)))
    };
    ($request:expr, segments: $segments:expr) => {
        FoldParameters {
            bucket_type: &$request.bucket_type,
            bucket: &$request.bucket,
            keys: $request.key_range.then_some((&$request.start_key, &$request.end_key)),
            modified: $request
                .modified_range
                .then_some(($request.last_mod_start, $request.last_mod_end)),
            segments: $segments,
        }
    };
}

impl FoldParameters<'_> {
    fn range(&self) -> Result<RecordRange, Fault> {
        let mut range = RecordRange::all(bucket_of(self.bucket_type, self.bucket));
        if let Some((first, last)) = &self.keys {
            range.first_key = first.as_ref().cloned().unwrap_or_default();
            range.last_key = (*last).clone();
        }
        let secs = |(from, to): (Option<u32>, Option<u32>)| {
            (from.map_or(0, u64::from), to.map_or(u64::MAX, u64::from))
        };
        range.modified_secs = self.modified.map(secs);
        range.segments = self.segments.map(segments_of).transpose()?;
        Ok(range)
    }
}

/// Segments of a tree. Without a size, the tree is as large as those that Riak keeps.
fn segments_of((numbers, size): (&[u32], Option<u32>)) -> Result<Segments, Fault> {
    let size = size.map_or(Ok(TreeSize::Large), TreeSize::of_number);
    let size = size.map_err(|fault| Fault::Text(fault.to_string()))?;
    Segments::new(size, numbers.to_vec()).map_err(|fault| Fault::Text(fault.to_string()))
}

const fn method_of(method: ChangeMethod) -> FoldMode {
    match method {
        ChangeMethod::Count => FoldMode::Count,
        ChangeMethod::Job | ChangeMethod::Local => FoldMode::Change,
    }
}

/// Consumer of the records that a fold finds.
type TakeBatch<'t> = dyn FnMut(&mut PbConnection, Vec<FoldFound>) -> Result<(), Fault> + Send + 't;

impl PbConnection {
    pub(super) async fn fetch_clocks(
        &mut self,
        request: RpbAaeFoldFetchClocksRangeReq,
    ) -> Result<(), Fault> {
        let range = asked!(request, of_segments).range()?;
        self.send_clocks(range, FoldKind::FetchClocks).await
    }

    pub(super) async fn find_tombs(
        &mut self,
        request: RpbAaeFoldFindTombsReq,
    ) -> Result<(), Fault> {
        let range = asked!(request, of_segments).range()?;
        self.send_clocks(range, FoldKind::FindTombs).await
    }

    async fn send_clocks(&mut self, range: RecordRange, kind: FoldKind) -> Result<(), Fault> {
        let (bucket_type, bucket) = (typed(&range.bucket_type), range.bucket.clone());
        let (found, _) = self.fold(range, kind).await?;
        let entry = |FoldFound { key, clock, .. }| RpbKeysValue {
            bucket_type: bucket_type.clone(),
            bucket: bucket.clone(),
            key,
            value: clock,
        };
        let keys_value = found.into_iter().map(entry).collect();
        let response_type = Bytes::from_static(b"clock");
        self.send(&RpbAaeFoldKeyValueResp { response_type, keys_value })
    }

    pub(super) async fn find_keys(&mut self, request: RpbAaeFoldFindKeysReq) -> Result<(), Fault> {
        let kind = match request.finder() {
            FindType::SiblingCount => FoldKind::ManySiblings(request.find_limit),
            FindType::ObjectSize => FoldKind::Large(request.find_limit.into()),
        };
        let (found, _) = self.fold(asked!(request).range()?, kind).await?;
        let entry = |FoldFound { key, number, .. }| counted(key, None, number);
        self.send_counts("find_keys", found.into_iter().map(entry).collect())
    }

    pub(super) async fn object_stats(
        &mut self,
        request: RpbAaeFoldObjectStatsReq,
    ) -> Result<(), Fault> {
        let (_, progress) = self.fold(asked!(request).range()?, FoldKind::ObjectStats).await?;
        let named = |name: &'static str, order, count| {
            counted(Bytes::from_static(name.as_bytes()), order, count)
        };
        let mut counts = vec![
            named("total_count", None, progress.looked_at_count),
            named("total_size", None, progress.looked_at_bytes),
        ];
        for (name, histogram) in [("sizes", progress.sizes), ("siblings", progress.siblings)] {
            let bars = histogram.into_iter();
            counts.extend(bars.map(|(order, count)| named(name, Some(order), count)));
        }
        self.send_counts("stats", counts)
    }

    pub(super) async fn repair_keys(
        &mut self,
        request: RpbAaeFoldRepairKeysReq,
    ) -> Result<(), Fault> {
        let range = asked!(request).range()?;
        self.send_dispatched("repair_keys", range, FoldKind::RepairKeys).await
    }

    pub(super) async fn reap_tombs(
        &mut self,
        request: RpbAaeFoldReapTombsReq,
    ) -> Result<(), Fault> {
        let kind = FoldKind::ReapTombs(method_of(request.change_method()));
        let range = asked!(request, of_segments).range()?;
        self.send_dispatched("reap_tombs", range, kind).await
    }

    pub(super) async fn erase_keys(
        &mut self,
        request: RpbAaeFoldEraseKeysReq,
    ) -> Result<(), Fault> {
        let kind = FoldKind::EraseKeys(method_of(request.change_method()));
        let range = asked!(request, of_segments).range()?;
        self.send_dispatched("erase_keys", range, kind).await
    }

    async fn send_dispatched(
        &mut self,
        response_type: &'static str,
        range: RecordRange,
        kind: FoldKind,
    ) -> Result<(), Fault> {
        let (_, progress) = self.fold(range, kind).await?;
        let tag = Bytes::from_static(b"dispatched_count");
        self.send_counts(response_type, vec![counted(tag, None, progress.match_count)])
    }

    fn send_counts(
        &mut self,
        response_type: &'static str,
        keys_count: Vec<RpbKeysCount>,
    ) -> Result<(), Fault> {
        let response_type = Bytes::from_static(response_type.as_bytes());
        self.send(&RpbAaeFoldKeyCountResp { response_type, keys_count })
    }

    pub(super) async fn fold_buckets(&mut self, _: RpbAaeFoldListBucketsReq) -> Result<(), Fault> {
        self.reservation.reserve_minimum(self.context.pieces_bytes() + 2 * BUCKETS_BYTES_MAX)?;
        let deadline = Deadline::after_ms(FOLD_TIMEOUT_MS);
        let limited =
            Box::pin(async { deadline.limit(self.all_buckets()).await.map_err(listing_fault) });
        let Some(bucket_list) = self.unless_disconnected(limited).await? else {
            return Err(Fault::Text(format!(
                "the answer has more than {BUCKETS_BYTES_MAX} bytes; list the buckets of one bucket type \
                 after the other, as streams (code 15 with stream true)"
            )));
        };
        self.send(&RpbAaeFoldListBucketsResp { bucket_list })
    }

    /// The buckets of all bucket types; `None` if they are too many for one answer.
    async fn all_buckets(&self) -> Result<Option<Vec<RpbAaeFoldBucket>>, RequestError> {
        let mut fold = self.context.store.listings().fold_buckets().await?;
        let (mut bucket_list, mut size_bytes) = (Vec::new(), 0);
        while let Some((bucket_type, buckets)) = fold.next().await? {
            size_bytes += buckets.iter().map(|bucket| bucket.len() + ENTRY_BYTES).sum::<usize>();
            if size_bytes > BUCKETS_BYTES_MAX {
                return Ok(None);
            }
            let entry = |bucket| RpbAaeFoldBucket { bucket_type: typed(&bucket_type), bucket };
            bucket_list.extend(buckets.into_iter().map(entry));
        }
        Ok(Some(bucket_list))
    }

    pub(super) async fn range_tree(
        &mut self,
        request: RpbAaeFoldMergeTreesRangeReq,
    ) -> Result<(), Fault> {
        let size = tree_size(request.tree_size)?;
        let salt = (!request.use_prehash).then(|| request.init_vector.unwrap_or(0));
        let range = asked!(request, of_segments).range()?;
        let mut tree = Tree::empty(size);
        let mut add = |_: &mut PbConnection, found: Vec<FoldFound>| {
            for each in found {
                tree.toggle(each.tree_entry.ok_or_else(without_entry)?);
            }
            Ok(())
        };
        self.fold_each(range, FoldKind::TreeEntries(salt), &mut add).await?;
        self.check_gathered(size.branch_count() as usize * BRANCH_BYTES, "ask for a smaller tree")?;
        let branches = tree.compressed_branches();
        self.send(&RpbAaeFoldTreeResp {
            size: size as u32,
            level_one: Some(tree.root()),
            level_two: branches.map(|(number, branch)| numbered_branch(number, &branch)).collect(),
        })
    }

    pub(super) async fn repl_keys(&mut self, request: RpbAaeFoldReplKeysReq) -> Result<(), Fault> {
        let no_queue = || Fault::Text("queue_not_defined".to_owned());
        let queue = std::str::from_utf8(&request.queuename).map_err(|_| no_queue())?;
        if !riak_queue::exists(&self.context.store, queue) {
            return Err(no_queue());
        }
        let range = asked!(request).range()?;
        let into = Some(queue);
        let progress = self.fold_into(range, FoldKind::ReplKeys, into, &mut |_, _| Ok(())).await?;
        let tag = Bytes::from_static(b"dispatched_count");
        self.send_counts("repl_keys", vec![counted(tag, None, progress.match_count)])
    }

    /// Runs a fold to its end. Returns the records that it found and its statistics.
    async fn fold(
        &mut self,
        range: RecordRange,
        kind: FoldKind,
    ) -> Result<(Vec<FoldFound>, FoldProgress), Fault> {
        let (mut all, mut size_bytes) = (Vec::new(), 0);
        let mut gather = |connection: &mut PbConnection, found: Vec<FoldFound>| {
            size_bytes += found.iter().map(found_bytes).sum::<usize>();
            connection.check_gathered(size_bytes, "ask for less with key_range")?;
            all.extend(found);
            Ok(())
        };
        let progress = self.fold_each(range, kind, &mut gather).await?;
        Ok((all, progress))
    }

    /// Runs a fold to its end, and passes the records that it finds to `take`. Returns the statistics of
    /// the fold.
    async fn fold_each(
        &mut self,
        range: RecordRange,
        kind: FoldKind,
        take: &mut TakeBatch<'_>,
    ) -> Result<FoldProgress, Fault> {
        self.fold_into(range, kind, None, take).await
    }

    /// Like [`PbConnection::fold_each`], for a fold that may put keys into a queue.
    async fn fold_into(
        &mut self,
        range: RecordRange,
        kind: FoldKind,
        queue: Option<&str>,
        take: &mut TakeBatch<'_>,
    ) -> Result<FoldProgress, Fault> {
        let deadline = Deadline::after_ms(FOLD_TIMEOUT_MS);
        self.hold_pieces()?;
        let store = Arc::clone(&self.context.store);
        let begun = async { deadline.limit(store.folds().begin(range, kind, u64::MAX)).await };
        let mut fold = self
            .unless_disconnected(Box::pin(async { begun.await.map_err(listing_fault) }))
            .await?;
        if let Some(queue) = queue {
            fold = fold.into_queue(queue);
        }
        loop {
            let step = async { deadline.limit(fold.step()).await.map_err(listing_fault) };
            let Some(some) = self.unless_disconnected(Box::pin(step)).await? else { break };
            take(self, some)?;
        }
        Ok(fold.progress().clone())
    }
}

/// The bucket type as answers have it: the default type is left out.
fn typed(bucket_type: &Bytes) -> Option<Bytes> {
    (bucket_type != DEFAULT_BUCKET_TYPE).then(|| bucket_type.clone())
}

/// An entry with a count, which saturates at `u32::MAX`.
fn counted(tag: Bytes, order: Option<u32>, count: u64) -> RpbKeysCount {
    RpbKeysCount { tag, order, count: u32::try_from(count).unwrap_or(u32::MAX) }
}

/// Approximate memory of a found record, in bytes.
fn found_bytes(found: &FoldFound) -> usize {
    found.key.len() + found.clock.len() + ENTRY_BYTES
}
