//! The source queues of a node, in memory and on disk.

mod commands;
mod leases;
mod missed_deletes;
mod settings;
mod stale;
mod state;

use super::entry::{
    EntryReference, EntrySequence, QueueEntry, QueuePriority, Visited, VisitedCluster,
};
use super::filter::QueueFilter;
use super::journal::{Journal, QueueNumbers};
use super::manifest::Manifest;
use super::queue::{Queue, QueueCounts, QueueLengths};
use crate::machine_boot::MachineBoot;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::key::BucketRef;
use quoit_planted::planted;
use quoit_seam::Disk;
use quoit_store::error::StoreError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

pub use commands::ChangeQueueError;
pub use leases::Lease;
pub use settings::SourceQueueSettings;
use state::QueuesState;

/// State and figures of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueStatus {
    /// Its name.
    pub name: String,
    /// Writes that it takes.
    pub filter: QueueFilter,
    /// True if new entries are discarded.
    pub is_suspended: bool,
    /// Numbers of waiting entries.
    pub lengths: QueueLengths,
    /// Number of entries that sinks have taken and not confirmed.
    pub unconfirmed_count: u64,
    /// Time at which the oldest unconfirmed real-time entry was queued, microseconds since 1970.
    pub oldest_us: Option<u64>,
    /// Time of the oldest delete that only full-sync can bring to its sinks, microseconds since 1970;
    /// `None` if there is none.
    pub missed_since_us: Option<u64>,
    /// True if the queue was behind for longer than reap records are kept, so that deleted records
    /// could come back. If the queues are on disk, this is true only once the manifest says so: a
    /// reported stale queue must still be stale after a restart.
    pub is_stale: bool,
    /// Counts since the start of the process.
    pub counts: QueueCounts,
}

/// The source queues of a node. Shared; every method takes `&self`.
pub struct SourceQueues {
    /// True if any queue takes writes. A write costs one load of this flag while no queue does.
    is_active: AtomicBool,
    settings: SourceQueueSettings,
    state: Mutex<QueuesState>,
    /// Held while the manifest is written.
    storing: Mutex<()>,
}

impl SourceQueues {
    /// Creates queues that end with the process.
    #[must_use]
    pub fn in_memory(settings: SourceQueueSettings) -> Self {
        let state = QueuesState::new(&settings, None, Manifest::default(), MachineBoot(0));
        Self::of(settings, state)
    }

