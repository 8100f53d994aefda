//! Requests of other nodes to this node's control plane.

use super::ControlPlane;
use crate::control::codec::{decode_change, decode_decision, decode_member, encode_member};
use crate::control::group::{CommittedDecision, Group, GroupError};
use crate::control::raft_codec::{
    decode_entry, decode_optional_log_id, decode_stored_membership, decode_vote, encode_log_id,
    encode_stored_membership, encode_vote,
};
use crate::control::types::{SnapshotMeta, TypeConfig};
use crate::error::ChangeError;
use crate::state::MembershipCommand;
use crate::transport::{Admission, IncomingRequest, JoiningNode, NotAdmitted, Responder, Service};
use bytes::Bytes;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, VoteRequest,
};
use prost::Message;
use quoit_number::length_u32;
use quoit_wire::internode::code;
use quoit_wire::internode::control::{
    Append, AppendOutcome, Appended, Ballot, Decision, JoinRequest, Joined, METHOD_APPEND,
    METHOD_ENROL, METHOD_JOIN, METHOD_MEMBERSHIP, METHOD_PROPOSE, METHOD_READ_INDEX,
    METHOD_SNAPSHOT, METHOD_STARTED, METHOD_VOTE, MembershipAnswer, MembershipQuery, Proposed,
    REFUSED_JOIN, REFUSED_NOT_LEADER, REFUSED_STOPPED, ReadIndex, SnapshotPart, StartNoted,
    Started, VoteAnswer, VoteAsked,
};
use std::sync::{Arc, Weak};

/// Answers requests. Each runs on a task of its own, because most of them wait for the disk.
pub(crate) struct ControlService {
    pub(crate) plane: Weak<ControlPlane>,
}

impl Service for ControlService {
    fn serve(&self, request: IncomingRequest, reply: Responder) {
        let Some(plane) = self.plane.upgrade() else { return };
        tokio::spawn(async move {
            answer(&plane, &request, reply).await;
        });
    }
}

/// Admits members and guests. Guests may only call the methods for nodes that want to join.
impl Admission for ControlService {
    fn admit(&self, newcomer: &JoiningNode) -> Result<(), NotAdmitted> {
        let Some(plane) = self.plane.upgrade() else { return Ok(()) };
        let state = plane.read();
        let (id, name) = (newcomer.node_id, &newcomer.node_name);
        // A node that lacks the newest members admits nodes that it does not know: one of them may be the
        // leader from which it has to learn of the others.
        let is_known =
            state.members().get(id).is_some() || plane.awaits_cluster() || plane.may_be_behind();
        if newcomer.is_guest || (is_known && !state.members().is_removed(id)) {
            return Ok(());
        }
        Err(match state.members().is_removed(id) {
            true => NotAdmitted::KeptOut(format!(
                "node {id} ({name}) was removed from this cluster and can't come back; \
                 start it with an empty data directory, and let it join as a new node"
            )),
            false => NotAdmitted::Unknown(format!(
                "node {id} ({name}) is not a member of this cluster; let it join"
            )),
        })
    }

    fn check_versions(&self, other: &JoiningNode) -> Result<(), NotAdmitted> {
        let Some(plane) = self.plane.upgrade() else { return Ok(()) };
        if plane.awaits_cluster() {
            // The node still has the state of its former cluster, which says nothing about its new one.
            return Ok(());
        }
        let checked = plane.read().check_speaks(&other.node_name, other.versions);
        checked.map_err(|outdated| NotAdmitted::KeptOut(outdated.to_string()))
    }
}

/// Reason why a request is not answered.
struct Refusal {
    code: u32,
    text: String,
}

impl Refusal {
    fn malformed(reason: impl ToString) -> Self {
        Self { code: code::MALFORMED, text: reason.to_string() }
    }

    fn stopped(reason: impl ToString) -> Self {
        Self { code: REFUSED_STOPPED, text: reason.to_string() }
    }
}

