//! Numbers of the batches in the journals, and the part of them that was durable.
//!
//! Each batch begins with an entry of the side space that has its *group*: a number that increases by one
//! with each batch in the store's life. So a gap in the numbers shows that batches are missing. The last
//! batches are missing if a later group was synced: its number is in later batches, and in the file
//! `synced` beside the journals.
//!
//! ```text
//! mark     first group that the batch stands for 8, group 8, last group known to be synced 8,
//!          lowest number that the batch's sequence may have 8,
//!          XXH3-64 of all bytes before, seeded with the store's id 8
//! synced   last group that was synced 8, XXH3-64 of that, seeded with the store's id 8
//! ```
//!
//! Numbers are little-endian; a number after a field is its size in bytes. The first group equals the group
//! in most batches. It is lower in the first batch after an opening, which also stands for the groups that
//! were cut off, and in a batch that replaces damaged ones.

use quoit_model::store_opening::StoreId;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Name of the file with the last group that was synced.
const SYNCED_NAME: &str = "synced";
const SYNCED_BYTES: usize = 16;

pub(super) const MARK_BYTES: usize = 40;

/// The mark of a batch. See the module's documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Mark {
    pub(in super::super) first: u64,
    pub(in super::super) group: u64,
    pub(in super::super) synced: u64,
    pub(in super::super) sequence_min: u64,
}

impl Mark {
    pub(in super::super) fn encode(&self, store_id: StoreId) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        let numbers = [self.first, self.group, self.synced, self.sequence_min];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let check = xxh3_64_with_seed(&bytes[..MARK_BYTES - 8], store_id.0);
        bytes[MARK_BYTES - 8..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// `None` if the bytes are not a mark of this store.
    pub(in super::super) fn read(bytes: &[u8], store_id: StoreId) -> Option<Self> {
        let (checked, rest) = bytes.split_last_chunk::<8>()?;
        let (numbers, []) = checked.as_chunks::<8>() else { return None };
        let [first, group, synced, sequence_min] = numbers else { return None };
        let is_own = xxh3_64_with_seed(checked, store_id.0).to_le_bytes() == *rest;
        let mark = Self {
            first: u64::from_le_bytes(*first),
            group: u64::from_le_bytes(*group),
            synced: u64::from_le_bytes(*synced),
            sequence_min: u64::from_le_bytes(*sequence_min),
        };
        (is_own && mark.is_sound()).then_some(mark)
    }

    /// True if [`Mark::read`] takes the mark for one: it stands for a group, and not all groups up to its
    /// own are durable.
    pub(in super::super) const fn is_sound(&self) -> bool {
        0 < self.first && self.first <= self.group && self.synced < self.group
    }
}

/// The file with the last group that was synced. It is written after each sync and not synced itself: it
/// survives the death of the process, and after the death of the machine it may have an older group.
pub(in super::super) struct SyncedFile {
    file: File,
    store_id: StoreId,
}

impl SyncedFile {
    pub(in super::super) fn open(directory: &Path, store_id: StoreId) -> io::Result<Self> {
        let path = directory.join(SYNCED_NAME);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        Ok(Self { file, store_id })
    }

    pub(in super::super) fn write(&self, group: u64) -> io::Result<()> {
        let mut bytes = [0; SYNCED_BYTES];
        bytes[..8].copy_from_slice(&group.to_le_bytes());
        bytes[8..].copy_from_slice(&check_of(group, self.store_id));
        self.file.write_all_at(&bytes, 0)
    }

    /// The last group that is known to have been synced; 0 if none is known.
    pub(super) fn read(directory: &Path, store_id: StoreId) -> io::Result<u64> {
        let bytes = match std::fs::read(directory.join(SYNCED_NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            bytes => bytes?,
        };
        let Ok::<[u8; SYNCED_BYTES], _>(bytes) = bytes.try_into() else { return Ok(0) };
        let (group, check) = bytes.split_first_chunk::<8>().expect("it is longer");
        let group = u64::from_le_bytes(*group);
        Ok(if check == check_of(group, store_id) { group } else { 0 })
    }
}

fn check_of(group: u64, store_id: StoreId) -> [u8; 8] {
    xxh3_64_with_seed(&group.to_le_bytes(), store_id.0).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: StoreId = StoreId(3);
    const OTHER: StoreId = StoreId(4);

    #[test]
    fn a_flipped_bit_makes_a_mark_unreadable() {
        let mark = Mark { first: 7, group: 7, synced: 5, sequence_min: 90 };
        let bytes = mark.encode(OWN);
        assert_eq!(Mark::read(&bytes, OWN), Some(mark));
        assert_eq!(Mark::read(&bytes, OTHER), None, "another store's");
        for bit in 0..8 * MARK_BYTES {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::read(&flipped, OWN), None, "bit {bit}");
        }
        assert_eq!(Mark::read(&bytes[1..], OWN), None);
    }

    #[test]
    fn the_synced_group_is_read_back_and_damage_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let read = || SyncedFile::read(directory.path(), OWN).unwrap();
        assert_eq!(read(), 0);
        let file = SyncedFile::open(directory.path(), OWN).unwrap();
        file.write(12).unwrap();
        file.write(13).unwrap();
        assert_eq!(read(), 13);
        assert_eq!(SyncedFile::read(directory.path(), OTHER).unwrap(), 0, "another store's");
        std::fs::write(directory.path().join(SYNCED_NAME), [1; SYNCED_BYTES]).unwrap();
        assert_eq!(read(), 0);
        std::fs::write(directory.path().join(SYNCED_NAME), [1; 3]).unwrap();
        assert_eq!(read(), 0);
    }
}
