//! Folds: operators' walks through all records of a bucket or of a part of it.
//!
//! Every record is looked at once, on one node that has it, as in a listing; only what is known of it comes
//! back. Tombstones are records like others, as for a Riak node, except for folds that erase or repair.
//! Folds change records as clients would: a fold erases a record by a delete of the very version that it
//! found. A fold rests after each chunk for longer than that took, so that requests hardly
//! notice it.

use crate::coordinator::Coordinator;
use crate::coordinator::put::{DeleteRequest, Deleted};
use crate::error::RequestError;
use crate::listing::{Listings, RecordKind, RecordRange, RecordScan};
use crate::local_node::LocalNode;
use crate::options::{Precondition, ReadOptions};
use crate::queues::{QueuePriority, SourceQueues};
use crate::stats::{LongRequest, UnderWay};
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

/// How much longer than its work a fold rests.
const REST_FACTOR: u32 = 3;
/// The longest rest after a chunk.
const REST_MAX: Duration = Duration::from_secs(1);

/// Effect of a fold on the records that it goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoldKind {
    /// Names all, with their clocks.
    FetchClocks,
    /// Names all, with what they are in Riak's trees: made with this salt, if there is one.
    TreeEntries(Option<u32>),
    /// Puts all into a queue of replication ([`Fold::into_queue`]), at the lowest priority.
    ReplKeys,
    /// Names those with more siblings than this.
    ManySiblings(u32),
    /// Names those whose stored form has more bytes than this.
    Large(u64),
    /// Counts them, by size and siblings.
    ObjectStats,
    /// Names tombstones, with their clocks.
    FindTombs,
    /// Counts tombstones or has them reaped, whatever `delete_mode` says.
    ReapTombs(Method),
    /// Counts records or deletes them.
    EraseKeys(Method),
    /// Reads all replicas, so that those that are behind are repaired.
    RepairKeys,
}

/// Whether a fold that changes something does so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// It only counts what it would change.
    Count,
    /// It does.
    Change,
}

/// A record that a fold names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoldFound {
    /// Key.
    pub key: Bytes,
    /// Vector clock, as a Riak node gives it to clients; empty where the fold is about places in trees.
    pub clock: Bytes,
    /// Place in Riak's trees, if the fold is about that.
    pub tree_entry: Option<TreeEntry>,
    /// Siblings or bytes, whichever the fold is about.
    pub number: u64,
}

/// How far a fold is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FoldProgress {
    /// Records of the range that were looked at; of folds about tombstones, tombstones.
    pub looked_at_count: u64,
    /// Bytes of their stored forms.
    pub looked_at_bytes: u64,
    /// Records that the fold is about: named, or counted, or changed or about to be.
    pub match_count: u64,
    /// Records that could not be changed: a client had changed them, or too few nodes answered.
    pub failed_count: u64,
    /// Records by the order of magnitude of their bytes: 2 stands for 100 to 999.
    pub sizes: BTreeMap<u32, u64>,
    /// Records by their number of siblings.
    pub siblings: BTreeMap<u32, u64>,
}

/// A fold under way. Dropping it ends it; what it has changed stays so.
pub struct Fold {
    folds: Arc<Folds>,
    range: RecordRange,
    kind: FoldKind,
    records: RecordScan,
    progress: FoldProgress,
    /// Matches after which it ends.
    limit: u64,
    /// The queue that keys are put into.
    queue: Option<Arc<str>>,
    _under_way: UnderWay,
}

