//! Listing keys, buckets and entries of secondary indexes, in chunks.
//!
//! A listing covers every partition once: each is listed by one node with a complete copy of it, by as
//! few nodes as do. Chunks come when they are asked for, so that a slow reader slows the listing down.
//! Listings go through names and entries in one order everywhere, so another replica goes on where one
//! fails, this node included.

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
pub(crate) use maps::{MapScan, MappedRecords};
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
use quoit_wire::internode::data::REFUSED_STALE_LAYOUT;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time that a node has for a chunk.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(30);

/// Listings of a node, and its answers to those of others. Shared; every method takes `&self`.
pub struct Listings {
    local: Arc<LocalNode>,
    tombstones: Arc<NotedTombstones>,
    healing: Arc<Healing>,
    /// Which nodes are asked when all partitions are.
    plans: CoveragePlans,
    /// Scripts of other nodes' jobs.
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

/// Why a chunk did not come from a node.
enum Failed {
    /// Another node may do; with what is wrong with this one's own copies, if it was this one.
    Node(Option<RequestError>),
    /// The layouts by which the node was asked are not live any more: who holds what has changed.
    Stale,
    /// No node would do.
    Here(RequestError),
}

impl From<CallError> for Failed {
    fn from(fault: CallError) -> Self {
        match fault {
            CallError::Refused { code: REFUSED_STALE_LAYOUT, .. } => Self::Stale,
            _ => Self::Node(None),
        }
    }
}

/// An answer's message. One that makes no sense is as good as none.
fn decoded<M: Message + Default>(header: Bytes) -> Result<M, Failed> {
    M::decode(header).map_err(|_| Failed::Node(None))
}

/// The part that this node has read itself; nothing if the layouts have changed meanwhile.
fn own<T>(read: Result<Option<T>, RequestError>) -> Result<T, Failed> {
    let failed = |fault| match fault {
        RequestError::Store(_) => Failed::Node(Some(fault)),
        _ => Failed::Here(fault),
    };
    read.map_err(failed)?.ok_or(Failed::Stale)
}

/// Limits the time of a whole listing: run each step inside [`Deadline::limit`].
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Option<Instant>,
}

impl Deadline {
    /// A deadline so many milliseconds from now; 0 = none.
    #[must_use]
    pub fn after_ms(timeout_ms: u64) -> Self {
        let at = (timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(timeout_ms));
        Self { at }
    }

    /// Runs `step` until the deadline.
    ///
    /// # Errors
    ///
    /// `Timeout` at the deadline, else the step's own.
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
