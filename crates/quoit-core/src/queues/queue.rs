//! One source queue: entries that wait for the sinks that consume it.
//!
//! The queue keeps its oldest real-time entries in memory (the *window*). Later ones are only in the
//! journal and are read when the window is empty. Entries of lower priority are references in memory
//! alone; if they are lost, full-sync or the fold finds the records again.

use super::entry::{EntryReference, EntrySequence, QueueEntry, QueuePriority, VisitedCluster};
use super::filter::QueueFilter;
use super::journal::{Cursor, Journal, JournalEntry, QueueNumber};
use super::missed_deletes::MissedDeletes;
use quoit_planted::planted;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of entries of a priority if the entries are in memory alone.
pub(super) const MEMORY_COUNT_MAX: u64 = 1_000_000;

/// Number of entries in memory up to which they are checked after each change, in debug builds.
const CHECKED_COUNT_MAX: usize = 64;

/// Limits of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueueBounds {
    /// Maximum number of real-time entries with their objects in memory.
    pub(crate) object_count_max: usize,
    /// Maximum bytes of the stored form of such an object.
    pub(crate) object_bytes_max: usize,
    /// Maximum number of entries of each priority.
    pub(crate) entry_count_max: u64,
    /// Maximum number of real-time entries in memory if there is a journal.
    pub(crate) window_count_max: usize,
}

/// Numbers of waiting entries by priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueLengths {
    /// Records that a fold has found.
    pub fold: u64,
    /// Repairs of full-sync, and references that were pushed.
    pub full_sync: u64,
    /// Writes at the time they happen.
    pub real_time: u64,
}

/// Number of a lease. Its holder has taken entries and has not confirmed them yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LeaseNumber(pub(crate) u64);

/// An entry that a consumer has taken.
struct Leased {
    lease: LeaseNumber,
    priority: QueuePriority,
    entry: QueueEntry,
    /// Time at which it was taken, microseconds since 1970.
    since_us: u64,
}

/// Real-time entries after the window, which are only in the journal.
struct JournalTail {
    cursor: Cursor,
    /// Lower bound of their sequence numbers.
    first: EntrySequence,
    count: u64,
    /// Lower bound of their times of queueing, microseconds since 1970.
    since_us: u64,
    /// True if the last read failed. The fault is logged once.
    has_failed: bool,
}

impl JournalTail {
    /// Entries from the one at `cursor` on.
    const fn from(cursor: Cursor, first: EntrySequence, since_us: u64) -> Self {
        Self { cursor, first, count: 1, since_us, has_failed: false }
    }
}

/// Counts since the start of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueCounts {
    /// Queued entries.
    pub queued: u64,
    /// Entries that were discarded because the queue was full or suspended.
    pub discarded: u64,
    /// Entries that were confirmed, or taken without a lease.
    pub consumed: u64,
    /// Bytes of objects that were sent.
    pub consumed_bytes: u64,
}

/// State of a queue with respect to the retention of reap records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Staleness {
    /// It has always been behind for less than the retention.
    #[default]
    Fresh,
    /// It was behind for longer than the retention: records that were deleted here may be live in the
    /// sink's cluster.
    Stale,
    /// It was stale, and an operator has dealt with that.
    Accepted,
}

pub(crate) struct Queue {
    pub(crate) number: QueueNumber,
    pub(crate) name: String,
    pub(crate) filter: QueueFilter,
    /// True if new entries are discarded.
    pub(crate) is_suspended: bool,
    pub(crate) staleness: Staleness,
    /// Cluster that consumed the queue last; `None` if no Quoit cluster has.
    pub(crate) sink: Option<VisitedCluster>,
    pub(crate) missed: MissedDeletes,
    bounds: QueueBounds,
    /// The oldest real-time entries, in order of sequence numbers.
    window: VecDeque<QueueEntry>,
    /// Number of entries in the window that have their object.
    held_count: usize,
    behind: Option<JournalTail>,
    /// Entries with lower numbers were queued by an earlier process, which may have sent them.
    restored_below: EntrySequence,
    /// Entries of the lower priorities, oldest first.
    references: [VecDeque<QueueEntry>; 2],
    leased: BTreeMap<EntrySequence, Leased>,
    pub(crate) counts: QueueCounts,
}

