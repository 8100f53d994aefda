//! Storing objects that were made elsewhere.

use super::ReplicatedStore;
use crate::coordinator::imported::{BegunBatch, ImportedInPlace, ImportedObject, PendingBatch};
use crate::error::RequestError;
use quoit_model::key::KeyRef;
use quoit_model::object::Object;

impl ReplicatedStore {
    /// First step of storing a batch of objects that were made elsewhere. On a node that is alone, writes
    /// together all those under whose names nothing is stored yet. Leaves the others to the caller. Yields to
    /// other tasks in between.
    pub async fn begin_import(&self, objects: Vec<ImportedObject>) -> BegunBatch {
        self.coordinator.begin_import(objects).await
    }

    /// Waits until the objects of a batch are synced to disk.
    ///
    /// # Errors
    ///
    /// [`RequestError::Timeout`], or a failure of the disk. The objects may still be stored.
    pub async fn finish_import(&self, pending: &PendingBatch) -> Result<(), RequestError> {
        self.coordinator.finish_import(pending).await
    }

    /// Merges an object that was made elsewhere with the stored one, as a put of
    /// [`PutRequest::given`](crate::PutRequest::given) does, if this node is alone; declines otherwise. A
    /// caller with many objects appends all of them to the log before it waits, so that they share one sync.
    /// Reads the stored object from disk if need be.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::put`].
    pub fn put_imported_in_place(
        &self,
        key: KeyRef<'_>,
        object: Object,
    ) -> Result<ImportedInPlace, RequestError> {
        self.coordinator.put_imported_in_place(key, object)
    }
}
