//! An engine with a model beside it: the model records each write and checks each point read, also within
//! transactions, and each page of a fold. Listings, index queries and folds over tombstones only are not
//! checked.

use crate::engine_model::{EngineModel, ModelName, Version};
use crate::execution::SlowSync;
use crate::store_starts::StoreStart;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::BucketRef;
use quoit_model::secondary_index::{IndexPosition, IndexRange};
use quoit_store::IndexActivity;
use quoit_store::OpenedStore;
use quoit_store::engine::{
    Applied, BatchWrite, BeforeImage, ChangeFn, Compare, DataLocation, Decision, Engine,
    EngineStats, Fetch, InPlaceRead, IndexPage, Interrupted, IoMode, KeyPage, KeyRange,
    Maintenance, PointAccess, Record, RecordAt, RecordMeta, RecordPage, RecordRef, RecordVisitor,
    RecordWalk, ScanAccess, SizeBound, Ticket, Transaction, TransactionFn, Verified,
};
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// An engine, and the model of the records that it has to hold.
struct ModelledEngine {
    engine: Arc<dyn Engine>,
    model: Arc<Mutex<EngineModel>>,
    /// The commit that pauses in a sync.
    slow_sync: SlowSync,
    /// Damage that the engine had met before the run itself read records.
    found_damage: Mutex<Vec<(Partition, Tag)>>,
}

impl ModelledEngine {
    fn new(engine: Arc<dyn Engine>, model: Arc<Mutex<EngineModel>>, slow_sync: SlowSync) -> Self {
        Self { engine, model, slow_sync, found_damage: Mutex::default() }
    }
}

/// Puts the model beside an engine that was opened on the model's disk, and checks the records that the
/// engine has found there.
pub(crate) fn modelled(
    opened: OpenedStore,
    model: &Arc<Mutex<EngineModel>>,
    slow_sync: SlowSync,
) -> OpenedStore {
    let engine = opened.engine;
    {
        let mut model = model.lock();
        let names = model.names().into_iter();
        let found = names.filter_map(|name| {
            // Other checks deal with records that can't be read.
            let found = engine.get(&name.at()?, IoMode::Wait).ok()?;
            let version = match &found {
                Fetch::Found(record) => Some(Version::of(&record.meta, &record.value)),
                Fetch::Missing | Fetch::WouldBlock => None,
            };
            Some((name, version))
        });
        let found = found.collect();
        model.restarted(&found);
        let has_lost = opened.loss.is_some();
        model.started(StoreStart { actor: opened.identity.actor(), has_lost });
    }
    let model = Arc::clone(model);
    OpenedStore { engine: Arc::new(ModelledEngine::new(engine, model, slow_sync)), ..opened }
}

impl ModelledEngine {
    /// Records the outcome of writes that were made together.
    fn note(
        &self,
        outcome: &Result<Applied, StoreError>,
        versions: BTreeMap<ModelName, Option<Version>>,
    ) {
        match outcome {
            Ok(Applied::Written(ticket)) => self.model.lock().wrote(*ticket, versions),
            Ok(Applied::Kept | Applied::WouldBlock) => {}
            Err(_) => self.model.lock().failed(versions.into_keys()),
        }
    }
}

impl PointAccess for ModelledEngine {
    fn get(&self, at: &RecordAt<'_>, access: IoMode) -> Result<Fetch, StoreError> {
        let fetched = self.engine.get(at, access)?;
        match &fetched {
            Fetch::Found(record) => {
                let version = Version::of(&record.meta, &record.value);
                self.model.lock().check_read(&ModelName::of(at), Some(version));
            }
            Fetch::Missing => self.model.lock().check_read(&ModelName::of(at), None),
            Fetch::WouldBlock => {}
        }
        Ok(fetched)
    }

