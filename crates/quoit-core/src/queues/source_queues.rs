//! The source queues of a node, in memory and on the disk.

mod leases;
mod missed;
mod settings;
mod stale;
mod state;

use super::entry::{
    EntryReference, EntrySequence, QueueEntry, QueuePriority, Visited, VisitedCluster,
};
use super::filter::{QUEUE_COUNT_MAX, QueueDefinition, QueueDefinitionError, QueueFilter};
use super::journal::{Journal, QueueNumbers};
use super::manifest::Manifest;
use super::queue::{Queue, QueueCounts, QueueLengths};
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::key::BucketRef;
use quoit_planted::planted;
use quoit_seam::Disk;
use quoit_store::error::StoreError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;
use tokio::sync::Notify;

pub use leases::Lease;
pub use settings::SourceQueueSettings;
use state::QueuesState;

/// Why an operator's change of queues was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ChangeQueueError {
    /// Name or filter have a fault.
    #[error(transparent)]
    Definition(#[from] QueueDefinitionError),
    /// There are as many queues as there may be.
    #[error("the node has {QUEUE_COUNT_MAX} queues, the most that it may have; remove one first")]
    TooMany,
    /// No queue has the name.
    #[error("no queue has the name `{0}`")]
    NoQueue(String),
    /// The disk has refused.
    #[error("the change lasts until the node is restarted: keeping it failed: {0}")]
    Disk(String),
}

/// Figures of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueStatus {
    /// Its name.
    pub name: String,
    /// The writes that it takes.
    pub filter: QueueFilter,
    /// Whether new entries are discarded.
    pub is_suspended: bool,
    /// Entries that wait.
    pub lengths: QueueLengths,
    /// Entries that sinks have taken and not confirmed.
    pub unconfirmed_count: u64,
    /// When the oldest real-time entry was queued that is not confirmed, microseconds since 1970.
    pub oldest_us: Option<u64>,
    /// Since when full-sync has to bring deletes to its sinks, microseconds since 1970; `None` without any.
    pub missed_since_us: Option<u64>,
    /// Whether it has waited for longer than reap records did, so that what was deleted here could come back.
    /// Queues that are kept on a disk say so once it stands there, since nobody shall read of a stale queue
    /// that a restart makes fresh.
    pub is_stale: bool,
    /// Counts since the start.
    pub counts: QueueCounts,
}

/// The source queues of a node. Shared; every method takes `&self`.
pub struct SourceQueues {
    /// Whether any queue takes writes as they happen: all that a write costs while none does.
    is_active: AtomicBool,
    settings: SourceQueueSettings,
    state: Mutex<QueuesState>,
    /// Held while the manifest is written.
    storing: Mutex<()>,
}

impl SourceQueues {
    /// Queues that end with the process.
    #[must_use]
    pub fn in_memory(settings: SourceQueueSettings) -> Self {
        let state = QueuesState::new(&settings, None, Manifest::default(), 0);
        Self::of(settings, state)
    }

    /// Queues that are kept in a directory, with what a former process has left there. `boot` tells the boots
    /// of the machine apart.
    ///
    /// # Errors
    ///
    /// When the disk refuses, or has queues of a newer release.
    pub fn open(
        disk: Arc<dyn Disk>,
        settings: SourceQueueSettings,
        boot: u64,
    ) -> Result<Self, StoreError> {
        let (found, is_damaged) = Manifest::load(&*disk)?;
        let journal = Journal::open(disk)?;
        let mut state = QueuesState::new(&settings, Some(journal), found, boot);
        state.restore()?;
        state.restore_missed(settings.full_sync_queue.as_deref());
        if is_damaged {
            state.note_loss();
        }
        let opened = Self::of(settings, state);
        match opened.keep(false) {
            Err(fault @ StoreError::DiskFull { .. }) => {
                tracing::error!(%fault, "source queues are kept in memory alone until there is room");
                // Their former state says that what is queued from now on was never there.
                opened.state.lock().note_loss();
            }
            kept => kept?,
        }
        Ok(opened)
    }

    fn of(settings: SourceQueueSettings, state: QueuesState) -> Self {
        let is_active = AtomicBool::new(state.is_active());
        Self { is_active, settings, state: Mutex::new(state), storing: Mutex::new(()) }
    }

    /// Writes the manifest if it has changed. Writers that queue do not wait for the disk.
    fn keep(&self, is_stopped: bool) -> Result<(), StoreError> {
        let _storing = self.storing.lock();
        let (manifest, disk) = {
            let state = self.state.lock();
            let Some(journal) = &state.journal else { return Ok(()) };
            let manifest = Manifest { is_stopped, ..state.manifest() };
            (manifest, Arc::clone(journal.disk()))
        };
        if manifest != self.state.lock().stored {
            manifest.store(&*disk)?;
        }
        let mut state = self.state.lock();
        state.stored = manifest;
        state.note_missed();
        Ok(())
    }

