//! [`ReplicatedStore`], which the client protocols call. Each method hands its request to one part.

mod builder;
mod service;
mod started;

pub use builder::StoreBuilder;

use crate::changes::ChangeFeeds;
use crate::coordinator::Coordinator;
use crate::coordinator::confirm::{Confirmation, UnconfirmedRead};
use crate::coordinator::data_type::{DataTypeRequest, FetchedDataType, ItemSink, StreamOutcome};
use crate::coordinator::imported::{BegunBatch, ImportedInPlace, ImportedObject, PendingBatch};
use crate::coordinator::in_flight::AdmittedRequests;
use crate::coordinator::in_place::{Pending, PlainWrite, ShownInPlace, ShownObject};
use crate::coordinator::put::{DeleteRequest, Deleted, PutRequest};
use crate::delivery::RecordDelivery;
use crate::error::RequestError;
use crate::exchange::AntiEntropy;
use crate::folds::Folds;
use crate::grants::Grants;
use crate::hints::HintRecorder;
use crate::jobs::Jobs;
use crate::listing::Listings;
use crate::local_node::{DiskSpace, LocalNode};
use crate::losses::LossRecovery;
use crate::options::ReadOptions;
use crate::preflist::PreflistEntry;
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
use quoit_cluster::{ControlPlane, Internode};
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

/// Stands in for a record's identity in the hash that makes generated keys, so that a generated key
/// differs from the entity tag of the same event.
const GENERATED_KEY_SALT: u64 = 0x6B65_7973;

/// The store of one node, a facade over its parts. The fields are in order of dependency: a part uses
/// only parts that come before it. All connections share one store; every method takes `&self`.
pub struct ReplicatedStore {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    missed: Arc<HintRecorder>,
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
    delivery: Arc<RecordDelivery>,
    anti_entropy: Arc<AntiEntropy>,
    transfers: Arc<Transfers>,
    losses: Arc<LossRecovery>,
    reaper: Arc<Reaper>,
    replication: Arc<Replication>,
}

impl ReplicatedStore {
    /// Reads an object with the quorums of `options`. `None` if nothing is stored. A deleted record is
    /// returned as a tombstone; the protocols decide what to show of it.
    ///
    /// On a node that is alone this costs two look-ups (bucket properties, index) and one positioned
    /// read; the request waits only if the page cache can't serve the read. In a cluster it asks as many
    /// replicas as the read's quorums need.
    ///
    /// # Errors
    ///
    /// [`RequestError::Overload`] if too many reads are under way; invalid names, unknown bucket types,
    /// quorums that can't be met, timeouts, and failures of the storage engine.
    pub async fn get(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
    ) -> Result<Option<Object>, RequestError> {
        self.coordinator.get(key, options).await
    }

    /// Upper bound on the stored size of this node's copy of an object, in bytes, so that a caller can
    /// reserve memory before it reads; `None` if it is not known. Costs one look-up in the index, and may
    /// read the record's head.
    #[must_use]
    pub fn size_bytes_max(&self, key: KeyRef<'_>) -> Option<u64> {
        self.coordinator.size_bytes_max(key)
    }

    /// Writes a value. Returns the object after the write if the request asks for it.
    ///
    /// The answer comes when enough replicas have accepted the write (w, pw) and synced it (dw). A node that
    /// is not a replica of the record forwards the write to one that is.
    ///
    /// # Errors
    ///
    /// [`RequestError::Overload`] if too many writes are under way; invalid names, unknown bucket types,
    /// quorums and conditions that are not met, limits on objects, timeouts, and failures of the storage
    /// engine. A write whose quorum was not met, or that timed out, may still be stored on some replicas.
    pub fn put(
        &self,
        request: PutRequest<'_>,
    ) -> impl Future<Output = Result<Option<Object>, RequestError>> {
        let mut request = request;
        // The future of an async function would hold its argument twice.
        async move { self.coordinator.put(&mut request).await }
    }

