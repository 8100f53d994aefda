//! Sources of a listing: the nodes that together cover all partitions, and their answers merged into
//! one.

use super::Listings;
use super::plan::{NodeShare, shares};
use super::scan::CHUNK_COUNT;
use super::{CHUNK_TIMEOUT, ChunkFailure, decoded, own};
use crate::calls::call_while_up;
use crate::error::RequestError;
use crate::partition_set::PartitionSet;
use crate::placement::replicas_of;
use crate::topology::{NodeConnection, Topology};
use crate::votes::{NodeIndex, ReplicaCount};
use bytes::Bytes;
use quoit_cluster::Lane;
use quoit_model::key::BucketRef;
use quoit_number::length_u32;
use quoit_planted::planted;
use quoit_store::error::StoreError;
use quoit_wire::internode::data::{METHOD_SCAN, Scan, ScanSpan, Scanned};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time that a query waits for index entries that are being rebuilt if no other node could answer.
const REBUILD_PATIENCE: Duration = Duration::from_secs(2);
/// Interval at which a query checks whether the entries are rebuilt.
const REBUILD_PAUSE: Duration = Duration::from_millis(20);

/// Order in which positions are returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ListingOrder {
    /// As nodes answer. The positions of one chunk are in order.
    Arrival,
    /// In order over all nodes: their answers are merged.
    Sorted,
}

/// Records that a scan asks all sources for.
#[derive(Clone, Debug)]
pub(crate) struct WantedRecords {
    pub(crate) bucket_type: Bytes,
    pub(crate) bucket: Bytes,
    pub(crate) span: ScanSpan,
    /// A valid regular expression; `None` for no pattern.
    pub(crate) pattern: Option<Bytes>,
    /// Positions up to this one are left out.
    pub(crate) after: Option<Bytes>,
    /// Partitions that are scanned; `None` for all.
    pub(super) partitions: Option<PartitionSet>,
    pub(crate) order: ListingOrder,
}

type PendingAnswer = Pin<Box<dyn Future<Output = Result<Scanned, ChunkFailure>> + Send>>;

/// A node and the partitions that it answers for.
struct ListingSource {
    share: NodeShare,
    /// Position after which the next chunk of this source begins.
    after: Option<Bytes>,
    /// Positions that the node has returned and that were not taken yet.
    positions: VecDeque<Bytes>,
    is_complete: bool,
    /// Request under way.
    answer: Option<PendingAnswer>,
}

impl ListingSource {
    fn new(share: NodeShare, after: Option<Bytes>) -> Self {
        Self { share, after, positions: VecDeque::new(), is_complete: false, answer: None }
    }

    /// A complete source: positions that a node has returned, with none to follow.
    fn done(share: NodeShare, positions: VecDeque<Bytes>) -> Self {
        Self { share, after: None, positions, is_complete: true, answer: None }
    }

    /// Takes the positions of an answer.
    fn take(&mut self, Scanned { positions, next }: Scanned) {
        debug_assert!(
            self.positions.is_empty() && !self.is_complete,
            "a source is asked for more when all its positions were taken"
        );
        self.positions = positions.into();
        self.is_complete = next.is_none();
        self.after = next;
    }
}

/// A scan of all partitions. Each partition is read once, from one node with a complete copy of it. All nodes
/// are asked at the same time for one chunk each, and each is asked for its next chunk when the reader has
/// taken the last one. If a node fails, other nodes take over its partitions after the position that it had
/// reached. Dropping the scan ends it.
pub(crate) struct Sources {
    listings: Arc<Listings>,
    topology: Arc<Topology>,
    wanted: WantedRecords,
    replicas: ReplicaCount,
    sources: Vec<ListingSource>,
    failed: Vec<NodeIndex>,
    /// Index of the source that was looked at last.
    turn: usize,
}

impl Listings {
    /// Starts a scan, once this node knows which nodes are up.
    ///
    /// # Errors
    ///
    /// Unknown bucket types, empty names, and a partition of which no live node has a copy.
    pub(crate) async fn scan(
        self: &Arc<Self>,
        wanted: WantedRecords,
    ) -> Result<Sources, RequestError> {
        let bucket = BucketRef { bucket_type: &wanted.bucket_type, bucket: &wanted.bucket };
        bucket.key(b"*").check()?;
        let topology = self.local.settled_topology(None).await;
        let replicas = replicas_of(&self.local.control.read(), bucket)?;
        let plan = match &wanted.partitions {
            None => self.plans.for_all(&topology, replicas)?,
            Some(some) => shares(&topology, some, replicas, &[])?.into(),
        };
        let source = |share: &NodeShare| ListingSource::new(share.clone(), wanted.after.clone());
        Ok(Sources {
            listings: Arc::clone(self),
            topology,
            replicas,
            sources: plan.iter().map(source).collect(),
            failed: Vec::new(),
            turn: 0,
            wanted,
        })
    }
}

