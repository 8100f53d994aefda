//! The engine's public type.

use super::assignments::Routing;
use super::file;
use super::merge;
use super::routes::{NamedEngines, Routes, bucket_of};
use super::tickets::{self, Tickets};
use super::transact::{Probe, SingleEngineTransaction};
use crate::engine::{
    Applied, BatchWrite, BeforeImage, ChangeFn, Compare, DataLocation, Engine, EngineStats, Fetch,
    InPlaceRead, IndexPage, Interrupted, Interruption, IoMode, KeyPage, KeyRange, LargeChange,
    Maintenance, PointAccess, RecordAt, RecordMeta, RecordPage, RecordRef, RecordVisitor,
    RecordWalk, ScanAccess, SizeBound, Ticket, TransactionFn, Verified, visit_listed,
};
use crate::error::StoreError;
use crate::identity::StoreIdentity;
use crate::index::Tag;
use crate::index_activity::IndexActivity;
use crate::store_file::Meta;
use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::BucketRef;
use quoit_model::secondary_index::{IndexPosition, IndexRange};
use quoit_seam::{Disk, DiskLock};
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Several engines behind one. See the module's documentation.
///
/// A request takes a shared lock, which it holds until its engine has answered, and at most two lookups.
/// The first call after properties were changed waits for the disk if buckets may change their engine.
pub struct MultiEngine {
    pub(super) named: NamedEngines,
    /// Requests hold the read lock while an engine works on them, so that the engine of a bucket does not
    /// change meanwhile.
    pub(super) routes: RwLock<Routes>,
    pub(super) routing: Arc<dyn Routing>,
    pub(super) tickets: Tickets,
    pub(super) identity: Arc<StoreIdentity>,
    pub(super) disk: Arc<dyn Disk>,
    /// Held until the engine is dropped.
    pub(super) _lock: Box<dyn DiskLock>,
}

impl MultiEngine {
    /// Identity of the store, shared by all of its engines.
    #[must_use]
    pub const fn identity(&self) -> &Arc<StoreIdentity> {
        &self.identity
    }

    /// Name and statistics of each engine.
    #[must_use]
    pub fn stats_by_name(&self) -> Vec<(&str, EngineStats)> {
        let names = self.named.names.iter().map(String::as_str);
        names.zip(&self.named.engines).map(|(name, engine)| (name, engine.stats())).collect()
    }

    /// Name of the engine that a bucket has now.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "routes have numbers of engines")]
    pub fn engine_of(&self, bucket: BucketRef<'_>) -> &str {
        let place = self.routes().of_bucket(bucket_of(bucket));
        &self.named.names[place]
    }

    /// The engines whose copies can be compared.
    pub(super) fn complete(&self) -> impl Iterator<Item = &dyn Compare> {
        self.named.engines.iter().filter_map(|engine| engine.compared())
    }

    /// The routes, updated to the current assignments.
    fn routes(&self) -> RwLockReadGuard<'_, Routes> {
        let routes = self.routes.read();
        if routes.version == Some(self.routing.version()) {
            return routes;
        }
        drop(routes);
        let mut routes = self.routes.write();
        if let Err(error) = self.follow(&mut routes) {
            // The current routes stay valid. The next change of properties or a restart tries again.
            tracing::warn!(
                %error,
                "buckets keep their storage engines: which others they shall have can't be written down"
            );
            routes.version = Some(self.routing.version());
        }
        RwLockWriteGuard::downgrade(routes)
    }

    /// Updates routes to the current assignments.
    pub(super) fn follow(&self, routes: &mut Routes) -> Result<(), StoreError> {
        // The version is read first: a change after it has another version, which the next request sees.
        let version = self.routing.version();
        if routes.version == Some(version) {
            return Ok(());
        }
        let assignments = self.routing.assignments();
        if let Some(kept) = routes.follow(version, assignments, &self.named)? {
            // Syncs the records. Otherwise a bucket that is empty now could have records again after a crash.
            self.all(|engine| engine.sync())?;
            file::write(&*self.disk, &kept)?;
            *routes = Routes::followed(version, kept, &self.named);
        }
        Ok(())
    }

    #[expect(clippy::indexing_slicing, reason = "routes have numbers of engines")]
    fn engine(&self, place: usize) -> &dyn Engine {
        &*self.named.engines[place]
    }

    fn numbered(&self, place: usize, applied: Applied) -> Applied {
        match applied {
            Applied::Written(ticket) => Applied::Written(self.tickets.issue(place, ticket)),
            other => other,
        }
    }

    /// Collects the answers of all engines.
    fn all<T>(
        &self,
        ask: impl Fn(&dyn Engine) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.named.engines.iter().map(|engine| ask(&**engine)).collect()
    }
}

