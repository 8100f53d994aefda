//! The replica's side of the data plane: answers other nodes' reads and writes of this node's copies.
//!
//! Each request names the layout that its sender used. A request with a layout that this node knows to be
//! retired is refused; the sender waits for the newer layout and tries again. A write is answered when it
//! is accepted, when it is synced, or at both times, as the sender's quorums need.

use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::field_path::read_path;
use crate::grants::{GrantNumber, Grants};
use crate::healing::Healing;
use crate::local_node::LocalNode;
use crate::records::PartCopy;
use crate::refusal::{Refusal, refuse};
use crate::replica::{ApplyOutcome, Copy, DecodedDelta, JoinOutcome, Replica, Replicated};
use crate::serving::answer_by;
use crate::stats::Counter;
use bytes::Bytes;
use quoit_cluster::{IncomingRequest, Responder};
use quoit_model::data_type::pages::ItemHash;
use quoit_model::data_type::{Delta, WantedPart};
use quoit_model::hash::Partition;
use quoit_planted::planted;
use quoit_store::engine::{IoMode, RecordMeta};
use quoit_store::error::StoreError;
use quoit_wire::internode::data::{
    AckMoment, Fetch, Fetched, FetchedPart, Join, MergeRule, Store, Stored,
};
use quoit_wire::internode::grants::REFUSED_SUPERSEDED;
use std::sync::Arc;

/// Serves reads and writes of this node's copies to other nodes.
pub(crate) struct ReplicaServer {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    grants: Arc<Grants>,
    healing: Arc<Healing>,
}

impl ReplicaServer {
    pub(crate) fn new(coordinator: &Coordinator, healing: &Arc<Healing>) -> Self {
        Self {
            local: Arc::clone(&coordinator.local),
            replica: Arc::clone(&coordinator.replica),
            grants: Arc::clone(&coordinator.grants),
            healing: Arc::clone(healing),
        }
    }

    /// Answers a read with a digest, the whole object, or a part of a data type.
    pub(crate) fn serve_fetch(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let fetch: Fetch =
            match self.local.read_header(request, |fetch: &Fetch| fetch.layout_version) {
                Ok(fetch) => fetch,
                Err(refusal) => return refuse(reply, &refusal),
            };
        self.local.stats.count(Counter::ReplicaGets);
        if fetch.want() == FetchedPart::Part {
            return self.serve_part(fetch, reply);
        }
        let whole = fetch.want() == FetchedPart::Object;
        let has_lost = self.has_lost_of(fetch.partition);
        let blocking = self.local.settings.blocking;
        answer_by(
            self,
            blocking,
            reply,
            move |server, access| server.fetch_for(&fetch, whole, access),
            move |_, copy, reply| match copy {
                Ok(copy) => send_copy(reply, copy, has_lost),
                Err(refusal) => refuse(reply, &refusal),
            },
        );
    }

    /// True if this node's copy of a partition has lost records and has not recovered them.
    fn has_lost_of(&self, partition: u32) -> bool {
        let topology = self.local.topology_now();
        let partition = u16::try_from(partition).map(Partition);
        let has_lost = |own| partition.is_ok_and(|partition| topology.has_lost(partition, own));
        topology.has_losses() && topology.own().is_some_and(has_lost)
    }

    fn serve_part(self: Arc<Self>, fetch: Fetch, reply: Responder) {
        if self.has_lost_of(fetch.partition) {
            return send_copy(reply, Copy::Missing, true);
        }
        let blocking = self.local.settings.blocking;
        answer_by(
            self,
            blocking,
            reply,
            move |server, access| server.part_for(&fetch, access),
            |_, copy, reply| match copy {
                Ok(copy) => send_part(reply, copy),
                Err(refusal) => refuse(reply, &refusal),
            },
        );
    }

    fn part_for(&self, fetch: &Fetch, access: IoMode) -> Result<Option<PartCopy>, Refusal> {
        let place = self.local.place(&fetch.key, fetch.partition)?;
        let from = ItemHash(fetch.part_from);
        let wanted = match (fetch.part_size_only, fetch.part_count as usize) {
            (true, _) => WantedPart::Size,
            (false, 0) => WantedPart::Item(from),
            (false, count) => WantedPart::Items { from, count },
        };
        let no_path = || Refusal::Malformed("the path names no field that has content".to_owned());
        let path = read_path(&fetch.part_path).ok_or_else(no_path)?;
        let copy = self.replica.part(&place.at(), &path, wanted, access);
        Ok(copy.map_err(|fault| self.noting_damage(&fetch.key, fault.into()))?)
    }

    fn fetch_for(
        &self,
        fetch: &Fetch,
        whole: bool,
        access: IoMode,
    ) -> Result<Option<Copy>, Refusal> {
        let place = self.local.place(&fetch.key, fetch.partition)?;
        let copy = self.replica.fetch_copy(&place.at(), whole, access);
        Ok(copy.map_err(|fault| self.noting_damage(&fetch.key, fault))?)
    }

    /// Queues a record for healing if the fault says that it is damaged.
    fn noting_damage(&self, key: &Bytes, fault: RequestError) -> RequestError {
        if matches!(fault, RequestError::Store(StoreError::Corrupt { .. })) {
            self.healing.note(key.clone());
        }
        fault
    }