impl From<GroupError> for Refusal {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::NotLeader => {
                Self { code: REFUSED_NOT_LEADER, text: "this node does not lead".to_owned() }
            }
            GroupError::Departed(departure) => Self::stopped(departure),
            GroupError::Store(error) => Self::stopped(error),
        }
    }
}

fn decode<M: Message + Default>(header: &Bytes) -> Result<M, Refusal> {
    M::decode(header.clone()).map_err(Refusal::malformed)
}

/// Sends an answer or a refusal.
fn finish(reply: Responder, answer: Result<impl Message, Refusal>) {
    match answer {
        Ok(answer) => reply.send(&answer, b"".as_slice()),
        Err(Refusal { code, text }) => reply.refuse(code, text),
    }
}

async fn answer(plane: &ControlPlane, request: &IncomingRequest, reply: Responder) {
    let (group, header) = (plane.group(), &request.header);
    match request.method {
        METHOD_APPEND => finish(reply, append(group, header).await),
        METHOD_VOTE => finish(reply, vote(group, header).await),
        METHOD_SNAPSHOT => finish(reply, snapshot(group, request).await),
        METHOD_PROPOSE => finish(reply, propose(group, header).await),
        METHOD_READ_INDEX => finish(reply, read_index(group).await),
        METHOD_STARTED => finish(reply, started(plane, request)),
        METHOD_JOIN => finish(reply, join(plane, request).await),
        METHOD_MEMBERSHIP => finish(reply, membership(plane, request)),
        METHOD_ENROL => finish(reply, plane.enrol(request).await.map_err(enrol_refusal)),
        method => {
            let text = format!("the control plane has no method {method}");
            reply.refuse(code::UNKNOWN_METHOD, text);
        }
    }
}

async fn append(group: &Group, header: &Bytes) -> Result<Appended, Refusal> {
    let request: Append = decode(header)?;
    let has_majority = !request.lacks_majority;
    let read = || {
        Ok(AppendEntriesRequest::<TypeConfig> {
            vote: decode_vote(request.ballot.as_ref())?,
            prev_log_id: decode_optional_log_id(request.previous.as_ref())?,
            leader_commit: decode_optional_log_id(request.committed.as_ref())?,
            entries: request.entries.iter().map(decode_entry).collect::<Result<_, String>>()?,
        })
    };
    let request = read().map_err(|reason: String| Refusal::malformed(reason))?;
    let (outcome, higher, partial) = match group.take(request, has_majority).await? {
        AppendEntriesResponse::Success => (AppendOutcome::Success, None, None),
        AppendEntriesResponse::Conflict => (AppendOutcome::Conflict, None, None),
        AppendEntriesResponse::HigherVote(vote) => {
            (AppendOutcome::Higher, Some(encode_vote(&vote)), None)
        }
        AppendEntriesResponse::PartialSuccess(id) => {
            (AppendOutcome::Partial, None, id.as_ref().map(encode_log_id))
        }
    };
    Ok(Appended { outcome: outcome.into(), higher, partial })
}

async fn vote(group: &Group, header: &Bytes) -> Result<VoteAnswer, Refusal> {
    let request: VoteAsked = decode(header)?;
    let vote = decode_vote(request.ballot.as_ref()).map_err(Refusal::malformed)?;
    let last = decode_optional_log_id(request.last.as_ref()).map_err(Refusal::malformed)?;
    let answer = group.vote(VoteRequest::new(vote, last)).await?;
    Ok(VoteAnswer {
        ballot: Some(encode_vote(&answer.vote)),
        granted: answer.vote_granted,
        last: answer.last_log_id.as_ref().map(encode_log_id),
    })
}

