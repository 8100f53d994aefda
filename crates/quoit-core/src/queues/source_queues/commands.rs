//! Commands of operators that add, change and remove queues.

use super::SourceQueues;
use super::state::QueuesState;
use crate::queues::filter::{QUEUE_COUNT_MAX, QueueDefinition, QueueDefinitionError, QueueFilter};
use crate::queues::queue::QueueLengths;
use std::sync::atomic::Ordering;
use thiserror::Error;

/// Reason why an operator's change of queues was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ChangeQueueError {
    /// The name or the filter is invalid.
    #[error(transparent)]
    Definition(#[from] QueueDefinitionError),
    /// The node has the maximum number of queues.
    #[error("the node has the maximum of {QUEUE_COUNT_MAX} queues; remove one first")]
    TooMany,
    /// No queue has the name.
    #[error("no queue has the name `{0}`")]
    NoQueue(String),
    /// The change was made, but could not be stored.
    #[error("the change lasts until the node is restarted: keeping it failed: {0}")]
    Disk(String),
}

impl SourceQueues {
    /// Adds a queue, or replaces the filter of an existing one. True if it was added.
    ///
    /// # Errors
    ///
    /// Invalid names, too many queues, and disk faults; after a disk fault the change is made, but not
    /// stored.
    pub fn register(&self, name: &str, filter: QueueFilter) -> Result<bool, ChangeQueueError> {
        QueueDefinition::check_name(name)?;
        self.change(|state| {
            state.removed.remove(name);
            if let Some(queue) = state.queues.iter_mut().find(|queue| queue.name == name) {
                queue.filter = filter;
                state.by_command.insert(queue.number);
                return Ok(false);
            }
            if state.queues.len() >= QUEUE_COUNT_MAX {
                return Err(ChangeQueueError::TooMany);
            }
            let number = state.add(name, filter);
            state.by_command.insert(number);
            Ok(true)
        })
    }

    /// Removes a queue with all its entries.
    ///
    /// # Errors
    ///
    /// Unknown names, and disk faults; after a disk fault the change is made, but not stored.
    pub fn delist(&self, name: &str) -> Result<(), ChangeQueueError> {
        self.change(|state| {
            let place = state.place(name)?;
            let queue = state.queues.remove(place);
            state.by_command.remove(&queue.number);
            state.filled.remove(&queue.number).inspect(|filled| filled.notify_waiters());
            state.removed.insert(name.to_owned());
            Ok(())
        })
    }

    /// Makes a queue discard new entries, or accept them again. Sinks consume waiting entries in either
    /// case.
    ///
    /// # Errors
    ///
    /// As [`SourceQueues::delist`].
    pub fn suspend(&self, name: &str, is_suspended: bool) -> Result<(), ChangeQueueError> {
        self.change(|state| {
            state.named(name)?.is_suspended = is_suspended;
            Ok(())
        })
    }

    /// Drops all entries of a queue, so that full-sync has to find them. Returns the lengths before.
    ///
    /// # Errors
    ///
    /// As [`SourceQueues::delist`].
    pub fn clear(&self, name: &str, now_us: u64) -> Result<QueueLengths, ChangeQueueError> {
        self.change(|state| {
            let queue = state.named(name)?;
            let lengths = queue.lengths();
            queue.clear(now_us);
            Ok(lengths)
        })
    }

    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut QueuesState) -> Result<T, ChangeQueueError>,
    ) -> Result<T, ChangeQueueError> {
        let changed = {
            let mut state = self.state.lock();
            let changed = change(&mut state)?;
            state.check();
            self.is_active.store(state.is_active(), Ordering::Relaxed);
            changed
        };
        self.keep(false).map_err(|fault| ChangeQueueError::Disk(fault.to_string()))?;
        Ok(changed)
    }
}
