//! Files records under another n_val class when the n_val of their bucket has changed since they were
//! written.
//!
//! Each class has a digest of its own. If two nodes file a record under different classes, both classes
//! differ in every exchange, although the copies are equal. Walks and exchanges that read a record anyway
//! therefore correct its class.

use super::RecordDelivery;
use crate::placement::PlacedKey;
use bytes::Bytes;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_store::engine::RecordMeta;
use quoit_store::error::StoreError;

impl RecordDelivery {
    /// Files a record under the class of its bucket's present n_val.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(crate) fn refile(
        &self,
        partition: Partition,
        key: &Bytes,
        n_val_class: u8,
    ) -> Result<(), StoreError> {
        let class = {
            let state = self.local.control.read();
            let key = KeyRef::decode(key).ok();
            let props = key.and_then(|key| state.bucket_props(key.bucket).ok());
            props.map_or(n_val_class, |props| RecordMeta::class_of(props.n_val))
        };
        if class == n_val_class {
            return Ok(());
        }
        let Ok(place) = PlacedKey::new(key, partition) else { return Ok(()) };
        self.local.records.refile(&place.at(), class)
    }
}
