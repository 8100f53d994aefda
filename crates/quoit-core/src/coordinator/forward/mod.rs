//! Forwarding of writes: a node without a vote for a record has another node coordinate the write.
//!
//! The receiver never forwards the write again. It coordinates the write, even if it has no vote by its own
//! view of which nodes are up, or it refuses: because the layout has retired, because it is overloaded,
//! because its disk is full, or because its copy is damaged. If it refuses, it has written nothing, and the
//! sender tries the next candidate.
//!
//! # Repeated writes
//!
//! The coordinator makes the event of a write, so a write that two nodes coordinate has two events. Some
//! writes do harm if they are made twice: operations on data types count twice, conditional writes fail
//! because of their own first attempt, and deletes without a context delete what was written in between.
//! Such a write goes to a further candidate only if no earlier candidate can have begun with it: the
//! bytes have not left this node, or the candidate has refused before it did anything. In all other cases
//! the outcome is unknown, and the client gets a timeout.
//!
//! Other puts and deletes go to the next candidate at once, so that a node that dies costs clients no
//! request. The node that forwards a put chooses the entity tag of the value, so that a value that was
//! written twice can be recognized: of two events with one tag, a merge keeps the lesser
//! (`Object::merge`). `docs/decisions/0032` says why the node that forwards a put does not make its
//! event.

mod fault;
mod message;

use crate::calls::call_while_up;
use crate::coordinator::Coordinator;
use crate::coordinator::data_type::DataTypeRequest;
use crate::coordinator::put::{DeleteOutcome, DeleteRequest, PutRequest, needs_another};
use crate::error::RequestError;
use crate::options::WriteOptions;
use crate::refusal::{Refusal, refuse};
use crate::settings::TIMEOUT_MS_DEFAULT;
use crate::stats::Counter;
use crate::stored::decode;
use crate::topology::{Topology, cost_us};
use crate::votes::{NodeIndex, ReplicaCount};
use bytes::Bytes;
use message::{FORWARD_LANE_BYTES, Forwarding};
use prost::Message;
use quoit_cluster::{CallError, IncomingRequest, Lane, Peer, Reply, Responder};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_planted::planted;
use quoit_wire::internode::code;
use quoit_wire::internode::data::{
    Forward, Forwarded, METHOD_FORWARD, REFUSED_MALFORMED, REFUSED_OVERLOAD, REFUSED_STALE_LAYOUT,
    REFUSED_STORAGE,
};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Time that a forwarded write waits for bucket properties that its sender knows already.
const PROPERTIES_WAIT: Duration = Duration::from_secs(1);

/// Outcome of a forwarded write.
struct ForwardOutcome {
    written: bool,
    object: Option<Object>,
}

/// Conclusion from the fault of a forwarded write that was not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ForwardFailure {
    /// The candidate did nothing, and another one may be asked.
    NotMade,
    /// The candidate did nothing, because it knows a newer layout.
    StaleLayout,
    /// The candidate did nothing, because it is overloaded.
    Overload,
    /// The candidate may have made the write, or may still make it.
    Unknown,
    /// The same, and the client's timeout has passed.
    TimedOut,
}

impl ForwardFailure {
    fn after(fault: &CallError) -> Self {
        match fault {
            CallError::Unreachable(_) | CallError::TooBusy { .. } | CallError::TooLarge { .. } => {
                Self::NotMade
            }
            CallError::Refused { code, .. } => match *code {
                REFUSED_STALE_LAYOUT => Self::StaleLayout,
                REFUSED_OVERLOAD => Self::Overload,
                REFUSED_STORAGE | REFUSED_MALFORMED | code::UNKNOWN_METHOD => Self::NotMade,
                _ => Self::Unknown,
            },
            CallError::Disconnected(_) => Self::Unknown,
            CallError::Timeout { .. } => Self::TimedOut,
        }
    }
}

impl Coordinator {
    /// Serves a write that another node forwards.
    pub(crate) fn serve_forward(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let forward = match Forward::decode(request.header.clone()) {
            Ok(forward) => forward,
            Err(fault) => return refuse(reply, &Refusal::Malformed(fault.to_string())),
        };
        let payload = request.payload.clone();
        tokio::spawn(async move { self.coordinate_forwarded(forward, payload, reply).await });
    }

    /// Has this node coordinate a write if it has a vote for the record, and another node otherwise.
    /// Another node is tried as well if this one has written nothing for a reason that only it has
    /// ([`needs_another`]). Boxes the future of `forward`, for which every connection would reserve space
    /// otherwise.
    pub(crate) async fn coordinate_or_forward<T, H, F>(
        &self,
        has_vote: bool,
        here: impl FnOnce() -> H,
        forward: impl FnOnce() -> F,
    ) -> Result<T, RequestError>
    where
        H: Future<Output = Result<T, RequestError>>,
        F: Future<Output = Result<T, RequestError>>,
    {
        if !has_vote {
            return Box::pin(forward()).await;
        }
        let written = here().await;
        if !needs_another(&written) {
            return written;
        }
        match Box::pin(forward()).await {
            // No other node can coordinate, and the fault of this node tells the client more.
            Err(RequestError::AllNodesDown) => written,
            forwarded => forwarded,
        }
    }

