//! One check with a Quoit cluster: descends from the digests of all records to the records that differ.

use super::other_cluster::OtherCluster;
use super::range::CheckRange;
use super::rebase::RebasePlan;
use super::report::FullSyncReport;
use super::settings::{FullSyncScope, FullSyncSettings};
use crate::address::PeerAddress;
use crate::dialer::PeerDialer;
use bytes::Bytes;
use quoit_client::Error;
use quoit_core::{
    ArcRange, ClusterDigests, ClusterQuestion, ComparedRecord, Difference, DifferenceDirection,
    QueuePriority, ReplicatedStore, RequestError, differences,
};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::props::ReplMode;
use quoit_riak_peer::PeerError;
use quoit_store::compare::{HashRange, hour_of};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::sleep;

/// Maximum number of ranges in a request.
const RANGE_COUNT: usize = 4_096;
/// Number of records that a range should have at most when they are compared one by one.
const RECORDS_PER_RANGE: u64 = 16;
/// Maximum depth of ranges, in bits of the hash. A range of this depth is not split.
const DEPTH_MAX: u32 = 36;
/// Pause between two comparisons, in which writes under way reach the other cluster.
const SETTLING: Duration = Duration::from_millis(500);
/// Number of comparisons of arcs. Only arcs that differ in all of them count, so that writes under way do
/// not.
const LOOK_COUNT: usize = 2;
/// Number of references in a request.
const REFERENCE_COUNT: usize = 4_096;
/// Hours from now in which records that expire are not compared, because clocks of clusters differ.
const HOURS_AHEAD: u32 = 1;

/// Reason why a check ended early.
#[derive(Debug, Error)]
pub(crate) enum FullSyncError {
    #[error("the other cluster can't be asked: {0}")]
    Client(#[from] Error),
    #[error("the other cluster does not answer")]
    Silent,
    #[error("{0} is a peer for HTTP; full-sync needs host:port:pb")]
    Protocol(String),
    #[error("the other cluster has sent a malformed answer")]
    Malformed,
    #[error("{0} is a node of this cluster: set ttaaefs_peerip to a node of the other one")]
    Itself(String),
    #[error("the other cluster does not know Quoit's digests: it runs another program")]
    NoQuoit,
    #[error(transparent)]
    Own(#[from] RequestError),
    #[error("the other cluster: {0}")]
    Riak(#[from] PeerError),
    #[error("there is no queue `{0}` {1}: add it with quoit repl queue add, or change {2}")]
    NoQueue(String, &'static str, &'static str),
    #[error("{0} records could not be deleted, for one because {1}; repeat the command")]
    Undeleted(u64, String),
    #[error(
        "{0} parts of the clusters could not be compared: have all nodes of both up and repeat the command"
    )]
    Missing(usize),
    #[error("{0} records are queued, as many as repl.fullsync.maximum allows; repeat the command")]
    Cut(usize),
}

/// A check under way.
pub(super) struct RunningCheck<'a> {
    store: &'a Arc<ReplicatedStore>,
    settings: &'a FullSyncSettings,
    range: &'a CheckRange,
    hour_min: u32,
    /// Plan by which records are deleted that only one cluster has.
    rebase: Option<RebasePlan>,
}

impl<'a> RunningCheck<'a> {
    pub(super) fn new(
        store: &'a Arc<ReplicatedStore>,
        settings: &'a FullSyncSettings,
        range: &'a CheckRange,
        now_us: u64,
    ) -> Self {
        let hour_min = hour_of(now_us / 1_000_000).saturating_add(HOURS_AHEAD);
        Self { store, settings, range, hour_min, rebase: None }
    }

    /// The same check with a plan for deletes.
    pub(super) fn rebasing(self, plan: RebasePlan) -> Self {
        Self { rebase: Some(plan), ..self }
    }