    /// The settings that the queues began with.
    #[must_use]
    pub const fn settings(&self) -> &SourceQueueSettings {
        &self.settings
    }

    /// Whether any queue takes writes as they happen. One load.
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Whether an entry was lost that no queue has any more, since the last call: full-sync finds it. A loss
    /// is told of again after each start, until [`SourceQueues::settle_losses`].
    #[must_use]
    pub fn take_loss(&self) -> bool {
        self.state.lock().losses.take()
    }

    /// Notes that a full-sync of all records has found nothing that the other cluster lacks. Losses of which
    /// [`SourceQueues::take_loss`] told before it began are made up for; the next [`SourceQueues::flush`]
    /// keeps that.
    pub fn settle_losses(&self) {
        self.state.lock().losses.settle();
    }

    /// Queues a record in each queue that takes it, and returns how many of these were full. One write to the
    /// journal, without a sync.
    pub(crate) fn push(
        &self,
        bucket: BucketRef<'_>,
        key: Bytes,
        reference: EntryReference,
        visited: Visited,
        now_us: u64,
    ) -> u64 {
        let mut state = self.state.lock();
        let has_journal = state.journal.is_some();
        if !state.is_enabled {
            return 0;
        }
        let is_delete = matches!(reference, EntryReference::Tombstone(_));
        let (mut numbers, mut discards, mut is_missed) = (QueueNumbers::new(), 0, false);
        for queue in &mut state.queues {
            let is_taken = queue.filter.takes(bucket);
            if is_taken && queue.has_room(QueuePriority::RealTime, has_journal) {
                numbers.push(queue.number);
                continue;
            }
            discards += u64::from(is_taken);
            let is_missing = is_delete && (is_taken || self.is_of_full_sync(queue));
            if is_missing && !planted!(OverlooksMissedDeletes) {
                is_missed |= queue.missed.span_us().is_none();
                queue.missed.note(now_us, now_us);
            }
        }
        if is_missed {
            state.miss(now_us);
        }
        if numbers.is_empty() {
            return discards;
        }
        let sequence = state.issue();
        let (queued_us, is_again) = (now_us, false);
        let entry = QueueEntry { sequence, key, reference, visited, queued_us, is_again };
        let at = state.append(&entry, &numbers);
        for queue in &mut state.queues {
            if numbers.contains(&queue.number) {
                queue.push(&entry, at);
            }
        }
        let waiting = numbers.iter().filter_map(|number| state.filled.get(number));
        waiting.for_each(|filled| filled.notify_one());
        discards
    }

