//! Log of the writes that a node has coordinated in buckets with a change feed.

use super::note::ChangeLogNote;
use crate::machine_boot::MachineBoot;
use crate::queues::{
    Cursor, EntryReference, EntrySequence, Journal, JournalEntry, QueueEntry, Visited,
};
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_number::saturating_u64;
use quoit_seam::Disk;
use quoit_store::error::StoreError;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Limits of a node's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangeFeedSettings {
    /// Time for which entries are kept (`change_feed.retention`).
    pub retention: Duration,
    /// Maximum bytes of entries on disk (`change_feed.maximum_bytes`). One file of 16 MiB more is
    /// possible.
    pub bytes_max: u64,
}

impl Default for ChangeFeedSettings {
    fn default() -> Self {
        Self { retention: Duration::from_secs(7 * 86_400), bytes_max: 1 << 30 }
    }
}

/// Statistics of a node's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChangeFeedStatus {
    /// Bytes of its files.
    pub bytes: u64,
    /// Time at which the oldest file was created, microseconds since 1970; `None` for an empty log.
    pub oldest_us: Option<u64>,
    /// Number of writes appended since the start.
    pub appended_count: u64,
    /// Number of writes since the start that the log lost because the disk failed. Readers get an error that
    /// reports the gap.
    pub lost_count: u64,
    /// Number of changes that readers have received from this node's streams since the start.
    pub sent_change_count: u64,
}

/// Point in a node's log at which a reader starts or continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadFrom {
    Oldest,
    /// The first change at or after a time in microseconds since 1970. Earlier changes may come first.
    Time(u64),
    Position(LogPosition),
}

/// An offset in the log of a node, with the number of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LogPosition {
    /// Number of the log. It changes when entries are lost.
    pub(super) log: u64,
    pub(super) cursor: Cursor,
}

/// Entries of the log.
#[derive(Debug)]
pub(super) struct LogRead {
    /// Entries, each with the offset at which the next entry begins.
    pub(super) entries: Vec<(JournalEntry, Cursor)>,
    pub(super) begin: LogPosition,
    pub(super) next: LogPosition,
    pub(super) at_end: bool,
    /// Every later entry has a later time than this.
    pub(super) complete_us: u64,
}

/// Error for an offset or time whose entries the log has removed or lost, or for an offset that it never
/// had.
#[derive(Debug)]
pub(super) struct LogGap {
    pub(super) text: String,
    /// Offset from which a reader continues if it accepts the gap.
    pub(super) resume: LogPosition,
}

struct ChangeLogState {
    journal: Journal,
    log: u64,
    /// The later of two times: that of the last entry, and that up to which a reader was told that no entry
    /// is missing.
    last_us: u64,
    is_closed: bool,
    has_failed: bool,
    stored: ChangeLogNote,
    appended_count: u64,
    lost_count: u64,
    sent_change_count: u64,
}

impl ChangeLogState {
    /// Changes the number of the log, so that readers with earlier positions learn of a gap.
    fn begin_another_log(&mut self) {
        self.log = xxh3_64_with_seed(&self.last_us.to_le_bytes(), self.log);
    }
}

/// The log of a node. Shared; every method takes `&self`.
pub struct ChangeLog {
    settings: ChangeFeedSettings,
    state: Mutex<ChangeLogState>,
    /// Notified of each entry.
    filled: Notify,
}

impl ChangeLog {
    /// Opens the log with the entries of an earlier process. `entropy` is random.
    ///
    /// # Errors
    ///
    /// Disk faults, and a log of a newer release.
    pub fn open(
        disk: Arc<dyn Disk>,
        settings: ChangeFeedSettings,
        boot: MachineBoot,
        entropy: u64,
    ) -> Result<Self, StoreError> {
        let found = ChangeLogNote::load(&*disk)?;
        let journal = Journal::open(Arc::clone(&disk))?;
        // A power cut may have lost unsynced entries. In that case the log gets another number.
        let whole = found.filter(|note| note.is_stopped || note.boot == boot);
        let log = whole.map_or(entropy, |note| note.log).max(1);
        let stored = ChangeLogNote { log, boot, is_stopped: false };
        stored.store(&*disk)?;
        let last_us = last_time(&journal)?;
        let state = ChangeLogState {
            journal,
            log: stored.log,
            last_us,
            is_closed: false,
            has_failed: false,
            stored,
            appended_count: 0,
            lost_count: 0,
            sent_change_count: 0,
        };
        Ok(Self { settings, state: Mutex::new(state), filled: Notify::new() })
    }

