//! Damaged records that this node heals by name: it reads each from all replicas, which replaces its own
//! copy.
//!
//! Records are noted here for two reasons:
//!
//! - This node could not read its copy for another node. The node that asked can't heal it: it gets no
//!   version from here, so it does not know what to repair, and its own read of all replicas would fail as
//!   long as the copy is damaged.
//! - A write has replaced the damaged copy. The damaged copy may have had values that were acknowledged
//!   because it had them, and that the write did not bring. So the new copy has no vote in reads until all
//!   other replicas were asked, as if it were still damaged: a majority of replicas that counted it might
//!   miss an acknowledged value. Only this process remembers that; after a restart the copy votes.

use bytes::Bytes;
use parking_lot::Mutex;
use quoit_store::engine::RecordAt;
use quoit_store::error::StoreError;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Largest number of records that wait to be healed. While that many wait, further records are not noted; the
/// next request for such a record notes it.
const NOTED_COUNT_MAX: usize = 1_024;

/// Largest number of replaced copies that have no vote. While there are that many, further damaged copies are
/// not replaced by writes.
const REPLACED_COUNT_MAX: usize = 16_384;

/// Encoded names of the records that wait to be healed.
#[derive(Default)]
pub(crate) struct Healing {
    noted: Mutex<BTreeSet<Bytes>>,
    /// Records whose damaged copy a write has replaced.
    replaced: Mutex<BTreeSet<Bytes>>,
    /// Number of names in `replaced`, so that a read of any other record costs one load while there are
    /// none.
    replaced_count: AtomicUsize,
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

    /// Takes the vote from a damaged copy that a write is about to replace, and notes the record for
    /// healing. Returns false if there are too many such copies, so that this one must not be replaced.
    pub(crate) fn begin_replacing(&self, name: &[u8]) -> bool {
        let name = Bytes::copy_from_slice(name);
        let mut replaced = self.replaced.lock();
        if replaced.len() >= REPLACED_COUNT_MAX && !replaced.contains(&name) {
            return false;
        }
        replaced.insert(name.clone());
        self.replaced_count.store(replaced.len(), Ordering::Release);
        drop(replaced);
        self.note(name);
        true
    }

    /// True if a write has replaced this node's damaged copy of a record, and not all other replicas were
    /// asked since.
    #[inline]
    pub(crate) fn is_replaced(&self, name: &[u8]) -> bool {
        self.replaced_count.load(Ordering::Acquire) != 0 && self.replaced.lock().contains(name)
    }

    /// Fails for a copy that [`Healing::is_replaced`] describes, as its damage did.
    pub(crate) fn check_vote(&self, at: &RecordAt<'_>) -> Result<(), StoreError> {
        if !self.is_replaced(at.encoded) {
            return Ok(());
        }
        Err(StoreError::Corrupt {
            path: "this node's copy".to_owned(),
            offset: 0,
            reason:
                "a write replaced the damaged record, and not all other replicas were asked yet"
                    .to_owned(),
        })
    }

    /// Gives a copy its vote back: it includes what all other replicas have.
    pub(crate) fn end_replacing(&self, name: &[u8]) {
        let mut replaced = self.replaced.lock();
        replaced.remove(name);
        self.replaced_count.store(replaced.len(), Ordering::Release);
    }

    /// Notes again the copies without a vote whose replicas could not all be asked.
    pub(crate) fn retry_replaced(&self) {
        let names: Vec<_> = self.replaced.lock().iter().take(NOTED_COUNT_MAX).cloned().collect();
        names.into_iter().for_each(|name| self.note(name));
    }
}
