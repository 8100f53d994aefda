//! Reading of snapshots.

use super::format::{FOOTER_BYTES, Footer, HEADER_BYTES, ROW_BYTES, Row, VERSION, header};
use crate::error::StoreError;
use crate::index::PartitionIndex;
use parking_lot::Mutex;
use quoit_seam::{Disk, DiskFile};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// A snapshot whose footer, table and state were verified. Entries are verified when they are loaded.
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
    /// If the file is missing, or is not a complete snapshot.
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
        let mut state = vec![0; quoit_number::index(tail_size)];
        file.read_at(&mut state, footer.state_offset)?;
        let mut checksum = Xxh3Default::new();
        checksum.update(&state);
        checksum.update(&footer.encode_checked());
        if checksum.digest() != footer.checksum {
            return Err(corrupt("the checksum of the footer is wrong"));
        }
        let table = state.split_off(quoit_number::index(footer.state_size));
        let rows = table.as_chunks().0.iter().map(Row::decode).collect();
        Ok(Self { file, path, rows, state, entries_end: footer.state_offset })
    }

    /// Number of partitions in the snapshot.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.rows.len()
    }

    /// The engine's state.
    #[must_use]
    pub fn state(&self) -> &[u8] {
        &self.state
    }

    /// Number of entries of all partitions.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.rows.iter().map(|row| row.entry_count).sum()
    }

    /// Loads the indexes of all partitions, from partition 0 on. Uses two threads if `thread_count` is
    /// above 1 (see [`Snapshot::THREADS_MAX`]), otherwise only the caller's.
    ///
    /// # Errors
    ///
    /// If the disk fails or entries are damaged. No part of the snapshot is usable then.
    #[expect(clippy::indexing_slicing, reason = "there is a slot for each row")]
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

    /// Maximum number of threads that make loading faster: beyond it, memory is the bottleneck.
    pub const THREADS_MAX: usize = 2;

    fn load_partition(&self, row: &Row, run: &mut Vec<u8>) -> Result<PartitionIndex, StoreError> {
        let corrupt = |reason: &str| corrupt_at(&self.path, row.offset, reason);
        let size = row
            .size_bytes(self.entries_end)
            .ok_or_else(|| corrupt("the table refers to entries beyond the end of the file"))?;
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