impl Sources {
    /// The next positions, at most `count_max`; `None` when there are no more. Chunks are never empty.
    ///
    /// # Errors
    ///
    /// Engine faults, and a partition of which no live node has a copy any more. A scan is complete or
    /// ends with an error; it is never cut short in silence.
    pub(crate) async fn next(
        &mut self,
        count_max: usize,
    ) -> Result<Option<Vec<Bytes>>, RequestError> {
        let count_max = count_max.clamp(1, CHUNK_COUNT);
        loop {
            let taken = match self.wanted.order {
                ListingOrder::Arrival => self.take_any(count_max),
                ListingOrder::Sorted => self.take_sorted(count_max),
            };
            self.sources.retain(|source| !source.is_complete || !source.positions.is_empty());
            if !taken.is_empty() {
                return Ok(Some(taken));
            }
            if self.sources.is_empty() {
                return Ok(None);
            }
            self.await_answers(count_max).await?;
        }
    }

    /// Takes positions of one source, beginning with the source after the last one used.
    fn take_any(&mut self, count_max: usize) -> Vec<Bytes> {
        for _ in 0..self.sources.len() {
            self.turn = (self.turn + 1) % self.sources.len();
            let at_turn = self.sources.get_mut(self.turn);
            if let Some(ListingSource { positions, .. }) = at_turn
                && !positions.is_empty()
            {
                return positions.drain(..count_max.min(positions.len())).collect();
            }
        }
        Vec::new()
    }

    /// Takes the least positions of all sources; none while a source that is not complete has none to
    /// compare.
    fn take_sorted(&mut self, count_max: usize) -> Vec<Bytes> {
        let is_lacking =
            |source: &ListingSource| source.positions.is_empty() && !source.is_complete;
        if self.sources.iter().any(is_lacking) {
            return Vec::new();
        }
        if let [only] = self.sources.as_mut_slice() {
            return only.positions.drain(..count_max.min(only.positions.len())).collect();
        }
        merge(&mut self.sources, count_max)
    }

    /// Asks all sources that have no positions left, and waits for the first answer.
    async fn await_answers(&mut self, count_max: usize) -> Result<(), RequestError> {
        let mut sources = std::mem::take(&mut self.sources);
        for source in &mut sources {
            if source.positions.is_empty() && !source.is_complete && source.answer.is_none() {
                source.answer = Some(self.ask(source, count_max));
            }
        }
        self.sources = sources;
        match self.answered().await {
            Ok(()) => Ok(()),
            Err((place, ChunkFailure::Node(fault))) => {
                self.reassign_failed(place).map_err(|nobody| fault.unwrap_or(nobody))
            }
            Err((_, ChunkFailure::Here(fault))) => Err(fault),
            Err((_, ChunkFailure::Stale)) => self.reassign_all().await,
        }
    }

    /// Waits for the next answer, and gives the positions in it to its source. An error comes with the
    /// index of the source.
    async fn answered(&mut self) -> Result<(), (usize, ChunkFailure)> {
        poll_fn(|context| {
            for (place, source) in self.sources.iter_mut().enumerate() {
                if let Some(answer) = &mut source.answer
                    && let Poll::Ready(answered) = answer.as_mut().poll(context)
                {
                    source.answer = None;
                    let taken = answered.map(|scanned| source.take(scanned));
                    return Poll::Ready(taken.map_err(|fault| (place, fault)));
                }
            }
            Poll::Pending
        })
        .await
    }

    fn ask(&self, source: &ListingSource, count_max: usize) -> PendingAnswer {
        let WantedRecords { bucket_type, bucket, span, pattern, .. } = self.wanted.clone();
        let scan = Scan {
            bucket_type,
            bucket,
            partitions: source.share.partitions.to_bytes(),
            layout_version: self.topology.layout_version(),
            after: source.after.clone(),
            count_max: length_u32(count_max),
            pattern,
            span: Some(span),
            state_version: self.topology.version(),
        };
        match &self.topology.node(source.share.node).connection {
            NodeConnection::Own => {
                let listings = Arc::clone(&self.listings);
                let is_alone = self.topology.is_alone();
                let patience = if is_alone { REBUILD_PATIENCE } else { Duration::ZERO };
                Box::pin(async move { own(scan_once_rebuilt(&listings, scan, patience).await) })
            }
            NodeConnection::Peer(peer) => {
                let peer = Arc::clone(peer);
                Box::pin(async move {
                    let call =
                        call_while_up(&peer, METHOD_SCAN, &scan, b"", Lane::Large, CHUNK_TIMEOUT);
                    decoded(call.await?.header)
                })
            }
            NodeConnection::Unknown => Box::pin(async { Err(ChunkFailure::Node(None)) }),
        }
    }

    /// Assigns the rest of a failed node's partitions to other nodes.
    fn reassign_failed(&mut self, place: usize) -> Result<(), RequestError> {
        let source = self.sources.swap_remove(place);
        self.failed.push(source.share.node);
        if planted!(SkipsFailedNodes) {
            return Ok(());
        }
        self.reassign(source)
    }

