//! One source queue: what waits to be sent to the sinks that consume it.
//!
//! Real-time entries are in memory as far as they fit; those behind are in the journal alone and are read
//! when they have their turn. Entries of the lower priorities are references in memory: full-sync and folds
//! find them again.

use super::entry::{EntryReference, EntrySequence, QueueEntry, QueuePriority, VisitedCluster};
use super::filter::QueueFilter;
use super::journal::{Cursor, Journal, JournalEntry, QueueNumber};
use super::missed::MissedDeletes;
use quoit_planted::planted;
use std::collections::{BTreeMap, VecDeque};

/// Entries of each priority that a queue has where they are in memory alone.
pub(super) const MEMORY_COUNT_MAX: u64 = 1_000_000;

/// Bounds of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueueBounds {
    /// Real-time entries that have their object with them.
    pub(crate) object_count_max: usize,
    /// Bytes of the stored form of such an object.
    pub(crate) object_bytes_max: usize,
    /// Entries of each priority.
    pub(crate) entry_count_max: u64,
    /// Real-time entries that are in memory, where there is a journal.
    pub(crate) window_count_max: usize,
}

/// Entries that wait in a queue, by priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueLengths {
    /// Records that a fold has found.
    pub fold: u64,
    /// Repairs of full-sync, and references that were pushed.
    pub full_sync: u64,
    /// Writes as they happen.
    pub real_time: u64,
}

/// Number of a lease: its holder has taken entries and has not yet reported their fate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LeaseNumber(pub(crate) u64);

/// An entry that a consumer has taken.
struct Leased {
    lease: LeaseNumber,
    priority: QueuePriority,
    entry: QueueEntry,
    /// When it was taken, microseconds since 1970.
    since_us: u64,
}

/// Entries behind those in memory.
struct Behind {
    cursor: Cursor,
    /// No entry behind has a lower sequence number.
    first: EntrySequence,
    count: u64,
    /// No entry behind was queued earlier, microseconds since 1970.
    since_us: u64,
}

/// Counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueCounts {
    /// Entries queued.
    pub queued: u64,
    /// Entries that were not queued because the queue was full.
    pub discarded: u64,
    /// Entries that a consumer has taken for good.
    pub consumed: u64,
    /// Of these, bytes of objects that were sent.
    pub consumed_bytes: u64,
}

/// Whether a queue has waited for longer than reap records are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Staleness {
    /// It has not.
    #[default]
    Fresh,
    /// It has: records that were deleted here may be live in the sink's cluster.
    Stale,
    /// It has, and an operator has dealt with that.
    Accepted,
}

pub(crate) struct Queue {
    pub(crate) number: QueueNumber,
    pub(crate) name: String,
    pub(crate) filter: QueueFilter,
    /// Whether new entries are discarded.
    pub(crate) is_suspended: bool,
    pub(crate) staleness: Staleness,
    /// The cluster that has consumed the queue last; `None` where no cluster of Quoit has.
    pub(crate) sink: Option<VisitedCluster>,
    pub(crate) missed: MissedDeletes,
    bounds: QueueBounds,
    /// The oldest real-time entries, by sequence.
    window: VecDeque<QueueEntry>,
    /// Entries of the window with their object.
    held_count: usize,
    behind: Option<Behind>,
    /// Entries below are of a former process, which may have sent them.
    restored_below: EntrySequence,
    /// Entries of the priorities below, oldest first.
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

    /// Entries that consumers have taken and not confirmed.
    pub(crate) fn leased_count(&self) -> usize {
        self.leased.len()
    }

    /// When the oldest real-time entry was queued that is not confirmed, microseconds since 1970; `None`
    /// without any.
    pub(crate) fn oldest_us(&self) -> Option<u64> {
        let waiting = self.window.front().map(|entry| entry.queued_us);
        let behind = self.behind.as_ref().map(|behind| behind.since_us);
        let is_real_time = |leased: &&Leased| leased.priority == QueuePriority::RealTime;
        let leased = self.leased.values().filter(is_real_time).map(|leased| leased.entry.queued_us);
        leased.chain(waiting).chain(behind).min()
    }

    /// Since when the sinks may not know of deletes, microseconds since 1970; `None` while they know of all.
    pub(crate) fn behind_since_us(&self) -> Option<u64> {
        self.oldest_us().into_iter().chain(self.missed.since_us()).min()
    }

    /// Whether a real-time entry may be queued; counts it as discarded otherwise.
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

