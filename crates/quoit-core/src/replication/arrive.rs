//! Objects that arrive from other clusters. They are stored as they are, without an event of this
//! cluster.

use super::Replication;
use super::conflicts::BucketConflicts;
use super::fetch::QueuedValue;
use crate::coordinator::write_replicas::{Accepted, OwnWrite, SentForm, WriteTargets};
use crate::error::RequestError;
use crate::options::WriteOptions;
use crate::placement::{object_props, record_at};
use crate::queues::{Visited, VisitedCluster};
use crate::replica::WrittenObject;
use crate::replica::{ApplyOutcome, Replicated, merge_rule};
use crate::request_log::AskedNodes;
use crate::stats::Counter;
use crate::stored::decode;
use crate::stored::wait_if_blocked;
use crate::topology::Topology;
use crate::votes::Voters;
use bytes::Bytes;
use quoit_model::clock::VersionVector;
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_model::props::{BucketProps, Quorum};
use quoit_planted::planted;
use quoit_store::engine::{RecordAt, RecordMeta};
use std::sync::Arc;

/// Circumstances under which an object has arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Clusters that it has visited, including its source; `None` if the source does not say, and then
    /// the object is not forwarded.
    pub visited: Option<Visited>,
    /// True if the object may have arrived before, and this node may have died before it forwarded it.
    pub may_be_redelivery: bool,
    /// Number of replicas that must have synced the object before the call returns.
    pub dw: Quorum,
}

/// Record of an arriving entry, with the nodes that store it.
pub(super) struct ArrivalTarget<'a> {
    pub(super) topology: Arc<Topology>,
    pub(super) at: RecordAt<'a>,
    pub(super) props: Arc<BucketProps>,
    /// Those nodes, and the quorums that the entry needs of them.
    pub(super) targets: WriteTargets,
    /// True if this node is one of them.
    pub(super) is_own: bool,
}

impl ArrivalTarget<'_> {
    /// True if this node is a primary of the record.
    pub(super) fn is_primary(&self) -> bool {
        let own = self.topology.own();
        let is_in = |voters: &Voters| {
            own.and_then(|own| voters.of(own)).is_some_and(|voter| voter.primary > 0)
        };
        self.topology.is_alone() || self.targets.layouts.iter().any(is_in)
    }
}

impl Replication {
    /// Id of this cluster, by which entries remember that they have visited it.
    #[must_use]
    pub fn cluster(&self) -> VisitedCluster {
        self.local.control.read().cluster_id().0
    }

    /// Number of arrived objects that were concurrent with the stored ones, by bucket.
    #[must_use]
    pub fn conflicts_by_bucket(&self) -> Vec<BucketConflicts> {
        self.conflicts.read()
    }

    /// Index of this node among the live nodes, sorted by name and counted from 0, and their number.
    /// Nodes use it to take turns without communication.
    #[must_use]
    pub fn place_among_live_nodes(&self) -> (u64, u64) {
        let topology = self.local.topology();
        let names = topology.places().filter(|place| topology.is_up(*place));
        let mut names: Vec<_> = names.map(|place| topology.node(place).name.clone()).collect();
        names.sort_unstable();
        let own = topology.own().map(|own| topology.node(own).name.clone());
        let index = names.iter().position(|name| Some(name) == own.as_ref()).unwrap_or(0);
        (index as u64, names.len().max(1) as u64)
    }

    /// Stores an object of another cluster: merges it with the stored one under its own clock and
    /// times, without an event, hooks or limits.
    ///
    /// # Errors
    ///
    /// Invalid names, bucket types that this cluster lacks, quorums that are not met, engine faults,
    /// and objects with events of this node that it has never made. Copies that were stored stay.
    pub async fn store_arrived(
        &self,
        encoded: &Bytes,
        object: &Object,
        arrival: &Arrival,
    ) -> Result<(), RequestError> {
        self.local.check_context(&object.clock)?;
        let receiving = self.receiving(encoded, arrival.dw).await?;
        let class = RecordMeta::class_of(receiving.props.n_val);
        let replicated = Replicated::new(object, merge_rule(&receiving.props), class);
        let is_news = self.spread_arrived(&receiving, &replicated).await?;
        self.forward_arrived(&receiving, &WrittenObject::Encoded(&replicated), arrival, is_news);
        Ok(())
    }

