//! Changes of records: of one, of several in a partition, and of any.

use super::backend::Space;
use super::indexes::ReplacedRecord;
use super::keys::{Epoch, dropped_key, epoch_key, expiry_key, name_key};
use super::point::{FoundRecord, RecordPart};
use super::store::StoreShared;
use super::tallies::{RecordChange, SpaceWrites};
use super::value::{ValueHead, encode_meta, record_value};
use crate::engine::{
    Applied, BatchWrite, BeforeImage, DataLocation, Decision, Interrupted, Interruption, IoMode,
    Record, RecordAt, RecordMeta, RecordRef, Ticket, Transaction, TransactionFn,
};
use crate::error::StoreError;
use crate::expired::after_expiry;
use crate::index_page::places_of;
use crate::pending::ByRecord;
use bytes::Bytes;
use parking_lot::MutexGuard;
use quoit_model::hash::Partition;
use std::collections::BTreeMap;

/// Maximum size of a body in bytes: sizes have 32 bits, and the head needs room too.
const BODY_BYTES_MAX: u64 = u32::MAX as u64 - 1_024;

/// A write of a record, with the facts about the version that it replaces.
struct RecordWrite<'w> {
    at: RecordAt<'w>,
    former: ReplacedRecord,
    /// The new metadata and value; `None` removes the record.
    after: Option<(RecordMeta, &'w [u8])>,
}

impl StoreShared {
    pub(super) fn update(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut crate::engine::ChangeFn<'_>,
    ) -> Result<Applied, StoreError> {
        let Some(_changing) = self.begin_change(at.partition, access)? else {
            return Ok(Applied::WouldBlock);
        };
        let (former, shown) = if before == BeforeImage::Skip {
            let Some(former) = self.former(at, access)? else {
                return Ok(Applied::WouldBlock);
            };
            (former, None)
        } else {
            match self.find(at, RecordPart::Whole, access)? {
                FoundRecord::WouldBlock => return Ok(Applied::WouldBlock),
                FoundRecord::Absent => (ReplacedRecord::default(), None),
                FoundRecord::Present(record) => {
                    let former = self.former_of(at, &record);
                    (former, self.shown(record))
                }
                FoundRecord::Damaged(error) => return Err(error),
            }
        };
        let mut value = Vec::new();
        let record = shown.as_ref().map(RecordRef::shared);
        let after = match change(record.as_ref(), &mut value) {
            Decision::Keep => {
                // Comparisons with other replicas see only what is stored, so the tombstone of an expired
                // record has to be stored. If that fails now, a later change or maintenance does it.
                if let Some(left) = shown.filter(|left| former.meta != Some(left.meta)) {
                    let after = Some((left.meta, &left.value[..]));
                    let write = RecordWrite { at: *at, former, after };
                    let _ = self.write(at.partition, &[write]);
                }
                return Ok(Applied::Kept);
            }
            Decision::Put(meta) => Some((meta, &value[..])),
            Decision::Remove => None,
        };
        self.write(at.partition, &[RecordWrite { at: *at, former, after }]).map(Applied::Written)
    }

    pub(super) fn transact(
        &self,
        partition: Partition,
        access: IoMode,
        body: &mut TransactionFn<'_>,
    ) -> Result<Applied, StoreError> {
        let Some(_changing) = self.begin_change(partition, access)? else {
            return Ok(Applied::WouldBlock);
        };
        let mut open =
            OrderedTransaction { store: self, partition, access, writes: ByRecord::new() };
        match body(&mut open) {
            Ok(()) => {}
            Err(Interrupted(Interruption::Failed(error))) => return Err(error),
            Err(Interrupted(Interruption::NeedsWait)) => return Ok(Applied::WouldBlock),
        }
        if open.writes.is_empty() {
            return Ok(Applied::Kept);
        }
        let mut writes = open.writes.into_vec();
        let writes: Vec<RecordWrite<'_>> = writes
            .iter_mut()
            .map(|(name, Staged { former, after })| RecordWrite {
                at: name.at(partition),
                former: std::mem::take(former),
                after: after.as_ref().map(|record| (record.meta, &record.value[..])),
            })
            .collect();
        self.write(partition, &writes).map(Applied::Written)
    }

