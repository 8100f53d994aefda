//! Records that this node heals by name: damaged ones, and copies that have replaced damaged ones.
//!
//! They are noted here for two reasons:
//!
//! - This node could not read its copy for another node. The node that asked can't heal it: it gets no
//!   version from here, so it does not know what to repair, and its own read of all replicas would fail as
//!   long as the copy is damaged.
//! - A write has replaced the damaged copy. The damaged copy may have had values that were acknowledged
//!   because it had them, and that the write did not bring. So the new copy has no vote in reads until all
//!   other replicas have answered, as if it were still damaged: a majority of replicas that counted it might
//!   miss an acknowledged value. Only this process remembers that; after a restart the copy votes.

use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::Partition;
use quoit_store::engine::RecordAt;
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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
    replaced: Mutex<BTreeMap<Bytes, (Partition, Tag)>>,
    /// Number of names in `replaced`, so that a read of any other record costs one load while there are
    /// none.
    replaced_count: AtomicUsize,
    /// Number of times that a write has replaced a damaged copy.
    replacement_count: AtomicU64,
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
    /// healing. Fails if there are too many such copies, so that this one must not be replaced.
    pub(crate) fn begin_replacing(&self, at: &RecordAt<'_>) -> Result<(), StoreError> {
        let name = Bytes::copy_from_slice(at.encoded);
        let mut replaced = self.replaced.lock();
        if replaced.len() >= REPLACED_COUNT_MAX && !replaced.contains_key(&name) {
            return Err(without_vote(
                "the record is damaged, and too many others wait to be healed",
            ));
        }
        replaced.insert(name.clone(), (at.partition, Tag::of(at.identity)));
        self.replaced_count.store(replaced.len(), Ordering::Release);
        self.replacement_count.fetch_add(1, Ordering::Release);
        drop(replaced);
        self.note(name);
        Ok(())
    }

    /// True if a write has replaced this node's damaged copy of a record, and not all other replicas have
    /// answered since.
    #[inline]
    pub(crate) fn is_replaced(&self, name: &[u8]) -> bool {
        self.replaced_count.load(Ordering::Acquire) != 0 && self.replaced.lock().contains_key(name)
    }

    /// Fails for a copy that [`Healing::is_replaced`] describes, as its damage did.
    #[inline]
    pub(crate) fn check_vote(&self, at: &RecordAt<'_>) -> Result<(), StoreError> {
        match self.is_replaced(at.encoded) {
            false => Ok(()),
            true => Err(without_vote(
                "a write replaced the damaged record, and not all other replicas have answered yet",
            )),
        }
    }

    /// Reads this node's copy by `read` if the copy has a vote before and afterwards: a write may replace
    /// the damaged copy in the meantime.
    #[inline]
    pub(crate) fn with_vote<T>(
        &self,
        at: &RecordAt<'_>,
        read: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.check_vote(at)?;
        let found = read()?;
        self.check_vote(at)?;
        Ok(found)
    }

    /// Gives a copy its vote back: it includes what all other replicas have.
    pub(crate) fn end_replacing(&self, name: &[u8]) {
        let mut replaced = self.replaced.lock();
        replaced.remove(name);
        self.replaced_count.store(replaced.len(), Ordering::Release);
    }

    /// Number of times that a write has replaced a damaged copy, so that a caller can tell whether one did
    /// between two calls.
    pub(crate) fn replacement_count(&self) -> u64 {
        self.replacement_count.load(Ordering::Acquire)
    }

    /// The copies without a vote, by partition, with their names and tags.
    pub(crate) fn all_replaced(&self) -> BTreeMap<Partition, Vec<(Bytes, Tag)>> {
        let mut by_partition: BTreeMap<Partition, Vec<(Bytes, Tag)>> = BTreeMap::new();
        for (name, (partition, tag)) in self.replaced.lock().iter() {
            by_partition.entry(*partition).or_default().push((name.clone(), *tag));
        }
        by_partition
    }

    /// The copies of a partition that have no vote, with their names and tags.
    pub(crate) fn replaced_in(&self, partition: Partition) -> Vec<(Bytes, Tag)> {
        let replaced = self.replaced.lock();
        let inside = replaced.iter().filter(|(_, (other, _))| *other == partition);
        inside.map(|(name, (_, tag))| (name.clone(), *tag)).collect()
    }
}

/// The error of a copy that must not be counted.
#[cold]
fn without_vote(reason: &str) -> StoreError {
    StoreError::Corrupt {
        path: "this node's copy".to_owned(),
        offset: 0,
        reason: reason.to_owned(),
    }
}
