//! Transactions: atomic reads and writes of several records of one partition.
//!
//! The body runs while the partition's stripe is locked. If it needs a record that is only on disk, the
//! lock is released, the record is read, and the body runs again; the record is used if its index entries
//! have not changed meanwhile. The writes of the last run are appended as one batch.

use super::batch::Prepared;
use super::read::{DamagedRecord, Entries, Lookup, ReadPart};
use super::record::RecordKind;
use super::segment::SegmentTable;
use super::store::{LogStore, StripeGuard};
use crate::engine::{
    Applied, Interrupted, Interruption, IoMode, Record, RecordAt, RecordMeta, Ticket, Transaction,
    TransactionFn,
};
use crate::error::StoreError;
use crate::expired::after_expiry;
use crate::index::{IndexEntry, Tag};
use crate::index_page::places_of;
use crate::pending::{ByRecord, OwnedName};
use quoit_model::hash::Partition;

/// Result of a lookup, valid while the index has the same `entries` for the record.
struct LookupResult {
    part: ReadPart,
    entries: Entries,
    found: RecordLookup,
    /// True if the record was read without the lock, so that the body had to run again.
    was_cold: bool,
}

impl LookupResult {
    /// Drops the record and keeps only that it exists: a body may read any number of records, one after the
    /// other.
    fn forget(&mut self) {
        if let RecordLookup::Present(_, record) = &mut self.found {
            (self.part, *record) = (ReadPart::Key, None);
        }
    }
}

enum RecordLookup {
    Absent,
    /// The index entry, and the record if the whole record was wanted (for an expired record, the tombstone
    /// that replaces it).
    Present(IndexEntry, Option<Record>),
    Damaged(DamagedRecord, StoreError),
}

/// A write that will be part of the transaction's batch.
struct StagedWrite {
    kind: RecordKind,
    meta: RecordMeta,
    value: Vec<u8>,
    old: Option<IndexEntry>,
    shares_tag: bool,
}

/// A transaction while its body runs.
struct LogTransaction<'s> {
    store: &'s LogStore,
    partition: Partition,
    stripe: &'s StripeGuard<'s>,
    table: &'s SegmentTable,
    /// `Wait` if records that are only on disk are read while the stripe is locked.
    access: IoMode,
    /// Records that were looked up in this run or before the stripe was locked.
    looked: ByRecord<LookupResult>,
    /// The record that is only on disk and that the body needs.
    cold: Option<(OwnedName, ReadPart)>,
    writes: ByRecord<StagedWrite>,
}

/// Maximum number of records that a transaction reads without the lock; after each of them the body runs
/// again. A transaction that needs more reads them with the lock, and other writers wait.
const COLD_READS_MAX: usize = 8;

impl LogStore {
    pub(super) fn transact(
        &self,
        partition: Partition,
        access: IoMode,
        body: &mut TransactionFn<'_>,
    ) -> Result<Applied, StoreError> {
        self.check_open()?;
        if !self.help_background_work(access)? {
            return Ok(Applied::WouldBlock);
        }
        let mut looked = ByRecord::new();
        for attempt in 0.. {
            let stripe = self.stripe(partition).upgradable_read();
            // Loaded under the stripe's lock: a segment leaves the table only after its entries have left
            // the index, so every entry's segment is in this table.
            let table = self.table.load();
            let mut open = LogTransaction {
                store: self,
                partition,
                stripe: &stripe,
                table: &table,
                access: if attempt < COLD_READS_MAX { IoMode::NoWait } else { access },
                looked,
                cold: None,
                writes: ByRecord::new(),
            };
            let outcome = body(&mut open);
            let LogTransaction { looked: known, cold, writes, .. } = open;
            looked = known;
            let Some((name, part)) = cold else {
                return match outcome {
                    Err(Interrupted(Interruption::Failed(error))) => Err(error),
                    Err(Interrupted(Interruption::NeedsWait)) => Ok(Applied::WouldBlock),
                    Ok(()) if writes.is_empty() => Ok(Applied::Kept),
                    Ok(()) => self.write_all(partition, stripe, &writes),
                };
            };
            let entries: Entries = stripe.candidates(Tag::of(name.identity())).collect();
            drop(stripe);
            if access == IoMode::NoWait {
                return Ok(Applied::WouldBlock);
            }
            let at = name.at(partition);
            let lookup = self.reader.find(&table, &entries, &at, part, IoMode::Wait)?;
            let found = self.found_of(lookup, part);
            if let Some(found) = found {
                looked.insert(&at, LookupResult { part, entries, found, was_cold: true });
            }
        }
        unreachable!("attempts without an end")
    }