    /// Appends a write. Costs one write to the disk, without a sync. If the disk refuses it, the log
    /// gets another number, because it has a gap now.
    pub(super) fn append(&self, key: Bytes, is_delete: bool, context: Bytes, now_us: u64) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        let time_us = now_us.max(state.last_us + 1);
        state.last_us = time_us;
        let entry = QueueEntry {
            // Each entry has a later time than all entries before it, so a time also finds the file of an
            // entry.
            sequence: EntrySequence(time_us),
            key,
            reference: EntryReference::Change { is_delete, context },
            visited: Visited::new(),
            queued_us: time_us,
            may_be_redelivery: false,
        };
        match state.journal.append(&entry, &[]) {
            Ok(_) => {
                state.appended_count += 1;
                state.has_failed = false;
            }
            Err(fault) => {
                state.lost_count += 1;
                state.begin_another_log();
                if !std::mem::replace(&mut state.has_failed, true) {
                    tracing::error!(
                        %fault,
                        "change feeds have a gap, since their disk refuses writes; readers get an error"
                    );
                }
            }
        }
        drop(state);
        self.filled.notify_waiters();
    }

    /// Reads the next entries, about 64 KiB.
    pub(super) fn read(
        &self,
        from: ReadFrom,
        now_us: u64,
    ) -> Result<Result<LogRead, LogGap>, StoreError> {
        let (reader, begin, complete_us) = {
            let mut state = self.state.lock();
            let (start, end) = (state.journal.start(), state.journal.end());
            let resume = LogPosition { log: state.log, cursor: start };
            let gap = |text: &str| Ok(Err(LogGap { text: text.to_owned(), resume }));
            let cursor = match from {
                ReadFrom::Oldest => start,
                // The first file has all entries since the log began, so no earlier ones are missing.
                ReadFrom::Time(us)
                    if start.file > 1 && state.journal.first() > Some(EntrySequence(us)) =>
                {
                    return gap("the changes of that time are no longer kept");
                }
                ReadFrom::Time(us) => state.journal.file_of(EntrySequence(us)),
                ReadFrom::Position(place) if place.log != state.log => {
                    return gap(
                        "the node has begun a new log: changes of the former log may be lost",
                    );
                }
                ReadFrom::Position(place) if place.cursor.file < start.file => {
                    return gap("the changes after the position are no longer kept");
                }
                ReadFrom::Position(place) if place.cursor > end => {
                    return gap("the position is not one of the node's log");
                }
                ReadFrom::Position(place) => place.cursor,
            };
            // Entries appended from now on get later times.
            state.last_us = state.last_us.max(now_us);
            let begin = LogPosition { log: state.log, cursor };
            (state.journal.reader(cursor), begin, state.last_us)
        };
        let log = begin.log;
        let read = reader.read()?;
        if read.has_lost {
            // The next change begins another file, and readers continue with that file.
            self.state.lock().journal.tell_loss(begin.cursor);
            let text = "a file of the node's log is damaged".to_owned();
            let cursor = reader.next_file().unwrap_or(read.next);
            return Ok(Err(LogGap { text, resume: LogPosition { log, cursor } }));
        }
        let last_us = read.entries.last().map_or(0, |last| last.entry.sequence.0);
        let next = LogPosition { log, cursor: read.next };
        let complete_us = if read.at_end { complete_us } else { last_us };
        let file = reader.file_number().unwrap_or(read.next.file);
        let ends = read.ends.iter().map(|offset| Cursor { file, offset: *offset });
        let entries: Vec<_> = read.entries.into_iter().zip(ends).collect();
        debug_assert!(
            entries.last().is_none_or(|(_, end)| *end <= next.cursor),
            "a reader that has all entries goes on behind them"
        );
        Ok(Ok(LogRead { entries, begin, next, at_end: read.at_end, complete_us }))
    }

    /// Notified of each new entry.
    pub(super) const fn filled(&self) -> &Notify {
        &self.filled
    }

    pub(super) fn count_sent(&self, count: usize) {
        self.state.lock().sent_change_count += count as u64;
    }

    /// Figures of the log.
    #[must_use]
    pub fn status(&self) -> ChangeFeedStatus {
        let state = self.state.lock();
        ChangeFeedStatus {
            bytes: state.journal.size_bytes(),
            oldest_us: state.journal.first().map(|first| first.0),
            appended_count: state.appended_count,
            lost_count: state.lost_count,
            sent_change_count: state.sent_change_count,
        }
    }

    /// Syncs the log, and removes the files that exceed the limits on age and size. Blocks the thread.
    ///
    /// # Errors
    ///
    /// Disk faults. If a sync fails, the entries count as lost and readers learn of a gap.
    pub fn flush(&self, now_us: u64) -> Result<(), StoreError> {
        let (files, disk) = {
            let state = self.state.lock();
            (state.journal.unsynced(), Arc::clone(state.journal.disk()))
        };
        if let Some(fault) = files.iter().find_map(|file| file.sync().err()) {
            // After a failed sync the system may have dropped the data, and a later sync would succeed
            // nevertheless.
            self.state.lock().begin_another_log();
            return Err(fault);
        }
        let has_changed = {
            let mut state = self.state.lock();
            state.journal.note_synced(&files);
            let retention_us = saturating_u64(self.settings.retention.as_micros());
            let oldest_us = now_us.saturating_sub(retention_us);
            let old = state.journal.retire(EntrySequence(oldest_us))?;
            let many = state.journal.shrink(self.settings.bytes_max)?;
            state.journal.take_new_files() || old + many > 0
        };
        if has_changed {
            disk.sync_directory()?;
        }
        self.keep(false)
    }

    /// Writes the note if it has changed.
    fn keep(&self, is_stopped: bool) -> Result<(), StoreError> {
        let (note, disk) = {
            let state = self.state.lock();
            let note = ChangeLogNote { log: state.log, is_stopped, ..state.stored };
            if note == state.stored {
                return Ok(());
            }
            (note, Arc::clone(state.journal.disk()))
        };
        note.store(&*disk)?;
        self.state.lock().stored = note;
        Ok(())
    }

    /// Records on disk that the process stopped cleanly. Nothing is appended afterwards.
    ///
    /// # Errors
    ///
    /// Disk faults.
    pub fn close(&self, now_us: u64) -> Result<(), StoreError> {
        self.state.lock().is_closed = true;
        self.flush(now_us)?;
        self.keep(true)
    }
}

/// Highest time of an entry that an earlier process left.
fn last_time(journal: &Journal) -> Result<u64, StoreError> {
    let Some((mut cursor, first)) = journal.newest_file() else { return Ok(0) };
    let mut last_us = first.0;
    loop {
        let read = journal.read(cursor)?;
        last_us = read.entries.last().map_or(last_us, |last| last.entry.sequence.0.max(last_us));
        cursor = read.next;
        if read.at_end {
            return Ok(last_us);
        }
    }
}
