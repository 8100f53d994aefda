//! Folds: walks of an operator through all records of a bucket, or of a part of it.
//!
//! A fold visits each record once, at one node that holds it, as a listing does. Only a summary of the
//! record is sent back. As in Riak, tombstones count as records, except in folds that erase or repair.
//! Folds change records in the same way as clients: a fold that erases deletes exactly the version that
//! it found, and leaves a record alone that was changed since. After each chunk a fold pauses for
//! three times as long as the chunk took, so that it takes little from requests.

use crate::coordinator::Coordinator;
use crate::coordinator::put::{DeleteOutcome, DeleteRequest};
use crate::error::RequestError;
use crate::listing::{Listings, RecordKind, RecordRange, RecordScan};
use crate::local_node::LocalNode;
use crate::options::{Precondition, ReadOptions};
use crate::queues::{QueuePriority, SourceQueues};
use crate::stats::{LongRequest, LongRequestGuard};
use bytes::Bytes;
use quoit_model::context::{decode_context, encode_riak_context};
use quoit_model::etf::Limits;
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::props::Quorum;
use quoit_model::riak_clock::decode_riak_clock;
use quoit_riak::TreeEntry;
use quoit_wire::internode::data::RecordSummary;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Length of the pause after a chunk, in multiples of the time that the chunk took.
const REST_FACTOR: u32 = 3;
/// Longest pause after a chunk.
const REST_MAX: Duration = Duration::from_secs(1);

/// Task of a fold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoldKind {
    /// Returns every record with its clock.
    FetchClocks,
    /// Returns every record with its place in Riak's hash trees, made with this salt if there is one.
    TreeEntries(Option<u32>),
    /// Puts all records into a replication queue ([`Fold::into_queue`]), at the lowest priority.
    ReplKeys,
    /// Returns the records with more siblings than this.
    ManySiblings(u32),
    /// Returns the records whose stored form has more bytes than this.
    Large(u64),
    /// Counts all records, by size and by number of siblings.
    ObjectStats,
    /// Returns all tombstones with their clocks.
    FindTombs,
    /// Counts tombstones, or has them reaped whatever `delete_mode` says.
    ReapTombs(FoldMode),
    /// Counts records, or deletes them.
    EraseKeys(FoldMode),
    /// Reads all replicas of each record, so that read repair brings stale ones up to date.
    RepairKeys,
}

/// Mode of a fold that can change records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoldMode {
    /// Only counts the records that the fold would change.
    Count,
    /// Changes them.
    Change,
}

/// A record that a fold returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoldFound {
    /// Key.
    pub key: Bytes,
    /// Version vector in the form that a Riak node gives to clients; empty in folds about places in
    /// trees.
    pub clock: Bytes,
    /// Place in Riak's hash trees, in folds about these places.
    pub tree_entry: Option<TreeEntry>,
    /// Size in bytes in folds about large records, otherwise the number of siblings.
    pub number: u64,
}

/// Progress of a fold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FoldProgress {
    /// Number of records of the range that were visited; in folds about tombstones, of tombstones.
    pub looked_at_count: u64,
    /// Bytes of their stored forms.
    pub looked_at_bytes: u64,
    /// Number of records that matched: they were returned, counted, or changed.
    pub match_count: u64,
    /// Number of records that the fold failed to change, because a client had changed them or too few
    /// nodes answered.
    pub failed_count: u64,
    /// Number of records by order of magnitude of their size: 2 stands for 100 to 999 bytes.
    pub sizes: BTreeMap<u32, u64>,
    /// Number of records by their number of siblings.
    pub siblings: BTreeMap<u32, u64>,
}

/// A fold under way. Dropping it ends it; changes that it has made remain.
pub struct Fold {
    folds: Arc<Folds>,
    range: RecordRange,
    kind: FoldKind,
    records: RecordScan,
    progress: FoldProgress,
    /// Number of matches after which the fold ends.
    limit: u64,
    /// The queue of [`FoldKind::ReplKeys`].
    queue: Option<Arc<str>>,
    _under_way: LongRequestGuard,
}

/// Starts folds at this node, which coordinates them. Shared.
pub struct Folds {
    local: Arc<LocalNode>,
    coordinator: Arc<Coordinator>,
    listings: Arc<Listings>,
    source_queues: Arc<SourceQueues>,
}