    /// Opens queues that are kept in a directory, with the entries that an earlier process left there.
    /// Unsynced entries may be lost if the machine has booted since.
    ///
    /// # Errors
    ///
    /// Disk faults, and queues of a newer release. A full disk is no error: the queues then stay in
    /// memory.
    pub fn open(
        disk: Arc<dyn Disk>,
        settings: SourceQueueSettings,
        boot: MachineBoot,
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
                // If the process dies now, the next one finds the old manifest and does not learn of
                // entries queued since.
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

    /// Writes the manifest if it has changed. Requests that queue do not wait for it.
    fn keep(&self, is_stopped: bool) -> Result<(), StoreError> {
        let _storing = self.storing.lock();
        let (manifest, disk) = {
            let state = self.state.lock();
            let Some(journal) = &state.journal else { return Ok(()) };
            let manifest = Manifest { is_stopped, ..state.manifest() };
            debug_assert!(manifest.next >= state.stored.next, "numbers are never given again");
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

    /// Settings with which the queues were created.
    #[must_use]
    pub const fn settings(&self) -> &SourceQueueSettings {
        &self.settings
    }

    /// True if any queue takes writes. Costs one load.
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// True if an entry was lost since the last call, so that a full-sync is needed. A loss is reported
    /// again after each start, until [`SourceQueues::settle_losses`].
    #[must_use]
    pub fn take_loss(&self) -> bool {
        self.state.lock().losses.take()
    }

    /// True if a loss is outstanding: no full-sync has looked for all entries that were lost.
    #[must_use]
    pub fn has_loss(&self) -> bool {
        self.state.lock().losses.is_outstanding()
    }

    /// Notes that a full-sync of all records has found nothing that the other cluster lacks. Losses
    /// that [`SourceQueues::take_loss`] had reported before the full-sync began are settled. The next
    /// [`SourceQueues::flush`] stores that.
    pub fn settle_losses(&self) {
        self.state.lock().losses.settle();
    }

    /// Queues a record in each queue whose filter takes it. Returns the number of these queues that
    /// discarded it, because they are full or suspended. Costs one write to the journal, without a
    /// sync.
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
                queue.missed.note(now_us..=now_us);
            }
        }
        if is_missed {
            state.miss(now_us);
        }
        if numbers.is_empty() {
            return discards;
        }
        let sequence = state.issue();
        let (queued_us, may_be_redelivery) = (now_us, false);
        let entry = QueueEntry { sequence, key, reference, visited, queued_us, may_be_redelivery };
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

    /// Queues references to records, given by encoded names, in one queue, whatever its filter says.
    /// Returns the queue's lengths afterwards; `None` if no queue has the name. References that exceed
    /// the queue's limit are discarded and counted.
    #[expect(clippy::indexing_slicing, reason = "`place` is that of the queue with the name")]
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
            let (queued_us, may_be_redelivery) = (now_us, false);
            let entry =
                QueueEntry { sequence, key, reference, visited, queued_us, may_be_redelivery };
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

    /// Lengths of a queue; `None` if no queue has the name.
    #[must_use]
    pub fn lengths(&self, name: &str) -> Option<QueueLengths> {
        let state = self.state.lock();
        state.queues.iter().find(|queue| queue.name == name).map(Queue::lengths)
    }

    /// Figures of all queues, sorted by name.
    #[must_use]
    pub fn status(&self) -> Vec<QueueStatus> {
        let state = self.state.lock();
        let status = |queue| status_of(queue, state.keeps_stale(queue));
        let mut all: Vec<QueueStatus> = state.queues.iter().map(status).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Bytes of the journal on disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.state.lock().journal.as_ref().map_or(0, Journal::size_bytes)
    }

    /// True if writes are queued.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.state.lock().is_enabled
    }

    /// Notes the consumer's cluster, and returns a handle that is notified when the queue gets an
    /// entry; `None` if no queue has the name.
    pub(crate) fn subscribe(
        &self,
        name: &str,
        sink: Option<VisitedCluster>,
    ) -> Option<Arc<Notify>> {
        let mut state = self.state.lock();
        let queue = state.queues.iter_mut().find(|queue| queue.name == name)?;
        queue.sink = sink;
        let number = queue.number;
        state.filled.get(&number).cloned()
    }

    /// Lowest sequence number that a queue still needs, and the next one to be given. Sinks that
    /// confirm have entries below the former on their disks.
    #[must_use]
    pub fn progress(&self) -> (EntrySequence, EntrySequence) {
        let state = self.state.lock();
        (state.needed(), state.next)
    }

    /// Syncs the journal, stores the progress of the queues, and removes files that no queue needs.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// Disk faults. If a sync fails, a loss is noted.
    pub fn flush(&self) -> Result<(), StoreError> {
        let files = self.state.lock().journal.as_ref().map(Journal::unsynced).unwrap_or_default();
        if let Some(fault) = files.iter().find_map(|file| file.sync().err()) {
            // A power cut may lose entries of these files.
            self.state.lock().note_loss();
            return Err(fault);
        }
        if let Some(journal) = &mut self.state.lock().journal {
            journal.note_synced(&files);
        }
        // Files are removed before the manifest is written: a full disk may have no space for it until then.
        let changed = self.retire()?;
        self.keep(false)?;
        if let Some(disk) = changed {
            disk.sync_directory()?;
        }
        Ok(())
    }

    /// Removes files that no queue needs, and marks on disk that no loss is outstanding. Returns the
    /// disk if its directory has to be synced.
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

    /// Records on disk that the process stopped cleanly. No entry is queued afterwards.
    ///
    /// # Errors
    ///
    /// Disk faults.
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
