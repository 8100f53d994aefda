//! Bugs that the checkers must find. They live in the simulator alone: around the engine, in the disk and
//! in what clients send. Nothing that ships knows of them.

use crate::random::Random;
use parking_lot::Mutex;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::BucketRef;
use quoit_model::object::Object;
use quoit_store::compare::Compare;
use quoit_store::engine::{
    Access, Applied, BatchWrite, Before, Change, DataPlace, Decision, Engine, EngineStats, Fetch,
    KeyPage, KeyRange, Record, RecordAt, RecordMeta, RecordPage, RecordRef, Shown, Ticket,
    Verified,
};
use quoit_store::error::StoreError;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// Syncs of the disk report success and do nothing.
    ForgetsSyncs,
    /// A node drops one of several siblings now and then.
    DropsSiblings,
    /// A node confirms writes now and then that it has not made.
    LosesWrites,
    /// A node answers reads now and then with what was stored before the last write, as one would that is
    /// asked for a partition that is not its own any more.
    ReadsStale,
    /// A majority is taken for reached when one has answered.
    CountsQuorumsWrong,
    /// What reads find out about stale replicas is not written to them.
    LosesRepairs,
}

impl Planted {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::ForgetsSyncs,
        Self::DropsSiblings,
        Self::LosesWrites,
        Self::ReadsStale,
        Self::CountsQuorumsWrong,
        Self::LosesRepairs,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ForgetsSyncs => "forgets-syncs",
            Self::DropsSiblings => "drops-siblings",
            Self::LosesWrites => "loses-writes",
            Self::ReadsStale => "reads-stale",
            Self::CountsQuorumsWrong => "counts-quorums-wrong",
            Self::LosesRepairs => "loses-repairs",
        }
    }
}

impl FromStr for Planted {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|bug| bug.name() == name);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("there is no bug {name:?}; there are {}", names()))
    }
}

/// Of so many chances a bug takes one.
const ONE_IN: u64 = 12;

/// An engine with a bug.
pub struct PlantedEngine {
    inner: Arc<dyn Engine>,
    bug: Planted,
    random: Mutex<Random>,
    /// What was stored before the last write, by encoded name.
    before: Mutex<BTreeMap<Vec<u8>, Option<Record>>>,
    /// Whether clients are done: what is written from now on is repair.
    is_calm: Arc<AtomicBool>,
}

impl PlantedEngine {
    /// Plants a bug in an engine. `is_calm` tells when clients are done.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Engine>,
        bug: Planted,
        random: Random,
        is_calm: Arc<AtomicBool>,
    ) -> Self {
        Self { inner, bug, random: Mutex::new(random), before: Mutex::default(), is_calm }
    }

    fn strikes(&self, bug: Planted) -> bool {
        self.bug == bug && self.random.lock().below(ONE_IN) == 0
    }

    fn drops_write(&self) -> bool {
        let is_repair = self.is_calm.load(Ordering::Relaxed);
        self.strikes(Planted::LosesWrites) || self.bug == Planted::LosesRepairs && is_repair
    }

    /// What a stale read of a record answers; `None` when this one is not stale.
    fn stale(&self, at: &RecordAt<'_>) -> Option<Option<Record>> {
        let before = self.before.lock().get(at.encoded).cloned();
        before.filter(|_| self.strikes(Planted::ReadsStale))
    }
}

/// Takes one of several siblings out of an encoded object.
fn drop_sibling(start: usize, out: &mut Vec<u8>, meta: RecordMeta) -> RecordMeta {
    let Ok(mut object) = Object::decode(&out[start..].to_vec().into()) else { return meta };
    if object.siblings.len() < 2 {
        return meta;
    }
    object.siblings.remove(0);
    out.truncate(start);
    object.encode_into(out);
    RecordMeta { digest: object.digest(), tombstone: object.is_tombstone(), ..meta }
}

impl Engine for PlantedEngine {
    fn get(&self, at: &RecordAt<'_>, access: Access) -> Result<Fetch, StoreError> {
        match self.stale(at) {
            Some(stale) => Ok(stale.map_or(Fetch::Missing, Fetch::Found)),
            None => self.inner.get(at, access),
        }
    }

    fn show(
        &self,
        at: &RecordAt<'_>,
        access: Access,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<Shown, StoreError> {
        match self.stale(at) {
            Some(Some(stale)) => {
                look(&RecordRef::shared(&stale));
                Ok(Shown::Found)
            }
            Some(None) => Ok(Shown::Missing),
            None => self.inner.show(at, access, look),
        }
    }

    fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError> {
        match self.stale(at) {
            Some(stale) => Ok(stale.map(|record| record.meta)),
            None => self.inner.head(at),
        }
    }

    fn update(
        &self,
        at: &RecordAt<'_>,
        before: Before,
        access: Access,
        change: &mut Change<'_>,
    ) -> Result<Applied, StoreError> {
        let (loses, drops) = (self.drops_write(), self.strikes(Planted::DropsSiblings));
        let mut writes = false;
        let mut planted = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            let start = out.len();
            let decision = change(stored, out);
            writes = decision != Decision::Keep;
            if writes && before == Before::Read {
                let stored = stored.map(RecordRef::to_record);
                self.before.lock().insert(at.encoded.to_vec(), stored);
            }
            match decision {
                _ if loses => Decision::Keep,
                Decision::Put(meta) if drops => Decision::Put(drop_sibling(start, out, meta)),
                decision => decision,
            }
        };
        let applied = self.inner.update(at, before, access, &mut planted)?;
        Ok(match applied {
            Applied::Kept if loses && writes => Applied::Written(Ticket::default()),
            applied => applied,
        })
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> Result<Ticket, StoreError> {
        self.inner.batch(writes)
    }

    fn poll_durable(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<(), StoreError>> {
        self.inner.poll_durable(ticket, waker)
    }

    fn list_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<KeyPage, StoreError> {
        self.inner.list_keys(range, after, limit)
    }

    fn list_buckets(
        &self,
        bucket_type: Option<&[u8]>,
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<(bytes::Bytes, bytes::Bytes)>, StoreError> {
        self.inner.list_buckets(bucket_type, after, limit)
    }

    fn fold(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
        tombstones_only: bool,
    ) -> Result<RecordPage, StoreError> {
        self.inner.fold(partition, from, limit, tombstones_only)
    }

    fn compared(&self) -> Option<&dyn Compare> {
        self.inner.compared()
    }

    fn verify(&self, from: Option<DataPlace>, limit_bytes: u64) -> Result<Verified, StoreError> {
        self.inner.verify(from, limit_bytes)
    }

    fn drop_partition(&self, partition: Partition) -> Result<Ticket, StoreError> {
        self.inner.drop_partition(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn stats(&self) -> EngineStats {
        self.inner.stats()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }
}
