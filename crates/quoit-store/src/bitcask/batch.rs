//! Atomic writes of several records, and drops of whole partitions.

use super::indexes::EntryChange;
use super::read::{Entries, ReadPart};
use super::record::{
    self, ALIGNMENT_BYTES, BATCH_PREFIX_BYTES, HEADER_BYTES, RECORD_BYTES_MAX, RecordHeader,
    RecordKind,
};
use super::store::{LogStore, StripeGuard, entry_of, place, take_out};
use super::synced::SyncedDistance;
use crate::engine::{BatchWrite, IoMode, RecordAt, RecordMeta, Ticket};
use crate::error::StoreError;
use crate::index::{IndexEntry, PartitionIndex, Tag};
use crate::index_page::places_of;
use parking_lot::{RwLockUpgradableReadGuard, RwLockWriteGuard};
use quoit_model::hash::{Identity, Partition};
use quoit_number::length_u32;
use std::collections::{BTreeMap, BTreeSet};

/// A write of a batch with everything that appending it needs.
pub(super) struct Prepared<'a> {
    pub(super) at: RecordAt<'a>,
    pub(super) kind: RecordKind,
    pub(super) meta: RecordMeta,
    pub(super) value: &'a [u8],
    /// The encoded index entries of the new version of the record.
    pub(super) places: Vec<Vec<u8>>,
    /// Index entry of the record that the write replaces.
    pub(super) old: Option<IndexEntry>,
    /// True if another key has the same tag.
    pub(super) shares_tag: bool,
}

/// Held stripes, by partition.
type Stripes<'s> = BTreeMap<Partition, StripeGuard<'s>>;

impl Prepared<'_> {
    /// Size of the record in the log, in bytes.
    fn padded_bytes(&self) -> u64 {
        let bytes = HEADER_BYTES + self.at.encoded.len() + self.value.len();
        bytes.next_multiple_of(ALIGNMENT_BYTES) as u64
    }

    /// The header without its sequence, of a write of a batch that [`LogStore::encode_batch`] has accepted.
    fn header(&self) -> RecordHeader {
        RecordHeader {
            sequence: 0,
            kind: self.kind,
            replaces: self.old.is_some(),
            shares_tag: self.shares_tag,
            in_batch: true,
            partition: self.at.partition,
            identity: self.at.identity,
            key_bytes: self.at.encoded_bytes(),
            value_bytes: length_u32(self.value.len()),
            meta: RecordMeta { n_val_class: self.meta.n_val_class.min(15), ..self.meta },
            synced: SyncedDistance::UNKNOWN,
        }
    }
}

