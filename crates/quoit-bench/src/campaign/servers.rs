//! The servers of a cell, as a campaign sees them: another crate starts them.

use super::server_plan::ServerPlan;
use std::path::Path;
use thiserror::Error;

/// Addresses of a node, each as `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddresses {
    /// Its Protocol Buffers interface.
    pub pb: String,
    /// Its HTTP interface.
    pub http: String,
}

/// A change of the first cluster while a load runs. Nodes are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeAction {
    /// Ends a node as a crash does (SIGKILL).
    Kill(u16),
    /// Keeps a node from running (SIGSTOP).
    Pause(u16),
    /// Lets a paused node go on (SIGCONT).
    Resume(u16),
    /// Starts a killed node again with its data.
    Start(u16),
    /// Starts so many further nodes and joins them.
    Add(u16),
}

/// Why servers could not be started or changed.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct ServerFault(pub String);

/// Servers that were started for a cell. They end when this is dropped, and when this process dies.
pub trait StartedServers: Send {
    /// The nodes of each cluster, in the order of their numbers.
    fn clusters(&self) -> Vec<Vec<NodeAddresses>>;

    /// Changes the first cluster; blocks until that is done.
    ///
    /// # Errors
    ///
    /// When the node is not there, or does not start.
    fn act(&mut self, action: NodeAction) -> Result<(), ServerFault>;

    /// Stops all nodes in good order and waits for their ends.
    fn stop(&mut self);
}

/// Starts the servers of cells.
pub trait ServerStarter {
    /// Starts servers with their data below a directory, on free ports of this machine; blocks until they
    /// serve, or until SIGINT or SIGTERM comes.
    ///
    /// # Errors
    ///
    /// When a server does not start. None of them runs then.
    fn start(
        &self,
        plan: &ServerPlan,
        directory: &Path,
    ) -> Result<Box<dyn StartedServers>, ServerFault>;
}
