//! Bugs that the checkers must find. They live in the simulator alone: around the engine, in the disk and
//! in what clients send. Nothing that ships knows of them.

mod gaps;

use crate::boot::PARTITION_COUNT;
use crate::random::Random;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_cluster::ControlPlane;
use quoit_model::hash::{Identity, KeyHash, Partition, PlacementRule, RingSize};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::object::Object;
use quoit_model::secondary_index::{IndexPosition, IndexRange};
use quoit_store::IndexActivity;
use quoit_store::compare::{Compare, Digests, HashRange, LeafPage, Scope};
use quoit_store::engine::{
    Access, Applied, BatchWrite, Before, Body, Change, DataPlace, Decision, Engine, EngineStats,
    Fetch, IndexPage, KeyPage, KeyRange, Record, RecordAt, RecordMeta, RecordPage, RecordRef,
    Shown, Ticket, Verified,
};
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
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
    /// What others have missed is not delivered to them.
    DropsHints,
    /// A node that becomes a primary confirms writes that it has not made as long as reads go by the layout
    /// before.
    SkipsNewLayouts,
    /// A node takes its copies for complete before it has got them.
    ClaimsCopies,
    /// A node removes tombstones that others have not got yet.
    ReapsEarly,
    /// The digests that copies are compared by are not kept up. Hints are dropped too, which would make good
    /// most of it.
    ForgetsDigests,
    /// A node leaves a partition out of its listings while clients work.
    ListsShort,
    /// A node leaves a partition out of its answers to index queries while clients work.
    QueriesShort,
    /// A node says that it speaks a newer version of the protocol than it does.
    ClaimsVersions,
    /// A node that has heard of a late change of a data type takes itself for one that has heard of all
    /// changes before it.
    ClosesGaps,
}

impl Planted {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::ForgetsSyncs,
        Self::DropsSiblings,
        Self::LosesWrites,
        Self::ReadsStale,
        Self::CountsQuorumsWrong,
        Self::LosesRepairs,
        Self::DropsHints,
        Self::SkipsNewLayouts,
        Self::ClaimsCopies,
        Self::ReapsEarly,
        Self::ForgetsDigests,
        Self::ListsShort,
        Self::QueriesShort,
        Self::ClaimsVersions,
        Self::ClosesGaps,
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
            Self::DropsHints => "drops-hints",
            Self::SkipsNewLayouts => "skips-new-layouts",
            Self::ClaimsCopies => "claims-copies",
            Self::ReapsEarly => "reaps-early",
            Self::ForgetsDigests => "forgets-digests",
            Self::ListsShort => "lists-short",
            Self::QueriesShort => "queries-short",
            Self::ClaimsVersions => "claims-versions",
            Self::ClosesGaps => "closes-gaps",
        }
    }

    /// Whether it shows only while members come and go.
    #[must_use]
    pub const fn needs_operator(self) -> bool {
        matches!(self, Self::SkipsNewLayouts | Self::ClaimsCopies)
    }

    /// Whether it shows only where clients have data types.
    #[must_use]
    pub const fn needs_data_types(self) -> bool {
        matches!(self, Self::ClosesGaps)
    }

    /// Whether anti-entropy makes good what it does, so that it shows only without.
    #[must_use]
    pub const fn is_healed_by_exchanges(self) -> bool {
        matches!(self, Self::DropsHints | Self::SkipsNewLayouts | Self::ClaimsCopies)
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

/// Replicas of the run's records.
const N_VAL: u32 = 3;

/// The partition that short listings lack.
const LEFT_OUT: Partition = Partition(1);
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
    control: Arc<ControlPlane>,
    /// The first digests that were asked for, by partition.
    digests: Mutex<BTreeMap<Partition, Digests>>,
}

impl PlantedEngine {
    /// Plants a bug in an engine. `is_calm` tells when clients are done.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Engine>,
        bug: Planted,
        random: Random,
        is_calm: Arc<AtomicBool>,
        control: Arc<ControlPlane>,
    ) -> Self {
        let (random, before) = (Mutex::new(random), Mutex::default());
        Self { inner, bug, random, before, is_calm, control, digests: Mutex::default() }
    }

    fn truly_compared(&self) -> &dyn Compare {
        self.inner.compared().expect("the engine of the run has digests")
    }

    fn strikes(&self, bug: Planted) -> bool {
        self.bug == bug && self.random.lock().below(ONE_IN) == 0
    }

    fn drops_write(&self, at: &RecordAt<'_>, access: Access) -> bool {
        // Transfers may wait for the disk, requests try without.
        if self.bug == Planted::SkipsNewLayouts && access == Access::NoWait {
            let state = self.control.read();
            let (layouts, own) = (state.layouts(), state.node_id());
            let read_by = layouts.for_reads(at.partition);
            let primaries = read_by.primaries(at.partition, N_VAL).iter();
            let is_read =
                primaries.into_iter().any(|node| read_by.nodes()[usize::from(*node)] == own);
            return layouts.is_moving() && !is_read;
        }
        let is_repair = self.is_calm.load(Ordering::Relaxed);
        self.strikes(Planted::LosesWrites) || self.bug == Planted::LosesRepairs && is_repair
    }

    /// What a stale read of a record answers; `None` when this one is not stale.
    fn stale(&self, at: &RecordAt<'_>) -> Option<Option<Record>> {
        let before = self.before.lock().get(at.encoded).cloned();
        before.filter(|_| self.strikes(Planted::ReadsStale))
    }
}

