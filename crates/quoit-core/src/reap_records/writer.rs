//! Changes the log: appends entries, and removes files after moving their live entries to others.

use super::entry::{LogPart, LogParts, append_entry};
use super::log::{self, FILE_HEAD_BYTES, LogFile, read_all};
use super::manifest::ReapManifest;
use super::recovery::Recovered;
use super::shared::SharedTables;
use super::table::{EntryPosition, TableRow};
use super::{ReapRecord, ReapSequence};
use parking_lot::RwLock;
use quoit_model::hash::Partition;
use quoit_number::length_u32;
use quoit_seam::Disk;
use quoit_store::error::StoreError;
use std::mem::take;
use std::sync::Arc;

/// Writes the log.
pub(super) struct LogWriter {
    disk: Arc<dyn Disk>,
    /// The file to which entries are appended. `None` before the first one is created, and after a failed
    /// write or sync, since it is then not known how the file ends.
    active: Option<u32>,
    next_number: u32,
    file_bytes_max: u32,
    entropy: u64,
}

/// A live entry of a file that is to be removed.
struct LiveEntry {
    partition: Partition,
    row: TableRow,
    record: ReapRecord,
}

impl LogWriter {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        recovered: &Recovered,
        file_bytes_max: u32,
        entropy: u64,
    ) -> Self {
        let Recovered { active, next_number, .. } = *recovered;
        Self { disk, active, next_number, file_bytes_max, entropy }
    }

    /// Appends entries durably, and returns their places. This takes one sync, and another one for each
    /// further file.
    ///
    /// # Errors
    ///
    /// If the disk fails. A restart may then find any of the entries.
    pub(super) fn append(
        &mut self,
        shared: &RwLock<SharedTables>,
        entries: &[(ReapSequence, &ReapRecord)],
    ) -> Result<Vec<EntryPosition>, StoreError> {
        let mut places = Vec::with_capacity(entries.len());
        let mut bytes = Vec::new();
        let mut rest = entries.iter().peekable();
        while rest.peek().is_some() {
            let number = self.active(shared)?;
            let (salt, durable_bytes) = {
                let shared = shared.read();
                let file = shared.file(number);
                (file.salt, file.durable_bytes)
            };
            let room = self.file_bytes_max.saturating_sub(durable_bytes) as usize;
            let count_before = places.len();
            // At least one entry, so that even an entry that is larger than a file finds a place.
            while bytes.len() < room.max(1)
                && let Some((sequence, record)) = rest.next()
            {
                let offset = durable_bytes + length_u32(bytes.len());
                places.push(EntryPosition { file: number, offset });
                append_entry(record, *sequence, durable_bytes, salt, &mut bytes);
            }
            debug_assert!(places.len() > count_before, "each file gets an entry, so the loop ends");
            let written = {
                let file = Arc::clone(&shared.read().file(number).file);
                file.write_at(&bytes, durable_bytes.into()).and_then(|()| file.sync())
            };
            if let Err(fault) = written {
                self.active = None;
                return Err(fault.into());
            }
            let mut shared = shared.write();
            if let Some(file) = shared.files.get_mut(&number) {
                debug_assert_eq!(file.durable_bytes, durable_bytes, "only one writer appends");
                file.durable_bytes += length_u32(take(&mut bytes).len());
                file.entry_count += places.len() - count_before;
            }
        }
        // A record without a place would be forgotten, though it was reported as made.
        assert_eq!(places.len(), entries.len(), "each entry has a place in the log");
        Ok(places)
    }

    /// Returns the file to append to, which is a new one if the last one is full.
    fn active(&mut self, shared: &RwLock<SharedTables>) -> Result<u32, StoreError> {
        if let Some(number) = self.active
            && shared.read().file(number).durable_bytes < self.file_bytes_max
        {
            return Ok(number);
        }
        self.active = None;
        let number = self.next_number;
        self.next_number = number.checked_add(1).ok_or_else(|| numbers_used_up(number))?;
        let file = LogFile::create(&*self.disk, number, self.entropy)?;
        let mut manifest = self.manifest(shared);
        manifest.files.push(file.named(number));
        manifest.write(&*self.disk)?;
        let mut shared = shared.write();
        debug_assert!(
            shared.files.last_key_value().is_none_or(|(last, _)| *last < number),
            "the file that grows is the last one: recovery looks for new entries only there"
        );
        shared.files.insert(number, file);
        self.active = Some(number);
        Ok(number)
    }

    /// Returns the manifest for the present state. The file that grows is the last one.
    fn manifest(&self, shared: &RwLock<SharedTables>) -> ReapManifest {
        let shared = shared.read();
        let files = shared.files.iter().map(|(number, file)| file.named(*number)).collect();
        ReapManifest { files, ..shared.manifest.clone() }
    }

    /// Writes the manifest.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(super) fn write_manifest(&self, shared: &RwLock<SharedTables>) -> Result<(), StoreError> {
        self.manifest(shared).write(&*self.disk)
    }

    /// Makes the disk agree with memory: removes files that are mostly dead or damaged, and writes the
    /// manifest.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(super) fn settle(&mut self, shared: &RwLock<SharedTables>) -> Result<(), StoreError> {
        if self.give_up_files(shared)? {
            return Ok(());
        }
        self.write_manifest(shared)
    }

    /// Moves live entries out of files that are mostly dead or damaged, and removes those files. Returns
    /// true if there were any; then the manifest is written.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(super) fn give_up_files(
        &mut self,
        shared: &RwLock<SharedTables>,
    ) -> Result<bool, StoreError> {
        let mut given_up = Vec::new();
        while let Some(number) = self.file_to_give_up(shared) {
            if self.active == Some(number) {
                self.active = None;
            }
            self.move_live(shared, number)?;
            shared.write().files.remove(&number);
            given_up.push(number);
        }
        shared.read().check();
        if given_up.is_empty() {
            return Ok(false);
        }
        self.write_manifest(shared)?;
        for number in given_up {
            self.disk.remove(&log::name(number))?;
        }
        Ok(true)
    }

    /// Returns a file that should be removed. The file that grows is one only if none of its entries is
    /// live.
    fn file_to_give_up(&self, shared: &RwLock<SharedTables>) -> Option<u32> {
        let shared = shared.read();
        let mut files = shared.files.iter();
        let found = files.find(|(number, file)| match self.active == Some(**number) {
            true => file.live_count == 0 && file.entry_count > 0,
            false => file.live_count == 0 || file.is_worth_moving(),
        });
        found.map(|(number, _)| *number)
    }

    /// Writes the live entries of a file again, to another file. Those that can't be read any more are
    /// lost.
    fn move_live(&mut self, shared: &RwLock<SharedTables>, number: u32) -> Result<(), StoreError> {
        let (file, salt, live_count) = {
            let shared = shared.read();
            let file = shared.file(number);
            (Arc::clone(&file.file), file.salt, file.live_count)
        };
        if live_count == 0 {
            return Ok(());
        }
        let live = live_entries(shared, number, &read_all(&*file)?, salt);
        let entries: Vec<_> = live.iter().map(|each| (each.row.sequence, &each.record)).collect();
        let places = self.append(shared, &entries)?;
        let mut shared = shared.write();
        for (LiveEntry { partition, row, .. }, place) in live.iter().zip(places) {
            shared.table.replace(*partition, row.sequence, TableRow { place, ..*row });
            shared.note_live(place);
        }
        if live.len() < live_count {
            for partition in shared.table.forget_file(number) {
                shared.manifest.note_lost(Some(partition));
            }
        }
        Ok(())
    }
}

/// Returns the entries of a file that the table refers to.
fn live_entries(
    shared: &RwLock<SharedTables>,
    number: u32,
    bytes: &bytes::Bytes,
    salt: u64,
) -> Vec<LiveEntry> {
    let shared = shared.read();
    let live = |(range, part): (std::ops::Range<usize>, LogPart)| {
        let LogPart::Whole(head, record) = part else { return None };
        let place = EntryPosition { file: number, offset: length_u32(range.start) };
        let row = TableRow { identity: head.identity, sequence: head.sequence, place };
        let is_live = shared.table.rows(head.partition, head.identity).any(|known| known == row);
        is_live.then_some(LiveEntry { partition: head.partition, row, record })
    };
    LogParts::new(bytes, salt, FILE_HEAD_BYTES).filter_map(live).collect()
}

/// Returns the error for a log that has used up its file numbers. Only damage leads to it.
fn numbers_used_up(number: u32) -> StoreError {
    StoreError::Corrupt {
        path: "the manifest of reap records".to_owned(),
        offset: 0,
        reason: format!("no file number follows {number}; move the directory of reap records away"),
    }
}
