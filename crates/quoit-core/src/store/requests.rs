//! Reads and writes of objects and data types.

use super::ReplicatedStore;
use crate::coordinator::data_type::{DataTypeRequest, FetchedDataType, ItemSink, StreamOutcome};
use crate::coordinator::put::{DeleteOutcome, DeleteRequest, PutRequest};
use crate::error::RequestError;
use crate::options::ReadOptions;
use quoit_model::data_type::{Answer, Question};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;

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
    pub async fn delete(&self, request: DeleteRequest<'_>) -> Result<DeleteOutcome, RequestError> {
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
}
