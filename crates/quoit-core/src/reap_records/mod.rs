//! Reap records: durable notes of tombstones that were reaped.
//!
//! A reaped tombstone has left the engine and its index, but older copies of the deleted record may still
//! arrive from other nodes. The reap record keeps the tombstone, against which they are compared. It is in
//! log files of its own, and is durable before the tombstone is removed. A crash in between leaves both,
//! which does no harm. Memory has 24 bytes for each reap record; its name and tombstone are read from the log
//! when a record with the same identity arrives.
//!
//! - [`entry`]: the format of entries in log files; [`log`]: the files themselves
//! - [`manifest`]: which files count, up to when records have retired, which partitions have lost some
//! - [`recovery`]: reads the files when the node starts
//! - [`shared`]: state that readers and writers share, with the table
//! - [`table`]: the table in memory
//! - [`writer`]: appends entries, moves live ones out of files that are mostly dead, removes files
//!
//! If a part of the files is damaged, its partitions count as having lost reap records: there the node
//! can't tell a deleted record from a missing one any more. `docs/design/reap-records.md` has the
//! reasons.

mod entry;
#[cfg(any(test, feature = "testing"))]
mod fuzz;
mod log;
mod manifest;
mod recovery;
mod shared;
mod table;
mod writer;

#[cfg(any(test, feature = "testing"))]
pub use fuzz::{fuzz_reap_records, reap_record_samples};

use bytes::Bytes;
use log::ReadEntry;
use parking_lot::{Mutex, RwLock};
use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_planted::planted;
use quoit_seam::Disk;
use quoit_store::engine::{IoMode, RecordAt};
use quoit_store::error::StoreError;
use shared::{Addition, RecordSource, SharedTables};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use table::{EntryPosition, TableRow};
use thiserror::Error;
use writer::LogWriter;

/// Sequence number of a reap record: later ones of the node have higher numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct ReapSequence(u64);

/// A tombstone that was reaped, with the name of its record.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ReapRecord {
    /// The partition of the record.
    pub(crate) partition: Partition,
    /// The record's identity hash.
    pub(crate) identity: Identity,
    /// The record's encoded name.
    pub(crate) name: Bytes,
    /// The encoded tombstone.
    pub(crate) tombstone: Bytes,
}

/// Bounds of reap records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReapRecordLimits {
    /// Largest number of reap records of a node (`reaped.maximum`). If it is reached, tombstones are not
    /// reaped until some reap records retire.
    pub count_max: usize,
    /// Size at which a log file is full, in bytes.
    pub file_bytes_max: u32,
}

impl Default for ReapRecordLimits {
    fn default() -> Self {
        Self { count_max: 4_000_000, file_bytes_max: 16 << 20 }
    }
}

/// Reason for which reap records were not made.
#[derive(Clone, Debug, Error)]
pub(crate) enum AddReapRecordsError {
    /// The node has the maximum number of reap records. Tombstones have to wait until some retire.
    #[error("the node keeps {count_max} reap records (reaped.maximum) and can't make more")]
    Full {
        /// The bound.
        count_max: usize,
    },
    /// The disk failed, or a file is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Result of looking for the reap record of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ReapedTombstone {
    /// There is no reap record.
    Missing,
    /// The encoded tombstone.
    Found(Bytes),
    /// It has to be read from the disk: repeat with [`IoMode::Wait`].
    WouldBlock,
}

/// Figures of reap records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReapRecordStats {
    /// Number of reap records.
    pub count: usize,
    /// Largest number of reap records that the node keeps.
    pub count_max: usize,
    /// Size of their log files, in bytes. If they are kept in memory only, the size of their names and
    /// tombstones.
    pub size_bytes: u64,
    /// Number of partitions that have lost reap records by damage.
    pub lost_partition_count: usize,
}

/// The reap records of a node.
pub(crate) struct ReapRecords {
    shared: RwLock<SharedTables>,
    /// Lock order: `writer` before `shared`. Taken by each change. `None` if nothing is kept on disk.
    writer: Mutex<Option<LogWriter>>,
    /// Number of rows of the table. It is mostly 0, and then requests need no lock.
    count: AtomicUsize,
    limits: ReapRecordLimits,
}

