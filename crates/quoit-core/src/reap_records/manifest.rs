//! The manifest: which log files there are, and up to when each partition's records have retired.
//!
//! ```text
//! byte  0  8  magic "QUOITRM\n"
//! byte  8  4  format version 1
//! byte 12  2  number of partitions of the ring
//! byte 14  2  0
//! byte 16  8  sequence number: all records made before have this one or a lower one
//! byte 24  4  number of log files
//! byte 28  4  0
//! byte 32     for each log file, in the order in which they were made, 24 bytes:
//!             number (4), 0 (4), bytes that are durable at least (8), salt (8)
//!             for each partition, 8 bytes: sequence number up to which its records have retired
//!             for each partition, 1 byte: 1 if records of it were lost, else 0
//!             XXH3-64 of all before, 8 bytes
//! ```
//!
//! Numbers are little-endian. The manifest is rewritten beside the old one and renamed over it whenever a
//! log file is made or removed, whenever records retire, when losses are settled, and when the node
//! starts or stops. A log file that it does not name has no entries that count: a new file gets entries
//! only after the manifest that names it is durable, and a file is removed only after the manifest that
//! no longer names it is durable. Only the last file that it names grows.

use super::ReapSequence;
use crate::little_endian::{u32_at, u64_at};
use quoit_model::hash::{Partition, RingSize};
use quoit_seam::{Disk, replace_file};
use quoit_store::error::StoreError;
use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64;

pub(super) const NAME: &str = "REAPED";
const NEW_NAME: &str = "REAPED.new";
const MAGIC: [u8; 8] = *b"QUOITRM\n";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 32;
const FILE_BYTES: usize = 24;
const CHECKSUM_BYTES: usize = 8;
/// Largest valid sequence number. No node makes so many records, so there are always higher numbers.
const SEQUENCE_MAX: u64 = u64::MAX / 2;

/// A log file as the manifest names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NamedFile {
    pub(super) number: u32,
    /// Bytes that are durable at least.
    pub(super) durable_bytes: u64,
    pub(super) salt: u64,
}

/// The content of the manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ReapManifest {
    /// All records made before have this sequence number or a lower one.
    pub(super) sequence: ReapSequence,
    pub(super) files: Vec<NamedFile>,
    /// Sequence number up to which the records of each partition have retired.
    pub(super) retired: Vec<ReapSequence>,
    /// Partitions of which records were lost.
    pub(super) lost: BTreeSet<Partition>,
}

/// Result of reading the manifest.
#[derive(Debug)]
pub(super) enum FoundManifest {
    Missing,
    Damaged,
    Whole(ReapManifest),
}

impl ReapManifest {
    pub(super) fn new(ring_size: RingSize) -> Self {
        let retired = vec![ReapSequence(0); usize::from(ring_size.get())];
        Self { sequence: ReapSequence(0), files: Vec::new(), retired, lost: BTreeSet::new() }
    }

    fn ring_size(&self) -> u16 {
        u16::try_from(self.retired.len()).expect("rings have at most 65535 partitions")
    }

    /// Notes that the records of a partition have retired up to a sequence number.
    ///
    /// # Panics
    ///
    /// If the partition is not in the ring.
    #[expect(clippy::indexing_slicing, reason = "others panic, as documented")]
    pub(super) fn retire(&mut self, partition: Partition, up_to: ReapSequence) {
        let known = &mut self.retired[usize::from(partition.0)];
        *known = up_to.max(*known);
    }

    /// True if a record of this partition with this sequence number has retired.
    pub(super) fn is_retired(&self, partition: Partition, sequence: ReapSequence) -> bool {
        let retired = self.retired.get(usize::from(partition.0));
        retired.is_some_and(|up_to| sequence <= *up_to)
    }

    /// Notes that records of a partition were lost; `None` for all partitions.
    pub(super) fn note_lost(&mut self, partition: Option<Partition>) {
        match partition.filter(|partition| usize::from(partition.0) < self.retired.len()) {
            Some(partition) => {
                self.lost.insert(partition);
            }
            None => {
                let all = (0..self.ring_size()).map(Partition);
                self.lost.extend(all);
            }
        }
    }

    /// Reads the manifest of a directory. Removes the file that an interrupted write has left.
    ///
    /// # Errors
    ///
    /// If the disk fails, or the manifest is of another ring size or a newer format.
    pub(super) fn read(disk: &dyn Disk, ring_size: RingSize) -> Result<FoundManifest, StoreError> {
        let names = disk.list()?;
        if names.iter().any(|name| name == NEW_NAME) {
            disk.remove(NEW_NAME)?;
        }
        if !names.iter().any(|name| name == NAME) {
            return Ok(FoundManifest::Missing);
        }
        let file = disk.open(NAME, false)?;
        let size_bytes = usize::try_from(file.size_bytes()?).unwrap_or(usize::MAX);
        let most = HEAD_BYTES + CHECKSUM_BYTES + 9 * usize::from(u16::MAX) + (FILE_BYTES << 20);
        let mut bytes = vec![0; size_bytes.min(most)];
        let count = file.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        match Self::decode(&bytes) {
            Ok(Some(manifest)) if manifest.ring_size() != ring_size.get() => {
                Err(StoreError::OtherRing {
                    path: disk.path(),
                    stored: manifest.ring_size(),
                    wanted: ring_size.get(),
                })
            }
            Ok(Some(manifest)) => Ok(FoundManifest::Whole(manifest)),
            Ok(None) => Ok(FoundManifest::Damaged),
            Err(version) => Err(StoreError::Corrupt {
                path: format!("{}/{NAME}", disk.path()),
                offset: 8,
                reason: format!("format version {version} is of a newer release; install that one"),
            }),
        }
    }

