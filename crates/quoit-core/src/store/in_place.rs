//! Reads and writes that the connection begins itself, without a task of their own.

use super::ReplicatedStore;
use crate::coordinator::confirm::{Confirmation, UnconfirmedRead};
use crate::coordinator::in_place::{Pending, PlainWrite, ReadInPlace, ShownObject};
use crate::error::RequestError;
use crate::options::ReadOptions;
use quoit_model::key::KeyRef;

impl ReplicatedStore {
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
    ) -> Result<Option<ReadInPlace<T>>, RequestError> {
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
}
