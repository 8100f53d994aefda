//! Counts and digests of sets of entries, updated with every change.

use super::entry::IndexEntry;
use super::page::EntryBytes;
use super::slab::ALLOCATION_OVERHEAD_BYTES;
use crate::compare::{Digests, Leaf, class_place, compared_hour, contribution};
use crate::tag::N_VAL_CLASS_MAX;
use std::collections::BTreeMap;

/// Contribution of a record to counts and digests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordContribution {
    pub(crate) class: u8,
    pub(crate) bits: u64,
    pub(crate) tombstone: bool,
    /// True for a piece of a record. Pieces are not compared, and `key_count` leaves them out.
    pub(crate) piece: bool,
    /// Hour of expiry, if the record expires and is not a tombstone.
    pub(crate) hour: Option<u32>,
}

impl RecordContribution {
    pub(crate) fn new(n_val_class: u8, leaf: &Leaf, expires: bool) -> Self {
        let piece = n_val_class == 0;
        Self {
            class: n_val_class.min(N_VAL_CLASS_MAX),
            bits: if piece { 0 } else { contribution(leaf) },
            tombstone: leaf.tombstone,
            piece,
            hour: (expires && !leaf.tombstone).then(|| compared_hour(leaf.digest)),
        }
    }

    pub(super) fn of(entry: &IndexEntry) -> Self {
        Self::new(entry.n_val_class, &entry.leaf(), entry.expires)
    }
}

/// Digests of the entries of a group that never expire. Expiring entries are only counted; a comparison
/// reads them.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupDigest {
    /// Digest of one class. Most groups have only one class.
    digest: u64,
    /// Digests of the other classes.
    others: Option<Box<Digests>>,
    /// Number of entries that expire and are not tombstones.
    expiring_count: u32,
    /// The class of `digest`.
    class: u8,
}

impl GroupDigest {
    /// The digest of a run of entries.
    pub(super) fn of(run: &[EntryBytes]) -> Self {
        let mut digest = Self::default();
        run.iter()
            .for_each(|bytes| digest.add(&RecordContribution::of(&IndexEntry::decode(bytes))));
        digest
    }

    /// Digests of the entries that never expire.
    pub(super) fn lasting(&self) -> Digests {
        let mut digests = self.others.as_deref().copied().unwrap_or_default();
        digests.0[usize::from(self.class)] ^= self.digest;
        digests
    }

    pub(super) fn expiring_count(&self) -> u32 {
        self.expiring_count
    }

    pub(super) fn add(&mut self, share: &RecordContribution) {
        match share.hour {
            None => self.toggle(share.class, share.bits),
            Some(_) => self.expiring_count += 1,
        }
    }

    pub(super) fn subtract(&mut self, share: &RecordContribution) {
        match share.hour {
            None => self.toggle(share.class, share.bits),
            Some(_) => self.expiring_count -= 1,
        }
    }

    pub(super) fn plus(mut self, other: &Self) -> Self {
        self.toggle_all(other);
        self.expiring_count += other.expiring_count;
        self
    }

    pub(super) fn minus(mut self, part: &Self) -> Self {
        self.toggle_all(part);
        self.expiring_count -= part.expiring_count;
        self
    }

    /// Allocated bytes, without the struct itself.
    pub(super) fn memory_bytes(&self) -> usize {
        self.others.as_ref().map_or(0, |_| size_of::<Digests>() + ALLOCATION_OVERHEAD_BYTES)
    }

    fn toggle_all(&mut self, other: &Self) {
        self.toggle(other.class, other.digest);
        if let Some(others) = &other.others {
            self.others.get_or_insert_default().toggle_all(others);
        }
    }

    fn toggle(&mut self, class: u8, bits: u64) {
        if class == self.class {
            self.digest ^= bits;
        } else if self.digest == 0 && self.others.is_none() {
            (self.class, self.digest) = (class, bits);
        } else if bits != 0 {
            self.others.get_or_insert_default().0[usize::from(class)] ^= bits;
        }
    }
}

