//! Consumption of source queues: the next entries, with their objects.

use super::Replication;
use crate::error::RequestError;
use crate::options::ReadOptions;
use crate::placement::{object_props, record_at};
use crate::queues::{
    EntryReference, EntrySequence, QueueEntry, QueuePriority, Visited, VisitedCluster,
};
use crate::queues::{Lease, SourceQueues};
use crate::replica::Copy;
use crate::replica::Reaped;
use crate::stats::Counter;
use crate::stored::{decode, wait_if_blocked};
use bytes::Bytes;
use quoit_model::clock::VersionVector;
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_model::plain::PlainObject;
use quoit_model::props::Quorum;
use quoit_planted::planted;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time that a Riak node waits for an entry of an empty queue: eight checks at intervals of 4 ms.
const RIAKS_PATIENCE: Duration = Duration::from_millis(8 * 4);
/// Longest time that a consumer may wait for an entry.
const PATIENCE_MAX: Duration = Duration::from_secs(60);

/// Time that a consumer waits for an entry of an empty queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueWait {
    /// As long as in Riak: 32 ms.
    AsRiak,
    /// This long, at most one minute.
    UpTo(Duration),
}

impl QueueWait {
    const fn limit(self) -> Duration {
        match self {
            Self::AsRiak => RIAKS_PATIENCE,
            Self::UpTo(limit) if limit.as_secs() < PATIENCE_MAX.as_secs() => limit,
            Self::UpTo(_) => PATIENCE_MAX,
        }
    }
}

/// The part of an entry that the consumer stores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QueuedValue {
    /// An object in Quoit's stored form. It may be newer than the write that was queued.
    Object(Bytes),
    /// A tombstone in Quoit's stored form.
    Tombstone(Bytes),
    /// A change of a data type.
    Delta {
        /// Stored form of the delta.
        delta: Bytes,
        /// Time of the change, microseconds since 1970.
        last_modified_us: u64,
    },
    /// The reap of a tombstone.
    Reap {
        /// Clock of the tombstone.
        clock: VersionVector,
        /// Time of the reap, microseconds since 1970.
        reaped_us: u64,
    },
}

impl QueuedValue {
    /// The object or tombstone; `None` for a reap or a delta.
    ///
    /// # Errors
    ///
    /// If the stored form is damaged.
    pub fn object(&self) -> Result<Option<Object>, RequestError> {
        match self {
            Self::Object(stored) | Self::Tombstone(stored) => decode(stored).map(Some),
            Self::Reap { .. } | Self::Delta { .. } => Ok(None),
        }
    }

    /// Bytes of the stored form.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Object(stored) | Self::Tombstone(stored) => stored.len(),
            Self::Delta { delta, .. } => delta.len(),
            Self::Reap { .. } => 0,
        }
    }
}

/// An entry of a source queue with its object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueuedObject {
    /// Number of the entry, with which it is confirmed.
    pub sequence: EntrySequence,
    /// Its priority.
    pub priority: QueuePriority,
    /// Encoded name of the record ([`KeyRef::decode`]).
    pub key: Bytes,
    /// Value to store.
    pub value: QueuedValue,
    /// True if the object was read when the entry was taken; false if the queue held it.
    pub is_fetched: bool,
    /// Clusters that the object has visited before this one.
    pub visited: Visited,
    /// Time at which the entry was queued, microseconds since 1970.
    pub queued_us: u64,
    /// True if a consumer may have had the entry before.
    pub may_be_redelivery: bool,
}

impl Replication {
    /// The source queues of this node.
    #[must_use]
    pub const fn source_queues(&self) -> &Arc<SourceQueues> {
        &self.source_queues
    }

    /// Takes the next entry of a queue and confirms it at once; `None` if the queue stays empty or does not
    /// exist.
    ///
    /// # Errors
    ///
    /// If the object of the entry can't be read, or the queue is stale. The entry then returns to the
    /// queue.
    pub async fn next_queued(
        &self,
        queue: &str,
        patience: QueueWait,
    ) -> Result<Option<QueuedObject>, RequestError> {
        let lease = self.source_queues.lease();
        let bounds = BatchBounds { count_max: 1, bytes_max: 0, sink: None, takes_deltas: false };
        let batch = self.take_queued(queue, &lease, bounds, patience).await?;
        let taken: Vec<EntrySequence> = batch.iter().map(|queued| queued.sequence).collect();
        self.source_queues.confirm(queue, &lease, &taken);
        Ok(batch.into_iter().next())
    }