    /// Queues references in one queue, whatever its filter says: encoded names of records. `None` where no
    /// queue has the name, else its lengths afterwards. References beyond the bound of the queue are
    /// discarded and counted.
    pub fn push_references(
        &self,
        name: &str,
        priority: QueuePriority,
        keys: impl IntoIterator<Item = Bytes>,
        now_us: u64,
    ) -> Option<QueueLengths> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let place = state.queues.iter().position(|queue| queue.name == name)?;
        for key in keys {
            if !state.queues[place].has_room(priority, state.journal.is_some()) {
                continue;
            }
            let sequence = state.issue();
            let (reference, visited) = (EntryReference::ToFetch, Visited::new());
            let (queued_us, is_again) = (now_us, false);
            let entry = QueueEntry { sequence, key, reference, visited, queued_us, is_again };
            match priority {
                QueuePriority::RealTime => {
                    let numbers = [state.queues[place].number];
                    let at = state.append(&entry, &numbers);
                    state.queues[place].push(&entry, at);
                }
                _ => state.queues[place].push_reference(priority, entry),
            }
        }
        let number = state.queues[place].number;
        state.filled.get(&number).inspect(|filled| filled.notify_one());
        Some(state.queues[place].lengths())
    }

    /// Lengths of a queue; `None` where no queue has the name.
    #[must_use]
    pub fn lengths(&self, name: &str) -> Option<QueueLengths> {
        let state = self.state.lock();
        state.queues.iter().find(|queue| queue.name == name).map(Queue::lengths)
    }

    /// Figures of all queues, by name.
    #[must_use]
    pub fn status(&self) -> Vec<QueueStatus> {
        let state = self.state.lock();
        let status = |queue| status_of(queue, state.keeps_stale(queue));
        let mut all: Vec<QueueStatus> = state.queues.iter().map(status).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Bytes that the queues have on the disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.state.lock().journal.as_ref().map_or(0, Journal::size_bytes)
    }

    /// Whether writes are queued.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.state.lock().is_enabled
    }

    /// Adds a queue, or gives one that there is another filter. Whether it is new.
    ///
    /// # Errors
    ///
    /// Bad names, too many queues, and a disk that does not keep the change, which is made nevertheless.
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

    /// Removes a queue and all that waits in it.
    ///
    /// # Errors
    ///
    /// Unknown names, and a disk that does not keep the change, which is made nevertheless.
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

    /// Has new entries of a queue discarded, or no longer. Consumption goes on.
    ///
    /// # Errors
    ///
    /// As [`SourceQueues::delist`].
    pub fn suspend(&self, name: &str, is_suspended: bool) -> Result<(), ChangeQueueError> {
        self.change(|state| {
            let place = state.place(name)?;
            state.queues[place].is_suspended = is_suspended;
            Ok(())
        })
    }

    /// Forgets all that waits in a queue: full-sync has to find it. Returns the entries that waited.
    ///
    /// # Errors
    ///
    /// As [`SourceQueues::delist`].
    pub fn clear(&self, name: &str, now_us: u64) -> Result<QueueLengths, ChangeQueueError> {
        self.change(|state| {
            let place = state.place(name)?;
            let lengths = state.queues[place].lengths();
            state.queues[place].clear(now_us);
            Ok(lengths)
        })
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut QueuesState) -> Result<T, ChangeQueueError>,
    ) -> Result<T, ChangeQueueError> {
        let changed = {
            let mut state = self.state.lock();
            let changed = change(&mut state)?;
            self.is_active.store(state.is_active(), Ordering::Relaxed);
            changed
        };
        self.keep(false).map_err(|fault| ChangeQueueError::Disk(fault.to_string()))?;
        Ok(changed)
    }

    /// Told when a queue gets an entry; `None` where no queue has the name. Takes note of the consumer's
    /// cluster.
    pub(crate) fn attend(&self, name: &str, sink: Option<VisitedCluster>) -> Option<Arc<Notify>> {
        let mut state = self.state.lock();
        let queue = state.queues.iter_mut().find(|queue| queue.name == name)?;
        queue.sink = sink;
        let number = queue.number;
        state.filled.get(&number).cloned()
    }

    /// The lowest sequence number that any queue still needs, and the next one to be given. An entry below
    /// the former is on the other clusters' disks as far as they confirm.
    #[must_use]
    pub fn progress(&self) -> (EntrySequence, EntrySequence) {
        let state = self.state.lock();
        (state.needed(), state.next)
    }

    /// Syncs the journal, notes how far queues have come, and removes files that none needs. Blocks.
    ///
    /// # Errors
    ///
    /// When the disk refuses; the next call makes up for it.
    pub fn flush(&self) -> Result<(), StoreError> {
        let files = {
            let mut state = self.state.lock();
            let is_unsynced = std::mem::take(&mut state.is_unsynced);
            let files = state.journal.as_mut().filter(|_| is_unsynced).map(Journal::take_unsynced);
            files.unwrap_or_default()
        };
        if let Some(fault) = files.iter().find_map(|file| file.sync().err()) {
            let mut state = self.state.lock();
            // Entries of those files may be lost with the machine.
            state.is_unsynced = true;
            state.note_loss();
            return Err(fault.into());
        }
        // Before the manifest, which may have no room until some files are gone.
        let changed = self.retire()?;
        self.keep(false)?;
        if let Some(disk) = changed {
            disk.sync_directory()?;
        }
        Ok(())
    }

    /// Removes files that no queue needs, and has the disk say whether losses are outstanding. The disk, if
    /// its directory has to be synced.
    fn retire(&self) -> Result<Option<Arc<dyn Disk>>, StoreError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let needed = state.needed();
        let Some(journal) = &mut state.journal else { return Ok(None) };
        let retired = journal.retire(needed)?;
        let is_marked = state.losses.mark(&**journal.disk());
        let has_changed = journal.take_new_files() || retired > 0 || is_marked;
        Ok(has_changed.then(|| Arc::clone(journal.disk())))
    }

    /// Notes that the process stops in good order: nothing is queued afterwards.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn close(&self) -> Result<(), StoreError> {
        self.state.lock().is_enabled = false;
        self.flush()?;
        self.keep(true)
    }
}

fn status_of(queue: &Queue, is_stale: bool) -> QueueStatus {
    QueueStatus {
        name: queue.name.clone(),
        filter: queue.filter.clone(),
        is_suspended: queue.is_suspended,
        is_stale,
        missed_since_us: queue.missed.since_us(),
        lengths: queue.lengths(),
        unconfirmed_count: queue.leased_count() as u64,
        oldest_us: queue.oldest_us(),
        counts: queue.counts,
    }
}
