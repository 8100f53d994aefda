//! The replicated store: what the protocols call.

mod builder;
mod service;

pub use builder::StoreBuilder;

use crate::changes::ChangeFeeds;
use crate::coordinator::Coordinator;
use crate::coordinator::confirm::{Confirmation, Unconfirmed};
use crate::coordinator::data_type::{DataTypeRequest, FetchedDataType, ItemSink};
use crate::coordinator::given::{BegunBatch, GivenInPlace, GivenObject, PendingBatch};
use crate::coordinator::in_flight::AdmittedRequests;
use crate::coordinator::in_place::{Pending, PlainWrite, ShownInPlace, ShownObject};
use crate::coordinator::put::{DeleteRequest, Deleted, PutRequest};
use crate::delivery::Deliveries;
use crate::error::RequestError;
use crate::exchange::AntiEntropy;
use crate::folds::Folds;
use crate::grants::Grants;
use crate::hints::MissedWrites;
use crate::jobs::Jobs;
use crate::listing::Listings;
use crate::local_node::{DiskRoom, LocalNode};
use crate::losses::LossRecovery;
use crate::options::ReadOptions;
use crate::preflist::PreflistPlace;
use crate::queues::SourceQueues;
use crate::reap_records::ReapRecordStats;
use crate::reaper::Reaper;
use crate::replica::Replica;
use crate::replica_server::ReplicaServer;
use crate::replication::Replication;
use crate::request_log::RequestLog;
use crate::riak_trees::RiakTrees;
use crate::settings::StoreSettings;
use crate::stats::{Stats, StatsSnapshot};
use crate::transfer::Transfers;
use crate::write_hook::WriteHook;
use bytes::Bytes;
use quoit_cluster::ControlPlane;
use quoit_model::clock::VersionVector;
use quoit_model::data_type::{Answer, Question};
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_model::vtag::make_vtag;
use quoit_seam::Clock;
use quoit_store::engine::Engine;
use quoit_store::error::StoreError;
use quoit_wire::internode::data::{METHOD_FIRST, METHOD_LAST};
use service::StoreService;
use std::sync::Arc;

/// Keeps generated keys apart from entity tags of the same events.
const GENERATED_KEY_SALT: u64 = 0x6B65_7973;

/// The store of one node: the face of its parts, each of which knows only those above it. Shared by all
/// connections; every method takes `&self`.
pub struct ReplicatedStore {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    missed: Arc<MissedWrites>,
    change_feeds: Arc<ChangeFeeds>,
    source_queues: Arc<SourceQueues>,
    hook: Arc<WriteHook>,
    grants: Arc<Grants>,
    replica_server: Arc<ReplicaServer>,
    coordinator: Arc<Coordinator>,
    listings: Arc<Listings>,
    folds: Arc<Folds>,
    jobs: Arc<Jobs>,
    riak_trees: Arc<RiakTrees>,
    delivery: Arc<Deliveries>,
    anti_entropy: Arc<AntiEntropy>,
    transfers: Arc<Transfers>,
    losses: Arc<LossRecovery>,
    reaper: Arc<Reaper>,
    replication: Arc<Replication>,
}

impl ReplicatedStore {
    /// Reads an object. `None` when nothing is stored; tombstones are returned, the protocols decide what
    /// to show of them.
    ///
    /// On a node that is alone this costs two look-ups (properties, index) and one positioned read, and
    /// waits only for a disk read that the page cache can't serve. Else it takes as many replicas as the
    /// read asks for.
    ///
    /// # Errors
    ///
    /// Too many reads under way, bad names, unknown bucket types, quorums that can't be met, engine faults.
    pub async fn get(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
    ) -> Result<Option<Object>, RequestError> {
        self.coordinator.get(key, options).await
    }

    /// The most bytes that this node's copy of an object takes as it is stored, if it has one: so that a
    /// caller can make room before it reads. One look-up in the index, or of the head of the record.
    #[must_use]
    pub fn size_bytes_max(&self, key: KeyRef<'_>) -> Option<u64> {
        self.coordinator.size_bytes_max(key)
    }

