//! Recovery from a stale link: an operator decides which cluster is right, and the queue is consumed again.

use crate::address::PeerAddress;
use crate::command::{CommandError, ReplicationCommand};
use crate::full_sync::RebaseFrom;
use crate::replication::Replication;
use crate::sinks::ChangeSinkError;
use quoit_core::ChangeQueueError;
use serde_json::{Value, json};
use std::sync::Arc;

impl Replication {
    /// Makes both clusters equal, with one of them deciding about deletes, and lets the stale queue be
    /// consumed again on all nodes. If nodes do not answer, or the comparison fails, the operator has
    /// to repeat it.
    pub(crate) async fn rebase(
        self: &Arc<Self>,
        name: String,
        from: RebaseFrom,
        peer: Option<String>,
        is_dry_run: bool,
    ) -> Result<Value, CommandError> {
        if self.store().source_queues().lengths(&name).is_none() {
            return Err(ChangeQueueError::NoQueue(name).into());
        }
        let peer = peer.map(|peer| peer.parse::<PeerAddress>()).transpose();
        let peer = peer.map_err(ChangeSinkError::from)?;
        let mut faults = Vec::new();
        if from == RebaseFrom::There && !is_dry_run {
            // Waiting writes come from the cluster that is wrong. Full-sync still sends records that
            // both clusters have and that are newer here.
            let clear = ReplicationCommand::QueueClear { name: name.clone() };
            faults.extend(self.faults_of_all(clear).await);
        }
        if !faults.is_empty() {
            return Ok(json!({"state": "failed", "faults": faults}));
        }
        let report = self.full_sync_control().rebase(&name, from, peer, is_dry_run).await;
        faults.extend(report.fault.clone());
        if faults.is_empty() && !is_dry_run {
            let accept = ReplicationCommand::AcceptResurrection { name };
            faults.extend(self.faults_of_all(accept).await);
        }
        let state = match (faults.is_empty(), is_dry_run) {
            (false, _) => "failed",
            (true, true) => "dry_run",
            (true, false) => "rebased",
        };
        Ok(json!({"state": state, "rebase": report, "faults": faults}))
    }

    /// Divides another cluster's partitions among the nodes of this one, and tells each node to copy
    /// its share.
    pub(crate) async fn begin_bootstrap(
        self: &Arc<Self>,
        peers: Vec<String>,
    ) -> Result<Value, CommandError> {
        let addresses: Result<Vec<PeerAddress>, _> =
            peers.iter().map(|peer| peer.parse()).collect();
        let addresses = addresses.map_err(ChangeSinkError::from)?;
        let shares = self.bootstrap().shares(&addresses).await?;
        let node_count = shares.len();
        let take = ReplicationCommand::BootstrapTake { peers, shares };
        let faults = self.faults_of_all(take).await;
        Ok(json!({"state": "copying", "nodes": node_count, "faults": faults}))
    }

    /// Executes a command on all nodes of the cluster, and returns the faults of nodes that failed.
    async fn faults_of_all(self: &Arc<Self>, command: ReplicationCommand) -> Vec<String> {
        let done = self.execute_on_all(command).await;
        let fault = |(node, done): (String, Result<Value, String>)| {
            done.err()
                .map(|fault| format!("{node}: {fault}; repeat the command when that is mended"))
        };
        done.into_iter().filter_map(fault).collect()
    }
}