impl ReapRecords {
    /// Returns reap records that are kept in memory only.
    pub(crate) fn in_memory(ring_size: RingSize, limits: ReapRecordLimits) -> Self {
        Self {
            shared: RwLock::new(SharedTables::new(ring_size)),
            writer: Mutex::default(),
            count: AtomicUsize::new(0),
            limits,
        }
    }

    /// Opens reap records that are kept on a disk. `entropy` must be random: file salts are made from it,
    /// which keep clients from writing bytes that look like entries of the log.
    ///
    /// # Errors
    ///
    /// If the disk fails, or has reap records of another ring size or of a newer format.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        ring_size: RingSize,
        limits: ReapRecordLimits,
        entropy: u64,
    ) -> Result<Self, StoreError> {
        let recovered = recovery::recover(&*disk, ring_size)?;
        let writer = LogWriter::new(disk, &recovered, limits.file_bytes_max, entropy);
        let recovery::Recovered { manifest, files, table, .. } = recovered;
        if !manifest.lost.is_empty() {
            let partition_count = manifest.lost.len();
            tracing::error!(partition_count, "reap records of partitions were lost");
        }
        let opened = Self {
            count: AtomicUsize::new(table.count()),
            shared: RwLock::new(SharedTables {
                table,
                manifest,
                files,
                in_memory: BTreeMap::new(),
            }),
            writer: Mutex::new((!planted!(ForgetsReapRecords)).then_some(writer)),
            limits,
        };
        opened.settle();
        Ok(opened)
    }

    /// Writes losses and the ends of files to the manifest, and moves entries out of damaged files.
    /// Otherwise the next start would find the same damage, and could not know any more that a crash had
    /// only torn those entries.
    fn settle(&self) {
        let mut writer = self.writer.lock();
        let Some(log) = writer.as_mut() else { return };
        let is_new = {
            let shared = self.shared.read();
            shared.files.is_empty() && shared.manifest.lost.is_empty()
        };
        let settled = match is_new {
            true => Ok(()),
            false => log.settle(&self.shared),
        };
        if let Err(fault) = settled {
            tracing::warn!(%fault, "reap records are left as the former process left them");
        }
        self.note_count(&self.shared.read());
    }

    /// Notes the number of rows. Called, under the lock of the writer, after each change of the table.
    fn note_count(&self, shared: &SharedTables) {
        shared.check();
        self.count.store(shared.table.count(), Ordering::Release);
    }

    /// True if there are no reap records. Costs one load.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// True if there may be a reap record with this identity. Takes a lock for a search in memory.
    pub(crate) fn may_have(&self, partition: Partition, identity: Identity) -> bool {
        !self.is_empty() && self.shared.read().table.rows(partition, identity).next().is_some()
    }

    /// Returns the reaped tombstone of a record. Reads the log if the table has the identity.
    ///
    /// # Errors
    ///
    /// If the disk fails, or the entry is damaged: then it is not known what was deleted under this
    /// identity.
    pub(crate) fn get(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
    ) -> Result<ReapedTombstone, StoreError> {
        if self.is_empty() {
            return Ok(ReapedTombstone::Missing);
        }
        for (row, source) in self.sources(at.partition, at.identity) {
            match source.read(access)? {
                ReadEntry::Whole(record) if record.name == at.encoded => {
                    return Ok(ReapedTombstone::Found(record.tombstone));
                }
                ReadEntry::Whole(_) => {}
                ReadEntry::WouldBlock => return Ok(ReapedTombstone::WouldBlock),
                ReadEntry::Damaged => return Err(self.note_damaged(at.partition, &row)),
            }
        }
        Ok(ReapedTombstone::Missing)
    }

    fn sources(&self, partition: Partition, identity: Identity) -> Vec<(TableRow, RecordSource)> {
        let shared = self.shared.read();
        let rows = shared.table.rows(partition, identity);
        rows.map(|row| (row, shared.source(&row))).collect()
    }

    /// Notes that an entry is damaged and its partition has lost records. Returns the error for the caller.
    fn note_damaged(&self, partition: Partition, row: &TableRow) -> StoreError {
        let mut shared = self.shared.write();
        shared.manifest.note_lost(Some(partition));
        if let Some(file) = shared.files.get_mut(&row.place.file) {
            file.is_damaged = true;
        }
        StoreError::Corrupt {
            path: log::name(row.place.file),
            offset: row.place.offset.into(),
            reason: "a reap record is damaged".to_owned(),
        }
    }

    /// Makes reap records durably, all or none of them. A former reap record of the same name is replaced
    /// by what `merge` makes of the former tombstone and the new one. If that equals the former
    /// tombstone, the former record stays, with its sequence number.
    ///
    /// # Errors
    ///
    /// If the maximum number is reached, or the disk fails.
    pub(crate) fn add(
        &self,
        records: Vec<ReapRecord>,
        merge: &dyn Fn(&Bytes, &Bytes) -> Bytes,
    ) -> Result<(), AddReapRecordsError> {
        let mut writer = self.writer.lock();
        debug_assert_eq!(
            self.count.load(Ordering::Relaxed),
            self.shared.read().table.count(),
            "the number of rows is noted after each change of the table"
        );
        let additions = self.additions(records, merge)?;
        let new_count = additions.iter().filter(|addition| addition.former.is_none()).count();
        let Self { limits: ReapRecordLimits { count_max, .. }, .. } = *self;
        if new_count > 0 && self.count.load(Ordering::Relaxed) + new_count > count_max {
            return Err(AddReapRecordsError::Full { count_max });
        }
        let first = self.take_sequences(additions.len() as u64);
        let sequences = (first.0..).map(ReapSequence);
        let records = additions.iter().map(|addition| &addition.record);
        let entries: Vec<_> = sequences.zip(records).collect();
        let places = match writer.as_mut() {
            Some(log) => log.append(&self.shared, &entries)?,
            None => vec![EntryPosition::default(); entries.len()],
        };
        let replaces_some = additions.iter().any(|addition| addition.former.is_some());
        let mut shared = self.shared.write();
        let sequences = (first.0..).map(ReapSequence);
        for ((sequence, place), addition) in sequences.zip(places).zip(additions) {
            shared.take_in(addition, sequence, place, writer.is_none());
        }
        self.note_count(&shared);
        drop(shared);
        if replaces_some && let Some(log) = writer.as_mut() {
            if let Err(fault) = log.give_up_files(&self.shared) {
                tracing::warn!(%fault, "files of reap records that are mostly dead stay");
            }
            // Entries that could not be moved are gone.
            self.note_count(&self.shared.read());
        }
        Ok(())
    }

    /// Takes sequence numbers. They are never used twice, even if writing fails, since some of the
    /// entries may be on disk.
    fn take_sequences(&self, count: u64) -> ReapSequence {
        let mut shared = self.shared.write();
        let first = ReapSequence(shared.manifest.sequence.0 + 1);
        shared.manifest.sequence.0 += count;
        first
    }

    /// Returns the records to be written: merged with each other and with former ones of the same name,
    /// without those that change nothing.
    fn additions(
        &self,
        records: Vec<ReapRecord>,
        merge: &dyn Fn(&Bytes, &Bytes) -> Bytes,
    ) -> Result<Vec<Addition>, StoreError> {
        let mut by_name: BTreeMap<(Partition, Bytes), ReapRecord> = BTreeMap::new();
        for mut record in records {
            let key = (record.partition, record.name.clone());
            if let Some(other) = by_name.get(&key) {
                record.tombstone = merge(&other.tombstone, &record.tombstone);
            }
            by_name.insert(key, record);
        }
        let mut additions = Vec::with_capacity(by_name.len());
        for mut record in by_name.into_values() {
            let former = self.former(&record)?;
            if let Some((_, tombstone)) = &former {
                record.tombstone = merge(tombstone, &record.tombstone);
            }
            match former {
                Some((_, tombstone)) if tombstone == record.tombstone => {}
                former => additions.push(Addition { record, former: former.map(|(row, _)| row) }),
            }
        }
        Ok(additions)
    }

    /// Returns the former record of the same name. A damaged entry can't be recognized by its name; it
    /// stays beside the new one.
    fn former(&self, record: &ReapRecord) -> Result<Option<(TableRow, Bytes)>, StoreError> {
        if self.is_empty() {
            return Ok(None);
        }
        for (row, source) in self.sources(record.partition, record.identity) {
            match source.read(IoMode::Wait)? {
                ReadEntry::Whole(former) if former.name == record.name => {
                    return Ok(Some((row, former.tombstone)));
                }
                ReadEntry::Damaged => {
                    self.note_damaged(record.partition, &row);
                }
                ReadEntry::Whole(_) | ReadEntry::WouldBlock => {}
            }
        }
        Ok(None)
    }

    /// Returns the last sequence number that was used: all records made later have higher ones.
    pub(crate) fn sequence(&self) -> ReapSequence {
        self.shared.read().manifest.sequence
    }

    /// Removes the records of partitions up to a sequence number, and returns how many there were. Files
    /// that are mostly dead afterwards are removed, and their live entries are written again. Each
    /// removed entry causes at most one other to be written again.
    ///
    /// # Errors
    ///
    /// If the disk fails. The records may then be back after a restart, which does no harm.
    pub(crate) fn retire(
        &self,
        settled: &[(Partition, ReapSequence)],
    ) -> Result<usize, StoreError> {
        let mut writer = self.writer.lock();
        let mut count = 0;
        for (partition, up_to) in settled {
            // Requests look records up meanwhile: they wait for one partition at most.
            let mut shared = self.shared.write();
            // A record that is made later must not count as retired.
            let up_to = (*up_to).min(shared.manifest.sequence);
            let retired = shared.table.retire(*partition, up_to);
            if retired.is_empty() {
                continue;
            }
            count += retired.len();
            retired.iter().for_each(|row| shared.note_dead(row));
            shared.manifest.retire(*partition, up_to);
            self.note_count(&shared);
        }
        if count > 0
            && let Some(log) = writer.as_mut()
        {
            let settled = log.settle(&self.shared);
            self.note_count(&self.shared.read());
            settled?;
        }
        Ok(count)
    }

    /// Returns the records of a partition from an identity on, and the identity to continue with. They
    /// are about `limit` records; all records of one identity stay together. A damaged record is left
    /// out, and its partition counts as having lost records.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(crate) fn page(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
    ) -> Result<(Vec<ReapRecord>, Option<Identity>), StoreError> {
        let shared = self.shared.read();
        let (rows, next) = shared.table.page(partition, from, limit);
        let sources: Vec<_> = rows.iter().map(|row| (row, shared.source(row))).collect();
        drop(shared);
        let mut records = Vec::with_capacity(sources.len());
        for (row, source) in sources {
            match source.read(IoMode::Wait)? {
                ReadEntry::Whole(record) => records.push(record),
                ReadEntry::Damaged | ReadEntry::WouldBlock => {
                    self.note_damaged(partition, row);
                }
            }
        }
        Ok((records, next))
    }

    /// Writes the present ends of files to the manifest, before the process ends. The next start then
    /// notices if a file was cut short. Without this, it notices a cut only if it is before the end that
    /// the manifest had noted earlier.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(crate) fn note_ends(&self) -> Result<(), StoreError> {
        match self.writer.lock().as_mut() {
            Some(log) if !self.shared.read().files.is_empty() => log.write_manifest(&self.shared),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the partitions that have reap records.
    pub(crate) fn partitions(&self) -> BTreeSet<Partition> {
        self.shared.read().table.partitions().map(|(partition, _)| partition).collect()
    }

    /// Returns the partitions that have lost reap records, by damage or because files are missing. There
    /// the node can't tell whether a record that arrives was deleted.
    pub(crate) fn lost(&self) -> BTreeSet<Partition> {
        self.shared.read().manifest.lost.clone()
    }

    /// Clears the note of lost records, durably, because the node gets the reap records of other nodes.
    ///
    /// # Errors
    ///
    /// If the disk fails. The losses then stay noted.
    pub(crate) fn settle_losses(&self) -> Result<(), StoreError> {
        let mut writer = self.writer.lock();
        let lost = std::mem::take(&mut self.shared.write().manifest.lost);
        let written = match writer.as_mut() {
            Some(log) => log.write_manifest(&self.shared),
            None => Ok(()),
        };
        if written.is_err() {
            self.shared.write().manifest.lost.extend(lost);
        }
        written
    }

    /// Returns figures for operators.
    pub(crate) fn stats(&self) -> ReapRecordStats {
        let shared = self.shared.read();
        let files = shared.files.values().map(|file| u64::from(file.durable_bytes));
        let kept = shared.in_memory.values();
        let kept = kept.map(|record| (record.name.len() + record.tombstone.len()) as u64);
        ReapRecordStats {
            count: shared.table.count(),
            count_max: self.limits.count_max,
            size_bytes: files.chain(kept).sum(),
            lost_partition_count: shared.manifest.lost.len(),
        }
    }
}

#[cfg(test)]
mod tests;