impl PointAccess for MultiEngine {
    fn get(&self, at: &RecordAt<'_>, access: IoMode) -> Result<Fetch, StoreError> {
        let routes = self.routes();
        self.engine(routes.of_key(at.key)).get(at, access)
    }

    fn show(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<InPlaceRead, StoreError> {
        let routes = self.routes();
        self.engine(routes.of_key(at.key)).show(at, access, look)
    }

    fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError> {
        let routes = self.routes();
        self.engine(routes.of_key(at.key)).head(at)
    }

    fn size_bound(&self, at: &RecordAt<'_>, access: IoMode) -> SizeBound {
        let routes = self.routes();
        self.engine(routes.of_key(at.key)).size_bound(at, access)
    }

    fn update(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut ChangeFn<'_>,
    ) -> Result<Applied, StoreError> {
        let routes = self.routes();
        let place = routes.of_key(at.key);
        let applied = self.engine(place).update(at, before, access, change)?;
        Ok(self.numbered(place, applied))
    }

    fn update_large(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut LargeChange<'_>,
    ) -> Result<Applied, StoreError> {
        let routes = self.routes();
        let place = routes.of_key(at.key);
        let applied = self.engine(place).update_large(at, before, access, change)?;
        Ok(self.numbered(place, applied))
    }

    fn transact(
        &self,
        partition: Partition,
        access: IoMode,
        body: &mut TransactionFn<'_>,
    ) -> Result<Applied, StoreError> {
        let routes = self.routes();
        let mut probe = Probe { routes: &routes, partition, found: None };
        let began = body(&mut probe);
        let Some(place) = probe.found else {
            return match began {
                Ok(()) => Ok(Applied::Kept),
                Err(Interrupted(Interruption::NeedsWait)) => Ok(Applied::WouldBlock),
                Err(Interrupted(Interruption::Failed(error))) => Err(error),
            };
        };
        let applied = self.engine(place).transact(partition, access, &mut |inner| {
            body(&mut SingleEngineTransaction { routes: &routes, engine: place, inner })
        })?;
        Ok(self.numbered(place, applied))
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> Result<Ticket, StoreError> {
        let routes = self.routes();
        let place_of = |write: &BatchWrite<'_>| {
            let (BatchWrite::Put { at, .. } | BatchWrite::Remove { at }) = write;
            routes.of_key(at.key)
        };
        let place = writes.first().map_or(self.named.default, place_of);
        if writes.iter().any(|write| place_of(write) != place) {
            return Err(StoreError::SeveralEngines);
        }
        let ticket = self.engine(place).batch(writes)?;
        Ok(self.tickets.issue(place, ticket))
    }

    #[expect(clippy::indexing_slicing, reason = "tickets have numbers of engines")]
    fn poll_durable(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<(), StoreError>> {
        let engines = &self.named.engines;
        self.tickets.poll(ticket, |place, ticket| engines[place].poll_durable(ticket, waker))
    }

    fn joined(&self, one: Ticket, other: Ticket) -> Ticket {
        tickets::joined(one, other)
    }
}

impl ScanAccess for MultiEngine {
    fn list_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<KeyPage, StoreError> {
        if let KeyRange::Bucket(bucket)
        | KeyRange::Prefix(bucket, _)
        | KeyRange::Between(bucket, ..) = range
        {
            let routes = self.routes();
            let engine = self.engine(routes.of_bucket(bucket_of(bucket)));
            return engine.list_keys(range, after, limit);
        }
        Ok(merge::keys(self.all(|engine| engine.list_keys(range, after, limit))?, limit))
    }

    fn visit_records(
        &self,
        walk: RecordWalk<'_>,
        visitor: &mut dyn RecordVisitor,
    ) -> Result<Option<Bytes>, StoreError> {
        let (KeyRange::Bucket(bucket)
        | KeyRange::Prefix(bucket, _)
        | KeyRange::Between(bucket, ..)) = walk.range
        else {
            return visit_listed(self, walk, visitor);
        };
        let routes = self.routes();
        self.engine(routes.of_bucket(bucket_of(bucket))).visit_records(walk, visitor)
    }

    fn query_index(
        &self,
        range: &IndexRange<'_>,
        partitions: &dyn Fn(Partition) -> bool,
        after: Option<&IndexPosition>,
        limit: usize,
    ) -> Result<IndexPage, StoreError> {
        let routes = self.routes();
        let engine = self.engine(routes.of_bucket(bucket_of(range.bucket)));
        engine.query_index(range, partitions, after, limit)
    }

    fn list_buckets(
        &self,
        bucket_type: &[u8],
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let lists = self.all(|engine| engine.list_buckets(bucket_type, after, limit))?;
        Ok(merge::buckets(lists, limit))
    }

    fn fold(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
        tombstones_only: bool,
    ) -> Result<RecordPage, StoreError> {
        let fold = |engine: &dyn Engine| engine.fold(partition, from, limit, tombstones_only);
        Ok(merge::records(self.all(fold)?))
    }

    fn compared(&self) -> Option<&dyn Compare> {
        self.complete().next().is_some().then_some(self)
    }
}

impl Maintenance for MultiEngine {
    fn take_found_damage(&self) -> Vec<(Partition, Tag)> {
        self.named.engines.iter().flat_map(|engine| engine.take_found_damage()).collect()
    }

    fn verify(&self, from: Option<DataLocation>, limit_bytes: u64) -> Result<Verified, StoreError> {
        let place = from.map_or(0, |place| place.engine);
        let Some(engine) = self.named.engines.get(usize::from(place)) else {
            return Ok(Verified::default());
        };
        let verified = engine.verify(from, limit_bytes)?;
        let next = match verified.next {
            Some(next) => Some(DataLocation { engine: place, ..next }),
            None => place
                .checked_add(1)
                .filter(|next| usize::from(*next) < self.named.engines.len())
                .map(|next| DataLocation { engine: next, ..DataLocation::default() }),
        };
        Ok(Verified { next, ..verified })
    }

    fn drop_partition(&self, partition: Partition) -> Result<Ticket, StoreError> {
        let tickets = self.all(|engine| engine.drop_partition(partition))?;
        Ok(self.tickets.issue_of_all(tickets))
    }

    fn sync(&self) -> Result<(), StoreError> {
        // Syncs all engines, even if one fails.
        let synced: Vec<Result<(), StoreError>> =
            self.named.engines.iter().map(|engine| engine.sync()).collect();
        synced.into_iter().collect()
    }

    fn stats(&self) -> EngineStats {
        merge::stats(self.named.engines.iter().map(|engine| engine.stats()))
    }

    fn index_activity(&self) -> IndexActivity {
        let activities = self.named.engines.iter().map(|engine| engine.index_activity());
        activities.fold(IndexActivity::default(), IndexActivity::plus)
    }

    fn close(&self) -> Result<(), StoreError> {
        if !self.identity.begin_close() {
            return Err(StoreError::Closed);
        }
        // Changes that are under way may still reserve counters, so the engines are closed first. Closes
        // all engines, even if one fails.
        let closed: Vec<Result<(), StoreError>> =
            self.named.engines.iter().map(|engine| engine.close()).collect();
        closed.into_iter().collect::<Result<(), _>>()?;
        let mut file = self.identity.file();
        let closed = Meta { clean: true, ..file.meta().clone() };
        file.write(closed)
    }
}