async fn snapshot(group: &Group, request: &IncomingRequest) -> Result<Ballot, Refusal> {
    let payload = &request.payload;
    let request: SnapshotPart = decode(&request.header)?;
    let read = || {
        Ok(InstallSnapshotRequest::<TypeConfig> {
            vote: decode_vote(request.ballot.as_ref())?,
            meta: SnapshotMeta {
                last_log_id: decode_optional_log_id(request.last.as_ref())?,
                last_membership: decode_stored_membership(request.electorate.as_ref())?,
                snapshot_id: request.snapshot_id,
            },
            offset: request.offset_bytes,
            data: payload.to_vec(),
            done: request.is_last,
        })
    };
    let request = read().map_err(|reason: String| Refusal::malformed(reason))?;
    let vote = request.vote;
    let answer = group.raft().await?.install_snapshot(request).await;
    let answer = answer.map_err(Refusal::stopped)?;
    if answer.vote == vote {
        group.note_leader_heard();
    }
    Ok(encode_vote(&answer.vote))
}

async fn propose(group: &Group, header: &Bytes) -> Result<Proposed, Refusal> {
    let decision: Decision = decode(header)?;
    let decision = decode_decision(&decision).map_err(Refusal::malformed)?;
    let CommittedDecision { applied, index } = group.propose(decision).await?;
    Ok(Proposed { applied, index })
}

async fn read_index(group: &Group) -> Result<ReadIndex, Refusal> {
    Ok(ReadIndex { index: group.read_index().await? })
}

/// Records a member's start durably before it is answered.
fn started(plane: &ControlPlane, request: &IncomingRequest) -> Result<StartNoted, Refusal> {
    let started: Started = decode(&request.header)?;
    let noted = plane.file().note_start(request.from, started);
    let (is_latest, known_starts) = noted.map_err(Refusal::stopped)?;
    let electorate = plane.file().electorate().map_err(Refusal::stopped)?;
    let state = plane.read();
    let members = electorate.voter_ids().filter_map(|voter| state.members().get(voter.0));
    let voters = members.map(|member| encode_member(member)).collect();
    let electorate = Some(encode_stored_membership(&electorate));
    Ok(StartNoted { is_latest, known_starts, electorate, voters })
}

async fn join(plane: &ControlPlane, request: &IncomingRequest) -> Result<Joined, Refusal> {
    let asked: JoinRequest = decode(&request.header)?;
    let member = asked.member.as_ref().ok_or_else(|| Refusal::malformed("who joins?"))?;
    let member = decode_member(member).map_err(Refusal::malformed)?;
    if member.id != request.from {
        return Err(Refusal::malformed("a node can only join for itself"));
    }
    let ring_size = u16::try_from(asked.ring_size).unwrap_or_default();
    let brought: Vec<_> = asked
        .brought
        .iter()
        .map(decode_change)
        .collect::<Result<_, _>>()
        .map_err(Refusal::malformed)?;
    let member = Arc::new(member);
    let command = MembershipCommand::Join { member: &member, ring_size, brought: &brought };
    plane.run_membership(command).await.map_err(|error| match error {
        ChangeError::Membership(refusal) => {
            Refusal { code: REFUSED_JOIN, text: refusal.to_string() }
        }
        error => Refusal::stopped(error),
    })?;
    let state = plane.read();
    Ok(Joined { cluster_id: Bytes::copy_from_slice(&state.cluster_id().0) })
}

fn enrol_refusal(error: ChangeError) -> Refusal {
    match error {
        ChangeError::Trust(_) | ChangeError::Membership(_) => {
            Refusal { code: REFUSED_JOIN, text: error.to_string() }
        }
        error => Refusal::stopped(error),
    }
}

fn membership(
    plane: &ControlPlane,
    request: &IncomingRequest,
) -> Result<MembershipAnswer, Refusal> {
    let MembershipQuery { name } = decode(&request.header)?;
    let state = plane.read();
    let members = state.members();
    let namesake = members.named(&name).filter(|member| member.id != request.from);
    Ok(MembershipAnswer {
        is_removed: members.is_removed(request.from),
        is_member: members.get(request.from).is_some(),
        member_count: length_u32(members.count()),
        namesake: namesake.map_or_else(Bytes::new, |member| Bytes::copy_from_slice(&member.id.0)),
    })
}