    /// Writes a value. Returns the stored object if the request asks for it.
    ///
    /// The answer comes when enough replicas have accepted the write (w, pw) and synced it (dw). A
    /// node that is no replica of the record has one of them coordinate.
    ///
    /// # Errors
    ///
    /// Too many writes under way, bad names, unknown bucket types, quorums, conditions, limits, engine
    /// faults. A write whose quorum was not met may be stored nevertheless.
    pub async fn put(&self, request: PutRequest<'_>) -> Result<Option<Object>, RequestError> {
        self.coordinator.put(request).await
    }

    /// Deletes a record by writing a tombstone, which is reaped later.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::put`].
    pub async fn delete(&self, request: DeleteRequest<'_>) -> Result<Deleted, RequestError> {
        self.coordinator.delete(request).await
    }

    /// Reads a data type. `None` when there is none.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::get`].
    pub async fn fetch_data_type(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
    ) -> Result<Option<FetchedDataType>, RequestError> {
        self.coordinator.fetch_data_type(key, options).await
    }

    /// Does an operation on a data type, which is created if there is none. Returns the value after it if the
    /// request asks for that.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::put`]; operations for another type, contexts of other records, removes
    /// without context of what is not there.
    pub async fn update_data_type(
        &self,
        request: DataTypeRequest<'_>,
    ) -> Result<Option<FetchedDataType>, RequestError> {
        self.coordinator.update_data_type(request).await
    }

    /// Asks something about a data type, or a set or map in a field of it, that need not read all of it: its
    /// size, whether an element is in it, one field, some of its elements. `None` when it is not there.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::get`], and when the question does not suit the type.
    pub async fn query_data_type(
        &self,
        key: KeyRef<'_>,
        question: &Question,
        options: &ReadOptions,
    ) -> Result<Option<Answer>, RequestError> {
        self.coordinator.query_data_type(key, question, options).await
    }

    /// Reads a large set or map into a sink. False when there is none, this node has no copy of it, or the
    /// copies that the read asks for are not the same: [`ReplicatedStore::fetch_data_type`] has the answer
    /// then, and what the sink was given means nothing.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::get`].
    pub async fn stream_items(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
        sink: &mut (dyn ItemSink + Send),
    ) -> Result<bool, RequestError> {
        self.coordinator.stream_items(key, options, sink).await
    }

