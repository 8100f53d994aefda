//! The MapReduce jobs of a node: how many there may be, which there are, and what ends them.

mod end;
mod registry;

pub(crate) use end::JobEnd;
pub use registry::Jobs;
pub(crate) use registry::{JobEntry, Place};

use quoit_script::ScriptLimits;

/// Bounds of MapReduce jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapReduceSettings {
    /// Jobs that run at once (`mapreduce.jobs.maximum`); further ones wait.
    pub job_count_max: usize,
    /// Memory in bytes of what a job keeps between its phases (`mapreduce.job.maximum_memory`).
    pub job_memory_bytes_max: usize,
    /// Limits of scripts; `None`: jobs with scripts are refused (`mapreduce.javascript`).
    pub javascript: Option<ScriptLimits>,
}

impl Default for MapReduceSettings {
    fn default() -> Self {
        Self { job_count_max: 16, job_memory_bytes_max: 64 << 20, javascript: None }
    }
}