    /// Merges an object that another node has sent into this node's copy.
    pub(crate) fn serve_store(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let store: Store =
            match self.local.read_header(request, |store: &Store| store.layout_version) {
                Ok(store) => store,
                Err(refusal) => return refuse(reply, &refusal),
            };
        self.local.stats.count(Counter::ReplicaPuts);
        let granted = match store.grant {
            0 => None,
            number => {
                let Some(granted) = self.grants.begin(&store.key, GrantNumber(number)) else {
                    let text = "the grant of the write is no longer the latest of the record";
                    return reply.refuse(REFUSED_SUPERSEDED, text);
                };
                Some(granted)
            }
        };
        let replicated = Replicated {
            meta: RecordMeta {
                digest: store.digest,
                tombstone: store.tombstone,
                n_val_class: store.n_val_class.clamp(1, 15) as u8,
                expires_at_secs: store.expires_at_secs,
                indexed: store.indexed,
            },
            rule: MergeRule::try_from(store.rule).unwrap_or(MergeRule::Causal),
            object: request.payload.clone(),
        };
        let (blocking, acks) = (self.local.settings.blocking, store.acks());
        answer_by(
            self,
            blocking,
            reply,
            move |server, access| {
                // Holds the record's grant until the write is done.
                let _granted = &granted;
                server.take_for(&store, &replicated, access)
            },
            move |server, taken, reply| server.acknowledge(taken, acks, reply),
        );
    }

    fn take_for(
        &self,
        store: &Store,
        replicated: &Replicated,
        access: IoMode,
    ) -> Result<Option<ApplyOutcome>, Refusal> {
        let place = self.local.place(&store.key, store.partition)?;
        let needs_ticket = store.acks() != AckMoment::Accepted;
        Ok(self.replica.merge_into_copy(&place.at(), replicated, needs_ticket, access)?)
    }

    /// Joins a delta of a data type into this node's copy, or answers that it needs the whole object.
    pub(crate) fn serve_join(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let join: Join = match self.local.read_header(request, |join: &Join| join.layout_version) {
            Ok(join) => join,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let delta = match Delta::decode(&request.payload) {
            Ok(delta) => delta,
            Err(fault) => return refuse(reply, &Refusal::Malformed(fault.to_string())),
        };
        self.local.stats.count(Counter::ReplicaPuts);
        let joining = DecodedDelta {
            delta,
            n_val_class: join.n_val_class.clamp(1, 15) as u8,
            last_modified_us: join.last_modified_us,
            needs_earlier: join.needs_earlier,
        };
        let (blocking, acks) = (self.local.settings.blocking, join.acks());
        answer_by(
            self,
            blocking,
            reply,
            move |server, access| server.join_for(&join, &joining, access),
            move |server, taken, reply| server.acknowledge(taken, acks, reply),
        );
    }

    fn join_for(
        &self,
        join: &Join,
        joining: &DecodedDelta,
        access: IoMode,
    ) -> Result<Option<ApplyOutcome>, Refusal> {
        let place = self.local.place(&join.key, join.partition)?;
        match self.replica.join_copy(&place.at(), joining, access)? {
            JoinOutcome::Done(taken) => Ok(Some(taken)),
            JoinOutcome::WouldBlock => Ok(None),
            JoinOutcome::NeedsWhole => Err(Refusal::NeedsWhole),
        }
    }

    /// Answers a write when it is accepted, when it is synced, or both times, as the sender asked.
    fn acknowledge(
        self: Arc<Self>,
        taken: Result<ApplyOutcome, Refusal>,
        acks: AckMoment,
        reply: Responder,
    ) {
        let taken = match taken {
            Ok(taken) => taken,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let ticket = match (taken, acks) {
            (ApplyOutcome::Written(ticket, _), AckMoment::Synced | AckMoment::Both) => ticket,
            (ApplyOutcome::Nothing, AckMoment::Synced | AckMoment::Both) => {
                return reply.send(&Stored { synced: true }, b"");
            }
            _ => return reply.send(&Stored { synced: false }, b""),
        };
        if planted!(AcknowledgesUnsynced) {
            return reply.send(&Stored { synced: true }, b"");
        }
        if acks == AckMoment::Both {
            reply.send_more(&Stored { synced: false }, b"");
        }
        tokio::spawn(async move {
            match self.local.synced(ticket).await {
                Ok(()) => reply.send(&Stored { synced: true }, b""),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }
}

fn send_copy(reply: Responder, copy: Copy, has_lost: bool) {
    let fetched = Fetched { has_lost, ..Fetched::default() };
    match copy {
        Copy::Missing => reply.send(&fetched, b""),
        Copy::Found(digest, object) => {
            let object = object.unwrap_or_default();
            reply.send(&Fetched { found: true, digest, ..fetched }, &object);
        }
    }
}

fn send_part(reply: Responder, copy: PartCopy) {
    match copy {
        PartCopy::Missing => reply.send(&Fetched::default(), b""),
        PartCopy::Found { digest, part } => {
            let mut state = Vec::new();
            let mut fetched = Fetched { found: true, digest, ..Fetched::default() };
            if let Some(part) = part {
                part.state.encode_into(&mut state);
                (fetched.part_last, fetched.part_size) = (part.last.0, part.size);
            }
            reply.send(&fetched, &state[..]);
        }
    }
}