impl Queue {
    pub(crate) fn new(
        number: QueueNumber,
        name: &str,
        filter: QueueFilter,
        bounds: QueueBounds,
    ) -> Self {
        Self {
            number,
            name: name.to_owned(),
            filter,
            is_suspended: false,
            staleness: Staleness::Fresh,
            sink: None,
            missed: MissedDeletes::default(),
            bounds,
            window: VecDeque::new(),
            held_count: 0,
            behind: None,
            restored_below: EntrySequence::default(),
            references: Default::default(),
            leased: BTreeMap::new(),
            counts: QueueCounts::default(),
        }
    }

    pub(crate) fn lengths(&self) -> QueueLengths {
        let [fold, full_sync] = self.references.each_ref().map(|queue| queue.len() as u64);
        let behind = self.behind.as_ref().map_or(0, |behind| behind.count);
        QueueLengths { fold, full_sync, real_time: self.window.len() as u64 + behind }
    }

    /// Number of entries that consumers have taken and not confirmed.
    pub(crate) fn leased_count(&self) -> usize {
        self.leased.len()
    }

    /// Time at which the oldest unconfirmed real-time entry was queued, microseconds since 1970; `None`
    /// if there is none.
    pub(crate) fn oldest_us(&self) -> Option<u64> {
        let waiting = self.window.front().map(|entry| entry.queued_us);
        let behind = self.behind.as_ref().map(|behind| behind.since_us);
        let is_real_time = |leased: &&Leased| leased.priority == QueuePriority::RealTime;
        let leased = self.leased.values().filter(is_real_time).map(|leased| leased.entry.queued_us);
        leased.chain(waiting).chain(behind).min()
    }

    /// Time of the oldest delete that the sinks may not know of, microseconds since 1970; `None` if
    /// there is none.
    pub(crate) fn behind_since_us(&self) -> Option<u64> {
        self.oldest_us().into_iter().chain(self.missed.since_us()).min()
    }

    /// True if an entry of a priority may be queued. Otherwise counts it as discarded: the queue is
    /// full or suspended.
    pub(crate) fn has_room(&mut self, priority: QueuePriority, has_journal: bool) -> bool {
        let lengths = self.lengths();
        let (count, in_memory) = match priority {
            QueuePriority::RealTime => (lengths.real_time, !has_journal),
            QueuePriority::FullSync => (lengths.full_sync, true),
            QueuePriority::Fold => (lengths.fold, true),
        };
        let most = self.bounds.entry_count_max;
        let most = if in_memory { most.min(MEMORY_COUNT_MAX) } else { most };
        let has_room = !self.is_suspended && count < most;
        if !has_room {
            self.counts.discarded += 1;
        }
        has_room
    }

    /// Queues a real-time entry. `at` is its position in the journal; `None` if it is only in memory.
    pub(crate) fn push(&mut self, entry: &QueueEntry, at: Option<Cursor>) {
        self.counts.queued += 1;
        match (&mut self.behind, at) {
            (Some(behind), Some(_)) => behind.count += 1,
            (None, Some(cursor)) if self.window.len() >= self.bounds.window_count_max => {
                self.behind = Some(JournalTail::from(cursor, entry.sequence, entry.queued_us));
            }
            _ => {
                let is_small = entry.held_bytes() <= self.bounds.object_bytes_max;
                let is_held = is_small && self.held_count < self.bounds.object_count_max;
                let entry = if is_held { entry.clone() } else { entry.clone().reduced() };
                self.held_count += usize::from(holds_object(&entry));
                self.window.push_back(entry);
            }
        }
        self.check();
    }

