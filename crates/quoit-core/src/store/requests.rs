//! Requests on single records: the coordinator answers them.

use super::ReplicatedStore;
use crate::coordinator::confirm::Unconfirmed;
use crate::coordinator::data_type::{DataTypeRequest, FetchedDataType, ItemSink};
use crate::coordinator::given::{BegunBatch, GivenInPlace, GivenObject, PendingBatch};
use crate::coordinator::in_flight::AdmittedRequests;
use crate::coordinator::in_place::{Pending, PlainWrite, ShownInPlace, ShownObject};
use crate::coordinator::put::{DeleteRequest, Deleted, PutRequest};
use crate::error::RequestError;
use crate::options::ReadOptions;
use quoit_model::data_type::{Answer, Question};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;

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

    /// Whether the replicas that a read has asked have what was shown. False also when that can't be found
    /// out soon; the read is made by [`ReplicatedStore::get`] then.
    pub async fn confirm_read(&self, unconfirmed: Unconfirmed) -> bool {
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
}