/// Whether a record is in the partition that short listings lack.
fn is_left_out(encoded: &[u8]) -> bool {
    let ring_size = RingSize::new(PARTITION_COUNT).expect("a power of two in the range");
    KeyRef::decode(encoded).is_ok_and(|key| {
        let hash = KeyHash::of(encoded, key.bucket, PlacementRule::BucketAndKey);
        ring_size.partition(hash.placement) == LEFT_OUT
    })
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
    let indexed = object.has_index_entries();
    RecordMeta { digest: object.digest(), tombstone: object.is_tombstone(), indexed, ..meta }
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
        let (loses, drops) = (self.drops_write(at, access), self.strikes(Planted::DropsSiblings));
        let closes = self.bug == Planted::ClosesGaps;
        let reaps = self.bug == Planted::ReapsEarly && self.random.lock().percent(50);
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
                Decision::Put(meta) if reaps && meta.tombstone => Decision::Remove,
                Decision::Put(meta) if drops => Decision::Put(drop_sibling(start, out, meta)),
                Decision::Put(meta) if closes => {
                    let Some(closed) = gaps::closed(&out[start..]) else { return decision };
                    out.truncate(start);
                    out.extend_from_slice(&closed.stored);
                    Decision::Put(RecordMeta { digest: closed.digest, ..meta })
                }
                decision => decision,
            }
        };
        let applied = self.inner.update(at, before, access, &mut planted)?;
        Ok(match applied {
            Applied::Kept if loses && writes => Applied::Written(Ticket::default()),
            applied => applied,
        })
    }

    fn transact(
        &self,
        partition: Partition,
        access: Access,
        body: &mut Body<'_>,
    ) -> Result<Applied, StoreError> {
        if self.bug != Planted::ClosesGaps {
            return self.inner.transact(partition, access, body);
        }
        self.inner.transact(partition, access, &mut |transaction| {
            body(&mut gaps::Closing { transaction })
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
        let mut page = self.inner.list_keys(range, after, limit)?;
        if self.bug == Planted::ListsShort && !self.is_calm.load(Ordering::Relaxed) {
            page.entries.retain(|(encoded, _)| !is_left_out(encoded));
        }
        Ok(page)
    }

    fn query_index(
        &self,
        range: &IndexRange<'_>,
        partitions: &dyn Fn(Partition) -> bool,
        after: Option<&IndexPosition>,
        limit: usize,
    ) -> Result<IndexPage, StoreError> {
        let is_short = self.bug == Planted::QueriesShort && !self.is_calm.load(Ordering::Relaxed);
        let some = |partition| !(is_short && partition == LEFT_OUT) && partitions(partition);
        self.inner.query_index(range, &some, after, limit)
    }

    fn list_buckets(
        &self,
        bucket_type: &[u8],
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.inner.list_buckets(bucket_type, after, limit)
    }

    fn fold(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
        tombstones_only: bool,
    ) -> Result<RecordPage, StoreError> {
        // Only what was missed is looked up one by one.
        let drops_hints = matches!(self.bug, Planted::DropsHints | Planted::ForgetsDigests);
        if drops_hints && limit == 1 {
            return Ok(RecordPage { entries: Vec::new(), next: None });
        }
        self.inner.fold(partition, from, limit, tombstones_only)
    }

    fn compared(&self) -> Option<&dyn Compare> {
        match self.bug {
            Planted::ForgetsDigests => Some(self),
            _ => self.inner.compared(),
        }
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

    fn index_activity(&self) -> IndexActivity {
        self.inner.index_activity()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }
}

impl Compare for PlantedEngine {
    fn digests(&self, partition: Partition, hour_min: u32) -> Result<Digests, StoreError> {
        let now = self.truly_compared().digests(partition, hour_min)?;
        Ok(*self.digests.lock().entry(partition).or_insert(now))
    }

    fn range_digests(
        &self,
        partition: Partition,
        scope: Scope,
        ranges: &[HashRange],
    ) -> Result<Vec<u64>, StoreError> {
        self.truly_compared().range_digests(partition, scope, ranges)
    }

    fn leaves(
        &self,
        partition: Partition,
        scope: Scope,
        range: HashRange,
        from: Tag,
        limit: usize,
    ) -> Result<LeafPage, StoreError> {
        self.truly_compared().leaves(partition, scope, range, from, limit)
    }

    fn tagged(
        &self,
        partition: Partition,
        tags: &[Tag],
    ) -> Result<Vec<(Bytes, Record)>, StoreError> {
        self.truly_compared().tagged(partition, tags)
    }
}
