//! Why a request could not be answered.

use quoit_model::context::ContextError;
use quoit_model::data_type::{self, OperationError, StoredFormError, UpdateError};
use quoit_model::key::KeyError;
use quoit_model::props::{CommitHook, NValViolation};
use quoit_store::error::StoreError;
use thiserror::Error;

/// Which quorum of a request was meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuorumKind {
    /// Copies read.
    R,
    /// Copies read from primaries.
    Pr,
    /// Copies accepted.
    W,
    /// Copies synced.
    Dw,
    /// Copies accepted by primaries.
    Pw,
    /// Distinct nodes.
    NodeConfirms,
}

impl QuorumKind {
    /// The name that clients use for it.
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

/// Why a conditional request was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Unmet {
    /// The record exists and should not.
    #[error("match_found")]
    Exists,
    /// The record's clock is another one.
    #[error("modified")]
    Modified,
    /// The record does not exist and should.
    #[error("notfound")]
    Missing,
    /// An entity tag or a date of an HTTP condition does not hold.
    #[error("precondition failed")]
    Http,
}

/// Why an operation on a data type was not done.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum DataTypeError {
    /// It is for another type than the bucket's, or nests maps too deeply.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The context is none of this record.
    #[error(transparent)]
    Context(#[from] data_type::context::RemoveContextError),
    /// It can't be done to what is stored.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The query is for a part that data types of this type do not have.
    #[error(transparent)]
    Query(#[from] data_type::QueryError),
}

/// Faults of a request. The display form is for logs; the protocols have their own words for each.
#[derive(Clone, Debug, Error)]
pub enum RequestError {
    /// The name is not the name of a record.
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
    /// Fewer answers than asked for.
    #[error("{} not satisfied: {got} of {wanted}", .kind.name())]
    Unsatisfied {
        /// Which quorum.
        kind: QuorumKind,
        /// Answers asked for.
        wanted: u32,
        /// Answers had.
        got: u32,
    },
    /// A read asked for more distinct nodes than there are.
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
    /// No node that is up holds some partition that a listing needs.
    #[error("no node that is up holds some of the partitions")]
    InsufficientCoverage,
    /// No node that could take the request is up.
    #[error("all nodes down")]
    AllNodesDown,
    /// A condition of the request does not hold.
    #[error(transparent)]
    Unmet(#[from] Unmet),
    /// The context that the client sent can't be used.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The context that the client sent can't be used by the node that coordinates the write.
    #[error("{0}")]
    RemoteContext(String),
    /// The operation can't be done to the data type.
    #[error(transparent)]
    DataType(#[from] DataTypeError),
    /// The same, said by the node that coordinates the update.
    #[error("{0}")]
    RemoteDataType(String),
    /// The value may not be stored.
    #[error("{0}")]
    Vetoed(String),
    /// A check of the bucket does not let the value pass.
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
    /// Not done within the time that the request allowed.
    #[error("timeout")]
    Timeout,
    /// The node has as much work as it takes.
    #[error("overload")]
    Overload,
    /// The storage engine failed.
    #[error(transparent)]
    Store(StoreError),
    /// The node that coordinates the request failed, in its own words.
    #[error("{0}")]
    Remote(String),
    /// Stored bytes are not an object.
    #[error("stored object is damaged: {0}")]
    Damaged(String),
}

impl RequestError {
    /// That of a stored state that can't be read.
    pub(crate) fn damaged_state(fault: StoredFormError) -> Self {
        Self::Damaged(fault.to_string())
    }
}

impl From<StoreError> for RequestError {
    /// An engine that has fallen behind is an overload like any other; all else is its failure.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Overloaded => Self::Overload,
            error => Self::Store(error),
        }
    }
}