    pub(super) async fn run(
        &self,
        (dialer, address): (&PeerDialer, &PeerAddress),
        report: &mut FullSyncReport,
    ) -> Result<(), FullSyncError> {
        let mut peer = OtherCluster::connect(
            dialer,
            address,
            self.store.replication().cluster(),
            self.rebase.is_some(),
        )
        .await?;
        let walked = self.walk(&mut peer, report).await;
        report.exchanged_bytes = peer.exchanged_bytes;
        report.cluster = peer.id;
        walked
    }

    async fn walk(
        &self,
        peer: &mut OtherCluster,
        report: &mut FullSyncReport,
    ) -> Result<(), FullSyncError> {
        let own_ring = self.store.control().read().ring_size().get();
        // A small request, whose answer contains the other cluster's ring size.
        let first = [ArcRange { arc: 0, range: 1 }];
        let told = peer.ask(1, self.hour_min, &first, false).await?;
        let their_ring = u16::try_from(told.ring_size).map_err(|_| FullSyncError::Malformed)?;
        let arc_count = own_ring.min(their_ring);
        if !arc_count.is_power_of_two() {
            return Err(FullSyncError::Malformed);
        }
        report.arc_count = arc_count.into();
        let all: Vec<ArcRange> = (0..arc_count).map(|arc| ArcRange { arc, range: 1 }).collect();
        let mut differing = all;
        let mut missing = BTreeSet::new();
        for look in 0..LOOK_COUNT {
            if look > 0 {
                sleep(SETTLING).await;
            }
            differing = self.differing(peer, arc_count, &differing, &mut missing).await?;
            if differing.is_empty() {
                break;
            }
        }
        report.differing_arc_count = differing.len() as u64;
        let depth = self.depth(arc_count, told.key_count.unwrap_or(0));
        let ranges = self.descend(peer, arc_count, differing, depth, &mut missing).await?;
        report.missing_arc_count = missing.len() as u64;
        if self.rebase.is_some() && !missing.is_empty() {
            return Err(FullSyncError::Missing(missing.len()));
        }
        let mut repair = RecordsToQueue::default();
        let mut left = ranges.chunks(RANGE_COUNT / 16);
        while repair.count < self.settings.repair_count_max
            && let Some(some) = left.next()
        {
            let found = self.records(peer, arc_count, some, report).await?;
            let mut wanted = self.wanted(found);
            if let Some(plan) = &self.rebase {
                wanted = plan.delete(self.store, peer, wanted, report).await?;
            }
            repair.note(wanted, self.settings, report);
            self.send(peer, &mut repair, false).await?;
        }
        self.send(peer, &mut repair, true).await?;
        report.left_range_count = left.map(|some| some.len() as u64).sum();
        if self.rebase.is_some() && report.left_range_count > 0 {
            return Err(FullSyncError::Cut(repair.count));
        }
        Ok(())
    }

