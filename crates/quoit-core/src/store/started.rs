//! Continuation of reads that have begun and have to wait.

use super::ReplicatedStore;
use crate::coordinator::data_type::FetchedDataType;
use crate::coordinator::started::StartedRead;
use crate::error::RequestError;
use quoit_model::object::Object;

impl ReplicatedStore {
    /// Continues a read as [`ReplicatedStore::get`] would do it. Reads this node's copy from the disk if
    /// need be, and takes the answers of the replicas that were asked. No replica is asked again for the
    /// same data, unless the topology has changed. The timeout of the request counts from this call.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::get`].
    pub async fn finish_get(&self, started: StartedRead) -> Result<Option<Object>, RequestError> {
        self.coordinator.finish_get(started).await
    }

    /// As [`ReplicatedStore::finish_get`], for a read of a data type. The result is that of
    /// [`ReplicatedStore::fetch_data_type`].
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::get`].
    pub async fn finish_fetch(
        &self,
        started: StartedRead,
    ) -> Result<Option<FetchedDataType>, RequestError> {
        self.coordinator.finish_fetch(started).await
    }

    /// As [`ReplicatedStore::size_bytes_max`], for a read that has begun.
    #[must_use]
    pub fn size_bytes_max_of(&self, started: &StartedRead) -> Option<u64> {
        self.coordinator.size_bytes_max_of(started)
    }
}
