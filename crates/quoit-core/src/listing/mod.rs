//! Listings of keys and buckets, queries of secondary indexes, and scans of records, in chunks.
//!
//! A listing visits every partition exactly once. The coordinator assigns each partition to a live node
//! with a complete copy of it, and uses as few nodes as possible ([`plan`]). It asks a node for its
//! next chunk only when the reader has taken the last one, so a slow reader slows the listing down.
//!
//! Every node returns positions in the same order, and a chunk ends with the position that it has reached. If
//! a node fails, the coordinator itself included, another replica continues after that position. If the
//! layout changes, all remaining partitions are assigned again. A listing is complete or ends with an error;
//! it is never cut short in silence.

mod buckets;
mod continuation;
mod coverage;
mod index;
mod keys;
mod map_keys;
mod map_node;
mod map_outputs;
mod maps;
mod pattern;
mod plan;
mod records;
mod scan;
mod serve;
mod sources;

pub use buckets::{BucketFold, BucketListing};
pub use continuation::InvalidContinuation;
pub use coverage::{CoverageEntry, CoverageError, CoverageRequest, InvalidContext};
pub use index::{IndexMatch, IndexQuery, IndexResults, IndexSelection};
pub use keys::KeyListing;
pub(crate) use maps::{MapScan, MapSelection};
pub use pattern::{PATTERN_BYTES_MAX, Pattern, PatternError};
pub(crate) use plan::{NodeShare, shares};
pub use records::RecordRange;
pub(crate) use records::{RecordKind, RecordScan};

use crate::error::RequestError;
use crate::healing::Healing;
use crate::local_node::LocalNode;
use crate::map_work::MapSessions;
use crate::tombstones::NotedTombstones;
use bytes::Bytes;
use plan::CoveragePlans;
use prost::Message;
use quoit_cluster::CallError;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use quoit_wire::internode::data::REFUSED_STALE_LAYOUT;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time in which a node has to answer with a chunk.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(30);

/// The type of a bucket, in a buffer that is shared for the default type: most requests name that one.
fn owned_type(bucket: BucketRef<'_>) -> Bytes {
    match bucket.is_untyped() {
        true => Bytes::from_static(DEFAULT_BUCKET_TYPE),
        false => Bytes::copy_from_slice(bucket.bucket_type),
    }
}

/// Listings that this node coordinates, and its answers to listings of other nodes. Shared; every
/// method takes `&self`.
pub struct Listings {
    local: Arc<LocalNode>,
    tombstones: Arc<NotedTombstones>,
    healing: Arc<Healing>,
    /// Assignments of all partitions to nodes, kept for the next listing.
    plans: CoveragePlans,
    /// Scripts of jobs that other nodes run.
    map_sessions: MapSessions,
}

impl Listings {
    pub(crate) fn new(
        local: &Arc<LocalNode>,
        tombstones: &Arc<NotedTombstones>,
        healing: &Arc<Healing>,
    ) -> Arc<Self> {
        Arc::new(Self {
            local: Arc::clone(local),
            tombstones: Arc::clone(tombstones),
            healing: Arc::clone(healing),
            plans: CoveragePlans::new(),
            map_sessions: MapSessions::default(),
        })
    }
}

/// Reason why a node did not return a chunk.
enum ChunkFailure {
    /// This node failed; another one may have the records. Holds the fault of the engine if the node is
    /// this one.
    Node(Option<RequestError>),
    /// The layout of the request is not live any more, so other nodes may hold the partitions.
    Stale,
    /// The request would fail on every node.
    Here(RequestError),
}

impl From<CallError> for ChunkFailure {
    fn from(fault: CallError) -> Self {
        match fault {
            CallError::Refused { code: REFUSED_STALE_LAYOUT, .. } => Self::Stale,
            _ => Self::Node(None),
        }
    }
}

/// Decodes an answer. An answer that can't be read counts as a failure of its node.
fn decoded<M: Message + Default>(header: Bytes) -> Result<M, ChunkFailure> {
    M::decode(header).map_err(|_| ChunkFailure::Node(None))
}

/// The result of a chunk that this node has read itself. `None` means that the layout has changed in
/// the meantime.
fn own<T>(read: Result<Option<T>, RequestError>) -> Result<T, ChunkFailure> {
    let failed = |fault| match fault {
        RequestError::Store(_) => ChunkFailure::Node(Some(fault)),
        _ => ChunkFailure::Here(fault),
    };
    read.map_err(failed)?.ok_or(ChunkFailure::Stale)
}

/// A limit on the time of a whole listing: run each step inside [`Deadline::limit`].
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Option<Instant>,
}

impl Deadline {
    /// A deadline `timeout_ms` milliseconds from now; 0 means no deadline.
    #[must_use]
    pub fn after_ms(timeout_ms: u64) -> Self {
        let at = (timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(timeout_ms));
        Self { at }
    }

    /// Runs `step` until the deadline.
    ///
    /// # Errors
    ///
    /// `Timeout` at the deadline, otherwise the error of the step.
    pub async fn limit<T>(
        self,
        step: impl Future<Output = Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        match self.at {
            None => step.await,
            Some(at) => timeout_at(at, step).await.unwrap_or(Err(RequestError::Timeout)),
        }
    }
}