    fn show(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<InPlaceRead, StoreError> {
        let mut found = None;
        let shown = self.engine.show(at, access, &mut |record| {
            found = record.is_whole.then(|| Version::of(&record.meta, record.value));
            look(record);
        })?;
        if found.is_some() || shown == InPlaceRead::Missing {
            self.model.lock().check_read(&ModelName::of(at), found);
        }
        Ok(shown)
    }

    fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError> {
        let head = self.engine.head(at)?;
        self.model.lock().check_head(&ModelName::of(at), head.as_ref());
        Ok(head)
    }

    fn size_bound(&self, at: &RecordAt<'_>, access: IoMode) -> SizeBound {
        self.engine.size_bound(at, access)
    }

    fn update(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut ChangeFn<'_>,
    ) -> Result<Applied, StoreError> {
        let mut versions = BTreeMap::new();
        let outcome = self.engine.update(at, before, access, &mut |stored, out| {
            let start = out.len();
            let decision = change(stored, out);
            match decision {
                Decision::Put(meta) => {
                    versions.insert(ModelName::of(at), Some(Version::of(&meta, &out[start..])));
                }
                Decision::Remove => {
                    versions.insert(ModelName::of(at), None);
                }
                Decision::Keep => {}
            }
            decision
        });
        self.note(&outcome, versions);
        outcome
    }

    fn transact(
        &self,
        partition: Partition,
        access: IoMode,
        body: &mut TransactionFn<'_>,
    ) -> Result<Applied, StoreError> {
        let (model, mut versions) = (&self.model, BTreeMap::new());
        let outcome = self.engine.transact(partition, access, &mut |transaction| {
            versions.clear();
            body(&mut ModelledTransaction { transaction, model, versions: &mut versions })
        });
        self.note(&outcome, versions);
        outcome
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> Result<Ticket, StoreError> {
        let versions = writes.iter().map(|write| match write {
            BatchWrite::Put { at, meta, value } => {
                (ModelName::of(at), Some(Version::of(meta, value)))
            }
            BatchWrite::Remove { at } => (ModelName::of(at), None),
        });
        let versions = versions.collect();
        let outcome = self.engine.batch(writes).map(Applied::Written);
        self.note(&outcome, versions);
        match outcome? {
            Applied::Written(ticket) => Ok(ticket),
            Applied::Kept | Applied::WouldBlock => unreachable!("made above"),
        }
    }

    fn poll_durable(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<(), StoreError>> {
        let polled = self.engine.poll_durable(ticket, waker);
        if matches!(polled, Poll::Ready(Ok(()))) {
            self.model.lock().is_durable(ticket);
        }
        polled
    }

    fn joined(&self, one: Ticket, other: Ticket) -> Ticket {
        self.engine.joined(one, other)
    }
}

/// A transaction that records its writes, and whose reads the model checks.
struct ModelledTransaction<'t> {
    transaction: &'t mut dyn Transaction,
    model: &'t Mutex<EngineModel>,
    versions: &'t mut BTreeMap<ModelName, Option<Version>>,
}

impl Transaction for ModelledTransaction<'_> {
    fn get(&mut self, at: &RecordAt<'_>) -> Result<Option<Record>, Interrupted> {
        let record = self.transaction.get(at)?;
        let version = record.as_ref().map(|record| Version::of(&record.meta, &record.value));
        self.model.lock().check_read(&ModelName::of(at), version);
        Ok(record)
    }

    fn put(
        &mut self,
        at: &RecordAt<'_>,
        meta: RecordMeta,
        value: &[u8],
    ) -> Result<(), Interrupted> {
        self.transaction.put(at, meta, value)?;
        self.versions.insert(ModelName::of(at), Some(Version::of(&meta, value)));
        Ok(())
    }

    fn remove(&mut self, at: &RecordAt<'_>) -> Result<(), Interrupted> {
        self.transaction.remove(at)?;
        self.versions.insert(ModelName::of(at), None);
        Ok(())
    }
}

impl ScanAccess for ModelledEngine {
    fn list_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<KeyPage, StoreError> {
        self.engine.list_keys(range, after, limit)
    }

    fn visit_records(
        &self,
        walk: RecordWalk<'_>,
        visitor: &mut dyn RecordVisitor,
    ) -> Result<Option<Bytes>, StoreError> {
        self.engine.visit_records(walk, visitor)
    }

