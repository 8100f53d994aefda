//! State of the source queues, guarded by their lock.

use super::{ChangeQueueError, SourceQueueSettings};
use crate::machine_boot::MachineBoot;
use crate::queues::entry::{EntrySequence, QueueEntry, QueuePriority};
use crate::queues::filter::{QUEUE_COUNT_MAX, QueueDefinition, QueueFilter};
use crate::queues::journal::{Cursor, Journal, QueueNumber};
use crate::queues::loss::Losses;
use crate::queues::manifest::{Manifest, ManifestQueue};
use crate::queues::missed_deletes::MissedDeletes;
use crate::queues::missed_mark::MissedMark;
use crate::queues::queue::{Queue, QueueBounds, Staleness};
use quoit_planted::planted;
use quoit_store::error::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Notify;

/// Time in microseconds within which the manifest contains a missed delete, unless the disk refuses it.
const UNNOTED_US_MAX: u64 = 60_000_000;

/// State behind the lock.
pub(super) struct QueuesState {
    /// True if writes are queued.
    pub(super) is_enabled: bool,
    pub(super) bounds: QueueBounds,
    pub(super) queues: Vec<Queue>,
    /// Handles on which consumers of each queue wait.
    pub(super) filled: BTreeMap<QueueNumber, Arc<Notify>>,
    pub(super) by_command: BTreeSet<QueueNumber>,
    /// Configured queues that a command has removed.
    pub(super) removed: BTreeSet<String>,
    pub(super) journal: Option<Journal>,
    /// True if the last append failed. The fault is logged once.
    pub(super) has_failed: bool,
    pub(super) losses: Losses,
    pub(super) missed_mark: MissedMark,
    pub(super) next: EntrySequence,
    pub(super) next_number: u32,
    pub(super) next_lease: u64,
    pub(super) boot: MachineBoot,
    /// The manifest on the disk.
    pub(super) stored: Manifest,
}

impl QueuesState {
    pub(super) fn new(
        settings: &SourceQueueSettings,
        journal: Option<Journal>,
        found: Manifest,
        boot: MachineBoot,
    ) -> Self {
        let bounds = QueueBounds {
            object_count_max: settings.object_count_max,
            object_bytes_max: settings.object_bytes_max,
            entry_count_max: settings.entry_count_max,
            window_count_max: settings.window_count_max.max(1),
        };
        let mut state = Self {
            is_enabled: settings.is_enabled,
            bounds,
            queues: Vec::new(),
            filled: BTreeMap::new(),
            by_command: BTreeSet::new(),
            removed: found.removed.iter().cloned().collect(),
            journal,
            has_failed: false,
            losses: Losses::none(),
            missed_mark: MissedMark::Absent,
            next: EntrySequence(found.next.0.max(1)),
            next_number: found.queues.iter().map(|queue| queue.number.0 + 1).max().unwrap_or(1),
            next_lease: 0,
            boot,
            stored: found.clone(),
        };
        state.find_losses(settings, &found);
        for queue in &found.queues {
            let configured = settings.queues.iter().find(|other| other.name == queue.name);
            let filter = match configured {
                Some(configured) if !queue.by_command => configured.filter.clone(),
                None if !queue.by_command => continue,
                _ => queue.filter.clone(),
            };
            state.add_numbered(queue.number, &queue.name, filter);
            if let Some(added) = state.queues.last_mut() {
                added.is_suspended = queue.is_suspended;
                (added.staleness, added.sink) = (queue.staleness, queue.sink);
                added.missed = MissedDeletes::restored(queue.missed_us);
            }
            if queue.by_command {
                state.by_command.insert(queue.number);
            }
        }
        for QueueDefinition { name, filter } in settings.queues.iter().take(QUEUE_COUNT_MAX) {
            let is_there = state.queues.iter().any(|queue| queue.name == *name);
            if !is_there && !state.removed.contains(name) {
                state.add(name, filter.clone());
            }
        }
        state
    }

