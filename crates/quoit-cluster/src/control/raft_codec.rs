//! Conversion between `openraft`'s values and messages.

use super::codec::{decode_decision, encode_decision};
use super::types::{Entry, LogId, Membership, RaftId, StoredMembership, Vote};
use crate::id_bytes::node_id;
use bytes::Bytes;
use openraft::{CommittedLeaderId, EntryPayload};
use quoit_wire::internode::control::{
    Ballot, Electorate, LogEntry, NodeSet, Position, StoredElectorate,
};
use std::collections::{BTreeMap, BTreeSet};

fn id_bytes(id: RaftId) -> Bytes {
    Bytes::copy_from_slice(&id.0.0)
}

fn raft_id(bytes: &[u8]) -> Result<RaftId, String> {
    node_id(bytes).map(RaftId)
}

pub(crate) fn encode_log_id(id: &LogId) -> Position {
    Position { term: id.leader_id.term, leader: id_bytes(id.leader_id.node_id), index: id.index }
}

pub(crate) fn decode_log_id(message: &Position) -> Result<LogId, String> {
    let leader = CommittedLeaderId::new(message.term, raft_id(&message.leader)?);
    Ok(LogId::new(leader, message.index))
}

pub(crate) fn decode_optional_log_id(message: Option<&Position>) -> Result<Option<LogId>, String> {
    message.map(decode_log_id).transpose()
}

pub(crate) fn encode_vote(vote: &Vote) -> Ballot {
    let leader = &vote.leader_id;
    Ballot { term: leader.term, node: id_bytes(leader.node_id), committed: vote.committed }
}

pub(crate) fn decode_vote(message: Option<&Ballot>) -> Result<Vote, String> {
    let message = message.ok_or("the ballot is missing")?;
    let mut vote = Vote::new(message.term, raft_id(&message.node)?);
    vote.committed = message.committed;
    Ok(vote)
}

pub(crate) fn encode_membership(membership: &Membership) -> Electorate {
    let voters = membership.get_joint_config().iter().map(|set| node_set(set.iter()));
    let nodes = node_set(membership.nodes().map(|(id, ())| id));
    Electorate { voters: voters.collect(), nodes: Some(nodes) }
}

fn node_set<'a>(ids: impl Iterator<Item = &'a RaftId>) -> NodeSet {
    NodeSet { nodes: ids.map(|id| id_bytes(*id)).collect() }
}

pub(crate) fn decode_membership(message: &Electorate) -> Result<Membership, String> {
    let ids = |set: &NodeSet| set.nodes.iter().map(|id| raft_id(id)).collect::<Result<_, _>>();
    let voters: Vec<BTreeSet<RaftId>> = message.voters.iter().map(ids).collect::<Result<_, _>>()?;
    let nodes: BTreeSet<RaftId> = message.nodes.as_ref().map(ids).transpose()?.unwrap_or_default();
    let nodes: BTreeMap<RaftId, ()> = nodes.into_iter().map(|id| (id, ())).collect();
    Ok(Membership::new(voters, nodes))
}

pub(crate) fn encode_stored_membership(stored: &StoredMembership) -> StoredElectorate {
    StoredElectorate {
        position: stored.log_id().as_ref().map(encode_log_id),
        electorate: Some(encode_membership(stored.membership())),
    }
}

pub(crate) fn decode_stored_membership(
    message: Option<&StoredElectorate>,
) -> Result<StoredMembership, String> {
    let Some(message) = message else { return Ok(StoredMembership::default()) };
    let position = decode_optional_log_id(message.position.as_ref())?;
    let electorate = message.electorate.as_ref().ok_or("the electorate is missing")?;
    Ok(StoredMembership::new(position, decode_membership(electorate)?))
}

pub(crate) fn encode_entry(entry: &Entry) -> LogEntry {
    let mut message =
        LogEntry { position: Some(encode_log_id(&entry.log_id)), decision: None, electorate: None };
    match &entry.payload {
        EntryPayload::Blank => {}
        EntryPayload::Normal(decision) => message.decision = Some(encode_decision(decision)),
        EntryPayload::Membership(membership) => {
            message.electorate = Some(encode_membership(membership));
        }
    }
    message
}

pub(crate) fn decode_entry(message: &LogEntry) -> Result<Entry, String> {
    let position = message.position.as_ref().ok_or("an entry of the log has no position")?;
    let payload = match (&message.decision, &message.electorate) {
        (Some(decision), _) => EntryPayload::Normal(decode_decision(decision)?),
        (None, Some(electorate)) => EntryPayload::Membership(decode_membership(electorate)?),
        (None, None) => EntryPayload::Blank,
    };
    Ok(Entry { log_id: decode_log_id(position)?, payload })
}
