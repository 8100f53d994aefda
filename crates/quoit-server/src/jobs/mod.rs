//! The MapReduce jobs of a node: their limits, the running ones, and the reasons why they end early.

mod end;
mod registry;

pub(crate) use end::JobEnd;
pub use registry::Jobs;
pub(crate) use registry::{JobEntry, JobSlot};

use quoit_script::ScriptLimits;

/// Limits of MapReduce jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapReduceSettings {
    /// Number of jobs that may run at once (`mapreduce.jobs.maximum`). Further jobs wait.
    pub job_count_max: usize,
    /// Memory in bytes that a job may hold between its phases (`mapreduce.job.maximum_memory`).
    pub job_memory_bytes_max: usize,
    /// Limits of scripts; `None` if jobs with scripts are refused (`mapreduce.javascript`).
    pub javascript: Option<ScriptLimits>,
}

impl Default for MapReduceSettings {
    fn default() -> Self {
        Self { job_count_max: 16, job_memory_bytes_max: 64 << 20, javascript: None }
    }
}
