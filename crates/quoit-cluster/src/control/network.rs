//! How `openraft` reaches other nodes.

use super::types::{RaftId, TypeConfig};
use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use std::time::Duration;
use thiserror::Error;

type RpcError<E = RaftError<RaftId>> = RPCError<RaftId, (), E>;

/// Makes the ways to other nodes.
#[derive(Clone, Default)]
pub(crate) struct Network {}

/// The way to one node.
pub(crate) struct Way {
    target: RaftId,
}

/// A node that cannot be reached.
#[derive(Debug, Error)]
#[error("node {target} cannot be reached: this node has no connections to others")]
struct Unreachable {
    target: RaftId,
}

impl Way {
    /// Nothing else keeps `openraft` from asking again at once.
    async fn unreachable<E: std::error::Error>(&self, patience: Duration) -> RpcError<E> {
        tokio::time::sleep(patience).await;
        NetworkError::new(&Unreachable { target: self.target }).into()
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Way;

    async fn new_client(&mut self, target: RaftId, (): &()) -> Way {
        Way { target }
    }
}

impl RaftNetwork<TypeConfig> for Way {
    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<RaftId>, RpcError> {
        Err(self.unreachable(option.soft_ttl()).await)
    }

    async fn install_snapshot(
        &mut self,
        _: InstallSnapshotRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<RaftId>, RpcError<RaftError<RaftId, InstallSnapshotError>>>
    {
        Err(self.unreachable(option.soft_ttl()).await)
    }

    async fn vote(
        &mut self,
        _: VoteRequest<RaftId>,
        option: RPCOption,
    ) -> Result<VoteResponse<RaftId>, RpcError> {
        Err(self.unreachable(option.soft_ttl()).await)
    }
}