    fn found_of(&self, lookup: Lookup, part: ReadPart) -> Option<RecordLookup> {
        Some(match lookup {
            Lookup::WouldBlock => return None,
            Lookup::Absent => RecordLookup::Absent,
            Lookup::Damaged(damaged, error) => {
                self.note_damage(&error);
                RecordLookup::Damaged(damaged, error)
            }
            Lookup::Present(entry, stored) => {
                let is_expired = self.is_expired(&stored.header.meta);
                let whole = (part == ReadPart::Whole).then(|| stored.into_record());
                let shown = match is_expired {
                    true => whole.and_then(|record| after_expiry(&record)),
                    false => whole,
                };
                RecordLookup::Present(entry, shown)
            }
        })
    }

    fn write_all(
        &self,
        partition: Partition,
        stripe: StripeGuard<'_>,
        writes: &ByRecord<StagedWrite>,
    ) -> Result<Applied, StoreError> {
        let mut prepared = Vec::new();
        for (name, write) in writes.iter() {
            let at = name.at(partition);
            prepared.push(Prepared {
                at,
                kind: write.kind,
                meta: write.meta,
                value: &write.value,
                places: places_of(at.key, &write.meta, &write.value)?,
                old: write.old,
                shares_tag: write.shares_tag,
            });
        }
        let last = self.write_prepared([(partition, stripe)].into(), &mut prepared)?;
        Ok(Applied::Written(Ticket(last)))
    }
}

impl LogTransaction<'_> {
    /// Looks a record up, or returns the result of an earlier lookup.
    fn look(&mut self, at: &RecordAt<'_>, part: ReadPart) -> Result<&LookupResult, Interrupted> {
        assert!(at.partition == self.partition, "a transaction stays in its partition");
        let entries: Entries = self.stripe.candidates(Tag::of(at.identity)).collect();
        let is_known = self.looked.get(at).is_some_and(|known| {
            (known.part == ReadPart::Whole || known.part == part) && known.entries == entries
        });
        if is_known {
            return Ok(self.looked.get(at).expect("it was just there"));
        }
        let found = self.store.reader.find(self.table, &entries, at, part, self.access)?;
        let Some(found) = self.store.found_of(found, part) else {
            self.cold = Some((OwnedName::of(at), part));
            return Err(Interrupted(Interruption::NeedsWait));
        };
        Ok(self.looked.insert(at, LookupResult { part, entries, found, was_cold: false }))
    }

    fn write(
        &mut self,
        at: &RecordAt<'_>,
        kind: RecordKind,
        meta: RecordMeta,
        value: &[u8],
    ) -> Result<(), Interrupted> {
        let LookupResult { entries, found, .. } = self.look(at, ReadPart::Key)?;
        let old = match found {
            RecordLookup::Absent => None,
            RecordLookup::Present(entry, _) => Some(*entry),
            RecordLookup::Damaged(damaged, _) => damaged.replaced(),
        };
        let shares_tag = entries.len() > usize::from(old.is_some());
        let value = value.to_vec();
        self.writes.insert(at, StagedWrite { kind, meta, value, old, shares_tag });
        Ok(())
    }
}

impl Transaction for LogTransaction<'_> {
    fn get(&mut self, at: &RecordAt<'_>) -> Result<Option<Record>, Interrupted> {
        let LookupResult { found, was_cold, .. } = self.look(at, ReadPart::Whole)?;
        let (found, was_cold) = match found {
            RecordLookup::Absent => return Ok(None),
            RecordLookup::Present(_, record) => (record.clone(), *was_cold),
            RecordLookup::Damaged(_, error) => return Err(error.clone().into()),
        };
        if let Some(known) = self.looked.get_mut(at).filter(|_| !was_cold) {
            known.forget();
        }
        Ok(found)
    }

    fn put(
        &mut self,
        at: &RecordAt<'_>,
        meta: RecordMeta,
        value: &[u8],
    ) -> Result<(), Interrupted> {
        self.write(at, RecordKind::Put, meta, value)
    }

    fn remove(&mut self, at: &RecordAt<'_>) -> Result<(), Interrupted> {
        self.write(at, RecordKind::Remove, RecordMeta::default(), &[])
    }
}
