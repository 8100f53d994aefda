//! The types with which `openraft` is instantiated.

use super::runtime::SeededRuntime;
use crate::NodeId;
use crate::change::Decision;
use std::fmt;
use std::io::Cursor;

/// Identity of a node with a default value, which `openraft` requires. The default names no node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RaftId(pub(crate) NodeId);

impl Default for RaftId {
    fn default() -> Self {
        Self(NodeId([0; 16]))
    }
}

impl fmt::Display for RaftId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Debug for RaftId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Outcome of applying a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DecisionOutcome {
    /// True if the changes were applied; false if the state had another revision by then.
    pub(crate) applied: bool,
}

openraft::declare_raft_types!(
    pub(crate) TypeConfig:
        D = Decision,
        R = DecisionOutcome,
        NodeId = RaftId,
        Node = (),
        Entry = openraft::Entry<TypeConfig>,
        SnapshotData = Cursor<Vec<u8>>,
        AsyncRuntime = SeededRuntime,
);

pub(crate) type Raft = openraft::Raft<TypeConfig>;
pub(crate) type Entry = openraft::Entry<TypeConfig>;
pub(crate) type LogId = openraft::LogId<RaftId>;
pub(crate) type Vote = openraft::Vote<RaftId>;
pub(crate) type Membership = openraft::Membership<RaftId, ()>;
pub(crate) type StoredMembership = openraft::StoredMembership<RaftId, ()>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<RaftId, ()>;
pub(crate) type StorageError = openraft::StorageError<RaftId>;
