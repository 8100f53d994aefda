//! The interface to the servers of a cell, which another crate starts.

use super::server_plan::ServerPlan;
use std::path::Path;
use thiserror::Error;

/// Addresses of a node, each as `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddresses {
    /// Address of its Protocol Buffers interface.
    pub pb: String,
    /// Address of its HTTP interface.
    pub http: String,
}

/// A change of the first cluster during a load. Nodes are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeAction {
    /// Ends the node as a crash does (SIGKILL).
    Kill(u16),
    /// Suspends the node (SIGSTOP).
    Pause(u16),
    /// Resumes a suspended node (SIGCONT).
    Resume(u16),
    /// Restarts a killed node with its data.
    Start(u16),
    /// Starts this number of additional nodes and joins them to the cluster.
    Add(u16),
}

/// The reason why servers could not be started or changed.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct ServerFault(pub String);

/// Servers that were started for a cell. They end when this is dropped, and when this process dies.
pub trait StartedServers: Send {
    /// Addresses of the nodes of each cluster, in the order of their numbers.
    fn clusters(&self) -> Vec<Vec<NodeAddresses>>;

    /// Changes the first cluster. Blocks until the change is done.
    ///
    /// # Errors
    ///
    /// When the node does not exist or does not start.
    fn act(&mut self, action: NodeAction) -> Result<(), ServerFault>;

    /// Stops all nodes gracefully and waits until they have ended.
    fn stop(&mut self);
}

/// Starts the servers of cells.
pub trait ServerStarter {
    /// Starts servers on free ports of this machine, with their data below `directory`. Blocks until they
    /// serve, or until SIGINT or SIGTERM arrives.
    ///
    /// # Errors
    ///
    /// When a server does not start. All others are stopped then.
    fn start(
        &self,
        plan: &ServerPlan,
        directory: &Path,
    ) -> Result<Box<dyn StartedServers>, ServerFault>;
}
