//! Writing of snapshots.

use super::format::{Footer, MAGIC, Row, VERSION, header};
use crate::error::StoreError;
use crate::index::{ENTRY_BYTES, PartitionIndex, Tag};
use crate::output::Output;
use quoit_model::hash::{Partition, RingSize};
use quoit_seam::Disk;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// Number of entries that are copied at once while a partition is locked: some 30 microseconds.
const PIECE_ENTRIES: usize = 8192;

/// Writes a snapshot under a temporary name; [`SnapshotWriter::finish`] renames it to its final name.
pub struct SnapshotWriter<'d> {
    output: Output<'d>,
    rows: Vec<Row>,
    piece: Vec<u8>,
}

impl<'d> SnapshotWriter<'d> {
    /// Starts snapshot `name`.
    ///
    /// # Errors
    ///
    /// If the file cannot be created.
    pub fn create(disk: &'d dyn Disk, name: &str, ring_size: RingSize) -> Result<Self, StoreError> {
        let mut output = Output::create(disk, name)?;
        output.push(&header())?;
        let empty = Row { offset: output.offset(), entry_count: 0, checksum: xxh3_64(&[]) };
        let rows = vec![empty; usize::from(ring_size.get())];
        Ok(Self { output, rows, piece: Vec::new() })
    }

    /// Writes the entries of a partition. `locked` must lock the partition and call the given function with
    /// its index; the writer calls `locked` once for each part of the entries. A change between two parts
    /// is in the snapshot if its entry comes in a later part. Partitions may be written in any order;
    /// partitions that are not written are empty.
    ///
    /// # Errors
    ///
    /// If the disk fails. The snapshot cannot be completed then.
    ///
    /// # Panics
    ///
    /// If the ring has no such partition.
    #[expect(
        clippy::indexing_slicing,
        reason = "callers compute the number from a placement; others panic, as documented"
    )]
    pub fn write_partition(
        &mut self,
        partition: Partition,
        mut locked: impl FnMut(&mut dyn FnMut(&PartitionIndex)),
    ) -> Result<(), StoreError> {
        let mut row = Row { offset: self.output.offset(), ..Row::default() };
        let mut checksum = Xxh3Default::new();
        let mut next = Some(Tag::MIN);
        while let Some(from) = next {
            self.piece.clear();
            let piece = &mut self.piece;
            let mut after = None;
            locked(&mut |index| after = index.write_from(from, PIECE_ENTRIES, piece));
            next = after;
            row.entry_count += (self.piece.len() / ENTRY_BYTES) as u64;
            checksum.update(&self.piece);
            self.output.push(&self.piece)?;
        }
        row.checksum = checksum.digest();
        self.rows[usize::from(partition.0)] = row;
        Ok(())
    }

    /// Completes the snapshot with the engine's state, makes it durable, and renames it to its final name.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub fn finish(mut self, state: &[u8]) -> Result<(), StoreError> {
        let footer = Footer {
            state_offset: self.output.offset(),
            state_size: state.len() as u64,
            partition_count: quoit_number::length_u32(self.rows.len()),
            version: VERSION,
            checksum: 0,
        };
        let table: Vec<u8> = self.rows.iter().flat_map(Row::encode).collect();
        let checked = footer.encode_checked();
        let mut checksum = Xxh3Default::new();
        for part in [state, &table, &checked] {
            checksum.update(part);
            self.output.push(part)?;
        }
        self.output.push(&checksum.digest().to_be_bytes())?;
        self.output.push(&MAGIC)?;
        self.output.finish()
    }
}
