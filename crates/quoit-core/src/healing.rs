//! Records whose damage another node's request has shown: this node reads them again from all replicas, which
//! replaces its own copy.
//!
//! The node that asked can't do it. It gets no version from here, so it does not know that there is anything
//! to repair, and a read of all replicas fails for as long as the copy is damaged.

use crate::options::ReadOptions;
use crate::store::ReplicatedStore;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Notify;

/// Records that wait to be healed, at most. One that finds no room is noted again by the next request for it.
const NOTED_COUNT_MAX: usize = 1_024;

/// Damaged records that wait to be healed, by their encoded names.
#[derive(Default)]
pub(crate) struct Healing {
    noted: Mutex<BTreeSet<Bytes>>,
    changed: Notify,
    /// Told when the engine has met damage.
    pub(crate) met: Notify,
}

impl Healing {
    /// Notes a record that could not be read for another node.
    pub(crate) fn note(&self, key: Bytes) {
        let mut noted = self.noted.lock();
        if noted.len() < NOTED_COUNT_MAX && noted.insert(key) {
            self.changed.notify_one();
        }
    }

    fn first(&self) -> Option<Bytes> {
        self.noted.lock().first().cloned()
    }

    fn forget(&self, key: &Bytes) {
        self.noted.lock().remove(key);
    }
}

impl ReplicatedStore {
    /// Heals noted records one after the other, until the task is dropped.
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
            // The damage itself has been told. A client that goes on asking must not fill the log.
            Err(fault) => tracing::debug!(%fault, "a damaged record could not be healed"),
        }
    }
}
