//! Which of the workers of a run this is.

/// The number of a worker and of all workers. Targets, key partitions and seeds depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerPlace {
    /// The worker's number, from 1.
    pub number: u32,
    /// How many workers the run has.
    pub count: u32,
}
