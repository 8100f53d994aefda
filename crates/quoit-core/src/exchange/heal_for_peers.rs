//! Heals the damaged records that are noted by their names ([`crate::healing`]): a read of all replicas heals
//! them.

use super::AntiEntropy;
use crate::options::ReadOptions;
use crate::placement::{object_props, record_at};
use bytes::Bytes;
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use std::sync::Arc;

impl AntiEntropy {
    /// Heals noted records one after another, until the task is dropped.
    pub(crate) async fn run_healing(self: Arc<Self>) {
        loop {
            match self.healing.first() {
                None => self.healing.changed.notified().await,
                Some(key) => {
                    self.heal_noted(&key).await;
                    self.healing.forget(&key);
                }
            }
        }
    }

    async fn heal_noted(self: &Arc<Self>, encoded: &Bytes) {
        let Ok(key) = KeyRef::decode(encoded) else { return };
        let all = ReadOptions {
            r: Some(Quorum::All),
            sloppy_quorum: Some(false),
            ..ReadOptions::default()
        };
        match self.coordinator.get(key, &all).await {
            Ok(_) => tracing::debug!("a damaged record was read from all replicas"),
            // At debug level: the damage itself was logged before, and a client that repeats its request
            // must not fill the log.
            Err(fault) => tracing::debug!(%fault, "a damaged record could not be healed"),
        }
        let state = self.local.control.read();
        let is_voter = object_props(&state, key.bucket).is_ok_and(|props| {
            self.replica.is_one_of_several(&record_at(&state, props, key, encoded))
        });
        if !is_voter {
            self.healing.end_replacing(encoded);
        }
    }
}