    /// Assigns all remaining partitions again, by the newest layout and the present number of replicas of the
    /// bucket.
    async fn reassign_all(&mut self) -> Result<(), RequestError> {
        self.topology =
            self.listings.local.topology_after(self.topology.version(), CHUNK_TIMEOUT).await?;
        let WantedRecords { bucket_type, bucket, .. } = &self.wanted;
        self.replicas =
            replicas_of(&self.listings.local.control.read(), BucketRef { bucket_type, bucket })?;
        self.failed.clear();
        let sources = std::mem::take(&mut self.sources);
        sources.into_iter().try_for_each(|source| self.reassign(source))
    }

    /// Replaces a source by new ones for the rest of its partitions. Positions that it has returned
    /// already are kept.
    fn reassign(&mut self, source: ListingSource) -> Result<(), RequestError> {
        let ListingSource { share, after, positions, is_complete, .. } = source;
        if !is_complete {
            let shared = shares(&self.topology, &share.partitions, self.replicas, &self.failed)?;
            self.sources
                .extend(shared.into_iter().map(|share| ListingSource::new(share, after.clone())));
        }
        if !positions.is_empty() {
            self.sources.push(ListingSource::done(share, positions));
        }
        Ok(())
    }
}

/// As [`Listings::local_scan`], but waits up to `patience` for index entries. After a crash the engine
/// rebuilds them, which takes little time if there are few.
async fn scan_once_rebuilt(
    listings: &Arc<Listings>,
    scan: Scan,
    patience: Duration,
) -> Result<Option<Scanned>, RequestError> {
    let until = Instant::now() + patience;
    loop {
        let scanned = listings.local_scan(scan.clone()).await;
        let is_unavailable =
            matches!(scanned, Err(RequestError::Store(StoreError::IndexesUnavailable { .. })));
        if !is_unavailable || Instant::now() >= until {
            return scanned;
        }
        sleep(REBUILD_PAUSE).await;
    }
}

/// Takes the least positions of all sources, until one that is not complete has none left.
#[expect(clippy::indexing_slicing, reason = "heads have indexes of sources")]
fn merge(sources: &mut [ListingSource], count_max: usize) -> Vec<Bytes> {
    let first = |(place, source): (usize, &ListingSource)| {
        source.positions.front().map(|position| Reverse((position.clone(), place)))
    };
    let mut heads: BinaryHeap<_> = sources.iter().enumerate().filter_map(first).collect();
    let mut taken = Vec::new();
    while taken.len() < count_max
        && let Some(mut head) = heads.peek_mut()
    {
        let Reverse((least, place)) = &mut *head;
        let source = &mut sources[*place];
        source.positions.pop_front();
        if let Some(next) = source.positions.front() {
            taken.push(std::mem::replace(least, next.clone()));
            continue;
        }
        let Reverse((least, _)) = PeekMut::pop(head);
        taken.push(least);
        if !source.is_complete {
            break;
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition_set::PartitionSet;
    use proptest::prelude::*;

    fn source(positions: &[u8], is_complete: bool) -> ListingSource {
        let share = NodeShare { node: 0, partitions: PartitionSet::empty(8) };
        let mut positions = positions.to_vec();
        positions.sort_unstable();
        let positions = positions.iter().map(|byte| Bytes::copy_from_slice(&[*byte])).collect();
        ListingSource { is_complete, ..ListingSource::done(share, positions) }
    }

    proptest! {
        #[test]
        fn a_merge_takes_the_least_and_never_goes_past_what_may_still_come(
            parts in proptest::collection::vec((
                proptest::collection::vec(any::<u8>(), 1..20), any::<bool>(),
            ), 1..6),
            count_max in 1..50usize,
        ) {
            let mut sources: Vec<ListingSource> =
                parts.iter().map(|(bytes, is_complete)| source(bytes, *is_complete)).collect();
            let mut all: Vec<u8> = parts.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
            all.sort_unstable();
            // Each source returns positions in order, so later positions are above all earlier ones.
            let open = parts.iter().filter(|(_, is_complete)| !is_complete);
            let known_to = open.filter_map(|(bytes, _)| bytes.iter().max()).min();
            let taken: Vec<u8> = merge(&mut sources, count_max).iter().map(|each| each[0]).collect();
            prop_assert_eq!(&taken[..], &all[..taken.len()]);
            prop_assert!(known_to.is_none_or(|known| taken.iter().all(|byte| byte <= known)));
            let known_count =
                known_to.map_or(all.len(), |known| all.iter().filter(|byte| *byte < known).count());
            prop_assert!(taken.len() >= known_count.min(count_max));
            let left: usize = sources.iter().map(|source| source.positions.len()).sum();
            prop_assert_eq!(left + taken.len(), all.len());
        }
    }
}