    pub(super) fn batch(&self, writes: &[BatchWrite<'_>]) -> Result<Ticket, StoreError> {
        if writes.is_empty() {
            self.check_open()?;
            // Its own ticket would be durable only after the next write. This one covers all writes so far.
            return Ok(Ticket(self.overlay.last_ticket()));
        }
        let at_of = |write: &BatchWrite<'_>| match write {
            BatchWrite::Put { at, .. } | BatchWrite::Remove { at } => at.partition,
        };
        // In the order of partitions, so that two batches cannot deadlock.
        let mut changing: BTreeMap<Partition, Option<MutexGuard<'_, ()>>> =
            writes.iter().map(|write| (at_of(write), None)).collect();
        for (partition, guard) in &mut changing {
            *guard = self.begin_change(*partition, IoMode::Wait)?;
        }
        // Only the last write of each record counts.
        let mut last: BTreeMap<(Partition, &[u8]), RecordWrite<'_>> = BTreeMap::new();
        for write in writes {
            let (at, after) = match write {
                BatchWrite::Put { at, meta, value } => (*at, Some((*meta, *value))),
                BatchWrite::Remove { at } => (*at, None),
            };
            let former = self.former(&at, IoMode::Wait)?.unwrap_or_default();
            last.insert((at.partition, at.encoded), RecordWrite { at, former, after });
        }
        let writes: Vec<RecordWrite<'_>> = last.into_values().collect();
        self.check_sizes(&writes)?;
        let places = new_places(&writes)?;
        let mut stored = SpaceWrites::new();
        let mut locked: BTreeMap<Partition, _> = BTreeMap::new();
        for (write, places) in writes.iter().zip(&places) {
            let state = self.partition(write.at.partition);
            let tallies = locked.entry(write.at.partition).or_insert_with(|| state.tallies.write());
            tallies.count(&change_of(write), &mut stored);
            self.stage(write, places, &mut stored);
        }
        let ticket = self.submit(stored);
        drop(locked);
        self.note_live(&writes);
        Ok(ticket)
    }

    pub(super) fn drop_partition(&self, partition: Partition) -> Result<Ticket, StoreError> {
        let _changing = self.begin_change(partition, IoMode::Wait)?;
        let state = self.partition(partition);
        let mut tallies = state.tallies.write();
        let mut stored = SpaceWrites::new();
        tallies.clear(&mut stored);
        let dropped = state.epoch();
        let next = Epoch(dropped.0 + 1);
        let of_next = Bytes::copy_from_slice(&next.0.to_be_bytes());
        stored.push((Space::Side, epoch_key(partition), Some(of_next)));
        stored.push((Space::Side, dropped_key(partition, dropped), Some(Bytes::new())));
        state.set_epoch(next);
        let ticket = self.submit(stored);
        drop(tallies);
        self.maintenance.get().inspect(|worker| worker.wake());
        Ok(ticket)
    }

    /// Reclaims the space of an expired record, replacing it by its tombstone if there is one. The caller
    /// holds its partition.
    pub(super) fn end_expired(&self, at: &RecordAt<'_>) -> Result<(), StoreError> {
        let FoundRecord::Present(record) = self.find(at, RecordPart::Whole, IoMode::Wait)? else {
            return self.discard(at);
        };
        let former = self.former_of(at, &record);
        let left = after_expiry(&record);
        let after = left.as_ref().map(|left| (left.meta, &left.value[..]));
        let write = RecordWrite { at: *at, former, after };
        self.write(at.partition, &[write]).map(drop)
    }

    /// Removes a record, whatever its state. The caller holds its partition.
    pub(super) fn discard(&self, at: &RecordAt<'_>) -> Result<(), StoreError> {
        let former = self.former(at, IoMode::Wait)?.unwrap_or_default();
        let write = RecordWrite { at: *at, former, after: None };
        self.write(at.partition, &[write]).map(drop)
    }