    /// The question to this cluster that belongs to a request to the other one.
    const fn question<'r>(
        &self,
        peer: &OtherCluster,
        arc_count: u16,
        ranges: &'r [ArcRange],
        wants_records: bool,
    ) -> ClusterQuestion<'r> {
        let (hour_min, is_rebase) = (self.hour_min, self.rebase.is_some());
        ClusterQuestion { arc_count, hour_min, ranges, wants_records, other: peer.id, is_rebase }
    }

    /// The ranges among `asked` that differ. Arcs for which one cluster can't answer are left out.
    async fn differing(
        &self,
        peer: &mut OtherCluster,
        arc_count: u16,
        asked: &[ArcRange],
        missing: &mut BTreeSet<u16>,
    ) -> Result<Vec<ArcRange>, FullSyncError> {
        let mut differing = Vec::new();
        for some in asked.chunks(RANGE_COUNT) {
            let here = self
                .store
                .replication()
                .cluster_digests(self.question(peer, arc_count, some, false));
            let there = peer.ask(arc_count, self.hour_min, some, false);
            let (here, there) = tokio::join!(here, there);
            let (ClusterDigests { digests, missing: missing_here, .. }, there) = (here?, there?);
            let theirs = there.digests.unwrap_or_default();
            if theirs.len() != some.len() * 8 {
                return Err(FullSyncError::Malformed);
            }
            // Ranges without a digest would count as equal, and losses as settled.
            assert_eq!(digests.len(), some.len(), "this cluster has a digest for each range");
            missing.extend(missing_here);
            missing.extend(there.missing_arcs.iter().filter_map(|arc| u16::try_from(*arc).ok()));
            let ours = digests.iter().map(|digest| digest.to_le_bytes());
            for ((range, our), their) in some.iter().zip(ours).zip(theirs.chunks_exact(8)) {
                if our != their && !missing.contains(&range.arc) {
                    differing.push(*range);
                }
            }
        }
        Ok(differing)
    }

    /// Depth, in bits of the hash, at which ranges have few enough records to compare them one by one.
    /// `their_count` is the number of records of a node of the other cluster.
    fn depth(&self, arc_count: u16, their_count: u64) -> u32 {
        let stats = self.store.engine().stats();
        // A node has at most all records of its cluster.
        let per_arc = stats.key_count.max(their_count) / u64::from(arc_count);
        let ranges = (per_arc / RECORDS_PER_RANGE).max(1);
        ranges.ilog2().next_multiple_of(4).min(DEPTH_MAX)
    }

    /// Descends to the smallest ranges that differ.
    async fn descend(
        &self,
        peer: &mut OtherCluster,
        arc_count: u16,
        arcs: Vec<ArcRange>,
        depth: u32,
        missing: &mut BTreeSet<u16>,
    ) -> Result<Vec<ArcRange>, FullSyncError> {
        let mut ranges = arcs;
        let mut level = 0;
        while level < depth && !ranges.is_empty() {
            let parts: Vec<ArcRange> = ranges.iter().flat_map(parts_of).collect();
            if parts.is_empty() {
                break;
            }
            ranges = self.differing(peer, arc_count, &parts, missing).await?;
            level += 4;
        }
        Ok(ranges)
    }

    async fn records(
        &self,
        peer: &mut OtherCluster,
        arc_count: u16,
        ranges: &[ArcRange],
        report: &mut FullSyncReport,
    ) -> Result<Vec<Difference>, FullSyncError> {
        let here =
            self.store.replication().cluster_digests(self.question(peer, arc_count, ranges, true));
        let there = peer.ask(arc_count, self.hour_min, ranges, true);
        let (here, there) = tokio::join!(here, there);
        let (here, there) = (here?, there?);
        // Records of arcs that one side can't report would look as if they were missing there. So
        // nothing of this request is compared.
        let missing_count = here.missing.len() + there.missing_arcs.len();
        match self.rebase {
            Some(_) if missing_count > 0 => return Err(FullSyncError::Missing(missing_count)),
            None if missing_count > 0 => {
                report.missing_arc_count += missing_count as u64;
                return Ok(Vec::new());
            }
            _ => {}
        }
        let compared = |record: quoit_wire::messages::RpbComparedRecord| ComparedRecord {
            key: record.key,
            digest: record.digest,
            is_tombstone: record.tombstone,
            clock: record.clock,
            modified_us: record.modified_us,
        };
        let there: Vec<ComparedRecord> = there.records.into_iter().map(compared).collect();
        report.compared_count += here.records.len().max(there.len()) as u64;
        Ok(differences(here.records, there))
    }

    /// Differences that the check repairs.
    fn wanted(&self, found: Vec<Difference>) -> Vec<Difference> {
        let is_wanted = |difference: &Difference| {
            let Ok(key) = KeyRef::decode(&difference.key) else { return false };
            let is_in_scope = match (&self.settings.scope, &self.settings.bucket) {
                (FullSyncScope::Bucket, Some((bucket_type, bucket))) => {
                    key.bucket.bucket_type == bucket_type.as_bytes()
                        && key.bucket.bucket == bucket.as_bytes()
                }
                _ => true,
            };
            let state = self.store.control().read();
            let mode = state.bucket_props(key.bucket).ok().and_then(|props| props.repl);
            let goes = !matches!(mode, Some(ReplMode::Off | ReplMode::Realtime));
            let bucket = bucket_name(key.bucket);
            is_in_scope && goes && self.range.has(&bucket, difference.modified_us)
        };
        found.into_iter().filter(is_wanted).collect()
    }

    /// Queues gathered records: all of them, or only once there are enough for a request.
    async fn send(
        &self,
        peer: &mut OtherCluster,
        repair: &mut RecordsToQueue,
        all: bool,
    ) -> Result<(), FullSyncError> {
        if self.rebase.is_some_and(|plan| plan.is_dry_run) {
            *repair = RecordsToQueue { count: repair.count, ..RecordsToQueue::default() };
        }
        let is_due = |keys: &Vec<Bytes>| !keys.is_empty() && (all || keys.len() >= REFERENCE_COUNT);
        if is_due(&repair.from_here) {
            let keys = std::mem::take(&mut repair.from_here);
            let (queue, now_us) = (&self.settings.queue, self.store.clock().unix_us());
            let queues = self.store.source_queues();
            if queues.push_references(queue, QueuePriority::FullSync, keys, now_us).is_none() {
                let place = "here";
                return Err(FullSyncError::NoQueue(queue.clone(), place, "ttaaefs_queuename"));
            }
        }
        if is_due(&repair.from_there) {
            let keys = std::mem::take(&mut repair.from_there);
            if let Some(queue) = &self.settings.peer_queue {
                for some in keys.chunks(REFERENCE_COUNT) {
                    peer.queue(queue, some.to_vec()).await?;
                }
            }
        }
        Ok(())
    }
}