/// Counts and digests of all records of a partition, available without reading records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PartitionSummary {
    /// Number of entries, including pieces.
    pub(crate) entry_count: u64,
    pub(crate) piece_count: u64,
    pub(crate) tombstone_count: u64,
    /// Digests of the records that never expire.
    lasting: Digests,
    /// Digests of the expiring records, by hour and class. Zero digests are left out.
    hours: BTreeMap<(u32, u8), u64>,
}

impl PartitionSummary {
    /// The summary of a run of entries whose digest is known.
    pub(super) fn of(run: &[EntryBytes], digest: &GroupDigest) -> Self {
        let mut summary = Self { entry_count: run.len() as u64, ..Self::default() };
        for entry in run.iter().map(IndexEntry::decode) {
            summary.tombstone_count += u64::from(entry.tombstone);
            summary.piece_count += u64::from(entry.is_piece());
            if entry.expires {
                summary.toggle(&RecordContribution::of(&entry));
            }
        }
        summary.lasting = digest.lasting();
        summary
    }

    /// Adds the counts of some records (all, pieces, tombstones), and the digests of those that never
    /// expire, by class.
    pub(crate) fn restore(&mut self, counts: [u64; 3], lasting: &[(u8, u64)]) {
        let [entry_count, piece_count, tombstone_count] = counts;
        self.entry_count += entry_count;
        self.piece_count += piece_count;
        self.tombstone_count += tombstone_count;
        lasting.iter().for_each(|(class, bits)| self.lasting.0[class_place(*class)] ^= bits);
    }

    /// Sets the digest of the records that expire in an hour, for that hour and a class. It must not be
    /// zero.
    pub(crate) fn restore_hour(&mut self, hour: (u32, u8), bits: u64) {
        self.hours.insert(hour, bits);
    }

    /// The digest of the records that expire in an hour, for that hour and a class; `None` if it is zero.
    pub(crate) fn of_hour(&self, hour: (u32, u8)) -> Option<u64> {
        self.hours.get(&hour).copied()
    }

    /// The digests of expiring records by hour and class, without zeros.
    pub(crate) fn hours(&self) -> impl Iterator<Item = ((u32, u8), u64)> {
        self.hours.iter().map(|(hour, bits)| (*hour, *bits))
    }

    /// The hours and classes with expiring records.
    pub(crate) fn into_hours(self) -> impl Iterator<Item = (u32, u8)> {
        self.hours.into_keys()
    }

    pub(crate) fn add(&mut self, share: &RecordContribution) {
        self.entry_count += 1;
        self.piece_count += u64::from(share.piece);
        self.tombstone_count += u64::from(share.tombstone);
        self.toggle(share);
    }

    /// Removes a record. Counts stop at zero: those that an ordered store restores may be too low, if a part
    /// of them is lost by damage.
    pub(crate) fn subtract(&mut self, share: &RecordContribution) {
        self.entry_count = self.entry_count.saturating_sub(1);
        self.piece_count = self.piece_count.saturating_sub(u64::from(share.piece));
        self.tombstone_count = self.tombstone_count.saturating_sub(u64::from(share.tombstone));
        self.toggle(share);
    }

    /// Number of entries without those of pieces.
    pub(crate) fn key_count(&self) -> u64 {
        self.entry_count.saturating_sub(self.piece_count)
    }

    /// Digests of all records, without those that expire before `hour_min`.
    pub(crate) fn digests(&self, hour_min: u32) -> Digests {
        let mut digests = self.lasting;
        for ((_, class), bits) in self.hours.range((hour_min, 0)..) {
            digests.0[usize::from(*class)] ^= bits;
        }
        digests
    }

    /// Allocated bytes, without the struct itself.
    pub(super) fn memory_bytes(&self) -> usize {
        // The nodes of a B-tree map are two thirds full on average.
        self.hours.len() * (size_of::<(u32, u8)>() + size_of::<u64>()) * 3 / 2
    }

    fn toggle(&mut self, share: &RecordContribution) {
        let Some(hour) = share.hour else {
            self.lasting.0[usize::from(share.class)] ^= share.bits;
            return;
        };
        let key = (hour, share.class);
        let bits = self.hours.entry(key).or_default();
        *bits ^= share.bits;
        if *bits == 0 {
            self.hours.remove(&key);
        }
    }
}
