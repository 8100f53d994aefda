//! Copies of whole partitions for another cluster, and their storage there.
//!
//! A cluster that is bootstrapped from another one reads that cluster's partitions page by page. It
//! merges the records into its replicas in batches, as transfers between nodes do, without a quorum for
//! each record. A record that was written or deleted in the meantime is merged with what real-time
//! replication has brought.

use super::Replication;
use crate::delivery::hand::TransferError;
use crate::error::RequestError;
use crate::placement::{PlacedKey, object_props, primaries, record_at};
use crate::replica::{ApplyOutcome, Replicated, merge_rule};
use crate::transfer::damage::HealOutcome;
use bytes::Bytes;
use quoit_cluster::{NodeId, State};
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_number::length_u32;
use quoit_store::engine::{IoMode, Record, RecordMeta};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// A record as clusters copy it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopiedRecord {
    /// Encoded name.
    pub key: Bytes,
    /// The object or tombstone in its stored form.
    pub object: Bytes,
}

/// Records of a partition, in order of their hashes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopiedPage {
    /// The records.
    pub records: Vec<CopiedRecord>,
    /// Hash at which the next page begins; `None` after the last page.
    pub next: Option<u64>,
}

/// A record for one node.
type Delivery = (Partition, (Bytes, Record));

impl From<TransferError> for RequestError {
    fn from(fault: TransferError) -> Self {
        match fault {
            TransferError::Own(fault) => fault,
            fault => Self::Vetoed(fault.to_string()),
        }
    }
}

impl Replication {
    /// The page of a partition that begins at a hash (0 for the first one); `None` if this node has no
    /// complete copy of the partition. Reads about 2 MB, and keeps within `transfer_rate`.
    ///
    /// # Errors
    ///
    /// Partitions that do not exist, engine faults, and damaged records that no replica can repair.
    pub async fn copied_page(
        self: &Arc<Self>,
        partition: u16,
        from: u64,
    ) -> Result<Option<CopiedPage>, RequestError> {
        let partition = Partition(partition);
        let state = self.local.state();
        if partition.0 >= state.ring_size().get() {
            return Err(RequestError::Vetoed(format!("there is no partition {}", partition.0)));
        }
        let layouts = state.layouts();
        let n_val = state.n_vals().iter().copied().min().unwrap_or(1);
        let newest = layouts.newest();
        let own = state.node_id();
        let is_primary =
            newest.primaries(partition, n_val).iter().any(|node| newest.node_at(*node) == own);
        if !is_primary || layouts.is_incomplete(partition, own) {
            return Ok(None);
        }
        let page = self
            .transfers
            .page(partition, Identity(from), self.local.settings.page_records_max.0)
            .await?;
        if page.heal_outcome == HealOutcome::Unfinished {
            return Err(TransferError::Damaged { partition }.into());
        }
        let mut copied = CopiedPage { records: Vec::new(), next: page.next.map(|next| next.0) };
        let mut byte_count = 0;
        for (key, record) in page.records {
            let whole = self.delivery.whole_record(partition, &key, record).await?;
            // The record may have gone in the meantime.
            let Some(record) = whole else { continue };
            byte_count += record.value.len() as u64;
            copied.records.push(CopiedRecord { key, object: record.value });
        }
        self.delivery.yielding.rest_after(page.read_for).await;
        self.delivery.throttle.wait_for(byte_count).await;
        Ok(Some(copied))
    }

    /// Assigns the partitions of a cluster with a ring of this size to the nodes of this cluster, by
    /// node name. A node mostly gets partitions whose records it stores itself.
    #[must_use]
    pub fn copied_shares(&self, ring_size: u16) -> BTreeMap<String, Vec<u16>> {
        let state = self.local.state();
        let own_ring = u32::from(state.ring_size().get());
        let mut shares: BTreeMap<String, Vec<u16>> = BTreeMap::new();
        for number in 0..ring_size {
            let place = u32::from(number) * own_ring / u32::from(ring_size.max(1));
            let place = u16::try_from(place).expect("the place is below the size of this ring");
            let partition = Partition(place);
            let node = self.answering_node(&state, partition).unwrap_or_else(|| state.node_id());
            let name = state.members().name_of(node).to_string();
            shares.entry(name).or_default().push(number);
        }
        shares
    }

