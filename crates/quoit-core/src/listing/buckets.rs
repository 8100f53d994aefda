//! Listings of the buckets of a bucket type.

use super::Listings;
use super::plan::shares;
use super::scan::CHUNK_COUNT;
use super::{CHUNK_TIMEOUT, ChunkFailure, decoded, own};
use crate::calls::call_while_up;
use crate::error::RequestError;
use crate::partition_set::PartitionSet;
use crate::placement::bucket_props;
use crate::stats::{LongRequest, LongRequestGuard};
use crate::topology::{NodeConnection, Topology};
use crate::votes::{NodeIndex, ReplicaCount};
use bytes::Bytes;
use quoit_cluster::{Lane, State};
use quoit_model::key::BucketRef;
use quoit_model::props::TypeState;
use quoit_wire::internode::data::{BucketsListed, ListBuckets, METHOD_LIST_BUCKETS};
use std::collections::VecDeque;
use std::sync::Arc;

/// A listing of buckets under way. Dropping it ends it.
///
/// Each node that takes part lists, in order, the buckets of which it holds a key. The coordinator
/// merges the lists.
pub struct BucketListing {
    listings: Arc<Listings>,
    topology: Arc<Topology>,
    bucket_type: Bytes,
    n_val: u32,
    sources: Vec<BucketSource>,
    failed: Vec<NodeIndex>,
    /// The last bucket that was listed.
    last: Option<Bytes>,
    /// Counts the listing in the statistics; `None` in a listing that is part of a [`BucketFold`].
    _under_way: Option<LongRequestGuard>,
}

/// The buckets of all bucket types, one type after the other. Dropping it ends it.
pub struct BucketFold {
    listings: Arc<Listings>,
    /// Bucket types that are still to be listed.
    types: VecDeque<Bytes>,
    /// The listing of the present bucket type.
    listing: Option<BucketListing>,
    _under_way: LongRequestGuard,
}

struct BucketSource {
    node: NodeIndex,
    names: VecDeque<Bytes>,
    complete: bool,
}

impl Listings {
    /// Starts a listing of the buckets that hold a key, once this node knows which nodes are up.
    ///
    /// # Errors
    ///
    /// Unknown bucket types, empty names, and a partition of which no live node has a copy.
    pub async fn list_buckets(
        self: &Arc<Self>,
        bucket_type: &[u8],
    ) -> Result<BucketListing, RequestError> {
        let under_way = LongRequestGuard::begin(&self.local.stats, LongRequest::Listing);
        let listing = under_way.begun(self.buckets_of(bucket_type).await)?;
        Ok(BucketListing { _under_way: Some(under_way), ..listing })
    }

    /// Starts a listing of the buckets of all active bucket types. Statistics count it as one fold,
    /// because clients request it with the messages of folds.
    ///
    /// # Errors
    ///
    /// A partition of which no live node has a copy.
    pub async fn fold_buckets(self: &Arc<Self>) -> Result<BucketFold, RequestError> {
        let under_way = LongRequestGuard::begin(&self.local.stats, LongRequest::Fold);
        let listed = self.local.control.read().list_types();
        let active = listed.into_iter().filter(|(_, state)| *state == TypeState::Active);
        let mut types: VecDeque<Bytes> =
            active.map(|(name, _)| Bytes::copy_from_slice(&name)).collect();
        let first = under_way.begun(self.next_listing(&mut types).await)?;
        Ok(BucketFold { listings: Arc::clone(self), types, listing: first, _under_way: under_way })
    }

    async fn next_listing(
        self: &Arc<Self>,
        types: &mut VecDeque<Bytes>,
    ) -> Result<Option<BucketListing>, RequestError> {
        match types.pop_front() {
            Some(bucket_type) => self.buckets_of(&bucket_type).await.map(Some),
            None => Ok(None),
        }
    }

    /// A listing that statistics do not count.
    async fn buckets_of(
        self: &Arc<Self>,
        bucket_type: &[u8],
    ) -> Result<BucketListing, RequestError> {
        let any = BucketRef { bucket_type, bucket: b"*" }.key(b"*");
        any.check()?;
        let topology = self.local.settled_topology(None).await;
        let n_val = least_n_val(&self.local.control.read(), any.bucket)?;
        let sources = sources(&topology, n_val, &[])?;
        Ok(BucketListing {
            listings: Arc::clone(self),
            topology,
            bucket_type: Bytes::copy_from_slice(bucket_type),
            n_val,
            sources,
            failed: Vec::new(),
            last: None,
            _under_way: None,
        })
    }

    /// A chunk of the buckets of which this node holds keys. `None` if the request's layout is not live
    /// any more, or a bucket has got fewer replicas since.
    pub(crate) async fn local_buckets(
        self: &Arc<Self>,
        list: ListBuckets,
    ) -> Result<Option<BucketsListed>, RequestError> {
        let (layout_version, state_version) = (list.layout_version, list.state_version);
        let listings = Arc::clone(self);
        let read = move || {
            let bucket_type = &list.bucket_type;
            let after = list.after.as_deref().map(|bucket| BucketRef { bucket_type, bucket });
            let page = listings.local.engine.list_buckets(bucket_type, after, CHUNK_COUNT)?;
            let complete = page.len() < CHUNK_COUNT;
            Ok(BucketsListed {
                buckets: page.into_iter().map(|(_, name)| name).collect(),
                complete,
            })
        };
        let listed = self.local.settings.blocking.on_pool(read).await?;
        let listed = self.local.if_still_live(listed, layout_version);
        Ok(listed.filter(|_| !self.local.has_fewer_replicas_since(state_version)))
    }
}

