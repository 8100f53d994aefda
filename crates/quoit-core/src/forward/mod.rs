//! Writes whose replicas are other nodes: one of those coordinates them.
//!
//! A write is forwarded at most once. Who gets one either is a replica, and coordinates it, or refuses,
//! because its layout is another one.

mod fault;
mod message;

use crate::calls::call_while_up;
use crate::data_type::DataTypeRequest;
use crate::error::RequestError;
use crate::options::WriteOptions;
use crate::put::{DeleteRequest, Deleted, PutRequest, needs_another};
use crate::stats::Counter;
use crate::store::{ReplicatedStore, TIMEOUT_MS_DEFAULT, decode};
use crate::topology::{Topology, cost_us};
use crate::votes::NodePlace;
use bytes::Bytes;
use message::{FORWARD_LANE_BYTES, Forwarding};
use prost::Message;
use quoit_cluster::{CallError, Lane, Peer, Reply, Responder};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_wire::internode::data::{
    Forward, Forwarded, METHOD_FORWARD, REFUSED_MALFORMED, REFUSED_OVERLOAD, REFUSED_STALE_LAYOUT,
    REFUSED_STORAGE,
};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What a forwarded write came to.
struct Outcome {
    written: bool,
    object: Option<Object>,
}

impl ReplicatedStore {
    /// Has one of the candidates coordinate a put.
    pub(crate) async fn forward_put(
        &self,
        topology: Arc<Topology>,
        request: PutRequest<'_>,
    ) -> Result<Option<Object>, RequestError> {
        let forwarding = Forwarding::put(&request, topology.newest_layout());
        let n_val = request.options.n_val;
        let timeout_ms = request.options.timeout_ms;
        let sloppy = request.options.sloppy_quorum != Some(false);
        let outcome =
            self.forward(topology, request.key, n_val, sloppy, timeout_ms, forwarding).await?;
        Ok(outcome.object)
    }

    /// Has one of the candidates coordinate an update of a data type.
    pub(crate) async fn forward_update(
        &self,
        topology: Arc<Topology>,
        request: &DataTypeRequest<'_>,
    ) -> Result<Option<Object>, RequestError> {
        let forwarding = Forwarding::update(request, topology.newest_layout());
        let WriteOptions { n_val, timeout_ms, sloppy_quorum, .. } = request.options;
        let sloppy = sloppy_quorum != Some(false);
        let outcome =
            self.forward(topology, request.key, n_val, sloppy, timeout_ms, forwarding).await?;
        Ok(outcome.object)
    }

    /// Has one of the candidates coordinate a delete.
    pub(crate) async fn forward_delete(
        &self,
        topology: Arc<Topology>,
        request: &DeleteRequest<'_>,
    ) -> Result<Deleted, RequestError> {
        let forwarding = Forwarding::delete(request, topology.newest_layout());
        let n_val = request.write.n_val;
        let timeout_ms = request.write.timeout_ms;
        let sloppy = request.write.sloppy_quorum != Some(false);
        let outcome =
            self.forward(topology, request.key, n_val, sloppy, timeout_ms, forwarding).await?;
        Ok(if outcome.written { Deleted::Done } else { Deleted::Missing })
    }

