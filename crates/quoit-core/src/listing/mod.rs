//! Listing keys and buckets, in chunks.
//!
//! A listing covers every partition once: each is listed by one node with a complete copy of it, by as
//! few nodes as do. Chunks come when they are asked for, so that a slow reader slows the listing down.
//! Listings go through the keys in one order everywhere, so another replica goes on where one fails.

mod buckets;
mod keys;
mod plan;

pub use buckets::BucketListing;
pub use keys::KeyListing;

use crate::error::RequestError;
use bytes::Bytes;
use prost::{DecodeError, Message};
use quoit_cluster::CallError;
use std::time::Duration;

/// Names that a chunk holds at most.
const CHUNK_COUNT: usize = 1_000;
/// Time that a node has for a chunk.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a chunk did not come from a node.
enum Failed {
    /// Another node may do.
    Node(CallError),
    /// This node can't read its own copies.
    Own(RequestError),
}

/// An answer's message. One that makes no sense is as good as none.
fn decoded<M: Message + Default>(header: Bytes) -> Result<M, Failed> {
    let nonsense = |fault: DecodeError| CallError::Disconnected(fault.to_string().into());
    M::decode(header).map_err(|fault| Failed::Node(nonsense(fault)))
}

fn no_address() -> CallError {
    CallError::Unreachable("its address is not known".into())
}

/// Limits the time of a whole listing: run each step inside [`Deadline::limit`].
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Option<tokio::time::Instant>,
}

impl Deadline {
    /// A deadline so many milliseconds from now; 0 = none.
    #[must_use]
    pub fn after_ms(timeout_ms: u64) -> Self {
        let at = (timeout_ms > 0)
            .then(|| tokio::time::Instant::now() + Duration::from_millis(timeout_ms));
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
            Some(at) => {
                tokio::time::timeout_at(at, step).await.unwrap_or(Err(RequestError::Timeout))
            }
        }
    }
}