/// Name of a bucket in reports and ranges.
pub(crate) fn bucket_name(bucket: BucketRef<'_>) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes);
    format!("{}/{}", text(bucket.bucket_type), text(bucket.bucket))
}

fn parts_of(range: &ArcRange) -> impl Iterator<Item = ArcRange> + use<> {
    let arc = range.arc;
    let parts = HashRange::from_number(range.range).into_iter().flat_map(HashRange::parts);
    parts.map(move |part| ArcRange { arc, range: part.number() })
}

/// Names of records that are to be queued.
#[derive(Default)]
struct RecordsToQueue {
    from_here: Vec<Bytes>,
    from_there: Vec<Bytes>,
    /// Number of records that were or will be queued, here or there.
    count: usize,
}

impl RecordsToQueue {
    fn note(
        &mut self,
        found: Vec<Difference>,
        settings: &FullSyncSettings,
        report: &mut FullSyncReport,
    ) {
        for Difference { key, direction, modified_us, .. } in found {
            let is_queued = direction != DifferenceDirection::FromThere || report.queues_there;
            self.count += usize::from(is_queued);
            let known = report.modified_us.unwrap_or((modified_us, modified_us));
            report.modified_us = Some((known.0.min(modified_us), known.1.max(modified_us)));
            if let Ok(named) = KeyRef::decode(&key) {
                let bucket = bucket_name(named.bucket);
                if settings.logs_repairs {
                    let key = String::from_utf8_lossy(named.key);
                    let key = &*key;
                    tracing::info!(bucket, key, ?direction, "full-sync: a record differs");
                }
                *report.buckets.entry(bucket).or_default() += 1;
            }
            if direction != DifferenceDirection::FromThere {
                report.source_ahead += 1;
                self.from_here.push(key.clone());
            }
            if direction != DifferenceDirection::FromHere {
                report.sink_ahead += 1;
                self.from_there.push(key);
            }
        }
    }
}
