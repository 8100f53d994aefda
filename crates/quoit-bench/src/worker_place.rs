//! The position of a worker among the workers of a run.

/// The number of a worker and the number of all workers. Targets, key partitions and seeds depend on both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerPlace {
    /// The worker's number, from 1.
    pub number: u32,
    /// Number of workers in the run.
    pub count: u32,
}