    fn find_losses(&mut self, settings: &SourceQueueSettings, found: &Manifest) {
        let is_new = *found == Manifest::default();
        if let Some(journal) = &self.journal {
            self.losses = Losses::found(&**journal.disk(), is_new);
        }
        if settings.is_enabled && is_new {
            // A node that finds no queues of an earlier process is new, or its disk is: queues that it
            // had before are gone.
            self.note_loss();
        }
    }

    /// Notes that an entry is lost, or will be if the process dies.
    pub(super) fn note_loss(&mut self) {
        let disk = self.journal.as_ref().map(|journal| &**journal.disk());
        self.losses.note(disk);
    }

    /// Restores missed deletes that an earlier process had no time to write to the manifest. They are
    /// assigned to all queues that may have missed one.
    pub(super) fn restore_missed(&mut self, full_sync_queue: Option<&str>) {
        let Some(journal) = &self.journal else { return };
        self.missed_mark = MissedMark::found(&**journal.disk());
        let MissedMark::Missed(since_us) = self.missed_mark else { return };
        for queue in &mut self.queues {
            let has_room = queue.has_room(QueuePriority::RealTime, true);
            if !has_room || full_sync_queue == Some(&queue.name) {
                // The time is part of a file's name, which may be any.
                queue.missed.note(since_us..=since_us.saturating_add(UNNOTED_US_MAX));
            }
        }
    }

    /// Notes that a queue has missed a delete.
    pub(super) fn miss(&mut self, now_us: u64) {
        if let Some(journal) = &self.journal {
            self.missed_mark.miss(&**journal.disk(), now_us);
        }
    }

    /// Updates the mark if the manifest on disk names every queue that has missed deletes.
    pub(super) fn note_missed(&mut self) {
        let is_stored = |queue: &Queue| {
            let mut stored = self.stored.queues.iter();
            queue.missed.span_us().is_none()
                || stored.any(|other| other.number == queue.number && other.missed_us.is_some())
        };
        if let Some(journal) = &self.journal
            && self.queues.iter().all(is_stored)
        {
            self.missed_mark.note(&**journal.disk());
        }
    }

    pub(super) fn add(&mut self, name: &str, filter: QueueFilter) -> QueueNumber {
        let number = QueueNumber(self.next_number);
        debug_assert!(
            self.queues.iter().all(|queue| queue.number != number && queue.name != name),
            "a queue has a number and a name of its own"
        );
        self.next_number += 1;
        self.add_numbered(number, name, filter);
        number
    }

    fn add_numbered(&mut self, number: QueueNumber, name: &str, filter: QueueFilter) {
        self.queues.push(Queue::new(number, name, filter, self.bounds));
        self.filled.insert(number, Arc::new(Notify::new()));
    }

    /// Checks, in debug builds, that all notes refer to queues that exist.
    pub(super) fn check(&self) {
        debug_assert!(
            self.queues.iter().all(|queue| self.filled.contains_key(&queue.number)),
            "consumers of each queue can wait for its entries"
        );
        let has = |number: &QueueNumber| self.queues.iter().any(|queue| queue.number == *number);
        debug_assert!(
            self.filled.keys().all(has) && self.by_command.iter().all(has),
            "nothing is left of a queue that was removed"
        );
    }

    pub(super) fn place(&self, name: &str) -> Result<usize, ChangeQueueError> {
        let place = self.queues.iter().position(|queue| queue.name == name);
        place.ok_or_else(|| ChangeQueueError::NoQueue(name.to_owned()))
    }

    pub(super) fn named(&mut self, name: &str) -> Result<&mut Queue, ChangeQueueError> {
        let queue = self.queues.iter_mut().find(|queue| queue.name == name);
        queue.ok_or_else(|| ChangeQueueError::NoQueue(name.to_owned()))
    }