    /// Locks a partition for a change, if the batches have room. `None` if the call would have to wait and
    /// must not.
    pub(super) fn begin_change(
        &self,
        partition: Partition,
        access: IoMode,
    ) -> Result<Option<MutexGuard<'_, ()>>, StoreError> {
        self.check_open()?;
        self.committer.check()?;
        if self.overlay.waiting_bytes() > self.settings.waiting_bytes_max {
            if access == IoMode::NoWait {
                return Ok(None);
            }
            self.flush()?;
        }
        let changing = &self.partition(partition).changing;
        let held = match access {
            IoMode::NoWait => changing.try_lock(),
            IoMode::Wait => Some(changing.lock()),
        };
        // Closing waits for calls that hold a partition. A call that gets the lock later must see that the
        // store is closed.
        self.check_open()?;
        Ok(held)
    }

    /// Makes writes of one partition take effect together. The caller holds the partition.
    fn write(
        &self,
        partition: Partition,
        writes: &[RecordWrite<'_>],
    ) -> Result<Ticket, StoreError> {
        self.check_sizes(writes)?;
        let places = new_places(writes)?;
        let mut stored = SpaceWrites::new();
        let mut tallies = self.partition(partition).tallies.write();
        for (write, places) in writes.iter().zip(&places) {
            tallies.count(&change_of(write), &mut stored);
            self.stage(write, places, &mut stored);
        }
        let ticket = self.submit(stored);
        drop(tallies);
        self.note_live(writes);
        Ok(ticket)
    }

    /// Adds records that have become live to the list of buckets. Their writes have taken effect and their
    /// partitions are still held, so no other call changes them meanwhile.
    fn note_live(&self, writes: &[RecordWrite<'_>]) {
        for RecordWrite { at, former, after } in writes {
            // A record that expires may have expired.
            let was_live = former.meta.is_some_and(|meta| meta.expires_at_secs == 0);
            if !was_live && after.is_some_and(|(meta, _)| !meta.is_piece()) {
                self.buckets.note(at, DataLocation::default());
            }
        }
    }

    fn check_sizes(&self, writes: &[RecordWrite<'_>]) -> Result<(), StoreError> {
        let too_large = |size_bytes, limit_bytes| StoreError::TooLarge { size_bytes, limit_bytes };
        let key_bytes_max = self.overlay.backend.key_bytes_max();
        for RecordWrite { at, after, .. } in writes {
            let body_bytes = after.map_or(0, |(_, body)| body.len() as u64);
            if body_bytes > BODY_BYTES_MAX {
                return Err(too_large(body_bytes, BODY_BYTES_MAX));
            }
            let epoch = Epoch::default();
            let name_bytes = name_key(at.key, at.partition, epoch).len();
            // The longest key is that of an expiry.
            let key_bytes = name_bytes.max(expiry_key(0, &self.key_of(at)).len());
            if key_bytes > key_bytes_max {
                return Err(too_large(key_bytes as u64, key_bytes_max as u64));
            }
        }
        Ok(())
    }

    /// Adds the entries that a write changes, without counts and digests.
    fn stage(&self, write: &RecordWrite<'_>, places: &[Vec<u8>], stored: &mut SpaceWrites) {
        let RecordWrite { at, former, after } = write;
        let expires_at_secs = after.map_or(0, |(meta, _)| meta.expires_at_secs);
        self.index_counters.count(&former.places, places);
        self.stage_entries(at.partition, &former.places, places, expires_at_secs, stored);
        let key = self.key_of(at);
        let name = name_key(at.key, at.partition, self.partition(at.partition).epoch());
        let expiry = |meta: RecordMeta| {
            (meta.expires_at_secs != 0).then(|| expiry_key(meta.expires_at_secs, &key))
        };
        if let Some(key) = former.meta.and_then(expiry) {
            stored.push((Space::Side, key, None));
        }
        let Some((meta, body)) = *after else {
            stored.push((Space::Records, key.clone(), None));
            stored.push((Space::Names, name, None));
            if self.bodies_apart {
                stored.push((Space::Bodies, key, None));
            }
            return;
        };
        if let Some(key) = expiry(meta) {
            stored.push((Space::Side, key, Some(Bytes::new())));
        }
        let head = ValueHead::of(meta, body, self.bodies_apart);
        stored.push((Space::Names, name, Some(Bytes::copy_from_slice(&encode_meta(&meta)))));
        stored.push((Space::Records, key.clone(), Some(record_value(&key, &head, body))));
        if self.bodies_apart {
            stored.push((Space::Bodies, key, Some(Bytes::copy_from_slice(body))));
        }
    }

    /// Makes writes take effect, and wakes the worker that moves them to the ordered store.
    pub(super) fn submit(&self, stored: SpaceWrites) -> Ticket {
        debug_assert!(!stored.is_empty(), "the writer does not move a batch without writes");
        let (ticket, is_first) = match &self.cache {
            Some(cache) => cache.write(stored, |stored| self.overlay.write(stored)),
            None => self.overlay.write(stored),
        };
        if is_first {
            self.committer.wake();
        }
        Ticket(ticket)
    }
}

fn change_of(write: &RecordWrite<'_>) -> RecordChange {
    let after = write.after.map(|(meta, _)| meta);
    RecordChange { identity: write.at.identity, before: write.former.meta, after }
}

/// The encoded index entries of records after their writes.
fn new_places(writes: &[RecordWrite<'_>]) -> Result<Vec<Vec<Vec<u8>>>, StoreError> {
    let places = |RecordWrite { at, after, .. }: &RecordWrite<'_>| match after {
        Some((meta, value)) => places_of(at.key, meta, value),
        None => Ok(Vec::new()),
    };
    writes.iter().map(places).collect()
}

/// A transaction while its body runs. Its partition is held.
struct OrderedTransaction<'s> {
    store: &'s StoreShared,
    partition: Partition,
    access: IoMode,
    writes: ByRecord<Staged>,
}

/// A write that will be part of the transaction's batch.
struct Staged {
    former: ReplacedRecord,
    after: Option<Record>,
}

impl OrderedTransaction<'_> {
    fn write(&mut self, at: &RecordAt<'_>, after: Option<Record>) -> Result<(), Interrupted> {
        assert!(at.partition == self.partition, "a transaction stays in its partition");
        let known = self.store.former(at, self.access)?;
        let former = known.ok_or(Interrupted(Interruption::NeedsWait))?;
        self.writes.insert(at, Staged { former, after });
        Ok(())
    }
}