impl BucketFold {
    /// A bucket type and the next chunk of its bucket names; `None` when all are listed. Chunks are
    /// never empty.
    ///
    /// # Errors
    ///
    /// As [`BucketListing::next`].
    pub async fn next(&mut self) -> Result<Option<(Bytes, Vec<Bytes>)>, RequestError> {
        while let Some(listing) = &mut self.listing {
            if let Some(names) = listing.next().await? {
                return Ok(Some((listing.bucket_type.clone(), names)));
            }
            self.listing = self.listings.next_listing(&mut self.types).await?;
        }
        Ok(None)
    }
}

impl BucketListing {
    /// The next chunk of bucket names; `None` when the listing is complete. Chunks are never empty.
    ///
    /// # Errors
    ///
    /// Engine faults, and a partition of which no live node has a copy any more. A listing is complete
    /// or ends with an error; it is never cut short in silence.
    pub async fn next(&mut self) -> Result<Option<Vec<Bytes>>, RequestError> {
        let mut names = Vec::new();
        while names.len() < CHUNK_COUNT {
            self.fill().await?;
            let heads = self.sources.iter().filter_map(|source| source.names.front());
            let Some(least) = heads.min().cloned() else { break };
            for source in &mut self.sources {
                if source.names.front() == Some(&least) {
                    source.names.pop_front();
                }
            }
            self.last = Some(least.clone());
            names.push(least);
        }
        Ok(if names.is_empty() { None } else { Some(names) })
    }

    /// Chooses the nodes that list. They begin after the last bucket that was listed.
    fn plan(&mut self) -> Result<(), RequestError> {
        self.sources = sources(&self.topology, self.n_val, &self.failed)?;
        Ok(())
    }

    /// Asks sources for more names until each has one to compare or is complete.
    async fn fill(&mut self) -> Result<(), RequestError> {
        let is_lacking = |source: &BucketSource| source.names.is_empty() && !source.complete;
        while let Some(node) =
            self.sources.iter().find(|source| is_lacking(source)).map(|source| source.node)
        {
            match self.ask(node).await {
                Ok(BucketsListed { buckets, complete }) => {
                    // The first source that lacks names is still the one that was asked.
                    if let Some(asked) = self.sources.iter_mut().find(|source| is_lacking(source)) {
                        (asked.names, asked.complete) = (buckets.into(), complete);
                    }
                }
                Err(ChunkFailure::Node(fault)) => {
                    self.failed.push(node);
                    self.plan().map_err(|nobody| fault.unwrap_or(nobody))?;
                }
                Err(ChunkFailure::Here(fault)) => return Err(fault),
                Err(ChunkFailure::Stale) => {
                    self.topology = self
                        .listings
                        .local
                        .topology_after(self.topology.version(), CHUNK_TIMEOUT)
                        .await?;
                    let any = BucketRef { bucket_type: &self.bucket_type, bucket: b"*" };
                    self.n_val = least_n_val(&self.listings.local.control.read(), any)?;
                    self.failed.clear();
                    self.plan()?;
                }
            }
        }
        Ok(())
    }

    async fn ask(&self, node: NodeIndex) -> Result<BucketsListed, ChunkFailure> {
        let list = ListBuckets {
            bucket_type: self.bucket_type.clone(),
            after: self.last.clone(),
            layout_version: self.topology.layout_version(),
            state_version: self.topology.version(),
        };
        match &self.topology.node(node).connection {
            NodeConnection::Own => own(self.listings.local_buckets(list).await),
            NodeConnection::Peer(peer) => {
                let call = call_while_up(
                    peer,
                    METHOD_LIST_BUCKETS,
                    &list,
                    b"",
                    Lane::Large,
                    CHUNK_TIMEOUT,
                );
                decoded(call.await?.header)
            }
            NodeConnection::Unknown => Err(ChunkFailure::Node(None)),
        }
    }
}

/// Number of first primaries that together hold all buckets of a type: the least number of complete
/// copies that any bucket of the type has.
fn least_n_val(state: &State, any: BucketRef<'_>) -> Result<u32, RequestError> {
    let of_type = bucket_props(state, any)?.n_val;
    let placements = state.placements().into_iter();
    let own = placements.filter(|each| each.bucket_type == any.bucket_type);
    let n_vals = own.map(|each| match each.bucket {
        Some(bucket) => state.filled_n_val(BucketRef { bucket, ..any }, each.n_val),
        None => each.n_val,
    });
    let raised = state.raises().iter().filter(|raise| *raise.bucket_type == *any.bucket_type);
    Ok(n_vals.chain(raised.map(|raise| raise.filled_n_val)).min().unwrap_or(of_type))
}

/// Sources for all partitions, without the `failed` nodes.
fn sources(
    topology: &Topology,
    n_val: u32,
    failed: &[NodeIndex],
) -> Result<Vec<BucketSource>, RequestError> {
    // The first primaries hold every bucket, whatever its n_val. If one of them is down, other
    // primaries hold the buckets with the least n_val as well.
    let wanted = PartitionSet::all(topology.partition_count());
    let of = |n_val| shares(topology, &wanted, ReplicaCount::all_filled(n_val), failed);
    let shared = of(1).or_else(|_| of(n_val))?;
    let source = |node| BucketSource { node, names: VecDeque::new(), complete: false };
    Ok(shared.into_iter().map(|share| source(share.node)).collect())
}
