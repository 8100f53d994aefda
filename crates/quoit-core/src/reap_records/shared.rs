//! State that readers and writers of reap records share.

use super::log::{EntrySource, LogFile, ReadEntry};
use super::manifest::ReapManifest;
use super::table::{EntryPosition, ReapTable, TableRow};
use super::{ReapRecord, ReapSequence};
use quoit_model::hash::RingSize;
use quoit_store::engine::IoMode;
use quoit_store::error::StoreError;
use std::collections::BTreeMap;

/// Number of reap records up to which each change is followed by a check of all of them, in debug builds.
const CHECKED_COUNT_MAX: usize = 256;

/// State that readers need.
pub(super) struct SharedTables {
    pub(super) table: ReapTable,
    /// Content of the next manifest, except for its list of files.
    pub(super) manifest: ReapManifest,
    /// Log files by number.
    pub(super) files: BTreeMap<u32, LogFile>,
    /// The records, if they are kept in memory only.
    pub(super) in_memory: BTreeMap<ReapSequence, ReapRecord>,
}

/// The place of a record, which can be read without a lock.
pub(super) enum RecordSource {
    Log(EntrySource),
    Memory(ReapRecord),
}

impl RecordSource {
    pub(super) fn read(&self, access: IoMode) -> Result<ReadEntry, StoreError> {
        match self {
            Self::Log(source) => source.read(access),
            Self::Memory(record) => Ok(ReadEntry::Whole(record.clone())),
        }
    }
}

impl SharedTables {
    pub(super) fn new(ring_size: RingSize) -> Self {
        Self {
            table: ReapTable::new(ring_size),
            manifest: ReapManifest::new(ring_size),
            files: BTreeMap::new(),
            in_memory: BTreeMap::new(),
        }
    }

    pub(super) fn source(&self, row: &TableRow) -> RecordSource {
        if let Some(record) = self.in_memory.get(&row.sequence) {
            return RecordSource::Memory(record.clone());
        }
        RecordSource::Log(EntrySource::new(self.file(row.place.file), row))
    }

    /// Returns a log file by its number.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub(super) fn file(&self, number: u32) -> &LogFile {
        self.files.get(&number).expect("a file stays while it has rows or grows")
    }

    /// Notes that the table does not refer to an entry any more.
    pub(super) fn note_dead(&mut self, row: &TableRow) {
        self.in_memory.remove(&row.sequence);
        if let Some(file) = self.files.get_mut(&row.place.file) {
            file.live_count -= 1;
        }
    }

    /// Adds a record whose entry is durable to the table.
    pub(super) fn take_in(
        &mut self,
        addition: Addition,
        sequence: ReapSequence,
        place: EntryPosition,
        is_in_memory: bool,
    ) {
        let Addition { record, former } = addition;
        debug_assert!(
            former.is_none_or(|former| former.sequence < sequence),
            "a record that replaces another one was made later"
        );
        let row = TableRow { identity: record.identity, sequence, place };
        match former {
            Some(former) => {
                self.table.replace(record.partition, former.sequence, row);
                self.note_dead(&former);
            }
            None => self.table.insert(record.partition, row),
        }
        self.note_live(place);
        if is_in_memory {
            self.in_memory.insert(sequence, record);
        }
    }

    /// Notes that the table refers to an entry.
    pub(super) fn note_live(&mut self, place: EntryPosition) {
        if let Some(file) = self.files.get_mut(&place.file) {
            file.live_count += 1;
        }
    }

    /// Checks, in debug builds and while there are few records, that the table, the files and the records
    /// in memory agree. A file is removed when it counts no live entry, and a reader relies on the file
    /// of each row.
    pub(super) fn check(&self) {
        if !cfg!(debug_assertions) || self.table.count() > CHECKED_COUNT_MAX {
            return;
        }
        let mut live_counts: BTreeMap<u32, usize> = BTreeMap::new();
        let mut in_memory_count = 0;
        for row in self.table.all() {
            assert!(row.sequence <= self.manifest.sequence, "later records get higher numbers");
            match self.in_memory.contains_key(&row.sequence) {
                true => in_memory_count += 1,
                false => *live_counts.entry(row.place.file).or_default() += 1,
            }
        }
        assert_eq!(in_memory_count, self.in_memory.len(), "each record in memory has a row");
        for (number, file) in &self.files {
            let live_count = live_counts.remove(number).unwrap_or(0);
            assert_eq!(file.live_count, live_count, "a file counts the rows that refer to it");
            assert!(live_count <= file.entry_count, "each live entry was written or found");
        }
        assert!(live_counts.is_empty(), "each row refers to a file that is there");
    }
}

/// A record that is to be made.
pub(super) struct Addition {
    pub(super) record: ReapRecord,
    /// Row of the former record of the same name, which it replaces.
    pub(super) former: Option<TableRow>,
}