impl Folds {
    pub(crate) fn new(
        coordinator: &Arc<Coordinator>,
        listings: &Arc<Listings>,
        source_queues: &Arc<SourceQueues>,
    ) -> Self {
        Self {
            local: Arc::clone(&coordinator.local),
            coordinator: Arc::clone(coordinator),
            listings: Arc::clone(listings),
            source_queues: Arc::clone(source_queues),
        }
    }

    /// Begins a fold that ends after `limit` matches. A fold that reaps tombstones may reap more than
    /// that, because nodes read ahead by a chunk.
    ///
    /// # Errors
    ///
    /// Unknown bucket types, empty names, and a partition of which no live node has a copy.
    pub async fn begin(
        self: &Arc<Self>,
        range: RecordRange,
        kind: FoldKind,
        limit: u64,
    ) -> Result<Fold, RequestError> {
        let wanted = match kind {
            FoldKind::FindTombs | FoldKind::ReapTombs(FoldMode::Count) => RecordKind::Tombstones,
            FoldKind::ReapTombs(FoldMode::Change) => RecordKind::TombstonesToReap,
            FoldKind::EraseKeys(_) | FoldKind::RepairKeys => RecordKind::Live,
            FoldKind::FetchClocks
            | FoldKind::TreeEntries(_)
            | FoldKind::ReplKeys
            | FoldKind::ManySiblings(_)
            | FoldKind::Large(_)
            | FoldKind::ObjectStats => RecordKind::All,
        };
        let under_way = LongRequestGuard::begin(&self.local.stats, LongRequest::Fold);
        let records = under_way.begun(self.listings.scan_records(&range, wanted).await)?;
        Ok(Fold {
            folds: Arc::clone(self),
            range,
            kind,
            records,
            progress: FoldProgress::default(),
            limit,
            queue: None,
            _under_way: under_way,
        })
    }
}

impl Fold {
    /// Sets the queue of this node that the fold puts keys into.
    #[must_use]
    pub fn into_queue(self, name: &str) -> Self {
        Self { queue: Some(name.into()), ..self }
    }

    /// Progress so far.
    #[must_use]
    pub const fn progress(&self) -> &FoldProgress {
        &self.progress
    }

    /// True if the fold has reached its limit of matches.
    #[must_use]
    pub const fn has_reached_limit(&self) -> bool {
        self.progress.match_count >= self.limit
    }

    /// Processes the next chunk of records, then pauses. Returns the records that the fold names, which
    /// may be none; `None` at the end.
    ///
    /// # Errors
    ///
    /// Engine faults, and a partition of which no live node has a copy any more.
    pub async fn step(&mut self) -> Result<Option<Vec<FoldFound>>, RequestError> {
        let begun_us = self.folds.local.clock.monotonic_us();
        if self.has_reached_limit() {
            return Ok(None);
        }
        let Some(chunk) = self.records.next().await? else { return Ok(None) };
        let mut found = Vec::new();
        for summary in chunk {
            if self.has_reached_limit() {
                break;
            }
            self.progress.looked_at_count += 1;
            self.progress.looked_at_bytes += summary.size_bytes;
            let taken = self.take(&summary).await;
            self.check();
            let Some(number) = taken else { continue };
            found.push(self.named(summary, number)?);
        }
        let took_us = self.folds.local.clock.monotonic_us().saturating_sub(begun_us);
        let rest = Duration::from_micros(took_us) * REST_FACTOR;
        tokio::time::sleep(rest.min(REST_MAX)).await;
        Ok(Some(found))
    }

    /// Checks, in debug builds, that each record was counted once for each of its outcomes.
    fn check(&self) {
        let FoldProgress { looked_at_count, match_count, failed_count, .. } = self.progress;
        debug_assert!(match_count <= self.limit, "a fold ends with its last match");
        debug_assert!(
            match_count + failed_count <= looked_at_count,
            "a record is counted as a match, as a failure, or as neither"
        );
    }