    fn query_index(
        &self,
        range: &IndexRange<'_>,
        partitions: &dyn Fn(Partition) -> bool,
        after: Option<&IndexPosition>,
        limit: usize,
    ) -> Result<IndexPage, StoreError> {
        self.engine.query_index(range, partitions, after, limit)
    }

    fn list_buckets(
        &self,
        bucket_type: &[u8],
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.engine.list_buckets(bucket_type, after, limit)
    }

    fn fold(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
        tombstones_only: bool,
    ) -> Result<RecordPage, StoreError> {
        let is_read_by_run = self.model.lock().is_read_by_run();
        if is_read_by_run {
            self.found_damage.lock().extend(self.engine.take_found_damage());
        }
        let folded = self.engine.fold(partition, from, limit, tombstones_only);
        if is_read_by_run {
            drop(self.engine.take_found_damage());
        }
        let page = folded?;
        if !tombstones_only {
            self.model.lock().check_fold(partition, from, &page);
        }
        Ok(page)
    }

    fn compared(&self) -> Option<&dyn Compare> {
        self.engine.compared()
    }
}

impl Maintenance for ModelledEngine {
    fn sync(&self) -> Result<(), StoreError> {
        self.slow_sync.end();
        self.engine.sync()?;
        self.model.lock().all_durable();
        Ok(())
    }

    fn drop_partition(&self, partition: Partition) -> Result<Ticket, StoreError> {
        let ticket = self.engine.drop_partition(partition)?;
        self.model.lock().dropped(ticket, partition);
        Ok(ticket)
    }

    fn verify(&self, from: Option<DataLocation>, limit_bytes: u64) -> Result<Verified, StoreError> {
        self.engine.verify(from, limit_bytes)
    }

    fn take_found_damage(&self) -> Vec<(Partition, Tag)> {
        let mut found = std::mem::take(&mut *self.found_damage.lock());
        found.extend(self.engine.take_found_damage());
        found
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }

    fn index_activity(&self) -> IndexActivity {
        self.engine.index_activity()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.engine.close()?;
        self.model.lock().closed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
    use quoit_seam::ManualClock;
    use quoit_store::memory::{MemoryEngine, MemorySettings};

    const PARTITION: Partition = Partition(3);

    /// Returns what the model says about a read of a record that the engine has lost.
    fn told_of_loss(read: impl Fn(&ModelledEngine, &RecordAt<'_>)) -> Option<String> {
        let clock = Arc::new(ManualClock::at(0));
        let engine = MemoryEngine::new(MemorySettings::default(), RingSize::DEFAULT, clock);
        let engine = ModelledEngine::new(Arc::new(engine), Arc::default(), SlowSync::default());
        let key = BucketRef { bucket_type: b"default", bucket: b"b" }.key(b"k");
        let encoded = key.encoded();
        let identity = KeyHash::of(&encoded, key.bucket, PlacementRule::BucketAndKey).identity;
        let at = RecordAt { key, encoded: &encoded, identity, partition: PARTITION };
        let meta = RecordMeta { digest: 7, ..RecordMeta::default() };
        engine.batch(&[BatchWrite::Put { at, meta, value: b"value" }]).expect("there is room");
        read(&engine, &at);
        assert_eq!(engine.model.lock().take_violation(), None);
        engine.engine.batch(&[BatchWrite::Remove { at }]).expect("there is room");
        read(&engine, &at);
        engine.model.lock().take_violation()
    }

    #[test]
    fn heads_folds_and_reads_within_transactions_are_checked() {
        let told = told_of_loss(|engine, at| {
            engine.head(at).expect("the record can be read");
        });
        assert!(told.is_some_and(|told| told.starts_with("a head of ")));
        let told = told_of_loss(|engine, _| {
            engine.fold(PARTITION, Identity(0), 10, false).expect("the records can be read");
        });
        assert!(told.is_some_and(|told| told.starts_with("a fold of ")));
        let told = told_of_loss(|engine, at| {
            let mut get = |transaction: &mut dyn Transaction| transaction.get(at).map(drop);
            engine.transact(PARTITION, IoMode::Wait, &mut get).expect("the record can be read");
        });
        assert!(told.is_some_and(|told| told.starts_with("a read of ")));
    }
}