    async fn forward(
        &self,
        mut topology: Arc<Topology>,
        key: KeyRef<'_>,
        n_val: Option<u32>,
        sloppy: bool,
        timeout_ms: Option<u32>,
        mut forwarding: Forwarding,
    ) -> Result<Outcome, RequestError> {
        let limit = u64::from(timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT));
        let deadline = Instant::now() + Duration::from_millis(limit);
        let mut tried: SmallVec<[NodePlace; 4]> = SmallVec::new();
        let mut is_overload = false;
        loop {
            let next = self.coordinator(&topology, key, n_val, sloppy, &tried)?;
            let Some((node, peer)) = next else {
                return Err(match is_overload {
                    true => RequestError::Overload,
                    false => RequestError::AllNodesDown,
                });
            };
            let left = deadline.saturating_duration_since(Instant::now());
            match call(&peer, &forwarding, left).await {
                Ok(reply) => {
                    self.stats().count(Counter::CoordinatorRedirects);
                    if is_overload {
                        self.stats().count(Counter::CoordinatorRedirectsLoaded);
                    }
                    return read_outcome(&reply);
                }
                Err(CallError::Timeout { .. }) => return Err(RequestError::Timeout),
                Err(CallError::Refused { code: REFUSED_STALE_LAYOUT, .. }) => {
                    self.wait_for_newer(topology.version(), deadline).await?;
                    topology = self.topology();
                    forwarding.header.layout_version = topology.newest_layout();
                    tried.clear();
                }
                Err(CallError::Refused { code: REFUSED_OVERLOAD, .. }) => {
                    is_overload = true;
                    tried.push(node);
                }
                // It may have been counted there, and nobody could tell the two apart.
                Err(CallError::Disconnected(_)) if forwarding.counts => {
                    return Err(RequestError::Timeout);
                }
                // The write may have been made there; made again it is a sibling, or the same, at worst.
                Err(_) => tried.push(node),
            }
        }
    }

    /// The best node to coordinate a write of a record: a primary if one is up, the least busy of them.
    fn coordinator(
        &self,
        topology: &Topology,
        key: KeyRef<'_>,
        n_val: Option<u32>,
        sloppy: bool,
        tried: &[NodePlace],
    ) -> Result<Option<(NodePlace, Arc<Peer>)>, RequestError> {
        let (partition, bucket_n_val) = self.partition_of(key)?;
        let n_val =
            n_val.filter(|n_val| (1..=bucket_n_val).contains(n_val)).unwrap_or(bucket_n_val);
        let voters = topology.readers(partition, n_val, sloppy, tried);
        let reachable = voters.iter().filter_map(|voter| {
            let peer = topology.peer(voter.node)?;
            Some((voter.primary == 0, cost_us(peer), voter.node, peer))
        });
        let best = reachable.min_by_key(|(stand_in, cost_us, ..)| (*stand_in, *cost_us));
        Ok(best.map(|(_, _, node, peer)| (node, Arc::clone(peer))))
    }

    /// Coordinates a write that another node has forwarded.
    pub(crate) async fn coordinate_forwarded(
        &self,
        header: Forward,
        payload: Bytes,
        reply: Responder,
    ) {
        let topology = self.settled_topology(None).await;
        if header.layout_version < topology.layout_version() || topology.own().is_none() {
            return reply.refuse(REFUSED_STALE_LAYOUT, "the layout is no longer live");
        }
        let Ok(_entered) = self.admit_put() else {
            // Who forwarded the write looks for a node that has less to do.
            return reply.refuse(REFUSED_OVERLOAD, "overload");
        };
        let outcome = match message::read(&header, &payload) {
            Ok(message::Forwarded::Put(request)) => {
                let written = self.timed_put_here(topology, request).await;
                written.map(|object| Outcome { written: true, object })
            }
            Ok(message::Forwarded::Delete(request)) => {
                let deleted = self.delete_here(topology, &request).await;
                deleted.map(|deleted| Outcome { written: deleted == Deleted::Done, object: None })
            }
            Ok(message::Forwarded::Update(request)) => {
                let updated = self.timed_update_here(topology, &request).await;
                updated.map(|object| Outcome {
                    written: true,
                    object: object.filter(|_| request.return_value),
                })
            }
            Err(reason) => return reply.refuse(REFUSED_MALFORMED, reason),
        };
        if needs_another(&outcome) {
            // Who forwarded the write has another replica coordinate it.
            return reply
                .refuse(REFUSED_STORAGE, "this node's copy is damaged, or its disk is full");
        }
        answer(outcome, reply);
    }
}

async fn call(peer: &Peer, forwarding: &Forwarding, limit: Duration) -> Result<Reply, CallError> {
    let payload = &forwarding.payload;
    let is_large = payload.len() >= FORWARD_LANE_BYTES;
    let lane = if is_large { Lane::Large } else { Lane::Small };
    call_while_up(peer, METHOD_FORWARD, &forwarding.header, payload, lane, limit).await
}

fn answer(outcome: Result<Outcome, RequestError>, reply: Responder) {
    let (header, payload) = match outcome {
        Ok(Outcome { written, object }) => {
            let mut encoded = Vec::new();
            if let Some(object) = &object {
                object.encode_into(&mut encoded);
            }
            (Forwarded { written, fault: None, has_object: object.is_some() }, encoded)
        }
        Err(fault) => {
            let fault = Some(fault::encode(&fault));
            (Forwarded { written: false, fault, has_object: false }, Vec::new())
        }
    };
    reply.send(&header, &payload[..]);
}

fn read_outcome(reply: &Reply) -> Result<Outcome, RequestError> {
    let forwarded = Forwarded::decode(reply.header.clone())
        .map_err(|fault| RequestError::Remote(fault.to_string()))?;
    if let Some(fault) = &forwarded.fault {
        return Err(fault::decode(fault));
    }
    let object = if forwarded.has_object { Some(decode(&reply.payload)?) } else { None };
    Ok(Outcome { written: forwarded.written, object })
}