    /// Performs the fold's task on a record. Returns the number to report with it; `None` if the record
    /// is not reported.
    async fn take(&mut self, summary: &RecordSummary) -> Option<u64> {
        let siblings = summary.sibling_count;
        let (is_match, number) = match self.kind {
            FoldKind::FetchClocks | FoldKind::TreeEntries(_) | FoldKind::FindTombs => {
                (true, Some(u64::from(siblings)))
            }
            FoldKind::ManySiblings(count) => (siblings > count, Some(siblings.into())),
            FoldKind::Large(bytes) => (summary.size_bytes > bytes, Some(summary.size_bytes)),
            FoldKind::ObjectStats => {
                let order = summary.size_bytes.checked_ilog10().unwrap_or(0);
                *self.progress.sizes.entry(order).or_default() += 1;
                *self.progress.siblings.entry(siblings).or_default() += 1;
                (true, None)
            }
            FoldKind::ReapTombs(_) | FoldKind::EraseKeys(FoldMode::Count) => (true, None),
            FoldKind::EraseKeys(FoldMode::Change) => (self.erase(summary).await, None),
            FoldKind::RepairKeys => (self.repair(summary).await, None),
            FoldKind::ReplKeys => (self.queue(summary), None),
        };
        self.progress.match_count += u64::from(is_match);
        number.filter(|_| is_match)
    }

    /// The record in the form in which the fold returns it.
    fn named(&self, summary: RecordSummary, number: u64) -> Result<FoldFound, RequestError> {
        let RecordSummary { key, clock, riak_clock, .. } = summary;
        let riak_clock = match riak_clock.is_empty() {
            true => None,
            false => decode_riak_clock(&riak_clock, &Limits::STORED).ok(),
        };
        let FoldKind::TreeEntries(salt) = self.kind else {
            // Quoit's own clock serves clients as well.
            let clock = riak_clock.map_or(clock, |clock| encode_riak_context(&clock));
            return Ok(FoldFound { key, clock, tree_entry: None, number });
        };
        let no_clock = || RequestError::Remote("a node sent no clock in Riak's form".to_owned());
        let riak_clock = riak_clock.ok_or_else(no_clock)?;
        let RecordRange { bucket_type, bucket, .. } = &self.range;
        let bucket = BucketRef { bucket_type, bucket };
        let entry = match salt {
            None => TreeEntry::new(bucket, &key, &riak_clock),
            Some(salt) => TreeEntry::salted(bucket, &key, &riak_clock, salt),
        };
        Ok(FoldFound { key, clock: Bytes::new(), tree_entry: Some(entry), number })
    }

    /// Deletes a record if it is as the fold found it. True if it was deleted.
    async fn erase(&mut self, summary: &RecordSummary) -> bool {
        let Ok(clock) = decode_context(&summary.clock) else { return false };
        let precondition = Precondition { clock: Some(clock.clone()), ..Precondition::default() };
        let request = DeleteRequest {
            context: Some(clock),
            precondition,
            ..DeleteRequest::of(key_of(&self.range, &summary.key))
        };
        match self.folds.coordinator.delete(&request).await {
            Ok(DeleteOutcome::Done) => true,
            Ok(DeleteOutcome::Missing) => false,
            Err(fault) => {
                tracing::debug!(%fault, "a fold could not erase a record");
                self.progress.failed_count += 1;
                false
            }
        }
    }

    /// Puts a record into the queue. False if there is no such queue.
    fn queue(&mut self, summary: &RecordSummary) -> bool {
        let key = key_of(&self.range, &summary.key).encoded();
        let (keys, now_us) = ([Bytes::copy_from_slice(&key)], self.folds.local.clock.unix_us());
        let queues = &self.folds.source_queues;
        let pushed = self
            .queue
            .as_ref()
            .and_then(|queue| queues.push_references(queue, QueuePriority::Fold, keys, now_us));
        self.progress.failed_count += u64::from(pushed.is_none());
        pushed.is_some()
    }

    async fn repair(&mut self, summary: &RecordSummary) -> bool {
        let all = ReadOptions {
            r: Some(Quorum::All),
            sloppy_quorum: Some(false),
            ..ReadOptions::default()
        };
        match self.folds.coordinator.get(key_of(&self.range, &summary.key), &all).await {
            Ok(_) => true,
            Err(fault) => {
                tracing::debug!(%fault, "a fold could not read all replicas of a record");
                self.progress.failed_count += 1;
                false
            }
        }
    }
}

fn key_of<'a>(range: &'a RecordRange, key: &'a [u8]) -> KeyRef<'a> {
    BucketRef { bucket_type: &range.bucket_type, bucket: &range.bucket }.key(key)
}
