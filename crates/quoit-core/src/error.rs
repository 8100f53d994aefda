//! Errors of requests.

use quoit_model::context::ContextError;
use quoit_model::data_type::{self, OperationError, StoredFormError, UpdateError};
use quoit_model::key::KeyError;
use quoit_model::props::{CommitHook, NValViolation};
use quoit_store::error::StoreError;
use thiserror::Error;

/// A quorum of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuorumKind {
    /// Replicas that must answer a read.
    R,
    /// Primaries that must answer a read.
    Pr,
    /// Replicas that must accept a write.
    W,
    /// Replicas that must sync a write.
    Dw,
    /// Primaries that must accept a write.
    Pw,
    /// Distinct nodes that must answer.
    NodeConfirms,
}

impl QuorumKind {
    /// The name that clients use for the quorum.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::R => "r",
            Self::Pr => "pr",
            Self::W => "w",
            Self::Dw => "dw",
            Self::Pw => "pw",
            Self::NodeConfirms => "node_confirms",
        }
    }
}

/// The condition because of which a request was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum UnmetCondition {
    /// The record exists and should not.
    #[error("match_found")]
    Exists,
    /// The record has another version vector.
    #[error("modified")]
    Modified,
    /// The record does not exist and should.
    #[error("notfound")]
    Missing,
    /// An entity tag or a date of an HTTP condition does not hold.
    #[error("precondition failed")]
    Http,
}

/// The reason why an operation on a data type or a question about one failed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum DataTypeError {
    /// The operation is for another data type than the bucket's, or nests maps too deeply.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The context does not belong to this record.
    #[error(transparent)]
    Context(#[from] data_type::context::RemoveContextError),
    /// The operation can't be applied to the stored data type.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The question is about a part that this data type does not have.
    #[error(transparent)]
    Query(#[from] data_type::QueryError),
}

/// Errors of a request. The display form is for logs; each protocol has its own wording.
#[derive(Clone, Debug, Error)]
pub enum RequestError {
    /// The name is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The bucket type does not exist or is not active.
    #[error("bucket type {} does not exist or is not active", String::from_utf8_lossy(.0))]
    NoSuchType(Vec<u8>),
    /// The bucket type promises strong consistency, which this store does not have.
    #[error(
        "bucket type {} has consistent=true, and strong consistency is not served; \
         use a bucket type without it",
        String::from_utf8_lossy(.0)
    )]
    Consistent(Vec<u8>),
    /// A quorum is above the number of replicas, or the request's n_val is out of range.
    #[error(transparent)]
    NVal(#[from] NValViolation),
    /// Fewer nodes answered than a quorum asks for.
    #[error("{} not satisfied: {got} of {wanted}", .kind.name())]
    Unsatisfied {
        /// The quorum.
        kind: QuorumKind,
        /// Answers that the quorum asks for.
        wanted: u32,
        /// Answers that were received.
        got: u32,
    },
    /// A read asks for more distinct nodes than are available.
    #[error("{wanted} distinct nodes asked for, {have} available")]
    InsufficientNodes {
        /// Nodes available.
        have: u32,
        /// Nodes asked for.
        wanted: u32,
    },
    /// Fewer nodes are up than a quorum asks for.
    #[error("{wanted} replicas asked for, {have} available")]
    InsufficientVnodes {
        /// Positions of the preference list whose nodes are up.
        have: u32,
        /// Positions asked for.
        wanted: u32,
    },
    /// No node that is up has a complete copy of some partition that a listing needs.
    #[error("some partitions have no complete copy on a node that is up")]
    InsufficientCoverage,
    /// No node that could coordinate the request is up.
    #[error("all nodes down")]
    AllNodesDown,
    /// A condition of the request does not hold.
    #[error(transparent)]
    Unmet(#[from] UnmetCondition),
    /// The context that the client sent can't be used.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The context that the client sent can't be used by the node that coordinates the write.
    #[error("{0}")]
    RemoteContext(String),
    /// The operation or question can't be applied to the data type.
    #[error(transparent)]
    DataType(#[from] DataTypeError),
    /// The same, as reported by the node that coordinates the update.
    #[error("{0}")]
    RemoteDataType(String),
    /// The protocol or the store refuses the value.
    #[error("{0}")]
    Vetoed(String),
    /// A precommit check of the bucket refuses the value.
    #[error("{0}")]
    Precommit(String),
    /// The bucket has a pre-commit hook that this server can't run, so that nothing checks the value.
    #[error(
        "the bucket's pre-commit hook {} can't be run by this server, which refuses writes to the bucket \
         therefore: take the hook out of the property precommit (built-in hooks are quoit:valid_json and \
         quoit:max_bytes_N)",
        .0.to_json()
    )]
    HookNotRun(CommitHook),
    /// The object is over the limit.
    #[error("object of {size_bytes} bytes is over object.size.maximum")]
    ObjectTooLarge {
        /// Size of the object as stored.
        size_bytes: u64,
    },
    /// The object would get more siblings than allowed.
    #[error(
        "object would have {0} siblings, more than object.siblings.maximum; read and resolve it"
    )]
    TooManySiblings(u32),
    /// The request did not finish in time. A write may have been stored.
    #[error("timeout")]
    Timeout,
    /// The node is overloaded; the client should try again later.
    #[error("overload")]
    Overload,
    /// The storage engine failed.
    #[error(transparent)]
    Store(StoreError),
    /// The node that coordinates the request failed, with its message.
    #[error("{0}")]
    Remote(String),
    /// Stored bytes are not an object.
    #[error("stored object is damaged: {0}")]
    Damaged(String),
}

impl RequestError {
    /// The error for a stored state of a data type that can't be decoded.
    pub(crate) fn damaged_state(fault: StoredFormError) -> Self {
        Self::Damaged(fault.to_string())
    }
}

impl From<StoreError> for RequestError {
    /// An engine that has fallen behind counts as overload; every other fault of the engine is a failure.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Overloaded => Self::Overload,
            error => Self::Store(error),
        }
    }
}