    /// Decodes a manifest; `None` if the bytes are damaged or not a manifest. The error is the version of
    /// a newer format.
    fn decode(bytes: &[u8]) -> Result<Option<Self>, u32> {
        let Some((content, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Ok(None);
        };
        let is_whole = xxh3_64(content).to_le_bytes() == *checksum;
        let Some((head, rest)) = content.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        if !is_whole || !head.starts_with(&MAGIC) {
            return Ok(None);
        }
        let version = short_number(head, 8);
        if version != VERSION {
            return Err(version);
        }
        let ring_size = usize::from(u16::from_le_bytes([head[12], head[13]]));
        let file_count = short_number(head, 24) as usize;
        let files_bytes = file_count.saturating_mul(FILE_BYTES);
        if rest.len() != files_bytes.saturating_add(9 * ring_size) {
            return Ok(None);
        }
        let (files, by_partition) = rest.split_at(files_bytes);
        let (retired, lost) = by_partition.split_at(8 * ring_size);
        let files = files.as_chunks::<FILE_BYTES>().0.iter().map(|file| NamedFile {
            number: short_number(file, 0),
            durable_bytes: number(file, 8),
            salt: number(file, 16),
        });
        let files: Vec<_> = files.collect();
        let retired = retired.as_chunks::<8>().0.iter();
        let retired = retired.map(|each| ReapSequence(u64::from_le_bytes(*each)));
        let retired: Vec<_> = retired.collect();
        let lost = (0..).map(Partition).zip(lost).filter(|(_, is_lost)| **is_lost != 0);
        // The next records must not count as retired, and the file that grows must be the last one.
        let sequence = ReapSequence(number(head, 16));
        let is_ordered = files.is_sorted_by(|one, next| one.number < next.number);
        if !is_ordered || retired.iter().any(|up_to| *up_to > sequence) || sequence.0 > SEQUENCE_MAX
        {
            return Ok(None);
        }
        Ok(Some(Self {
            sequence,
            files,
            retired,
            lost: lost.map(|(partition, _)| partition).collect(),
        }))
    }

    fn encode(&self) -> Vec<u8> {
        // The next start would consider such a manifest damaged, and all partitions to have lost records.
        assert!(
            self.files.is_sorted_by(|one, next| one.number < next.number),
            "the files are in order, and the one that grows is the last one"
        );
        assert!(
            self.retired.iter().all(|up_to| *up_to <= self.sequence),
            "only records that were made have retired"
        );
        let ring_size = self.ring_size();
        let file_count = u32::try_from(self.files.len()).expect("file numbers have 32 bits");
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&ring_size.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.sequence.0.to_le_bytes());
        bytes.extend_from_slice(&file_count.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for file in &self.files {
            bytes.extend_from_slice(&file.number.to_le_bytes());
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&file.durable_bytes.to_le_bytes());
            bytes.extend_from_slice(&file.salt.to_le_bytes());
        }
        for sequence in &self.retired {
            bytes.extend_from_slice(&sequence.0.to_le_bytes());
        }
        let is_lost = |index| self.lost.contains(&Partition(index));
        bytes.extend((0..ring_size).map(|index| u8::from(is_lost(index))));
        let checksum = xxh3_64(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        let head_and_files_bytes = HEAD_BYTES + FILE_BYTES * self.files.len();
        debug_assert_eq!(
            bytes.len(),
            head_and_files_bytes + 9 * self.retired.len() + CHECKSUM_BYTES,
            "the manifest has the length by which it is read"
        );
        bytes
    }

    /// Replaces the manifest on disk by this one, durably.
    ///
    /// # Errors
    ///
    /// If the disk fails. Then the former manifest or this one is in place, until a call succeeds.
    pub(super) fn write(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        Ok(replace_file(disk, NAME, &self.encode()).map(drop)?)
    }
}

fn number<const SIZE: usize>(bytes: &[u8; SIZE], offset: usize) -> u64 {
    u64_at(bytes, offset).expect("heads and entries have all of their numbers")
}

fn short_number<const SIZE: usize>(bytes: &[u8; SIZE], offset: usize) -> u32 {
    u32_at(bytes, offset).expect("heads and entries have all of their numbers")
}