    /// Has one of the candidates coordinate a put.
    pub(crate) async fn forward_put(
        &self,
        topology: Arc<Topology>,
        request: &PutRequest<'_>,
    ) -> Result<Option<Object>, RequestError> {
        let tag = match request.given.is_none() && !planted!(LeavesTagsToCoordinators) {
            true => self.local.new_tag()?,
            false => request.tag.clone(),
        };
        let forwarding = Forwarding::put(request, tag);
        let outcome = self.forward(topology, request.key, &request.options, forwarding).await?;
        Ok(outcome.object)
    }

    /// Has one of the candidates coordinate an update of a data type.
    pub(crate) async fn forward_update(
        &self,
        topology: Arc<Topology>,
        request: &DataTypeRequest<'_>,
    ) -> Result<Option<Object>, RequestError> {
        let forwarding = Forwarding::update(request);
        let outcome = self.forward(topology, request.key, &request.options, forwarding).await?;
        Ok(outcome.object)
    }

    /// Has one of the candidates coordinate a delete.
    pub(crate) async fn forward_delete(
        &self,
        topology: Arc<Topology>,
        request: &DeleteRequest<'_>,
    ) -> Result<DeleteOutcome, RequestError> {
        let forwarding = Forwarding::delete(request);
        let outcome = self.forward(topology, request.key, &request.write, forwarding).await?;
        Ok(if outcome.written { DeleteOutcome::Done } else { DeleteOutcome::Missing })
    }

    /// Tries one candidate after another until one has coordinated the write, until a repetition could do
    /// harm (see the module's documentation), or until the timeout.
    async fn forward(
        &self,
        mut topology: Arc<Topology>,
        key: KeyRef<'_>,
        options: &WriteOptions,
        mut forwarding: Forwarding,
    ) -> Result<ForwardOutcome, RequestError> {
        let limit = u64::from(options.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT));
        let deadline = Instant::now() + Duration::from_millis(limit);
        let mut tried: SmallVec<[NodeIndex; 4]> = SmallVec::new();
        let mut is_overload = false;
        loop {
            let next = self.coordinator(&topology, key, options, &tried)?;
            let Some((node, peer)) = next else {
                return Err(match is_overload {
                    true => RequestError::Overload,
                    false => RequestError::AllNodesDown,
                });
            };
            debug_assert!(!tried.contains(&node), "a topology's candidate is asked once");
            let left = deadline.saturating_duration_since(Instant::now());
            forwarding.header.layout_version = topology.newest_layout();
            forwarding.header.props_changed_at = self.local.control.read().props_changed_at();
            let fault = match call(&peer, &forwarding, left).await {
                Ok(reply) => {
                    self.local.stats.count(Counter::CoordinatorRedirects);
                    if is_overload {
                        self.local.stats.count(Counter::CoordinatorRedirectsLoaded);
                    }
                    return read_outcome(&reply);
                }
                Err(fault) => fault,
            };
            match ForwardFailure::after(&fault) {
                ForwardFailure::TimedOut => return Err(RequestError::Timeout),
                ForwardFailure::Unknown
                    if !forwarding.may_be_repeated && !planted!(RepeatsUnanswered) =>
                {
                    return Err(RequestError::Timeout);
                }
                ForwardFailure::StaleLayout => {
                    self.local.wait_for_newer(topology.version(), deadline).await?;
                    topology = self.local.topology();
                    // In another topology a place may belong to another node.
                    tried.clear();
                }
                ForwardFailure::Overload => {
                    is_overload = true;
                    tried.push(node);
                }
                ForwardFailure::NotMade | ForwardFailure::Unknown => tried.push(node),
            }
        }
    }

    /// The best node to coordinate a write of a record: a primary if one is up, and among them the one
    /// with the lowest cost.
    fn coordinator(
        &self,
        topology: &Topology,
        key: KeyRef<'_>,
        options: &WriteOptions,
        tried: &[NodeIndex],
    ) -> Result<Option<(NodeIndex, Arc<Peer>)>, RequestError> {
        let (partition, bucket_n_val) = self.local.partition_of(key)?;
        let n_val = options.n_val.filter(|n_val| (1..=bucket_n_val).contains(n_val));
        let replicas = ReplicaCount::all_filled(n_val.unwrap_or(bucket_n_val));
        let voters = topology.readers(partition, replicas, options.is_sloppy(), tried);
        let reachable = voters.iter().filter_map(|voter| {
            let peer = topology.peer(voter.node)?;
            Some((voter.primary == 0, cost_us(peer), voter.node, peer))
        });
        let best = reachable.min_by_key(|(is_fallback, cost_us, ..)| (*is_fallback, *cost_us));
        Ok(best.map(|(_, _, node, peer)| (node, Arc::clone(peer))))
    }

    /// Coordinates a write that another node has forwarded.
    pub(crate) async fn coordinate_forwarded(
        &self,
        header: Forward,
        payload: Bytes,
        reply: Responder,
    ) {
        let message = match message::read(&header, &payload) {
            Ok(message) => message,
            Err(reason) => return reply.refuse(REFUSED_MALFORMED, reason),
        };
        self.await_properties(message.key(), header.props_changed_at).await;
        let topology = self.local.settled_topology(None).await;
        if header.layout_version < topology.layout_version() || topology.own().is_none() {
            return reply.refuse(REFUSED_STALE_LAYOUT, "the layout is no longer live");
        }
        let Ok(_entered) = self.admit_put() else {
            // The sender tries a candidate that has less to do.
            return reply.refuse(REFUSED_OVERLOAD, "overload");
        };
        let outcome = match message {
            message::Forwarded::Put(mut request) => {
                let written = self.timed_put_here(topology, &mut request).await;
                written.map(|object| ForwardOutcome { written: true, object })
            }
            message::Forwarded::Delete(request) => {
                let deleted = self.delete_here(topology, &request).await;
                deleted.map(|deleted| ForwardOutcome {
                    written: deleted == DeleteOutcome::Done,
                    object: None,
                })
            }
            message::Forwarded::Update(request) => {
                let updated = self.timed_update_here(topology, &request).await;
                updated.map(|object| ForwardOutcome {
                    written: true,
                    object: object.filter(|_| request.return_value),
                })
            }
        };
        if needs_another(&outcome) {
            // The sender has another replica coordinate the write.
            return reply
                .refuse(REFUSED_STORAGE, "this node's copy is damaged, or its disk is full");
        }
        answer(outcome, reply);
    }
}