    /// Deletes a record by writing a tombstone, which is reaped later ([`DeleteMode`](crate::DeleteMode)).
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::put`].
    pub async fn delete(&self, request: DeleteRequest<'_>) -> Result<Deleted, RequestError> {
        self.coordinator.delete(&request).await
    }

    /// Reads a data type. `None` if the record does not exist, is deleted, or holds no data type.
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

    /// Applies an operation to a data type, and creates the data type if the record does not exist.
    /// Returns the value after the operation if the request asks for it.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::put`]; operations that do not fit the bucket's data type, contexts of other
    /// records, and removes without a context of something that does not exist.
    pub async fn update_data_type(
        &self,
        request: DataTypeRequest<'_>,
    ) -> Result<Option<FetchedDataType>, RequestError> {
        self.coordinator.update_data_type(&request).await
    }

    /// Answers a question about a data type, or about a set or map in one of its fields, without reading
    /// all of it where possible: its size, whether it has an element, one field, or a range of its
    /// elements. `None` if the data type or the field does not exist.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::get`], and if the question does not suit the data type.
    pub async fn query_data_type(
        &self,
        key: KeyRef<'_>,
        question: &Question,
        options: &ReadOptions,
    ) -> Result<Option<Answer>, RequestError> {
        self.coordinator.query_data_type(key, question, options).await
    }

    /// Reads a large set or map into a sink, page by page, if this node's copy is in pages and counts, and
    /// if the other replicas that the read needs have the same copy.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::get`].
    pub async fn stream_items(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
        sink: &mut (dyn ItemSink + Send),
    ) -> Result<StreamOutcome, RequestError> {
        self.coordinator.stream_items(key, options, sink).await
    }

    /// Waits for the other replicas of a read whose local copy was already shown, and reports whether
    /// they have the same object. If a replica has another version, fails or is late, the read continues
    /// as in [`ReplicatedStore::get`]: it merges and repairs the versions and returns the merged object.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::get`].
    pub async fn confirm_read(
        &self,
        unconfirmed: UnconfirmedRead,
    ) -> Result<Confirmation, RequestError> {
        self.coordinator.confirm_read(unconfirmed).await
    }

    /// First step of storing a batch of objects that were made elsewhere. On a node that is alone, writes
    /// together all those under whose names nothing is stored yet. Leaves the others to the caller. Yields to
    /// other tasks in between.
    pub async fn begin_given(&self, objects: Vec<ImportedObject>) -> BegunBatch {
        self.coordinator.begin_given(objects).await
    }

    /// Waits until the objects of a batch are synced to disk.
    ///
    /// # Errors
    ///
    /// [`RequestError::Timeout`], or a failure of the disk. The objects may still be stored.
    pub async fn finish_given(&self, pending: &PendingBatch) -> Result<(), RequestError> {
        self.coordinator.finish_given(pending).await
    }

    /// Merges an object that was made elsewhere with the stored one, as a put of [`PutRequest::given`] does,
    /// if this node is alone; declines otherwise. A caller with many objects appends all of them to the log
    /// before it waits, so that they share one sync. Reads the stored object from disk if need be.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::put`].
    pub fn put_given_in_place(
        &self,
        key: KeyRef<'_>,
        object: Object,
    ) -> Result<ImportedInPlace, RequestError> {
        self.coordinator.put_given_in_place(key, object)
    }

    /// Passes this node's copy of an object to `show` (`None` if nothing is stored) and returns the
    /// result of `show`. Returns `None` if this node has no copy that counts, or if the read can't begin
    /// with the fewest replicas; the caller then uses [`ReplicatedStore::get`].
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

    /// Writes a plain value that becomes the only value of its record. Returns `None`, without having written
    /// anything, if siblings would remain, if the stored object is not plain or must be read from disk, or if
    /// another node has to coordinate the write. The caller then uses [`ReplicatedStore::put`].
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::put`].
    pub fn put_in_place(&self, write: &PlainWrite<'_>) -> Result<Option<Pending>, RequestError> {
        self.coordinator.put_in_place(write)
    }

    /// Waits until the quorums of a write are met. On a node that is alone this waits for the sync, and
    /// not at all if `dw` is 0.
    ///
    /// # Errors
    ///
    /// [`RequestError::Timeout`], or the quorum that is not met. The write may still be stored.
    pub async fn finish(&self, pending: Pending) -> Result<(), RequestError> {
        self.coordinator.finish(pending).await
    }

    /// Number of requests under way that wait for a disk or for other nodes.
    #[must_use]
    pub fn active(&self) -> AdmittedRequests {
        self.coordinator.active()
    }

    /// The preference list of a key as clients see it: for each position, the node that answers for it now.
    ///
    /// # Errors
    ///
    /// Invalid names and unknown bucket types.
    pub fn preflist(&self, key: KeyRef<'_>) -> Result<Vec<PreflistEntry>, RequestError> {
        self.local.preflist(key)
    }

    /// Version vector of the tombstone that was reaped under a name; `None` if this node has no reap
    /// record of it. A record that the node stores under that name has seen the tombstone, except in
    /// buckets with last_write_wins.
    ///
    /// # Errors
    ///
    /// Names that can't be decoded, and failures of the disk.
    pub fn reaped_clock(
        &self,
        encoded: &[u8],
        partition: Partition,
    ) -> Result<Option<VersionVector>, RequestError> {
        self.replica.reaped_clock(encoded, partition)
    }

    /// Sets whether this node consumes replication queues of other clusters.
    pub fn set_consumes(&self, consumes: bool) {
        self.hook.set_consumes(consumes);
    }

    /// Writes pending hints to disk. Call it before the process ends.
    ///
    /// # Errors
    ///
    /// Failures of the disk.
    pub fn flush_hints(&self) -> Result<(), StoreError> {
        self.missed.flush()
    }

    /// Number and size of the reap records.
    #[must_use]
    pub fn reap_record_stats(&self) -> ReapRecordStats {
        self.replica.reap_records.stats()
    }

    /// Recovers from a loss of records before the node serves requests. Waits until the cluster agrees on the
    /// loss and enough nodes with complete copies serve. Returns the number of records that were dropped.
    ///
    /// # Errors
    ///
    /// Failures of the disk.
    pub async fn mark_loss_repaired(&self) -> Result<u64, RequestError> {
        self.losses.mark_loss_repaired().await
    }

    /// True if reap records were lost, so that deleted records could come back. The node then has to
    /// recover as a store that has lost records ([`ReplicatedStore::mark_loss_repaired`]).
    #[must_use]
    pub fn has_lost_reap_records(&self) -> bool {
        !self.replica.reap_records.lost().is_empty()
    }

    /// Writes to disk where the files of reap records end. Call it before the process ends.
    ///
    /// # Errors
    ///
    /// Failures of the disk.
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

    /// The connections with the other nodes of the cluster.
    #[must_use]
    pub fn internode(&self) -> &Arc<Internode> {
        &self.local.internode
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

    /// Figures since the start and for the last minute, including those of the engine.
    #[must_use]
    pub fn figures(&self) -> StatsSnapshot {
        self.local.figures()
    }

    /// Samples the figures for those of the last minute. Call it once a second.
    pub fn sample_figures(&self) {
        self.local.stats.follow_indexes(|| self.local.engine.index_activity());
        self.local.stats.sample();
    }

    /// The slowest requests, the largest objects, the hottest keys.
    #[must_use]
    pub fn request_log(&self) -> &RequestLog {
        &self.coordinator.request_log
    }

    /// Sets the function that measures the disk of the data. Later calls have no effect.
    pub fn set_room_of_disk(&self, ask: impl Fn() -> Option<DiskSpace> + Send + Sync + 'static) {
        self.local.set_room_of_disk(ask);
    }

    /// Free and total bytes of the disk that holds the data; `None` if they are not known. Costs a system
    /// call.
    #[must_use]
    pub fn disk_space(&self) -> Option<DiskSpace> {
        self.local.disk_space()
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

    /// Makes a key that no other record has, from an event of this store.
    ///
    /// # Errors
    ///
    /// Failures of the disk, if the event counter can't be made durable.
    pub fn generate_key(&self) -> Result<Bytes, RequestError> {
        let dot = self.local.dots.issue(0)?;
        Ok(make_vtag(&dot, GENERATED_KEY_SALT))
    }

    /// Registers this store with the transport, which from then on delivers other nodes' requests to it
    /// for as long as the store lives.
    pub fn serve_replicas(self: &Arc<Self>) {
        let service = Arc::new(StoreService { store: Arc::downgrade(self) });
        self.local.internode.register(METHOD_FIRST..=METHOD_LAST, service);
    }

    /// Runs the background work until the task is dropped: removal of tombstones, hints, anti-entropy,
    /// replication, change feeds, Riak's trees, and transfers.
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