    /// Merges records of another cluster into all replicas that are up. When it returns, more than half
    /// of each record's primaries have it on disk; anti-entropy brings it to the others. Returns the
    /// bytes of the objects.
    ///
    /// # Errors
    ///
    /// Bucket types that this cluster lacks, malformed objects, objects with events of this node that
    /// it has never made, engine faults, and too few replicas. Copies that were stored stay.
    pub async fn store_copied(
        self: &Arc<Self>,
        records: Vec<CopiedRecord>,
    ) -> Result<u64, RequestError> {
        let byte_count = records.iter().map(|record| record.object.len() as u64).sum();
        let replication = Arc::clone(self);
        let sort = move || Ok(replication.sorted_by_node(&records));
        let by_node = self.local.settings.blocking.at_low_priority(sort).await??;
        let own = self.local.state().node_id();
        let mut tasks = JoinSet::new();
        for (node, deliveries) in by_node {
            let replication = Arc::clone(self);
            tasks.spawn(async move {
                match node == own {
                    true => replication.take_copied(deliveries).await,
                    false => replication.deliver_copied(node, deliveries).await,
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|_| RequestError::Vetoed("the node stops".to_owned()))??;
        }
        Ok(byte_count)
    }

    /// Assigns each record to the nodes that store it, in the form in which they get it.
    fn sorted_by_node(
        &self,
        records: &[CopiedRecord],
    ) -> Result<BTreeMap<NodeId, Vec<Delivery>>, RequestError> {
        let state = self.local.state();
        let mut by_node: BTreeMap<NodeId, Vec<Delivery>> = BTreeMap::new();
        for CopiedRecord { key: encoded, object } in records {
            let key = KeyRef::decode(encoded)?;
            let props = object_props(&state, key.bucket)?;
            let at = record_at(&state, props, key, encoded);
            let object = Object::decode(object)
                .map_err(|fault| RequestError::Vetoed(format!("a copied object: {fault}")))?;
            self.local.check_context(&object.clock)?;
            let class = RecordMeta::class_of(props.n_val);
            let Replicated { meta, object, .. } =
                Replicated::new(&object, merge_rule(props), class);
            let record = Record { meta, value: object };
            for node in self.live_primaries(&state, at.partition, props.n_val)? {
                let delivery = (at.partition, (encoded.clone(), record.clone()));
                by_node.entry(node).or_default().push(delivery);
            }
        }
        Ok(by_node)
    }

    /// Live primaries of a record, if they are more than half of all primaries.
    fn live_primaries(
        &self,
        state: &State,
        partition: Partition,
        n_val: u32,
    ) -> Result<Vec<NodeId>, RequestError> {
        let all = primaries(state, partition, n_val);
        let is_up =
            |node: &NodeId| *node == state.node_id() || self.local.reachable(*node).is_some();
        let up: Vec<NodeId> = all.iter().copied().filter(is_up).collect();
        match up.len() * 2 > all.len() {
            true => Ok(up),
            false => Err(RequestError::InsufficientVnodes {
                have: length_u32(up.len()),
                wanted: length_u32(all.len() / 2 + 1),
            }),
        }
    }

    /// Merges records into this node's copies, and waits until they are on disk.
    async fn take_copied(self: &Arc<Self>, deliveries: Vec<Delivery>) -> Result<(), RequestError> {
        let replication = Arc::clone(self);
        let take = move || {
            let mut last = None;
            for (partition, (key, record)) in deliveries {
                let rule = {
                    let state = replication.local.control.read();
                    merge_rule(object_props(&state, KeyRef::decode(&key)?.bucket)?)
                };
                let replicated = Replicated { meta: record.meta, rule, object: record.value };
                let place = PlacedKey::new(&key, partition)?;
                let taken = replication.replica.merge_into_copy(
                    &place.at(),
                    &replicated,
                    true,
                    IoMode::Wait,
                )?;
                if let Some(ApplyOutcome::Written(ticket, _)) = taken {
                    last = Some(
                        last.map_or(ticket, |last| replication.local.engine.joined(last, ticket)),
                    );
                }
            }
            Ok(last)
        };
        let ticket = self.local.settings.blocking.at_low_priority(take).await?;
        match ticket {
            Some(ticket) => self.local.synced(ticket).await,
            None => Ok(()),
        }
    }

    async fn deliver_copied(
        self: &Arc<Self>,
        node: NodeId,
        deliveries: Vec<Delivery>,
    ) -> Result<(), RequestError> {
        let Some(peer) = self.local.reachable(node) else { return Err(RequestError::AllNodesDown) };
        let mut by_partition: BTreeMap<Partition, Vec<(Bytes, Record)>> = BTreeMap::new();
        for (partition, record) in deliveries {
            by_partition.entry(partition).or_default().push(record);
        }
        for (partition, records) in by_partition {
            let records: Vec<&(Bytes, Record)> = records.iter().collect();
            self.delivery.deliver_all(&peer, partition, &records).await?;
        }
        Ok(())
    }
}
