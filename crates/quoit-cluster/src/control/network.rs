//! Implements `openraft`'s network on the connections between nodes.

use super::link::{ControlLink, LinkError};
use super::part_metrics::PartMetrics;
use super::raft_codec::{
    decode_log_id, decode_optional_log_id, decode_vote, encode_entry, encode_log_id,
    encode_stored_membership, encode_vote,
};
use super::types::{RaftId, TypeConfig};
use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use prost::Message;
use quoit_wire::internode::control::{
    Append, AppendOutcome, Appended, Ballot, METHOD_APPEND, METHOD_SNAPSHOT, METHOD_VOTE,
    SnapshotPart, VoteAnswer, VoteAsked,
};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

type RpcError<E = RaftError<RaftId>> = RPCError<RaftId, (), E>;

/// Creates the clients through which `openraft` calls other nodes.
pub(crate) struct RaftPeers {
    pub(crate) link: ControlLink,
    /// Metrics of the instance that sends.
    pub(crate) metrics: PartMetrics,
}

impl RaftNetworkFactory<TypeConfig> for RaftPeers {
    type Network = RaftPeer;

    async fn new_client(&mut self, target: RaftId, (): &()) -> RaftPeer {
        RaftPeer { target, link: self.link.clone(), metrics: self.metrics.clone() }
    }
}

/// A client for one node.
pub(crate) struct RaftPeer {
    target: RaftId,
    link: ControlLink,
    metrics: PartMetrics,
}

impl RaftPeer {
    /// Calls the node. On failure it returns only when `limit` has passed, because `openraft` would
    /// otherwise retry at once and without end.
    async fn call<A: Message + Default, T, E: std::error::Error>(
        &self,
        method: u16,
        header: &impl Message,
        payload: &[u8],
        limit: Duration,
        decode: impl FnOnce(A) -> Result<T, String>,
    ) -> Result<T, RpcError<E>> {
        let end = Instant::now() + limit;
        let answer = self.link.call(self.target, method, header, payload, limit).await;
        match answer.and_then(|answer| decode(answer).map_err(LinkError::Malformed)) {
            Ok(answer) => Ok(answer),
            Err(fault) => {
                sleep_until(end).await;
                Err(NetworkError::new(&fault).into())
            }
        }
    }
}

impl RaftNetwork<TypeConfig> for RaftPeer {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<RaftId>, RpcError> {
        let header = Append {
            ballot: Some(encode_vote(&request.vote)),
            previous: request.prev_log_id.as_ref().map(encode_log_id),
            committed: request.leader_commit.as_ref().map(encode_log_id),
            entries: request.entries.iter().map(encode_entry).collect(),
            lacks_majority: !self.metrics.leads_majority(),
        };
        self.call(METHOD_APPEND, &header, &[], option.soft_ttl(), decode_appended).await
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<RaftId>, RpcError<RaftError<RaftId, InstallSnapshotError>>>
    {
        let header = SnapshotPart {
            ballot: Some(encode_vote(&request.vote)),
            last: request.meta.last_log_id.as_ref().map(encode_log_id),
            electorate: Some(encode_stored_membership(&request.meta.last_membership)),
            snapshot_id: request.meta.snapshot_id,
            offset_bytes: request.offset,
            is_last: request.done,
        };
        let decode =
            |ballot: Ballot| Ok(InstallSnapshotResponse { vote: decode_vote(Some(&ballot))? });
        self.call(METHOD_SNAPSHOT, &header, &request.data, option.soft_ttl(), decode).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<RaftId>,
        option: RPCOption,
    ) -> Result<VoteResponse<RaftId>, RpcError> {
        let header = VoteAsked {
            ballot: Some(encode_vote(&request.vote)),
            last: request.last_log_id.as_ref().map(encode_log_id),
        };
        let decode = |answer: VoteAnswer| {
            Ok(VoteResponse {
                vote: decode_vote(answer.ballot.as_ref())?,
                vote_granted: answer.granted,
                last_log_id: decode_optional_log_id(answer.last.as_ref())?,
            })
        };
        self.call(METHOD_VOTE, &header, &[], option.soft_ttl(), decode).await
    }
}

fn decode_appended(answer: Appended) -> Result<AppendEntriesResponse<RaftId>, String> {
    Ok(match answer.outcome() {
        AppendOutcome::None => return Err("it has no outcome".to_owned()),
        AppendOutcome::Success => AppendEntriesResponse::Success,
        AppendOutcome::Conflict => AppendEntriesResponse::Conflict,
        AppendOutcome::Partial => {
            let partial = answer.partial.as_ref().map(decode_log_id).transpose()?;
            AppendEntriesResponse::PartialSuccess(partial)
        }
        AppendOutcome::Higher => {
            AppendEntriesResponse::HigherVote(decode_vote(answer.higher.as_ref())?)
        }
    })
}
