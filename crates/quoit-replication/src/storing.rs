//! Objects of a peer on their way to this cluster's replicas.

use crate::figures::PeerFigures;
use bytes::Bytes;
use quoit_core::{Arrival, ReplicatedStore, RequestError, Visited, VisitedCluster};
use quoit_model::context::decode_context;
use quoit_model::object::Object;
use quoit_model::props::Quorum;
use quoit_wire::messages::RpbQueuedObject;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Why an entry could not be stored.
#[derive(Debug, Error)]
pub(crate) enum StoringError {
    /// Its bytes are no object.
    #[error("the peer has sent what is no object: {0}")]
    Malformed(String),
    /// This cluster has refused it.
    #[error("{fault}{remedy}")]
    Refused { fault: RequestError, remedy: &'static str },
}

impl From<RequestError> for StoringError {
    fn from(fault: RequestError) -> Self {
        let remedy = match fault {
            RequestError::NoSuchType(_) => {
                "; create and activate the bucket type in this cluster, or set repl.bucket_types = create: \
                 the queue waits for that"
            }
            RequestError::Overload => "; this cluster has too much to do",
            _ => "",
        };
        Self::Refused { fault, remedy }
    }
}

/// Outcome of a batch.
#[derive(Debug, Default)]
pub(crate) struct BatchOutcome {
    /// Entries that are on this cluster's disks.
    pub(crate) stored: Vec<u64>,
    /// The first fault of the others.
    pub(crate) fault: Option<String>,
}

/// Stores entries of a source, each by a task of its own, and returns when all have been tried.
pub(crate) async fn store_batch(
    store: &Arc<ReplicatedStore>,
    source: VisitedCluster,
    entries: Vec<RpbQueuedObject>,
    workers: &Arc<Semaphore>,
    figures: &Arc<PeerFigures>,
) -> BatchOutcome {
    let mut tasks = JoinSet::new();
    for entry in entries {
        let (store, workers) = (Arc::clone(store), Arc::clone(workers));
        let figures = Arc::clone(figures);
        tasks.spawn(async move {
            // Nobody closes the semaphore.
            let _permit = workers.acquire().await;
            let sequence = entry.sequence;
            (sequence, store_one(&store, source, entry, &figures).await)
        });
    }
    let mut outcome = BatchOutcome::default();
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok((sequence, Ok(()))) => outcome.stored.push(sequence),
            Ok((_, Err(fault))) => {
                figures.note_fault(fault.to_string());
                outcome.fault.get_or_insert_with(|| fault.to_string());
            }
            // The runtime shuts down.
            Err(_) => outcome.fault = Some("the node stops".to_owned()),
        }
    }
    outcome
}

async fn store_one(
    store: &ReplicatedStore,
    source: VisitedCluster,
    entry: RpbQueuedObject,
    figures: &PeerFigures,
) -> Result<(), StoringError> {
    let began_us = store.clock().monotonic_us();
    let Some(stored) = entry.object else {
        return reap(store, &entry.key, entry.reap_clock.as_ref()).await;
    };
    let object =
        Object::decode(&stored).map_err(|fault| StoringError::Malformed(fault.to_string()))?;
    let is_expired = object
        .expires_at_secs()
        .is_some_and(|expires_at_secs| u64::from(expires_at_secs) <= store.clock().unix_secs());
    if !is_expired {
        let arrival = Arrival {
            visited: Some(visited_with(&entry.visited, source)),
            may_be_again: entry.again,
            dw: Quorum::Quorum,
        };
        store.store_arrived(&entry.key, &object, &arrival).await?;
    }
    figures.push_us.fetch_add(store.clock().monotonic_us() - began_us, Ordering::Relaxed);
    figures.stored.fetch_add(1, Ordering::Relaxed);
    figures.stored_bytes.fetch_add(stored.len() as u64, Ordering::Relaxed);
    figures.note_modified(object.last_modified_us(), store.clock().unix_us());
    Ok(())
}

async fn reap(
    store: &ReplicatedStore,
    key: &Bytes,
    clock: Option<&Bytes>,
) -> Result<(), StoringError> {
    let malformed = || StoringError::Malformed("an entry without object and clock".to_owned());
    let clock = decode_context(clock.ok_or_else(malformed)?).map_err(|_| malformed())?;
    Ok(store.reap_arrived(key, &clock).await?)
}

/// The clusters that an object has visited once it is here: all before the source, and the source.
pub(crate) fn visited_with(before: &[Bytes], source: VisitedCluster) -> Visited {
    let ids = before.iter().filter_map(|id| VisitedCluster::try_from(&id[..]).ok());
    let mut visited: Visited = ids.collect();
    if !visited.contains(&source) {
        visited.push(source);
    }
    visited
}