    /// Takes the next entries of a queue under a lease; none if the queue stays empty or does not
    /// exist. Entries whose record is gone, and entries that have visited the sink's cluster, are
    /// confirmed and left out.
    ///
    /// # Errors
    ///
    /// If the object of the first entry can't be read, or the queue is stale. Entries that are not
    /// returned go back to the queue when the lease is dropped.
    pub async fn take_queued(
        &self,
        queue: &str,
        lease: &Lease,
        bounds: BatchBounds,
        patience: QueueWait,
    ) -> Result<Vec<QueuedObject>, RequestError> {
        let until = Instant::now() + patience.limit();
        let Some(filled) = self.source_queues.subscribe(queue, bounds.sink) else {
            return Ok(Vec::new());
        };
        if self.source_queues.is_stale(queue) {
            return Err(RequestError::Vetoed(format!(
                "the queue {queue} is stale: it has waited for longer than repl.retention; use quoit repl \
                 rebase there"
            )));
        }
        let (mut batch, mut size_bytes) = (Vec::new(), 0);
        loop {
            let Some((priority, entry)) =
                self.source_queues.take(queue, Some(lease), self.local.clock.unix_us())
            else {
                if batch.is_empty() && timeout_at(until, filled.notified()).await.is_ok() {
                    continue;
                }
                break;
            };
            let sequence = entry.sequence;
            let has_visited = bounds.sink.is_some_and(|sink| entry.visited.contains(&sink));
            let queued = match has_visited {
                true => Ok(None),
                false => self.with_value(priority, entry, bounds.takes_deltas).await,
            };
            match queued {
                Ok(Some(queued)) => {
                    self.local.stats.count(match queued.is_fetched {
                        true => Counter::QueueFetchesRead,
                        false => Counter::QueueFetchesHeld,
                    });
                    size_bytes += queued.value.size_bytes();
                    batch.push(queued);
                }
                Ok(None) => self.source_queues.confirm(queue, lease, &[sequence]),
                Err(fault) if batch.is_empty() => return Err(fault),
                Err(_) => break,
            }
            if batch.len() >= bounds.count_max || size_bytes >= bounds.bytes_max {
                break;
            }
        }
        if batch.is_empty() {
            self.local.stats.count(Counter::QueueFetchesEmpty);
        }
        self.source_queues.count_sent(queue, size_bytes as u64);
        Ok(batch)
    }

    /// Adds the object to an entry; `None` if the record is gone.
    async fn with_value(
        &self,
        priority: QueuePriority,
        entry: QueueEntry,
        takes_deltas: bool,
    ) -> Result<Option<QueuedObject>, RequestError> {
        let QueueEntry { sequence, key, mut reference, visited, queued_us, may_be_redelivery } =
            entry;
        if matches!(reference, EntryReference::Delta { .. }) && !takes_deltas {
            reference = EntryReference::ToFetch;
        }
        let is_fetched = reference == EntryReference::ToFetch;
        let value = match reference {
            EntryReference::Object(stored) => Some(QueuedValue::Object(stored)),
            EntryReference::Tombstone(stored) => Some(QueuedValue::Tombstone(stored)),
            EntryReference::Reap { clock, reaped_us } => {
                Some(QueuedValue::Reap { clock, reaped_us })
            }
            EntryReference::Delta { delta, last_modified_us } => {
                Some(QueuedValue::Delta { delta, last_modified_us })
            }
            EntryReference::ToFetch => self.queued_value(&key).await?,
            // Entries of change feeds never are in source queues.
            EntryReference::Change { .. } => None,
        };
        // An object that is read now may include later writes from other clusters, which have not
        // visited the clusters that the queued write has. So it starts with no visited clusters.
        let visited = if is_fetched && !planted!(KeepsVisited) { Visited::new() } else { visited };
        let queued = |value| QueuedObject {
            sequence,
            priority,
            key,
            value,
            is_fetched,
            visited,
            queued_us,
            may_be_redelivery,
        };
        Ok(value.map(queued))
    }

    /// The object of a record in the form that is sent to other clusters: this node's copy; if it has
    /// none, what a quorum has; otherwise the tombstone that was reaped. `None` if there is nothing.
    pub(crate) async fn queued_value(
        &self,
        encoded: &Bytes,
    ) -> Result<Option<QueuedValue>, RequestError> {
        let key = KeyRef::decode(encoded)?;
        let at = {
            let state = self.local.control.read();
            let props = match object_props(&state, key.bucket) {
                Ok(props) => props,
                // The bucket type was removed, so clients can't read the record here either.
                Err(RequestError::NoSuchType(_)) => return Ok(None),
                Err(fault) => return Err(fault),
            };
            record_at(&state, props, key, encoded)
        };
        if let Ok(Copy::Found(_, Some(stored))) = self.coordinator.own_copy(&at).await {
            return value_of(stored).map(Some);
        }
        let options = ReadOptions {
            r: Some(self.source_queues.settings().vnode_check),
            pr: Some(Quorum::Count(1)),
            notfound_ok: Some(false),
            ..ReadOptions::default()
        };
        let _entered = self.coordinator.admit_get()?;
        if let Some(object) = self.coordinator.get_unresolved(key, &options).await? {
            let mut stored = Vec::new();
            object.encode_into(&mut stored);
            let stored = Bytes::from(stored);
            return Ok(Some(match object.is_tombstone() {
                true => QueuedValue::Tombstone(stored),
                false => QueuedValue::Object(stored),
            }));
        }
        let reaped = wait_if_blocked(self.local.settings.blocking, |access| {
            Ok(match self.replica.reaped_at(&at, access)? {
                Reaped::WouldBlock => None,
                Reaped::Nothing => Some(None),
                Reaped::Tombstone(tombstone) => Some(Some(tombstone)),
            })
        })?;
        Ok(reaped.map(|tombstone| {
            let mut stored = Vec::new();
            tombstone.encode_into(&mut stored);
            QueuedValue::Tombstone(stored.into())
        }))
    }
}

/// Limits on the entries that a consumer takes at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchBounds {
    /// Maximum number of entries.
    pub count_max: usize,
    /// Number of bytes of objects after which no further entry is taken.
    pub bytes_max: usize,
    /// Cluster that takes them. Entries that have visited it are left out.
    pub sink: Option<VisitedCluster>,
    /// True if the consumer accepts deltas of data types. Otherwise their objects are read.
    pub takes_deltas: bool,
}

fn value_of(stored: Bytes) -> Result<QueuedValue, RequestError> {
    // A plain object has a value, so it is no tombstone.
    let is_tombstone = PlainObject::read(&stored).is_none() && decode(&stored)?.is_tombstone();
    Ok(if is_tombstone { QueuedValue::Tombstone(stored) } else { QueuedValue::Object(stored) })
}
