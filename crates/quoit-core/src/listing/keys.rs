//! Keys of a bucket.

use super::plan::{PartitionSet, Share, shares};
use super::{CHUNK_COUNT, CHUNK_TIMEOUT, Failed, decoded, own};
use crate::calls::call_while_up;
use crate::error::RequestError;
use crate::store::{ReplicatedStore, bucket_props};
use crate::topology::{Reach, Topology};
use crate::votes::NodePlace;
use bytes::Bytes;
use quoit_cluster::Lane;
use quoit_model::hash::{KeyHash, PlacementRule};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_store::engine::KeyRange;
use quoit_wire::internode::data::{KeysListed, ListKeys, METHOD_LIST_KEYS};
use std::sync::Arc;

/// A listing of keys under way. Dropping it ends it.
pub struct KeyListing {
    store: Arc<ReplicatedStore>,
    topology: Arc<Topology>,
    bucket_type: Bytes,
    bucket: Bytes,
    n_val: u32,
    /// What is still to be listed; the last one is being listed.
    sources: Vec<Source>,
    failed: Vec<NodePlace>,
}

struct Source {
    share: Share,
    after: Option<Bytes>,
}

impl ReplicatedStore {
    /// Starts a listing of a bucket's keys, once this node knows who is up. Keys of tombstones that were not
    /// reaped yet are included.
    ///
    /// # Errors
    ///
    /// Unknown bucket types, empty names, and partitions that no node has which is up.
    pub async fn list_keys(
        self: &Arc<Self>,
        bucket: BucketRef<'_>,
    ) -> Result<KeyListing, RequestError> {
        bucket.key(b"*").check()?;
        let n_val = bucket_props(&self.control.read(), bucket)?.n_val;
        let topology = self.settled_topology(None).await;
        let wanted = PartitionSet::all(self.ring_size().get());
        let shared = shares(&topology, &wanted, n_val, &[])?;
        Ok(KeyListing {
            store: Arc::clone(self),
            topology,
            bucket_type: Bytes::copy_from_slice(bucket.bucket_type),
            bucket: Bytes::copy_from_slice(bucket.bucket),
            n_val,
            sources: shared.into_iter().map(|share| Source { share, after: None }).collect(),
            failed: Vec::new(),
        })
    }

    /// A chunk of the keys that this node holds; `None` when the layouts of the request are past.
    pub(crate) async fn local_keys(
        self: &Arc<Self>,
        list: ListKeys,
    ) -> Result<Option<KeysListed>, RequestError> {
        let (store, layout_version) = (Arc::clone(self), list.layout_version);
        let listed = self.settings.blocking.aside(move || store.read_keys(&list)).await?;
        Ok(self.unless_moved(listed, layout_version))
    }

    fn read_keys(&self, list: &ListKeys) -> Result<KeysListed, RequestError> {
        let bucket = BucketRef { bucket_type: &list.bucket_type, bucket: &list.bucket };
        let rule = bucket_props(&self.control.read(), bucket)?.chash_keyfun;
        let partitions = PartitionSet::from_bytes(&list.partitions);
        let lists_all = partitions == PartitionSet::all(self.ring_size().get());
        let mut after = list.after.clone();
        loop {
            let range = KeyRange::Bucket(bucket);
            let page = self.engine.list_keys(range, after.as_deref(), CHUNK_COUNT)?;
            let wanted =
                |encoded: &[u8]| lists_all || self.is_in(encoded, bucket, rule, &partitions);
            let keys: Vec<Bytes> = page
                .entries
                .iter()
                .filter(|(encoded, _)| wanted(encoded))
                .filter_map(|(encoded, _)| {
                    Some(encoded.slice_ref(KeyRef::decode(encoded).ok()?.key))
                })
                .collect();
            after = page.next;
            if !keys.is_empty() || after.is_none() {
                return Ok(KeysListed { keys, next: after });
            }
        }
    }

    fn is_in(
        &self,
        encoded: &[u8],
        bucket: BucketRef<'_>,
        rule: PlacementRule,
        partitions: &PartitionSet,
    ) -> bool {
        let placement = KeyHash::of(encoded, bucket, rule).placement;
        partitions.contains(self.ring_size().partition(placement))
    }
}

impl KeyListing {
    /// The next chunk of keys; `None` when the listing is complete. Chunks are never empty.
    ///
    /// # Errors
    ///
    /// Engine faults, and partitions that no node has any more which is up. A listing is complete or an
    /// error, never cut short in silence.
    pub async fn next(&mut self) -> Result<Option<Vec<Bytes>>, RequestError> {
        while let Some(source) = self.sources.last() {
            let (node, list) = (source.share.node, self.request(source));
            let listed = match self.ask(node, list).await {
                Ok(listed) => listed,
                Err(Failed::Node(fault)) => {
                    self.go_on_elsewhere(node).map_err(|nobody| fault.unwrap_or(nobody))?;
                    continue;
                }
                Err(Failed::Here(fault)) => return Err(fault),
                Err(Failed::Stale) => {
                    self.go_on_anew().await?;
                    continue;
                }
            };
            match listed.next {
                None => drop(self.sources.pop()),
                next => {
                    if let Some(source) = self.sources.last_mut() {
                        source.after = next;
                    }
                }
            }
            if !listed.keys.is_empty() {
                return Ok(Some(listed.keys));
            }
        }
        Ok(None)
    }

    fn request(&self, source: &Source) -> ListKeys {
        ListKeys {
            bucket_type: self.bucket_type.clone(),
            bucket: self.bucket.clone(),
            partitions: source.share.partitions.to_bytes(),
            layout_version: self.topology.layout_version(),
            after: source.after.clone(),
        }
    }

    async fn ask(&self, node: NodePlace, list: ListKeys) -> Result<KeysListed, Failed> {
        match &self.topology.node(node).reach {
            Reach::Own => own(self.store.local_keys(list).await),
            Reach::Peer(peer) => {
                let call =
                    call_while_up(peer, METHOD_LIST_KEYS, &list, b"", Lane::Large, CHUNK_TIMEOUT);
                decoded(call.await?.header)
            }
            Reach::Unknown => Err(Failed::Node(None)),
        }
    }

    /// Has other nodes list what a failed one has not listed yet.
    fn go_on_elsewhere(&mut self, node: NodePlace) -> Result<(), RequestError> {
        self.failed.push(node);
        let Some(source) = self.sources.pop() else { return Ok(()) };
        self.share_anew(source)
    }

    /// Shares out all that is left by the newest layouts: places mean other nodes there.
    async fn go_on_anew(&mut self) -> Result<(), RequestError> {
        self.topology = self.store.topology_after(self.topology.version()).await?;
        self.failed.clear();
        let sources = std::mem::take(&mut self.sources);
        sources.into_iter().try_for_each(|source| self.share_anew(source))
    }

    fn share_anew(&mut self, source: Source) -> Result<(), RequestError> {
        let shared = shares(&self.topology, &source.share.partitions, self.n_val, &self.failed)?;
        let after = source.after;
        let sources = shared.into_iter().map(|share| Source { share, after: after.clone() });
        self.sources.extend(sources);
        Ok(())
    }
}
