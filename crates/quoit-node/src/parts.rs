//! Parts of a node, and their assembly.

use crate::engine::{FoundLoss, NodeEngine};
use crate::node::Node;
use quoit_cluster::{ControlPlane, Internode};
use quoit_core::{ChangeLog, SourceQueues, StoreBuilder, StoreSettings};
use quoit_seam::{Clock, Disk};
use quoit_store::error::StoreError;
use std::sync::Arc;
use thiserror::Error;

/// Parts of a node, each ready for use.
pub struct NodeParts {
    /// The engine of its records.
    pub engine: NodeEngine,
    /// The node's part of the control plane.
    pub control: Arc<ControlPlane>,
    /// Its connections to other nodes.
    pub internode: Arc<Internode>,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Settings of its store.
    pub settings: StoreSettings,
    /// Data that it keeps besides its records.
    pub auxiliary: AuxiliaryData,
}

/// Data that a node keeps besides its records. Data without a disk is in memory and ends with the
/// process.
#[derive(Default)]
pub struct AuxiliaryData {
    /// Hints.
    pub hints: Option<Arc<dyn Disk>>,
    /// Disk of the reap records, and a random number. Without reap records, a deleted and reaped record
    /// may come back with an older copy.
    pub reap_records: Option<(Arc<dyn Disk>, u64)>,
    /// Disk for the hashes of Riak's hash trees. Without a disk, the node keeps the hashes in memory, within
    /// a bound.
    pub riak_trees: Option<Arc<dyn Disk>>,
    /// Queues of writes for other clusters. Without them no cluster can replicate from this node.
    pub source_queues: Option<SourceQueues>,
    /// Log of change feeds. Without it no bucket has a feed.
    pub change_log: Option<ChangeLog>,
}

/// Reason why a node could not be assembled.
#[derive(Debug, Error)]
pub enum AssemblyError {
    /// Hints can't be read.
    #[error("reading the hints")]
    Hints(#[source] StoreError),
    /// Reap records can't be read.
    #[error("reading the reap records")]
    ReapRecords(#[source] StoreError),
}

impl NodeParts {
    /// Assembles the node. The node answers other nodes as soon as it listens. If it has lost records, the
    /// caller must first run [`Node::recover_lost_records`].
    ///
    /// # Errors
    ///
    /// If data besides the records can't be read.
    pub fn assemble(self) -> Result<Node, AssemblyError> {
        let Self { engine: NodeEngine { engine, dots, loss }, control, internode, .. } = self;
        let AuxiliaryData { hints, reap_records, riak_trees, source_queues, change_log } =
            self.auxiliary;
        let (of_store, connections) = (Arc::clone(&control), Arc::clone(&internode));
        let mut builder =
            StoreBuilder::new(engine, of_store, connections, self.clock, dots, self.settings);
        if let Some(disk) = hints {
            builder = builder.with_hints(disk).map_err(AssemblyError::Hints)?;
        }
        if let Some((disk, entropy)) = reap_records {
            builder =
                builder.with_reap_records(disk, entropy).map_err(AssemblyError::ReapRecords)?;
        }
        if let Some(disk) = riak_trees {
            builder = builder.with_riak_trees(disk);
        }
        if let Some(queues) = source_queues {
            builder = builder.with_source_queues(queues);
        }
        if let Some(log) = change_log {
            builder = builder.with_change_log(log);
        }
        let store = builder.build();
        let lost_reap_records = || FoundLoss::unreported("reap records are damaged or missing");
        let loss = loss.or_else(|| store.has_lost_reap_records().then(lost_reap_records));
        if loss.is_none() {
            store.serve_replicas();
        }
        Ok(Node { store, control, internode, loss })
    }
}
