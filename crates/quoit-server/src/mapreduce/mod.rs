//! MapReduce jobs of this node's clients: how many there may be, how far they are, and what ends them.
//!
//! Both protocols read a job, have it [begun](begin), and ask the [`RunningJob`] for outputs until there are
//! no more. Operators see the [`Jobs`] and may stop one.

mod fault;
mod registry;
pub(crate) mod rights;
mod running;

pub(crate) use fault::JobEnd;
pub(crate) use registry::JobEntry;
pub use registry::Jobs;
pub(crate) use running::{RunningJob, begin, read_job};

use quoit_script::ScriptLimits;

/// Bounds of MapReduce jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapReduceSettings {
    /// Jobs that run at once (`mapreduce.jobs.maximum`); further ones are refused.
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