    /// Queues a real-time entry, which stands in the journal at `at` if it is there at all.
    pub(crate) fn push(&mut self, entry: &QueueEntry, at: Option<Cursor>) {
        self.counts.queued += 1;
        match (&mut self.behind, at) {
            (Some(behind), Some(_)) => behind.count += 1,
            (None, Some(cursor)) if self.window.len() >= self.bounds.window_count_max => {
                let (first, since_us) = (entry.sequence, entry.queued_us);
                self.behind = Some(Behind { cursor, first, count: 1, since_us });
            }
            _ => {
                let is_small = entry.held_bytes() <= self.bounds.object_bytes_max;
                let is_held = is_small && self.held_count < self.bounds.object_count_max;
                let entry = if is_held { entry.clone() } else { entry.clone().reduced() };
                self.held_count += usize::from(holds_object(&entry));
                self.window.push_back(entry);
            }
        }
    }

    /// Queues an entry of a lower priority.
    pub(crate) fn push_reference(&mut self, priority: QueuePriority, entry: QueueEntry) {
        assert!(priority != QueuePriority::RealTime, "real-time entries have a queue of their own");
        self.counts.queued += 1;
        self.references[priority.index()].push_back(entry);
    }

    /// Takes up a real-time entry that a former process has queued and that stands in the journal.
    pub(crate) fn restore(&mut self, cursor: Cursor, first: EntrySequence, since_us: u64) {
        self.restored_below = EntrySequence(first.0 + 1);
        match &mut self.behind {
            Some(behind) => behind.count += 1,
            None => self.behind = Some(Behind { cursor, first, count: 1, since_us }),
        }
    }

    /// Takes the next entry. With a lease it comes back unless it is confirmed.
    pub(crate) fn take(
        &mut self,
        journal: Option<&Journal>,
        lease: Option<LeaseNumber>,
        now_us: u64,
    ) -> Option<(QueuePriority, QueueEntry)> {
        if self.window.is_empty() {
            self.read_behind(journal);
        }
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
            return Some((QueuePriority::RealTime, entry));
        }
        [QueuePriority::FullSync, QueuePriority::Fold].into_iter().find_map(|priority| {
            let entry = self.references[priority.index()].pop_front()?;
            Some((priority, entry))
        })
    }

    /// Reads the next entries from the journal into the empty window.
    fn read_behind(&mut self, journal: Option<&Journal>) {
        while self.window.is_empty()
            && let (Some(behind), Some(journal)) = (&mut self.behind, journal)
        {
            let read = match journal.read(behind.cursor) {
                Ok(read) => read,
                Err(fault) => {
                    tracing::error!(%fault, queue = self.name, "reading a source queue failed");
                    return;
                }
            };
            let number = self.number;
            for JournalEntry { entry, queues } in read.entries {
                if queues.contains(&number) && entry.sequence >= behind.first {
                    let is_again = entry.sequence < self.restored_below;
                    self.window.push_back(QueueEntry { is_again, ..entry });
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
    }

    /// A consumer has an entry for good.
    pub(crate) fn confirm(&mut self, sequence: EntrySequence, lease: LeaseNumber) {
        if self.leased.get(&sequence).is_some_and(|leased| leased.lease == lease) {
            self.leased.remove(&sequence);
            self.counts.consumed += 1;
        }
    }

    /// A consumer can't use the delta of an entry that it has taken: the entry is sent with the object when
    /// it comes again.
    pub(crate) fn want_whole(&mut self, sequence: EntrySequence, lease: LeaseNumber) {
        if let Some(leased) = self.leased.get_mut(&sequence)
            && leased.lease == lease
            && matches!(leased.entry.reference, EntryReference::Delta { .. })
        {
            leased.entry.reference = EntryReference::ToFetch;
        }
    }

    /// A consumer is gone: entries that it has taken and not confirmed wait again. Returns how many.
    pub(crate) fn put_back(&mut self, lease: LeaseNumber) -> usize {
        self.put_back_those(|leased| leased.lease == lease)
    }

    /// Entries that were taken before a time, microseconds since 1970, and not confirmed, wait again: their
    /// consumer hangs. Returns how many.
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
            let entry = QueueEntry { is_again: true, ..entry };
            match priority {
                QueuePriority::RealTime => {
                    self.held_count += usize::from(holds_object(&entry));
                    let place = self.window.partition_point(|other| other.sequence < *sequence);
                    self.window.insert(place, entry);
                }
                priority => self.references[priority.index()].push_front(entry),
            }
        }
        sequences.len()
    }

    /// Forgets all that waits, and who has taken what. A stale queue stays stale: the sink lacks what it has
    /// lacked before.
    pub(crate) fn clear(&mut self, now_us: u64) {
        if let Some(oldest_us) = self.oldest_us() {
            self.missed.note(oldest_us.min(now_us), now_us);
        }
        self.window.clear();
        self.held_count = 0;
        self.behind = None;
        self.references.iter_mut().for_each(VecDeque::clear);
        self.leased.clear();
    }

    /// The lowest sequence number of a real-time entry that is not confirmed; `next` without any.
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