    /// Finds out whether the replicas that a read has asked have what was shown. If they have not, or one of
    /// them is late, the read goes on: what differs is merged and repaired, as by [`ReplicatedStore::get`].
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::get`].
    pub async fn confirm_read(
        &self,
        unconfirmed: Unconfirmed,
    ) -> Result<Confirmation, RequestError> {
        self.coordinator.confirm_read(unconfirmed).await
    }

    /// Writes those objects of a batch together of which nothing is stored yet, if this node is alone. Gives
    /// other tasks their turn in between.
    pub async fn begin_given(&self, objects: Vec<GivenObject>) -> BegunBatch {
        self.coordinator.begin_given(objects).await
    }

    /// Waits until the objects of a batch are synced.
    ///
    /// # Errors
    ///
    /// When they are not in time, or the disk refuses; they may stand nevertheless.
    pub async fn finish_given(&self, pending: &PendingBatch) -> Result<(), RequestError> {
        self.coordinator.finish_given(pending).await
    }

    /// Merges an object with what is stored, as a put of [`PutRequest::given`] does, if this node is alone.
    /// A caller with many objects has all of them in the log before it waits, so they share a sync. Reads
    /// the stored object from the disk if need be.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::put`].
    pub fn put_given_in_place(
        &self,
        key: KeyRef<'_>,
        object: Object,
    ) -> Result<GivenInPlace, RequestError> {
        self.coordinator.put_given_in_place(key, object)
    }

    /// Shows this node's copy of an object to a function, `None` when nothing is stored, and returns what it
    /// made of it; `None` when the node has no copy, or the read has to wait for the disk: the caller uses
    /// [`ReplicatedStore::get`] then.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::get`].
    pub fn get_in_place<T>(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
        show: impl FnOnce(Option<ShownObject<'_>>) -> T,
    ) -> Result<Option<ShownInPlace<T>>, RequestError> {
        self.coordinator.get_in_place(key, options, show)
    }

    /// Writes a value that is then the only one of its record. `None` when it would not be, when what
    /// is stored is not plain or has to come from the disk: nothing was written then, and the caller
    /// uses [`ReplicatedStore::put`].
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::put`].
    pub fn put_in_place(&self, write: &PlainWrite<'_>) -> Result<Option<Pending>, RequestError> {
        self.coordinator.put_in_place(write)
    }

    /// Waits until a write has what its quorums ask for: on a node that is alone, not at all without `dw`.
    ///
    /// # Errors
    ///
    /// When they can't be met in time. The write may stand nevertheless.
    pub async fn finish(&self, pending: Pending) -> Result<(), RequestError> {
        self.coordinator.finish(pending).await
    }

    /// Requests under way that wait for a disk or for other nodes.
    #[must_use]
    pub fn active(&self) -> AdmittedRequests {
        self.coordinator.active()
    }

    /// The preference list of a key as clients are shown it: who answers for each position now.
    ///
    /// # Errors
    ///
    /// Bad names and unknown bucket types.
    pub fn preflist(&self, key: KeyRef<'_>) -> Result<Vec<PreflistPlace>, RequestError> {
        self.local.preflist(key)
    }

    /// Clock of the tombstone that was reaped under a name, as far as this node remembers it. A record that
    /// it stores under that name has seen the tombstone, except where the last write wins.
    ///
    /// # Errors
    ///
    /// Names that are none, and faults of the disk.
    pub fn reaped_clock(
        &self,
        encoded: &[u8],
        partition: Partition,
    ) -> Result<Option<VersionVector>, RequestError> {
        self.replica.reaped_clock(encoded, partition)
    }

    /// Says whether this node consumes queues of other clusters.
    pub fn set_consumes(&self, consumes: bool) {
        self.hook.set_consumes(consumes);
    }

    /// Writes hints that are not on disk yet: before the process ends.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn flush_hints(&self) -> Result<(), StoreError> {
        self.missed.flush()
    }

    /// Figures of reap records.
    #[must_use]
    pub fn reap_record_stats(&self) -> ReapRecordStats {
        self.replica.reap_records.stats()
    }

    /// Makes up for records that the store has lost, before the node answers requests. Waits until the
    /// cluster agrees, and until enough nodes with whole copies serve. How many records were dropped.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub async fn settle_loss(&self) -> Result<u64, RequestError> {
        self.losses.settle_loss().await
    }

    /// Whether reap records were lost, so that deleted records could come back: the node has to make up for
    /// that as for a store that has lost records ([`ReplicatedStore::settle_loss`]).
    #[must_use]
    pub fn has_lost_reap_records(&self) -> bool {
        !self.replica.reap_records.lost().is_empty()
    }

    /// Notes on disk where the files of reap records end: before the process ends.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn flush_reap_records(&self) -> Result<(), StoreError> {
        self.replica.reap_records.note_ends()
    }

    /// Listings of buckets and keys, and queries of secondary indexes.
    #[must_use]
    pub const fn listings(&self) -> &Arc<Listings> {
        &self.listings
    }

    /// The change feeds of buckets.
    #[must_use]
    pub const fn change_feeds(&self) -> &Arc<ChangeFeeds> {
        &self.change_feeds
    }

    /// The trees by which Riak nodes compare whole clusters.
    #[must_use]
    pub const fn riak_trees(&self) -> &Arc<RiakTrees> {
        &self.riak_trees
    }

    /// Folds over buckets.
    #[must_use]
    pub const fn folds(&self) -> &Arc<Folds> {
        &self.folds
    }

    /// MapReduce jobs.
    #[must_use]
    pub const fn jobs(&self) -> &Arc<Jobs> {
        &self.jobs
    }

    /// Queues of writes for other clusters.
    #[must_use]
    pub const fn source_queues(&self) -> &Arc<SourceQueues> {
        &self.source_queues
    }

    /// Comparison of copies with those of other nodes.
    #[must_use]
    pub const fn anti_entropy(&self) -> &Arc<AntiEntropy> {
        &self.anti_entropy
    }

    /// Transfers of records to the nodes that should have them.
    #[must_use]
    pub const fn transfers(&self) -> &Arc<Transfers> {
        &self.transfers
    }

    /// Removal of tombstones.
    #[must_use]
    pub const fn reaper(&self) -> &Arc<Reaper> {
        &self.reaper
    }

    /// Replication with other clusters.
    #[must_use]
    pub const fn replication(&self) -> &Arc<Replication> {
        &self.replication
    }

    /// The control plane: bucket types, bucket properties, layout.
    #[must_use]
    pub fn control(&self) -> &Arc<ControlPlane> {
        &self.local.control
    }

    /// Counters and latency histograms of this store.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.local.stats
    }

    /// Figures since the start and of the last minute, those of the engine included.
    #[must_use]
    pub fn figures(&self) -> StatsSnapshot {
        self.local.figures()
    }

    /// Keeps the present figures, so that later ones can tell of the last minute; call it once a second.
    pub fn sample_figures(&self) {
        self.local.stats.follow_indexes(|| self.local.engine.index_activity());
        self.local.stats.sample();
    }

    /// The slowest requests, the largest objects, the hottest keys.
    #[must_use]
    pub fn request_log(&self) -> &RequestLog {
        &self.coordinator.request_log
    }

    /// Says how the room of the disk that holds the data is found out; once, when the node is put together.
    pub fn set_room_of_disk(&self, ask: impl Fn() -> Option<DiskRoom> + Send + Sync + 'static) {
        self.local.set_room_of_disk(ask);
    }

    /// The room of the disk that holds the data; `None` where nothing tells. A system call.
    #[must_use]
    pub fn room_of_disk(&self) -> Option<DiskRoom> {
        self.local.room_of_disk()
    }

    /// The settings, for operators.
    #[must_use]
    pub fn settings(&self) -> &StoreSettings {
        &self.local.settings
    }

    /// The storage engine, for figures and operators.
    #[must_use]
    pub fn engine(&self) -> &dyn Engine {
        &*self.local.engine
    }

    /// The clock of the node.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.local.clock
    }

    /// A key that no other record has: made from an event of this store.
    ///
    /// # Errors
    ///
    /// When events can't be made durable.
    pub fn generate_key(&self) -> Result<Bytes, RequestError> {
        let dot = self.local.dots.issue(0)?;
        Ok(make_vtag(&dot, GENERATED_KEY_SALT))
    }

    /// Answers other nodes' requests on this node's copies from now on, for as long as the store lives.
    pub fn serve_replicas(self: &Arc<Self>) {
        let service = Arc::new(StoreService { store: Arc::downgrade(self) });
        self.local.internode.register(METHOD_FIRST..=METHOD_LAST, service);
    }

    /// Reaps tombstones, keeps hints and hands over what belongs to other nodes, until the task is dropped.
    pub async fn run_background(self: Arc<Self>) {
        let reaper = Arc::clone(&self.reaper).run();
        let hints = Arc::clone(&self.missed).run();
        let anti_entropy = Arc::clone(&self.anti_entropy).run();
        let replication = Arc::clone(&self.replication).run();
        let changes = Arc::clone(&self.change_feeds).run();
        let trees = Arc::clone(&self.riak_trees).run();
        let transfers = Arc::clone(&self.transfers).run();
        tokio::join!(biased; reaper, hints, anti_entropy, replication, changes, trees, transfers);
    }
}
