//! Counts and digests of sets of entries, kept up with every change.

use super::entry::IndexEntry;
use super::page::EntryBytes;
use super::slab::ALLOCATION_OVERHEAD_BYTES;
use crate::compare::{Digests, Leaf, class_place, compared_hour, contribution};
use std::collections::BTreeMap;

/// The part of a record in counts and digests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    pub(crate) class: usize,
    pub(crate) bits: u64,
    pub(crate) tombstone: bool,
    /// Whether it is a piece of a record: those are neither counted nor compared.
    pub(crate) piece: bool,
    /// The hour of its expiry, if it expires and is no tombstone.
    pub(crate) hour: Option<u32>,
}

impl Share {
    pub(crate) fn new(n_val_class: u8, leaf: &Leaf, expires: bool) -> Self {
        let piece = n_val_class == 0;
        Self {
            class: class_place(n_val_class),
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

/// Digests of a group: those of what never expires. What expires is looked at when it is asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Digest of one class; mostly there is but one.
    digest: u64,
    /// Digests of the other classes.
    others: Option<Box<Digests>>,
    /// Entries that expire and are no tombstones.
    expiring_count: u32,
    /// The class of `digest`.
    class: u8,
}

impl Tally {
    /// The tally of a run of entries.
    pub(super) fn of(run: &[EntryBytes]) -> Self {
        let mut tally = Self::default();
        run.iter().for_each(|bytes| tally.add(&Share::of(&IndexEntry::decode(bytes))));
        tally
    }

    /// Digests of what never expires.
    pub(super) fn lasting(&self) -> Digests {
        let mut digests = self.others.as_deref().copied().unwrap_or_default();
        digests.0[usize::from(self.class)] ^= self.digest;
        digests
    }

    pub(super) fn expiring_count(&self) -> u32 {
        self.expiring_count
    }

    pub(super) fn add(&mut self, share: &Share) {
        match share.hour {
            None => self.toggle(share.class, share.bits),
            Some(_) => self.expiring_count += 1,
        }
    }

    pub(super) fn subtract(&mut self, share: &Share) {
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

    /// Bytes allocated beside the struct.
    pub(super) fn memory_bytes(&self) -> usize {
        self.others.as_ref().map_or(0, |_| size_of::<Digests>() + ALLOCATION_OVERHEAD_BYTES)
    }

    fn toggle_all(&mut self, other: &Self) {
        self.toggle(usize::from(other.class), other.digest);
        if let Some(others) = &other.others {
            self.others.get_or_insert_default().toggle_all(others);
        }
    }

    fn toggle(&mut self, class: usize, bits: u64) {
        if class == usize::from(self.class) {
            self.digest ^= bits;
        } else if self.digest == 0 && self.others.is_none() {
            (self.class, self.digest) = (class as u8, bits);
        } else if bits != 0 {
            self.others.get_or_insert_default().0[class] ^= bits;
        }
    }
}

/// Counts and digests of all records of a partition, known without looking at the records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sums {
    /// Entries, pieces among them.
    pub(crate) entry_count: u64,
    pub(crate) piece_count: u64,
    pub(crate) tombstone_count: u64,
    /// Digests of what never expires.
    lasting: Digests,
    /// Digests of what expires, by hour and class. None is zero.
    hours: BTreeMap<(u32, u8), u64>,
}

impl Sums {
    /// The sums of a run of entries whose digests are summed up already.
    pub(super) fn of(run: &[EntryBytes], tally: &Tally) -> Self {
        let mut sums = Self { entry_count: run.len() as u64, ..Self::default() };
        for entry in run.iter().map(IndexEntry::decode) {
            sums.tombstone_count += u64::from(entry.tombstone);
            sums.piece_count += u64::from(entry.is_piece());
            if entry.expires {
                sums.toggle(&Share::of(&entry));
            }
        }
        sums.lasting = tally.lasting();
        sums
    }

    /// Adds what is known of some records: how many, pieces and tombstones among them, and the digests of
    /// what never expires, by class.
    pub(crate) fn restore(&mut self, counts: [u64; 3], lasting: &[(u8, u64)]) {
        let [entry_count, piece_count, tombstone_count] = counts;
        self.entry_count += entry_count;
        self.piece_count += piece_count;
        self.tombstone_count += tombstone_count;
        lasting.iter().for_each(|(class, bits)| self.lasting.0[class_place(*class)] ^= bits);
    }

    /// Sets the digest of what expires in an hour, by hour and class; it is not zero.
    pub(crate) fn restore_hour(&mut self, hour: (u32, u8), bits: u64) {
        self.hours.insert(hour, bits);
    }

    /// The digest of what expires in an hour, by hour and class, if it is not zero.
    pub(crate) fn of_hour(&self, hour: (u32, u8)) -> Option<u64> {
        self.hours.get(&hour).copied()
    }

    /// The digests of what expires, by hour and class. None is zero.
    pub(crate) fn hours(&self) -> impl Iterator<Item = ((u32, u8), u64)> {
        self.hours.iter().map(|(hour, bits)| (*hour, *bits))
    }

    /// The hours and classes in which anything expires.
    pub(crate) fn into_hours(self) -> impl Iterator<Item = (u32, u8)> {
        self.hours.into_keys()
    }

    pub(crate) fn add(&mut self, share: &Share) {
        self.entry_count += 1;
        self.piece_count += u64::from(share.piece);
        self.tombstone_count += u64::from(share.tombstone);
        self.toggle(share);
    }

    pub(crate) fn subtract(&mut self, share: &Share) {
        self.entry_count -= 1;
        self.piece_count -= u64::from(share.piece);
        self.tombstone_count -= u64::from(share.tombstone);
        self.toggle(share);
    }

    /// Entries that are no pieces of records.
    pub(crate) fn key_count(&self) -> u64 {
        self.entry_count - self.piece_count
    }

    /// Digests of all that does not expire before an hour.
    pub(crate) fn digests(&self, hour_min: u32) -> Digests {
        let mut digests = self.lasting;
        for ((_, class), bits) in self.hours.range((hour_min, 0)..) {
            digests.0[usize::from(*class)] ^= bits;
        }
        digests
    }

    /// Memory allocated beside the struct, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        // Nodes of a map are two thirds full on average.
        self.hours.len() * (size_of::<(u32, u8)>() + size_of::<u64>()) * 3 / 2
    }

    fn toggle(&mut self, share: &Share) {
        let Some(hour) = share.hour else {
            self.lasting.0[share.class] ^= share.bits;
            return;
        };
        let key = (hour, share.class as u8);
        let bits = self.hours.entry(key).or_default();
        *bits ^= share.bits;
        if *bits == 0 {
            self.hours.remove(&key);
        }
    }
}
