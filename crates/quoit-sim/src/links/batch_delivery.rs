//! A batch of entries that is carried from a source node's queue to nodes of the sink cluster.

use crate::machine::{Machine, RequestOutcome};
use crate::random::Random;
use quoit_core::{
    Arrival, ArrivedDelta, BatchBounds, DeltaOutcome, QueueWait, QueuedObject, QueuedValue,
    ReplicatedStore, RequestError, VisitedCluster,
};
use quoit_model::object::Object;
use quoit_model::props::Quorum;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum number of entries of a batch.
const BATCH_COUNT_MAX: usize = 8;
/// Number of bytes of objects after which a batch gets no further entry.
const BATCH_BYTES_MAX: usize = 64 << 10;
/// Time for which a source with an empty queue waits for an entry.
const POLL: Duration = Duration::from_millis(50);
/// Maximum time for storing an entry at a node of the sink cluster.
const STORING_LIMIT: Duration = Duration::from_secs(5);
/// Percentage of messages that are lost while there are faults.
const LOST_PERCENT: u64 = 15;
/// Percentage of entries that are delivered twice while there are faults.
const REPEATED_PERCENT: u64 = 10;

/// Delivery of one batch.
pub(super) struct BatchDelivery {
    pub(super) queue: String,
    pub(super) sinks: Vec<Arc<Machine>>,
    pub(super) random: Random,
    pub(super) loses_messages: bool,
    /// Reason why a node of the sink refused the last refused entry.
    pub(super) refused: Option<String>,
}

impl BatchDelivery {
    /// Takes a batch from a source node, lets the sink store it, and confirms what was stored. Returns a
    /// line for the story; `None` if there was no batch.
    pub(super) async fn run(mut self, store: Arc<ReplicatedStore>) -> Option<String> {
        let sink = self.sinks.iter().find_map(|machine| machine.store())?.replication().cluster();
        let lease = store.source_queues().lease();
        let bounds = BatchBounds {
            count_max: BATCH_COUNT_MAX,
            bytes_max: BATCH_BYTES_MAX,
            sink: Some(sink),
            takes_deltas: true,
        };
        let taken = store
            .replication()
            .take_queued(&self.queue, &lease, bounds, QueueWait::UpTo(POLL))
            .await;
        let mut batch = taken.ok().filter(|batch| !batch.is_empty())?;
        if self.is_lost() {
            return Some(format!("{} entries are lost", batch.len()));
        }
        let count = batch.len();
        let keys: Vec<String> = batch.iter().map(told_entry).collect();
        let keys = keys.join(", ");
        let (mut stored, mut wanted_whole) = (Vec::new(), Vec::new());
        while !batch.is_empty() {
            let drawn = &batch[self.random.index_below(batch.len())].key;
            // Entries of the same record are stored in order, because deltas build on one another.
            let place = batch.iter().position(|queued| queued.key == *drawn).unwrap_or(0);
            let queued = batch.remove(place);
            let sequence = queued.sequence;
            match self.deliver(queued, store.replication().cluster()).await {
                Some(DeltaOutcome::Joined) => stored.push(sequence),
                Some(DeltaOutcome::LacksEarlier) => wanted_whole.push(sequence),
                None => {}
            }
        }
        if self.is_lost() {
            return Some(format!("{} of {count} stored, and not confirmed: {keys}", stored.len()));
        }
        store.source_queues().confirm(&self.queue, &lease, &stored);
        store.source_queues().request_whole(&self.queue, &lease, &wanted_whole);
        let refused = self.refused.map_or(String::new(), |reason| format!(": {reason}"));
        Some(format!("{} of {count} stored: {keys}{refused}", stored.len()))
    }

    fn is_lost(&mut self) -> bool {
        self.loses_messages && self.random.percent(LOST_PERCENT)
    }

    /// Lets nodes of the sink store an entry. Returns the outcome, or `None` if no node has stored it.
    async fn deliver(
        &mut self,
        queued: QueuedObject,
        source: VisitedCluster,
    ) -> Option<DeltaOutcome> {
        if self.is_lost() {
            return None;
        }
        let is_repeated = self.loses_messages && self.random.percent(REPEATED_PERCENT);
        let mut outcome = None;
        for _ in 0..1 + usize::from(is_repeated) {
            let sink = Arc::clone(self.random.pick(&self.sinks));
            let carried = queued.clone();
            let asked = sink.ask(move |store| store_one(store, carried, source));
            match timeout(STORING_LIMIT, asked).await {
                Ok(RequestOutcome::Answer(Ok(now))) => outcome = Some(now),
                Ok(RequestOutcome::Answer(Err(reason))) => {
                    let key = queued.key.escape_ascii();
                    self.refused = Some(format!("{key} at {}: {reason}", sink.name));
                }
                _ => {}
            }
        }
        outcome
    }
}

/// Describes an entry for the story.
fn told_entry(queued: &QueuedObject) -> String {
    let kind = match &queued.value {
        QueuedValue::Object(_) => "",
        QueuedValue::Tombstone(_) => "tombstone of ",
        QueuedValue::Delta { .. } => "delta of ",
        QueuedValue::Reap { .. } => "reap of ",
    };
    format!("{kind}{}", queued.key.escape_ascii())
}

/// Stores an entry at a node of the sink, as a sink's connection does.
async fn store_one(
    store: Arc<ReplicatedStore>,
    queued: QueuedObject,
    source: VisitedCluster,
) -> Result<DeltaOutcome, RequestError> {
    let mut visited = queued.visited.clone();
    if !visited.contains(&source) {
        visited.push(source);
    }
    let arrival = Arrival {
        visited: Some(visited),
        may_be_redelivery: queued.may_be_redelivery,
        dw: Quorum::Quorum,
    };
    match &queued.value {
        QueuedValue::Reap { clock, .. } => {
            store.replication().reap_arrived(&queued.key, clock).await?
        }
        QueuedValue::Object(stored) | QueuedValue::Tombstone(stored) => {
            let object =
                Object::decode(stored).map_err(|fault| RequestError::Remote(fault.to_string()))?;
            store.replication().store_arrived(&queued.key, &object, &arrival).await?;
        }
        QueuedValue::Delta { delta, last_modified_us } => {
            let (delta, last_modified_us) = (delta.clone(), *last_modified_us);
            let arrived = ArrivedDelta { delta, last_modified_us };
            return store.replication().join_arrived(&queued.key, &arrived, &arrival).await;
        }
    }
    Ok(DeltaOutcome::Joined)
}