    /// Finds the record of an arriving entry and the nodes that store it.
    pub(super) async fn receiving<'a>(
        &self,
        encoded: &'a Bytes,
        dw: Quorum,
    ) -> Result<ArrivalTarget<'a>, RequestError> {
        let key = KeyRef::decode(encoded)?;
        let topology = self.local.settled_topology(None).await;
        let (props, at) = {
            let state = self.local.control.read();
            let props = Arc::new(object_props(&state, key.bucket)?.clone());
            let at = record_at(&state, &props, key, encoded);
            (props, at)
        };
        let options = WriteOptions {
            w: Some(self.source_queues.settings().vnode_check),
            pw: Some(Quorum::Count(1)),
            dw: Some(dw),
            node_confirms: Some(Quorum::Count(1)),
            ..WriteOptions::default()
        };
        let targets = WriteTargets::of(&topology, &at, &props, &options)?;
        let votes = |own| targets.layouts.iter().any(|voters| voters.of(own).is_some());
        let is_own = topology.is_alone() || topology.own().is_some_and(votes);
        Ok(ArrivalTarget { topology, at, props, targets, is_own })
    }

    /// Counts an object that was stored, and queues it for further clusters.
    pub(super) fn forward_arrived(
        &self,
        receiving: &ArrivalTarget<'_>,
        written: &WrittenObject<'_>,
        arrival: &Arrival,
        is_news: bool,
    ) {
        let ArrivalTarget { at, props, .. } = receiving;
        self.local.stats.count(Counter::SinkObjects);
        if is_news {
            self.hook.note_change(at, props, written);
        }
        if let Some(visited) = &arrival.visited
            && (is_news || arrival.may_be_redelivery)
            && self.source_queues.is_active()
            && self.source_queues.settings().forwards
            && !planted!(ForwardsNothing)
        {
            self.hook.queue_for_others(at, props, written, visited.clone());
        }
    }

    /// Writes an object to its replicas. True if the object was new to this node, as far as it can tell.
    async fn spread_arrived(
        &self,
        receiving: &ArrivalTarget<'_>,
        replicated: &Replicated,
    ) -> Result<bool, RequestError> {
        let ArrivalTarget { at, targets, is_own, .. } = receiving;
        let (mut own, mut is_news) = (OwnWrite::None, true);
        if *is_own {
            let before = self.local.records.head(at)?.map(|meta| meta.digest);
            let taken = wait_if_blocked(self.local.settings.blocking, |access| {
                self.replica.merge_into_copy(at, replicated, targets.quorums.dw > 0, access)
            })?;
            // An own copy that is not new needs no sync, so it counts as written.
            own = OwnWrite::Settled;
            if let ApplyOutcome::Written(ticket, meta) = taken {
                own = OwnWrite::Logged(ticket);
                // The stored object equals neither the old nor the arrived one, so they were
                // concurrent.
                if before.is_some_and(|before| before != meta.digest)
                    && meta.digest != replicated.meta.digest
                {
                    self.local.stats.count(Counter::SinkConflicts);
                    self.conflicts.count(at.key.bucket);
                }
                is_news = before != Some(meta.digest);
            } else {
                is_news = false;
                if let Some(tombstone) =
                    self.replica.tombstone_for_stale_source(at, replicated, taken)?
                {
                    let written = WrittenObject::Encoded(&tombstone);
                    self.hook.queue_for_others(at, &receiving.props, &written, Visited::new());
                }
            }
        }
        self.spread(receiving, SentForm::Object(replicated.clone()), own).await?;
        Ok(is_news)
    }

    /// Sends to the other replicas what this node has stored, and waits for the quorums.
    pub(super) async fn spread(
        &self,
        receiving: &ArrivalTarget<'_>,
        sent: SentForm,
        own: OwnWrite,
    ) -> Result<(), RequestError> {
        let ArrivalTarget { topology, at, targets, .. } = receiving;
        let sent = Some(sent).filter(|_| !topology.is_alone());
        let accepted = Accepted { at: *at, targets: targets.clone(), object: None, own, sent };
        let (topology, asked) = (Arc::clone(topology), &mut AskedNodes::default());
        self.coordinator.confirm_all(topology, accepted, None, asked).await.map(drop)
    }

    /// Reaps a tombstone that another cluster has reaped, if this cluster has the same one. Further
    /// clusters are not told of the reap.
    ///
    /// # Errors
    ///
    /// Invalid names, unknown bucket types, engine faults, and `Overload` if too many tombstones wait to
    /// be reaped.
    pub async fn reap_arrived(
        &self,
        encoded: &Bytes,
        clock: &VersionVector,
    ) -> Result<(), RequestError> {
        let key = KeyRef::decode(encoded)?;
        let at = {
            let state = self.local.control.read();
            let props = object_props(&state, key.bucket)?;
            record_at(&state, props, key, encoded)
        };
        let Some(QueuedValue::Tombstone(stored)) = self.queued_value(encoded).await? else {
            return Ok(());
        };
        let tombstone = decode(&stored)?;
        if tombstone.clock == *clock {
            // The call does not wait: the source sends the entry again, and other entries wait for the same
            // workers.
            let _room = self.tombstones.try_reserve_places(1).ok_or(RequestError::Overload)?;
            self.tombstones.reap_as_elsewhere(
                self.local.clock.unix_us(),
                (encoded.clone(), at.partition, tombstone.digest()),
            );
        }
        Ok(())
    }
}
