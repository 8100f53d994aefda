//! Storing of a peer's objects in this cluster's replicas.

use crate::figures::PeerFigures;
use bytes::Bytes;
use quoit_core::{
    Arrival, ArrivedDelta, DeltaOutcome, ReplicatedStore, RequestError, Visited, VisitedCluster,
};
use quoit_model::context::decode_context;
use quoit_model::object::Object;
use quoit_model::props::Quorum;
use quoit_wire::messages::RpbQueuedObject;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Reason why an entry could not be stored.
#[derive(Debug, Error)]
pub(crate) enum StoringError {
    /// Its bytes are no object.
    #[error("the peer has sent an object that can't be read: {0}")]
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

/// Number of times that a delta waits for earlier ones, which other connections and other nodes may be
/// storing. Each wait is twice as long as the one before.
const GAP_WAIT_COUNT: u32 = 6;
const GAP_WAIT_FIRST: Duration = Duration::from_millis(5);

/// Outcome of a batch.
#[derive(Debug, Default)]
pub(crate) struct BatchOutcome {
    /// Entries that are on this cluster's disks.
    pub(crate) stored: Vec<u64>,
    /// Entries with deltas for which this cluster lacks earlier events; only the last one of each
    /// record.
    pub(crate) lacking: Vec<RpbQueuedObject>,
    /// First fault of the other entries.
    pub(crate) fault: Option<String>,
}

/// Outcome of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EntryOutcome {
    Stored,
    /// The entry is a delta, and this cluster lacks earlier events.
    LacksEarlier,
}

/// State that the tasks which store a batch share.
#[derive(Clone)]
struct BatchContext {
    store: Arc<ReplicatedStore>,
    source: VisitedCluster,
    workers: Arc<Semaphore>,
    figures: Arc<PeerFigures>,
}

/// Stores entries of a source, with a task for each record, and returns when all entries have been
/// tried.
pub(crate) async fn store_batch(
    store: &Arc<ReplicatedStore>,
    source: VisitedCluster,
    entries: Vec<RpbQueuedObject>,
    workers: &Arc<Semaphore>,
    figures: &Arc<PeerFigures>,
) -> BatchOutcome {
    let storing = BatchContext {
        store: Arc::clone(store),
        source,
        workers: Arc::clone(workers),
        figures: Arc::clone(figures),
    };
    let mut by_record: HashMap<Bytes, Vec<RpbQueuedObject>> = HashMap::new();
    for entry in entries {
        by_record.entry(entry.key.clone()).or_default().push(entry);
    }
    let mut tasks = JoinSet::new();
    for entries in by_record.into_values() {
        tasks.spawn(storing.clone().store_record(entries));
    }
    let mut outcome = BatchOutcome::default();
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(of_record) => {
                outcome.stored.extend(of_record.stored);
                outcome.lacking.extend(of_record.lacking);
                outcome.fault = outcome.fault.or(of_record.fault);
            }
            // The runtime shuts down.
            Err(_) => outcome.fault = Some("the node stops".to_owned()),
        }
    }
    outcome
}

impl BatchContext {
    /// Stores the entries of a record one after the other, because deltas build on each other.
    async fn store_record(self, entries: Vec<RpbQueuedObject>) -> BatchOutcome {
        let mut outcome = BatchOutcome::default();
        let mut lacking = None;
        for entry in entries {
            let sequence = entry.sequence;
            let wait_count = if lacking.is_none() { GAP_WAIT_COUNT } else { 0 };
            match self.store_waiting(&entry, wait_count).await {
                Ok(EntryOutcome::Stored) => {
                    outcome.stored.push(sequence);
                    // A later entry was stored. The earlier delta comes again, because it is not
                    // confirmed, and may fit then.
                    lacking = None;
                }
                // The object of the last one contains the changes of all others.
                Ok(EntryOutcome::LacksEarlier) => lacking = Some(entry),
                Err(fault) => {
                    self.figures.note_fault(fault.to_string());
                    outcome.fault.get_or_insert_with(|| fault.to_string());
                }
            }
        }
        outcome.lacking.extend(lacking);
        outcome
    }

    /// Stores an entry. A delta waits for earlier ones, in case they come soon.
    async fn store_waiting(
        &self,
        entry: &RpbQueuedObject,
        wait_count: u32,
    ) -> Result<EntryOutcome, StoringError> {
        for waited_count in 0.. {
            let stored = {
                // The semaphore is never closed.
                let _permit = self.workers.acquire().await;
                self.store_one(entry).await?
            };
            if stored == EntryOutcome::Stored || waited_count == wait_count {
                return Ok(stored);
            }
            tokio::time::sleep(GAP_WAIT_FIRST * (1 << waited_count)).await;
        }
        Ok(EntryOutcome::LacksEarlier)
    }

    async fn store_one(&self, entry: &RpbQueuedObject) -> Result<EntryOutcome, StoringError> {
        let Self { store, figures, .. } = self;
        let began_us = store.clock().monotonic_us();
        let arrival = Arrival {
            visited: Some(visited_with(&entry.visited, self.source)),
            may_be_redelivery: entry.again,
            dw: Quorum::Quorum,
        };
        let (size_bytes, modified_us) = if let Some(delta) = &entry.delta {
            let last_modified_us = entry.delta_modified_us.unwrap_or(0);
            let arrived = ArrivedDelta { delta: delta.clone(), last_modified_us };
            match store.replication().join_arrived(&entry.key, &arrived, &arrival).await? {
                DeltaOutcome::Joined => (delta.len(), last_modified_us),
                DeltaOutcome::LacksEarlier => return Ok(EntryOutcome::LacksEarlier),
            }
        } else if let Some(stored) = &entry.object {
            let object = Object::decode(stored)
                .map_err(|fault| StoringError::Malformed(fault.to_string()))?;
            let now_secs = store.clock().unix_secs();
            let expires_at_secs = object.expires_at_secs().map_or(u64::MAX, u64::from);
            if expires_at_secs > now_secs {
                store.replication().store_arrived(&entry.key, &object, &arrival).await?;
            }
            (stored.len(), object.last_modified_us())
        } else {
            reap(store, &entry.key, entry.reap_clock.as_ref()).await?;
            return Ok(EntryOutcome::Stored);
        };
        figures.push_us.fetch_add(store.clock().monotonic_us() - began_us, Ordering::Relaxed);
        figures.stored.fetch_add(1, Ordering::Relaxed);
        figures.stored_bytes.fetch_add(size_bytes as u64, Ordering::Relaxed);
        figures.note_modified(modified_us, store.clock());
        Ok(EntryOutcome::Stored)
    }
}

async fn reap(
    store: &ReplicatedStore,
    key: &Bytes,
    clock: Option<&Bytes>,
) -> Result<(), StoringError> {
    let malformed = || StoringError::Malformed("an entry without object and clock".to_owned());
    let clock = decode_context(clock.ok_or_else(malformed)?).map_err(|_| malformed())?;
    Ok(store.replication().reap_arrived(key, &clock).await?)
}

/// The clusters that an object has visited once it is here: the source, and all clusters before it.
pub(crate) fn visited_with(before: &[Bytes], source: VisitedCluster) -> Visited {
    let ids = before.iter().filter_map(|id| VisitedCluster::try_from(&id[..]).ok());
    let mut visited: Visited = ids.collect();
    if !visited.contains(&source) {
        visited.push(source);
    }
    visited
}
