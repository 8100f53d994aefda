//! Heals damaged records that this node could not read for other nodes ([`crate::healing`]).
//!
//! Their names are known, unlike those of records that verification meets, so a read of all replicas heals
//! them.

use super::AntiEntropy;
use crate::options::ReadOptions;
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
    }
}