/// Folds that clients and operators begin at this node.
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

    /// Begins a fold that ends after `limit` matches. A fold that has tombstones reaped may have reaped some
    /// more by then, as far as nodes have looked ahead.
    ///
    /// # Errors
    ///
    /// Unknown bucket types, empty names, and partitions that no node has which is up.
    pub async fn begin(
        self: &Arc<Self>,
        range: RecordRange,
        kind: FoldKind,
        limit: u64,
    ) -> Result<Fold, RequestError> {
        let wanted = match kind {
            FoldKind::FindTombs | FoldKind::ReapTombs(Method::Count) => RecordKind::Tombstones,
            FoldKind::ReapTombs(Method::Change) => RecordKind::TombstonesToReap,
            FoldKind::EraseKeys(_) | FoldKind::RepairKeys => RecordKind::Live,
            FoldKind::FetchClocks
            | FoldKind::TreeEntries(_)
            | FoldKind::ReplKeys
            | FoldKind::ManySiblings(_)
            | FoldKind::Large(_)
            | FoldKind::ObjectStats => RecordKind::All,
        };
        let under_way = UnderWay::begin(&self.local.stats, LongRequest::Fold);
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
    /// The fold with the queue of this node that it puts keys into.
    #[must_use]
    pub fn into_queue(self, name: &str) -> Self {
        Self { queue: Some(name.into()), ..self }
    }

    /// How far it is.
    #[must_use]
    pub const fn progress(&self) -> &FoldProgress {
        &self.progress
    }

    /// Whether it has as many matches as it may have.
    #[must_use]
    pub const fn has_reached_limit(&self) -> bool {
        self.progress.match_count >= self.limit
    }

    /// Goes through the next records: those that the fold names, maybe none; `None` at the end.
    ///
    /// # Errors
    ///
    /// Engine faults, and partitions that no node has any more which is up.
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
            let Some(number) = self.take(&summary).await else { continue };
            found.push(self.named(summary, number)?);
        }
        let took_us = self.folds.local.clock.monotonic_us().saturating_sub(begun_us);
        let rest = Duration::from_micros(took_us) * REST_FACTOR;
        tokio::time::sleep(rest.min(REST_MAX)).await;
        Ok(Some(found))
    }

    /// Does with a record what the fold is for; the figure to name it with, if it is to be named.
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
            FoldKind::ReapTombs(_) | FoldKind::EraseKeys(Method::Count) => (true, None),
            FoldKind::EraseKeys(Method::Change) => (self.erase(summary).await, None),
            FoldKind::RepairKeys => (self.repair(summary).await, None),
            FoldKind::ReplKeys => (self.queue(summary), None),
        };
        self.progress.match_count += u64::from(is_match);
        number.filter(|_| is_match)
    }

    /// A record as the fold names it.
    fn named(&self, summary: RecordSummary, number: u64) -> Result<FoldFound, RequestError> {
        let RecordSummary { key, clock, riak_clock, .. } = summary;
        let riak_clock = match riak_clock.is_empty() {
            true => None,
            false => decode_riak_clock(&riak_clock, &Limits::STORED).ok(),
        };
        let FoldKind::TreeEntries(salt) = self.kind else {
            // A clock of ours is good for clients, too.
            let clock = riak_clock.map_or(clock, |clock| encode_riak_context(&clock));
            return Ok(FoldFound { key, clock, tree_entry: None, number });
        };
        let is_untold = || RequestError::Remote("a node told no clock as Riak has it".to_owned());
        let riak_clock = riak_clock.ok_or_else(is_untold)?;
        let RecordRange { bucket_type, bucket, .. } = &self.range;
        let bucket = BucketRef { bucket_type, bucket };
        let entry = match salt {
            None => TreeEntry::new(bucket, &key, &riak_clock),
            Some(salt) => TreeEntry::salted(bucket, &key, &riak_clock, salt),
        };
        Ok(FoldFound { key, clock: Bytes::new(), tree_entry: Some(entry), number })
    }

    /// Deletes a record if it is as it was found.
    async fn erase(&mut self, summary: &RecordSummary) -> bool {
        let Ok(clock) = decode_context(&summary.clock) else { return false };
        let precondition = Precondition { clock: Some(clock.clone()), ..Precondition::default() };
        let request = DeleteRequest {
            context: Some(clock),
            precondition,
            ..DeleteRequest::of(key_of(&self.range, &summary.key))
        };
        match self.folds.coordinator.delete(request).await {
            Ok(Deleted::Done) => true,
            Ok(Deleted::Missing) => false,
            Err(fault) => {
                tracing::debug!(%fault, "a fold could not erase a record");
                self.progress.failed_count += 1;
                false
            }
        }
    }

    /// Puts a record into the queue. Whether there is one.
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
