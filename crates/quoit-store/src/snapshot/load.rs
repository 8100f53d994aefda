//! Reads a snapshot.

use super::format::{FOOTER_BYTES, Footer, HEADER_BYTES, ROW_BYTES, Row, VERSION, header};
use crate::error::StoreError;
use crate::index::PartitionIndex;
use parking_lot::Mutex;
use quoit_seam::{Disk, DiskFile};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// A snapshot whose footer, table and state are checked; the entries are checked when they are
/// loaded.
pub struct Snapshot {
    file: Arc<dyn DiskFile>,
    path: String,
    rows: Vec<Row>,
    state: Vec<u8>,
    entries_end: u64,
}

impl Snapshot {
    /// Opens snapshot `name`.
    ///
    /// # Errors
    ///
    /// When the file is missing, or is not a complete snapshot.
    pub fn open(disk: &dyn Disk, name: &str) -> Result<Self, StoreError> {
        let file = disk.open(name, false)?;
        let path = format!("{}/{name}", disk.path());
        let size_bytes = file.size_bytes()?;
        let footer_at = size_bytes.saturating_sub(FOOTER_BYTES as u64);
        let corrupt = |reason: &str| corrupt_at(&path, footer_at, reason);
        let mut found_header = [0; HEADER_BYTES];
        let mut found_footer = [0; FOOTER_BYTES];
        file.read_at(&mut found_header, 0)?;
        file.read_at(&mut found_footer, footer_at)?;
        if found_header[..8] != header()[..8] {
            return Err(corrupt_at(&path, 0, "not a snapshot"));
        }
        let footer = Footer::decode(&found_footer)
            .ok_or_else(|| corrupt("not a snapshot, or its end is cut off"))?;
        if footer.version != VERSION || found_header != header() {
            let version = footer.version;
            let reason = format!("snapshot of version {version}, this release reads {VERSION}");
            return Err(corrupt(&reason));
        }
        let table_size = u64::from(footer.partition_count) * ROW_BYTES as u64;
        let tail_size = footer.state_size.saturating_add(table_size);
        if footer.state_offset.checked_add(tail_size) != Some(footer_at) {
            return Err(corrupt("the footer contradicts the file's size"));
        }
        let mut state = vec![0; tail_size as usize];
        file.read_at(&mut state, footer.state_offset)?;
        let mut checksum = Xxh3Default::new();
        checksum.update(&state);
        checksum.update(&footer.encode_checked());
        if checksum.digest() != footer.checksum {
            return Err(corrupt("the checksum of the footer is wrong"));
        }
        let table = state.split_off(footer.state_size as usize);
        let rows = table.as_chunks().0.iter().map(Row::decode).collect();
        Ok(Self { file, path, rows, state, entries_end: footer.state_offset })
    }

    /// Number of partitions that the snapshot was made with.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.rows.len()
    }

    /// The state that the engine gave.
    #[must_use]
    pub fn state(&self) -> &[u8] {
        &self.state
    }

    /// Number of entries of all partitions.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.rows.iter().map(|row| row.entry_count).sum()
    }

    /// The indexes of all partitions, from 0 on. Works on `thread_count` threads, at most
    /// [`Snapshot::THREADS_MAX`]; with one, on the caller's.
    ///
    /// # Errors
    ///
    /// When the disk refuses, or entries are damaged: then nothing of the snapshot is good for use.
    pub fn load(&self, thread_count: usize) -> Result<Vec<PartitionIndex>, StoreError> {
        let next = AtomicUsize::new(0);
        let slots = Mutex::new(Vec::new());
        slots.lock().resize_with(self.rows.len(), PartitionIndex::new);
        let work = || -> Result<(), StoreError> {
            let mut run = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(row) = self.rows.get(number) else {
                    return Ok(());
                };
                let index = self.load_partition(row, &mut run)?;
                slots.lock()[number] = index;
            }
        };
        if thread_count <= 1 {
            work()?;
        } else {
            thread::scope(|scope| {
                let helper = scope.spawn(work);
                let own = work();
                helper.join().expect("loading does not panic").and(own)
            })?;
        }
        Ok(slots.into_inner())
    }

    /// More threads than this do not make loading faster: memory is the limit.
    pub const THREADS_MAX: usize = 2;

    fn load_partition(&self, row: &Row, run: &mut Vec<u8>) -> Result<PartitionIndex, StoreError> {
        let corrupt = |reason: &str| corrupt_at(&self.path, row.offset, reason);
        let size = row
            .size_bytes(self.entries_end)
            .ok_or_else(|| corrupt("entries that the table tells of are not in the file"))?;
        run.resize(size, 0);
        let read = self.file.read_at(run, row.offset)?;
        if read != size || xxh3_64(run) != row.checksum {
            return Err(corrupt("the checksum of a partition's entries is wrong"));
        }
        PartitionIndex::from_run(run).map_err(|error| corrupt(&error.to_string()))
    }
}

fn corrupt_at(path: &str, offset: u64, reason: &str) -> StoreError {
    StoreError::Corrupt { path: path.to_owned(), offset, reason: reason.to_owned() }
}