    /// Checks, in debug builds and while few entries wait, that objects in memory are counted, which bounds
    /// them.
    fn check(&self) {
        let held_count = || self.window.iter().filter(|entry| holds_object(entry)).count();
        debug_assert!(
            self.window.len() > CHECKED_COUNT_MAX || self.held_count == held_count(),
            "each waiting entry with its object is counted"
        );
    }

    /// Queues an entry of a lower priority.
    pub(crate) fn push_reference(&mut self, priority: QueuePriority, entry: QueueEntry) {
        assert!(priority != QueuePriority::RealTime, "real-time entries have a queue of their own");
        self.counts.queued += 1;
        self.references(priority).push_back(entry);
    }

    /// The waiting entries of a lower priority.
    ///
    /// # Panics
    ///
    /// For real-time entries.
    #[expect(
        clippy::indexing_slicing,
        reason = "callers pass only the lower priorities, whose numbers are 0 and 1"
    )]
    const fn references(&mut self, priority: QueuePriority) -> &mut VecDeque<QueueEntry> {
        &mut self.references[priority.index()]
    }

    /// Notes a real-time entry in the journal that an earlier process queued and this queue still
    /// needs.
    pub(crate) fn restore(&mut self, cursor: Cursor, first: EntrySequence, since_us: u64) {
        self.restored_below = EntrySequence(first.0 + 1);
        match &mut self.behind {
            Some(behind) => behind.count += 1,
            None => self.behind = Some(JournalTail::from(cursor, first, since_us)),
        }
    }

    /// Takes the next entry, after [`Queue::fill_window`]. An entry taken under a lease returns to the
    /// queue unless it is confirmed.
    pub(crate) fn take(
        &mut self,
        lease: Option<LeaseNumber>,
        now_us: u64,
    ) -> Option<(QueuePriority, QueueEntry)> {
        let (priority, entry) = self.next()?;
        match lease {
            Some(lease) => {
                let leased = Leased { lease, priority, entry: entry.clone(), since_us: now_us };
                self.leased.insert(entry.sequence, leased);
            }
            None => self.counts.consumed += 1,
        }
        Some((priority, entry))
    }

    fn next(&mut self) -> Option<(QueuePriority, QueueEntry)> {
        if let Some(entry) = self.window.pop_front() {
            self.held_count -= usize::from(holds_object(&entry));
            self.check();
            return Some((QueuePriority::RealTime, entry));
        }
        [QueuePriority::FullSync, QueuePriority::Fold].into_iter().find_map(|priority| {
            let entry = self.references(priority).pop_front()?;
            Some((priority, entry))
        })
    }

    /// Reads the next entries from the journal if the window is empty. True if entries are lost because the
    /// journal is damaged, and no queue has reported the damage of that file before.
    #[must_use]
    pub(crate) fn fill_window(&mut self, mut journal: Option<&mut Journal>) -> bool {
        debug_assert!(
            self.behind.is_none() || journal.is_some(),
            "entries that are not in memory are in a journal"
        );
        let mut has_lost = false;
        while self.window.is_empty()
            && let (Some(behind), Some(journal)) = (&mut self.behind, &mut journal)
        {
            let read = match journal.read(behind.cursor) {
                Ok(read) => read,
                Err(fault) => {
                    if !std::mem::replace(&mut behind.has_failed, true) {
                        tracing::error!(
                            %fault,
                            queue = self.name,
                            "a source queue can't be read: its entries wait until it can"
                        );
                    }
                    break;
                }
            };
            behind.has_failed = false;
            has_lost |= read.has_lost && journal.tell_loss(behind.cursor);
            let number = self.number;
            for JournalEntry { entry, queues } in read.entries {
                if queues.contains(&number) && entry.sequence >= behind.first {
                    let may_be_redelivery = entry.sequence < self.restored_below;
                    self.window.push_back(QueueEntry { may_be_redelivery, ..entry });
                }
            }
            behind.cursor = read.next;
            behind.count = behind.count.saturating_sub(self.window.len() as u64);
            if let Some(last) = self.window.back() {
                behind.first = EntrySequence(last.sequence.0 + 1);
                behind.since_us = last.queued_us;
            }
            if read.at_end {
                self.behind = None;
            }
        }
        has_lost
    }

    /// Notes that a consumer has stored an entry.
    pub(crate) fn confirm(&mut self, sequence: EntrySequence, lease: LeaseNumber) {
        if self.leased.get(&sequence).is_some_and(|leased| leased.lease == lease) {
            self.leased.remove(&sequence);
            self.counts.consumed += 1;
        }
    }

    /// Notes that a consumer can't use the delta of an entry. When the entry is sent again, it comes
    /// with the whole object.
    pub(crate) fn request_whole(&mut self, sequence: EntrySequence, lease: LeaseNumber) {
        if let Some(leased) = self.leased.get_mut(&sequence)
            && leased.lease == lease
            && matches!(leased.entry.reference, EntryReference::Delta { .. })
        {
            leased.entry.reference = EntryReference::ToFetch;
        }
    }

    /// Returns the unconfirmed entries of a lease to the queue, because its consumer is gone. Returns
    /// their number.
    pub(crate) fn put_back(&mut self, lease: LeaseNumber) -> usize {
        self.put_back_those(|leased| leased.lease == lease)
    }

    /// Returns unconfirmed entries that were taken before a time (microseconds since 1970) to the
    /// queue, because their consumer hangs. Returns their number.
    pub(crate) fn put_back_older(&mut self, than_us: u64) -> usize {
        self.put_back_those(|leased| leased.since_us < than_us)
    }

    fn put_back_those(&mut self, is_wanted: impl Fn(&Leased) -> bool) -> usize {
        let wanted = self.leased.iter().filter(|(_, leased)| is_wanted(leased));
        let sequences: Vec<EntrySequence> = wanted.map(|(sequence, _)| *sequence).collect();
        for sequence in sequences.iter().rev() {
            if planted!(LosesUnconfirmed) {
                self.leased.remove(sequence);
                continue;
            }
            let Some(Leased { priority, entry, .. }) = self.leased.remove(sequence) else {
                continue;
            };
            let entry = QueueEntry { may_be_redelivery: true, ..entry };
            match priority {
                QueuePriority::RealTime => {
                    self.held_count += usize::from(holds_object(&entry));
                    let place = self.window.partition_point(|other| other.sequence < *sequence);
                    self.window.insert(place, entry);
                }
                priority => self.references(priority).push_front(entry),
            }
        }
        self.check();
        sequences.len()
    }

    /// Drops all waiting and leased entries. A stale queue stays stale, because its sink still lacks the same
    /// deletes.
    pub(crate) fn clear(&mut self, now_us: u64) {
        if let Some(oldest_us) = self.oldest_us() {
            self.missed.note(oldest_us.min(now_us)..=now_us);
        }
        self.window.clear();
        self.held_count = 0;
        self.behind = None;
        self.references.iter_mut().for_each(VecDeque::clear);
        self.leased.clear();
    }

    /// Lowest sequence number of an unconfirmed real-time entry; `next` if there is none.
    pub(crate) fn needed(&self, next: EntrySequence) -> EntrySequence {
        let is_real_time = |leased: &&Leased| leased.priority == QueuePriority::RealTime;
        let leased = self.leased.values().filter(is_real_time).map(|leased| leased.entry.sequence);
        let waiting = self.window.front().map(|entry| entry.sequence);
        let behind = self.behind.as_ref().map(|behind| behind.first);
        leased.take(1).chain(waiting).chain(behind).min().unwrap_or(next)
    }
}

fn holds_object(entry: &QueueEntry) -> bool {
    matches!(entry.reference, EntryReference::Object(_))
}