impl LogStore {
    pub(super) fn batch(&self, writes: &[BatchWrite<'_>]) -> Result<Ticket, StoreError> {
        self.check_open()?;
        self.help_background_work(IoMode::Wait)?;
        let writes = last_of_each(writes);
        let (stripes, mut prepared) = self.prepare(&writes)?;
        if prepared.is_empty() {
            // It is durable with the writes before it.
            return Ok(Ticket(self.log.written()));
        }
        Ok(Ticket(self.write_prepared(stripes, &mut prepared)?))
    }

    /// Appends at least one write as a batch and updates the index. Returns the sequence of the last write.
    pub(super) fn write_prepared(
        &self,
        stripes: Stripes<'_>,
        prepared: &mut [Prepared<'_>],
    ) -> Result<u64, StoreError> {
        debug_assert!(!prepared.is_empty(), "a batch has a write");
        replace_each_once(prepared);
        let (checks, mut bytes) = self.encode_batch(prepared)?;
        let headers: Vec<_> = prepared.iter().map(|write| write.header()).collect();
        if headers.iter().any(|header| header.meta.indexed) {
            self.indexes.begin_use();
        }
        let appended = self.log.append_batch(&headers, &checks, &mut bytes)?;
        let table = self.table.load();
        let mut stripes: BTreeMap<_, _> = stripes
            .into_iter()
            .map(|(partition, stripe)| (partition, RwLockUpgradableReadGuard::upgrade(stripe)))
            .collect();
        let mut put = Vec::new();
        for ((write, header), appended) in prepared.iter_mut().zip(&headers).zip(&appended) {
            let index: &mut PartitionIndex =
                stripes.get_mut(&write.at.partition).expect("the stripes of all writes are held");
            match (write.kind, &write.old) {
                (RecordKind::Remove, Some(old)) => take_out(index, &table, old),
                (RecordKind::Remove, None) => {}
                _ => {
                    let size = header.record_bytes();
                    let new = entry_of(write.at.identity, &header.meta, appended.location, size);
                    place(index, &table, write.old.as_ref(), new);
                    put.push((write.at, write.old, new));
                }
            }
            let new = std::mem::take(&mut write.places);
            self.indexes.write_change(header, &EntryChange { old: Vec::new(), new });
        }
        // Readers need not wait for the notes below.
        let downgrade = RwLockWriteGuard::downgrade_to_upgradable;
        let _held: Vec<StripeGuard<'_>> = stripes.into_values().map(downgrade).collect();
        for (at, old, new) in &put {
            self.note_live(at, old.as_ref(), new);
        }
        Ok(appended.last().map_or(0, |last| last.sequence))
    }

    /// Locks the stripes of all writes and looks up the records that they replace. A removal of a missing
    /// record is written too: an earlier removal may not be durable yet, and a crash that the batch
    /// survives may bring the record back.
    fn prepare<'a>(
        &self,
        writes: &[BatchWrite<'a>],
    ) -> Result<(Stripes<'_>, Vec<Prepared<'a>>), StoreError> {
        // Stripes are locked in the order of partitions, so that two batches cannot deadlock.
        let mut stripes = BTreeMap::new();
        let mut partitions: Vec<_> = writes.iter().map(|write| at_of(write).partition).collect();
        partitions.sort_unstable();
        partitions.dedup();
        for partition in partitions {
            stripes.insert(partition, self.stripe(partition).upgradable_read());
        }
        let table = self.table.load();
        let mut prepared = Vec::with_capacity(writes.len());
        for write in writes {
            let at = at_of(write);
            let stripe = stripes.get(&at.partition).expect("the stripes of all writes are locked");
            let entries: Entries = stripe.candidates(Tag::of(at.identity)).collect();
            let lookup = self.reader.find(&table, &entries, &at, ReadPart::Key, IoMode::Wait)?;
            let (old, _) = self.old_of(lookup);
            let shares_tag = entries.len() > usize::from(old.is_some());
            let (kind, meta, value): (_, _, &[u8]) = match write {
                BatchWrite::Put { meta, value, .. } => (RecordKind::Put, *meta, value),
                BatchWrite::Remove { .. } => (RecordKind::Remove, RecordMeta::default(), &[]),
            };
            let places = places_of(at.key, &meta, value)?;
            prepared.push(Prepared { at, kind, meta, value, places, old, shares_tag });
        }
        Ok((stripes, prepared))
    }

    /// The bytes of the batch, with space for headers, and the checksums of the bodies.
    #[expect(clippy::indexing_slicing, reason = "the body was appended at `body_at`")]
    fn encode_batch(&self, writes: &[Prepared<'_>]) -> Result<(Vec<u64>, Vec<u8>), StoreError> {
        let content: u64 = writes.iter().map(Prepared::padded_bytes).sum();
        let size_bytes = (HEADER_BYTES + BATCH_PREFIX_BYTES) as u64 + content;
        if size_bytes > RECORD_BYTES_MAX {
            return Err(StoreError::TooLarge { size_bytes, limit_bytes: RECORD_BYTES_MAX });
        }
        let mut bytes = Vec::with_capacity(quoit_number::index(size_bytes));
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend_from_slice(&(writes.len() as u64).to_le_bytes());
        let mut checks = Vec::with_capacity(writes.len());
        for write in writes {
            let body_at = bytes.len() + HEADER_BYTES;
            bytes.resize(body_at, 0);
            bytes.extend_from_slice(write.at.encoded);
            bytes.extend_from_slice(write.value);
            checks.push(record::body_check(self.reader.store_id, &bytes[body_at..]));
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT_BYTES), 0);
        }
        Ok((checks, bytes))
    }

    pub(super) fn drop_partition(&self, partition: Partition) -> Result<Ticket, StoreError> {
        self.check_open()?;
        let stripe = self.stripe(partition).upgradable_read();
        let header = RecordHeader {
            sequence: 0,
            kind: RecordKind::DropPartition,
            replaces: false,
            shares_tag: false,
            in_batch: false,
            partition,
            identity: Identity(0),
            key_bytes: 0,
            value_bytes: 0,
            meta: RecordMeta::default(),
            synced: SyncedDistance::UNKNOWN,
        };
        let check = record::body_check(self.reader.store_id, &[]);
        let appended = self.log.append(&header, check, &mut vec![0; HEADER_BYTES])?;
        let table = self.table.load();
        let mut index = RwLockUpgradableReadGuard::upgrade(stripe);
        let dropped = std::mem::take(&mut *index);
        drop(index);
        for entry in dropped.iter() {
            if let Some(segment) = table.get(entry.location.segment()) {
                segment.count_dead(entry.size_class);
            }
        }
        Ok(Ticket(appended.sequence))
    }
}

fn at_of<'a>(write: &BatchWrite<'a>) -> RecordAt<'a> {
    match write {
        BatchWrite::Put { at, .. } | BatchWrite::Remove { at } => *at,
    }
}

/// Lets only one write of a batch replace an index entry. A damaged record counts as each record with its
/// tag, so several writes may have found the same entry.
fn replace_each_once(prepared: &mut [Prepared<'_>]) {
    let mut replaced = BTreeSet::new();
    for write in prepared {
        if write.old.is_some_and(|old| !replaced.insert(old.location)) {
            (write.old, write.shares_tag) = (None, true);
        }
    }
}

/// Keeps only the last of several writes of one record.
#[expect(clippy::indexing_slicing, reason = "the numbers are those of the writes")]
fn last_of_each<'a>(writes: &[BatchWrite<'a>]) -> Vec<BatchWrite<'a>> {
    let mut last = BTreeMap::new();
    for (number, write) in writes.iter().enumerate() {
        let at = at_of(write);
        last.insert((at.partition, at.encoded), number);
    }
    let mut numbers: Vec<_> = last.into_values().collect();
    numbers.sort_unstable();
    numbers.into_iter().map(|number| writes[number]).collect()
}