    pub(super) fn is_active(&self) -> bool {
        let takes = |queue: &Queue| queue.filter != QueueFilter::BlockRealTime;
        self.is_enabled && self.queues.iter().any(takes)
    }

    pub(super) fn issue(&mut self) -> EntrySequence {
        let sequence = self.next;
        self.next = EntrySequence(sequence.0 + 1);
        sequence
    }

    /// Appends an entry to the journal. `None` if there is no journal, or the disk refuses.
    pub(super) fn append(&mut self, entry: &QueueEntry, numbers: &[QueueNumber]) -> Option<Cursor> {
        let journal = self.journal.as_mut()?;
        match journal.append(entry, numbers) {
            Ok(at) => {
                self.has_failed = false;
                Some(at)
            }
            Err(fault) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::error!(
                        %fault,
                        "source queues are kept in memory alone while their disk refuses: make room on it"
                    );
                }
                // The entry is only in memory: it is sent if the process lives long enough.
                self.note_loss();
                None
            }
        }
    }

    /// Restores the queues from the journal, which is read completely.
    pub(super) fn restore(&mut self) -> Result<(), StoreError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let needed: BTreeMap<QueueNumber, EntrySequence> =
            self.stored.queues.iter().map(|queue| (queue.number, queue.needed)).collect();
        // A power cut may have lost entries that were not synced.
        let is_new = self.stored == Manifest::default();
        let mut has_lost = !is_new && self.stored.boot != self.boot && !self.stored.is_stopped;
        // The newest file may have no entries yet; its head still bounds the sequence numbers given so
        // far.
        let newest = journal.newest_file().map_or(EntrySequence(0), |(_, first)| first);
        self.next = self.next.max(newest);
        let mut cursor = journal.start();
        loop {
            let read = journal.read(cursor)?;
            for read in &read.entries {
                let QueueEntry { sequence, queued_us, .. } = read.entry;
                self.next = self.next.max(EntrySequence(sequence.0 + 1));
                for queue in &mut self.queues {
                    let needed = needed.get(&queue.number).copied().unwrap_or_default();
                    if sequence >= needed && read.queues.contains(&queue.number) {
                        queue.restore(cursor, sequence, queued_us);
                    }
                }
            }
            has_lost |= read.has_lost && journal.tell_loss(cursor);
            cursor = read.next;
            if read.at_end {
                break;
            }
        }
        if has_lost {
            self.note_lost_entries();
        }
        Ok(())
    }

    /// Notes that entries which were in the journal are lost.
    pub(super) fn note_lost_entries(&mut self) {
        if !planted!(ForgetsLostEntries) {
            self.note_loss();
        }
    }

    pub(super) fn needed(&self) -> EntrySequence {
        let needed = self.queues.iter().map(|queue| queue.needed(self.next));
        needed.min().unwrap_or(self.next)
    }

    /// True if a queue is stale and would still be stale if the process died now.
    pub(super) fn keeps_stale(&self, queue: &Queue) -> bool {
        let is_stored = |stored: &ManifestQueue| {
            stored.number == queue.number && stored.staleness == Staleness::Stale
        };
        queue.staleness == Staleness::Stale
            && (self.journal.is_none() || self.stored.queues.iter().any(is_stored))
    }

    pub(super) fn manifest(&self) -> Manifest {
        let queue = |queue: &Queue| ManifestQueue {
            number: queue.number,
            needed: queue.needed(self.next),
            by_command: self.by_command.contains(&queue.number),
            is_suspended: queue.is_suspended,
            staleness: queue.staleness,
            sink: queue.sink,
            missed_us: queue.missed.span_us(),
            name: queue.name.clone(),
            filter: queue.filter.clone(),
        };
        Manifest {
            next: self.next,
            boot: self.boot,
            is_stopped: false,
            queues: self.queues.iter().map(queue).collect(),
            removed: self.removed.iter().cloned().collect(),
        }
    }
}