impl Transaction for OrderedTransaction<'_> {
    fn get(&mut self, at: &RecordAt<'_>) -> Result<Option<Record>, Interrupted> {
        assert!(at.partition == self.partition, "a transaction stays in its partition");
        match self.store.find(at, RecordPart::Whole, self.access)? {
            FoundRecord::Absent => Ok(None),
            FoundRecord::Present(record) => Ok(self.store.shown(record)),
            FoundRecord::Damaged(error) => Err(error.into()),
            FoundRecord::WouldBlock => Err(Interrupted(Interruption::NeedsWait)),
        }
    }

    fn put(
        &mut self,
        at: &RecordAt<'_>,
        meta: RecordMeta,
        value: &[u8],
    ) -> Result<(), Interrupted> {
        self.write(at, Some(Record { meta, value: Bytes::copy_from_slice(value) }))
    }

    fn remove(&mut self, at: &RecordAt<'_>) -> Result<(), Interrupted> {
        self.write(at, None)
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{BatchWrite, RecordMeta};
    use crate::ordered::test_store::{open, with};
    use std::task::{Poll, Waker};

    #[test]
    fn an_empty_batch_is_durable_with_the_writes_before_it() {
        let store = open();
        with("name", |at| {
            let write = BatchWrite::Put { at: *at, meta: RecordMeta::default(), value: b"value" };
            store.batch(&[write]).expect("the store is open");
        });
        let ticket = store.batch(&[]).expect("the store is open");
        assert!(store.poll_durable(ticket, Waker::noop()).is_pending());
        store.sync().expect("the disk works");
        assert!(matches!(store.poll_durable(ticket, Waker::noop()), Poll::Ready(Ok(()))));
    }
}