impl Coordinator {
    /// Waits until this node knows the bucket properties that the sender knows. A client may write as
    /// soon as the sender has confirmed a change of properties, and the coordinator's properties decide
    /// whether siblings stay.
    async fn await_properties(&self, key: KeyRef<'_>, changed_at: u64) {
        let are_known = || {
            let state = self.local.control.read();
            state.version() >= changed_at && state.bucket_props(key.bucket).is_ok()
        };
        if !are_known() && !self.local.control.is_cut_off() && !planted!(CoordinatesUnaware) {
            let mut versions = self.local.control.watch();
            // After the wait the write is made with the properties that are known here. If the bucket
            // type is still unknown, the write is refused for that reason.
            let _ = timeout(PROPERTIES_WAIT, versions.wait_for(|_| are_known())).await;
        }
    }
}

/// Sends a write to a candidate, over the connection for large messages if the write is large.
async fn call(peer: &Peer, forwarding: &Forwarding, limit: Duration) -> Result<Reply, CallError> {
    let payload = &forwarding.payload;
    let is_large = payload.len() >= FORWARD_LANE_BYTES;
    let lane = if is_large { Lane::Large } else { Lane::Small };
    call_while_up(peer, METHOD_FORWARD, &forwarding.header, payload, lane, limit).await
}

/// Answers the node that has forwarded a write.
fn answer(outcome: Result<ForwardOutcome, RequestError>, reply: Responder) {
    let (header, payload) = match outcome {
        Ok(ForwardOutcome { written, object }) => {
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
    reply.send(&header, &Bytes::from(payload));
}

/// Decodes the answer of the node that has coordinated a write.
fn read_outcome(reply: &Reply) -> Result<ForwardOutcome, RequestError> {
    let forwarded = Forwarded::decode(reply.header.clone())
        .map_err(|fault| RequestError::Remote(fault.to_string()))?;
    if let Some(fault) = &forwarded.fault {
        return Err(fault::decode(fault));
    }
    let object = if forwarded.has_object { Some(decode(&reply.payload)?) } else { None };
    Ok(ForwardOutcome { written: forwarded.written, object })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_after_which_a_write_may_exist_are_unknown_outcomes() {
        let refused = |code| CallError::Refused { code, text: "".into() };
        let cases = [
            (CallError::Unreachable("".into()), ForwardFailure::NotMade),
            (
                CallError::TooBusy { outstanding_bytes: 1, outstanding_count: 1 },
                ForwardFailure::NotMade,
            ),
            (CallError::TooLarge { size_bytes: 2, size_bytes_max: 1 }, ForwardFailure::NotMade),
            (refused(REFUSED_STORAGE), ForwardFailure::NotMade),
            (refused(REFUSED_MALFORMED), ForwardFailure::NotMade),
            (refused(code::UNKNOWN_METHOD), ForwardFailure::NotMade),
            (refused(REFUSED_STALE_LAYOUT), ForwardFailure::StaleLayout),
            (refused(REFUSED_OVERLOAD), ForwardFailure::Overload),
            (refused(code::NO_ANSWER), ForwardFailure::Unknown),
            (refused(code::TOO_LARGE), ForwardFailure::Unknown),
            (refused(code::CANCELLED), ForwardFailure::Unknown),
            (refused(9_999), ForwardFailure::Unknown),
            (CallError::Disconnected("".into()), ForwardFailure::Unknown),
            (CallError::Timeout { after_ms: 1 }, ForwardFailure::TimedOut),
        ];
        for (fault, expected) in cases {
            assert_eq!(ForwardFailure::after(&fault), expected, "{fault}");
        }
    }
}
