//! Records whose damage another node's request has shown: this node reads them again from all replicas, which
//! replaces its own copy.
//!
//! The node that asked can't do it. It gets no version from here, so it does not know that there is anything
//! to repair, and a read of all replicas fails for as long as the copy is damaged.

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use tokio::sync::Notify;

/// Records that wait to be healed, at most. One that finds no room is noted again by the next request for it.
const NOTED_COUNT_MAX: usize = 1_024;

/// Damaged records that wait to be healed, by their encoded names.
#[derive(Default)]
pub(crate) struct Healing {
    noted: Mutex<BTreeSet<Bytes>>,
    pub(crate) changed: Notify,
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

    pub(crate) fn first(&self) -> Option<Bytes> {
        self.noted.lock().first().cloned()
    }

    pub(crate) fn forget(&self, key: &Bytes) {
        self.noted.lock().remove(key);
    }
}
