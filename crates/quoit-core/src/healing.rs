//! Records that this node could not read for another node because its copy is damaged. It reads each from
//! all replicas, which replaces its own copy.
//!
//! The node that asked can't do this: it gets no version from here, so it does not know what to repair,
//! and its own read of all replicas would fail as long as the copy is damaged.

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use tokio::sync::Notify;

/// Largest number of records that wait to be healed. While that many wait, further records are not noted; the
/// next request for such a record notes it.
const NOTED_COUNT_MAX: usize = 1_024;

/// Encoded names of the damaged records that wait to be healed.
#[derive(Default)]
pub(crate) struct Healing {
    noted: Mutex<BTreeSet<Bytes>>,
    /// Wakes the task that heals noted records.
    pub(crate) changed: Notify,
    /// Notified when the engine has met damaged records.
    pub(crate) met: Notify,
}

impl Healing {
    /// Notes a record that this node could not read for another node.
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
