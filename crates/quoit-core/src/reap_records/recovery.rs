//! Recovery at the start: reads the manifest and the log files, and finds out whether records were lost.
//!
//! An entry says how many bytes of its file were durable when it was written, and the manifest says the
//! same for each file. Damage before that point means that records were lost. Damage after it is taken
//! for a torn write of the last batch, whose records were never reported as durable; it is dropped.

use super::entry::{EntryHead, LogPart, LogParts};
use super::log::{self, EntrySource, FILE_HEAD_BYTES, LogFile, ReadEntry, read_all};
use super::manifest::{FoundManifest, NamedFile, ReapManifest};
use super::table::{EntryPosition, ReapTable, TableRow};
use bytes::Bytes;
use quoit_model::hash::{Partition, RingSize};
use quoit_number::length_u32;
use quoit_seam::Disk;
use quoit_store::engine::IoMode;
use quoit_store::error::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The content of the directory.
pub(super) struct Recovered {
    /// The manifest's sequence number, retirements and losses, updated by what was found in the files.
    pub(super) manifest: ReapManifest,
    pub(super) files: BTreeMap<u32, LogFile>,
    /// The file to which entries can be appended.
    pub(super) active: Option<u32>,
    /// Number for the next file, higher than all others.
    pub(super) next_number: u32,
    pub(super) table: ReapTable,
}

/// Reads the directory. Removes the files that the manifest does not name.
///
/// # Errors
///
/// If the disk fails, or the manifest is of another ring size or a newer format.
pub(super) fn recover(disk: &dyn Disk, ring_size: RingSize) -> Result<Recovered, StoreError> {
    let found = ReapManifest::read(disk, ring_size)?;
    let names = disk.list()?;
    let on_disk: BTreeSet<u32> = names.iter().filter_map(|name| log::number_of(name)).collect();
    let mut recovery = Recovery {
        disk,
        ring_size,
        manifest: ReapManifest::new(ring_size),
        files: BTreeMap::new(),
        rows: BTreeMap::new(),
    };
    let mut active = None;
    match found {
        FoundManifest::Whole(manifest) => {
            recovery.manifest = manifest;
            active = recovery.read_named_files(&on_disk)?;
        }
        FoundManifest::Missing | FoundManifest::Damaged => {
            for number in &on_disk {
                recovery.read_unnamed(*number)?;
            }
            // Entries are written only after the first manifest. So without a manifest, entries mean that
            // it was lost.
            if matches!(found, FoundManifest::Damaged) || !recovery.rows.is_empty() {
                recovery.manifest.note_lost(None);
            }
        }
    }
    let named = recovery.manifest.files.iter().map(|file| file.number);
    let highest = on_disk.iter().copied().chain(named).max();
    recovery.finish(active, highest.map_or(1, |highest| highest.saturating_add(1)))
}

struct Recovery<'a> {
    disk: &'a dyn Disk,
    ring_size: RingSize,
    manifest: ReapManifest,
    files: BTreeMap<u32, LogFile>,
    /// Rows of the sound entries, by partition.
    rows: BTreeMap<Partition, Vec<TableRow>>,
}

