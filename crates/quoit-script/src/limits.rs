//! Resource limits of scripts.

use std::time::Duration;

/// Limits of the scripts on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScriptLimits {
    /// Maximum time of one call (`mapreduce.javascript.call_timeout`).
    pub call_time_max: Duration,
    /// Maximum total time of all calls of a job, in all of its sessions
    /// (`mapreduce.javascript.job_timeout`).
    pub job_time_max: Duration,
    /// Maximum memory in bytes of the scripts of a job, in all of its sessions
    /// (`mapreduce.javascript.maximum_memory`).
    pub memory_bytes_max: usize,
    /// Maximum memory in bytes of the scripts of all jobs (`mapreduce.javascript.jobs.maximum_memory`).
    pub jobs_memory_bytes_max: usize,
    /// Maximum size in bytes of the outputs of one batch of calls (`mapreduce.javascript.maximum_output`).
    pub output_bytes_max: usize,
}

impl Default for ScriptLimits {
    fn default() -> Self {
        Self {
            call_time_max: Duration::from_secs(5),
            job_time_max: Duration::from_secs(60),
            memory_bytes_max: 64 << 20,
            jobs_memory_bytes_max: 256 << 20,
            output_bytes_max: 16 << 20,
        }
    }
}
