//! The file of the tree, which is created when it is first needed.

use super::INDEXES_NAME;
use crate::error::StoreError;
use crate::ordered::{
    OrderedStore, PendingWrites, Space, StoreStatistics, TreeFile, TreeSettings, TreeStore, VisitFn,
};
use bytes::Bytes;
use parking_lot::RwLock;
use quoit_seam::Disk;
use std::sync::Arc;

/// Size of the tree's page cache in bytes.
const CACHE_BYTES: u64 = 64 << 20;

const FILE: TreeFile = TreeFile { name: INDEXES_NAME, quick_repair: true, repair: None };

/// A tree that is empty until it is opened.
pub(super) struct LazyTree {
    disk: Arc<dyn Disk>,
    tree: RwLock<Option<Arc<TreeStore>>>,
}

impl LazyTree {
    pub(super) const fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, tree: RwLock::new(None) }
    }

    pub(super) fn is_open(&self) -> bool {
        self.tree.read().as_ref().is_some_and(|tree| tree.is_open())
    }

    /// Opens or creates the file. Called by one thread at a time.
    pub(super) fn open(&self) -> Result<(), StoreError> {
        if let Some(tree) = self.opened() {
            return tree.reopen_if_closed();
        }
        let settings =
            TreeSettings { cache_bytes: CACHE_BYTES, disk_free_bytes_min: 0, ..Default::default() };
        let tree = TreeStore::open(Arc::clone(&self.disk), FILE, settings)?;
        *self.tree.write() = Some(Arc::new(tree));
        Ok(())
    }

    /// Removes the file. The tree is empty then.
    pub(super) fn remove(&self) -> Result<(), StoreError> {
        // A query that still reads the removed file keeps it open until it ends.
        self.tree.write().take();
        TreeStore::remove(&*self.disk, FILE)
    }

    fn opened(&self) -> Option<Arc<TreeStore>> {
        self.tree.read().clone()
    }
}

impl OrderedStore for Arc<LazyTree> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.opened().map_or(Ok(None), |tree| tree.get(space, key))
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut VisitFn<'_>) -> Result<(), StoreError> {
        self.opened().map_or(Ok(()), |tree| tree.scan(space, from, visit))
    }

    fn apply(&self, batch: &PendingWrites) -> Result<(), StoreError> {
        self.opened().ok_or(StoreError::Closed)?.apply(batch)
    }

    fn is_durable_when_applied(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn key_bytes_max(&self) -> usize {
        self.opened().map_or(usize::MAX, |tree| tree.key_bytes_max())
    }

    fn figures(&self) -> StoreStatistics {
        self.opened().map_or_else(StoreStatistics::default, |tree| tree.figures())
    }
}