impl Recovery<'_> {
    /// Reads the files that the manifest names, removes the others, and returns the one that grows.
    fn read_named_files(&mut self, on_disk: &BTreeSet<u32>) -> Result<Option<u32>, StoreError> {
        let named = self.manifest.files.clone();
        let numbers: BTreeSet<u32> = named.iter().map(|file| file.number).collect();
        for number in on_disk.difference(&numbers) {
            self.disk.remove(&log::name(*number))?;
        }
        let last = named.last().map(|file| file.number);
        for file in named {
            if on_disk.contains(&file.number) {
                self.read_named(&file, Some(file.number) == last)?;
            } else {
                self.manifest.note_lost(None);
            }
        }
        Ok(last.filter(|number| self.files.get(number).is_some_and(|file| !file.is_damaged)))
    }

    /// Reads a file that the manifest names. The last one may have more entries than the manifest knows.
    fn read_named(&mut self, named: &NamedFile, is_last: bool) -> Result<(), StoreError> {
        let file = self.disk.open(&log::name(named.number), false)?;
        let mut bytes = read_all(&*file)?;
        if (bytes.len() as u64) < named.durable_bytes {
            self.manifest.note_lost(None);
        }
        if !is_last {
            bytes.truncate(usize::try_from(named.durable_bytes).unwrap_or(usize::MAX));
        }
        let mut file = LogFile::new(file, named.salt);
        let durable = self.take(named.number, &mut file, &bytes, named.durable_bytes);
        if is_last {
            settle_end(&file, &bytes, durable)?;
        }
        self.files.insert(named.number, file);
        Ok(())
    }

    /// Reads a file when there is no manifest to say which files count.
    fn read_unnamed(&mut self, number: u32) -> Result<(), StoreError> {
        let file = self.disk.open(&log::name(number), false)?;
        let bytes = read_all(&*file)?;
        let Some(salt) = log::salt_of(&bytes) else {
            // The process ended while it created the file, or the head is damaged.
            if bytes.len() > FILE_HEAD_BYTES {
                self.manifest.note_lost(None);
            }
            return Ok(());
        };
        let mut file = LogFile::new(file, salt);
        self.take(number, &mut file, &bytes, 0);
        settle_end(&file, &bytes, 0)?;
        self.files.insert(number, file);
        Ok(())
    }

    /// Takes the entries of a file. Damage in the part that was certainly durable means that records were
    /// lost. Returns the size of that part.
    fn take(&mut self, number: u32, file: &mut LogFile, bytes: &Bytes, by_manifest: u64) -> u64 {
        let parts: Vec<_> = LogParts::new(bytes, file.salt, FILE_HEAD_BYTES)
            .map(|(range, part)| (range, FoundPart::of(&part)))
            .collect();
        let durable = durable_until(&parts, by_manifest);
        let end = sound_end(&parts);
        file.durable_bytes = length_u32(end);
        for (range, part) in parts {
            let was_durable = (range.start as u64) < durable;
            file.is_damaged |=
                !matches!(part, FoundPart::Sound(_)) && (range.start < end || was_durable);
            match part {
                FoundPart::Sound(head) if head.partition.0 < self.ring_size.get() => {
                    self.manifest.sequence = self.manifest.sequence.max(head.sequence);
                    file.entry_count += 1;
                    let place = EntryPosition { file: number, offset: length_u32(range.start) };
                    let row = TableRow { identity: head.identity, sequence: head.sequence, place };
                    if !self.manifest.is_retired(head.partition, head.sequence) {
                        self.rows.entry(head.partition).or_default().push(row);
                    }
                }
                FoundPart::Damaged(head) if was_durable => {
                    if !self.manifest.is_retired(head.partition, head.sequence) {
                        self.manifest.note_lost(Some(head.partition));
                    }
                }
                FoundPart::Sound(_) | FoundPart::Unknown if was_durable => {
                    self.manifest.note_lost(None);
                }
                FoundPart::Sound(_) | FoundPart::Damaged(_) | FoundPart::Unknown => {}
            }
        }
        durable
    }

    /// Builds the table from the entries: of each name, the newest entry counts.
    fn finish(mut self, active: Option<u32>, next_number: u32) -> Result<Recovered, StoreError> {
        let mut table = ReapTable::new(self.ring_size);
        for (partition, mut rows) in std::mem::take(&mut self.rows) {
            rows.sort_by_key(|row| (row.identity, row.sequence));
            // A crash while entries were moved leaves two copies of an entry.
            rows.dedup_by_key(|row| (row.identity, row.sequence));
            for of_identity in rows.chunk_by(|one, two| one.identity == two.identity) {
                for row in self.newest_of_each_name(of_identity)? {
                    table.insert(partition, row);
                    if let Some(file) = self.files.get_mut(&row.place.file) {
                        file.live_count += 1;
                    }
                }
            }
        }
        let Self { manifest, files, .. } = self;
        debug_assert!(
            active.is_none_or(|number| files.contains_key(&number)),
            "the file that grows was read"
        );
        Ok(Recovered { manifest, files, active, next_number, table })
    }

    /// Returns the newest entry of each name, of entries with one identity in the order of their sequence
    /// numbers. All damaged entries count as one name.
    fn newest_of_each_name(&self, rows: &[TableRow]) -> Result<Vec<TableRow>, StoreError> {
        if let [row] = rows {
            return Ok(vec![*row]);
        }
        debug_assert!(
            rows.is_sorted_by_key(|row| row.sequence),
            "of each name, the last entry is the newest one"
        );
        let mut newest: BTreeMap<Option<Bytes>, TableRow> = BTreeMap::new();
        for row in rows {
            let file = self.files.get(&row.place.file);
            let file = file.expect("the rows are those of files that were read");
            let name = match EntrySource::new(file, row).read(IoMode::Wait)? {
                ReadEntry::Whole(record) => Some(record.name),
                ReadEntry::Damaged | ReadEntry::WouldBlock => None,
            };
            newest.insert(name, *row);
        }
        Ok(newest.into_values().collect())
    }
}

/// A part of a log file, without the record.
enum FoundPart {
    Sound(EntryHead),
    Damaged(EntryHead),
    Unknown,
}

impl FoundPart {
    const fn of(part: &LogPart) -> Self {
        match part {
            LogPart::Whole(head, _) => Self::Sound(*head),
            LogPart::Damaged(head) => Self::Damaged(*head),
            LogPart::Unknown => Self::Unknown,
        }
    }
}

/// Returns the number of bytes that were certainly durable, by the manifest or by an entry that was
/// written later.
fn durable_until(parts: &[(Range<usize>, FoundPart)], by_manifest: u64) -> u64 {
    let by_entries = parts.iter().filter_map(|(_, part)| match part {
        FoundPart::Sound(head) | FoundPart::Damaged(head) => Some(u64::from(head.durable_bytes)),
        FoundPart::Unknown => None,
    });
    by_entries.max().unwrap_or(0).max(by_manifest)
}

/// Returns the end of the last sound entry.
fn sound_end(parts: &[(Range<usize>, FoundPart)]) -> usize {
    let sound = parts.iter().rev().find(|(_, part)| matches!(part, FoundPart::Sound(_)));
    sound.map_or(FILE_HEAD_BYTES, |(range, _)| range.end)
}

/// Makes the last entries of a file durable. Bytes after them are overwritten by the next entries.
///
/// The former process may have written its last entries and failed to sync them. After a failed sync,
/// pages look clean, so another sync would not write them. Therefore they are written again.
fn settle_end(file: &LogFile, bytes: &Bytes, durable: u64) -> Result<(), StoreError> {
    let end = file.durable_bytes as usize;
    let start = usize::try_from(durable).unwrap_or(usize::MAX).max(FILE_HEAD_BYTES);
    if start >= end {
        return Ok(());
    }
    let unsettled = bytes.get(start..end).expect("the file was read up to its last sound entry");
    file.file.write_at(unsettled, start as u64)?;
    Ok(file.file.sync()?)
}
