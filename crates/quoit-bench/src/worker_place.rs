//! The position of a worker among the workers of a run.

/// The number of a worker and the number of all workers. Targets, key partitions and seeds depend on both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerPlace {
    /// The worker's number, from 1.
    pub number: u32,
    /// Number of workers in the run.
    pub count: u32,
}

impl WorkerPlace {
    /// The item of a list that this worker uses throughout. Workers take the items in turn. There must be an
    /// item.
    #[expect(clippy::indexing_slicing, reason = "a remainder is below the number of items")]
    pub(crate) fn choose<T>(self, items: &[T]) -> &T {
        &items[self.number as usize % items.len()]
    }
}
