//! Keys in memory, in the order of a key file.

use super::entry::{KeyBefore, KeyEntry, KeyWrite, decode_whole, decode_whole_key, encode};
use super::footer::KeyFileFooter;
use super::writer::KeyFileWriter;
use crate::error::StoreError;
use quoit_model::key::KeyRef;
use quoit_number::index;
use quoit_seam::Disk;
use std::cmp::Ordering;

/// Collects entries in any order; [`KeyRunBuilder::sort`] builds a [`KeyRun`] from them.
///
/// An entry takes about 35 bytes in addition to its key.
#[derive(Clone, Debug, Default)]
pub struct KeyRunBuilder {
    entries: Vec<u8>,
    starts: Vec<u64>,
    sequence_min: Option<u64>,
}

impl KeyRunBuilder {
    /// Adds an entry.
    ///
    /// # Panics
    ///
    /// If `encoded` is not an encoded key.
    pub fn push(&mut self, encoded: &[u8], facts: &KeyWrite) {
        assert!(KeyRef::decode(encoded).is_ok(), "entries have encoded keys");
        self.starts.push(self.entries.len() as u64);
        encode(encoded, facts, KeyBefore(&[]), 0, &mut self.entries);
        let sequence_min = self.sequence_min.unwrap_or(u64::MAX).min(facts.sequence);
        self.sequence_min = Some(sequence_min);
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// True if there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Allocated bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() + self.starts.capacity() * size_of::<u64>()
    }

    /// Sorts the entries and keeps only the newest of each record.
    #[must_use]
    pub fn sort(self, segment: u32) -> KeyRun {
        let Self { entries, mut starts, sequence_min } = self;
        // Keys are decoded once, not for each comparison.
        let mut keyed: Vec<_> =
            starts.iter().map(|start| (key_at(&entries, *start), *start)).collect();
        keyed.sort_unstable_by(|(key, start), (other_key, other)| {
            let by_facts = || entry_at(&entries, *start).compare(&entry_at(&entries, *other));
            key.cmp(other_key).then_with(by_facts)
        });
        starts.clear();
        starts.extend(keyed.iter().map(|(_, start)| *start));
        drop(keyed);
        starts.dedup_by(|later, kept| {
            let same_key = key_at(&entries, *later).cmp(&key_at(&entries, *kept));
            same_key == Ordering::Equal
                && entry_at(&entries, *later).is_of_same_record(&entry_at(&entries, *kept))
        });
        KeyRun { segment, entries, starts, sequence_base: sequence_min.unwrap_or(0) }
    }
}

#[expect(clippy::indexing_slicing, reason = "the builder has noted where entries begin")]
fn key_at(entries: &[u8], start: u64) -> KeyRef<'_> {
    let encoded = decode_whole_key(&entries[index(start)..]).map(|(encoded, _)| encoded);
    encoded.and_then(|encoded| KeyRef::decode(encoded).ok()).expect("the builder pushed a key")
}

#[expect(clippy::indexing_slicing, reason = "the builder has noted where entries begin")]
fn entry_at(entries: &[u8], start: u64) -> KeyEntry<'_> {
    decode_whole(&entries[index(start)..]).expect("the builder pushed an entry")
}

/// Entries of a segment in the order of a key file, one for each record.
#[derive(Clone, Debug)]
pub struct KeyRun {
    segment: u32,
    entries: Vec<u8>,
    starts: Vec<u64>,
    sequence_base: u64,
}

impl KeyRun {
    /// The segment of the keys.
    #[must_use]
    pub fn segment(&self) -> u32 {
        self.segment
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// True if there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The entry with this number, counted from 0.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<KeyEntry<'_>> {
        self.starts.get(number).map(|start| entry_at(&self.entries, *start))
    }

    /// The key of the entry with this number, counted from 0.
    pub(super) fn key(&self, number: usize) -> Option<KeyRef<'_>> {
        self.starts.get(number).map(|start| key_at(&self.entries, *start))
    }

    /// Number of the first entry whose key is not below `key`.
    #[must_use]
    pub fn lower_bound(&self, key: KeyRef<'_>) -> usize {
        self.starts.partition_point(|start| key_at(&self.entries, *start) < key)
    }

    /// Writes the run as key file `name`, durably.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub fn write(&self, disk: &dyn Disk, name: &str) -> Result<KeyFileFooter, StoreError> {
        let mut writer = KeyFileWriter::create(disk, name, self.segment, self.sequence_base)?;
        for start in &self.starts {
            writer.push(&entry_at(&self.entries, *start))?;
        }
        writer.finish()
    }
}
